#include "tests/unit/advisor/support/rig.h"

#include <stdio.h>
#include <string.h>

#include "advisor/index/index_load.h"
#include "advisor/source/source_private.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "wire/message/event_codec.h"
#include "wire/message/report_codec.h"
#include "wire/message/subject.h"

#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"

enum { ROUNDS = 4 };

enum kvt_err
test_rig_source_open(struct advisor_source *source)
{
    advisor_source_set_running(source, true, "");
    return KVT_OK;
}

void
test_rig_source_close(struct advisor_source *source)
{
    (void)source;
}

static const struct advisor_source_ops rig_source = {.name = "rig",
                                                     .open = test_rig_source_open,
                                                     .close = test_rig_source_close,
                                                     .decode = wire_event_decode};

static void
open_foreign(struct test_rig *rig, const struct test_rig_options *options)
{
    struct advisor_source_options foreign =
        options->reads == NULL ? advisor_source_unset : *options->reads;
    struct advisor_position position;
    uint32_t number;

    if (options->foreign == NULL)
        return;
    if (options->reads == NULL && options->kept)
        foreign.stream = "stream";
    (void)snprintf(foreign.name, sizeof(foreign.name), "cluster");
    (void)snprintf(foreign.namespace_, sizeof(foreign.namespace_), "ns0");
    assert_int_equal(advisor_round_source(rig->engine, foreign.name, &number, &position), KVT_OK);
    foreign.seq = position.seq;
    foreign.created_ms = position.created_ms;
    assert_int_equal(advisor_source_open(&rig->foreign, options->foreign, &foreign), KVT_OK);
    assert_int_equal(advisor_sources_adopt(rig->sources, rig->foreign, number), KVT_OK);
}

static void
open_rulebook(struct test_rig *rig, const struct test_rig_options *options,
              struct advisor_planner_options *planner)
{
    const struct advisor_rulebook_options book = {
        .store = rig->store,
        .settings = {.ordering = policy_ordering_find(planner->ordering->name) == NULL
                                     ? POLICY_ORDERING_DEFAULT
                                     : planner->ordering->name,
                     .hot_start_ppm = planner->hot_start_ppm,
                     .hot_stop_ppm = planner->hot_stop_ppm,
                     .cold_start_ppm = planner->cold_start_ppm,
                     .cold_stop_ppm = planner->cold_stop_ppm,
                     .promotes = options->promote_after > 0},
        .file = options->policy};
    struct kvt_error err;

    assert_int_equal(advisor_rulebook_open(&rig->rulebook, &book, &err), KVT_OK);
    planner->rulebook = rig->rulebook;
    planner->index = rig->index;
}

/* The clock of slices.  It stands still, unless a test says otherwise: a machine with other work
 * must not make other orders. */
static uint64_t slice_ms;
static uint64_t slice_step_ms;

static uint64_t
slice_clock(void)
{
    slice_ms += slice_step_ms;
    return slice_ms;
}

void
test_rig_slow_down(uint64_t step_ms)
{
    slice_step_ms = step_ms;
}

void
test_rig_open(struct test_rig *rig, const struct test_rig_options *options)
{
    const struct advisor_store_options store = {
        .path = options->path,
        .map_bytes = options->map_bytes == 0 ? 64u << 20 : options->map_bytes};
    const struct advisor_source_options none = {.stream = "rig"};
    struct advisor_source_options ours = {.name = "rig", .stream = "rig"};
    struct advisor_position events_at;
    struct advisor_position reports_at;
    struct advisor_planner_options planner = {
        .ordering = options->ordering == NULL ? &policy_lru : options->ordering,
        .ordering_options = {.prices = {.hot_read = 1, .cold_read = 10, .move = 1},
                             .idle_ticks = options->idle_ticks},
        .counters = &rig->counters,
        .mode = options->mode,
        .can_enforce = true,
        .hot_start_ppm = 850000,
        .hot_stop_ppm = 700000,
        .cold_start_ppm = 950000,
        .cold_stop_ppm = 900000,
        .promote_after = options->promote_after,
        .expiry_ms = 60000,
        .bytes_max = options->order_bytes == 0 ? 8u << 20 : options->order_bytes,
        .slice_clock = slice_clock};
    struct advisor_round_options engine = {.counters = &rig->counters,
                                           .commit_max_wait_ms = 200,
                                           .silent_after_ms = 10000,
                                           .gone_after_ms = 30000,
                                           .plan_interval_ms = 1000000,
                                           .holders_max = options->holders_max,
                                           .aliases_max = options->aliases_max,
                                           .cold_bytes = options->cold_bytes,
                                           .give_up_after_ms = options->give_up_after_ms,
                                           .volatile_places = options->volatile_places};
    struct advisor_feeds feeds = {.workers = options->workers};
    struct kvt_error err;

    memset(rig, 0, sizeof(*rig));
    assert_int_equal(kvt_metrics_new(&rig->metrics), KVT_OK);
    advisor_counters_register(&rig->counters, rig->metrics);
    assert_int_equal(advisor_store_open(&rig->store, &store, &err), KVT_OK);
    assert_int_equal(
        index_new(&rig->index, options->index_bytes == 0 ? 64u << 20 : options->index_bytes),
        KVT_OK);
    planner.index = rig->index;
    open_rulebook(rig, options, &planner);
    assert_int_equal(advisor_planner_new(&rig->planner, &planner), KVT_OK);
    assert_int_equal(
        advisor_jobs_new(&rig->jobs, &(struct advisor_jobs_options){.store = rig->store,
                                                                    .planner = rig->planner}),
        KVT_OK);
    engine.store = rig->store;
    engine.index = rig->index;
    engine.planner = rig->planner;
    engine.jobs = rig->jobs;
    assert_int_equal(advisor_round_new(&rig->engine, &engine, &err), KVT_OK);
    advisor_round_positions(rig->engine, &events_at, &reports_at);
    ours.seq = events_at.seq;
    ours.created_ms = events_at.created_ms;
    assert_int_equal(advisor_source_open(&rig->events, &rig_source, &ours), KVT_OK);
    assert_int_equal(advisor_source_open(&rig->reports, &rig_source, &none), KVT_OK);
    assert_int_equal(advisor_sources_new(&rig->sources, rig->metrics), KVT_OK);
    assert_int_equal(advisor_sources_adopt(rig->sources, rig->events, 0), KVT_OK);
    open_foreign(rig, options);
    if (options->foreign != NULL || options->asks)
        assert_int_equal(advisor_outbox_new(&rig->outbox, NULL), KVT_OK);
    feeds.sources = rig->sources;
    feeds.outbox = rig->outbox;
    feeds.reports = rig->reports;
    advisor_round_attach(rig->engine, &feeds);
    advisor_round_step(rig->engine, 0); /* the first one reads the index */
    assert_int_equal(advisor_round_failed(rig->engine, &err), KVT_OK);
    rig->finder = (struct advisor_finder){.memory = advisor_round_memory(rig->engine),
                                          .store = rig->store,
                                          .publishers = advisor_round_publishers(rig->engine)};
}

void
test_rig_close(struct test_rig *rig)
{
    advisor_outbox_free(rig->outbox);
    advisor_source_close(rig->reports);
    advisor_round_free(rig->engine);
    advisor_sources_free(rig->sources);
    advisor_jobs_free(rig->jobs);
    advisor_planner_free(rig->planner);
    advisor_rulebook_free(rig->rulebook);
    index_free(rig->index);
    advisor_store_close(rig->store);
    kvt_metrics_free(rig->metrics);
}

void
test_rig_copy(const struct test_rig *rig, struct test_rig_copy *copy)
{
    struct advisor_txn txn;
    struct kvt_error err;

    memset(copy, 0, sizeof(*copy));
    assert_int_equal(index_new(&copy->index, 64u << 20), KVT_OK);
    assert_int_equal(advisor_name_table_new(&copy->names, copy->index, INDEX_HOLDERS_MAX), KVT_OK);
    copy->memory.index = copy->index;
    copy->memory.names = copy->names;
    assert_int_equal(advisor_store_read(rig->store, &txn, &err), KVT_OK);
    assert_int_equal(advisor_name_table_load(copy->names, &txn), KVT_OK);
    assert_int_equal(advisor_index_load(&copy->memory, &txn, NULL, &err), KVT_OK);
    advisor_store_end(&txn);
    assert_true(advisor_ram_index_whole(&copy->memory));
    copy->finder = (struct advisor_finder){.memory = &copy->memory, .store = rig->store};
}

void
test_rig_copy_free(struct test_rig_copy *copy)
{
    advisor_ram_index_release(&copy->memory);
    advisor_name_table_free(copy->names);
    index_free(copy->index);
}

static void
push(struct advisor_source *source, const char *subject, uint64_t stream_seq, const void *bytes,
     size_t size)
{
    struct advisor_inbox_item *item;

    assert_int_equal(
        advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_MESSAGE, subject, bytes, size), KVT_OK);
    item->stream_seq = stream_seq;
    item->time_ms = kvt_clock_unix_ms();
    assert_true(advisor_source_push_wait(source, item));
}

void
test_rig_bytes(struct test_rig *rig, uint64_t stream_seq, const void *bytes, size_t size)
{
    push(rig->events, "kvtier.v1.test", stream_seq, bytes, size);
}

void
test_rig_batch(struct test_rig *rig, uint64_t stream_seq, const struct kvt_event_batch *batch)
{
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, WIRE_EVENT_BATCH_MAX);
    assert_int_equal(wire_event_encode(batch, &bytes), KVT_OK);
    push(rig->events, "kvtier.v1.test", stream_seq, bytes.data, bytes.size);
    kvt_buffer_release(&bytes);
}

void
test_rig_foreign_item(struct test_rig *rig, struct advisor_inbox_item *item)
{
    item->time_ms = kvt_clock_unix_ms();
    assert_true(advisor_source_push_wait(rig->foreign, item));
}

void
test_rig_foreign(struct test_rig *rig, uint64_t stream_seq, uint64_t sequence,
                 const struct kvt_buffer *bytes)
{
    struct advisor_inbox_item *item;

    assert_int_equal(advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_MESSAGE, "engine:test",
                                            bytes->data, bytes->size),
                     KVT_OK);
    item->stream_seq = stream_seq;
    item->sequence = sequence;
    item->has_sequence = sequence != UINT64_MAX;
    test_rig_foreign_item(rig, item);
}

struct advisor_source_view
test_rig_view(struct test_rig *rig)
{
    struct advisor_source_view view;

    assert_true(advisor_sources_view(rig->sources, "cluster", &view));
    return view;
}

void
test_rig_report(struct test_rig *rig, uint64_t stream_seq, const struct kvt_report *report)
{
    char subject[WIRE_SUBJECT_MAX];
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, WIRE_REPORT_MAX);
    assert_int_equal(wire_report_encode(report, &bytes), KVT_OK);
    assert_int_equal(
        wire_subject_named(WIRE_SUBJECT_REPORTS, subject, sizeof(subject), report->gateway),
        KVT_OK);
    push(rig->reports, subject, stream_seq, bytes.data, bytes.size);
    kvt_buffer_release(&bytes);
}

void
test_rig_run(struct test_rig *rig)
{
    for (int quiet = 0; quiet < ROUNDS;) {
        const int64_t commits = kvt_metric_get(rig->counters.commits);

        advisor_round_step(rig->engine, 0);
        quiet = kvt_metric_get(rig->counters.commits) == commits ? quiet + 1 : 0;
    }
}

int64_t
test_rig_value(struct kvt_metric *metric)
{
    return kvt_metric_get(metric);
}
