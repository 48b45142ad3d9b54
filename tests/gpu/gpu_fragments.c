/*
 * Fragments of 8 and 16 KiB, as layers of blocks are: every byte, and how fast, against the
 * driver's own batched call on the same fragments.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/clock.h"

#include "tests/gpu/gpu_check.h"
#include "worker/replay/block_content.h"

enum { COUNT = 4096, QUICK_COUNT = 512 };

struct fragments {
    struct kvbm_cuda *cuda;
    struct gpu_pair pair;
    struct CUstream_st *stream;
    uint64_t device; /* the driver's own side of the race */
    uint64_t *targets;
    uint64_t *sources;
    size_t *sizes;
    struct kvt_copy *copies;
};

static double
rate(const struct fragments *fragments, uint64_t start)
{
    return (double)fragments->pair.blocks * (double)fragments->pair.size /
           (double)(kvt_clock_mono_ns() - start);
}

static double
ours(struct fragments *fragments, bool in)
{
    struct gpu_pair *pair = &fragments->pair;
    const uint64_t start = kvt_clock_mono_ns();

    for (uint32_t i = 0; i < pair->blocks; i++)
        fragments->copies[i] = (struct kvt_copy){i, i, KVT_IO};
    if (kvbm_copy_blocks(pair->transfer, in ? pair->pinned : pair->device,
                         in ? pair->device : pair->pinned, fragments->copies,
                         pair->blocks) != KVT_OK)
        return 0;
    return rate(fragments, start);
}

static double
driver(struct fragments *fragments, bool in)
{
    struct gpu_pair *pair = &fragments->pair;
    const struct kvbm_cuda *cuda = fragments->cuda;
    struct kvbm_cuda_copy_attributes attributes = {.source_order = 1};
    size_t starts[1] = {0};
    size_t failed;
    const uint64_t start = kvt_clock_mono_ns();
    int rc;

    for (uint32_t i = 0; i < pair->blocks; i++) {
        const uint64_t host = (uint64_t)(uintptr_t)kvbm_storage_address(pair->pinned, i);
        const uint64_t device = fragments->device + (uint64_t)i * pair->size;

        fragments->targets[i] = in ? device : host;
        fragments->sources[i] = in ? host : device;
        fragments->sizes[i] = pair->size;
    }
    if (kvbm_cuda_enter(cuda) != KVT_OK)
        return 0;
    rc = cuda->copy_batch_v2 != NULL
             ? cuda->copy_batch_v2(fragments->targets, fragments->sources, fragments->sizes,
                                   pair->blocks, &attributes, starts, 1, fragments->stream)
             : cuda->copy_batch(fragments->targets, fragments->sources, fragments->sizes,
                                pair->blocks, &attributes, starts, 1, &failed, fragments->stream);
    if (rc != 0 || cuda->stream_wait(fragments->stream) != 0)
        return 0;
    return rate(fragments, start);
}

/* In and out again, over wiped memory. */
static bool
right(struct fragments *fragments)
{
    struct gpu_pair *pair = &fragments->pair;
    size_t first;

    for (uint32_t i = 0; i < pair->blocks; i++)
        worker_content_fill(i + 1, kvbm_storage_address(pair->pinned, i), pair->size);
    if (ours(fragments, true) <= 0)
        return false;
    for (uint32_t i = 0; i < pair->blocks; i++)
        memset(kvbm_storage_address(pair->pinned, i), 0x5A, pair->size);
    if (ours(fragments, false) <= 0)
        return false;
    for (uint32_t i = 0; i < pair->blocks; i++)
        if (worker_content_check(i + 1, kvbm_storage_address(pair->pinned, i), pair->size,
                                 &first) != 0)
            return false;
    return true;
}

static void
fragments_close(struct fragments *fragments)
{
    gpu_pair_close(&fragments->pair);
    free(fragments->copies);  /* tidy-allow: raw-heap, a probe */
    free(fragments->sizes);   /* tidy-allow: raw-heap, a probe */
    free(fragments->sources); /* tidy-allow: raw-heap, a probe */
    free(fragments->targets); /* tidy-allow: raw-heap, a probe */
    if (kvbm_cuda_enter(fragments->cuda) != KVT_OK)
        return;
    if (fragments->stream != NULL)
        (void)fragments->cuda->stream_free(fragments->stream);
    if (fragments->device != 0)
        (void)fragments->cuda->memory_free(fragments->device);
}

static bool
fragments_open(struct fragments *fragments, struct kvbm_cuda *cuda, uint32_t count, size_t size)
{
    struct kvt_error err;

    *fragments = (struct fragments){.cuda = cuda};
    fragments->targets = calloc(count, sizeof(uint64_t));       /* tidy-allow: raw-heap, a probe */
    fragments->sources = calloc(count, sizeof(uint64_t));       /* tidy-allow: raw-heap, a probe */
    fragments->sizes = calloc(count, sizeof(size_t));           /* tidy-allow: raw-heap, a probe */
    fragments->copies = calloc(count, sizeof(struct kvt_copy)); /* tidy-allow: raw-heap, a probe */
    if (fragments->targets == NULL || fragments->sources == NULL || fragments->sizes == NULL ||
        fragments->copies == NULL)
        return false;
    if (gpu_pair_open(&fragments->pair, cuda, count, size, &err) != KVT_OK) {
        (void)fprintf(stderr, "gpu-check: %s\n", err.text);
        return false;
    }
    return kvbm_cuda_enter(cuda) == KVT_OK &&
           cuda->memory_new(&fragments->device, count * size) == 0 &&
           cuda->stream_new(&fragments->stream, KVBM_CUDA_STREAM_NON_BLOCKING) == 0;
}

static bool
measure(struct fragments *fragments, unsigned runs)
{
    const size_t kib = fragments->pair.size >> 10;
    struct gpu_run in = {.count = 0};
    struct gpu_run out = {.count = 0};
    char name[64];
    bool good;

    if (!right(fragments)) {
        (void)fprintf(stderr, "gpu-check: wrong bytes in fragments of %zu KiB\n", kib);
        return false;
    }
    (void)driver(fragments, true);
    (void)driver(fragments, false);
    for (unsigned i = 0; i < runs; i++) {
        const double to = ours(fragments, true);
        double from;

        gpu_run_add(&in, to, driver(fragments, true));
        from = ours(fragments, false);
        gpu_run_add(&out, from, driver(fragments, false));
    }
    (void)snprintf(name, sizeof(name), "gpu-fragments-h2d-%zuKiB", kib);
    good = gpu_run_print(&in,
                         &(struct gpu_row){name, "fragments from pinned memory to the device",
                                           "one cuMemcpyBatchAsync of them", "GB/s", 4, 0, false});
    (void)snprintf(name, sizeof(name), "gpu-fragments-d2h-%zuKiB", kib);
    return gpu_run_print(&out, &(struct gpu_row){name, "fragments from the device to pinned memory",
                                                 "one cuMemcpyBatchAsync of them", "GB/s", 4, 0,
                                                 false}) &&
           good;
}

bool
gpu_fragments(struct kvbm_cuda *cuda, unsigned runs, bool quick)
{
    static const size_t sizes[] = {8 << 10, 16 << 10};
    bool good = true;

    if (cuda->copy_fragments == NULL)
        (void)fprintf(stderr, "gpu-check: no kernels in this build (no nvcc): fragments are copied "
                              "by the driver\n");
    if (cuda->copy_batch == NULL && cuda->copy_batch_v2 == NULL) {
        (void)fprintf(stderr, "gpu-check: this driver has no cuMemcpyBatchAsync: fragments are not "
                              "measured\n");
        return true;
    }
    for (size_t i = 0; good && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fragments fragments;

        good = fragments_open(&fragments, cuda, quick ? QUICK_COUNT : COUNT, sizes[i]) &&
               measure(&fragments, runs);
        fragments_close(&fragments);
    }
    return good;
}
