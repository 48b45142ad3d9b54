#include "gateway/block/unsynced.h"

#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "g4/directory/directory.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/key_lock.h"

enum {
    PAGE = G4_SYNC_KEYS_MAX,
    BATCH_BYTES = 32 << 20, /* of files that are synced together: a disk's fraction of a second */
};

bool
gateway_unsynced_room(const struct gateway_catalog_stats *stats, uint64_t blocks, uint64_t bytes)
{
    return bytes <= GATEWAY_UNSYNCED_MAX && stats->unsynced_bytes <= GATEWAY_UNSYNCED_MAX - bytes &&
           blocks <= GATEWAY_UNSYNCED_BLOCKS &&
           stats->unsynced_blocks <= GATEWAY_UNSYNCED_BLOCKS - blocks;
}

bool
gateway_unsynced_many(const struct gateway_catalog_stats *stats)
{
    return stats->unsynced_bytes >= GATEWAY_UNSYNCED_MAX / 2 ||
           stats->unsynced_blocks >= GATEWAY_UNSYNCED_BLOCKS / 2;
}

/* How many from the first on are synced together. */
static size_t
batch_of(const struct gateway_unsynced_row *rows, size_t count)
{
    uint64_t bytes = 0;
    size_t taken = 0;

    while (taken < count && (taken == 0 || bytes + rows[taken].length <= BATCH_BYTES))
        bytes += rows[taken++].length;
    return taken;
}

enum kvt_err
gateway_unsynced_renew(struct gateway_context *context, const char *key,
                       const struct gateway_record *record)
{
    struct g4_request put = {.verb = G4_PUT, .key = key};
    struct g4_request found;
    enum kvt_err rc;

    rc = gateway_body_hot_shows(context->tiers.hot, key, record);
    if (rc != KVT_OK)
        return rc;
    rc = gateway_body_read_block(&context->body_limits, context->tiers.hot, key, record, &found);
    if (rc == KVT_OK) {
        put.body = found.buffer;
        put.body_size = found.buffer_size;
        put.meta = found.meta;
        if (g4_store_perform(context->tiers.hot, &put) != KVT_OK) {
            kvt_log_warn("gateway.unsynced", "renew", "hot volume: %s", put.error.text);
            rc = KVT_IO; /* whatever it was, the copy that was read is sound */
        }
    }
    gateway_body_release(&context->body_limits, &found);
    return rc;
}

/* The hot copy is not to be relied on: the bucket serves. */
static enum kvt_err
drop(struct gateway_context *context, const char *key, const struct gateway_record *record)
{
    struct gateway_change change = {.key = key, .record = *record};
    struct g4_request request = {.verb = G4_DELETE, .key = key};
    enum kvt_err rc;

    change.record.tiers &= ~GATEWAY_HOT;
    rc = gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED);
    /* Without its row it is an orphan, and harmless; without the file its row is. */
    if (g4_store_perform(context->tiers.hot, &request) != KVT_OK && request.status != KVT_NOTFOUND)
        kvt_log_warn("gateway.unsynced", "bad_file_stays", "hot volume: %s", request.error.text);
    return rc;
}

/* The disk failed to write the copy, and will not say so again.  An intent's copy is written anew
 * by whoever settles it. */
static enum kvt_err
replace(struct gateway_context *context, const char *key)
{
    struct gateway_record record;
    struct gateway_key_lock hold;
    enum kvt_err rc;

    gateway_key_lock_init(&hold, key);
    gateway_key_lock_acquire(context->key_locks, &hold, 1);
    rc = gateway_catalog_get(context->catalog, key, &record);
    if (rc == KVT_OK && record.state == GATEWAY_STORED && (record.tiers & GATEWAY_HOT) != 0)
        rc = gateway_record_in_bucket(&record) ? drop(context, key, &record)
                                               : gateway_unsynced_renew(context, key, &record);
    gateway_key_lock_release(context->key_locks, &hold, 1);
    return rc;
}

/* Files first: a note goes when nothing is left of what it says. */
static enum kvt_err
sync_batch(struct gateway_context *context, const struct gateway_unsynced_row *rows, size_t count)
{
    const char *keys[PAGE] = {NULL};
    struct kvt_error err;
    bool refused[PAGE];
    enum kvt_err rc;

    for (size_t i = 0; i < count; i++)
        keys[i] = rows[i].key;
    rc = g4_directory_sync(context->tiers.hot, keys, count, refused, &err);
    if (rc == KVT_OK)
        return gateway_catalog_synced(context->catalog, rows, count);
    kvt_log_warn("gateway.unsynced", "sync", "hot volume: %s", err.text);
    for (size_t i = 0; i < count; i++)
        if (refused[i] && replace(context, keys[i]) != KVT_OK)
            kvt_log_error("gateway.unsynced", "replace",
                          "%s: its hot copy was not written, and stays", keys[i]);
    return rc;
}

/* Once around, from where the last call ended: a batch that fails does not keep those behind it. */
enum kvt_err
gateway_unsynced_sync(struct gateway_context *context, char after[KVT_KEY_MAX],
                      uint64_t patience_ms)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + patience_ms;
    struct gateway_unsynced_row *rows;
    bool around = after[0] == '\0';
    enum kvt_err result = KVT_OK;
    enum kvt_err rc = KVT_OK;
    size_t count = 0;

    if (context->tiers.hot == NULL)
        return KVT_OK;
    rows = kvt_calloc(PAGE, sizeof(*rows));
    if (rows == NULL)
        return KVT_NOMEM;
    do {
        rc = gateway_catalog_unsynced(context->catalog, after, rows, PAGE, &count);
        if (rc == KVT_OK && count > 0) {
            count = batch_of(rows, count);
            memcpy(after, rows[count - 1].key, KVT_KEY_MAX);
            rc = sync_batch(context, rows, count);
        } else {
            after[0] = '\0';
            if (around || rc != KVT_OK)
                break;
            around = true;
        }
        result = rc != KVT_OK ? rc : result;
    } while (kvt_clock_mono_ms() < end_ms);
    kvt_free(rows);
    return rc != KVT_OK ? rc : result;
}

/* A copy that is not what its row says goes.  What has no other copy is left to its readers, who
 * tell of it as of any damage. */
static enum kvt_err
check(struct gateway_context *context, const char *key, uint64_t *dropped)
{
    struct gateway_record record;
    struct g4_request request;
    enum kvt_err rc = gateway_catalog_get(context->catalog, key, &record);

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    if (!gateway_record_in_bucket(&record) || (record.tiers & GATEWAY_HOT) == 0)
        return KVT_OK;
    rc = gateway_body_read_block(&context->body_limits, context->tiers.hot, key, &record, &request);
    gateway_body_release(&context->body_limits, &request);
    if (rc != KVT_CORRUPT && rc != KVT_NOTFOUND)
        return KVT_OK; /* sound, or nobody can tell now: readers check it too */
    rc = drop(context, key, &record);
    *dropped += rc == KVT_OK ? 1 : 0;
    return rc;
}

enum kvt_err
gateway_unsynced_check(struct gateway_context *context, uint64_t *dropped)
{
    struct gateway_unsynced_row *rows;
    char after[KVT_KEY_MAX] = "";
    enum kvt_err rc;
    size_t count;

    *dropped = 0;
    if (context->tiers.hot == NULL)
        return KVT_OK;
    rows = kvt_calloc(PAGE, sizeof(*rows));
    if (rows == NULL)
        return KVT_NOMEM;
    do {
        rc = gateway_catalog_unsynced(context->catalog, after, rows, PAGE, &count);
        for (size_t i = 0; rc == KVT_OK && i < count; i++)
            rc = check(context, rows[i].key, dropped);
        if (count > 0)
            memcpy(after, rows[count - 1].key, sizeof(after));
    } while (rc == KVT_OK && count > 0);
    kvt_free(rows);
    if (*dropped > 0)
        kvt_log_info("gateway.unsynced", "dropped",
                     "%" PRIu64
                     " hot copies were not whole when the power went: the bucket has them",
                     *dropped);
    return rc;
}
