#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/courier.h"
#include "advisor/engine_private.h"
#include "advisor/planner.h"
#include "base/clock.h"
#include "base/log.h"
#include "wire/bus.h"
#include "wire/query.h"
#include "wire/subject.h"

#define NO_HOLDER UINT32_MAX

enum { DUMP_PAGE = 4096, ASK_MAX = 64 };

/* ---- changes ---- */

/* What a worker held in G1..G3 under older generations goes. */
static enum kvt_err
sweep_local(struct advisor_engine *engine, const struct advisor_publisher *publisher)
{
    const uint32_t count = advisor_names_holder_count(engine->names);
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < count && rc == KVT_OK; i++) {
        const struct index_holder *key = advisor_names_holder_key(engine->names, i);
        const struct advisor_sweep_row row = {
            .publisher = publisher->row.number,
            .holder = i,
            .floor = publisher->row.gen,
            .ns = publisher->row.ns,
        };

        if (key->tier != KVT_TIER_G4 && strcmp(key->name, publisher->row.worker) == 0)
            rc = advisor_sweeper_add(engine->sweeper, &row);
    }
    return rc;
}

static enum kvt_err
sweep_one(struct advisor_engine *engine, const struct advisor_publisher *publisher, uint32_t holder)
{
    const struct advisor_sweep_row row = {
        .publisher = publisher->row.number,
        .holder = holder,
        .floor = publisher->row.gen,
        .ns = publisher->row.ns,
    };

    return advisor_sweeper_add(engine->sweeper, &row);
}

/* The holder a location of this batch speaks of. */
static enum kvt_err
resolve(struct advisor_engine *engine, const struct kvt_event_batch *batch, uint32_t location,
        uint32_t *holder)
{
    const struct kvt_location *from = &batch->locations[location];
    const char *name = from->tier == KVT_TIER_G4 ? from->name : batch->worker;
    struct index_holder key = {.dp_rank = from->dp_rank, .tier = from->tier};

    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    return advisor_names_holder(engine->names, &key, holder);
}

/* A location of a batch, looked up once. */
struct spot {
    uint32_t holder; /* NO_HOLDER: not yet */
    uint32_t floor;
};

static enum kvt_err
look_up(struct advisor_engine *engine, const struct advisor_publisher *publisher,
        const struct kvt_event_batch *batch, uint32_t location, struct spot *spot)
{
    const enum kvt_err rc = resolve(engine, batch, location, &spot->holder);

    if (rc != KVT_OK) {
        spot->holder = NO_HOLDER;
        return rc;
    }
    /* In a dump everything older is void; its sweep only comes with the last page. */
    spot->floor = publisher->resync == ADVISOR_RESYNC_DUMP
                      ? publisher->row.gen
                      : advisor_sweeper_floor(engine->sweeper, publisher->row.number, spot->holder);
    return KVT_OK;
}

static enum kvt_err
apply_event(struct advisor_engine *engine, struct advisor_publisher *publisher,
            const struct kvt_event_batch *batch, const struct kvt_event *event,
            const struct spot *spot)
{
    const uint32_t holder = spot->holder;
    const struct index_holder *key = advisor_names_holder_key(engine->names, holder);
    struct advisor_op op = {
        .kind = event->type == KVT_EVENT_STORE ? ADVISOR_OP_STORE : ADVISOR_OP_REMOVE,
        .hash = event->sequence_hash,
        .parent = event->parent,
        .tokens_hash = event->tokens_hash,
        .size = event->block_size,
        .time_ms = batch->time_ms,
        .ns = publisher->row.ns,
        .holder = holder,
        .ranks = event->ranks,
        .position = event->position,
        .reporter = publisher->row.number,
        .gen = publisher->row.gen,
        .floor = spot->floor,
        .g4 = key->tier == KVT_TIER_G4,
        .hot = advisor_holder_is_hot(key),
        .cold = advisor_holder_is_cold(key),
    };

    switch ((enum kvt_event_type)event->type) {
    case KVT_EVENT_STORE:
        if (op.g4 && publisher->row.holds_g4 == 0) {
            publisher->row.holds_g4 = 1;
            publisher->dirty = true;
        }
        return op.ranks == 0 ? KVT_OK : advisor_group_add(engine->group, &op);
    case KVT_EVENT_REMOVE: return advisor_group_add(engine->group, &op);
    case KVT_EVENT_CLEAR:
        publisher->row.gen++; /* what is stored from here on is not meant */
        publisher->dirty = true;
        return sweep_one(engine, publisher, holder);
    case KVT_EVENT_BYE:
        advisor_publisher_leave(publisher);
        kvt_log_info("advisor.publishers", "bye", "%s left", publisher->row.worker);
        return sweep_local(engine, publisher);
    }
    return KVT_OK;
}

/* The events of a batch behind the first `skip`.  What cannot be resolved is refused and counted:
 * the numbers must go on. */
static void
apply_batch(struct advisor_engine *engine, struct advisor_publisher *publisher,
            const struct kvt_event_batch *batch, uint32_t skip)
{
    struct spot spots[KVT_LOCATIONS_MAX];

    for (uint32_t i = 0; i < batch->location_count; i++)
        spots[i] = (struct spot){.holder = NO_HOLDER};
    for (uint32_t i = skip; i < batch->event_count; i++) {
        const struct kvt_event *event = &batch->events[i];
        struct spot *spot = &spots[event->location];
        enum kvt_err rc = KVT_OK;

        if (spot->holder == NO_HOLDER)
            rc = look_up(engine, publisher, batch, event->location, spot);
        if (rc == KVT_OK)
            rc = apply_event(engine, publisher, batch, event, spot);
        if (event->type == KVT_EVENT_CLEAR || event->type == KVT_EVENT_BYE)
            for (uint32_t at = 0; at < batch->location_count; at++)
                spots[at].holder = NO_HOLDER; /* it has set new floors */
        if (rc == KVT_OK)
            continue;
        kvt_metric_inc(engine->counters.refused, 1);
        kvt_log_error("advisor.events", "refused", "event %" PRIu64 " of %s: %s",
                      batch->first_seq + i, batch->worker, kvt_err_text(rc));
        /* Applied in part it would be wrong for good: the dump brings what is missing. */
        advisor_publisher_refused(publisher, kvt_clock_mono_ms());
    }
    kvt_metric_inc(engine->counters.applied, batch->event_count - skip);
}

/* ---- messages ---- */

static void
malformed(struct advisor_engine *engine, const struct advisor_item *item, const char *why)
{
    kvt_metric_inc(engine->counters.malformed, 1);
    kvt_log_warn("advisor.events", "malformed", "%s:%" PRIu64 ": %s", item->subject,
                 item->stream_seq, why);
}

static enum kvt_err
find_publisher(struct advisor_engine *engine, const struct kvt_event_batch *batch,
               struct advisor_publisher **out)
{
    uint32_t ns;
    enum kvt_err rc = advisor_names_namespace(engine->names, batch->namespace_, &ns);

    *out = NULL;
    if (rc == KVT_OK)
        rc = advisor_publishers_get(engine->publishers, ns, batch->namespace_, batch->worker, out);
    return rc;
}

/* Take a message through its publisher's state machine.  True: `item` was kept, for later. */
static bool
feed(struct advisor_engine *engine, struct advisor_item *item, bool held)
{
    struct kvt_event_batch batch = {.events = engine->decoded};
    struct advisor_publisher *publisher;
    struct advisor_step step;
    struct kvt_error err;
    uint32_t unknown;
    enum kvt_err rc =
        advisor_source_dialect(engine->feeds.events)
            ->decode(item->bytes, item->size, &batch, KVT_EVENTS_PER_BATCH_MAX, &unknown, &err);

    if (rc == KVT_OK && (batch.worker[0] == '\0' || batch.incarnation == 0 || batch.first_seq == 0))
        rc =
            kvt_error_set(&err, KVT_INVALID, "event batch without worker, incarnation or sequence");
    if (rc != KVT_OK) {
        malformed(engine, item, err.text);
        return false;
    }
    rc = find_publisher(engine, &batch, &publisher);
    if (rc != KVT_OK) {
        kvt_metric_inc(engine->counters.refused, 1);
        kvt_log_error("advisor.events", "refused", "publisher %s: %s", batch.worker,
                      kvt_err_text(rc));
        return false;
    }
    if (!held && publisher->held_count > 0 && batch.incarnation == publisher->row.incarnation) {
        /* Behind those that wait already: it may not overtake them. */
        publisher->heard_ms = kvt_clock_mono_ms();
        (void)advisor_publisher_hold(publisher, item);
        return true;
    }
    step = advisor_publisher_see(publisher, &batch, unknown, kvt_clock_mono_ms());
    kvt_metric_inc(engine->counters.duplicates, step.duplicates);
    if (step.gap) {
        kvt_metric_inc(engine->counters.gaps, 1);
        kvt_log_warn("advisor.publishers", "gap",
                     "%s: events %" PRIu64 " to %" PRIu64 " are missing", batch.worker,
                     publisher->row.last_seq + 1, batch.first_seq - 1);
    }
    if (step.former)
        kvt_log_warn("advisor.publishers", "former",
                     "%s speaks with an older incarnation than it had: asking which one lives",
                     batch.worker);
    if (step.renewed)
        advisor_publisher_unhold_all(publisher);
    if (step.replaced && sweep_local(engine, publisher) != KVT_OK)
        publisher->row.need_dump = 1; /* its end sweeps too */
    switch (step.verdict) {
    case ADVISOR_SEE_DROP: return false;
    case ADVISOR_SEE_HOLD:
        if (held)
            advisor_publisher_rehold(publisher, item);
        else
            (void)advisor_publisher_hold(publisher, item);
        return true;
    case ADVISOR_SEE_APPLY: break;
    }
    kvt_metric_inc(engine->counters.unknown, unknown);
    apply_batch(engine, publisher, &batch, step.skip);
    advisor_publisher_applied(publisher, &batch, unknown);
    return false;
}

static void
start_over(struct advisor_engine *engine, const struct advisor_item *item)
{
    const size_t count = advisor_publishers_count(engine->publishers);

    if (item->kind == ADVISOR_ITEM_START) {
        engine->events =
            (struct advisor_position){.seq = item->stream_seq, .created_ms = item->created_ms};
        engine->moved = true;
        engine->goal_known = false; /* what it was to reach is no more */
    } else if (item->stream_seq > engine->events.seq) {
        engine->events.seq = item->stream_seq; /* what was before it will not come any more */
        engine->moved = true;
    }
    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(engine->publishers, i);

        /* Sequences of another stream must not hold this one's back. */
        if (item->kind == ADVISOR_ITEM_START)
            advisor_publisher_unhold_all(publisher);
        advisor_publisher_doubt(publisher);
    }
}

void
advisor_engine_take_event(struct advisor_engine *engine, struct advisor_item *item)
{
    if (item->kind != ADVISOR_ITEM_MESSAGE) {
        start_over(engine, item);
        advisor_item_free(item);
        return;
    }
    if (item->stream_seq != 0) {
        engine->events.seq = item->stream_seq;
        engine->moved = true;
    }
    engine->item_ms = item->time_ms;
    if (!feed(engine, item, false))
        advisor_item_free(item);
}

void
advisor_engine_drain_held(struct advisor_engine *engine)
{
    const size_t count = advisor_publishers_count(engine->publishers);

    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(engine->publishers, i);

        while (publisher->held_count > 0 && !advisor_publisher_uncertain(publisher) &&
               publisher->row.gone == 0 && advisor_engine_has_room(engine)) {
            struct advisor_item *item = advisor_publisher_unhold(publisher);

            if (!feed(engine, item, true))
                advisor_item_free(item);
        }
        if (publisher->row.gone != 0)
            advisor_publisher_unhold_all(publisher);
    }
}

/* ---- asking ---- */

static enum kvt_err
write_question(const struct advisor_publisher *publisher, const struct advisor_question *question,
               struct advisor_letter *letter)
{
    const struct wire_query_range range = {question->incarnation, question->from, question->to};
    const struct wire_query_dump dump = {question->cursor, DUMP_PAGE};
    enum kvt_err rc;

    if (question->what == ADVISOR_RESYNC_RANGE) {
        rc = wire_subject_range(letter->subject, sizeof(letter->subject), publisher->row.worker);
        if (rc == KVT_OK)
            rc = wire_query_encode_range(&range, &letter->bytes);
    } else {
        rc = wire_subject_dump(letter->subject, sizeof(letter->subject), publisher->row.worker);
        if (rc == KVT_OK)
            rc = wire_query_encode_dump(&dump, &letter->bytes);
    }
    return rc;
}

void
advisor_engine_ask(struct advisor_engine *engine, uint64_t now_ms)
{
    const size_t count = advisor_publishers_count(engine->publishers);
    size_t asked = 0;

    if (engine->feeds.courier == NULL)
        return;
    for (size_t i = 0; i < count && asked < ASK_MAX; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(engine->publishers, i);
        struct advisor_question question;
        struct advisor_letter *letter;

        if (!advisor_publisher_question(publisher, now_ms, &question))
            continue;
        if (advisor_letter_new(&letter) != KVT_OK)
            return;
        letter->kind = ADVISOR_LETTER_ASK;
        letter->number = ++engine->ask_number;
        letter->about = publisher->row.number;
        if (write_question(publisher, &question, letter) != KVT_OK ||
            advisor_courier_send(engine->feeds.courier, letter) != KVT_OK) {
            advisor_letter_free(letter);
            return; /* the courier is busy: next round */
        }
        advisor_publisher_asked(publisher, engine->ask_number);
        kvt_metric_inc(engine->counters.resyncs, 1);
        asked++;
    }
}

/* What the dump's locations held before, and it no longer names. */
static enum kvt_err
sweep_dumped(struct advisor_engine *engine, const struct advisor_publisher *publisher,
             const struct kvt_event_batch *batch)
{
    enum kvt_err rc = sweep_local(engine, publisher);

    for (uint32_t i = 0; i < batch->location_count && rc == KVT_OK; i++) {
        uint32_t holder;

        if (batch->locations[i].tier != KVT_TIER_G4)
            continue;
        rc = resolve(engine, batch, i, &holder);
        if (rc == KVT_OK)
            rc = sweep_one(engine, publisher, holder);
    }
    return rc;
}

static void
take_page(struct advisor_engine *engine, struct advisor_publisher *publisher,
          const struct advisor_page *page)
{
    const enum advisor_resync what = publisher->resync;
    struct advisor_page_step step = advisor_publisher_answer(publisher, page, kvt_clock_mono_ms());

    if (step.fresh && step.replaced)
        advisor_publisher_unhold_all(publisher);
    if (step.apply)
        apply_batch(engine, publisher, page->batch, step.skip);
    if (step.sweep && sweep_dumped(engine, publisher, page->batch) != KVT_OK)
        kvt_log_error("advisor.publishers", "sweep", "%s: no memory to sweep",
                      publisher->row.worker);
    advisor_publisher_paged(publisher, page, &step);
    if (step.finished)
        kvt_log_info("advisor.publishers", "certain", "%s: certain again at event %" PRIu64 " (%s)",
                     publisher->row.worker, publisher->row.last_seq,
                     what == ADVISOR_RESYNC_RANGE ? "range" : "dump");
}

static void
take_answer(struct advisor_engine *engine, struct advisor_publisher *publisher,
            const struct advisor_letter *letter)
{
    struct kvt_event_batch batch = {.events = engine->decoded};
    struct advisor_page page = {.status = KVT_OK};
    const uint64_t now_ms = kvt_clock_mono_ms();
    const void *bytes = NULL;
    struct kvt_error err = {.text = ""};
    size_t size = 0;
    enum kvt_err rc = letter->rc;

    if (rc != KVT_OK) {
        advisor_publisher_unanswered(publisher, kvt_err_text(rc), now_ms);
        return;
    }
    rc = wire_query_decode_page(letter->answer.data, letter->answer.size, &page.status,
                                &page.next_cursor, &bytes, &size, &err);
    if (rc == KVT_OK && page.status == KVT_OK) {
        rc = advisor_source_dialect(engine->feeds.events)
                 ->decode(bytes, size, &batch, KVT_EVENTS_PER_BATCH_MAX, &page.unknown, &err);
        page.batch = &batch;
        if (rc == KVT_OK && (strcmp(batch.worker, publisher->row.worker) != 0 ||
                             strcmp(batch.namespace_, publisher->namespace_) != 0))
            rc = kvt_error_set(&err, KVT_INVALID, "answer speaks for %s", batch.worker);
    }
    if (rc != KVT_OK) {
        kvt_metric_inc(engine->counters.malformed, 1);
        kvt_log_warn("advisor.publishers", "malformed", "%s: answer: %s", publisher->row.worker,
                     err.text);
        advisor_publisher_unanswered(publisher, err.text, now_ms);
        return;
    }
    if (page.status != KVT_OK && page.status != KVT_NOTFOUND) {
        advisor_publisher_unanswered(publisher, kvt_err_text(page.status), now_ms);
        return;
    }
    take_page(engine, publisher, &page);
}

void
advisor_engine_take_letters(struct advisor_engine *engine)
{
    struct advisor_letter *letter;

    if (engine->feeds.courier == NULL)
        return;
    while (advisor_engine_has_room(engine) &&
           (letter = advisor_courier_take(engine->feeds.courier)) != NULL) {
        if (letter->kind == ADVISOR_LETTER_ASK) {
            struct advisor_publisher *publisher =
                advisor_publishers_by_number(engine->publishers, (uint32_t)letter->about);

            /* An answer nobody waits for any more (a newer life was seen meanwhile) is void. */
            if (publisher != NULL && publisher->asked && publisher->ask_number == letter->number)
                take_answer(engine, publisher, letter);
        } else if (letter->rc != KVT_OK) {
            kvt_log_warn("advisor.orders", "unsent", "order %" PRIu64 ": %s", letter->about,
                         kvt_err_text(letter->rc));
            advisor_planner_unsent(engine->options.planner, letter->about, kvt_clock_unix_ms());
        }
        advisor_letter_free(letter);
    }
}

/* ---- time ---- */

void
advisor_engine_age(struct advisor_engine *engine, uint64_t now_ms)
{
    const bool connected = engine->feeds.bus == NULL || wire_bus_connected(engine->feeds.bus);
    const size_t count = advisor_publishers_count(engine->publishers);
    const bool heard = connected && engine->was_connected && atomic_load(&engine->caught_up);

    engine->was_connected = connected;
    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(engine->publishers, i);

        if (!heard) {
            publisher->heard_ms = now_ms; /* it is we who could not hear */
            continue;
        }
        switch (advisor_publisher_age(publisher, now_ms, engine->options.silent_after_ms,
                                      engine->options.gone_after_ms)) {
        case ADVISOR_AGE_FRESH: break;
        case ADVISOR_AGE_SILENT:
            kvt_log_warn("advisor.publishers", "silent", "%s: no events since %" PRIu64 " ms",
                         publisher->row.worker, now_ms - publisher->heard_ms);
            break;
        case ADVISOR_AGE_GONE:
            kvt_log_warn("advisor.publishers", "gone",
                         "%s: silent and not answering (%s): its blocks are dropped",
                         publisher->row.worker, publisher->error);
            advisor_publisher_unhold_all(publisher);
            if (sweep_local(engine, publisher) != KVT_OK)
                publisher->row.gone = 0; /* again next time */
            break;
        }
    }
}
