/*
 * bench/ring.c -- what it costs to ask a pool in another process.
 *
 *   bench_ring HASHES CALLS PAIRS
 *
 * Ours: kvt_attach_match() of HASHES names that are all there, from the request to the completion,
 * over the rings, to a worker in another process that sleeps between two questions.  Anchor: the
 * same question to a pool of this process.  What was given is checked, and given back off the
 * clock.  Prints "pair <ours> <anchor>" lines, microseconds a call, the median of CALLS.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/text/parse.h"
#include "kvbm/attach/attach_server.h"
#include "kvbm/pool/mutable_block.h"
#include "kvtier/attach.h"

enum { SIZE = 4096, BELOW = 8, START_LIMIT = 20000 /* ms */ };

static void
need(bool right, const char *what)
{
    if (right)
        return;
    (void)fprintf(stderr, "bench_ring: %s\n", what);
    exit(1);
}

/* A worker with little below, until its parent is gone. */
static void
run_worker(const char *path)
{
    const struct kvt_geometry geometry = {.kind = KVT_LAYOUT_CONTIGUOUS,
                                          .layers = 1,
                                          .outer = 1,
                                          .page_size = 1,
                                          .inner_dim = SIZE,
                                          .dtype_bytes = 1,
                                          .alignment = SIZE,
                                          .tp_size = 1};
    struct kvbm_attach_service_below below = {.room_wait_ms = 0};
    struct kvbm_layout layout;
    struct kvbm_attach *attach;
    struct kvt_error err;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    kvt_log_setup("bench_ring", KVT_LOG_ERROR, KVT_LOG_TEXT);
    need(kvbm_layout_make(&layout, &geometry, &err) == KVT_OK &&
             kvbm_transfer_new(&below.transfer, 1, &err) == KVT_OK &&
             kvbm_pool_new(&below.g2.pool, &(struct kvbm_pool_options){.block_count = BELOW}) ==
                 KVT_OK &&
             kvbm_storage_open_memory(&below.g2.storage, KVBM_STORAGE_SYSTEM, BELOW, SIZE, &err) ==
                 KVT_OK,
         "no memory");
    need(kvbm_attach_open(&attach,
                          &(struct kvbm_attach_options){
                              .path = path,
                              .engines_max = 1,
                              .blocks_max = KVT_ATTACH_REQUEST_MAX,
                              .layout = &layout,
                              .below = &below,
                          },
                          &err) == KVT_OK,
         err.text);
    for (;;)
        (void)pause();
}

static struct kvt_attach *
attach_to(const char *path, uint32_t blocks)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + START_LIMIT;
    struct kvt_attach *engine;

    while (kvt_attach_open(&engine,
                           &(struct kvt_attach_options){.size = sizeof(struct kvt_attach_options),
                                                        .socket = path,
                                                        .block_count = blocks},
                           NULL) != KVT_OK) {
        need(kvt_clock_mono_ms() < until_ms, "the worker does not answer");
        kvt_clock_sleep_ms(1);
    }
    return engine;
}

static void
fill_engine(struct kvt_attach *engine, const uint64_t *hashes, size_t count)
{
    static struct kvt_unique fresh[KVT_ATTACH_REQUEST_MAX];
    static struct kvt_shared held[KVT_ATTACH_REQUEST_MAX];
    static struct kvt_block_info infos[KVT_ATTACH_REQUEST_MAX];
    static enum kvt_err results[KVT_ATTACH_REQUEST_MAX];

    for (size_t i = 0; i < count; i++)
        infos[i] = (struct kvt_block_info){.size = sizeof(infos[i]), .id = {.hash = hashes[i]}};
    need(kvt_attach_allocate(engine, count, fresh) == KVT_OK &&
             kvt_attach_register(engine, fresh, infos, count, false, held, results) == KVT_OK &&
             kvt_attach_drop(engine, held, count) == KVT_OK,
         "filling");
}

static struct kvbm_pool *
fill_pool(const uint64_t *hashes, uint32_t count)
{
    struct kvt_handle handles[KVT_ATTACH_REQUEST_MAX];
    struct kvbm_pool *pool;

    need(kvbm_pool_new(&pool, &(struct kvbm_pool_options){.block_count = count}) == KVT_OK &&
             kvbm_pool_allocate(pool, count, handles) == KVT_OK,
         "no memory");
    for (size_t i = 0; i < count; i++)
        need(kvbm_block_begin(pool, handles[i], NULL) == KVT_OK &&
                 kvbm_block_complete(pool, handles[i],
                                     &(struct kvbm_label){.id = {.hash = hashes[i]}},
                                     NULL) == KVT_OK &&
                 kvbm_pool_register(pool, &handles[i], NULL) == KVT_OK,
             "filling");
    kvbm_pool_drop_all(pool, handles, count);
    return pool;
}

static int
ascending(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static double
median_us(uint64_t *times_ns, size_t count)
{
    qsort(times_ns, count, sizeof(*times_ns), ascending);
    return (double)times_ns[count / 2] / 1e3;
}

static double
ask_engine(struct kvt_attach *engine, const uint64_t *hashes, size_t count, uint64_t *times_ns,
           size_t calls)
{
    static struct kvt_shared handles[KVT_ATTACH_REQUEST_MAX];

    for (size_t i = 0; i < calls; i++) {
        const uint64_t began_ns = kvt_clock_mono_ns();
        size_t held = 0;
        const enum kvt_err rc = kvt_attach_match(engine, hashes, count, handles, &held, NULL);

        times_ns[i] = kvt_clock_mono_ns() - began_ns;
        need(rc == KVT_OK && held == count, "a wrong answer");
        need(kvt_attach_drop(engine, handles, count) == KVT_OK, "drop");
    }
    return median_us(times_ns, calls);
}

static double
ask_pool(struct kvbm_pool *pool, const uint64_t *hashes, size_t count, uint64_t *times_ns,
         size_t calls)
{
    static struct kvt_handle handles[KVT_ATTACH_REQUEST_MAX];

    for (size_t i = 0; i < calls; i++) {
        const uint64_t began_ns = kvt_clock_mono_ns();
        const size_t held = kvbm_pool_match(pool, hashes, count, handles);

        times_ns[i] = kvt_clock_mono_ns() - began_ns;
        need(held == count, "a wrong answer");
        kvbm_pool_drop_all(pool, handles, held);
    }
    return median_us(times_ns, calls);
}

int
main(int argc, char **argv)
{
    uint64_t hashes[KVT_ATTACH_REQUEST_MAX];
    uint64_t *times_ns;
    uint64_t count = 0;
    uint64_t calls = 0;
    uint64_t pairs = 0;
    char path[64];
    struct kvt_attach *engine;
    struct kvbm_pool *pool;
    pid_t worker;

    need(argc == 4 && kvt_parse_u64(argv[1], &count) == KVT_OK &&
             kvt_parse_u64(argv[2], &calls) == KVT_OK && kvt_parse_u64(argv[3], &pairs) == KVT_OK &&
             count > 0 && count <= KVT_ATTACH_REQUEST_MAX && calls > 0,
         "usage: bench_ring HASHES CALLS PAIRS");
    times_ns = kvt_calloc(calls, sizeof(*times_ns));
    need(times_ns != NULL, "no memory");
    for (uint64_t i = 0; i < count; i++)
        hashes[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    (void)snprintf(path, sizeof(path), "/tmp/bench_ring-%ld.sock", (long)getpid());
    worker = fork();
    need(worker >= 0, "fork");
    if (worker == 0)
        run_worker(path);
    engine = attach_to(path, (uint32_t)count);
    fill_engine(engine, hashes, count);
    pool = fill_pool(hashes, (uint32_t)count);
    for (uint64_t i = 0; i < pairs; i++)
        (void)printf("pair %.3f %.3f\n", ask_engine(engine, hashes, count, times_ns, calls),
                     ask_pool(pool, hashes, count, times_ns, calls));
    kvbm_pool_free(pool);
    kvt_attach_close(engine);
    (void)kill(worker, SIGKILL);
    (void)waitpid(worker, NULL, 0);
    (void)unlink(path);
    kvt_free(times_ns);
    return 0;
}
