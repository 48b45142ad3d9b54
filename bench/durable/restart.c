/*
 * bench/durable/restart.c -- the index from disk, against the same events as they come.
 *
 *   bench_index_restart A|C [--quick]
 *
 * A store is filled once as the engine does it, with snapshots as they fall due.  Then, in turn, an
 * empty index is given the events from the logs of their groups (what RAM does after a commit;
 * the logs are made untimed), and another is loaded from the store.  Both must say the same.
 * Prints "pair <loaded> <live>", (block, holder) pairs a second, and beside each "cpu" with the
 * same a second of the thread's CPU, and "ready <seconds> <seconds live> <blocks>".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/core/clock.h"

#include "bench/durable/rounds.h"

enum {
    PAIRS = 7,
    PAIRS_QUICK = 3,
    CHECKED = 997, /* every so many events are looked up */
    SEED = 42,
};

/* Half of the chains share their first half: of these, 21 M are blocks. */
#define MEMBERSHIPS_CHAINS 28000000u
#define MEMBERSHIPS_SINGLE 10000000u /* of one block an event */
#define QUICK              10        /* a part of them */

struct figure {
    double seconds;
    double cpu_s; /* of this thread */
    struct index_stats stats;
};

static double
cpu_s(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* What was begun then is done. */
static void
stop_clock(struct figure *figure, uint64_t start_ns, double start_cpu_s)
{
    figure->seconds += (double)(kvt_clock_mono_ns() - start_ns) / 1e9;
    figure->cpu_s += cpu_s() - start_cpu_s;
}

static bool
fill(struct rounds *rounds, struct stream *stream)
{
    struct stream_event event;

    stream_rewind(stream);
    while (stream_next(stream, &event))
        if (!rounds_add(rounds, &event) || (rounds_is_full(rounds) && !rounds_commit(rounds)))
            return false;
    return rounds_commit(rounds) && rounds_sync(rounds);
}

/* Does the index say that whoever stored an event's last block has it? */
static bool
check(struct index *index, const struct advisor_name_table *names, struct stream *stream)
{
    struct index_place places[ROUNDS_WORKERS];
    struct stream_event event;
    bool good = true;

    stream_rewind(stream);
    for (uint64_t i = 0; good && stream_next(stream, &event); i++) {
        bool found = false;
        size_t count;

        if (i % CHECKED != 0)
            continue;
        count = index_places(index, advisor_name_table_index_namespace(names, event.ns),
                             event.hashes[event.count - 1], places, ROUNDS_WORKERS);
        for (size_t place = 0; place < count; place++)
            found |= places[place].holder == advisor_name_table_index_holder(names, event.worker);
        good = found;
    }
    if (!good)
        (void)fprintf(stderr, "bench_index_restart: a block is missing\n");
    return good;
}

/* The events as they come. */
static bool
run_live(struct stream *stream, struct figure *figure)
{
    struct stream_event event;
    struct rounds rounds;
    double start_cpu_s;
    uint64_t start_ns;
    bool more = true;
    bool good;

    *figure = (struct figure){.seconds = 0};
    good = rounds_open(&rounds, false);
    stream_rewind(stream);
    while (good && more) {
        more = stream_next(stream, &event);
        if (more)
            good = rounds_add(&rounds, &event);
        if (good && (!more || rounds_is_full(&rounds))) {
            start_cpu_s = cpu_s();
            start_ns = kvt_clock_mono_ns();
            good = rounds_commit(&rounds);
            stop_clock(figure, start_ns, start_cpu_s);
        }
    }
    if (good) {
        index_stats(rounds.index, &figure->stats);
        good = check(rounds.index, rounds.names, stream);
    }
    rounds_close(&rounds);
    return good;
}

static bool
load(struct advisor_ram_index *memory, struct advisor_name_table *names,
     struct advisor_store *store, struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(store, &txn, err);

    if (rc == KVT_OK)
        rc = advisor_name_table_load(names, &txn);
    if (rc == KVT_OK)
        rc = advisor_index_load(memory, &txn, NULL, err);
    advisor_store_end(&txn);
    return rc == KVT_OK && advisor_ram_index_whole(memory);
}

/* A start: all that is in the store. */
static bool
run_restart(struct stream *stream, struct advisor_store *store, struct figure *figure)
{
    struct kvt_error err = {.text = ""};
    struct advisor_name_table *names = NULL;
    struct index *index = NULL;
    struct advisor_ram_index memory = {.index = NULL};
    double start_cpu_s;
    uint64_t start_ns;
    bool good = index_new(&index, ROUNDS_INDEX_BYTES) == KVT_OK &&
                advisor_name_table_new(&names, index, INDEX_HOLDERS_MAX) == KVT_OK;

    *figure = (struct figure){.seconds = 0};
    if (good) {
        memory.index = index;
        memory.names = names;
        start_cpu_s = cpu_s();
        start_ns = kvt_clock_mono_ns();
        good = load(&memory, names, store, &err);
        stop_clock(figure, start_ns, start_cpu_s);
        index_stats(index, &figure->stats);
    }
    if (!good)
        (void)fprintf(stderr, "bench_index_restart: load: %s\n", err.text);
    good = good && check(index, names, stream);
    advisor_ram_index_release(&memory);
    advisor_name_table_free(names);
    index_free(index);
    return good;
}

static bool
measure_one(struct stream *stream, struct advisor_store *store)
{
    struct figure live;
    struct figure loaded;

    if (!run_live(stream, &live) || !run_restart(stream, store, &loaded))
        return false;
    if (live.stats.places != loaded.stats.places || live.stats.blocks != loaded.stats.blocks) {
        (void)fprintf(stderr,
                      "bench_index_restart: %" PRIu64 " blocks in %" PRIu64 " places, not %" PRIu64
                      " in %" PRIu64 "\n",
                      loaded.stats.blocks, loaded.stats.places, live.stats.blocks,
                      live.stats.places);
        return false;
    }
    (void)printf("pair %.0f %.0f\ncpu %.0f %.0f\nready %.3f %.3f %" PRIu64 "\n",
                 (double)loaded.stats.places / loaded.seconds,
                 (double)live.stats.places / live.seconds,
                 (double)loaded.stats.places / loaded.cpu_s, (double)live.stats.places / live.cpu_s,
                 loaded.seconds, live.seconds, loaded.stats.blocks);
    (void)fflush(stdout);
    return true;
}

int
main(int argc, char **argv)
{
    const bool quick = argc > 2 && strcmp(argv[2], "--quick") == 0;
    const bool single = argc > 1 && strcmp(argv[1], "C") == 0;
    const size_t memberships = single ? MEMBERSHIPS_SINGLE : MEMBERSHIPS_CHAINS;
    struct rounds rounds = {.store = NULL};
    struct stream stream;
    bool good;

    if (argc < 2 ||
        stream_open(&stream, argv[1], quick ? memberships / QUICK : memberships, SEED) != KVT_OK) {
        (void)fprintf(stderr, "usage: bench_index_restart A|C [--quick]\n");
        return 2;
    }
    good = rounds_open(&rounds, true);
    if (good && quick)
        advisor_ram_snapshot_sizes(rounds.snapshot, ADVISOR_RAM_SNAPSHOT_LOG_MIN / QUICK,
                                   ADVISOR_RAM_SNAPSHOT_SLICE_MIN);
    good = good && fill(&rounds, &stream);
    if (good)
        (void)printf("store %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", rounds.log.runs_bytes,
                     rounds.log.bytes, rounds.snapshots);
    for (int i = 0; good && i < (quick ? PAIRS_QUICK : PAIRS); i++)
        good = measure_one(&stream, rounds.store);
    rounds_close(&rounds);
    stream_close(&stream);
    return good ? 0 : 1;
}
