/*
 * bench/pool.c -- the book-keeping of a pool, against none.
 *
 *   bench_pool THREADS ANCHORS BLOCKS CHAIN MILLISECONDS PAIRS
 *
 * Ours: every thread takes CHAIN blocks of one pool, names them, registers them, finds them again
 * by their names and gives them back twice.  The pool is full from the start, so that each block
 * taken evicts one.  Anchor: for the same blocks a list and a table of names, nothing else: take
 * the oldest, take its name out, put the new one in, append.  The table is an open one, as they
 * usually are (kvbm/pool/block_map.h); the pool's is its own.  There is no lock and no state, and
 * so each of ANCHORS threads has a list and a table of its own, of its share of the blocks.
 * Prints "pair <ours> <anchor>" lines, blocks a second of all threads, and "cpu <ours> <anchor>",
 * blocks a CPU second of one, which says more on a machine that is not idle.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/text/parse.h"
#include "kvbm/pool/block_map.h"
#include "kvbm/pool/block_pool.h"
#include "kvbm/pool/mutable_block.h"

enum { CHAIN_MAX = 1024, THREADS_MAX = 64, LOOK = 64 };

struct bare_block {
    uint64_t hash; /* 0: none yet */
    uint32_t next;
};

/* A list through an array, and a table of names. */
struct bare {
    struct kvbm_block_map names;
    struct bare_block *blocks;
    uint32_t oldest;
    uint32_t newest;
};

struct bench {
    uint64_t threads;
    uint64_t anchors;
    uint64_t blocks;
    uint64_t chain;
    uint64_t run_ms;
    struct kvbm_pool *pool;
    _Atomic bool stop;
    _Atomic unsigned wrong;
};

struct worker {
    struct bench *bench;
    struct bare bare;
    uint64_t next;   /* sequence hashes are made of it */
    uint64_t done;   /* blocks */
    uint64_t cpu_ns; /* that took */
    pthread_t thread;
};

static void
need(bool ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "bench_pool: %s\n", what);
    exit(1);
}

/* As well mixed as a sequence hash, and never twice. */
static uint64_t
next_hash(struct worker *worker)
{
    uint64_t mixed = worker->next += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* ---- ours ---- */

static bool
pool_chain(struct worker *worker)
{
    const size_t count = worker->bench->chain;
    struct kvbm_pool *pool = worker->bench->pool;
    struct kvt_handle handles[CHAIN_MAX];
    struct kvt_handle found[CHAIN_MAX];
    enum kvt_err results[CHAIN_MAX];
    uint64_t hashes[CHAIN_MAX];
    bool ok = kvbm_pool_allocate(pool, count, handles) == KVT_OK;

    if (!ok)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct kvbm_label label = {.id.position = (uint32_t)i};

        hashes[i] = label.id.hash = next_hash(worker);
        label.id.parent = i == 0 ? 0 : hashes[i - 1];
        label.prefix_hash = hashes[0];
        ok = kvbm_block_begin(pool, handles[i], NULL) == KVT_OK && ok;
        ok = kvbm_block_complete(pool, handles[i], &label, NULL) == KVT_OK && ok;
    }
    ok = kvbm_pool_register_all(pool, handles, count, results) == count && ok;
    ok = kvbm_pool_match(pool, hashes, count, found) == count && ok;
    kvbm_pool_drop_all(pool, found, count);
    kvbm_pool_drop_all(pool, handles, count);
    return ok;
}

/* ---- the anchor ---- */

static void
bare_open(struct bare *bare, uint32_t count)
{
    bare->blocks = kvt_calloc(count, sizeof(*bare->blocks));
    need(bare->blocks != NULL && kvbm_block_map_init(&bare->names, count) == KVT_OK,
         "out of memory");
    for (uint32_t i = 0; i < count; i++)
        bare->blocks[i].next = i + 1;
    bare->oldest = 0;
    bare->newest = count - 1;
}

static bool
bare_chain(struct worker *worker)
{
    struct bare *bare = &worker->bare;

    for (size_t i = 0; i < worker->bench->chain; i++) {
        const uint32_t at = bare->oldest;
        struct bare_block *block = &bare->blocks[at];

        bare->oldest = block->next;
        if (block->hash != 0)
            kvbm_block_map_remove(&bare->names, block->hash);
        block->hash = next_hash(worker);
        kvbm_block_map_put(&bare->names, block->hash, at);
        bare->blocks[bare->newest].next = at;
        bare->newest = at;
    }
    return true;
}

/* ---- both ---- */

static uint64_t
cpu_now_ns(void)
{
    struct timespec now;

    need(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0, "no clock of a thread");
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void
run(struct worker *worker, bool (*chain)(struct worker *worker))
{
    const uint64_t start_ns = cpu_now_ns();

    do {
        for (size_t i = 0; i < LOOK; i++)
            if (!chain(worker))
                atomic_fetch_add(&worker->bench->wrong, 1);
        worker->done += LOOK * worker->bench->chain;
    } while (!atomic_load_explicit(&worker->bench->stop, memory_order_relaxed));
    worker->cpu_ns = cpu_now_ns() - start_ns;
}

static void *
run_ours(void *arg)
{
    run(arg, pool_chain);
    return NULL;
}

static void *
run_anchor(void *arg)
{
    run(arg, bare_chain);
    return NULL;
}

struct rate {
    double second;     /* blocks of all threads */
    double cpu_second; /* of one */
};

static struct rate
measure(struct bench *bench, struct worker *workers, uint64_t threads, void *(*start)(void *arg))
{
    const uint64_t start_ns = kvt_clock_mono_ns();
    uint64_t done = 0;
    uint64_t cpu_ns = 0;
    double seconds;

    atomic_store(&bench->stop, false);
    for (size_t i = 0; i < threads; i++) {
        workers[i].done = 0;
        need(pthread_create(&workers[i].thread, NULL, start, &workers[i]) == 0, "no thread");
    }
    kvt_clock_sleep_ms(bench->run_ms);
    atomic_store(&bench->stop, true);
    for (size_t i = 0; i < threads; i++)
        (void)pthread_join(workers[i].thread, NULL);
    seconds = (double)(kvt_clock_mono_ns() - start_ns) / 1e9;
    for (size_t i = 0; i < threads; i++) {
        done += workers[i].done;
        cpu_ns += workers[i].cpu_ns;
    }
    need(atomic_load(&bench->wrong) == 0, "an answer was wrong");
    return (struct rate){(double)done / seconds, (double)done * 1e9 / (double)cpu_ns};
}

int
main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    struct bench bench = {.blocks = 0};
    uint64_t pairs;

    need(argc == 7 && kvt_parse_u64(argv[1], &bench.threads) == KVT_OK &&
             kvt_parse_u64(argv[2], &bench.anchors) == KVT_OK &&
             kvt_parse_u64(argv[3], &bench.blocks) == KVT_OK &&
             kvt_parse_u64(argv[4], &bench.chain) == KVT_OK &&
             kvt_parse_u64(argv[5], &bench.run_ms) == KVT_OK &&
             kvt_parse_u64(argv[6], &pairs) == KVT_OK,
         "usage: bench_pool THREADS ANCHORS BLOCKS CHAIN MILLISECONDS PAIRS");
    need(bench.threads > 0 && bench.threads <= THREADS_MAX && bench.anchors > 0 &&
             bench.anchors <= THREADS_MAX && bench.chain > 0 && bench.chain <= CHAIN_MAX &&
             bench.blocks <= KVT_POOL_BLOCKS_MAX &&
             bench.blocks / (bench.threads + bench.anchors) >= 2 * bench.chain,
         "a number out of its range");
    need(kvbm_pool_new(&bench.pool,
                       &(struct kvbm_pool_options){.block_count = (uint32_t)bench.blocks}) ==
             KVT_OK,
         "out of memory");
    for (size_t i = 0; i < THREADS_MAX; i++) {
        workers[i].bench = &bench;
        workers[i].next = i << 56;
    }
    for (size_t i = 0; i < bench.anchors; i++)
        bare_open(&workers[i].bare, (uint32_t)(bench.blocks / bench.anchors));
    while (kvbm_pool_stats(bench.pool).free > 0)
        need(pool_chain(&workers[0]), "an answer was wrong");
    (void)measure(&bench, workers, bench.threads, run_ours);
    (void)measure(&bench, workers, bench.anchors, run_anchor);
    for (uint64_t i = 0; i < pairs; i++) {
        const struct rate ours = measure(&bench, workers, bench.threads, run_ours);
        const struct rate anchor = measure(&bench, workers, bench.anchors, run_anchor);

        (void)printf("pair %.0f %.0f\n", ours.second, anchor.second);
        (void)printf("cpu %.0f %.0f\n", ours.cpu_second, anchor.cpu_second);
    }
    kvbm_pool_free(bench.pool);
    for (size_t i = 0; i < bench.anchors; i++) {
        kvbm_block_map_release(&workers[i].bare.names);
        kvt_free(workers[i].bare.blocks);
    }
    return 0;
}
