#include "advisor/round/round.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/index/index_eviction.h"
#include "advisor/job/jobs.h"
#include "advisor/order/planner.h"
#include "advisor/publisher/aliases.h"
#include "advisor/round/outbox.h"
#include "advisor/round/round_private.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/conditions.h"
#include "base/core/log.h"
#include "wire/message/signed_order.h"
#include "wire/message/subject.h"

enum {
    POLL_MAX = 8,
    REPORTS_MAX = 1024, /* of one round */
    AGE_EVERY_MS = 250,
    SHOW_EVERY_MS = 250, /* while there is something to do */
    BLOCKED_NAP_MS = 50,
    SEQ_ONLY_EVERY_MS = 1000, /* a group of nothing but heartbeats is not worth an fsync each */
};

bool
advisor_round_has_less(const struct advisor_round *round, size_t enough)
{
    const size_t count = advisor_change_group_count(round->group);

    return count < enough &&
           (round->evict == NULL || count < advisor_index_eviction_limit(round->evict));
}

bool
advisor_round_has_room(const struct advisor_round *round)
{
    return advisor_round_has_less(round, ADVISOR_CHANGE_GROUP_ENOUGH);
}

/* ---- life ---- */

enum kvt_err
advisor_round_new(struct advisor_round **out, const struct advisor_round_options *options,
                  struct kvt_error *err)
{
    struct advisor_round *round = kvt_calloc(1, sizeof(*round));
    enum kvt_err rc;

    *out = NULL;
    if (round == NULL)
        return kvt_error_set(err, KVT_NOMEM, "engine");
    round->options = *options;
    round->counters = *options->counters;
    if (pthread_mutex_init(&round->shared.lock, NULL) != 0) {
        kvt_free(round);
        return kvt_error_set(err, KVT_NOMEM, "engine");
    }
    advisor_observed_reports_init(&round->observed);
    rc = advisor_name_table_new(&round->names, options->index,
                                options->holders_max == 0 ? INDEX_HOLDERS_MAX
                                                          : options->holders_max);
    if (rc == KVT_OK)
        rc = advisor_writer_calls_new(&round->writer_calls);
    if (rc == KVT_OK)
        rc = advisor_publishers_new(&round->publishers);
    if (rc == KVT_OK)
        rc = advisor_sweeper_new(&round->sweeper);
    if (rc == KVT_OK)
        rc = advisor_change_group_new(&round->group);
    if (rc == KVT_OK)
        rc = advisor_ram_snapshot_new(&round->snapshot, &round->memory);
    if (rc == KVT_OK)
        rc = advisor_event_log_new(&round->taken_back);
    if (rc == KVT_OK && options->cold_bytes > 0)
        rc = advisor_evicted_new(&round->evicted, options->cold_bytes);
    if (rc == KVT_OK && options->cold_bytes > 0)
        rc = advisor_index_eviction_new(&round->evict, &round->memory);
    if (rc == KVT_OK)
        rc = advisor_round_foreign_new(round);
    round->decoded = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*round->decoded));
    round->accesses = kvt_calloc(KVT_REPORT_ACCESSES_MAX, sizeof(*round->accesses));
    round->results = kvt_calloc(KVT_REPORT_RESULTS_MAX, sizeof(*round->results));
    round->pins = kvt_calloc(KVT_REPORT_PINS_MAX, sizeof(*round->pins));
    if (round->decoded == NULL || round->accesses == NULL || round->results == NULL ||
        round->pins == NULL)
        rc = KVT_NOMEM;
    if (rc != KVT_OK) {
        rc = kvt_error_set(err, rc, "engine: %s", kvt_err_text(rc));
        goto fail;
    }
    round->memory.index = options->index;
    round->memory.names = round->names;
    round->memory.cold = round->evicted;
    round->memory.taken_back = round->taken_back;
    atomic_store(&round->memory.loading, true);
    rc = advisor_round_load_tables(round, err);
    if (rc != KVT_OK)
        goto fail;
    advisor_publishers_show(round->publishers);
    *out = round;
    return KVT_OK;

fail:
    advisor_round_free(round);
    return rc;
}

void
advisor_round_free(struct advisor_round *round)
{
    if (round == NULL)
        return;
    advisor_observed_reports_release(&round->observed);
    advisor_round_foreign_free(round);
    advisor_index_eviction_free(round->evict);
    advisor_evicted_free(round->evicted);
    advisor_ram_snapshot_free(round->snapshot);
    advisor_event_log_free(round->taken_back);
    advisor_change_group_free(round->group);
    advisor_ram_index_release(&round->memory);
    advisor_sweeper_free(round->sweeper);
    advisor_publishers_free(round->publishers);
    advisor_name_table_free(round->names);
    advisor_writer_calls_free(round->writer_calls);
    kvt_free(round->decoded);
    kvt_free(round->accesses);
    kvt_free(round->results);
    kvt_free(round->pins);
    (void)pthread_mutex_destroy(&round->shared.lock);
    kvt_free(round);
}

void
advisor_round_positions(const struct advisor_round *round, struct advisor_position *events,
                        struct advisor_position *reports)
{
    const struct advisor_intake *ours =
        round->feeds.sources == NULL ? NULL : advisor_sources_by_number(round->feeds.sources, 0);

    *events = ours == NULL ? round->events : ours->taken;
    *reports = round->reports;
}

void
advisor_round_attach(struct advisor_round *round, const struct advisor_feeds *feeds)
{
    round->feeds = *feeds;
    advisor_round_doubt_sources(round);
    advisor_round_workers_all(round);
}

/* ---- one round ---- */

static void
sweep(struct advisor_round *round)
{
    struct kvt_error err = {.text = ""};
    struct advisor_txn txn;
    enum kvt_err rc;

    if (!advisor_sweeper_busy(round->sweeper) || advisor_change_group_ops(round->group) > 0)
        return;
    rc = advisor_store_read(round->options.store, &txn, &err);
    if (rc == KVT_OK)
        rc = advisor_sweeper_step(round->sweeper, &txn, round->group);
    advisor_store_end(&txn);
    if (rc != KVT_OK) {
        /* Half a step may be in the group, which is right: those places do go. */
        kvt_log_error("advisor.engine", "sweep", "%s", kvt_err_text(rc));
    }
}

static size_t
take_reports(struct advisor_round *round)
{
    struct advisor_inbox_item *items[POLL_MAX];
    size_t total = 0;
    size_t count;

    if (round->feeds.reports == NULL)
        return 0;
    do {
        /* What is polled is taken: room for one message each must be left. */
        count = advisor_source_poll(round->feeds.reports, items,
                                    advisor_round_has_room(round) ? POLL_MAX : 0, 0);
        for (size_t i = 0; i < count; i++)
            advisor_round_take_report(round, items[i]);
        total += count;
    } while (count > 0 && total < REPORTS_MAX);
    return total;
}

/* A gateway of a former version knows the shared key alone.  It is one as long as it does not sign
 * its reports. */
static enum kvt_err
encode_order(const struct advisor_round *round, const struct kvt_order *order,
             struct kvt_buffer *out)
{
    const bool shared = round->options.observes_unsigned &&
                        !advisor_planner_is_verified(round->options.planner, order->gateway);

    return wire_order_encode(order, round->options.order_keys, shared, out);
}

/* Orders that are durable go out; the outbox brings back how it went. */
static void
send_orders(struct advisor_round *round)
{
    struct advisor_planner *planner = round->options.planner;
    struct kvt_order order;

    if (planner == NULL || round->options.order_keys == NULL || round->feeds.outbox == NULL)
        return;
    while (advisor_planner_next(planner, &order, kvt_clock_unix_ms())) {
        struct advisor_outbox_message *message = NULL;
        enum kvt_err rc = advisor_outbox_message_new(&message, ADVISOR_OUTBOX_MESSAGE_ORDER);

        if (rc == KVT_OK) {
            message->about = order.id;
            (void)snprintf(message->message_id, sizeof(message->message_id), "%" PRIu64 ":%" PRIu64,
                           order.epoch, order.id);
            rc = wire_subject_named(WIRE_SUBJECT_ORDERS, message->subject, sizeof(message->subject),
                                    order.gateway);
        }
        if (rc == KVT_OK)
            rc = encode_order(round, &order, &message->bytes);
        if (rc == KVT_OK)
            rc = advisor_outbox_send(round->feeds.outbox, message);
        if (rc != KVT_OK) {
            advisor_outbox_message_free(message);
            advisor_planner_unsent(planner, order.id, kvt_clock_unix_ms());
        }
    }
}

/* Numbers for people. */
static void
show_counts(struct advisor_round *round)
{
    const struct advisor_counters *counters = &round->counters;
    const uint64_t cold = round->evicted == NULL ? 0 : advisor_evicted_count(round->evicted);
    struct advisor_namespace_use names;
    struct index_stats stats;
    uint64_t used;
    uint64_t max;

    advisor_round_show_sources(round);
    index_stats(round->options.index, &stats);
    advisor_store_size(round->options.store, &used, &max);
    kvt_metric_set(counters->blocks, (int64_t)(stats.blocks + cold));
    kvt_metric_set(counters->ram_bytes, (int64_t)stats.bytes);
    kvt_metric_set(counters->db_bytes, (int64_t)used);
    kvt_metric_set(counters->evicted, (int64_t)cold);
    advisor_name_table_namespace_use(round->names, &names);
    kvt_metric_set(counters->ns_used, (int64_t)names.used);
    kvt_metric_set(counters->ns_max, INDEX_NAMESPACES_MAX);
    kvt_metric_set(counters->ns_full, names.full ? 1 : 0);
    kvt_metric_set(counters->log_bytes, (int64_t)round->log.bytes);
    kvt_metric_set(counters->conditions,
                   (int64_t)kvt_conditions_count(round->options.conditions, kvt_clock_unix_ms()));
    kvt_metric_set(counters->spilled, advisor_ram_index_whole(&round->memory) ? 0 : 1);
}

/* Who is in doubt is said with every answer, so it is always up to date. */
static void
show(struct advisor_round *round, size_t taken)
{
    const struct advisor_counters *counters = &round->counters;
    const uint64_t now_ms = kvt_clock_mono_ms();
    size_t uncertain;
    size_t silent;
    size_t live;

    advisor_publishers_show(round->publishers);
    advisor_publishers_rest(round->publishers);
    advisor_publishers_doubts(round->publishers, &live, &uncertain, &silent);
    kvt_metric_set(counters->publishers, (int64_t)live);
    kvt_metric_set(counters->uncertain, (int64_t)uncertain);
    kvt_metric_set(counters->silent, (int64_t)silent);
    if (taken > 0 && now_ms - round->shown_ms < SHOW_EVERY_MS)
        return;
    round->shown_ms = now_ms;
    show_counts(round);
}

/* Names below this are void. */
static uint32_t
floor_of(void *arg, uint32_t number)
{
    const struct advisor_round *round = arg;
    const struct advisor_publisher *publisher =
        advisor_publishers_by_number(round->publishers, number);

    return publisher == NULL ? UINT32_MAX : publisher->foreign.floor;
}

/* Work that goes on without events: a snapshot, and what is void by the last one. */
static bool
has_work(const struct advisor_round *round)
{
    return round->log.oldest < round->log.from || advisor_ram_snapshot_busy(round->snapshot);
}

static void
finish(struct advisor_round *round, size_t taken)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    bool due = advisor_round_has_changes(round);

    if (due && advisor_round_follow(round))
        due = false;
    if (round->moved && round->moved_ms == 0)
        round->moved_ms = now_ms;
    if (due || has_work(round) || (round->moved && now_ms - round->moved_ms >= SEQ_ONLY_EVERY_MS))
        advisor_round_commit(round);
    if (round->unsynced_ms != 0 &&
        (taken == 0 || now_ms - round->unsynced_ms >= round->options.commit_max_wait_ms / 2))
        advisor_round_flush(round);
}

/* The first round: the index, and what the start left to do. */
static void
begin(struct advisor_round *round)
{
    advisor_round_load(round);
    if (round->failure == KVT_OK && advisor_change_group_count(round->group) == 0)
        advisor_round_reclaim(round, INDEX_HOLDERS_MAX);
}

/* The group is still there, as it was; nothing may come behind it. */
static void
try_again(struct advisor_round *round, uint64_t wait_ms)
{
    if (kvt_clock_mono_ms() >= round->retry_at_ms)
        advisor_round_commit(round);
    else
        kvt_clock_sleep_ms(wait_ms < BLOCKED_NAP_MS ? wait_ms : BLOCKED_NAP_MS);
    show(round, 0);
}

/* What can be done before anything is taken.  True: there is something to write. */
static bool
go_on(struct advisor_round *round)
{
    advisor_round_take_back(round);
    advisor_aliases_purge(round->aliases, floor_of, round);
    advisor_round_take_messages(round);
    advisor_round_drain_held(round);
    return advisor_change_group_count(round->group) > 0 || has_work(round) ||
           (!round->options.volatile_places && advisor_round_has_changes(round));
}

/* What is evicted comes first in its group.  False: there is no room in RAM for more. */
static bool
make_room(struct advisor_round *round)
{
    return round->evict == NULL || advisor_change_group_count(round->group) > 0 ||
           advisor_index_eviction_step(round->evict, advisor_change_group_log(round->group));
}

void
advisor_round_step(struct advisor_round *round, uint64_t wait_ms)
{
    uint64_t now_ms;
    size_t taken;
    bool room;

    if (round->failure != KVT_OK) {
        kvt_clock_sleep_ms(wait_ms);
        return;
    }
    round->now_ms = kvt_clock_mono_ms();
    (void)advisor_writer_calls_serve(round->writer_calls); /* also while the group finds no room */
    if (round->retry_at_ms != 0) {
        try_again(round, wait_ms);
        return;
    }
    if (atomic_load(&round->memory.loading)) {
        begin(round);
        if (round->failure != KVT_OK)
            return;
    }
    advisor_round_recover(round);
    room = make_room(round);
    sweep(round); /* also where nothing is taken, and beside what is evicted: it makes room too */
    if (!room) {
        round->deaf = true;
        finish(round, 0);
        show(round, 0);
        return;
    }
    if (go_on(round))
        wait_ms = 0;
    taken = advisor_round_poll(round, wait_ms) + take_reports(round);
    now_ms = kvt_clock_mono_ms();
    if (now_ms - round->aged_ms >= AGE_EVERY_MS) {
        round->aged_ms = now_ms;
        advisor_round_age(round, now_ms);
    }
    advisor_round_workers(round); /* before the group is written: who left is not asked again */
    advisor_round_ask_publishers(round, now_ms);
    if (round->options.jobs != NULL)
        advisor_jobs_tick(round->options.jobs, kvt_clock_unix_ms());
    if (round->options.planner != NULL &&
        now_ms - round->planned_ms >= round->options.plan_interval_ms) {
        round->planned_ms = now_ms;
        advisor_planner_tick(round->options.planner, kvt_clock_unix_ms());
    }
    finish(round, taken);
    advisor_round_depart(round);
    if (round->unsynced_ms == 0 && round->retry_at_ms == 0) {
        if (round->options.jobs != NULL)
            advisor_jobs_synced(round->options.jobs);
        send_orders(round);
    }
    show(round, taken);
}

/* ---- any thread ---- */

struct advisor_writer_calls *
advisor_round_writer_calls(struct advisor_round *round)
{
    return round->writer_calls;
}

struct advisor_ram_index *
advisor_round_memory(struct advisor_round *round)
{
    return &round->memory;
}

struct advisor_publishers *
advisor_round_publishers(struct advisor_round *round)
{
    return round->publishers;
}

bool
advisor_round_blocked(struct advisor_round *round, char text[KVT_ERROR_TEXT_MAX])
{
    bool blocked;

    (void)pthread_mutex_lock(&round->shared.lock);
    blocked = round->shared.blocked;
    memcpy(text, round->shared.text, KVT_ERROR_TEXT_MAX);
    (void)pthread_mutex_unlock(&round->shared.lock);
    return blocked;
}

bool
advisor_round_caught_up(struct advisor_round *round)
{
    return atomic_load(&round->caught_up);
}
