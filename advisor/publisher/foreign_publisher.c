#include "advisor/publisher/foreign_publisher.h"

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

/* What is missing, if anything is, is behind what was applied. */
static void
ask_newest(struct advisor_publisher *publisher, uint64_t now_ms)
{
    publisher->range_to = ADVISOR_FOREIGN_TO_NEWEST;
    start(publisher, ADVISOR_RESYNC_RANGE, now_ms);
}

/* What was asked for is there.  True: and nothing else was lost meanwhile. */
static bool
settle_range(struct advisor_publisher *publisher, uint64_t now_ms)
{
    const bool missed = publisher->missed;

    settle(publisher);
    publisher->leapt = false;
    if (missed)
        ask_newest(publisher, now_ms);
    return !missed;
}

/* In doubt, without knowing of anything that is missing. */
static bool
may_miss_nothing(const struct advisor_publisher *publisher)
{
    return publisher->resync == ADVISOR_RESYNC_RANGE &&
           publisher->range_to == ADVISOR_FOREIGN_TO_NEWEST;
}

/* Certain, whatever was given up before. */
static void
absolve(struct advisor_publisher *publisher)
{
    settle(publisher);
    publisher->leapt = false;
    publisher->foreign.lost = 0;
    publisher->foreign.revived = 0;
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
    advisor_seen_events_vouch(&publisher->seen, 0);
    publisher->row.gone = 0;
    publisher->row.gen++;
    publisher->foreign.floor = publisher->row.gen;
    publisher->rebase = false;
    publisher->away = false;
    publisher->after_dump = false;
}

/* Numbers begin with 0, or with 1 where events have them. */
static uint64_t
first_max(const struct advisor_publisher *publisher)
{
    return publisher->foreign.messages != 0 ? 1 : 2;
}

/* Is it a late word of one that is gone, or one that was heard before? */
static bool
is_late_word(const struct advisor_publisher *publisher, const struct advisor_mark *mark)
{
    const bool same = mark->life != 0 && mark->life == publisher->foreign.life;

    return publisher->row.gone != 0 && !mark->new_life && mark->number != 0 &&
           mark->number <= publisher->row.last_seq &&
           (same || (mark->life == 0 && mark->number > first_max(publisher)));
}

/* It was not heard for a while, and its messages come in order: has it begun anew? */
static bool
went_back(struct advisor_publisher *publisher, const struct advisor_mark *mark)
{
    if (!publisher->away || mark->held || mark->number == 0)
        return false;
    if (mark->life != 0 && mark->life == publisher->foreign.life) {
        publisher->away = false;
        return false;
    }
    return mark->number <= publisher->row.last_seq;
}

/* Which life speaks?  False: a former one, late. */
static bool
see_life(struct advisor_publisher *publisher, const struct advisor_mark *mark,
         struct advisor_foreign_step *step)
{
    struct advisor_foreign_row *row = &publisher->foreign;
    const bool was_gone = publisher->row.gone != 0;

    if (mark->life != 0 && mark->life == row->former && mark->life != row->life)
        return false;
    if (is_late_word(publisher, mark))
        return false;
    if (mark->new_life || was_gone || went_back(publisher, mark) ||
        (mark->life != 0 && row->life != 0 && mark->life != row->life)) {
        /* The first message of all may well say that it is the first. */
        step->renewed = row->met != 0 || was_gone;
        renew(publisher, mark->life);
        row->revived = was_gone && mark->number > first_max(publisher) ? 1 : 0;
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
    publisher->foreign.met = 1;
    changed(publisher);
    publisher->row.last_seq = 0;
    if (mark->number <= first_max(publisher)) {
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
    const bool nothing_known = may_miss_nothing(publisher);

    step->gap = true;
    step->verdict = ADVISOR_SEE_HOLD;
    publisher->row.gaps++;
    miss(publisher, mark, step);
    changed(publisher);
    if (publisher->foreign.lost == 0) {
        if (publisher->resync == ADVISOR_RESYNC_NONE)
            start(publisher, ADVISOR_RESYNC_RANGE, now_ms);
        if (nothing_known)
            publisher->doubt_ms = now_ms == 0 ? 1 : now_ms; /* only now it is known */
        publisher->probing = false;
        publisher->mute = false;
        return;
    }
    publisher->leapt = true;
    publisher->leapt_from = publisher->row.last_seq;
    publisher->row.last_seq = mark->number - 1; /* it is uncertain for good anyway */
    step->verdict = ADVISOR_SEE_APPLY;
}

/* The very next one. */
static void
see_next(struct advisor_publisher *publisher, uint64_t now_ms, struct advisor_foreign_step *step)
{
    step->verdict = ADVISOR_SEE_APPLY;
    publisher->after_dump = false;
    if (publisher->resync != ADVISOR_RESYNC_RANGE)
        return;
    if (publisher->range_to != ADVISOR_FOREIGN_TO_NEWEST &&
        publisher->row.last_seq + 1 < publisher->range_to)
        return;
    step->certain = settle_range(publisher, now_ms);
}

/* Whatever is missing in front of it is void, if its number is true. */
static void
see_clear(struct advisor_publisher *publisher, const struct advisor_mark *mark)
{
    const uint64_t next =
        publisher->foreign.met == 0 ? first_max(publisher) : publisher->row.last_seq + 1;

    absolve(publisher);
    publisher->foreign.met = 1;
    publisher->away = false;
    publisher->cleared_far = mark->number > next;
    publisher->leapt_from = publisher->row.last_seq;
    publisher->row.last_seq = mark->number - 1;
    publisher->rebase = false;
}

/* A number of those that were left out before: the one that left them out lied. */
static void
see_lie(struct advisor_publisher *publisher, uint64_t now_ms)
{
    publisher->leapt = false;
    publisher->row.last_seq = publisher->leapt_from;
    changed(publisher);
    if (publisher->foreign.lost != 0)
        publisher->rebase = true;
    else if (publisher->foreign.messages != 0)
        advisor_foreign_lose(publisher, "its numbers went back");
    else
        advisor_foreign_want_dump(publisher, now_ms);
}

/* It may have begun anew before this message: held back until it has vouched for the last one. */
static void
see_stranger(struct advisor_publisher *publisher, const struct advisor_mark *mark, uint64_t now_ms,
             struct advisor_foreign_step *step)
{
    const bool fresh = publisher->resync != ADVISOR_RESYNC_RANGE ||
                       publisher->range_to == ADVISOR_FOREIGN_TO_NEWEST;

    step->verdict = ADVISOR_SEE_HOLD;
    if (!fresh || publisher->held_count > 0)
        return;
    step->gap = mark->number > publisher->row.last_seq + 1;
    publisher->row.gaps += step->gap ? 1 : 0;
    if (publisher->resync == ADVISOR_RESYNC_NONE)
        start(publisher, ADVISOR_RESYNC_RANGE, now_ms);
    publisher->doubt_ms = now_ms == 0 ? 1 : now_ms; /* only now it is urgent */
    publisher->probing = false;
    publisher->mute = false;
    miss(publisher, mark, step);
    changed(publisher);
}

/* A number that was applied comes again.  Answers repeat what is known, and are not compared. */
static void
see_again(struct advisor_publisher *publisher, const struct advisor_mark *mark, uint64_t now_ms,
          struct advisor_foreign_step *step)
{
    if (mark->held || mark->digest == 0 || mark->number <= publisher->seen.vouched ||
        advisor_seen_events_compare_digest(&publisher->seen, mark->number, mark->digest) !=
            ADVISOR_SEEN_OTHER)
        return;
    step->conflict = true;
    advisor_seen_events_count(&publisher->seen, 1);
    changed(publisher);
    if (publisher->foreign.lost != 0)
        return; /* it is uncertain for good already */
    if (publisher->foreign.messages != 0)
        advisor_foreign_lose(publisher, "two messages had one number: somebody else sends as it");
    else if (publisher->row.need_dump == 0)
        advisor_foreign_want_dump(publisher, now_ms);
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
        see_clear(publisher, mark);
        step.verdict = ADVISOR_SEE_APPLY;
        return step;
    }
    if (publisher->foreign.met == 0)
        meet(publisher, mark, now_ms, &step);
    if (mark->number <= *last && publisher->leapt && !mark->held &&
        mark->number > publisher->leapt_from)
        see_lie(publisher, now_ms);
    if (mark->number <= *last) {
        see_again(publisher, mark, now_ms, &step);
        return step;
    }
    if (publisher->away && publisher->foreign.lost == 0 && !mark->held) {
        see_stranger(publisher, mark, now_ms, &step);
        return step;
    }
    if (publisher->rebase) {
        publisher->rebase = false;
        publisher->row.last_seq = mark->number - 1;
        advisor_seen_events_vouch(&publisher->seen, mark->number - 1);
    }
    if (mark->number == *last + 1 && publisher->resync != ADVISOR_RESYNC_DUMP &&
        publisher->row.need_dump == 0) {
        see_next(publisher, now_ms, &step);
        return step;
    }
    if (mark->held && publisher->after_dump) {
        /* It was there before the dump, which does not know it: its number is a lie, or others are
         * missing in front of it.  It is asked what is behind the dump, and all that waits is in
         * that, or nowhere. */
        if (publisher->resync == ADVISOR_RESYNC_NONE) {
            advisor_publisher_unhold_all(publisher);
            ask_newest(publisher, now_ms);
        }
        return step;
    }
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
    if (publisher->cleared_far) {
        /* Is there such a number?  Nothing that is true would fit behind a lie. */
        publisher->cleared_far = false;
        publisher->leapt = true;
        advisor_foreign_doubt(publisher, publisher->heard_ms);
    }
}

void
advisor_foreign_doubt(struct advisor_publisher *publisher, uint64_t now_ms)
{
    if (publisher->row.gone != 0 || publisher->foreign.met == 0 || publisher->foreign.lost != 0)
        return;
    if (advisor_publisher_uncertain(publisher)) {
        if (publisher->probing)
            publisher->doubt_ms = now_ms == 0 ? 1 : now_ms;
        publisher->probing = false;
        publisher->row.doubted = 1;
        changed(publisher);
        /* What is asked for already may not be all of it. */
        if (publisher->asked || !may_miss_nothing(publisher))
            publisher->missed = true;
        return;
    }
    /* Who was met late, and never told us what was before, has numbers as well. */
    if (publisher->row.last_seq == 0 && publisher->row.doubted == 0) {
        advisor_foreign_lose(publisher, "messages may be missing, and they have no numbers");
        return;
    }
    ask_newest(publisher, now_ms);
}

void
advisor_foreign_unheard(struct advisor_publisher *publisher, uint64_t now_ms)
{
    publisher->away = publisher->foreign.messages != 0 && publisher->row.last_seq != 0;
    advisor_foreign_doubt(publisher, now_ms);
}

void
advisor_foreign_vouched(struct advisor_publisher *publisher)
{
    publisher->away = false;
}

void
advisor_foreign_renewed(struct advisor_publisher *publisher, uint64_t now_ms)
{
    renew(publisher, 0);
    publisher->foreign.met = 1;
    ask_newest(publisher, now_ms);
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
    publisher->cleared_far = false;
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
    publisher->away = false;
    publisher->cleared_far = false;
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
    if (publisher->resync == ADVISOR_RESYNC_DUMP)
        publisher->missed = false; /* what was dropped before is in it */
    /* With the last one that was heard, where it must be vouched for. */
    *question = (struct advisor_question){
        .what = publisher->resync,
        .incarnation = publisher->foreign.life,
        .from = publisher->resync == ADVISOR_RESYNC_RANGE
                    ? row->last_seq + (publisher->away ? 0 : 1)
                    : 0,
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
advisor_foreign_told_begin(struct advisor_publisher *publisher, uint64_t now_ms)
{
    publisher->row.gone = 0;
    start(publisher, ADVISOR_RESYNC_DUMP, now_ms);
    publisher->asked = true;
    advisor_foreign_dump_begin(publisher);
}

void
advisor_foreign_dump_end(struct advisor_publisher *publisher, uint64_t number)
{
    const bool missed = publisher->missed;
    const uint64_t since_ms = publisher->doubt_ms;

    absolve(publisher);
    publisher->foreign.met = 1;
    publisher->answered = true;
    publisher->rebase = number == 0;
    publisher->after_dump = number != 0;
    if (number != 0) {
        publisher->row.last_seq = number; /* also backwards: it is asked what is behind it */
        advisor_seen_events_vouch(&publisher->seen, number);
    }
    changed(publisher);
    if (!missed)
        return;
    if (number != 0) {
        ask_newest(publisher, since_ms);
        return;
    }
    /* Where it ends is not known, so neither is whether it has what was dropped. */
    publisher->row.need_dump = 1;
    start(publisher, ADVISOR_RESYNC_DUMP, since_ms);
    advisor_publisher_back_off(publisher, "too many messages came while it answered",
                               publisher->heard_ms);
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
    (void)settle_range(publisher, now_ms);
    return true;
}

void
advisor_foreign_want_dump(struct advisor_publisher *publisher, uint64_t now_ms)
{
    const uint64_t since_ms = publisher->doubt_ms == 0 ? now_ms : publisher->doubt_ms;

    publisher->row.need_dump = 1;
    start(publisher, ADVISOR_RESYNC_DUMP, since_ms);
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
    if (publisher->probing && why == KVT_AGAIN) {
        settle(publisher);
        publisher->heard_ms = now_ms; /* that it lives is all that was asked */
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
    if (publisher->foreign.revived != 0 && publisher->foreign.lost != 0)
        return true; /* late words of one that was gone, and nobody vouches for it */
    if (publisher->probing && publisher->failures >= FAILURES_MAX)
        return true;
    if (publisher->resync == ADVISOR_RESYNC_NONE && publisher->row.last_seq != 0 &&
        publisher->foreign.lost == 0) {
        advisor_foreign_doubt(publisher, now_ms);
        publisher->probing = publisher->resync != ADVISOR_RESYNC_NONE;
        publisher->row.doubted = 0; /* silence is no reason to doubt it after a restart */
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
