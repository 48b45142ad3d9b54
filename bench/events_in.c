/*
 * bench/events_in.c -- from a NATS message to readers of the index, against a bare subscriber.
 *
 * Another process publishes (flood.h).  Ours is what the advisor does: receive, decode, apply,
 * commit to LMDB with the default durability, follow in RAM; the clock stops when readers see every
 * block and the last commit is flushed.  The floor is a subscriber that frees the message.
 *
 *   events_in single  each message one event: "pair <ours> <floor>", events a second
 *   events_in off     the same with index.durable = false: places are in RAM alone
 *   events_in packed  40 events a message, against ours with one
 *
 * "cpu <ours> <floor>" beside each pair: nanoseconds of this process's CPU an event.  Each run
 * starts with an empty store.
 */
#include <inttypes.h>
#include <nats/nats.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "advisor/index/advisor_counters.h"
#include "advisor/round/round.h"
#include "advisor/source/sources.h"
#include "base/core/clock.h"
#include "index/index.h"
#include "wire/message/subject.h"
#include "wire/nats/bus.h"

#include "bench/flood.h"
#include "tests/support/nats_server.h"
#include "tests/support/seed.h"

enum {
    EVENTS = 2000000,
    EVENTS_QUICK = 200000,
    PACKED = 40,
    PAIRS = 7,
    PAIRS_QUICK = 3,
    WAIT_MS = 20,
    SUBSCRIBE_MS = 300, /* until the server knows a subscription for sure */
    GIVE_UP_MS = 60000,
};

#define RAM_BYTES (UINT64_C(4) << 30)
#define MAP_BYTES (UINT64_C(16) << 30)

enum way { SINGLE, OFF, PACK, WAYS };

static const char *const way_names[WAYS] = {"single", "off", "packed"};

struct bench {
    struct flood flood;
    enum way way;
    const char *url;
    uint64_t events;
    uint64_t runs;
};

/* What one run was. */
struct figure {
    double rate;   /* events a second; 0: it failed */
    double cpu_ns; /* of this process, an event */
};

static uint64_t
cpu_ns(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
}

static struct figure
figure(const struct bench *bench, uint64_t start_ns, uint64_t start_cpu_ns)
{
    return (struct figure){
        .rate = (double)bench->events * 1e9 / (double)(kvt_clock_mono_ns() - start_ns),
        .cpu_ns = (double)(cpu_ns() - start_cpu_ns) / (double)bench->events,
    };
}

static bool
prepare(struct bench *bench, uint64_t packed)
{
    const struct flood_run run = {
        .number = ++bench->runs, .messages = bench->events / packed, .events = packed};

    return flood_prepare(&bench->flood, &run) > 0;
}

/* ---- the floor ---- */

static void
heard(natsConnection *nats, natsSubscription *subscription, natsMsg *message, void *arg)
{
    struct flood_board *board = arg;

    (void)nats;
    (void)subscription;
    natsMsg_Destroy(message);
    atomic_fetch_add(&board->consumed, 1);
}

static struct figure
run_floor(struct bench *bench)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + GIVE_UP_MS;
    struct flood_board *board = bench->flood.board;
    natsSubscription *subscription = NULL;
    natsConnection *nats = NULL;
    struct figure result = {0};
    uint64_t start_cpu_ns;
    uint64_t start_ns;

    if (!prepare(bench, 1) || natsConnection_ConnectTo(&nats, bench->url) != NATS_OK ||
        natsConnection_Subscribe(&subscription, nats, WIRE_SUBJECT_EVENTS_ALL, heard, board) !=
            NATS_OK ||
        natsSubscription_SetPendingLimits(subscription, WIRE_BUS_PENDING_MESSAGES,
                                          WIRE_BUS_PENDING_BYTES) != NATS_OK ||
        natsConnection_Flush(nats) != NATS_OK)
        return result;
    start_ns = kvt_clock_mono_ns();
    start_cpu_ns = cpu_ns();
    if (!flood_go(&bench->flood))
        return result;
    while (atomic_load(&board->consumed) < bench->events && kvt_clock_mono_ms() < deadline_ms)
        kvt_clock_sleep_ms(1);
    if (atomic_load(&board->consumed) == bench->events)
        result = figure(bench, start_ns, start_cpu_ns);
    natsSubscription_Destroy(subscription);
    natsConnection_Destroy(nats);
    return flood_done(&bench->flood) ? result : (struct figure){0};
}

/* ---- ours ---- */

/* Step until readers see every block, and make that durable. */
static struct figure
follow(struct bench *bench, struct advisor_round *engine, struct index *index, uint64_t packed)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + GIVE_UP_MS;
    struct index_stats stats = {.blocks = 0};
    uint64_t start_cpu_ns;
    uint64_t start_ns;

    kvt_clock_sleep_ms(SUBSCRIBE_MS);
    start_ns = kvt_clock_mono_ns();
    start_cpu_ns = cpu_ns();
    if (!flood_go(&bench->flood))
        return (struct figure){0};
    while (stats.blocks < bench->events && kvt_clock_mono_ms() < deadline_ms) {
        advisor_round_step(engine, WAIT_MS);
        index_stats(index, &stats);
        atomic_store(&bench->flood.board->consumed, stats.blocks / packed);
    }
    advisor_round_flush(engine);
    if (stats.blocks != bench->events) {
        (void)fprintf(stderr, "events_in: readers see %" PRIu64 " of %" PRIu64 " blocks\n",
                      stats.blocks, bench->events);
        return (struct figure){0};
    }
    return figure(bench, start_ns, start_cpu_ns);
}

struct rig {
    struct wire_bus *bus;
    struct kvt_metrics *metrics;
    struct advisor_counters counters;
    struct advisor_round_options options;
    struct advisor_round *engine;
    struct advisor_feeds feeds;
    char folder[256];
};

static bool
rig_open(struct rig *rig, const struct bench *bench)
{
    const struct wire_bus_options bus = {.url = bench->url, .name = "bench", .connect_now = true};
    const struct advisor_store_options store = {
        .path = test_folder_make(rig->folder, sizeof(rig->folder)), .map_bytes = MAP_BYTES};
    struct advisor_source_options source = {.name = "events", .subject = WIRE_SUBJECT_EVENTS_ALL};
    struct kvt_error err = {.text = ""};

    rig->options = (struct advisor_round_options){.counters = &rig->counters,
                                                  .commit_max_wait_ms = 200,
                                                  .silent_after_ms = 60000,
                                                  .gone_after_ms = 600000,
                                                  .plan_interval_ms = 1000,
                                                  .volatile_places = bench->way == OFF};
    if (wire_bus_open(&rig->bus, &bus, &err) != KVT_OK || kvt_metrics_new(&rig->metrics) != KVT_OK)
        return false;
    advisor_counters_register(&rig->counters, rig->metrics);
    source.bus = rig->bus;
    rig->feeds.bus = rig->bus;
    if (index_new(&rig->options.index, RAM_BYTES) != KVT_OK ||
        advisor_store_open(&rig->options.store, &store, &err) != KVT_OK ||
        advisor_round_new(&rig->engine, &rig->options, &err) != KVT_OK ||
        advisor_sources_new(&rig->feeds.sources, rig->metrics) != KVT_OK ||
        advisor_sources_add(rig->feeds.sources, &advisor_source_core, &source, NULL, 0, &err) !=
            KVT_OK) {
        (void)fprintf(stderr, "events_in: %s\n", err.text);
        return false;
    }
    advisor_round_attach(rig->engine, &rig->feeds);
    return true;
}

static void
rig_close(struct rig *rig)
{
    advisor_sources_free(rig->feeds.sources);
    advisor_round_free(rig->engine);
    advisor_store_close(rig->options.store);
    index_free(rig->options.index);
    kvt_metrics_free(rig->metrics);
    wire_bus_close(rig->bus);
    test_folder_remove(rig->folder);
}

static struct figure
run_ours(struct bench *bench, uint64_t packed)
{
    struct rig rig = {.bus = NULL};
    struct figure result = {0};

    if (prepare(bench, packed) && rig_open(&rig, bench)) {
        result = follow(bench, rig.engine, rig.options.index, packed);
        if (!flood_done(&bench->flood))
            result = (struct figure){0};
    }
    rig_close(&rig);
    return result;
}

/* ---- pairs ---- */

static bool
measure(struct bench *bench, int pairs)
{
    const bool packed = bench->way == PACK;

    for (int i = 0; i < pairs; i++) {
        const struct figure anchor = packed ? run_ours(bench, 1) : run_floor(bench);
        const struct figure ours = run_ours(bench, packed ? PACKED : 1);

        if (anchor.rate <= 0 || ours.rate <= 0)
            return false;
        (void)printf("pair %.0f %.0f\ncpu %.1f %.1f\n", ours.rate, anchor.rate, ours.cpu_ns,
                     anchor.cpu_ns);
        (void)fflush(stdout);
    }
    return true;
}

int
main(int argc, char **argv)
{
    const bool quick = argc > 2 && strcmp(argv[2], "--quick") == 0;
    struct bench bench = {.events = quick ? EVENTS_QUICK : EVENTS, .way = WAYS};
    struct test_nats server;
    bool ok;

    for (enum way way = SINGLE; way < WAYS && argc > 1; way++)
        if (strcmp(argv[1], way_names[way]) == 0)
            bench.way = way;
    if (bench.way == WAYS) {
        (void)fprintf(stderr, "usage: events_in single|off|packed [--quick]\n");
        return 2;
    }
    test_nats_require();
    test_nats_start(&server);
    bench.url = server.url;
    ok = flood_start(&bench.flood, server.url) && measure(&bench, quick ? PAIRS_QUICK : PAIRS);
    if (!ok)
        (void)fprintf(stderr, "events_in: a run did not end\n");
    flood_stop(&bench.flood);
    test_nats_stop(&server);
    return ok ? 0 : 1;
}
