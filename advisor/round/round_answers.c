#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner.h"
#include "advisor/publisher/foreign_publisher.h"
#include "advisor/round/outbox.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "wire/message/event_codec.h"
#include "wire/message/query.h"
#include "wire/message/subject.h"

enum { DUMP_PAGE = 4096, ASK_MAX = 64 };

/* ---- asking ---- */

/* A publisher may listen under its name as it is: each second try in a row is for that one. */
static enum kvt_err
write_subject(const struct advisor_publisher *publisher, const struct advisor_question *question,
              struct advisor_outbox_message *message)
{
    const enum wire_subject kind =
        question->what == ADVISOR_RESYNC_RANGE ? WIRE_SUBJECT_RANGE : WIRE_SUBJECT_DUMP;
    const char *worker = publisher->row.worker;
    const size_t size = sizeof(message->subject);

    if (publisher->failures % 2 == 1 &&
        wire_subject_bare(kind, message->subject, size, worker) == KVT_OK)
        return KVT_OK;
    return wire_subject_named(kind, message->subject, size, worker);
}

static enum kvt_err
write_question(const struct advisor_publisher *publisher, const struct advisor_question *question,
               struct advisor_outbox_message *message)
{
    const struct wire_query_range range = {question->incarnation, question->from, question->to};
    const struct wire_query_dump dump = {question->cursor, DUMP_PAGE};
    const enum kvt_err rc = write_subject(publisher, question, message);

    if (rc != KVT_OK)
        return rc;
    return question->what == ADVISOR_RESYNC_RANGE ? wire_query_encode_range(&range, &message->bytes)
                                                  : wire_query_encode_dump(&dump, &message->bytes);
}

/* KVTier's own worker is asked over NATS. */
static enum kvt_err
address_own(const struct advisor_publisher *publisher, const struct advisor_question *question,
            struct advisor_outbox_message **out)
{
    enum kvt_err rc = advisor_outbox_message_new(out, ADVISOR_OUTBOX_MESSAGE_ASK);

    return rc == KVT_OK ? write_question(publisher, question, *out) : rc;
}

/* Another system's is asked as its source knows how. */
static enum kvt_err
address_foreign(const struct advisor_round *round, const struct advisor_publisher *publisher,
                const struct advisor_question *question, struct advisor_outbox_message **out)
{
    const struct advisor_intake *intake =
        advisor_sources_by_number(round->feeds.sources, publisher->foreign.source);
    const bool newest =
        question->what != ADVISOR_RESYNC_RANGE || question->to == ADVISOR_FOREIGN_TO_NEWEST;
    enum kvt_err rc;

    *out = NULL;
    if (intake == NULL || intake->source == NULL)
        return KVT_UNAVAILABLE;
    rc = advisor_outbox_message_new(out, ADVISOR_OUTBOX_MESSAGE_FILL);
    if (rc != KVT_OK)
        return rc;
    (*out)->source = intake->source;
    (*out)->ask = (struct advisor_ask){
        .worker_id = publisher->foreign.worker_id,
        .incarnation = publisher->foreign.life,
        .from = question->from == 0 ? 0 : question->from - 1, /* the sender counts from 0 */
        .to = newest ? 0 : question->to - 1,
        .dp_rank = publisher->foreign.dp_rank,
    };
    (void)snprintf((*out)->worker, sizeof((*out)->worker), "%s", publisher->row.worker);
    (void)snprintf((*out)->asked_by, sizeof((*out)->asked_by), "%s", publisher->subject);
    return KVT_OK;
}

/* False: the outbox is busy, or memory is short: next round. */
static bool
ask(struct advisor_round *round, struct advisor_publisher *publisher,
    const struct advisor_question *question)
{
    struct advisor_outbox_message *message = NULL;
    enum kvt_err rc = publisher->is_foreign ? address_foreign(round, publisher, question, &message)
                                            : address_own(publisher, question, &message);

    if (rc == KVT_OK) {
        message->number = ++round->ask_number;
        message->about = publisher->row.number;
        rc = advisor_outbox_send(round->feeds.outbox, message);
    }
    if (rc != KVT_OK) {
        advisor_outbox_message_free(message);
        return false;
    }
    advisor_publisher_asked(publisher, round->ask_number);
    kvt_metric_inc(round->counters.resyncs, 1);
    return true;
}

void
advisor_round_ask_publishers(struct advisor_round *round, uint64_t now_ms)
{
    size_t asked = 0;

    if (round->feeds.outbox == NULL)
        return;
    for (size_t i = 0; i < advisor_publishers_active_count(round->publishers) && asked < ASK_MAX;
         i++) {
        struct advisor_publisher *publisher = advisor_publishers_active(round->publishers, i);
        struct advisor_question question;
        const bool wanted = publisher->is_foreign
                                ? advisor_foreign_question(publisher, now_ms, &question)
                                : advisor_publisher_question(publisher, now_ms, &question);

        if (!wanted)
            continue;
        if (!ask(round, publisher, &question))
            return;
        asked++;
    }
}

/* ---- answers of our own workers ---- */

/* What the dump's locations in G4 held before, and it no longer names. */
static enum kvt_err
sweep_dumped(struct advisor_round *round, const struct advisor_publisher *publisher,
             const struct kvt_event_batch *batch)
{
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < batch->location_count && rc == KVT_OK; i++) {
        uint32_t holder;

        if (batch->locations[i].tier != KVT_TIER_G4)
            continue;
        rc = advisor_round_resolve(round, batch, i, &holder);
        if (rc == KVT_OK)
            rc = advisor_round_sweep_holder(round, publisher, holder);
    }
    return rc;
}

static void
take_page(struct advisor_round *round, struct advisor_publisher *publisher,
          const struct advisor_page *page)
{
    const enum advisor_resync what = publisher->resync;
    struct advisor_page_step step = advisor_publisher_answer(publisher, page, kvt_clock_mono_ms());

    if (step.conflict) {
        kvt_metric_inc(round->counters.conflicts, 1);
        kvt_log_warn("advisor.publishers", "conflict",
                     "%s has not sent event %" PRIu64
                     " as it was applied: it is uncertain, and asked for all it has; another "
                     "program publishes under its name",
                     publisher->row.worker, publisher->row.last_seq);
    }
    if (step.fresh && step.replaced) {
        publisher->staff.anew = true;
        advisor_publisher_unhold_all(publisher);
    }
    /* What its own tiers held is told anew from here on; while it is not told to the end, it is
     * uncertain. */
    if (step.fresh && advisor_round_drop(round, publisher) != KVT_OK) {
        advisor_publisher_start(publisher, ADVISOR_RESYNC_DUMP);
        advisor_publisher_back_off(publisher, kvt_err_text(KVT_NOMEM), kvt_clock_mono_ms());
        return;
    }
    if (step.apply)
        advisor_round_apply(round, publisher, page->batch, step.skip);
    if (step.sweep && sweep_dumped(round, publisher, page->batch) != KVT_OK)
        kvt_log_error("advisor.publishers", "sweep", "%s: no memory to sweep",
                      publisher->row.worker);
    advisor_publisher_paged(publisher, page, &step);
    if (step.finished)
        kvt_log_info("advisor.publishers", "certain", "%s: certain again at event %" PRIu64 " (%s)",
                     publisher->row.worker, publisher->row.last_seq,
                     what == ADVISOR_RESYNC_RANGE ? "range" : "dump");
}

static void
take_answer(struct advisor_round *round, struct advisor_publisher *publisher,
            const struct advisor_outbox_message *message)
{
    struct kvt_event_batch batch = {.events = round->decoded};
    struct advisor_page page = {.status = KVT_OK};
    const uint64_t now_ms = kvt_clock_mono_ms();
    const void *bytes = NULL;
    struct kvt_error err = {.text = ""};
    size_t size = 0;
    enum kvt_err rc = message->rc;

    if (rc != KVT_OK) {
        advisor_publisher_unanswered(publisher, kvt_err_text(rc), now_ms);
        return;
    }
    rc = wire_query_decode_page(message->answer.data, message->answer.size, &page.status,
                                &page.next_cursor, &bytes, &size, &err);
    if (rc == KVT_OK && page.status == KVT_OK) {
        rc = wire_event_decode(bytes, size, &batch, KVT_EVENTS_PER_BATCH_MAX, &page.unknown, &err);
        batch.time_ms = advisor_round_time(batch.time_ms);
        page.batch = &batch;
        if (rc == KVT_OK && (strcmp(batch.worker, publisher->row.worker) != 0 ||
                             strcmp(batch.namespace_, publisher->namespace_) != 0))
            rc = kvt_error_set(&err, KVT_INVALID, "answer speaks for %s", batch.worker);
    }
    if (rc != KVT_OK) {
        kvt_metric_inc(round->counters.malformed, 1);
        kvt_log_warn("advisor.publishers", "malformed", "%s: answer: %s", publisher->row.worker,
                     err.text);
        advisor_publisher_unanswered(publisher, err.text, now_ms);
        return;
    }
    if (page.status != KVT_OK && page.status != KVT_NOTFOUND) {
        advisor_publisher_unanswered(publisher, kvt_err_text(page.status), now_ms);
        return;
    }
    take_page(round, publisher, &page);
}

static void
take_letter(struct advisor_round *round, struct advisor_outbox_message *message)
{
    struct advisor_publisher *publisher;

    switch (message->kind) {
    case ADVISOR_OUTBOX_MESSAGE_ASK:
        publisher = advisor_publishers_by_number(round->publishers, (uint32_t)message->about);
        /* An answer nobody waits for any more (a newer life was seen meanwhile) is void. */
        if (publisher != NULL && publisher->asked && publisher->ask_number == message->number)
            take_answer(round, publisher, message);
        break;
    case ADVISOR_OUTBOX_MESSAGE_ORDER:
        if (message->rc == KVT_OK)
            break;
        kvt_log_warn("advisor.orders", "unsent", "order %" PRIu64 ": %s", message->about,
                     kvt_err_text(message->rc));
        advisor_planner_unsent(round->options.planner, message->about, kvt_clock_unix_ms());
        break;
    case ADVISOR_OUTBOX_MESSAGE_FILL:
        if (advisor_round_fill(round, message))
            return;
        break;
    }
    advisor_outbox_message_free(message);
}

void
advisor_round_take_messages(struct advisor_round *round)
{
    struct advisor_outbox_message *message;

    if (round->feeds.outbox == NULL)
        return;
    while (advisor_round_replay(round) && advisor_round_has_room(round) &&
           (message = advisor_outbox_take(round->feeds.outbox)) != NULL)
        take_letter(round, message);
}
