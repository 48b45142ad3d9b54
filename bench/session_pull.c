/*
 * bench/session_pull.c -- blocks of another process, pulled with all checks.
 *
 *   bench_session_pull near|far BYTES BLOCKS MS
 *
 * Another process has a block set of BLOCKS blocks of BYTES; this one pulls them all by name,
 * sixteen a call, again and again for MS.  Prints "mbs <10^6 bytes a second>" and, of near blocks,
 * whose bytes the caller's thread moves, "cpu <ours> <memcpy>": 10^6 bytes a second of that
 * thread's CPU, and the same of a bare memcpy between as many blocks.  Every byte of the last round
 * is compared off the clock.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/text/parse.h"

#include "engine/memory/blockset_import.h"

enum { BATCH = 16, BLOCKS_MAX = 4096, WAIT = 20000, HEADS = 8, PAGE = 16, DIM = 128 };

static void
need(bool right, const char *what)
{
    if (right)
        return;
    (void)fprintf(stderr, "bench_session_pull: %s\n", what);
    exit(1);
}

/* Eight heads of 128 in 16 tokens, 16 bits each: 64 KiB a layer. */
static void
make_layout(struct kvbm_layout *layout, uint64_t bytes)
{
    struct kvt_geometry geometry = {.size = sizeof(geometry),
                                    .kind = KVT_LAYOUT_UNIVERSAL,
                                    .outer = 2,
                                    .page_size = PAGE,
                                    .inner_dim = HEADS * DIM,
                                    .dtype_bytes = 2,
                                    .alignment = 4096,
                                    .tp_size = 1,
                                    .heads = HEADS};
    struct kvt_error err;

    geometry.layers = (uint32_t)(bytes / (2 * PAGE * HEADS * DIM * 2));
    need(kvbm_layout_make(layout, &geometry, &err) == KVT_OK, "no such layout");
    need(layout->block_size == bytes, "BYTES must be a multiple of 65536");
}

static struct engine_fabric *
open_fabric(bool near)
{
    const struct engine_fabric_options options = {.near = near ? NULL : "",
                                                  .far = near ? "" : "tcp"};
    struct engine_fabric *fabric;
    struct kvt_error err;

    need(engine_fabric_open(&fabric, &options, &err) == KVT_OK, err.text);
    return fabric;
}

static void
fill(uint8_t *bytes, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        const uint64_t word = kvt_random_next(&seed);

        memcpy(bytes + i, &word, sizeof(word));
    }
}

struct shown {
    uint8_t description[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    size_t size;
    uint64_t hashes[BLOCKS_MAX];
};

static void
run_owner(bool near, const struct kvbm_layout *layout, uint32_t blocks, int out)
{
    static struct shown shown;
    struct engine_fabric *fabric;
    struct engine_blockset *set;
    struct kvt_error err;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    fabric = open_fabric(near);
    need(engine_blockset_open(&set, fabric, layout, blocks, &err) == KVT_OK, err.text);
    for (uint32_t i = 0; i < blocks; i++) {
        fill(kvbm_storage_address(engine_blockset_storage(set), i), layout->block_size, i + 1);
        shown.hashes[i] = i + 1;
        engine_blockset_show(set, i, shown.hashes[i], NULL);
    }
    engine_blockset_describe(set, shown.description, &shown.size);
    need(write(out, &shown, sizeof(shown)) == (ssize_t)sizeof(shown), "write");
    for (;;)
        (void)pause();
}

static void
hear(struct shown *shown, int in)
{
    uint8_t *at = (uint8_t *)shown;

    for (size_t left = sizeof(*shown); left > 0;) {
        const ssize_t got = read(in, at, left);

        need(got > 0, "the owner is gone");
        at += got;
        left -= (size_t)got;
    }
}

static void
pull_all(struct engine_import *import, struct engine_import_read *reads, uint32_t blocks)
{
    for (uint32_t at = 0; at < blocks; at += BATCH) {
        const struct engine_import_request request = {.reads = reads + at,
                                                      .count =
                                                          blocks - at < BATCH ? blocks - at : BATCH,
                                                      .wait_ms = WAIT};
        struct kvt_error err;

        need(engine_import_run(import, &request, &err) == KVT_OK, err.text);
    }
}

static void
copy_all(const uint8_t *from, struct engine_import_read *reads, uint32_t blocks, uint64_t size)
{
    for (uint32_t i = 0; i < blocks; i++)
        memcpy(reads[i].host, from + i * size, size);
}

static uint64_t
cpu_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct speed {
    double wall; /* 10^6 bytes a second */
    double cpu;  /* ... of this thread's CPU */
};

/* Pulls, or copies where `from` is not NULL. */
static struct speed
measure(struct engine_import *import, const uint8_t *from, struct engine_import_read *reads,
        uint32_t blocks, uint64_t size, uint64_t ms)
{
    const uint64_t began = kvt_clock_mono_ns();
    const uint64_t cpu = cpu_ns();
    uint64_t now = began;
    double bytes = 0;

    for (; now - began < ms * 1000000; bytes += (double)(blocks * size)) {
        if (from != NULL)
            copy_all(from, reads, blocks, size);
        else
            pull_all(import, reads, blocks);
        now = kvt_clock_mono_ns();
    }
    return (struct speed){bytes * 1e3 / (double)(now - began),
                          bytes * 1e3 / (double)(cpu_ns() - cpu)};
}

/* Not memory of this process alone, as a block set's is not. */
static double
measure_copy(struct engine_import_read *reads, uint32_t blocks, uint64_t size, uint64_t ms)
{
    uint8_t *from =
        mmap(NULL, blocks * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double cpu;

    need(from != MAP_FAILED, "no memory");
    memset(from, 1, blocks * size);
    cpu = measure(NULL, from, reads, blocks, size, ms).cpu;
    (void)munmap(from, blocks * size);
    return cpu;
}

static void
report(bool near, struct engine_import *import, struct engine_import_read *reads, uint32_t blocks,
       uint64_t size, uint64_t ms)
{
    const double copied = near ? measure_copy(reads, blocks, size, ms / 2) : 0;
    struct speed ours;

    pull_all(import, reads, blocks);
    ours = measure(import, NULL, reads, blocks, size, ms);
    (void)printf("mbs %.1f\n", ours.wall);
    if (near)
        (void)printf("cpu %.1f %.1f\n", ours.cpu, copied);
}

int
main(int argc, char **argv)
{
    static struct shown shown;
    static struct engine_import_read reads[BLOCKS_MAX];
    const bool near = argc == 5 && strcmp(argv[1], "near") == 0;
    struct kvbm_layout layout;
    struct engine_fabric *fabric;
    struct engine_import *import;
    struct kvt_error err;
    uint64_t bytes = 0;
    uint64_t blocks = 0;
    uint64_t ms = 0;
    uint8_t *into;
    uint8_t *model;
    int ends[2];

    need(argc == 5 && (near || strcmp(argv[1], "far") == 0) &&
             kvt_parse_u64(argv[2], &bytes) == KVT_OK &&
             kvt_parse_u64(argv[3], &blocks) == KVT_OK && kvt_parse_u64(argv[4], &ms) == KVT_OK &&
             blocks > 0 && blocks <= BLOCKS_MAX,
         "usage: bench_session_pull near|far BYTES BLOCKS MS");
    make_layout(&layout, bytes);
    need(pipe(ends) == 0, "pipe");
    if (fork() == 0)
        run_owner(near, &layout, (uint32_t)blocks, ends[1]);
    hear(&shown, ends[0]);
    fabric = open_fabric(near);
    need(engine_import_open(&import, fabric, shown.description, shown.size, &layout, WAIT, &err) ==
             KVT_OK,
         err.text);
    into = kvt_aligned(4096, blocks * bytes);
    model = kvt_calloc(1, bytes);
    need(into != NULL && model != NULL, "no memory");
    memset(into, 1, blocks * bytes); /* pages that are there */
    for (uint64_t i = 0; i < blocks; i++)
        reads[i] = (struct engine_import_read){
            .ref = {.block = (uint32_t)i, .hash = shown.hashes[i]}, .host = into + i * bytes};
    report(near, import, reads, (uint32_t)blocks, bytes, ms);
    for (uint64_t i = 0; i < blocks; i++) {
        fill(model, bytes, i + 1);
        need(memcmp(into + i * bytes, model, bytes) == 0, "wrong bytes");
    }
    engine_import_close(import);
    engine_fabric_close(fabric);
    kvt_free(into);
    kvt_free(model);
    return 0;
}
