/*
 * What is tested: a disk tier that outlives its process (kvbm/storage/disk.h with `keep`): what was
 * committed is found under its name and nothing else is; forgotten, replaced, damaged and torn
 * blocks are not; of two of one name the latest and never the older; other shapes and fingerprints
 * start empty; one process at a time; failed syncs; every allocation failure; a long random run
 * with restarts against a model.  Power cuts and kills: tests/powercut/tier.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/storage/disk.h"

#include "tests/support/seed.h"

/* 64 + 3 * 4 bytes of a record, up to a multiple of 64. */
enum { BLOCKS = 12, SIZE = 8192, PARTS = 2, NAMES = 20, RECORD = 128 };

static uint8_t bytes[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
static uint8_t back[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));

static char folder[256];
static char path[300];
static char index_path[320];

static _Atomic int fail_sync; /* 1: this and all later ones; n: the n-th from here on */

static int
moody_sync(int fd)
{
    if (fail_sync > 1)
        fail_sync--;
    else if (fail_sync == 1) {
        errno = EIO;
        return -1;
    }
    return fdatasync(fd);
}

static _Atomic int
    fail_records; /* so many writes of records find the disk full; -n: n after the next */

static ssize_t
moody_write(int fd, const void *from, size_t size, off_t offset)
{
    if (size >= KVBM_DISK_HEADER_BYTES || fail_records == 0)
        return pwrite(fd, from, size, offset);
    if (fail_records < 0) { /* not this one */
        fail_records = -fail_records;
        return pwrite(fd, from, size, offset);
    }
    fail_records--;
    errno = ENOSPC;
    return -1;
}

static const struct kvbm_aio_calls calls = {pread, moody_write, moody_sync};

static int
set_up(void **unused)
{
    (void)unused;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/tier", folder);
    (void)snprintf(index_path, sizeof(index_path), "%s/tier.index", folder);
    fail_sync = 0;
    fail_records = 0;
    return 0;
}

static int
tear_down(void **unused)
{
    (void)unused;
    test_folder_remove(folder);
    assert_int_equal(kvt_alloc_live(), 0);
    return 0;
}

static enum kvt_err
try_open(struct kvbm_storage **disk, uint32_t blocks, uint64_t fingerprint, bool trust)
{
    struct kvt_error err;

    return kvbm_disk_open(disk,
                          &(struct kvbm_disk_options){
                              .path = path,
                              .block_count = blocks,
                              .block_size = SIZE,
                              .direct = true,
                              .part_size = SIZE / PARTS,
                              .calls = &calls,
                              .keep = &(struct kvbm_disk_keep){fingerprint, trust},
                          },
                          &err);
}

static struct kvbm_storage *
open_kept(void)
{
    struct kvbm_storage *disk;

    assert_int_equal(try_open(&disk, BLOCKS, 1, false), KVT_OK);
    return disk;
}

static void
fill(uint64_t hash, uint32_t version)
{
    for (size_t i = 0; i < SIZE; i += 8)
        memcpy(bytes + i, &hash, 8);
    memcpy(bytes + SIZE - 4, &version, 4);
}

static enum kvt_err
write_as(struct kvbm_storage *disk, uint32_t block, uint64_t hash, uint32_t version)
{
    struct kvbm_storage_io io = {.host = bytes, .block = block};

    fill(hash, version);
    kvbm_storage_write(disk, &io, 1);
    return io.status;
}

static enum kvt_err
commit_as(struct kvbm_storage *disk, uint32_t block, uint64_t hash)
{
    struct kvbm_storage_name entry = {.block = block,
                                      .id = {hash, hash - 1, (uint32_t)hash % 7},
                                      .prefix_hash = hash + 5,
                                      .tokens_hash = hash * 3};

    return kvbm_disk_commit(disk, &entry, 1);
}

static void
store(struct kvbm_storage *disk, uint32_t block, uint64_t hash, uint32_t version)
{
    assert_int_equal(write_as(disk, block, hash, version), KVT_OK);
    assert_int_equal(commit_as(disk, block, hash), KVT_OK);
}

/* How many there are; each must read back as (name, version[name]) says. */
static void
forget_all(struct kvbm_storage *disk)
{
    uint32_t blocks[BLOCKS];

    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = i;
    assert_int_equal(kvbm_disk_forget(disk, blocks, BLOCKS), KVT_OK);
}

static size_t
found(struct kvbm_storage *disk, const uint32_t *versions)
{
    struct kvbm_storage_name entries[5];
    uint32_t at = 0;
    size_t total = 0;
    size_t count;

    do {
        count = kvbm_disk_found(disk, &at, entries, 5);
        for (size_t i = 0; i < count; i++) {
            const uint64_t hash = entries[i].id.hash;
            struct kvbm_storage_io io = {.host = back, .block = entries[i].block};

            assert_int_equal(entries[i].id.parent, hash - 1);
            assert_int_equal(entries[i].id.position, hash % 7);
            assert_int_equal(entries[i].prefix_hash, hash + 5);
            assert_int_equal(entries[i].tokens_hash, hash * 3);
            assert_true(hash < NAMES && versions[hash] > 0);
            fill(hash, versions[hash]);
            kvbm_storage_read(disk, &io, 1);
            assert_int_equal(io.status, KVT_OK);
            assert_memory_equal(back, bytes, SIZE);
        }
        total += count;
    } while (count == 5);
    assert_int_equal(kvbm_disk_found(disk, &at, entries, 5), 0);
    return total;
}

static void
what_was_committed_is_found(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};
    struct kvbm_disk_stats stats;
    uint32_t at = 0;
    struct kvbm_storage_name entry;

    (void)unused;
    assert_int_equal(kvbm_disk_found(disk, &at, &entry, 1), 0);
    for (uint32_t i = 0; i < 6; i++)
        store(disk, i, i + 3, versions[i + 3] = i + 1);
    assert_int_equal(write_as(disk, 7, 15, 1), KVT_OK); /* never committed */
    assert_int_equal(commit_as(disk, 8, 16), KVT_NOTFOUND);
    kvbm_storage_close(disk);

    disk = open_kept();
    assert_int_equal(found(disk, versions), 6);
    kvbm_disk_stats(disk, &stats);
    assert_int_equal(stats.found, 6);
    assert_int_equal(stats.dropped, 0);
    /* And again: finding changes nothing. */
    kvbm_storage_close(disk);
    assert_int_equal(try_open(&disk, BLOCKS, 1, true), KVT_OK);
    assert_int_equal(found(disk, versions), 6);
    kvbm_storage_close(disk);
}

static void
what_is_replaced_or_forgotten_is_not(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};
    const uint32_t gone[2] = {2, 3};

    (void)unused;
    for (uint32_t i = 0; i < 6; i++)
        store(disk, i, i + 3, versions[i + 3] = 1);
    assert_int_equal(kvbm_disk_forget(disk, gone, 2), KVT_OK);
    versions[5] = versions[6] = 0;
    assert_int_equal(write_as(disk, 0, 9, 9), KVT_OK); /* replaced, not committed again */
    versions[3] = 0;
    store(disk, 1, 4, versions[4] = 2); /* replaced by a later one of the same name */
    kvbm_storage_close(disk);

    disk = open_kept();
    assert_int_equal(found(disk, versions), 3);
    forget_all(disk);
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 0);
    kvbm_storage_close(disk);
}

static void
a_name_is_not_found_over_new_bytes(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 3, 4, versions[4] = 1);
    store(disk, 6, 7, 1);
    store(disk, 8, 9, 1);
    kvbm_storage_close(disk);
    disk = open_kept();
    store(disk, 6, 10, 2);
    assert_int_equal(commit_as(disk, 8, 11), KVT_OK);
    assert_int_equal(found(disk, versions), 1);
    kvbm_storage_close(disk);
}

static void
a_refused_write_leaves_the_block(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    struct kvbm_storage_io io = {.host = bytes, .size = SIZE / PARTS / 2, .block = 3};
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 3, 4, versions[4] = 1);
    kvbm_storage_write(disk, &io, 1);
    assert_int_equal(io.status, KVT_INVALID);
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 1);
    kvbm_storage_close(disk);
}

static void
of_two_of_one_name_the_latest_is_found(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 9, 3, 1);
    store(disk, 2, 3, 2);
    store(disk, 5, 3, versions[3] = 3);
    store(disk, 4, 4, versions[4] = 1);
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 2);
    /* The older ones are used again, and do not come back. */
    store(disk, 9, 6, versions[6] = 1);
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 3);
    kvbm_storage_close(disk);
}

static void
an_older_one_does_not_come_back(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};
    struct kvbm_storage_name both[2] = {{.block = 6, .id = {8, 7, 1}, 13, 24, KVT_IO},
                                        {.block = 7, .id = {8, 7, 1}, 13, 24, KVT_IO}};

    (void)unused;
    for (uint32_t hash = 3; hash <= 5; hash++) {
        store(disk, hash - 3, hash, 1);
        store(disk, hash + 3, hash, 2);
    }
    /* The later one is written over, forgotten, or given another name: none is left. */
    assert_int_equal(write_as(disk, 6, 9, 1), KVT_OK);
    assert_int_equal(kvbm_disk_forget(disk, &(uint32_t){7}, 1), KVT_OK);
    store(disk, 8, 11, versions[11] = 1);
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 1);
    /* Two of one name in one commit: the one that is named last. */
    assert_int_equal(write_as(disk, 6, 8, 1), KVT_OK);
    assert_int_equal(write_as(disk, 7, 8, versions[8] = 2), KVT_OK);
    assert_int_equal(kvbm_disk_commit(disk, both, 2), KVT_OK);
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 2);
    assert_int_equal(kvbm_disk_forget(disk, &(uint32_t){7}, 1), KVT_OK);
    kvbm_storage_close(disk);
    versions[8] = 0;
    disk = open_kept();
    assert_int_equal(found(disk, versions), 1);
    kvbm_storage_close(disk);
}

/* What the index said of a block before a commit took its name away. */
static uint8_t record[RECORD];

static void
keep_record(uint32_t block, bool put_back)
{
    const int fd = open(index_path, O_RDWR);
    const off_t at = KVBM_DISK_HEADER_BYTES + (off_t)block * RECORD;

    assert_true(fd >= 0);
    assert_int_equal(put_back ? pwrite(fd, record, RECORD, at) : pread(fd, record, RECORD, at),
                     RECORD);
    (void)close(fd);
}

/* A kill between the record of a name and the erasing of its older one: the next
 * process finds the later, and never the older. */
static void
doubles_of_a_crash_are_erased_at_opening(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 1, 3, 1);
    keep_record(1, false);
    assert_int_equal(write_as(disk, 2, 3, versions[3] = 2), KVT_OK);
    fail_sync = 3; /* data, records, and then: doubles */
    assert_int_equal(commit_as(disk, 2, 3), KVT_IO);
    fail_sync = 0;
    kvbm_storage_close(disk);
    /* The zeros are in the file here, and might not be after a power cut: as if they were not. */
    keep_record(1, true);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 1);
    assert_int_equal(write_as(disk, 2, 5, 1), KVT_OK); /* the later one goes */
    kvbm_storage_close(disk);
    versions[3] = 0;
    disk = open_kept();
    assert_int_equal(found(disk, versions), 0);
    kvbm_storage_close(disk);
}

static void
another_meaning_starts_empty(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 1, 3, 1);
    kvbm_storage_close(disk);
    assert_int_equal(try_open(&disk, BLOCKS, 2, false), KVT_OK);
    assert_int_equal(found(disk, versions), 0);
    store(disk, 1, 4, versions[4] = 1);
    kvbm_storage_close(disk);
    assert_int_equal(try_open(&disk, BLOCKS - 1, 2, false), KVT_OK);
    assert_int_equal(found(disk, versions), 0);
    kvbm_storage_close(disk);
    disk = open_kept(); /* what was first there is not there again */
    assert_int_equal(found(disk, versions), 0);
    kvbm_storage_close(disk);
}

static void
one_process_at_a_time(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    struct kvbm_storage *second;
    struct stat before;
    struct stat after;

    (void)unused;
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(try_open(&second, BLOCKS + 5, 1, false), KVT_BUSY);
    assert_null(second);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size); /* not touched by who may not have it */
    kvbm_storage_close(disk);
    disk = open_kept();
    kvbm_storage_close(disk);
}

static void
flip(const char *file, off_t at, uint8_t mask)
{
    const int fd = open(file, O_RDWR);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= mask;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

/* Whatever byte of a record or of the header is wrong: never a wrong block, at most one less. */
static void
every_damaged_byte_of_the_index_costs_a_block_at_most(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    const off_t header = 56;
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 0, 3, versions[3] = 1);
    store(disk, 1, 4, versions[4] = 1);
    kvbm_storage_close(disk);
    for (off_t at = 0; at < RECORD; at++) {
        size_t count;

        flip(index_path, KVBM_DISK_HEADER_BYTES + at, 0x41);
        disk = open_kept();
        count = found(disk, versions);
        assert_int_equal(count, at < 64 + 3 * 4 ? 1 : 2);
        kvbm_storage_close(disk);
        flip(index_path, KVBM_DISK_HEADER_BYTES + at, 0x41);
    }
    for (off_t at = 0; at < header; at++) {
        flip(index_path, at, 0x41);
        disk = open_kept();
        assert_int_equal(found(disk, versions), 0);
        store(disk, 0, 3, 1);
        store(disk, 1, 4, 1);
        kvbm_storage_close(disk);
        disk = open_kept();
        assert_int_equal(found(disk, versions), 2);
        kvbm_storage_close(disk);
    }
}

static void
an_index_cut_short_is_empty(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 0, 3, 1);
    kvbm_storage_close(disk);
    for (off_t size = KVBM_DISK_HEADER_BYTES + 1000; size >= 0; size -= 500) {
        assert_int_equal(truncate(index_path, size), 0);
        disk = open_kept();
        assert_int_equal(found(disk, versions), 0);
        kvbm_storage_close(disk);
    }
}

static void
damaged_data_is_not_found(void **unused)
{
    static const off_t offsets[] = {0, SIZE / 2 - 1, SIZE / 2, SIZE - 1};
    uint32_t versions[NAMES] = {0};

    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        struct kvbm_storage *disk = open_kept();
        struct kvbm_disk_stats stats;
        struct kvbm_storage_name entry;
        struct kvbm_storage_io io = {.host = back};
        uint32_t at = 0;

        store(disk, 2, 3, 1);
        store(disk, 3, 4, versions[4] = 1);
        kvbm_storage_close(disk);
        flip(path, 2 * SIZE + offsets[i], 1);
        disk = open_kept();
        versions[3] = 0;
        assert_int_equal(found(disk, versions), 1);
        kvbm_disk_stats(disk, &stats);
        assert_int_equal(stats.dropped, 1);
        kvbm_storage_close(disk);
        /* Who trusts the index finds it, and is told when it is read. */
        assert_int_equal(try_open(&disk, BLOCKS, 1, true), KVT_OK);
        assert_int_equal(kvbm_disk_found(disk, &at, &entry, 1), 1);
        io.block = entry.block;
        assert_int_equal(entry.id.hash, 3);
        kvbm_storage_read(disk, &io, 1);
        assert_int_equal(io.status, KVT_CORRUPT);
        kvbm_storage_close(disk);
    }
    /* The data file is lost. */
    assert_int_equal(unlink(path), 0);
    {
        struct kvbm_storage *disk = open_kept();

        assert_int_equal(found(disk, versions), 0);
        kvbm_storage_close(disk);
    }
}

/* After a failed sync nobody knows what lies on the disk: nothing is acknowledged, and no block a
 * record may speak of is written over. */
static void
failed_syncs_end_all_trust(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 1, 3, versions[3] = 1);
    assert_int_equal(write_as(disk, 2, 4, 1), KVT_OK);
    fail_sync = 1;
    assert_int_equal(commit_as(disk, 2, 4), KVT_IO);
    fail_sync = 0;
    assert_int_equal(commit_as(disk, 2, 4), KVT_IO); /* a second sync says nothing of the first */
    assert_int_equal(write_as(disk, 1, 5, 1), KVT_IO);
    assert_int_equal(kvbm_disk_forget(disk, &(uint32_t){1}, 1), KVT_IO);
    assert_int_equal(write_as(disk, 3, 6, 1), KVT_OK); /* no record speaks of it */
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 1);
    kvbm_storage_close(disk);
}

/* What came before stays; later names take its place as if nothing had been. */
static void
a_record_that_does_not_fit_is_taken_back(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 1, 3, versions[3] = 1);
    assert_int_equal(write_as(disk, 2, 3, 2), KVT_OK);
    fail_records = 1;
    assert_int_equal(commit_as(disk, 2, 3), KVT_FULL);
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 1);
    assert_int_equal(write_as(disk, 2, 3, 2), KVT_OK);
    fail_records = 1;
    assert_int_equal(commit_as(disk, 2, 3), KVT_FULL);
    store(disk, 4, 3, versions[3] = 3);
    assert_int_equal(write_as(disk, 4, 5, 1), KVT_OK);
    versions[3] = 0;
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 0);
    /* Nor can it be taken back: nobody knows what is there. */
    store(disk, 1, 3, versions[3] = 4);
    assert_int_equal(write_as(disk, 2, 4, 1), KVT_OK);
    fail_records = 2;
    assert_int_equal(commit_as(disk, 2, 4), KVT_FULL);
    assert_int_equal(commit_as(disk, 2, 4), KVT_IO);
    assert_int_equal(write_as(disk, 1, 5, 1), KVT_IO);
    kvbm_storage_close(disk);
    /* An older one that cannot be taken away could come back. */
    disk = open_kept();
    store(disk, 1, 3, 5);
    assert_int_equal(write_as(disk, 2, 3, versions[3] = 6), KVT_OK);
    fail_records = -1;
    assert_int_equal(commit_as(disk, 2, 3), KVT_IO);
    assert_int_equal(write_as(disk, 2, 5, 1), KVT_IO);
    kvbm_storage_close(disk);
    disk = open_kept();
    assert_int_equal(found(disk, versions), 1);
    kvbm_storage_close(disk);
}

static void
a_failed_erase_keeps_the_block(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    struct kvbm_storage_io io = {.host = back, .block = 1};

    (void)unused;
    store(disk, 1, 3, 1);
    fail_sync = 1;
    assert_int_equal(write_as(disk, 1, 5, 1), KVT_IO);
    fail_sync = 0;
    kvbm_storage_read(disk, &io, 1);
    assert_int_equal(io.status, KVT_OK);
    fill(3, 1);
    assert_memory_equal(back, bytes, SIZE);
    kvbm_storage_close(disk);
}

static void
random_runs_with_restarts(void **unused)
{
    uint64_t state = test_seed();
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0}; /* 0: not there */
    uint32_t where[NAMES] = {0};
    uint32_t next = 1;

    (void)unused;
    for (unsigned step = 0; step < 1200 / TEST_ALONE_SHARE; step++) {
        const uint32_t block = (uint32_t)kvt_random_below(&state, BLOCKS);
        const uint64_t hash = kvt_random_below(&state, NAMES);
        const uint64_t what = kvt_random_below(&state, 20);

        if (what == 0) {
            size_t live = 0;

            kvbm_storage_close(disk);
            disk = open_kept();
            for (size_t i = 0; i < NAMES; i++)
                live += versions[i] > 0;
            assert_int_equal(found(disk, versions), live);
            continue;
        }
        for (size_t i = 0; i < NAMES; i++)
            if (versions[i] > 0 && where[i] == block)
                versions[i] = 0;
        if (what < 4) {
            assert_int_equal(kvbm_disk_forget(disk, &block, 1), KVT_OK);
        } else if (what < 7) {
            assert_int_equal(write_as(disk, block, hash, next++), KVT_OK);
        } else {
            store(disk, block, hash, next);
            versions[hash] = next++;
            where[hash] = block;
        }
    }
    kvbm_storage_close(disk);
}

static bool
attempt(void *unused)
{
    struct kvbm_storage *disk;
    const enum kvt_err rc = try_open(&disk, BLOCKS, 1, false);

    (void)unused;
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && disk == NULL));
    kvbm_storage_close(disk);
    return rc == KVT_OK;
}

static void
opening_survives_every_allocation_failure(void **unused)
{
    struct kvbm_storage *disk = open_kept();
    uint32_t versions[NAMES] = {0};

    (void)unused;
    store(disk, 1, 3, versions[3] = 1);
    kvbm_storage_close(disk);
    assert_true(test_sweep_allocations(attempt, NULL) > 5);
    disk = open_kept(); /* and nothing was lost by it */
    assert_int_equal(found(disk, versions), 1);
    kvbm_storage_close(disk);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_committed_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_replaced_or_forgotten_is_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_is_not_found_over_new_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_write_leaves_the_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_two_of_one_name_the_latest_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_older_one_does_not_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(doubles_of_a_crash_are_erased_at_opening, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_meaning_starts_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_process_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_damaged_byte_of_the_index_costs_a_block_at_most,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_index_cut_short_is_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_data_is_not_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_syncs_end_all_trust, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_that_does_not_fit_is_taken_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failed_erase_keeps_the_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_runs_with_restarts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(opening_survives_every_allocation_failure, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
