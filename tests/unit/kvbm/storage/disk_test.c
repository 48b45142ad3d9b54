/*
 * What is tested: kvbm/storage/disk.h: what is written comes back, a changed byte on disk is a
 * miss and counted, a block never written is not found, nothing stays in the folder, parts are
 * checked by themselves, short, torn and refused operations end in a status, with io_uring and
 * with threads, and constructors survive every allocation failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "kvbm/storage/disk.h"

#include "tests/support/seed.h"

enum { BLOCKS = 8, SIZE = 8192 };

static uint8_t in[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
static uint8_t out[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));

static char folder[256];
static char path[300];

static int
set_up(void **unused)
{
    (void)unused;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/tier", folder);
    return 0;
}

static int
tear_down(void **unused)
{
    (void)unused;
    test_folder_remove(folder);
    return 0;
}

static struct kvbm_storage *
open_disk(bool direct, bool keep_path)
{
    struct kvbm_storage *disk;
    struct kvt_error err;

    assert_int_equal(kvbm_disk_open(&disk,
                                    &(struct kvbm_disk_options){
                                        .path = path,
                                        .block_count = BLOCKS,
                                        .block_size = SIZE,
                                        .direct = direct,
                                        .keep_path = keep_path,
                                    },
                                    &err),
                     KVT_OK);
    return disk;
}

static enum kvt_err
write_block(struct kvbm_storage *disk, uint32_t block)
{
    struct kvbm_storage_io io = {.host = in, .block = block};

    memset(in, (int)block + 1, SIZE);
    in[block] = 0xEE;
    kvbm_storage_write(disk, &io, 1);
    return io.status;
}

static enum kvt_err
read_block(struct kvbm_storage *disk, uint32_t block)
{
    struct kvbm_storage_io io = {.host = out, .block = block};

    kvbm_storage_read(disk, &io, 1);
    return io.status;
}

static void
round_trip(struct kvbm_storage *disk)
{
    struct kvbm_disk_stats stats;

    assert_null(kvbm_storage_address(disk, 0));
    for (uint32_t block = 0; block < BLOCKS; block++)
        assert_int_equal(write_block(disk, block), KVT_OK);
    for (uint32_t block = BLOCKS; block > 0; block--) {
        assert_int_equal(read_block(disk, block - 1), KVT_OK);
        assert_int_equal(out[SIZE - 1], block);
        assert_int_equal(out[block - 1], 0xEE);
    }
    kvbm_disk_stats(disk, &stats);
    assert_int_equal(stats.reads, BLOCKS);
    assert_int_equal(stats.writes, BLOCKS);
    assert_int_equal(stats.corrupt, 0);
    kvbm_storage_close(disk);
}

static void
writes_come_back(void **unused)
{
    (void)unused;
    round_trip(open_disk(false, false));
}

static void
writes_come_back_without_the_page_cache(void **unused)
{
    (void)unused;
    round_trip(open_disk(true, false));
}

static struct kvbm_storage *
open_with(enum kvbm_aio_engine engine, size_t part_size, const struct kvbm_aio_calls *calls)
{
    struct kvbm_storage *disk;
    struct kvt_error err;

    assert_int_equal(kvbm_disk_open(&disk,
                                    &(struct kvbm_disk_options){
                                        .path = path,
                                        .block_count = BLOCKS,
                                        .block_size = SIZE,
                                        .engine = engine,
                                        .depth = 3,
                                        .part_size = part_size,
                                        .calls = calls,
                                    },
                                    &err),
                     KVT_OK);
    return disk;
}

static void
writes_come_back_through_threads(void **unused)
{
    struct kvbm_storage *disk = open_with(KVBM_AIO_THREADS, 0, NULL);
    struct kvbm_disk_stats stats;

    (void)unused;
    kvbm_disk_stats(disk, &stats);
    assert_false(stats.uring);
    round_trip(disk);
}

/* More operations than fit into the air, each block with its own content, in one call. */
static void
many_at_once(void **unused)
{
    static uint8_t all[3 * BLOCKS * SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));

    (void)unused;
    for (int engine = KVBM_AIO_AUTO; engine <= KVBM_AIO_THREADS; engine++) {
        struct kvbm_storage_io ios[3 * BLOCKS];
        struct kvbm_storage *disk;

        if (engine == KVBM_AIO_URING)
            continue; /* AUTO is that where it can be had */
        disk = open_with((enum kvbm_aio_engine)engine, 0, NULL);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            memset(all + (size_t)i * SIZE, (int)i + 7, SIZE);
            ios[i] = (struct kvbm_storage_io){
                .host = all + (size_t)i * SIZE, .block = i, .status = KVT_IO};
        }
        kvbm_storage_write(disk, ios, BLOCKS);
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_int_equal(ios[i].status, KVT_OK);
        memset(all, 0, sizeof(all));
        for (uint32_t i = 0; i < 3 * BLOCKS; i++)
            ios[i] = (struct kvbm_storage_io){
                .host = all + (size_t)i * SIZE, .block = i % BLOCKS, .status = KVT_IO};
        kvbm_storage_read(disk, ios, 3 * BLOCKS);
        for (uint32_t i = 0; i < 3 * BLOCKS; i++) {
            assert_int_equal(ios[i].status, KVT_OK);
            assert_int_equal(all[(size_t)i * SIZE], i % BLOCKS + 7);
            assert_memory_equal(all + (size_t)i * SIZE, all + (size_t)i * SIZE + 1, SIZE - 1);
        }
        kvbm_storage_close(disk);
    }
}

/* Half a block by itself: found when it is written, checked by itself, and a whole block is only
 * there with both. */
static void
parts_are_blocks_of_their_own(void **unused)
{
    struct kvbm_storage *disk = open_with(KVBM_AIO_AUTO, SIZE / 2, NULL);
    struct kvbm_storage_io io = {.host = in, .block = 5, .offset = SIZE / 2, .size = SIZE / 2};

    (void)unused;
    memset(in, 0x5A, SIZE / 2);
    kvbm_storage_write(disk, &io, 1);
    assert_int_equal(io.status, KVT_OK);
    io.host = out;
    kvbm_storage_read(disk, &io, 1);
    assert_int_equal(io.status, KVT_OK);
    assert_memory_equal(in, out, SIZE / 2);
    assert_int_equal(read_block(disk, 5), KVT_NOTFOUND);
    io.offset = 0;
    kvbm_storage_read(disk, &io, 1);
    assert_int_equal(io.status, KVT_NOTFOUND);
    io.host = in;
    kvbm_storage_write(disk, &io, 1);
    assert_int_equal(read_block(disk, 5), KVT_OK);
    assert_int_equal(out[0], 0x5A);
    assert_int_equal(out[SIZE - 1], 0x5A);
    io.offset = 512; /* no checksum of its own */
    io.size = 512;
    kvbm_storage_read(disk, &io, 1);
    assert_int_equal(io.status, KVT_INVALID);
    kvbm_storage_close(disk);
}

/* A disk that moves a few bytes at a time, is interrupted, and at last full or broken. */
static _Thread_local unsigned mood;
static _Atomic int refuse; /* errno of every write, or 0 */
static _Atomic int tear;   /* the next write stops half-way with EIO */

static ssize_t
moody_read(int fd, void *bytes, size_t size, off_t offset)
{
    if (mood++ % 3 == 1) {
        errno = EINTR;
        return -1;
    }
    return pread(fd, bytes, size > 1000 ? 1000 : size, offset);
}

static ssize_t
moody_write(int fd, const void *bytes, size_t size, off_t offset)
{
    if (refuse != 0) {
        errno = refuse;
        return -1;
    }
    if (tear == 1) {
        tear = 2;
        return pwrite(fd, bytes, size / 2, offset);
    }
    if (tear == 2) {
        tear = 0;
        errno = EIO;
        return -1;
    }
    if (mood++ % 3 == 1) {
        errno = EINTR;
        return -1;
    }
    return pwrite(fd, bytes, size > 1000 ? 1000 : size, offset);
}

static void
short_torn_and_refused_operations(void **unused)
{
    static const struct kvbm_aio_calls calls = {moody_read, moody_write, fdatasync};
    struct kvbm_storage *disk = open_with(KVBM_AIO_AUTO, 0, &calls);
    struct kvbm_disk_stats stats;

    (void)unused;
    for (uint32_t block = 0; block < BLOCKS; block++) {
        assert_int_equal(write_block(disk, block), KVT_OK);
        assert_int_equal(read_block(disk, block), KVT_OK);
        assert_memory_equal(in, out, SIZE);
    }
    refuse = ENOSPC;
    assert_int_equal(write_block(disk, 1), KVT_FULL);
    refuse = EIO;
    assert_int_equal(write_block(disk, 2), KVT_IO);
    refuse = 0;
    tear = 1;
    assert_int_equal(write_block(disk, 3), KVT_IO);
    /* What was there is gone, and what was to come never came: nothing is found, nothing mixed. */
    for (uint32_t block = 1; block <= 3; block++)
        assert_int_equal(read_block(disk, block), KVT_NOTFOUND);
    assert_int_equal(read_block(disk, 4), KVT_OK);
    assert_int_equal(write_block(disk, 3), KVT_OK);
    assert_int_equal(read_block(disk, 3), KVT_OK);
    kvbm_disk_stats(disk, &stats);
    assert_int_equal(stats.failed, 3);
    kvbm_storage_close(disk);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
nothing_stays_in_the_folder(void **unused)
{
    struct kvbm_storage *disk = open_disk(false, false);

    (void)unused;
    assert_int_equal(access(path, F_OK), -1);
    kvbm_storage_close(disk);
}

static void
one_file_serves_one_tier(void **unused)
{
    struct kvbm_storage *disk = open_disk(false, true);
    struct kvbm_storage *second;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_disk_open(&second,
                                    &(struct kvbm_disk_options){
                                        .path = path, .block_count = BLOCKS, .block_size = SIZE},
                                    &err),
                     KVT_EXISTS);
    assert_null(second);
    kvbm_storage_close(disk);
    assert_int_equal(unlink(path), 0);
}

static void
unwritten_blocks_are_not_found(void **unused)
{
    struct kvbm_storage *disk = open_disk(false, false);

    (void)unused;
    assert_int_equal(read_block(disk, 3), KVT_NOTFOUND);
    kvbm_storage_close(disk);
}

/* Flip one byte behind the tier's back, at the start, in the middle and at the end of a block. */
static void
changed_bytes_are_a_counted_miss(void **unused)
{
    static const off_t offsets[] = {0, SIZE / 2 + 1, SIZE - 1};
    struct kvbm_storage *disk = open_disk(false, true);
    struct kvbm_disk_stats stats;
    const int fd = open(path, O_RDWR);

    (void)unused;
    assert_true(fd >= 0);
    for (size_t i = 0; i < 3; i++) {
        const off_t at = (off_t)2 * SIZE + offsets[i];
        uint8_t byte;

        assert_int_equal(write_block(disk, 2), KVT_OK);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_int_equal(read_block(disk, 2), KVT_CORRUPT);
        assert_int_equal(write_block(disk, 2), KVT_OK);
        assert_int_equal(read_block(disk, 2), KVT_OK);
    }
    kvbm_disk_stats(disk, &stats);
    assert_int_equal(stats.corrupt, 3);
    /* A file cut short: a read that ends early is an error, never short data. */
    assert_int_equal(ftruncate(fd, 2 * SIZE + 10), 0);
    assert_int_equal(read_block(disk, 2), KVT_IO);
    (void)close(fd);
    kvbm_storage_close(disk);
    assert_int_equal(unlink(path), 0);
}

static void
impossible_shapes_are_refused(void **unused)
{
    const struct {
        uint32_t blocks;
        size_t size;
        enum kvt_err rc;
    } rows[] = {
        {0, SIZE, KVT_RANGE},
        {KVBM_STORAGE_BLOCKS_MAX + 1, SIZE, KVT_RANGE},
        {BLOCKS, 0, KVT_INVALID},
        {BLOCKS, SIZE + 1, KVT_INVALID},
        {BLOCKS, (size_t)2 << 30, KVT_RANGE},
    };
    static const size_t parts[] = {SIZE / 4, 4097, SIZE * 2, 3 * 4096};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kvbm_storage *disk;
        struct kvt_error err;

        assert_int_equal(kvbm_disk_open(&disk,
                                        &(struct kvbm_disk_options){.path = path,
                                                                    .block_count = rows[i].blocks,
                                                                    .block_size = rows[i].size},
                                        &err),
                         rows[i].rc);
        assert_null(disk);
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct kvbm_storage *disk;
        struct kvt_error err;

        assert_int_equal(kvbm_disk_open(&disk,
                                        &(struct kvbm_disk_options){.path = path,
                                                                    .block_count = BLOCKS,
                                                                    .block_size = SIZE,
                                                                    .part_size = parts[i]},
                                        &err),
                         KVT_INVALID);
        assert_null(disk);
    }
}

static bool
attempt(void *unused)
{
    struct kvbm_storage *disk;
    struct kvt_error err;
    const enum kvt_err rc = kvbm_disk_open(
        &disk, &(struct kvbm_disk_options){.path = path, .block_count = BLOCKS, .block_size = SIZE},
        &err);

    (void)unused;
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && disk == NULL));
    assert_int_equal(access(path, F_OK), -1);
    kvbm_storage_close(disk);
    return rc == KVT_OK;
}

static bool
attempt_memory(void *unused)
{
    struct kvbm_storage *memory;
    struct kvt_error err;
    const enum kvt_err rc =
        kvbm_storage_open_memory(&memory, KVBM_STORAGE_SYSTEM, BLOCKS, SIZE, &err);

    (void)unused;
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && memory == NULL));
    kvbm_storage_close(memory);
    return rc == KVT_OK;
}

static void
opening_survives_every_allocation_failure(void **unused)
{
    (void)unused;
    assert_true(test_sweep_allocations(attempt, NULL) > 0);
    assert_true(test_sweep_allocations(attempt_memory, NULL) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_come_back),
        cmocka_unit_test(writes_come_back_without_the_page_cache),
        cmocka_unit_test(writes_come_back_through_threads),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(parts_are_blocks_of_their_own),
        cmocka_unit_test(short_torn_and_refused_operations),
        cmocka_unit_test(nothing_stays_in_the_folder),
        cmocka_unit_test(one_file_serves_one_tier),
        cmocka_unit_test(unwritten_blocks_are_not_found),
        cmocka_unit_test(changed_bytes_are_a_counted_miss),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(opening_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
