#include "gateway/tier/quarantine.h"

#include <assert.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/text/hex.h"
#include "base/text/json.h"

enum { PATH_MAX_BYTES = 4096, LINE_MAX_BYTES = 8192, FOUND_MAX = 4096 };

struct entry {
    uint64_t id;   /* microseconds of its making, made unique */
    uint64_t mark; /* of key, tier and body: what "the same damage" means; 0 = before this start */
    uint64_t bytes;
    bool writing; /* its files are being made: neither listed nor dropped */
};

struct gateway_quarantine {
    char *folder;
    size_t entries_max;

    struct {
        pthread_mutex_t lock;  /* guards this struct; files are touched without it */
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
remove_files(const struct gateway_quarantine *quarantine, uint64_t id)
{
    char path[PATH_MAX_BYTES];

    if (path_of(quarantine, id, "body", path))
        (void)unlink(path);
    if (path_of(quarantine, id, "json", path))
        (void)unlink(path);
}

static void
take_out_locked(struct gateway_quarantine *quarantine, size_t index)
{
    struct entry *entry = &quarantine->shared.entries[index];

    quarantine->shared.bytes -= entry->bytes;
    quarantine->shared.count--;
    memmove(entry, entry + 1, (quarantine->shared.count - index) * sizeof(*entry));
}

/* Drop the oldest while there is more than may be kept. */
static void
make_room(struct gateway_quarantine *quarantine)
{
    bool more = true;

    while (more) {
        uint64_t id = 0;

        more = false;
        (void)pthread_mutex_lock(&quarantine->shared.lock);
        if (quarantine->shared.count > quarantine->entries_max ||
            quarantine->shared.bytes > GATEWAY_QUARANTINE_BYTES) {
            for (size_t i = 0; i < quarantine->shared.count && !more; i++) {
                if (quarantine->shared.entries[i].writing)
                    continue;
                id = quarantine->shared.entries[i].id;
                take_out_locked(quarantine, i);
                more = true;
            }
        }
        (void)pthread_mutex_unlock(&quarantine->shared.lock);
        if (more)
            remove_files(quarantine, id);
    }
}

static int
compare_entries(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;

    return a->id < b->id ? -1 : a->id > b->id;
}

/* Look at one file an earlier life left: a body with its line is an entry, anything else named like
 * one is half of it, and goes. */
static void
load_file(struct gateway_quarantine *quarantine, const char *name)
{
    struct entry *entry = &quarantine->shared.entries[quarantine->shared.count];
    char *end = NULL;
    const uint64_t id = strtoull(name, &end, 16);
    char path[PATH_MAX_BYTES];
    struct stat body;
    struct stat line;

    if (end != name + 16 || (strncmp(end, ".body", strlen(".body")) != 0 &&
                             strncmp(end, ".json", strlen(".json")) != 0))
        return;
    if (strcmp(end, ".body") != 0 && strcmp(end, ".json") != 0) {
        const int size = snprintf(path, sizeof(path), "%s/%s", quarantine->folder, name);

        if (size > 0 && (size_t)size < sizeof(path)) /* a file on its way to its name */
            (void)unlink(path);
        return;
    }
    if (!path_of(quarantine, id, "json", path) || stat(path, &line) != 0 ||
        !path_of(quarantine, id, "body", path) || stat(path, &body) != 0) {
        remove_files(quarantine, id);
        return;
    }
    if (strcmp(end, ".json") == 0)
        return;
    *entry = (struct entry){.id = id, .bytes = (uint64_t)body.st_size};
    quarantine->shared.bytes += entry->bytes;
    quarantine->shared.count++;
}

static enum kvt_err
load(struct gateway_quarantine *quarantine, struct kvt_error *err)
{
    struct dirent *item;
    DIR *folder = opendir(quarantine->folder);

    if (folder == NULL)
        return kvt_error_sys(err, errno, "open %s", quarantine->folder);
    while (quarantine->shared.count < FOUND_MAX && (item = readdir(folder)) != NULL)
        load_file(quarantine, item->d_name);
    (void)closedir(folder);
    qsort(quarantine->shared.entries, quarantine->shared.count, sizeof(struct entry),
          compare_entries);
    make_room(quarantine);
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
    if (item->expected != NULL) {
        kvt_buffer_printf(&line,
                          ",\"expected\":{\"length\":%" PRIu64 ",\"crc32c\":\"%08" PRIx32
                          "\",\"fingerprint\":\"%016" PRIx64 "\"}",
                          item->expected->length, item->expected->crc32c,
                          item->expected->fingerprint);
    }
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

/* Take a place, so that the same damage found meanwhile is known.  Sets the entry's id. */
static enum kvt_err
enter(struct gateway_quarantine *quarantine, struct entry *entry)
{
    enum kvt_err rc = KVT_OK;
    size_t count;

    (void)pthread_mutex_lock(&quarantine->shared.lock);
    count = quarantine->shared.count;
    for (size_t i = 0; i < count; i++)
        if (quarantine->shared.entries[i].mark == entry->mark)
            rc = KVT_EXISTS;
    if (rc == KVT_OK && count == FOUND_MAX)
        rc = KVT_AGAIN;
    if (rc == KVT_OK) {
        if (count > 0 && entry->id <= quarantine->shared.entries[count - 1].id)
            entry->id = quarantine->shared.entries[count - 1].id + 1;
        quarantine->shared.entries[quarantine->shared.count++] = *entry;
        quarantine->shared.bytes += entry->bytes;
    }
    (void)pthread_mutex_unlock(&quarantine->shared.lock);
    return rc;
}

/* The files are there, or the place is given back. */
static void
leave(struct gateway_quarantine *quarantine, uint64_t id, bool kept)
{
    size_t i = 0;

    (void)pthread_mutex_lock(&quarantine->shared.lock);
    while (i < quarantine->shared.count && quarantine->shared.entries[i].id != id)
        i++;
    assert(i < quarantine->shared.count); /* nobody drops what is being written */
    quarantine->shared.entries[i].writing = false;
    if (!kept)
        take_out_locked(quarantine, i);
    (void)pthread_mutex_unlock(&quarantine->shared.lock);
}

enum kvt_err
gateway_quarantine_add(struct gateway_quarantine *quarantine,
                       const struct gateway_quarantine_item *item)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    struct entry entry = {
        .id = now_ms * 1000, .mark = mark_of(item), .bytes = item->size, .writing = true};
    enum kvt_err rc;

    if (item->size > GATEWAY_QUARANTINE_BYTES)
        return KVT_RANGE;
    rc = enter(quarantine, &entry);
    if (rc != KVT_OK)
        return rc;
    make_room(quarantine);
    rc = write_files(quarantine, item, entry.id, now_ms);
    if (rc != KVT_OK)
        remove_files(quarantine, entry.id);
    leave(quarantine, entry.id, rc == KVT_OK);
    make_room(quarantine); /* others may have found nothing that could be dropped */
    return rc;
}

/* ---- one entry ---- */

/* What its line says of it. */
static enum kvt_err
read_line(const struct gateway_quarantine *quarantine, uint64_t id,
          struct gateway_quarantine_entry *entry)
{
    struct json_object *object = NULL;
    struct json_object *expected;
    char path[PATH_MAX_BYTES];
    char *line = NULL;
    const char *text;
    uint32_t crc32c;
    enum kvt_err rc;
    size_t size;

    if (!path_of(quarantine, id, "json", path))
        return KVT_RANGE;
    rc = kvt_file_read(&line, &size, path, LINE_MAX_BYTES, NULL);
    if (rc == KVT_OK)
        rc = kvt_json_parse(&object, line, size, path, NULL);
    text = rc == KVT_OK ? kvt_json_string(object, "key") : NULL;
    if (text != NULL && strlen(text) < sizeof(entry->key))
        memcpy(entry->key, text, strlen(text) + 1);
    else if (rc == KVT_OK)
        rc = KVT_CORRUPT;
    expected = rc == KVT_OK ? kvt_json_member(object, "expected") : NULL;
    text = expected == NULL ? NULL : kvt_json_string(expected, "crc32c");
    if (text != NULL && kvt_json_u64(expected, "length", &entry->expected.length) &&
        kvt_json_hash(expected, "fingerprint", &entry->expected.fingerprint) &&
        strlen(text) == 2 * sizeof(crc32c) && kvt_hex_parse(text, sizeof(crc32c), &crc32c)) {
        entry->expected.crc32c = be32toh(crc32c);
        entry->expected.present = true;
    }
    (void)json_object_put(object);
    kvt_free(line);
    return rc;
}

enum kvt_err
gateway_quarantine_read(struct gateway_quarantine *quarantine, uint64_t id, size_t size_max,
                        struct gateway_quarantine_entry *entry)
{
    char path[PATH_MAX_BYTES];
    enum kvt_err rc;

    *entry = (struct gateway_quarantine_entry){.body = NULL};
    rc = read_line(quarantine, id, entry);
    if (rc == KVT_OK && !path_of(quarantine, id, "body", path))
        rc = KVT_RANGE;
    if (rc == KVT_OK)
        rc = kvt_file_read(&entry->body, &entry->size, path, size_max, NULL);
    return rc;
}

enum kvt_err
gateway_quarantine_drop(struct gateway_quarantine *quarantine, uint64_t id)
{
    enum kvt_err rc = KVT_NOTFOUND;

    (void)pthread_mutex_lock(&quarantine->shared.lock);
    for (size_t i = 0; i < quarantine->shared.count; i++) {
        if (quarantine->shared.entries[i].id != id)
            continue;
        rc = quarantine->shared.entries[i].writing ? KVT_BUSY : KVT_OK;
        if (rc == KVT_OK)
            take_out_locked(quarantine, i);
        break;
    }
    (void)pthread_mutex_unlock(&quarantine->shared.lock);
    if (rc == KVT_OK)
        remove_files(quarantine, id);
    return rc;
}

/* ---- all of them ---- */

/* Newest first, at most `limit`; how many. */
static size_t
newest(struct gateway_quarantine *quarantine, uint64_t *ids, size_t limit)
{
    size_t used = 0;

    (void)pthread_mutex_lock(&quarantine->shared.lock);
    for (size_t i = quarantine->shared.count; i > 0 && used < limit; i--)
        if (!quarantine->shared.entries[i - 1].writing)
            ids[used++] = quarantine->shared.entries[i - 1].id;
    (void)pthread_mutex_unlock(&quarantine->shared.lock);
    return used;
}

void
gateway_quarantine_list(struct gateway_quarantine *quarantine, size_t limit, struct kvt_buffer *out)
{
    const size_t room = limit < FOUND_MAX ? limit : FOUND_MAX;
    uint64_t *ids = room == 0 ? NULL : kvt_calloc(room, sizeof(*ids));
    const size_t count = ids == NULL ? 0 : newest(quarantine, ids, room);
    char path[PATH_MAX_BYTES];
    const char *comma = "";

    kvt_buffer_printf(out, "[");
    for (size_t i = 0; i < count; i++) {
        char *line = NULL;
        size_t size;

        if (!path_of(quarantine, ids[i], "json", path) ||
            kvt_file_read(&line, &size, path, LINE_MAX_BYTES, NULL) != KVT_OK)
            continue; /* dropped meanwhile */
        kvt_buffer_printf(out, "%s", comma);
        kvt_buffer_append(out, line, size);
        comma = ",";
        kvt_free(line);
    }
    kvt_free(ids);
    kvt_buffer_printf(out, "]");
}

enum kvt_err
gateway_quarantine_find(struct gateway_quarantine *quarantine, const char *prefix, uint64_t *ids,
                        size_t capacity, size_t *count)
{
    uint64_t *all = kvt_calloc(FOUND_MAX, sizeof(*all));
    struct gateway_quarantine_entry entry;
    enum kvt_err rc = KVT_OK;
    size_t found;

    *count = 0;
    if (all == NULL)
        return KVT_NOMEM;
    found = newest(quarantine, all, FOUND_MAX);
    while (found > 0 && *count < capacity && rc == KVT_OK) {
        entry = (struct gateway_quarantine_entry){.body = NULL};
        rc = read_line(quarantine, all[--found], &entry);
        if (rc == KVT_OK && strncmp(entry.key, prefix, strlen(prefix)) == 0)
            ids[(*count)++] = all[found];
        if (rc == KVT_NOTFOUND) /* dropped meanwhile */
            rc = KVT_OK;
    }
    kvt_free(all);
    return rc;
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
