/*
 * What is tested: kvbm/disk.h: what is written comes back, a changed byte on disk is a miss and
 * counted, a block never written is not found, nothing stays in the folder, and constructors
 * survive every allocation failure.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kvbm/disk.h"

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
    struct kvbm_storage_io io = {in, block, KVT_OK};

    memset(in, (int)block + 1, SIZE);
    in[block] = 0xEE;
    kvbm_storage_write(disk, &io, 1);
    return io.status;
}

static enum kvt_err
read_block(struct kvbm_storage *disk, uint32_t block)
{
    struct kvbm_storage_io io = {out, block, KVT_OK};

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
        cmocka_unit_test(nothing_stays_in_the_folder),
        cmocka_unit_test(one_file_serves_one_tier),
        cmocka_unit_test(unwritten_blocks_are_not_found),
        cmocka_unit_test(changed_bytes_are_a_counted_miss),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(opening_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
