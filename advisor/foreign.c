#include "advisor/foreign.h"

#include <stdio.h>

enum { FAILURES_MAX = 3 }; /* questions without an answer until a silent worker is gone */

static void
changed(struct advisor_publisher *publisher)
{
    publisher->dirty = true;
    publisher->shown = false;
}

static void
start(struct advisor_publisher *publisher, enum advisor_resync what, uint64_t now_ms)
{
    advisor_publisher_start(publisher, what);
    publisher->doubt_ms = now_ms == 0 ? 1 : now_ms;
    publisher->mute = false;
    publisher->probing = false;
}

static void
settle(struct advisor_publisher *publisher)
{
    advisor_publisher_settle(publisher);
    publisher->row.need_dump = 0;
    publisher->dump_incarnation = 0;
    publisher->doubt_ms = 0;
    publisher->mute = false;
    publisher->probing = false;
}

/* Certain, whatever was given up before. */
static void
absolve(struct advisor_publisher *publisher)
{
    settle(publisher);
    publisher->foreign.lost = 0;
    publisher->foreign.reason[0] = '\0';
}

static void
renew(struct advisor_publisher *publisher, uint64_t life)
{
    absolve(publisher);
    if (life != 0 && publisher->foreign.life != 0)
        publisher->foreign.former = publisher->foreign.life;
    publisher->foreign.life = life;
    publisher->foreign.met = 0;
    publisher->foreign.groups_full = 0;
    publisher->foreign.groups_partial = 0;
    publisher->row.incarnation++;
    publisher->row.last_seq = 0;
    publisher->row.gone = 0;
    publisher->row.gen++;
    publisher->foreign.floor = publisher->row.gen;
    publisher->rebase = false;
}

/* Which life speaks?  False: a former one, late. */
static bool
see_life(struct advisor_publisher *publisher, const struct advisor_mark *mark,
         struct advisor_foreign_step *step)
{
    struct advisor_foreign_row *row = &publisher->foreign;

    if (mark->life != 0 && mark->life == row->former && mark->life != row->life)
        return false;
    if (mark->new_life || publisher->row.gone != 0 ||
        (mark->life != 0 && row->life != 0 && mark->life != row->life)) {
        /* The first message of all may well say that it is the first. */
        step->renewed = row->met != 0 || publisher->row.gone != 0;
        renew(publisher, mark->life);
    }
    if (mark->life != 0 && row->life == 0) {
        row->life = mark->life;
        changed(publisher);
    }
    return true;
}

static void
miss(struct advisor_publisher *publisher, const struct advisor_mark *mark,
     struct advisor_foreign_step *step)
{
    step->first_missing = publisher->row.last_seq + 1;
    step->last_missing = mark->number - 1;
    publisher->range_to = mark->number - 1;
}

/* The first number we hear of.  Events are numbered from 0 or from 1 on, messages from 0 on. */
static void
meet(struct advisor_publisher *publisher, const struct advisor_mark *mark, uint64_t now_ms,
     struct advisor_foreign_step *step)
{
    const uint64_t first_max = publisher->foreign.messages != 0 ? 1 : 2;

    publisher->foreign.met = 1;
    changed(publisher);
    publisher->row.last_seq = 0;
    if (mark->number <= first_max) {
        publisher->row.last_seq = mark->number - 1;
        return;
    }
    step->late = true;
    miss(publisher, mark, step);
    publisher->row.need_dump = publisher->foreign.messages != 0 ? 0 : 1;
    start(publisher, publisher->foreign.messages != 0 ? ADVISOR_RESYNC_RANGE : ADVISOR_RESYNC_DUMP,
          now_ms);
}

static void
see_gap(struct advisor_publisher *publisher, const struct advisor_mark *mark, uint64_t now_ms,
        struct advisor_foreign_step *step)
{
    step->gap = true;
    step->verdict = ADVISOR_SEE_HOLD;
    publisher->row.gaps++;
    miss(publisher, mark, step);
    changed(publisher);
    if (publisher->foreign.lost == 0) {
        if (publisher->resync == ADVISOR_RESYNC_NONE)
            start(publisher, ADVISOR_RESYNC_RANGE, now_ms);
        if (publisher->probing)
            publisher->doubt_ms = now_ms; /* only now it is known */
        publisher->probing = false;
        publisher->mute = false;
        return;
    }
    publisher->row.last_seq = mark->number - 1; /* it is uncertain for good anyway */
    step->verdict = ADVISOR_SEE_APPLY;
}

/* The very next one. */
static void
see_next(struct advisor_publisher *publisher, struct advisor_foreign_step *step)
{
    step->verdict = ADVISOR_SEE_APPLY;
    publisher->after_dump = false;
    if (publisher->resync != ADVISOR_RESYNC_RANGE)
        return;
    if (publisher->range_to != ADVISOR_FOREIGN_TO_NEWEST &&
        publisher->row.last_seq + 1 < publisher->range_to)
        return;
    settle(publisher);
    step->certain = true;
}

struct advisor_foreign_step
advisor_foreign_see(struct advisor_publisher *publisher, const struct advisor_mark *mark,
                    uint64_t now_ms)
{
    struct advisor_foreign_step step = {.verdict = ADVISOR_SEE_DROP};
    const uint64_t *last = &publisher->row.last_seq;

    publisher->heard_ms = now_ms;
    publisher->silent = false;
    if (publisher->resync == ADVISOR_RESYNC_NONE)
        publisher->mute = false;
    if (!see_life(publisher, mark, &step))
        return step;
    if (mark->number == 0) {
        publisher->foreign.met = 1;
        step.verdict = ADVISOR_SEE_APPLY;
        return step;
    }
    if (mark->clears && (publisher->foreign.met == 0 || mark->number > *last)) {
        /* Whatever is missing, it is void. */
        absolve(publisher);
        publisher->foreign.met = 1;
        publisher->row.last_seq = mark->number - 1;
        publisher->rebase = false;
        step.verdict = ADVISOR_SEE_APPLY;
        return step;
    }
    if (publisher->foreign.met == 0)
        meet(publisher, mark, now_ms, &step);
    if (mark->number <= *last)
        return step;
    if (publisher->rebase) {
        publisher->rebase = false;
        publisher->row.last_seq = mark->number - 1;
    }
    if (mark->number == *last + 1 && publisher->resync != ADVISOR_RESYNC_DUMP &&
        publisher->row.need_dump == 0) {
        see_next(publisher, &step);
        return step;
    }
    if (mark->held && publisher->after_dump)
        return step; /* it was there before the dump, which does not know it: its number is a lie */
    step.verdict = ADVISOR_SEE_HOLD;
    if (!mark->held && publisher->held_count > 0)
        return step; /* behind those that wait already */
    if (publisher->row.need_dump != 0 || publisher->resync == ADVISOR_RESYNC_DUMP)
        return step;
    if (publisher->resync == ADVISOR_RESYNC_NONE ||
        publisher->range_to == ADVISOR_FOREIGN_TO_NEWEST)
        see_gap(publisher, mark, now_ms, &step);
    return step;
}

void
advisor_foreign_applied(struct advisor_publisher *publisher, uint64_t number, uint64_t time_ms)
{
    if (number > publisher->row.last_seq)
        publisher->row.last_seq = number;
    if (time_ms > publisher->row.last_event_ms)
        publisher->row.last_event_ms = time_ms;
    changed(publisher);
}

void
advisor_foreign_doubt(struct advisor_publisher *publisher, uint64_t now_ms)
{
    if (publisher->row.gone != 0 || publisher->foreign.met == 0 || publisher->foreign.lost != 0 ||
        advisor_publisher_uncertain(publisher))
        return;
    if (publisher->row.last_seq == 0) {
        advisor_foreign_lose(publisher, "messages may be missing, and they have no numbers");
        return;
    }
    publisher->range_to = ADVISOR_FOREIGN_TO_NEWEST;
    start(publisher, ADVISOR_RESYNC_RANGE, now_ms);
}

void
advisor_foreign_cleared(struct advisor_publisher *publisher)
{
    absolve(publisher);
    publisher->row.gen++; /* what is stored from here on is not meant */
    publisher->foreign.floor = publisher->row.gen;
    changed(publisher);
}

void
advisor_foreign_lose(struct advisor_publisher *publisher, const char *reason)
{
    settle(publisher);
    publisher->rebase = true;
    publisher->foreign.lost = 1;
    (void)snprintf(publisher->foreign.reason, sizeof(publisher->foreign.reason), "%s", reason);
    (void)snprintf(publisher->error, sizeof(publisher->error), "%s", reason);
    changed(publisher);
}

void
advisor_foreign_leave(struct advisor_publisher *publisher)
{
    absolve(publisher);
    advisor_publisher_leave(publisher);
    publisher->foreign.met = 0;
    publisher->foreign.floor = publisher->row.gen;
    publisher->rebase = false;
}

/* ---- asking ---- */

bool
advisor_foreign_question(struct advisor_publisher *publisher, uint64_t now_ms,
                         struct advisor_question *question)
{
    const struct advisor_publisher_row *row = &publisher->row;

    if (row->gone != 0)
        return false;
    if (row->need_dump != 0 && publisher->resync == ADVISOR_RESYNC_NONE)
        start(publisher, ADVISOR_RESYNC_DUMP, now_ms); /* unfinished when the program ended */
    if (publisher->resync == ADVISOR_RESYNC_NONE || publisher->asked || publisher->mute ||
        now_ms < publisher->retry_at_ms)
        return false;
    *question = (struct advisor_question){
        .what = publisher->resync,
        .incarnation = publisher->foreign.life,
        .from = publisher->resync == ADVISOR_RESYNC_RANGE ? row->last_seq + 1 : 0,
        .to = publisher->range_to,
    };
    return true;
}

void
advisor_foreign_dump_begin(struct advisor_publisher *publisher)
{
    publisher->row.need_dump = 1;
    publisher->row.gen++;
    publisher->foreign.floor = publisher->row.gen;
    publisher->dump_incarnation = 1;
    changed(publisher);
}

void
advisor_foreign_dump_end(struct advisor_publisher *publisher, uint64_t number)
{
    absolve(publisher);
    publisher->foreign.met = 1;
    publisher->answered = true;
    publisher->rebase = number == 0;
    publisher->after_dump = number != 0;
    if (number != 0)
        publisher->row.last_seq = number; /* also backwards: it is asked what is behind it */
    changed(publisher);
}

bool
advisor_foreign_ranged(struct advisor_publisher *publisher, uint64_t now_ms)
{
    publisher->answered = true;
    publisher->heard_ms = now_ms;
    publisher->silent = false;
    if (publisher->resync == ADVISOR_RESYNC_NONE)
        return true;
    if (publisher->range_to != ADVISOR_FOREIGN_TO_NEWEST &&
        publisher->row.last_seq < publisher->range_to)
        return false;
    settle(publisher);
    return true;
}

void
advisor_foreign_want_dump(struct advisor_publisher *publisher, uint64_t now_ms)
{
    const uint64_t since_ms = publisher->doubt_ms == 0 ? now_ms : publisher->doubt_ms;

    publisher->row.need_dump = 1;
    start(publisher, ADVISOR_RESYNC_DUMP, since_ms);
}

/* In doubt, without knowing of anything that is missing. */
static bool
may_miss_nothing(const struct advisor_publisher *publisher)
{
    return publisher->resync == ADVISOR_RESYNC_RANGE &&
           publisher->range_to == ADVISOR_FOREIGN_TO_NEWEST;
}

bool
advisor_foreign_unanswered(struct advisor_publisher *publisher, enum kvt_err why, const char *text,
                           uint64_t now_ms, uint64_t give_up_after_ms)
{
    const bool range = publisher->resync == ADVISOR_RESYNC_RANGE;
    const bool nothing_known = may_miss_nothing(publisher);
    char reason[sizeof(publisher->foreign.reason)];

    publisher->asked = false;
    publisher->ask_number = 0;
    if (why == KVT_NOTFOUND && range && publisher->foreign.messages == 0) {
        advisor_foreign_want_dump(publisher, now_ms);
        return false;
    }
    if (publisher->probing && (why == KVT_UNSUPPORTED || !publisher->answered)) {
        settle(publisher);
        publisher->mute = true; /* silence says nothing of those who cannot be asked */
        return false;
    }
    if (why == KVT_UNSUPPORTED && nothing_known) {
        publisher->mute = true; /* its next number will tell */
        return false;
    }
    if (why == KVT_NOTFOUND || why == KVT_UNSUPPORTED ||
        (!nothing_known && now_ms >= publisher->doubt_ms + give_up_after_ms)) {
        (void)snprintf(reason, sizeof(reason), "%s: %s",
                       publisher->row.last_seq == 0 ? "joined late" : "events are missing", text);
        advisor_foreign_lose(publisher, reason);
        return true;
    }
    advisor_publisher_back_off(publisher, text, now_ms);
    return false;
}

/* Silence alone proves nothing, for an idle worker sends nothing at all: it is gone when it does
 * not answer either, and has done so before. */
static bool
is_gone(struct advisor_publisher *publisher, uint64_t now_ms, uint64_t quiet_ms,
        uint64_t gone_after_ms)
{
    if (quiet_ms < gone_after_ms || publisher->mute)
        return false;
    if (publisher->probing && publisher->failures >= FAILURES_MAX)
        return true;
    if (publisher->resync == ADVISOR_RESYNC_NONE && publisher->row.last_seq != 0 &&
        publisher->foreign.lost == 0) {
        advisor_foreign_doubt(publisher, now_ms);
        publisher->probing = publisher->resync != ADVISOR_RESYNC_NONE;
    }
    return false;
}

enum advisor_age
advisor_foreign_age(struct advisor_publisher *publisher, uint64_t now_ms,
                    const struct advisor_patience *patience, bool *gave_up)
{
    const uint64_t quiet_ms = now_ms > publisher->heard_ms ? now_ms - publisher->heard_ms : 0;

    *gave_up = false;
    if (publisher->row.gone != 0)
        return ADVISOR_AGE_FRESH;
    if (publisher->resync != ADVISOR_RESYNC_NONE && !publisher->asked &&
        !may_miss_nothing(publisher) && now_ms >= publisher->doubt_ms + patience->give_up_after_ms)
        *gave_up = advisor_foreign_unanswered(publisher, KVT_TIMEOUT, "nobody answers", now_ms,
                                              patience->give_up_after_ms);
    if (is_gone(publisher, now_ms, quiet_ms, patience->gone_after_ms))
        return ADVISOR_AGE_GONE;
    if (quiet_ms >= patience->silent_after_ms && !publisher->silent) {
        publisher->silent = true;
        publisher->shown = false;
        return ADVISOR_AGE_SILENT;
    }
    return ADVISOR_AGE_FRESH;
}
