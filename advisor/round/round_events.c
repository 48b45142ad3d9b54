#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner.h"
#include "advisor/publisher/foreign_publisher.h"
#include "advisor/round/outbox.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "wire/message/query.h"
#include "wire/message/subject.h"
#include "wire/nats/bus.h"

#define NO_HOLDER UINT32_MAX

enum { MS_PER_S = 1000 };

/* ---- changes ---- */

uint64_t
advisor_round_time(uint64_t time_ms)
{
    const uint64_t now_ms = kvt_clock_unix_coarse_ms();

    if (time_ms < MS_PER_S)
        return now_ms;
    return time_ms < now_ms + ADVISOR_CLOCK_AHEAD_MS ? time_ms : now_ms + ADVISOR_CLOCK_AHEAD_MS;
}

enum kvt_err
advisor_round_resolve(struct advisor_round *round, const struct kvt_event_batch *batch,
                      uint32_t location, uint32_t *holder)
{
    const struct kvt_location *from = &batch->locations[location];
    const char *name = from->tier == KVT_TIER_G4 ? from->name : batch->worker;
    struct index_holder key = {.dp_rank = from->dp_rank, .tier = from->tier};

    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    return advisor_name_table_holder(round->names, &key, holder);
}

/* A location of a batch, looked up once. */
struct spot {
    uint32_t holder; /* NO_HOLDER: not yet */
    uint32_t floor;  /* G4 */
    bool g4;
    bool hot;
    bool cold;
};

#define GATEWAY_PREFIX "gateway:"

/* The gateway that publishes as `worker`: "gateway:NAME", with ":N" for its further streams, or
 * NAME itself.  Returns the length of its name. */
static size_t
gateway_of(const char *worker, const char **name)
{
    const size_t prefix = sizeof(GATEWAY_PREFIX) - 1;
    const bool has_prefix = strncmp(worker, GATEWAY_PREFIX, prefix) == 0;
    const char *suffix;

    *name = has_prefix ? worker + prefix : worker;
    suffix = has_prefix ? strrchr(*name, ':') : NULL;
    if (suffix == NULL || suffix[1] == '\0' || suffix[1 + strspn(suffix + 1, "0123456789")] != '\0')
        return strlen(*name);
    return (size_t)(suffix - *name);
}

/* May the publisher speak of a holder in G4?  A volume has its gateway's name; of a bucket that
 * gateways report, only gateways speak. */
static bool
may_speak_of(const struct advisor_round *round, const struct advisor_publisher *publisher,
             const struct index_holder *key)
{
    const char *name;
    const size_t length = gateway_of(publisher->row.worker, &name);
    char gateway[KVT_NAME_MAX];

    if (advisor_holder_is_hot(key) || advisor_holder_is_warm(key)) {
        const char *owner = strchr(key->name, '@') + 1;

        return strlen(owner) == length && memcmp(owner, name, length) == 0;
    }
    memcpy(gateway, name, length);
    gateway[length] = '\0';
    return round->options.planner == NULL ||
           !advisor_planner_reported(round->options.planner, key->name) ||
           advisor_planner_gateway(round->options.planner, gateway) != UINT32_MAX;
}

/* A tier of the worker's own, as nearly every message names one: known from the one before. */
static bool
recall_spot(struct advisor_round *round, const struct advisor_publisher *publisher,
            const struct kvt_event_batch *batch, uint32_t location, struct spot *spot)
{
    const struct advisor_publisher_spot *known =
        &publisher->spots[location % ADVISOR_PUBLISHER_SPOTS];
    const struct kvt_location *from = &batch->locations[location];

    if (known->tier == 0 || known->tier != from->tier || known->dp_rank != from->dp_rank ||
        !advisor_name_table_meet(round->names, known->holder, batch->worker, known->dp_rank,
                                 known->tier))
        return false;
    *spot = (struct spot){.holder = known->holder};
    return true;
}

static enum kvt_err
look_up(struct advisor_round *round, struct advisor_publisher *publisher,
        const struct kvt_event_batch *batch, uint32_t location, struct spot *spot)
{
    const enum kvt_err rc = advisor_round_resolve(round, batch, location, &spot->holder);
    const struct index_holder *key;

    if (rc != KVT_OK) {
        spot->holder = NO_HOLDER;
        return rc;
    }
    key = advisor_name_table_holder_key(round->names, spot->holder);
    if (key->tier == KVT_TIER_G4 && !may_speak_of(round, publisher, key)) {
        spot->holder = NO_HOLDER;
        return KVT_DENIED;
    }
    spot->g4 = key->tier == KVT_TIER_G4;
    spot->hot = advisor_holder_is_hot(key);
    spot->cold = advisor_holder_is_cold(key);
    if (!spot->g4) {
        publisher->spots[location % ADVISOR_PUBLISHER_SPOTS] = (struct advisor_publisher_spot){
            .holder = spot->holder, .dp_rank = key->dp_rank, .tier = key->tier};
        advisor_round_met(round, publisher, key->dp_rank);
        return KVT_OK;
    }
    /* In a dump everything older is void; its sweep only comes with the last page. */
    spot->floor = publisher->resync == ADVISOR_RESYNC_DUMP
                      ? publisher->row.gen
                      : advisor_sweeper_floor(round->sweeper, publisher->row.number, spot->holder);
    return KVT_OK;
}

/* A place in G4: a row. */
static enum kvt_err
change_row(struct advisor_round *round, struct advisor_publisher *publisher,
           const struct kvt_event_batch *batch, const struct kvt_event *event,
           const struct spot *spot)
{
    const struct advisor_op op = {
        .kind = event->type == KVT_EVENT_STORE ? ADVISOR_OP_STORE : ADVISOR_OP_REMOVE,
        .hash = event->sequence_hash,
        .parent = event->parent,
        .tokens_hash = event->tokens_hash,
        .size = event->block_size,
        .time_ms = batch->time_ms,
        .ns = publisher->row.ns,
        .holder = spot->holder,
        .ranks = event->ranks,
        .position = event->position,
        .reporter = publisher->row.number,
        .gen = publisher->row.gen,
        .floor = spot->floor,
        .hot = spot->hot,
        .cold = spot->cold,
    };

    if (op.kind == ADVISOR_OP_STORE && publisher->row.holds_g4 == 0) {
        publisher->row.holds_g4 = 1;
        publisher->dirty = true;
    }
    return op.ranks == 0 ? KVT_OK : advisor_change_group_add(round->group, &op);
}

/* A place of a worker: the log. */
static enum kvt_err
change_log(struct advisor_round *round, const struct advisor_publisher *publisher,
           const struct kvt_event_batch *batch, const struct kvt_event *event, uint32_t holder)
{
    const struct advisor_event_log_place place = {
        .size = event->block_size,
        .holder = holder,
        .ns = publisher->row.ns,
        .ranks = event->ranks,
        .time_s = (uint32_t)(batch->time_ms / MS_PER_S),
    };

    return event->type == KVT_EVENT_STORE
               ? advisor_change_group_store(round->group, &place, event->parent, event->position,
                                            &event->sequence_hash, &event->tokens_hash, 1)
               : advisor_change_group_remove(round->group, &place, &event->sequence_hash, 1);
}

static enum kvt_err
apply_event(struct advisor_round *round, struct advisor_publisher *publisher,
            const struct kvt_event_batch *batch, const struct kvt_event *event,
            const struct spot *spot)
{
    switch ((enum kvt_event_type)event->type) {
    case KVT_EVENT_STORE:
    case KVT_EVENT_REMOVE:
        return spot->g4 ? change_row(round, publisher, batch, event, spot)
                        : change_log(round, publisher, batch, event, spot->holder);
    case KVT_EVENT_CLEAR: return advisor_round_clear(round, publisher, spot->holder);
    case KVT_EVENT_BYE:
        advisor_publisher_leave(publisher);
        advisor_round_parted(round, publisher);
        kvt_log_info("advisor.publishers", "bye", "%s left", publisher->row.worker);
        return advisor_round_void(round, publisher);
    }
    return KVT_OK;
}

/* The events of a batch behind the first `skip`.  What cannot be resolved is refused and counted:
 * the numbers must go on. */
void
advisor_round_apply(struct advisor_round *round, struct advisor_publisher *publisher,
                    const struct kvt_event_batch *batch, uint32_t skip)
{
    struct spot spots[KVT_LOCATIONS_MAX];

    for (uint32_t i = 0; i < batch->location_count; i++)
        spots[i] = (struct spot){.holder = NO_HOLDER};
    for (uint32_t i = skip; i < batch->event_count; i++) {
        const struct kvt_event *event = &batch->events[i];
        struct spot *spot = &spots[event->location];
        enum kvt_err rc = KVT_OK;

        if (spot->holder == NO_HOLDER &&
            !recall_spot(round, publisher, batch, event->location, spot))
            rc = look_up(round, publisher, batch, event->location, spot);
        if (rc == KVT_OK)
            rc = apply_event(round, publisher, batch, event, spot);
        if (event->type == KVT_EVENT_CLEAR || event->type == KVT_EVENT_BYE)
            for (uint32_t at = 0; at < batch->location_count; at++)
                spots[at].holder = NO_HOLDER; /* it has set new floors */
        if (rc == KVT_OK)
            continue;
        if (rc == KVT_DENIED)
            kvt_metric_inc(round->counters.intruders, 1);
        kvt_metric_inc(round->counters.refused, 1);
        kvt_log_error("advisor.events", "refused", "event %" PRIu64 " of %s: %s",
                      batch->first_seq + i, batch->worker, kvt_err_text(rc));
        /* Applied in part it would be wrong for good: the dump brings what is missing.  What is
         * beyond a limit it would bring again, and such a block is not missed. */
        if (rc != KVT_RANGE)
            advisor_publisher_refused(publisher, kvt_clock_mono_ms());
    }
    kvt_metric_inc(round->counters.applied, batch->event_count - skip);
}

/* ---- messages ---- */

static void
malformed(struct advisor_round *round, struct advisor_intake *intake,
          const struct advisor_inbox_item *item, const char *why)
{
    kvt_metric_inc(round->counters.malformed, 1);
    intake->counts.malformed++;
    (void)snprintf(intake->counts.last_error, sizeof(intake->counts.last_error), "%s", why);
    kvt_log_warn("advisor.events", "malformed", "%s:%" PRIu64 ": %s", item->subject,
                 item->stream_seq, why);
}

static enum kvt_err
find_publisher(struct advisor_round *round, const struct kvt_event_batch *batch,
               struct advisor_publisher **out)
{
    uint32_t ns;
    enum kvt_err rc;

    *out = advisor_publishers_recall(round->publishers, batch->namespace_, batch->worker);
    if (*out != NULL)
        return KVT_OK;
    rc = advisor_name_table_namespace(round->names, batch->namespace_, 0, &ns);
    if (rc == KVT_OK)
        rc = advisor_publishers_get(round->publishers, ns, batch->namespace_, batch->worker, out);
    else if (rc == KVT_FULL)
        kvt_metric_inc(round->counters.ns_refused, 1);
    return rc;
}

/* What a message shows of its publisher is counted, and said where it is a fault. */
static void
tell(struct advisor_round *round, struct advisor_intake *intake,
     const struct advisor_publisher *publisher, const struct kvt_event_batch *batch,
     const struct advisor_step *step)
{
    if (step->duplicates > 0)
        kvt_metric_inc(round->counters.duplicates, step->duplicates);
    intake->counts.duplicates += step->duplicates;
    if (step->gap) {
        kvt_metric_inc(round->counters.gaps, 1);
        intake->counts.gaps++;
        kvt_log_warn("advisor.publishers", "gap",
                     "%s: events %" PRIu64 " to %" PRIu64 " are missing", batch->worker,
                     publisher->row.last_seq + 1, batch->first_seq - 1);
    }
    if (step->conflict) {
        kvt_metric_inc(round->counters.conflicts, 1);
        intake->counts.number_conflicts++;
        kvt_log_warn("advisor.publishers", "conflict",
                     "%s: events from %" PRIu64
                     " on came before with other content: it is uncertain, and asked for all it "
                     "has; if it is one program, another one publishes under its name",
                     batch->worker, batch->first_seq);
    }
    if (step->unproven) {
        kvt_metric_inc(round->counters.unproven, 1);
        kvt_log_warn("advisor.publishers", "unproven",
                     "%s: events from %" PRIu64
                     " on come again, too late to be compared: it is asked for all it has",
                     batch->worker, batch->first_seq);
    }
    if (step->behind)
        kvt_log_warn("advisor.publishers", "behind",
                     "%s says that its next event is %" PRIu64 ", and %" PRIu64
                     " were applied: it is asked what it sent",
                     batch->worker, batch->first_seq, publisher->row.last_seq);
    if (step->lie) {
        kvt_metric_inc(round->counters.malformed, 1);
        intake->counts.malformed++;
        kvt_log_warn("advisor.publishers", "lie",
                     "%s numbered a message %" PRIu64
                     " and says itself that nothing is behind %" PRIu64 ": the message is dropped",
                     batch->worker, batch->first_seq, publisher->row.last_seq);
    }
    if (step->former)
        kvt_log_warn("advisor.publishers", "former",
                     "%s speaks with an older incarnation than it had: asking which one lives",
                     batch->worker);
}

static bool
feed(struct advisor_round *round, struct advisor_intake *intake, struct advisor_inbox_item *item,
     bool held)
{
    struct kvt_event_batch batch; /* 5 KiB: the decoder sets what counts of it */
    struct advisor_publisher *publisher;
    struct advisor_step step;
    struct kvt_error err;
    uint32_t unknown;
    enum kvt_err rc;

    batch.events = round->decoded;
    rc = intake->ops->decode(item->bytes, item->size, &batch, KVT_EVENTS_PER_BATCH_MAX, &unknown,
                             &err);
    if (rc == KVT_OK && (batch.worker[0] == '\0' || batch.incarnation == 0 || batch.first_seq == 0))
        rc =
            kvt_error_set(&err, KVT_INVALID, "event batch without worker, incarnation or sequence");
    if (rc != KVT_OK) {
        malformed(round, intake, item, err.text);
        return false;
    }
    batch.time_ms = advisor_round_time(batch.time_ms);
    rc = find_publisher(round, &batch, &publisher);
    if (rc != KVT_OK) {
        kvt_metric_inc(round->counters.refused, 1);
        kvt_log_error("advisor.events", "refused", "publisher %s: %s", batch.worker,
                      kvt_err_text(rc));
        return false;
    }
    if (!held && publisher->held_count > 0 && batch.incarnation == publisher->row.incarnation) {
        /* Behind those that wait already: it may not overtake them.  A heartbeat would be old then,
         * and the next one is near. */
        if (batch.event_count + unknown == 0)
            return false;
        publisher->heard_ms = round->now_ms;
        (void)advisor_publisher_hold(publisher, item);
        return true;
    }
    step = advisor_publisher_see(publisher, &batch, unknown, round->now_ms);
    tell(round, intake, publisher, &batch, &step);
    if (step.renewed)
        advisor_publisher_unhold_all(publisher);
    publisher->staff.anew = publisher->staff.anew || step.replaced;
    if (step.replaced && advisor_round_void(round, publisher) != KVT_OK)
        publisher->row.need_dump = 1; /* its first page voids too */
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
    if (unknown > 0)
        kvt_metric_inc(round->counters.unknown, unknown);
    intake->counts.skipped[WIRE_RAW_UNKNOWN_KIND] += unknown;
    intake->counts.events += batch.event_count - step.skip;
    advisor_round_apply(round, publisher, &batch, step.skip);
    advisor_publisher_applied(publisher, &batch, unknown);
    return false;
}

static void
start_over(struct advisor_round *round, struct advisor_intake *intake,
           const struct advisor_inbox_item *item)
{
    const size_t count = advisor_publishers_count(round->publishers);
    const uint64_t now_ms = kvt_clock_mono_ms();
    const bool first = item->kind == ADVISOR_INBOX_ITEM_START && item->stream_seq == 0 &&
                       intake->taken.seq == 0 && intake->taken.created_ms == 0;
    const bool told = item->kind == ADVISOR_INBOX_ITEM_START && intake->told;

    intake->told = false;
    intake->counts.gaps += first || told ? 0 : 1; /* a stream that begins with us lacks nothing */
    if (item->kind == ADVISOR_INBOX_ITEM_START) {
        intake->taken =
            (struct advisor_position){.seq = item->stream_seq, .created_ms = item->created_ms};
        round->moved = true;
        intake->goal_known = false; /* what it was to reach is no more */
    } else if (item->stream_seq > intake->taken.seq) {
        intake->taken.seq = item->stream_seq; /* what was before it will not come any more */
        round->moved = true;
    }
    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        if (publisher->foreign.source != intake->number)
            continue;
        /* Sequences of another stream must not hold this one's back. */
        if (item->kind == ADVISOR_INBOX_ITEM_START)
            advisor_publisher_unhold_all(publisher);
        if (told)
            continue; /* what they held before it is known */
        if (publisher->is_foreign)
            advisor_foreign_doubt(publisher, now_ms);
        else
            advisor_publisher_doubt(publisher);
    }
    advisor_publishers_wake(round->publishers);
}

/* True: `item` was kept. */
static bool
take_message(struct advisor_round *round, struct advisor_intake *intake,
             struct advisor_inbox_item *item)
{
    const struct advisor_hearing hearing = {.intake = intake, .item = item};

    if (item->stream_seq != 0) {
        intake->taken.seq = item->stream_seq;
        round->moved = true;
    }
    intake->item_ms = item->time_ms;
    intake->counts.messages++;
    intake->counts.last_message_ms = item->time_ms;
    if (intake->ops->decode != NULL)
        return feed(round, intake, item, false);
    (void)advisor_round_hear(round, &hearing);
    return false;
}

void
advisor_round_take_event(struct advisor_round *round, struct advisor_intake *intake,
                         struct advisor_inbox_item *item)
{
    bool kept = false;

    switch (item->kind) {
    case ADVISOR_INBOX_ITEM_MESSAGE: kept = take_message(round, intake, item); break;
    case ADVISOR_INBOX_ITEM_GAP:
    case ADVISOR_INBOX_ITEM_START: start_over(round, intake, item); break;
    case ADVISOR_INBOX_ITEM_HOLDS: advisor_round_take_holds(round, intake, item); break;
    case ADVISOR_INBOX_ITEM_HELD: advisor_round_take_held(round, intake); break;
    case ADVISOR_INBOX_ITEM_GONE: advisor_round_worker_gone(round, intake, item->worker_id); break;
    }
    if (!kept)
        advisor_inbox_item_free(item);
}

/* True: the item was put back, or kept. */
static bool
feed_held(struct advisor_round *round, struct advisor_publisher *publisher,
          struct advisor_inbox_item *item)
{
    struct advisor_intake *intake =
        advisor_sources_by_number(round->feeds.sources, publisher->foreign.source);
    const struct advisor_hearing hearing = {.intake = intake, .item = item, .only = publisher};

    if (intake == NULL)
        return false;
    if (!publisher->is_foreign)
        return feed(round, intake, item, true);
    if (advisor_round_hear(round, &hearing) != ADVISOR_HEARD_HOLD)
        return false;
    advisor_publisher_rehold(publisher, item);
    return true;
}

void
advisor_round_drain_held(struct advisor_round *round)
{
    round->held_bytes = 0;
    for (size_t i = 0; i < advisor_publishers_active_count(round->publishers); i++) {
        struct advisor_publisher *publisher = advisor_publishers_active(round->publishers, i);

        while (publisher->held_count > 0 && !advisor_publisher_uncertain(publisher) &&
               publisher->row.gone == 0 && advisor_round_has_room(round)) {
            struct advisor_inbox_item *item = advisor_publisher_unhold(publisher);

            if (!feed_held(round, publisher, item))
                advisor_inbox_item_free(item);
        }
        if (publisher->row.gone != 0)
            advisor_publisher_unhold_all(publisher);
        round->held_bytes += publisher->is_foreign ? publisher->held_bytes : 0;
    }
}

/* ---- time ---- */

static const char *
why_of(const struct advisor_publisher *publisher)
{
    return publisher->error[0] == '\0' ? "without an error" : publisher->error;
}

static void
age_foreign(struct advisor_round *round, struct advisor_publisher *publisher, uint64_t now_ms)
{
    struct advisor_intake *intake =
        advisor_sources_by_number(round->feeds.sources, publisher->foreign.source);
    const struct advisor_patience patience = {
        .silent_after_ms = round->options.silent_after_ms,
        .gone_after_ms = round->options.gone_after_ms,
        .give_up_after_ms = round->options.give_up_after_ms,
    };
    struct advisor_source_state state = {.running = false};
    bool gave_up;

    if (intake != NULL && intake->source != NULL)
        advisor_source_state(intake->source, &state);
    if (!state.running || round->deaf) {
        publisher->heard_ms = now_ms;
        publisher->doubt_ms = publisher->doubt_ms == 0 ? 0 : now_ms;
        return;
    }
    switch (advisor_foreign_age(publisher, now_ms, &patience, &gave_up)) {
    case ADVISOR_AGE_FRESH: break;
    case ADVISOR_AGE_SILENT:
        kvt_log_warn("advisor.publishers", "silent", "%s of %s: no events since %" PRIu64 " ms",
                     publisher->row.worker, intake->name, now_ms - publisher->heard_ms);
        break;
    case ADVISOR_AGE_GONE:
        kvt_log_warn("advisor.publishers", "gone",
                     "%s of %s: silent and not answering (%s): its blocks are dropped",
                     publisher->row.worker, intake->name, why_of(publisher));
        advisor_round_forget(round, publisher);
        break;
    }
    if (gave_up)
        advisor_round_given_up(round, publisher);
}

void
advisor_round_age(struct advisor_round *round, uint64_t now_ms)
{
    const bool connected = round->feeds.bus == NULL || wire_bus_connected(round->feeds.bus);
    const size_t count = advisor_publishers_count(round->publishers);
    const bool heard =
        connected && round->was_connected && atomic_load(&round->caught_up) && !round->deaf;

    round->was_connected = connected;
    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        if (publisher->is_foreign) {
            age_foreign(round, publisher, now_ms);
            continue;
        }
        if (!heard) {
            publisher->heard_ms = now_ms; /* it is we who could not hear */
            continue;
        }
        switch (advisor_publisher_age(publisher, now_ms, round->options.silent_after_ms,
                                      round->options.gone_after_ms)) {
        case ADVISOR_AGE_FRESH: break;
        case ADVISOR_AGE_SILENT:
            kvt_log_warn("advisor.publishers", "silent", "%s: no events since %" PRIu64 " ms",
                         publisher->row.worker, now_ms - publisher->heard_ms);
            break;
        case ADVISOR_AGE_GONE:
            kvt_log_warn("advisor.publishers", "gone",
                         "%s: silent and not answering (%s): its blocks are dropped",
                         publisher->row.worker, why_of(publisher));
            advisor_publisher_unhold_all(publisher);
            if (advisor_round_void(round, publisher) != KVT_OK)
                publisher->row.gone = 0; /* again next time */
            break;
        }
    }
    round->deaf = false;
    advisor_publishers_wake(round->publishers);
}
