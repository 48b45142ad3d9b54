/*
 * tests/powercut/tier.c -- a disk tier that outlives its process, driven line by line.
 *
 * Why: tests/powercut/tier.py cuts its power and kills it, and looks at what is found then.
 *
 * usage: tier FOLDER run threads|auto < lines     tier FOLDER check verify|trust
 *   store NAME VERSION BLOCK [NAME VERSION BLOCK ...]   write and commit them in one go
 *   forget BLOCK
 * Each line is answered with "done" when it lasts.  `check` prints "found NAME VERSION" for each
 * block that is what its name and version say, "torn NAME" for any other, and "end"; with `trust`
 * it relies on the index alone, which must not speak of a block that is not whole either.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvbm/storage/disk.h"

enum { BLOCKS = 10, SIZE = 8192, PARTS = 2, AT_ONCE_MAX = 4, LINE_MAX_HERE = 256 };

static uint8_t bytes[AT_ONCE_MAX][SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));

static uint64_t
word_at(uint64_t name, uint64_t version, size_t at)
{
    return at == 0 ? name : at == 8 ? version : (name * 1000003 + version) * 31 + at;
}

static void
fill(uint8_t *block, uint64_t name, uint64_t version)
{
    for (size_t at = 0; at < SIZE; at += 8) {
        const uint64_t word = word_at(name, version, at);

        memcpy(block + at, &word, 8);
    }
}

static struct kvbm_storage *
open_tier(const char *folder, const char *how)
{
    struct kvbm_storage *disk;
    struct kvt_error err;
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/tier", folder);
    if (kvbm_disk_open(&disk,
                       &(struct kvbm_disk_options){
                           .path = path,
                           .block_count = BLOCKS,
                           .block_size = SIZE,
                           .direct = true,
                           .engine = strcmp(how, "threads") == 0 ? KVBM_AIO_THREADS : KVBM_AIO_AUTO,
                           .part_size = SIZE / PARTS,
                           .keep = &(struct kvbm_disk_keep){42, strcmp(how, "trust") == 0},
                       },
                       &err) == KVT_OK)
        return disk;
    (void)fprintf(stderr, "tier: %s\n", err.text);
    return NULL;
}

static bool
store(struct kvbm_storage *disk, char *words)
{
    struct kvbm_storage_io ios[AT_ONCE_MAX];
    struct kvbm_storage_name entries[AT_ONCE_MAX];
    size_t count = 0;

    while (count < AT_ONCE_MAX) {
        const uint64_t name = strtoull(words, &words, 10);
        const uint64_t version = strtoull(words, &words, 10);
        const uint32_t block = (uint32_t)strtoul(words, &words, 10);

        if (name == 0)
            break;
        fill(bytes[count], name, version);
        ios[count] = (struct kvbm_storage_io){.host = bytes[count], .block = block};
        entries[count] = (struct kvbm_storage_name){.block = block, .id = {.hash = name}};
        count++;
    }
    kvbm_storage_write(disk, ios, count);
    return kvbm_disk_commit(disk, entries, count) == KVT_OK;
}

static int
run(struct kvbm_storage *disk)
{
    char line[LINE_MAX_HERE];

    while (fgets(line, sizeof(line), stdin) != NULL) {
        uint32_t block;
        bool good = false;

        if (strncmp(line, "store ", 6) == 0) {
            good = store(disk, line + 6);
        } else if (strncmp(line, "forget ", 7) == 0) {
            block = (uint32_t)strtoul(line + 7, NULL, 10);
            good = kvbm_disk_forget(disk, &block, 1) == KVT_OK;
        }
        if (!good)
            return 1;
        (void)printf("done\n");
        (void)fflush(stdout);
    }
    return 0;
}

static int
check(struct kvbm_storage *disk)
{
    struct kvbm_storage_name entry;
    uint32_t at = 0;

    while (kvbm_disk_found(disk, &at, &entry, 1) == 1) {
        struct kvbm_storage_io io = {.host = bytes[0], .block = entry.block};
        uint64_t version;

        kvbm_storage_read(disk, &io, 1);
        memcpy(&version, bytes[0] + 8, 8);
        fill(bytes[1], entry.id.hash, version);
        if (io.status == KVT_OK && memcmp(bytes[0], bytes[1], SIZE) == 0)
            (void)printf("found %" PRIu64 " %" PRIu64 "\n", entry.id.hash, version);
        else
            (void)printf("torn %" PRIu64 "\n", entry.id.hash);
    }
    (void)printf("end\n");
    return 0;
}

int
main(int argc, char **argv)
{
    struct kvbm_storage *disk;
    int rc = 2;

    if (argc != 4)
        return 2;
    disk = open_tier(argv[1], argv[3]);
    if (disk == NULL)
        return 1;
    if (strcmp(argv[2], "run") == 0)
        rc = run(disk);
    else if (strcmp(argv[2], "check") == 0)
        rc = check(disk);
    kvbm_storage_close(disk);
    return rc;
}
