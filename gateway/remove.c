#include "gateway/remove.h"

#include "base/alloc.h"
#include "g4/commit.h"

/* KVT_OK also when nothing was there. */
static enum kvt_err
delete_copy(struct g4_store *store, const char *key)
{
    struct g4_request request = {.verb = G4_DELETE, .key = key};
    const enum kvt_err rc = g4_store_perform(store, &request);

    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

static enum kvt_err
delete_cold(struct gateway_vault *vault, const char *key)
{
    if (!gateway_cold_healthy(vault->cold))
        return KVT_UNAVAILABLE;
    return gateway_cold_ended(vault->cold, delete_copy(gateway_cold_store(vault->cold), key));
}

static enum kvt_err
mark_held(struct gateway_vault *vault, const char *const *keys, size_t count)
{
    struct gateway_change *changes = kvt_calloc(count, sizeof(*changes));
    size_t used = 0;
    size_t waiting = 0;
    enum kvt_err rc;

    if (changes == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < count; i++) {
        struct gateway_change *change = &changes[used];

        if (gateway_catalog_get(vault->catalog, keys[i], &change->record) != KVT_OK ||
            change->record.state == GATEWAY_RETIRING)
            continue;
        change->key = keys[i];
        waiting += gateway_record_waits(&change->record) ? 1 : 0;
        change->record.state = GATEWAY_RETIRING;
        change->record.owed = false; /* perhaps the bucket has it: it is removed from there too */
        used++;
    }
    rc = gateway_catalog_change(vault->catalog, changes, used, GATEWAY_DURABLE);
    if (rc == KVT_OK)
        gateway_stats_add(vault->stats, GATEWAY_STAT_BACKLOG_REMOVED, waiting);
    kvt_free(changes);
    return rc;
}

enum kvt_err
gateway_remove_mark(struct gateway_vault *vault, const char *const *keys, size_t count)
{
    struct gateway_hold *holds;
    enum kvt_err rc;

    if (count == 0)
        return KVT_OK;
    holds = kvt_calloc(count, sizeof(*holds));
    if (holds == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < count; i++)
        gateway_hold_init(&holds[i], keys[i]);
    gateway_hold_acquire(vault->holds, holds, count);
    rc = mark_held(vault, keys, count);
    gateway_hold_release(vault->holds, holds, count);
    kvt_free(holds);
    return rc;
}

static enum kvt_err
finish_held(struct gateway_vault *vault, const char *key, uint64_t *bytes)
{
    struct gateway_change change = {.key = key, .erase = true};
    struct gateway_record record;
    enum kvt_err rc;

    rc = gateway_catalog_get(vault->catalog, key, &record);
    if (rc != KVT_OK || record.state != GATEWAY_RETIRING)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    rc = gateway_remove_record(vault, key);
    if (rc == KVT_OK)
        rc = delete_cold(vault, key);
    if (rc != KVT_OK)
        return rc;
    if (vault->hot != NULL && !record.opaque)
        rc = delete_copy(vault->hot, key);
    if (rc != KVT_OK)
        return rc;
    rc = gateway_catalog_change(vault->catalog, &change, 1, GATEWAY_APPLIED);
    if (rc == KVT_OK && bytes != NULL)
        *bytes = record.length;
    return rc;
}

enum kvt_err
gateway_remove_finish(struct gateway_vault *vault, const char *key, uint64_t *bytes)
{
    struct gateway_hold hold;
    enum kvt_err rc;

    if (bytes != NULL)
        *bytes = 0;
    gateway_hold_init(&hold, key);
    gateway_hold_acquire(vault->holds, &hold, 1);
    rc = finish_held(vault, key, bytes);
    gateway_hold_release(vault->holds, &hold, 1);
    return rc;
}

enum kvt_err
gateway_remove(struct gateway_vault *vault, const char *key)
{
    struct gateway_record record;
    struct gateway_hold hold;
    enum kvt_err rc;

    if (!gateway_cold_healthy(vault->cold))
        return KVT_UNAVAILABLE;
    gateway_hold_init(&hold, key);
    gateway_hold_acquire(vault->holds, &hold, 1);
    rc = gateway_catalog_get(vault->catalog, key, &record);
    if (rc == KVT_NOTFOUND) {
        rc = gateway_remove_record(vault, key);
        if (rc == KVT_OK)
            rc = delete_cold(vault, key);
    } else if (rc == KVT_OK) {
        rc = mark_held(vault, &key, 1);
        if (rc == KVT_OK)
            rc = finish_held(vault, key, NULL);
    }
    gateway_hold_release(vault->holds, &hold, 1);
    return rc;
}

/* Whoever writes a record holds its key while he looks at the ranks; the caller's is marked, or
 * held.  So a record is written before it is removed here, or not at all. */
enum kvt_err
gateway_remove_record(struct gateway_vault *vault, const char *key)
{
    char record[KVT_KEY_MAX];

    return g4_commit_key(key, record) ? gateway_remove(vault, record) : KVT_OK;
}
