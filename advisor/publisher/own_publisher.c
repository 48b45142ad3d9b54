#include "advisor/publisher/own_publisher.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* One denial may have crossed the message on its way. */
enum { DENIALS_BELIEVED = 2 };

static void
changed(struct advisor_publisher *publisher)
{
    publisher->dirty = true;
    publisher->shown = false;
}

void
advisor_publisher_start(struct advisor_publisher *publisher, enum advisor_resync what)
{
    publisher->resync = what;
    publisher->asked = false;
    publisher->ask_number = 0;
    publisher->retry_at_ms = 0;
    publisher->failures = 0;
    publisher->dump_cursor = 0;
    publisher->dump_incarnation = 0;
    publisher->row.resyncs++;
    publisher->row.doubted = 1;
    changed(publisher);
}

void
advisor_publisher_settle(struct advisor_publisher *publisher)
{
    publisher->resync = ADVISOR_RESYNC_NONE;
    publisher->asked = false;
    publisher->ask_number = 0;
    publisher->failures = 0;
    publisher->missed = false;
    publisher->row.doubted = 0;
    publisher->error[0] = '\0';
    changed(publisher);
}

static void
renew(struct advisor_publisher *publisher, const struct kvt_event_batch *batch,
      struct advisor_step *step)
{
    struct advisor_publisher_row *row = &publisher->row;

    step->renewed = true;
    step->replaced = row->incarnation != 0;
    row->incarnation = batch->incarnation;
    row->last_seq = 0;
    advisor_seen_events_vouch(&publisher->seen, 0);
    publisher->denials = 0;
    row->gone = 0;
    row->gen++;
    /* Who is first met in the middle, and a gateway that forgot its past, must be asked. */
    row->need_dump = batch->first_seq > 1 || (step->replaced && row->holds_g4) ? 1 : 0;
    advisor_publisher_settle(publisher);
}

/* A former life speaks.  Mostly it is a late message; but after a clock that stepped back it is the
 * one that lives, so now and then it is asked for. */
static bool
doubt_former(struct advisor_publisher *publisher, uint64_t now_ms)
{
    if (publisher->resync != ADVISOR_RESYNC_NONE || publisher->row.need_dump != 0)
        return false;
    if (publisher->former_ms != 0 && now_ms - publisher->former_ms < ADVISOR_RETRY_MAX_MS) {
        /* Where the later life has answered, the message is late.  Else the publisher is uncertain
         * at once, and is asked when it is time. */
        if (publisher->proven == publisher->row.incarnation)
            return false;
        publisher->row.gone = 0;
        advisor_publisher_refused(publisher, publisher->former_ms);
        return true;
    }
    publisher->former_ms = now_ms == 0 ? 1 : now_ms;
    if (publisher->row.gone != 0) {
        publisher->row.gone = 0;
        publisher->row.need_dump = 1;
        advisor_publisher_start(publisher, ADVISOR_RESYNC_DUMP);
    } else {
        advisor_publisher_doubt(publisher);
    }
    return true;
}

/* The publisher says that it has not sent all that was applied: mostly an old heartbeat. */
static bool
doubt_numbers(struct advisor_publisher *publisher, uint64_t first_seq, uint64_t now_ms)
{
    if (first_seq <= publisher->ranged || first_seq <= publisher->seen.vouched)
        return false;
    return doubt_former(publisher, now_ms);
}

/* All it has must be asked for: what was applied may be another's. */
static void
want_dump(struct advisor_publisher *publisher)
{
    publisher->row.gone = 0;
    publisher->row.need_dump = 1;
    changed(publisher);
    if (publisher->resync != ADVISOR_RESYNC_DUMP)
        advisor_publisher_start(publisher, ADVISOR_RESYNC_DUMP);
}

/* Numbers that were applied come again.  False: as they were. */
static bool
see_again(struct advisor_publisher *publisher, const struct kvt_event_batch *batch,
          uint32_t unknown, struct advisor_step *step)
{
    const uint64_t last = publisher->row.last_seq;

    switch (advisor_seen_events_compare(&publisher->seen, batch, unknown, publisher->seen.vouched,
                                        last)) {
    case ADVISOR_SEEN_SAME: return false;
    case ADVISOR_SEEN_OTHER: step->conflict = true; break;
    case ADVISOR_SEEN_UNKNOWN: step->unproven = true; break;
    }
    advisor_seen_events_count(&publisher->seen, step->conflict ? 1 : 0);
    want_dump(publisher);
    return true;
}

struct advisor_step
advisor_publisher_see(struct advisor_publisher *publisher, const struct kvt_event_batch *batch,
                      uint32_t unknown, uint64_t now_ms)
{
    struct advisor_publisher_row *row = &publisher->row;
    const uint64_t count = (uint64_t)batch->event_count + unknown;
    struct advisor_step step = {.verdict = ADVISOR_SEE_DROP};
    uint64_t next;

    if (batch->incarnation < row->incarnation) {
        step.duplicates = (uint32_t)count;
        step.former = doubt_former(publisher, now_ms);
        return step;
    }
    publisher->heard_ms = now_ms;
    publisher->silent = false;
    if (batch->incarnation > row->incarnation)
        renew(publisher, batch, &step);
    next = row->last_seq + 1;
    if (count == 0 && batch->first_seq < next)
        step.behind = doubt_numbers(publisher, batch->first_seq, now_ms);
    if (count > 0 && batch->first_seq + count <= next) {
        if (!see_again(publisher, batch, unknown, &step))
            step.duplicates = (uint32_t)count;
        return step; /* a dump that is asked for now has all of it */
    }
    if (count > 0 && batch->first_seq < next && see_again(publisher, batch, unknown, &step)) {
        step.verdict = ADVISOR_SEE_HOLD;
        return step;
    }
    if (row->gone != 0 && batch->first_seq >= next) {
        row->gone = 0;
        row->need_dump = 1;
        changed(publisher);
    }
    if (row->need_dump != 0 && publisher->resync != ADVISOR_RESYNC_DUMP)
        advisor_publisher_start(publisher, ADVISOR_RESYNC_DUMP);
    if (publisher->resync == ADVISOR_RESYNC_NONE && batch->first_seq > next &&
        publisher->denials >= DENIALS_BELIEVED) {
        /* Asked for what comes before this, it says there is nothing: a lie, then or now. */
        step.lie = true;
        publisher->denials = 0; /* the next one is asked for again: it may be true */
        return step;
    }
    if (publisher->resync == ADVISOR_RESYNC_NONE && batch->first_seq > next) {
        step.gap = true;
        row->gaps++;
        publisher->range_to = batch->first_seq - 1;
        advisor_publisher_start(publisher, ADVISOR_RESYNC_RANGE);
    }
    if (publisher->resync != ADVISOR_RESYNC_NONE) {
        step.verdict = count > 0 ? ADVISOR_SEE_HOLD : ADVISOR_SEE_DROP;
        return step;
    }
    if (count == 0)
        return step;
    assert(batch->first_seq <= next);
    step.duplicates = (uint32_t)(next - batch->first_seq);
    step.skip = step.duplicates;
    if (step.skip > 0 && unknown > 0) {
        /* Which of them the decoder left out is not known, so neither is where to begin. */
        row->need_dump = 1;
        advisor_publisher_start(publisher, ADVISOR_RESYNC_DUMP);
        step.verdict = ADVISOR_SEE_HOLD;
        return step;
    }
    step.verdict = ADVISOR_SEE_APPLY;
    return step;
}

void
advisor_publisher_applied(struct advisor_publisher *publisher, const struct kvt_event_batch *batch,
                          uint32_t unknown)
{
    struct advisor_publisher_row *row = &publisher->row;
    const uint64_t last = batch->first_seq + batch->event_count + unknown - 1;

    assert(last >= row->last_seq);
    advisor_seen_events_add(&publisher->seen, batch, unknown, row->last_seq + 1);
    row->last_seq = last;
    publisher->denials = 0;
    if (batch->time_ms > row->last_event_ms)
        row->last_event_ms = batch->time_ms;
    changed(publisher);
}

/* ---- held messages ---- */

bool
advisor_publisher_hold(struct advisor_publisher *publisher, struct advisor_inbox_item *item)
{
    struct advisor_inbox_item *kept = NULL;

    if (publisher->held_count < ADVISOR_HOLD_MESSAGES_MAX &&
        publisher->held_bytes + item->size <= ADVISOR_HOLD_BYTES_MAX)
        kept = advisor_inbox_item_keep(item);
    if (kept == NULL) {
        advisor_publisher_unhold_all(publisher);
        publisher->missed = true;
        advisor_inbox_item_free(item);
        return false;
    }
    item = kept;
    item->next = NULL;
    if (publisher->held_last == NULL)
        publisher->held_first = item;
    else
        publisher->held_last->next = item;
    publisher->held_last = item;
    publisher->held_count++;
    publisher->held_bytes += item->size;
    return true;
}

struct advisor_inbox_item *
advisor_publisher_unhold(struct advisor_publisher *publisher)
{
    struct advisor_inbox_item *item = publisher->held_first;

    if (item == NULL)
        return NULL;
    publisher->held_first = item->next;
    if (publisher->held_first == NULL)
        publisher->held_last = NULL;
    publisher->held_count--;
    publisher->held_bytes -= item->size;
    item->next = NULL;
    return item;
}

void
advisor_publisher_rehold(struct advisor_publisher *publisher, struct advisor_inbox_item *item)
{
    item->next = publisher->held_first;
    publisher->held_first = item;
    if (publisher->held_last == NULL)
        publisher->held_last = item;
    publisher->held_count++;
    publisher->held_bytes += item->size;
}

void
advisor_publisher_unhold_all(struct advisor_publisher *publisher)
{
    struct advisor_inbox_item *item = advisor_publisher_unhold(publisher);

    while (item != NULL) {
        advisor_inbox_item_free(item);
        item = advisor_publisher_unhold(publisher);
    }
}

void
advisor_publisher_doubt(struct advisor_publisher *publisher)
{
    if (publisher->row.gone != 0 || publisher->row.incarnation == 0)
        return;
    publisher->range_to = UINT64_MAX; /* also of a question that is out: it is not the last */
    if (publisher->resync != ADVISOR_RESYNC_NONE)
        return;
    advisor_publisher_start(publisher, ADVISOR_RESYNC_RANGE);
}

void
advisor_publisher_refused(struct advisor_publisher *publisher, uint64_t now_ms)
{
    publisher->row.need_dump = 1;
    publisher->pause_ms = now_ms + ADVISOR_RETRY_MAX_MS;
    changed(publisher);
}

/* ---- asking ---- */

bool
advisor_publisher_question(struct advisor_publisher *publisher, uint64_t now_ms,
                           struct advisor_question *question)
{
    const struct advisor_publisher_row *row = &publisher->row;

    if (row->gone != 0)
        return false;
    if (row->need_dump != 0 && publisher->resync == ADVISOR_RESYNC_NONE)
        advisor_publisher_start(publisher,
                                ADVISOR_RESYNC_DUMP); /* unfinished when the program ended */
    if (publisher->resync == ADVISOR_RESYNC_NONE || publisher->asked ||
        now_ms < publisher->retry_at_ms)
        return false;
    if (publisher->resync == ADVISOR_RESYNC_DUMP && publisher->dump_incarnation == 0 &&
        now_ms < publisher->pause_ms)
        return false;
    *question = (struct advisor_question){
        .what = publisher->resync,
        .incarnation = row->incarnation,
        .from = row->last_seq + 1,
        .to = publisher->range_to,
        .cursor = publisher->dump_cursor,
    };
    return true;
}

void
advisor_publisher_asked(struct advisor_publisher *publisher, uint64_t number)
{
    publisher->asked = true;
    publisher->ask_number = number;
}

static struct advisor_page_step
answer_range(struct advisor_publisher *publisher, const struct advisor_page *page)
{
    const struct kvt_event_batch *batch = page->batch;
    const uint64_t next = publisher->row.last_seq + 1;
    struct advisor_page_step step = {0};
    struct advisor_step seen = {.conflict = false};
    uint64_t end;

    if (page->status != KVT_OK || batch == NULL ||
        batch->incarnation != publisher->row.incarnation || batch->first_seq > next) {
        publisher->row.need_dump = 1;
        advisor_publisher_start(publisher, ADVISOR_RESYNC_DUMP);
        return step;
    }
    publisher->proven = batch->incarnation;
    end = batch->first_seq + batch->event_count + page->unknown;
    if (end < next ||
        (batch->first_seq < next && see_again(publisher, batch, page->unknown, &seen))) {
        /* It has not sent what was applied, or not so. */
        step.conflict = true;
        if (!seen.conflict)
            advisor_seen_events_count(&publisher->seen, 1);
        want_dump(publisher);
        return step;
    }
    if (end <= next) { /* it has no more than we do */
        if (publisher->range_to != UINT64_MAX)
            publisher->denials++;
        step.finished = true;
        return step;
    }
    if (batch->first_seq < next && page->unknown > 0) {
        publisher->row.need_dump = 1;
        advisor_publisher_start(publisher, ADVISOR_RESYNC_DUMP);
        return step;
    }
    step.apply = true;
    step.skip = (uint32_t)(next - batch->first_seq);
    step.finished = publisher->range_to != UINT64_MAX && end > publisher->range_to;
    return step;
}

void
advisor_publisher_back_off(struct advisor_publisher *publisher, const char *why, uint64_t now_ms)
{
    uint64_t wait_ms = ADVISOR_RETRY_MIN_MS;

    for (uint32_t i = 0; i < publisher->failures && wait_ms < ADVISOR_RETRY_MAX_MS; i++)
        wait_ms *= 2;
    if (wait_ms > ADVISOR_RETRY_MAX_MS)
        wait_ms = ADVISOR_RETRY_MAX_MS;
    publisher->failures++;
    publisher->retry_at_ms = now_ms + wait_ms;
    publisher->shown = false;
    (void)snprintf(publisher->error, sizeof(publisher->error), "%s", why);
}

static struct advisor_page_step
answer_dump(struct advisor_publisher *publisher, const struct advisor_page *page, uint64_t now_ms)
{
    const struct kvt_event_batch *batch = page->batch;
    struct advisor_publisher_row *row = &publisher->row;
    struct advisor_page_step step = {0};

    if (page->status != KVT_OK || batch == NULL || batch->incarnation == 0 ||
        (publisher->dump_incarnation != 0 && batch->incarnation != publisher->dump_incarnation)) {
        /* It lives anew, or forgot the snapshot: begin again, but not at once.  Two processes of
         * one name would be asked in a circle. */
        const uint32_t failures = publisher->failures;

        advisor_publisher_start(publisher, ADVISOR_RESYNC_DUMP);
        publisher->failures = failures;
        advisor_publisher_back_off(publisher, "the dump broke off", now_ms);
        return step;
    }
    if (publisher->dump_incarnation == 0) {
        step.fresh = true;
        step.replaced = batch->incarnation != row->incarnation;
        row->incarnation = batch->incarnation;
        publisher->proven = batch->incarnation;
        row->gen++;
        publisher->dump_incarnation = batch->incarnation;
        publisher->dump_seq = batch->first_seq;
        changed(publisher);
    }
    step.apply = true;
    step.sweep = page->next_cursor == 0;
    step.finished = step.sweep;
    /* A later page is progress; a first one alone is not: the next may be another life's. */
    if (!step.fresh)
        publisher->failures = 0;
    return step;
}

struct advisor_page_step
advisor_publisher_answer(struct advisor_publisher *publisher, const struct advisor_page *page,
                         uint64_t now_ms)
{
    assert(publisher->resync != ADVISOR_RESYNC_NONE && publisher->asked);
    publisher->asked = false;
    publisher->heard_ms = now_ms;
    publisher->silent = false;
    if (publisher->resync == ADVISOR_RESYNC_DUMP)
        return answer_dump(publisher, page, now_ms);
    publisher->failures = 0;
    return answer_range(publisher, page);
}

void
advisor_publisher_paged(struct advisor_publisher *publisher, const struct advisor_page *page,
                        const struct advisor_page_step *step)
{
    if (publisher->resync == ADVISOR_RESYNC_RANGE && step->apply) {
        advisor_publisher_applied(publisher, page->batch, page->unknown);
        publisher->ranged = publisher->row.last_seq;
    }
    if (publisher->resync == ADVISOR_RESYNC_DUMP && step->apply) {
        publisher->dump_cursor = page->next_cursor;
        if (page->batch->time_ms > publisher->row.last_event_ms)
            publisher->row.last_event_ms = page->batch->time_ms;
        if (step->finished) {
            /* Also backwards: what was applied beyond the snapshot is asked for again. */
            publisher->row.last_seq = publisher->dump_seq;
            publisher->ranged = 0;
            advisor_seen_events_vouch(&publisher->seen, publisher->dump_seq);
            publisher->row.need_dump = 0;
        }
        changed(publisher);
    }
    if (step->finished)
        advisor_publisher_settle(publisher);
}

void
advisor_publisher_unanswered(struct advisor_publisher *publisher, const char *why, uint64_t now_ms)
{
    if (!publisher->asked)
        return;
    publisher->asked = false;
    publisher->ask_number = 0;
    advisor_publisher_back_off(publisher, why, now_ms);
}

/* ---- time ---- */

enum advisor_age
advisor_publisher_age(struct advisor_publisher *publisher, uint64_t now_ms,
                      uint64_t silent_after_ms, uint64_t gone_after_ms)
{
    const uint64_t quiet_ms = now_ms > publisher->heard_ms ? now_ms - publisher->heard_ms : 0;

    if (publisher->row.gone != 0)
        return ADVISOR_AGE_FRESH;
    if (quiet_ms >= gone_after_ms) {
        /* Silence alone proves nothing: it is gone when it does not answer either. */
        if (publisher->failures > 0) {
            advisor_publisher_leave(publisher);
            return ADVISOR_AGE_GONE;
        }
        advisor_publisher_doubt(publisher);
    }
    if (quiet_ms >= silent_after_ms && !publisher->silent) {
        publisher->silent = true;
        publisher->shown = false;
        return ADVISOR_AGE_SILENT;
    }
    return ADVISOR_AGE_FRESH;
}

void
advisor_publisher_leave(struct advisor_publisher *publisher)
{
    advisor_publisher_settle(publisher);
    publisher->row.gone = 1;
    publisher->row.need_dump = 0;
    publisher->row.gen++;
    changed(publisher);
}

bool
advisor_publisher_uncertain(const struct advisor_publisher *publisher)
{
    return publisher->row.gone == 0 &&
           (publisher->resync != ADVISOR_RESYNC_NONE || publisher->row.need_dump != 0);
}

bool
advisor_publisher_doubtful(const struct advisor_publisher *publisher)
{
    return (advisor_publisher_uncertain(publisher) && !publisher->probing) ||
           (publisher->row.gone == 0 && publisher->is_foreign && publisher->foreign.lost != 0);
}
