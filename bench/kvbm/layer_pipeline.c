/*
 * bench_layer_pipeline -- blocks from disk to device layer by layer, against the slower hop alone.
 *
 * usage: bench_layer_pipeline [--quick] [--even] [--cached] [FOLDER]
 *
 * Prints a line "pair <ours> <anchor>" a round, seconds: the pipeline over both hops, and the
 * slower of the two hops by itself with whole blocks, measured right before or after; and of the
 * latter "hops <first> <second>": a ratio tells nothing of overlap where one of them is short.  The
 * device is host memory, reached over its own path and thread all the same; with --even it is at
 * the end of a link that takes as long as the disk does (bench/kvbm/link.h).  A folder where the
 * tier does not keep O_DIRECT is refused, but for --cached, which is for tests of this program.
 */
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "kvbm/storage/disk.h"
#include "kvbm/transfer/pipeline.h"

#include "bench/kvbm/link.h"

enum {
    LAYERS = 32,
    LAYER = 64 << 10,
    SIZE = LAYERS * LAYER,
    BLOCKS = 128,
    QUICK_BLOCKS = 32,
    STEP = 4, /* layers that go together */
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
    bool even;
    bool cached;
};

struct hops {
    double first;
    double second;
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

static struct hops
alone(struct bench *bench)
{
    struct hops hops;

    hops.first = one_hop(bench, bench->disk, bench->host);
    hops.second = one_hop(bench, bench->host, bench->device);
    return hops;
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
        rc = link_open(&bench->device, bench->blocks, SIZE, &err);
    if (rc == KVT_OK)
        rc = kvbm_disk_open(&bench->disk,
                            &(struct kvbm_disk_options){
                                .path = path,
                                .block_count = bench->blocks,
                                .block_size = SIZE,
                                .direct = !bench->cached,
                                .part_size = LAYER,
                            },
                            &err);
    if (rc == KVT_OK)
        rc = kvbm_transfer_new(&bench->transfer, 8, &err);
    if (rc != KVT_OK)
        (void)fprintf(stderr, "layer_pipeline: %s\n", err.text);
    return rc == KVT_OK;
}

/* No two layers of all blocks are the same. */
static void
fill(uint64_t *words, uint32_t block)
{
    for (uint64_t i = 0; i < SIZE / sizeof(*words); i++)
        words[i] = ((uint64_t)block << 32 | i) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Every byte of the device must be the disk's. */
static bool
right(struct bench *bench)
{
    static uint64_t words[SIZE / sizeof(uint64_t)];

    for (uint32_t i = 0; i < bench->blocks; i++) {
        uint8_t *bytes = link_bytes(bench->device, i);

        fill(words, i);
        if (memcmp(bytes, words, SIZE) != 0) {
            (void)fprintf(stderr, "layer_pipeline: wrong bytes\n");
            return false;
        }
        memset(bytes, 0, SIZE);
        memset(kvbm_storage_address(bench->host, i), 0, SIZE);
    }
    return true;
}

/* A tier leaves O_DIRECT by itself where the file system refuses it, and for good; memory takes the
 * flag, too. */
static bool
stayed_direct(const struct bench *bench, const char *folder)
{
    struct kvbm_disk_stats stats;
    struct statfs info;

    if (bench->cached)
        return true;
    kvbm_disk_stats(bench->disk, &stats);
    if (stats.direct && statfs(folder, &info) == 0 && info.f_type != TMPFS_MAGIC)
        return true;
    (void)fprintf(stderr, "layer_pipeline: %s: no disk, or no O_DIRECT\n", folder);
    return false;
}

/* Everything onto the disk, and once through both hops: the link learns how long the disk takes. */
static bool
warm_up(struct bench *bench)
{
    struct hops hops;

    for (uint32_t i = 0; i < bench->blocks; i++)
        fill(kvbm_storage_address(bench->host, i), i);
    if (one_hop(bench, bench->host, bench->disk) <= 0)
        return false;
    hops = alone(bench);
    if (hops.first <= 0 || hops.second <= 0 || !right(bench))
        return false;
    if (bench->even)
        link_set_rate(bench->device, (double)bench->blocks * SIZE / hops.first);
    return true;
}

static bool
measure(struct bench *bench, unsigned round)
{
    struct hops hops = {0, 0};
    double mine = 0;

    for (unsigned turn = 0; turn < 2; turn++) {
        if ((round + turn) % 2 == 0)
            mine = pipelined(bench);
        else
            hops = alone(bench);
        if (!right(bench))
            return false;
    }
    if (mine <= 0 || hops.first <= 0 || hops.second <= 0)
        return false;
    (void)printf("pair %.6f %.6f\n", mine, hops.first > hops.second ? hops.first : hops.second);
    (void)printf("hops %.6f %.6f\n", hops.first, hops.second);
    (void)fflush(stdout);
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
        } else if (strcmp(argv[i], "--even") == 0) {
            bench.even = true;
        } else if (strcmp(argv[i], "--cached") == 0) {
            bench.cached = true;
        } else {
            folder = argv[i];
        }
    }
    if (!open_bench(&bench, folder) || !warm_up(&bench) || !stayed_direct(&bench, folder))
        return 1;
    for (unsigned round = 0; round < rounds; round++)
        if (!measure(&bench, round))
            return 1;
    if (!stayed_direct(&bench, folder))
        return 1;
    kvbm_transfer_free(bench.transfer);
    kvbm_storage_close(bench.disk);
    kvbm_storage_close(bench.device);
    kvbm_storage_close(bench.host);
    return 0;
}
