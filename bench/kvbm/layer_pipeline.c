/*
 * bench_layer_pipeline -- blocks from disk to device layer by layer, against the slower hop alone.
 *
 * usage: bench_layer_pipeline [--quick] [FOLDER]
 *
 * Prints a line "pair <ours> <anchor>" a round, seconds: the pipeline over both hops, and the
 * slower of the two hops by itself with whole blocks, measured right before or after.  Where there
 * is no GPU the device is host memory, reached over its own path and thread all the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "kvbm/disk.h"
#include "kvbm/pipeline.h"

enum {
    LAYERS = 32,
    LAYER = 64 << 10,
    SIZE = LAYERS * LAYER,
    BLOCKS = 128,
    QUICK_BLOCKS = 32,
    STEP = 8, /* layers that go together */
    ROUNDS = 7,
    QUICK_ROUNDS = 3
};

struct bench {
    struct kvbm_transfer *transfer;
    struct kvbm_storage *disk;
    struct kvbm_storage *host;
    struct kvbm_storage *device;
    struct kvbm_layout layout;
    uint32_t blocks;
};

static double
seconds_since(uint64_t start)
{
    return (double)(kvt_clock_mono_ns() - start) / 1e9;
}

static double
pipelined(struct bench *bench)
{
    static struct kvt_relay relays[BLOCKS];
    const uint64_t start = kvt_clock_mono_ns();

    for (uint32_t i = 0; i < bench->blocks; i++)
        relays[i] = (struct kvt_relay){i, i, i, KVT_OK};
    if (kvbm_pipeline_run(&(struct kvbm_pipeline_request){
            .transfer = bench->transfer,
            .source = bench->disk,
            .middle = bench->host,
            .target = bench->device,
            .relays = relays,
            .count = bench->blocks,
            .source_layout = &bench->layout,
            .target_layout = &bench->layout,
            .step = STEP,
        }) != KVT_OK)
        return 0;
    return seconds_since(start);
}

static double
one_hop(struct bench *bench, struct kvbm_storage *source, struct kvbm_storage *target)
{
    static struct kvt_copy copies[BLOCKS];
    const uint64_t start = kvt_clock_mono_ns();

    for (uint32_t i = 0; i < bench->blocks; i++)
        copies[i] = (struct kvt_copy){i, i, KVT_IO};
    if (kvbm_copy_blocks(bench->transfer, source, target, copies, bench->blocks) != KVT_OK)
        return 0;
    return seconds_since(start);
}

static double
slower_hop(struct bench *bench)
{
    const double first = one_hop(bench, bench->disk, bench->host);
    const double second = one_hop(bench, bench->host, bench->device);

    return first > second ? first : second;
}

static bool
open_bench(struct bench *bench, const char *folder)
{
    const struct kvt_geometry geometry = {
        .kind = KVT_LAYOUT_CONTIGUOUS,
        .layers = LAYERS,
        .outer = 2,
        .page_size = 16,
        .inner_dim = LAYER / 2 / 16 / 2,
        .dtype_bytes = 2,
        .alignment = 1,
        .tp_size = 1,
    };
    struct kvt_error err = {0};
    char path[512];
    enum kvt_err rc;

    (void)snprintf(path, sizeof(path), "%s/kvtier-bench-%ld.tier", folder, (long)getpid());
    rc = kvbm_layout_make(&bench->layout, &geometry, &err);
    if (rc == KVT_OK)
        rc = kvbm_storage_open_memory(&bench->host, KVBM_STORAGE_SYSTEM, bench->blocks, SIZE, &err);
    if (rc == KVT_OK)
        rc = kvbm_storage_open_memory(&bench->device, KVBM_STORAGE_DEVICE, bench->blocks, SIZE,
                                      &err);
    if (rc == KVT_OK)
        rc = kvbm_disk_open(&bench->disk,
                            &(struct kvbm_disk_options){
                                .path = path,
                                .block_count = bench->blocks,
                                .block_size = SIZE,
                                .direct = true,
                                .part_size = LAYER,
                            },
                            &err);
    if (rc == KVT_OK)
        rc = kvbm_transfer_new(&bench->transfer, 8, &err);
    if (rc != KVT_OK)
        (void)fprintf(stderr, "layer_pipeline: %s\n", err.text);
    return rc == KVT_OK;
}

/* Every byte of the device must be the disk's. */
static bool
right(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->blocks; i++) {
        const uint8_t *bytes = kvbm_storage_address(bench->device, i);

        if (bytes[0] != (uint8_t)(i + 1) || memcmp(bytes, bytes + 1, SIZE - 1) != 0)
            return false;
        memset(kvbm_storage_address(bench->device, i), 0, SIZE);
        memset(kvbm_storage_address(bench->host, i), 0, SIZE);
    }
    return true;
}

int
main(int argc, char **argv)
{
    const char *folder = getenv("TMPDIR");
    struct bench bench = {.blocks = BLOCKS};
    unsigned rounds = ROUNDS;

    if (folder == NULL)
        folder = "/var/tmp";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = QUICK_ROUNDS;
            bench.blocks = QUICK_BLOCKS;
        } else {
            folder = argv[i];
        }
    }
    if (!open_bench(&bench, folder))
        return 1;
    for (uint32_t i = 0; i < bench.blocks; i++)
        memset(kvbm_storage_address(bench.host, i), (int)i + 1, SIZE);
    if (one_hop(&bench, bench.host, bench.disk) <= 0 || slower_hop(&bench) <= 0)
        return 1;
    for (unsigned round = 0; round < rounds; round++) {
        double mine = 0;
        double floor = 0;

        for (unsigned turn = 0; turn < 2; turn++) {
            if ((round + turn) % 2 == 0)
                mine = pipelined(&bench);
            else
                floor = slower_hop(&bench);
            if (!right(&bench)) {
                (void)fprintf(stderr, "layer_pipeline: wrong bytes\n");
                return 1;
            }
        }
        if (mine <= 0 || floor <= 0)
            return 1;
        (void)printf("pair %.6f %.6f\n", mine, floor);
        (void)fflush(stdout);
    }
    kvbm_transfer_free(bench.transfer);
    kvbm_storage_close(bench.disk);
    kvbm_storage_close(bench.device);
    kvbm_storage_close(bench.host);
    return 0;
}
