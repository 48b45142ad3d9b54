/*
 * bench/events_in.c -- events a second from a JetStream stream into the durable index.
 *
 * The stream is filled beforehand by PUBLISHERS publishers with batches of BATCH events.  Ours is
 * what the advisor does: read, decode, apply, commit to LMDB, follow in RAM; the clock stops after
 * the last commit was made durable.  The floor reads the same messages with the same reader and
 * frees them.
 *
 * Prints one line a pair: "pair <ours> <floor>", in events a second.  Each run starts with an empty
 * store.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "advisor/counters.h"
#include "advisor/engine.h"
#include "advisor/source.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "index/index.h"
#include "wire/bus.h"
#include "wire/event.h"
#include "wire/stream.h"
#include "wire/subject.h"

#include "tests/support/nats_server.h"
#include "tests/support/seed.h"

enum {
    PUBLISHERS = 8,
    BATCH = 256,
    CHAIN = 32,
    MESSAGES = 4096,
    MESSAGES_QUICK = 512,
    PAIRS = 7,
    PAIRS_QUICK = 3,
    WAIT_MS = 100,
    ACK_MS = 5000,
    GIVE_UP_MS = 300000,
};

#define RAM_BYTES (UINT64_C(4) << 30)
#define MAP_BYTES (UINT64_C(16) << 30)

struct bench {
    struct wire_bus *bus;
    uint32_t messages;
    uint64_t last_seq; /* of the stream */
};

static double
rate(const struct bench *bench, uint64_t start_ns)
{
    return (double)bench->messages * BATCH * 1e9 / (double)(kvt_clock_mono_ns() - start_ns);
}

/* The `round`-th batch of a publisher: whole chains, each block stored once. */
static void
fill_batch(struct kvt_event_batch *batch, uint32_t publisher, uint32_t round)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        uint64_t state = ((uint64_t)publisher << 32 | round) * BATCH + i;
        uint64_t before = state - 1;

        batch->events[i] = (struct kvt_event){
            .type = KVT_EVENT_STORE,
            .sequence_hash = kvt_random_next(&state),
            .prefix_hash = state,
            .parent = i % CHAIN == 0 ? 0 : kvt_random_next(&before),
            .position = i % CHAIN,
            .block_size = 262144,
            .ranks = 1,
        };
    }
    batch->event_count = BATCH;
    batch->first_seq = (uint64_t)round * BATCH + 1;
}

static bool
fill_stream(struct bench *bench)
{
    static struct kvt_event events[BATCH];
    struct kvt_event_batch batch = {.namespace_ = "bench", .incarnation = 1, .location_count = 1};
    struct kvt_buffer bytes;
    char subject[WIRE_SUBJECT_MAX];
    bool ok = wire_bus_ensure_streams(bench->bus, NULL) == KVT_OK;

    kvt_buffer_init(&bytes, WIRE_EVENT_BATCH_MAX);
    batch.locations[0].tier = KVT_TIER_G2;
    batch.events = events;
    for (uint32_t i = 0; i < bench->messages && ok; i++) {
        (void)snprintf(batch.worker, sizeof(batch.worker), "worker-%u", i % PUBLISHERS);
        batch.time_ms = kvt_clock_unix_ms();
        fill_batch(&batch, i % PUBLISHERS, i / PUBLISHERS);
        kvt_buffer_clear(&bytes);
        ok = wire_event_encode(&batch, &bytes) == KVT_OK &&
             wire_subject_events(subject, sizeof(subject), "bench", 0, batch.worker) == KVT_OK &&
             wire_bus_publish_acked(bench->bus, subject, NULL, bytes.data, bytes.size, ACK_MS,
                                    &bench->last_seq) == KVT_OK;
    }
    kvt_buffer_release(&bytes);
    return ok;
}

static double
run_floor(const struct bench *bench)
{
    const struct wire_stream_options options = {.stream = WIRE_STREAM_EVENTS, .start_seq = 1};
    struct wire_message *messages[WIRE_STREAM_FETCH_MAX];
    struct wire_stream *stream = NULL;
    const uint64_t start_ns = kvt_clock_mono_ns();
    uint32_t seen = 0;
    double result;
    size_t count;

    if (wire_stream_open(&stream, bench->bus, &options) != KVT_OK)
        return 0;
    while (seen < bench->messages) {
        if (wire_stream_fetch(stream, messages, WIRE_STREAM_FETCH_MAX, WAIT_MS, &count) != KVT_OK)
            break;
        for (size_t i = 0; i < count; i++)
            wire_message_free(messages[i]);
        seen += (uint32_t)count;
    }
    result = seen == bench->messages ? rate(bench, start_ns) : 0;
    wire_stream_close(stream);
    return result;
}

/* Step the engine until the whole stream is committed, and make that durable. */
static double
apply_all(const struct bench *bench, struct advisor_engine *engine)
{
    const struct advisor_source_options options = {
        .name = "kvtier", .bus = bench->bus, .stream = WIRE_STREAM_EVENTS};
    const uint64_t start_ns = kvt_clock_mono_ns();
    const uint64_t deadline_ms = kvt_clock_mono_ms() + GIVE_UP_MS;
    struct advisor_feeds feeds = {.bus = bench->bus};
    struct advisor_position events = {.seq = 0};
    struct advisor_position reports;
    struct kvt_metrics *metrics = NULL;
    struct kvt_error err;
    double result = 0;

    if (kvt_metrics_new(&metrics) != KVT_OK ||
        advisor_sources_new(&feeds.sources, metrics) != KVT_OK ||
        advisor_sources_add(feeds.sources, &advisor_source_jetstream, &options, NULL, 0, &err) !=
            KVT_OK)
        goto end;
    advisor_engine_attach(engine, &feeds);
    while (events.seq < bench->last_seq && kvt_clock_mono_ms() < deadline_ms) {
        advisor_engine_step(engine, WAIT_MS);
        advisor_engine_positions(engine, &events, &reports);
    }
    advisor_engine_flush(engine);
    if (events.seq >= bench->last_seq)
        result = rate(bench, start_ns);

end:
    advisor_sources_free(feeds.sources);
    kvt_metrics_free(metrics);
    return result;
}

static double
run_ours(const struct bench *bench)
{
    struct advisor_store_options store = {.map_bytes = MAP_BYTES};
    struct advisor_counters counters;
    struct advisor_engine_options options = {.counters = &counters,
                                             .commit_max_wait_ms = 200,
                                             .silent_after_ms = 60000,
                                             .gone_after_ms = 600000,
                                             .plan_interval_ms = 1000};
    struct advisor_engine *engine = NULL;
    struct kvt_metrics *metrics = NULL;
    struct index_stats stats;
    char folder[256];
    double result = 0;

    store.path = test_folder_make(folder, sizeof(folder));
    if (kvt_metrics_new(&metrics) == KVT_OK) {
        advisor_counters_register(&counters, metrics);
        if (index_new(&options.index, RAM_BYTES) == KVT_OK &&
            advisor_store_open(&options.store, &store, NULL) == KVT_OK &&
            advisor_engine_new(&engine, &options, NULL) == KVT_OK)
            result = apply_all(bench, engine);
    }
    if (result > 0) {
        index_stats(options.index, &stats);
        if (stats.blocks != (uint64_t)bench->messages * BATCH) {
            (void)fprintf(stderr, "the index has %" PRIu64 " blocks\n", stats.blocks);
            result = 0;
        }
    }
    advisor_engine_free(engine);
    advisor_store_close(options.store);
    index_free(options.index);
    kvt_metrics_free(metrics);
    test_folder_remove(folder);
    return result;
}

int
main(int argc, char **argv)
{
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    struct bench bench = {.messages = quick ? MESSAGES_QUICK : MESSAGES};
    struct wire_bus_options options = {.name = "bench", .connect_now = true};
    struct test_nats server;
    struct kvt_error err = {.text = ""};
    bool ok;

    test_nats_require();
    test_nats_start(&server);
    options.url = server.url;
    ok = wire_bus_open(&bench.bus, &options, &err) == KVT_OK && fill_stream(&bench);
    for (int i = 0; i < (quick ? PAIRS_QUICK : PAIRS) && ok; i++) {
        const double floor = run_floor(&bench);
        const double ours = run_ours(&bench);

        ok = floor > 0 && ours > 0;
        if (ok)
            (void)printf("pair %.0f %.0f\n", ours, floor);
    }
    if (!ok)
        (void)fprintf(stderr, "events_in: a run did not end: %s\n", err.text);
    wire_bus_close(bench.bus);
    test_nats_stop(&server);
    return ok ? 0 : 1;
}
