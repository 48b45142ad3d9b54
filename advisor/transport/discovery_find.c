#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/transport/discovery.h"
#include "base/core/alloc.h"
#include "base/core/file.h"

/* A question needs one record, at the time it is asked: nothing is kept. */

enum { PATH_ROOM = 4096 };

/* Who is looked for. */
struct wanted {
    uint64_t worker;
    uint64_t publisher;
    uint32_t dp_rank;
};

/* Is this the record to ask by?  Releases from 1.4.2 on say it; before, an endpoint of a known name
 * belongs to each rank. */
static bool
answers(const struct advisor_discovery_record *record, const struct wanted *wanted)
{
    char name[64];

    if (record->worker != wanted->worker ||
        (record->target.tcp[0] == '\0' && record->target.nats[0] == '\0'))
        return false;
    if (record->bucket == ADVISOR_DISCOVERY_SOURCES)
        return record->dp_rank == wanted->dp_rank;
    (void)snprintf(name, sizeof(name), "worker_kv_indexer_query_dp%" PRIu32, wanted->dp_rank);
    return strcmp(record->name, name) == 0 ||
           (wanted->dp_rank == 0 && strcmp(record->name, "worker_kv_indexer_query") == 0);
}

/* Does it say that the worker is there?  A channel has the number of the worker, or from 1.4.2 on
 * of the publisher. */
static bool
vouches(const struct advisor_discovery_record *record, const struct wanted *wanted)
{
    if (record->bucket != ADVISOR_DISCOVERY_CHANNELS)
        return record->worker == wanted->worker;
    return record->worker != 0 &&
           (record->worker == wanted->worker || record->worker == wanted->publisher);
}

/* KVT_OK, KVT_AGAIN (only vouched for), KVT_NOTFOUND or KVT_IO. */
static enum kvt_err
find_in(const char *path, enum advisor_discovery_bucket bucket, const struct wanted *wanted,
        struct advisor_discovery_target *target)
{
    DIR *folder = opendir(path);
    enum kvt_err rc = KVT_NOTFOUND;
    struct dirent *file;

    if (folder == NULL)
        return errno == ENOENT ? KVT_NOTFOUND : KVT_IO;
    while (rc != KVT_OK && (file = readdir(folder)) != NULL) {
        struct advisor_discovery_record record;
        char name[PATH_ROOM];
        char *text;
        size_t size;

        if (file->d_name[0] == '.' ||
            snprintf(name, sizeof(name), "%s/%s", path, file->d_name) >= (int)sizeof(name) ||
            kvt_file_read(&text, &size, name, ADVISOR_DISCOVERY_RECORD_MAX, NULL) != KVT_OK)
            continue;
        if (advisor_discovery_read(&record, bucket, text, size, NULL) == KVT_OK) {
            if (answers(&record, wanted)) {
                *target = record.target;
                rc = KVT_OK;
            } else if (vouches(&record, wanted)) {
                rc = KVT_AGAIN;
            }
        }
        kvt_free(text);
    }
    (void)closedir(folder);
    return rc;
}

enum kvt_err
advisor_discovery_find(const char *folder, uint64_t worker, uint32_t dp_rank, uint64_t publisher,
                       struct advisor_discovery_target *target, struct kvt_error *err)
{
    /* Those that say how to ask come first. */
    static const enum advisor_discovery_bucket buckets[] = {
        ADVISOR_DISCOVERY_SOURCES, ADVISOR_DISCOVERY_INSTANCES, ADVISOR_DISCOVERY_CHANNELS};
    const struct wanted wanted = {.worker = worker, .publisher = publisher, .dp_rank = dp_rank};
    bool vouched = false;
    enum kvt_err rc = KVT_NOTFOUND;

    memset(target, 0, sizeof(*target));
    for (size_t i = 0; i < sizeof(buckets) / sizeof(buckets[0]) && rc == KVT_NOTFOUND; i++) {
        char path[PATH_ROOM];

        if (snprintf(path, sizeof(path), "%s/v1/%s", folder,
                     advisor_discovery_folders[buckets[i]]) >= (int)sizeof(path))
            return kvt_error_set(err, KVT_RANGE, "the folder's name is too long");
        rc = find_in(path, buckets[i], &wanted, target);
        vouched = vouched || rc == KVT_AGAIN;
        rc = rc == KVT_AGAIN ? KVT_NOTFOUND : rc;
    }
    if (rc == KVT_NOTFOUND && vouched)
        return kvt_error_set(err, KVT_AGAIN,
                             "worker %" PRIu64 " is in %s, but not how to ask rank %" PRIu32,
                             worker, folder, dp_rank);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "worker %" PRIu64 " rank %" PRIu32 " is not in %s", worker,
                             dp_rank, folder);
    return KVT_OK;
}
