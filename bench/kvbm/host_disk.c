/*
 * bench_host_disk -- blocks of 2 MiB between host memory and the disk tier, and the RAM tier.
 *
 * usage: bench_host_disk h2disk|disk2h|ram [--quick] [FOLDER]
 *
 * Prints a line "pair <ours> <anchor>" a round, MB/s, in alternating order.  Ours is the transfer
 * manager with its checksums; the anchor is the plainest code that keeps as many operations in
 * flight: as many threads as the tier's depth, each with one pread() or pwrite() of a block at a
 * time on an O_DIRECT file of its own, and memcpy() for RAM.  A folder where the tier does not keep
 * O_DIRECT is refused: one side of the ratio would be the page cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "kvbm/storage/disk.h"
#include "kvbm/transfer/transfer_manager.h"

enum { SIZE = 2 << 20, BLOCKS = 256, QUICK_BLOCKS = 64, ROUNDS = 7, QUICK_ROUNDS = 3 };

struct bench {
    struct kvbm_transfer *transfer;
    struct kvbm_storage *host;
    struct kvbm_storage *other; /* the disk tier, or RAM */
    int fd;                     /* of the plain file, or -1 */
    uint32_t blocks;
    bool writing;
    bool ram;
};

static double
rate(const struct bench *bench, uint64_t start)
{
    return (double)bench->blocks * SIZE / 1e6 / ((double)(kvt_clock_mono_ns() - start) / 1e9);
}

static double
ours(struct bench *bench)
{
    static struct kvt_copy copies[BLOCKS];
    const uint64_t start = kvt_clock_mono_ns();

    for (uint32_t i = 0; i < bench->blocks; i++)
        copies[i] = (struct kvt_copy){i, i, KVT_IO};
    if (kvbm_copy_blocks(bench->transfer, bench->writing ? bench->host : bench->other,
                         bench->writing ? bench->other : bench->host, copies,
                         bench->blocks) != KVT_OK)
        return 0;
    return rate(bench, start);
}

struct loop {
    struct bench *bench;
    _Atomic uint32_t next;
    _Atomic bool failed;
};

static void *
loop_run(void *arg)
{
    struct loop *loop = arg;
    struct bench *bench = loop->bench;
    uint32_t block;

    while ((block = atomic_fetch_add(&loop->next, 1)) < bench->blocks) {
        void *bytes = kvbm_storage_address(bench->host, block);
        const off_t at = (off_t)block * SIZE;
        const ssize_t done =
            bench->writing ? pwrite(bench->fd, bytes, SIZE, at) : pread(bench->fd, bytes, SIZE, at);

        if (done != SIZE)
            atomic_store(&loop->failed, true);
    }
    return NULL;
}

static double
plain_disk(struct bench *bench)
{
    struct loop loop = {.bench = bench};
    pthread_t threads[KVBM_DISK_DEPTH];
    const uint64_t start = kvt_clock_mono_ns();

    for (unsigned i = 0; i < KVBM_DISK_DEPTH; i++)
        if (pthread_create(&threads[i], NULL, loop_run, &loop) != 0)
            abort();
    for (unsigned i = 0; i < KVBM_DISK_DEPTH; i++)
        (void)pthread_join(threads[i], NULL);
    return atomic_load(&loop.failed) ? 0 : rate(bench, start);
}

static double
plain_ram(struct bench *bench)
{
    const uint64_t start = kvt_clock_mono_ns();

    for (uint32_t i = 0; i < bench->blocks; i++)
        memcpy(kvbm_storage_address(bench->other, i), kvbm_storage_address(bench->host, i), SIZE);
    return rate(bench, start);
}

static bool
open_plain(struct bench *bench, const char *folder)
{
    struct statfs info;
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/kvtier-bench-%ld.plain", folder, (long)getpid());
    bench->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_DIRECT, 0600);
    if (bench->fd < 0) {
        (void)fprintf(stderr, "host_disk: %s: %s\n", path, strerror(errno));
        return false;
    }
    (void)unlink(path);
    /* Memory takes the flag, too. */
    if (fstatfs(bench->fd, &info) != 0 || info.f_type == TMPFS_MAGIC) {
        (void)fprintf(stderr, "host_disk: %s: no disk\n", folder);
        return false;
    }
    return fallocate(bench->fd, 0, 0, (off_t)bench->blocks * SIZE) == 0;
}

static bool
open_bench(struct bench *bench, const char *folder)
{
    struct kvt_error err = {0};
    char path[512];
    enum kvt_err rc;

    (void)snprintf(path, sizeof(path), "%s/kvtier-bench-%ld.tier", folder, (long)getpid());
    rc = kvbm_storage_open_memory(&bench->host, KVBM_STORAGE_SYSTEM, bench->blocks, SIZE, &err);
    if (rc == KVT_OK && bench->ram)
        rc =
            kvbm_storage_open_memory(&bench->other, KVBM_STORAGE_SYSTEM, bench->blocks, SIZE, &err);
    else if (rc == KVT_OK)
        rc = kvbm_disk_open(&bench->other,
                            &(struct kvbm_disk_options){
                                .path = path,
                                .block_count = bench->blocks,
                                .block_size = SIZE,
                                .direct = true,
                            },
                            &err);
    if (rc == KVT_OK)
        rc = kvbm_transfer_new(&bench->transfer, 4, &err);
    if (rc != KVT_OK) {
        (void)fprintf(stderr, "host_disk: %s\n", err.text);
        return false;
    }
    for (uint32_t i = 0; i < bench->blocks; i++)
        memset(kvbm_storage_address(bench->host, i), (int)i + 1, SIZE);
    if (bench->ram)
        return true;
    return open_plain(bench, folder);
}

/* Write everything once: reads need something to read, and first writes into new space are not what
 * is asked. */
static bool
warm_up(struct bench *bench)
{
    const bool writing = bench->writing;
    bool good;

    bench->writing = true;
    good = ours(bench) > 0 && (bench->ram || plain_disk(bench) > 0);
    bench->writing = writing;
    return good;
}

/* A tier leaves O_DIRECT by itself where the file system refuses it. */
static bool
stayed_direct(struct bench *bench, const char *folder)
{
    struct kvbm_disk_stats stats;

    if (bench->ram)
        return true;
    kvbm_disk_stats(bench->other, &stats);
    if (!stats.direct)
        (void)fprintf(stderr, "host_disk: %s: no O_DIRECT here\n", folder);
    return stats.direct;
}

int
main(int argc, char **argv)
{
    const char *folder = getenv("TMPDIR");
    struct bench bench = {.fd = -1, .blocks = BLOCKS};
    unsigned rounds = ROUNDS;

    if (argc < 2)
        return 2;
    bench.ram = strcmp(argv[1], "ram") == 0;
    bench.writing = strcmp(argv[1], "disk2h") != 0;
    if (folder == NULL)
        folder = "/var/tmp";
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = QUICK_ROUNDS;
            bench.blocks = QUICK_BLOCKS;
        } else {
            folder = argv[i];
        }
    }
    if (!open_bench(&bench, folder) || !warm_up(&bench) || !stayed_direct(&bench, folder))
        return 1;
    for (unsigned round = 0; round < rounds; round++) {
        double mine = 0;
        double floor = 0;

        for (unsigned turn = 0; turn < 2; turn++) {
            if ((round + turn) % 2 == 0)
                mine = ours(&bench);
            else
                floor = bench.ram ? plain_ram(&bench) : plain_disk(&bench);
        }
        if (mine <= 0 || floor <= 0)
            return 1;
        (void)printf("pair %.1f %.1f\n", mine, floor);
        (void)fflush(stdout);
    }
    if (!stayed_direct(&bench, folder))
        return 1;
    kvbm_transfer_free(bench.transfer);
    kvbm_storage_close(bench.other);
    kvbm_storage_close(bench.host);
    if (bench.fd >= 0)
        (void)close(bench.fd);
    return 0;
}
