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
#include "base/core/log.h"
#include "wire/message/order_codec.h"
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
advisor_round_has_less(const struct advisor_round *engine, size_t enough)
{
    const size_t count = advisor_change_group_count(engine->group);

    return count < enough &&
           (engine->evict == NULL || count < advisor_index_eviction_limit(engine->evict));
}

bool
advisor_round_has_room(const struct advisor_round *engine)
{
    return advisor_round_has_less(engine, ADVISOR_CHANGE_GROUP_ENOUGH);
}

/* ---- life ---- */

enum kvt_err
advisor_round_new(struct advisor_round **out, const struct advisor_round_options *options,
                  struct kvt_error *err)
{
    struct advisor_round *engine = kvt_calloc(1, sizeof(*engine));
    enum kvt_err rc;

    *out = NULL;
    if (engine == NULL)
        return kvt_error_set(err, KVT_NOMEM, "engine");
    engine->options = *options;
    engine->counters = *options->counters;
    if (pthread_mutex_init(&engine->shared.lock, NULL) != 0) {
        kvt_free(engine);
        return kvt_error_set(err, KVT_NOMEM, "engine");
    }
    rc = advisor_name_table_new(&engine->names, options->index,
                                options->holders_max == 0 ? INDEX_HOLDERS_MAX
                                                          : options->holders_max);
    if (rc == KVT_OK)
        rc = advisor_writer_calls_new(&engine->writer_calls);
    if (rc == KVT_OK)
        rc = advisor_publishers_new(&engine->publishers);
    if (rc == KVT_OK)
        rc = advisor_sweeper_new(&engine->sweeper);
    if (rc == KVT_OK)
        rc = advisor_change_group_new(&engine->group);
    if (rc == KVT_OK)
        rc = advisor_ram_snapshot_new(&engine->snapshot, &engine->memory);
    if (rc == KVT_OK)
        rc = advisor_event_log_new(&engine->taken_back);
    if (rc == KVT_OK && options->cold_bytes > 0)
        rc = advisor_evicted_new(&engine->evicted, options->cold_bytes);
    if (rc == KVT_OK && options->cold_bytes > 0)
        rc = advisor_index_eviction_new(&engine->evict, &engine->memory);
    if (rc == KVT_OK)
        rc = advisor_round_foreign_new(engine);
    engine->decoded = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*engine->decoded));
    engine->accesses = kvt_calloc(KVT_REPORT_ACCESSES_MAX, sizeof(*engine->accesses));
    engine->results = kvt_calloc(KVT_REPORT_RESULTS_MAX, sizeof(*engine->results));
    engine->pins = kvt_calloc(KVT_REPORT_PINS_MAX, sizeof(*engine->pins));
    if (engine->decoded == NULL || engine->accesses == NULL || engine->results == NULL ||
        engine->pins == NULL)
        rc = KVT_NOMEM;
    if (rc != KVT_OK) {
        rc = kvt_error_set(err, rc, "engine: %s", kvt_err_text(rc));
        goto fail;
    }
    engine->memory.index = options->index;
    engine->memory.names = engine->names;
    engine->memory.cold = engine->evicted;
    engine->memory.taken_back = engine->taken_back;
    atomic_store(&engine->memory.loading, true);
    rc = advisor_round_load_tables(engine, err);
    if (rc != KVT_OK)
        goto fail;
    advisor_publishers_show(engine->publishers);
    *out = engine;
    return KVT_OK;

fail:
    advisor_round_free(engine);
    return rc;
}

void
advisor_round_free(struct advisor_round *engine)
{
    if (engine == NULL)
        return;
    advisor_round_foreign_free(engine);
    advisor_index_eviction_free(engine->evict);
    advisor_evicted_free(engine->evicted);
    advisor_ram_snapshot_free(engine->snapshot);
    advisor_event_log_free(engine->taken_back);
    advisor_change_group_free(engine->group);
    advisor_ram_index_release(&engine->memory);
    advisor_sweeper_free(engine->sweeper);
    advisor_publishers_free(engine->publishers);
    advisor_name_table_free(engine->names);
    advisor_writer_calls_free(engine->writer_calls);
    kvt_free(engine->decoded);
    kvt_free(engine->accesses);
    kvt_free(engine->results);
    kvt_free(engine->pins);
    (void)pthread_mutex_destroy(&engine->shared.lock);
    kvt_free(engine);
}

void
advisor_round_positions(const struct advisor_round *engine, struct advisor_position *events,
                        struct advisor_position *reports)
{
    const struct advisor_intake *ours =
        engine->feeds.sources == NULL ? NULL : advisor_sources_by_number(engine->feeds.sources, 0);

    *events = ours == NULL ? engine->events : ours->taken;
    *reports = engine->reports;
}

void
advisor_round_attach(struct advisor_round *engine, const struct advisor_feeds *feeds)
{
    engine->feeds = *feeds;
    advisor_round_doubt_sources(engine);
    advisor_round_workers_all(engine);
}

/* ---- one round ---- */

static void
sweep(struct advisor_round *engine)
{
    struct kvt_error err = {.text = ""};
    struct advisor_txn txn;
    enum kvt_err rc;

    if (!advisor_sweeper_busy(engine->sweeper) || advisor_change_group_ops(engine->group) > 0)
        return;
    rc = advisor_store_read(engine->options.store, &txn, &err);
    if (rc == KVT_OK)
        rc = advisor_sweeper_step(engine->sweeper, &txn, engine->group);
    advisor_store_end(&txn);
    if (rc != KVT_OK) {
        /* Half a step may be in the group, which is right: those places do go. */
        kvt_log_error("advisor.engine", "sweep", "%s", kvt_err_text(rc));
    }
}

static size_t
take_reports(struct advisor_round *engine)
{
    struct advisor_inbox_item *items[POLL_MAX];
    size_t total = 0;
    size_t count;

    if (engine->feeds.reports == NULL)
        return 0;
    do {
        /* What is polled is taken: room for one message each must be left. */
        count = advisor_source_poll(engine->feeds.reports, items,
                                    advisor_round_has_room(engine) ? POLL_MAX : 0, 0);
        for (size_t i = 0; i < count; i++)
            advisor_round_take_report(engine, items[i]);
        total += count;
    } while (count > 0 && total < REPORTS_MAX);
    return total;
}

/* Orders that are durable go out; the courier brings back how it went. */
static void
send_orders(struct advisor_round *engine)
{
    struct advisor_planner *planner = engine->options.planner;
    struct kvt_order order;

    if (planner == NULL || engine->options.order_key == NULL || engine->feeds.courier == NULL)
        return;
    while (advisor_planner_next(planner, &order, kvt_clock_unix_ms())) {
        struct advisor_outbox_message *letter = NULL;
        enum kvt_err rc = advisor_outbox_message_new(&letter, ADVISOR_OUTBOX_MESSAGE_ORDER);

        if (rc == KVT_OK) {
            letter->about = order.id;
            (void)snprintf(letter->message_id, sizeof(letter->message_id), "%" PRIu64 ":%" PRIu64,
                           order.epoch, order.id);
            rc = wire_subject_orders(letter->subject, sizeof(letter->subject), order.gateway);
        }
        if (rc == KVT_OK)
            rc = wire_order_encode(&order, engine->options.order_key, &letter->bytes);
        if (rc == KVT_OK)
            rc = advisor_outbox_send(engine->feeds.courier, letter);
        if (rc != KVT_OK) {
            advisor_outbox_message_free(letter);
            advisor_planner_unsent(planner, order.id, kvt_clock_unix_ms());
        }
    }
}

/* Numbers for people. */
static void
show_counts(struct advisor_round *engine)
{
    const struct advisor_counters *counters = &engine->counters;
    const uint64_t cold = engine->evicted == NULL ? 0 : advisor_evicted_count(engine->evicted);
    struct index_stats stats;
    uint64_t used;
    uint64_t max;

    advisor_round_show_sources(engine);
    index_stats(engine->options.index, &stats);
    advisor_store_size(engine->options.store, &used, &max);
    kvt_metric_set(counters->blocks, (int64_t)(stats.blocks + cold));
    kvt_metric_set(counters->ram_bytes, (int64_t)stats.bytes);
    kvt_metric_set(counters->db_bytes, (int64_t)used);
    kvt_metric_set(counters->evicted, (int64_t)cold);
    kvt_metric_set(counters->log_bytes, (int64_t)engine->log.bytes);
    kvt_metric_set(counters->spilled, advisor_ram_index_whole(&engine->memory) ? 0 : 1);
}

/* Who is in doubt is said with every answer, so it is always up to date. */
static void
show(struct advisor_round *engine, size_t taken)
{
    const struct advisor_counters *counters = &engine->counters;
    const uint64_t now_ms = kvt_clock_mono_ms();
    size_t uncertain;
    size_t silent;
    size_t live;

    advisor_publishers_show(engine->publishers);
    advisor_publishers_rest(engine->publishers);
    advisor_publishers_doubts(engine->publishers, &live, &uncertain, &silent);
    kvt_metric_set(counters->publishers, (int64_t)live);
    kvt_metric_set(counters->uncertain, (int64_t)uncertain);
    kvt_metric_set(counters->silent, (int64_t)silent);
    if (taken > 0 && now_ms - engine->shown_ms < SHOW_EVERY_MS)
        return;
    engine->shown_ms = now_ms;
    show_counts(engine);
}

/* Names below this are void. */
static uint32_t
floor_of(void *arg, uint32_t number)
{
    const struct advisor_round *engine = arg;
    const struct advisor_publisher *publisher =
        advisor_publishers_by_number(engine->publishers, number);

    return publisher == NULL ? UINT32_MAX : publisher->foreign.floor;
}

/* Work that goes on without events: a snapshot, and what is void by the last one. */
static bool
has_work(const struct advisor_round *engine)
{
    return engine->log.oldest < engine->log.from || advisor_ram_snapshot_busy(engine->snapshot);
}

static void
finish(struct advisor_round *engine, size_t taken)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    bool due = advisor_round_has_changes(engine);

    if (due && advisor_round_follow(engine))
        due = false;
    if (engine->moved && engine->moved_ms == 0)
        engine->moved_ms = now_ms;
    if (due || has_work(engine) ||
        (engine->moved && now_ms - engine->moved_ms >= SEQ_ONLY_EVERY_MS))
        advisor_round_commit(engine);
    if (engine->unsynced_ms != 0 &&
        (taken == 0 || now_ms - engine->unsynced_ms >= engine->options.commit_max_wait_ms / 2))
        advisor_round_flush(engine);
}

/* The first round: the index, and what the start left to do. */
static void
begin(struct advisor_round *engine)
{
    advisor_round_load(engine);
    if (engine->failure == KVT_OK && advisor_change_group_count(engine->group) == 0)
        advisor_round_reclaim(engine, INDEX_HOLDERS_MAX);
}

/* The group is still there, as it was; nothing may come behind it. */
static void
try_again(struct advisor_round *engine, uint64_t wait_ms)
{
    if (kvt_clock_mono_ms() >= engine->retry_at_ms)
        advisor_round_commit(engine);
    else
        kvt_clock_sleep_ms(wait_ms < BLOCKED_NAP_MS ? wait_ms : BLOCKED_NAP_MS);
    show(engine, 0);
}

/* What can be done before anything is taken.  True: there is something to write. */
static bool
go_on(struct advisor_round *engine)
{
    advisor_round_take_back(engine);
    advisor_aliases_purge(engine->aliases, floor_of, engine);
    advisor_round_take_letters(engine);
    advisor_round_drain_held(engine);
    return advisor_change_group_count(engine->group) > 0 || has_work(engine) ||
           (!engine->options.volatile_places && advisor_round_has_changes(engine));
}

/* What is evicted comes first in its group.  False: there is no room in RAM for more. */
static bool
make_room(struct advisor_round *engine)
{
    return engine->evict == NULL || advisor_change_group_count(engine->group) > 0 ||
           advisor_index_eviction_step(engine->evict, advisor_change_group_log(engine->group));
}

void
advisor_round_step(struct advisor_round *engine, uint64_t wait_ms)
{
    uint64_t now_ms;
    size_t taken;
    bool room;

    if (engine->failure != KVT_OK) {
        kvt_clock_sleep_ms(wait_ms);
        return;
    }
    engine->now_ms = kvt_clock_mono_ms();
    (void)advisor_writer_calls_serve(engine->writer_calls); /* also while the group finds no room */
    if (engine->retry_at_ms != 0) {
        try_again(engine, wait_ms);
        return;
    }
    if (atomic_load(&engine->memory.loading)) {
        begin(engine);
        if (engine->failure != KVT_OK)
            return;
    }
    advisor_round_recover(engine);
    room = make_room(engine);
    sweep(engine); /* also where nothing is taken, and beside what is evicted: it makes room too */
    if (!room) {
        engine->deaf = true;
        finish(engine, 0);
        show(engine, 0);
        return;
    }
    if (go_on(engine))
        wait_ms = 0;
    taken = advisor_round_poll(engine, wait_ms) + take_reports(engine);
    now_ms = kvt_clock_mono_ms();
    if (now_ms - engine->aged_ms >= AGE_EVERY_MS) {
        engine->aged_ms = now_ms;
        advisor_round_age(engine, now_ms);
    }
    advisor_round_workers(engine); /* before the group is written: who left is not asked again */
    advisor_round_ask_publishers(engine, now_ms);
    if (engine->options.jobs != NULL)
        advisor_jobs_tick(engine->options.jobs, kvt_clock_unix_ms());
    if (engine->options.planner != NULL &&
        now_ms - engine->planned_ms >= engine->options.plan_interval_ms) {
        engine->planned_ms = now_ms;
        advisor_planner_tick(engine->options.planner, kvt_clock_unix_ms());
    }
    finish(engine, taken);
    advisor_round_depart(engine);
    if (engine->unsynced_ms == 0 && engine->retry_at_ms == 0) {
        if (engine->options.jobs != NULL)
            advisor_jobs_synced(engine->options.jobs);
        send_orders(engine);
    }
    show(engine, taken);
}

/* ---- any thread ---- */

struct advisor_writer_calls *
advisor_round_errands(struct advisor_round *engine)
{
    return engine->writer_calls;
}

struct advisor_ram_index *
advisor_round_memory(struct advisor_round *engine)
{
    return &engine->memory;
}

struct advisor_publishers *
advisor_round_publishers(struct advisor_round *engine)
{
    return engine->publishers;
}

bool
advisor_round_blocked(struct advisor_round *engine, char text[KVT_ERROR_TEXT_MAX])
{
    bool blocked;

    (void)pthread_mutex_lock(&engine->shared.lock);
    blocked = engine->shared.blocked;
    memcpy(text, engine->shared.text, KVT_ERROR_TEXT_MAX);
    (void)pthread_mutex_unlock(&engine->shared.lock);
    return blocked;
}

bool
advisor_round_caught_up(struct advisor_round *engine)
{
    return atomic_load(&engine->caught_up);
}
