#include "gateway/quarantine.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

enum { PATH_MAX_BYTES = 4096, LINE_MAX_BYTES = 8192, FOUND_MAX = 4096 };

struct entry {
    uint64_t id;   /* microseconds of its making, made unique */
    uint64_t mark; /* of key, tier and body: what "the same damage" means; 0 = before this start */
    uint64_t bytes;
};

struct gateway_quarantine {
    char *folder;
    size_t entries_max;

    struct {
        pthread_mutex_t lock;  /* guards this struct and the files of the folder */
        struct entry *entries; /* oldest first */
        size_t count;
        uint64_t bytes;
    } shared;
};

static bool
path_of(const struct gateway_quarantine *quarantine, uint64_t id, const char *kind,
        char path[PATH_MAX_BYTES])
{
    const int size =
        snprintf(path, PATH_MAX_BYTES, "%s/%016" PRIx64 ".%s", quarantine->folder, id, kind);

    return size > 0 && size < PATH_MAX_BYTES;
}

static void
drop_oldest_locked(struct gateway_quarantine *quarantine)
{
    char path[PATH_MAX_BYTES];
    const struct entry oldest = quarantine->shared.entries[0];

    if (path_of(quarantine, oldest.id, "body", path))
        (void)unlink(path);
    if (path_of(quarantine, oldest.id, "json", path))
        (void)unlink(path);
    quarantine->shared.bytes -= oldest.bytes;
    quarantine->shared.count--;
    memmove(&quarantine->shared.entries[0], &quarantine->shared.entries[1],
            quarantine->shared.count * sizeof(oldest));
}

static void
make_room_locked(struct gateway_quarantine *quarantine, uint64_t bytes)
{
    while (quarantine->shared.count > 0 &&
           (quarantine->shared.count >= quarantine->entries_max ||
            quarantine->shared.bytes > GATEWAY_QUARANTINE_BYTES - bytes))
        drop_oldest_locked(quarantine);
}

static int
compare_entries(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;

    return a->id < b->id ? -1 : a->id > b->id;
}

/* Entries that an earlier life left.  A body without its line is half an entry: it goes. */
static enum kvt_err
load(struct gateway_quarantine *quarantine, struct kvt_error *err)
{
    char path[PATH_MAX_BYTES];
    struct dirent *item;
    DIR *folder = opendir(quarantine->folder);

    if (folder == NULL)
        return kvt_error_sys(err, errno, "open %s", quarantine->folder);
    while ((item = readdir(folder)) != NULL && quarantine->shared.count < FOUND_MAX) {
        struct entry *entry = &quarantine->shared.entries[quarantine->shared.count];
        char *end = NULL;
        struct stat info;
        const uint64_t id = strtoull(item->d_name, &end, 16);

        if (end != item->d_name + 16 || strcmp(end, ".body") != 0)
            continue;
        if (!path_of(quarantine, id, "body", path) || stat(path, &info) != 0)
            continue;
        *entry = (struct entry){.id = id, .bytes = (uint64_t)info.st_size};
        quarantine->shared.bytes += entry->bytes;
        quarantine->shared.count++;
    }
    (void)closedir(folder);
    qsort(quarantine->shared.entries, quarantine->shared.count, sizeof(struct entry),
          compare_entries);
    while (quarantine->shared.count > quarantine->entries_max)
        drop_oldest_locked(quarantine);
    return KVT_OK;
}

enum kvt_err
gateway_quarantine_open(struct gateway_quarantine **out, const char *folder, size_t entries_max,
                        struct kvt_error *err)
{
    struct gateway_quarantine *quarantine;
    enum kvt_err rc;

    assert(entries_max >= 1 && entries_max <= GATEWAY_QUARANTINE_ENTRIES_MAX);
    *out = NULL;
    rc = kvt_folder_make(folder, err);
    if (rc != KVT_OK)
        return rc;
    quarantine = kvt_calloc(1, sizeof(*quarantine));
    if (quarantine == NULL)
        return kvt_error_set(err, KVT_NOMEM, "quarantine");
    if (pthread_mutex_init(&quarantine->shared.lock, NULL) != 0) {
        kvt_free(quarantine);
        return kvt_error_set(err, KVT_NOMEM, "quarantine");
    }
    quarantine->entries_max = entries_max;
    quarantine->folder = kvt_strdup(folder);
    quarantine->shared.entries = kvt_calloc(FOUND_MAX, sizeof(struct entry));
    if (quarantine->folder == NULL || quarantine->shared.entries == NULL)
        rc = kvt_error_set(err, KVT_NOMEM, "quarantine");
    else
        rc = load(quarantine, err);
    if (rc != KVT_OK)
        goto fail;
    *out = quarantine;
    return KVT_OK;

fail:
    gateway_quarantine_close(quarantine);
    return rc;
}

void
gateway_quarantine_close(struct gateway_quarantine *quarantine)
{
    if (quarantine == NULL)
        return;
    (void)pthread_mutex_destroy(&quarantine->shared.lock);
    kvt_free(quarantine->shared.entries);
    kvt_free(quarantine->folder);
    kvt_free(quarantine);
}

static uint64_t
mark_of(const struct gateway_quarantine_item *item)
{
    const uint64_t mark =
        XXH3_64bits_withSeed(item->body, item->size, XXH3_64bits(item->key, strlen(item->key))) ^
        XXH3_64bits(item->tier, strlen(item->tier));

    return mark == 0 ? 1 : mark;
}

static enum kvt_err
write_files(struct gateway_quarantine *quarantine, const struct gateway_quarantine_item *item,
            uint64_t id, uint64_t now_ms)
{
    char path[PATH_MAX_BYTES];
    struct kvt_buffer line;
    enum kvt_err rc = KVT_RANGE;

    kvt_buffer_init(&line, LINE_MAX_BYTES);
    kvt_buffer_printf(&line, "{\"key\":");
    kvt_buffer_json_string(&line, item->key);
    kvt_buffer_printf(&line, ",\"tier\":");
    kvt_buffer_json_string(&line, item->tier);
    kvt_buffer_printf(&line, ",\"reason\":");
    kvt_buffer_json_string(&line, item->reason);
    kvt_buffer_printf(&line,
                      ",\"size\":%zu,\"time_ms\":%" PRIu64 ",\"file\":\"%016" PRIx64 ".body\"}",
                      item->size, now_ms, id);
    if (kvt_buffer_ok(&line) && path_of(quarantine, id, "body", path)) {
        rc = kvt_file_write(path, item->body, item->size, 0600, NULL);
        if (rc == KVT_OK && path_of(quarantine, id, "json", path))
            rc = kvt_file_write(path, line.data, line.size, 0600, NULL);
    }
    kvt_buffer_release(&line);
    return rc;
}

enum kvt_err
gateway_quarantine_add(struct gateway_quarantine *quarantine,
                       const struct gateway_quarantine_item *item)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    struct entry entry = {.id = now_ms * 1000, .mark = mark_of(item), .bytes = item->size};
    enum kvt_err rc = KVT_OK;

    if (item->size > GATEWAY_QUARANTINE_BYTES)
        return KVT_RANGE;
    (void)pthread_mutex_lock(&quarantine->shared.lock);
    for (size_t i = 0; i < quarantine->shared.count; i++)
        if (quarantine->shared.entries[i].mark == entry.mark)
            rc = KVT_EXISTS;
    if (rc == KVT_OK) {
        make_room_locked(quarantine, entry.bytes);
        if (quarantine->shared.count > 0 &&
            entry.id <= quarantine->shared.entries[quarantine->shared.count - 1].id)
            entry.id = quarantine->shared.entries[quarantine->shared.count - 1].id + 1;
        rc = write_files(quarantine, item, entry.id, now_ms);
        /* Counted even when half written: then it is dropped in its turn. */
        quarantine->shared.entries[quarantine->shared.count++] = entry;
        quarantine->shared.bytes += entry.bytes;
    }
    (void)pthread_mutex_unlock(&quarantine->shared.lock);
    return rc;
}

void
gateway_quarantine_list(struct gateway_quarantine *quarantine, size_t limit, struct kvt_buffer *out)
{
    char path[PATH_MAX_BYTES];
    const char *comma = "";

    kvt_buffer_printf(out, "[");
    (void)pthread_mutex_lock(&quarantine->shared.lock);
    for (size_t i = quarantine->shared.count; i > 0 && limit > 0; i--, limit--) {
        char *line = NULL;
        size_t size;

        if (!path_of(quarantine, quarantine->shared.entries[i - 1].id, "json", path) ||
            kvt_file_read(&line, &size, path, LINE_MAX_BYTES, NULL) != KVT_OK)
            continue;
        kvt_buffer_printf(out, "%s", comma);
        kvt_buffer_append(out, line, size);
        comma = ",";
        kvt_free(line);
    }
    (void)pthread_mutex_unlock(&quarantine->shared.lock);
    kvt_buffer_printf(out, "]");
}

size_t
gateway_quarantine_count(struct gateway_quarantine *quarantine)
{
    size_t count;

    (void)pthread_mutex_lock(&quarantine->shared.lock);
    count = quarantine->shared.count;
    (void)pthread_mutex_unlock(&quarantine->shared.lock);
    return count;
}
