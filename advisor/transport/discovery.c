#include "advisor/transport/discovery.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "advisor/store/number_map.h"
#include "advisor/transport/discovery_record.h"
#include "base/core/alloc.h"
#include "base/core/file.h"

enum { KEY_MAX = ADVISOR_NUMBER_MAP_KEY_MAX, MISSING_SCANS = 2, PATH_ROOM = 4096 };

/* A file that was seen. */
struct entry {
    enum advisor_discovery_bucket bucket;
    size_t key_size;
    struct timespec changed;
    off_t size;
    uint64_t renewed_ms; /* when we saw its time change */
    uint64_t seen;       /* the scan that saw it last */
    uint64_t worker;
    bool live;     /* it says something, and is not stale */
    bool readable; /* what it says was understood at least once */
    bool odd;      /* what it says now is not */
    size_t endpoint_count;
    size_t endpoints_size;
    char *endpoints; /* one behind the other, each with its NUL */
    char key[];      /* the bucket, then the file's name */
};

struct advisor_discovery {
    char *folder;
    char *scope;
    struct advisor_number_map *map; /* key -> place in `entries` */
    struct entry **entries;
    size_t count;
    size_t capacity;
    uint64_t scans;
    size_t odd;
    bool dirty;
    const char **endpoints;
    char *texts; /* that they point into */
    size_t endpoint_count;
    uint64_t *workers; /* sorted */
    size_t worker_count;
    uint64_t *gone;
    size_t gone_count;
};

enum kvt_err
advisor_discovery_new(struct advisor_discovery **out, const char *folder, const char *scope)
{
    struct advisor_discovery *discovery = kvt_calloc(1, sizeof(*discovery));

    *out = NULL;
    if (discovery == NULL)
        return KVT_NOMEM;
    discovery->folder = kvt_strdup(folder);
    discovery->scope = kvt_strdup(scope == NULL ? "" : scope);
    if (discovery->folder == NULL || discovery->scope == NULL ||
        advisor_number_map_new(&discovery->map) != KVT_OK) {
        advisor_discovery_free(discovery);
        return KVT_NOMEM;
    }
    *out = discovery;
    return KVT_OK;
}

static void
free_entry(struct entry *entry)
{
    kvt_free(entry->endpoints);
    kvt_free(entry);
}

void
advisor_discovery_free(struct advisor_discovery *discovery)
{
    if (discovery == NULL)
        return;
    for (size_t i = 0; i < discovery->count; i++)
        free_entry(discovery->entries[i]);
    if (discovery->map != NULL)
        advisor_number_map_free(discovery->map);
    kvt_free(discovery->entries);
    kvt_free(discovery->endpoints);
    kvt_free(discovery->texts);
    kvt_free(discovery->workers);
    kvt_free(discovery->gone);
    kvt_free(discovery->folder);
    kvt_free(discovery->scope);
    kvt_free(discovery);
}

static size_t
make_key(char key[KEY_MAX + 1], enum advisor_discovery_bucket bucket, const char *name)
{
    const size_t size = strlen(name);

    if (size + 1 > KEY_MAX)
        return 0;
    key[0] = (char)('0' + (int)bucket);
    memcpy(key + 1, name, size + 1);
    return size + 1;
}

/* NULL: no memory, or too many. */
static struct entry *
add_entry(struct advisor_discovery *discovery, enum advisor_discovery_bucket bucket,
          const char *key, size_t key_size)
{
    struct entry **entries;
    struct entry *entry;

    if (discovery->count == ADVISOR_DISCOVERY_RECORDS_MAX)
        return NULL;
    entries = kvt_grow(discovery->entries, &discovery->capacity, discovery->count + 1,
                       sizeof(struct entry *));
    if (entries == NULL)
        return NULL;
    discovery->entries = entries;
    entry = kvt_calloc(1, sizeof(*entry) + key_size + 1);
    if (entry == NULL)
        return NULL;
    memcpy(entry->key, key, key_size);
    entry->key_size = key_size;
    entry->bucket = bucket;
    if (advisor_number_map_put(discovery->map, key, key_size, (uint32_t)discovery->count) !=
        KVT_OK) {
        kvt_free(entry);
        return NULL;
    }
    discovery->entries[discovery->count++] = entry;
    return entry;
}

static void
remove_entry(struct advisor_discovery *discovery, size_t at)
{
    struct entry *entry = discovery->entries[at];
    struct entry *last = discovery->entries[--discovery->count];

    advisor_number_map_remove(discovery->map, entry->key, entry->key_size);
    if (last != entry) {
        const enum kvt_err rc =
            advisor_number_map_put(discovery->map, last->key, last->key_size, (uint32_t)at);

        assert(rc == KVT_OK); /* its key is there already: this takes no memory */
        discovery->entries[at] = last;
    }
    free_entry(entry);
    discovery->dirty = true;
}

/* Keep of a record what a watch needs.  KVT_OK or KVT_NOMEM (the entry is unchanged). */
static enum kvt_err
keep(struct advisor_discovery *discovery, struct entry *entry,
     const struct advisor_discovery_record *record)
{
    const bool wanted = strncmp(record->scope, discovery->scope, strlen(discovery->scope)) == 0;
    char *endpoints = NULL;
    size_t used = 0;

    if (wanted && record->endpoint_count > 0) {
        endpoints = kvt_calloc(record->endpoint_count, ADVISOR_ZMQ_ENDPOINT_MAX);
        if (endpoints == NULL)
            return KVT_NOMEM;
        for (size_t i = 0; i < record->endpoint_count; i++) {
            const size_t size = strlen(record->endpoints[i]) + 1;

            memcpy(endpoints + used, record->endpoints[i], size);
            used += size;
        }
    }
    kvt_free(entry->endpoints);
    entry->endpoints = endpoints;
    entry->endpoints_size = used;
    entry->endpoint_count = endpoints == NULL ? 0 : record->endpoint_count;
    entry->worker = record->worker;
    return KVT_OK;
}

/* Read a file that is new or has changed.  What cannot be read leaves the entry what it was. */
static enum kvt_err
reread(struct advisor_discovery *discovery, struct entry *entry, const char *path)
{
    struct advisor_discovery_record record;
    char *text;
    size_t size;
    enum kvt_err rc = kvt_file_read(&text, &size, path, ADVISOR_DISCOVERY_RECORD_MAX, NULL);

    if (rc != KVT_OK)
        return rc;
    rc = advisor_discovery_read(&record, entry->bucket, text, size, NULL);
    kvt_free(text);
    if (rc == KVT_NOTFOUND) {
        entry->readable = false;
        discovery->dirty = true;
        return KVT_OK;
    }
    if (rc == KVT_OK)
        rc = keep(discovery, entry, &record);
    if (rc == KVT_OK) {
        entry->readable = true;
        discovery->dirty = true;
    }
    return rc;
}

static enum kvt_err
see_file(struct advisor_discovery *discovery, enum advisor_discovery_bucket bucket, int folder,
         const char *folder_path, const char *name, uint64_t now_ms)
{
    char key[KEY_MAX + 1];
    char path[PATH_ROOM];
    const size_t key_size = make_key(key, bucket, name);
    struct entry *entry;
    struct stat stat;
    uint32_t at;
    bool changed;

    if (key_size == 0 || fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(stat.st_mode) ||
        snprintf(path, sizeof(path), "%s/%s", folder_path, name) >= (int)sizeof(path)) {
        discovery->odd++;
        return KVT_OK;
    }
    if (advisor_number_map_get(discovery->map, key, key_size, &at)) {
        entry = discovery->entries[at];
    } else {
        if (discovery->count == ADVISOR_DISCOVERY_RECORDS_MAX) {
            discovery->odd++;
            return KVT_OK;
        }
        entry = add_entry(discovery, bucket, key, key_size);
        if (entry == NULL)
            return KVT_NOMEM;
    }
    changed = entry->seen == 0 || stat.st_mtim.tv_sec != entry->changed.tv_sec ||
              stat.st_mtim.tv_nsec != entry->changed.tv_nsec || stat.st_size != entry->size;
    entry->seen = discovery->scans;
    if (changed) {
        const enum kvt_err rc = reread(discovery, entry, path);

        if (rc == KVT_NOMEM)
            return rc;
        entry->changed = stat.st_mtim;
        entry->size = stat.st_size;
        entry->renewed_ms = now_ms;
        entry->odd = rc != KVT_OK;
    }
    discovery->odd += entry->odd ? 1 : 0;
    return KVT_OK;
}

/* `whole`: all of it was looked at, so that what was not seen is missing. */
static enum kvt_err
scan_bucket(struct advisor_discovery *discovery, enum advisor_discovery_bucket bucket,
            uint64_t now_ms, bool *whole, struct kvt_error *err)
{
    char path[PATH_ROOM];
    enum kvt_err rc = KVT_OK;
    struct dirent *file;
    DIR *folder;

    *whole = false;
    if (snprintf(path, sizeof(path), "%s/v1/%s", discovery->folder,
                 advisor_discovery_folders[bucket]) >= (int)sizeof(path))
        return kvt_error_set(err, KVT_RANGE, "the folder's name is too long");
    folder = opendir(path);
    if (folder == NULL)
        return errno == ENOENT ? KVT_NOTFOUND : kvt_error_sys(err, errno, "%s", path);
    errno = 0;
    while (rc == KVT_OK && (file = readdir(folder)) != NULL) {
        if (file->d_name[0] != '.')
            rc = see_file(discovery, bucket, dirfd(folder), path, file->d_name, now_ms);
        errno = 0;
    }
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "out of memory");
    else if (errno != 0)
        rc = kvt_error_sys(err, errno, "%s", path);
    *whole = rc == KVT_OK;
    (void)closedir(folder);
    return rc;
}

/* What is missing or stale is no more. */
static void
age(struct advisor_discovery *discovery, const bool whole[ADVISOR_DISCOVERY_BUCKETS],
    uint64_t now_ms)
{
    for (size_t at = 0; at < discovery->count;) {
        struct entry *entry = discovery->entries[at];
        const bool live =
            entry->readable && now_ms - entry->renewed_ms < ADVISOR_DISCOVERY_STALE_MS;

        if (whole[entry->bucket] && discovery->scans - entry->seen >= MISSING_SCANS) {
            remove_entry(discovery, at);
            continue;
        }
        discovery->dirty = discovery->dirty || live != entry->live;
        entry->live = live;
        at++;
    }
}

static int
compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int
compare_workers(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static size_t
list_endpoints(const struct advisor_discovery *discovery, const char **endpoints, char *texts)
{
    size_t count = 0;
    size_t unique = 0;

    for (size_t i = 0; i < discovery->count; i++) {
        const struct entry *entry = discovery->entries[i];

        if (!entry->live || entry->endpoint_count == 0)
            continue;
        memcpy(texts, entry->endpoints, entry->endpoints_size);
        for (size_t k = 0; k < entry->endpoint_count; k++) {
            endpoints[count++] = texts;
            texts += strlen(texts) + 1;
        }
    }
    qsort(endpoints, count, sizeof(*endpoints), compare_texts);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || strcmp(endpoints[unique - 1], endpoints[i]) != 0)
            endpoints[unique++] = endpoints[i];
    return unique;
}

static size_t
list_workers(const struct advisor_discovery *discovery, uint64_t *workers)
{
    size_t count = 0;
    size_t unique = 0;

    for (size_t i = 0; i < discovery->count; i++) {
        const struct entry *entry = discovery->entries[i];

        if (entry->live && entry->bucket != ADVISOR_DISCOVERY_CHANNELS)
            workers[count++] = entry->worker;
    }
    qsort(workers, count, sizeof(*workers), compare_workers);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || workers[unique - 1] != workers[i])
            workers[unique++] = workers[i];
    return unique;
}

/* Who was there and is not. */
static void
note_gone(struct advisor_discovery *discovery, uint64_t *gone, const uint64_t *workers,
          size_t count)
{
    for (size_t i = 0; i < discovery->worker_count; i++)
        if (bsearch(&discovery->workers[i], workers, count, sizeof(*workers), compare_workers) ==
            NULL)
            gone[discovery->gone_count++] = discovery->workers[i];
}

/* KVT_OK or KVT_NOMEM: the lists are what they were, and are made the next time. */
static enum kvt_err
make_lists(struct advisor_discovery *discovery)
{
    size_t endpoints_max = 1;
    size_t texts_size = 1;
    const char **endpoints;
    char *texts;
    uint64_t *workers;
    uint64_t *gone;
    size_t count;

    for (size_t i = 0; i < discovery->count; i++) {
        endpoints_max += discovery->entries[i]->endpoint_count;
        texts_size += discovery->entries[i]->endpoints_size;
    }
    endpoints = kvt_calloc(endpoints_max, sizeof(*endpoints));
    texts = kvt_calloc(texts_size, 1);
    workers = kvt_calloc(discovery->count + 1, sizeof(*workers));
    gone = kvt_calloc(discovery->worker_count + 1, sizeof(*gone));
    if (endpoints == NULL || texts == NULL || workers == NULL || gone == NULL) {
        kvt_free(endpoints);
        kvt_free(texts);
        kvt_free(workers);
        kvt_free(gone);
        return KVT_NOMEM;
    }
    count = list_workers(discovery, workers);
    note_gone(discovery, gone, workers, count);
    kvt_free(discovery->gone);
    kvt_free(discovery->workers);
    kvt_free(discovery->endpoints);
    kvt_free(discovery->texts);
    discovery->gone = gone;
    discovery->workers = workers;
    discovery->worker_count = count;
    discovery->texts = texts;
    discovery->endpoints = endpoints;
    discovery->endpoint_count = list_endpoints(discovery, endpoints, texts);
    discovery->dirty = false;
    return KVT_OK;
}

enum kvt_err
advisor_discovery_scan(struct advisor_discovery *discovery, uint64_t now_ms, struct kvt_error *err)
{
    bool whole[ADVISOR_DISCOVERY_BUCKETS] = {false};
    enum kvt_err rc = KVT_OK;
    size_t missing = 0;

    discovery->scans++;
    discovery->odd = 0;
    discovery->gone_count = 0;
    for (int bucket = 0; bucket < ADVISOR_DISCOVERY_BUCKETS && rc == KVT_OK; bucket++) {
        rc = scan_bucket(discovery, (enum advisor_discovery_bucket)bucket, now_ms, &whole[bucket],
                         err);
        if (rc == KVT_NOTFOUND) {
            missing++;
            rc = KVT_OK;
        }
    }
    if (rc == KVT_OK && missing == ADVISOR_DISCOVERY_BUCKETS)
        rc = kvt_error_set(err, KVT_NOTFOUND, "no records in %s", discovery->folder);
    if (rc != KVT_OK)
        return rc;
    age(discovery, whole, now_ms);
    if (discovery->dirty && make_lists(discovery) != KVT_OK)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    return KVT_OK;
}

const char *const *
advisor_discovery_endpoints(const struct advisor_discovery *discovery, size_t *count)
{
    *count = discovery->endpoint_count;
    return discovery->endpoints;
}

const uint64_t *
advisor_discovery_gone(const struct advisor_discovery *discovery, size_t *count)
{
    *count = discovery->gone_count;
    return discovery->gone;
}

size_t
advisor_discovery_workers(const struct advisor_discovery *discovery)
{
    return discovery->worker_count;
}

size_t
advisor_discovery_odd(const struct advisor_discovery *discovery)
{
    return discovery->odd;
}
