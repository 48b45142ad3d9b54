#include "gateway/move.h"

#include <string.h>

#include "base/alloc.h"
#include "g4/check.h"
#include "gateway/fault.h"

struct copy {
    struct g4_request request;
    char reason[KVT_ERROR_TEXT_MAX];
};

/* Read one copy and check it against the row.  OK, CORRUPT (reason set), NOTFOUND, or no answer
 * (KVT_AGAIN: no memory for it now). */
static enum kvt_err
read_copy(struct gateway_vault *vault, struct g4_store *store, const char *key,
          const struct gateway_record *record, struct copy *copy)
{
    struct kvt_error err = {.code = KVT_OK};
    struct g4_meta expected;
    enum kvt_err rc;

    *copy = (struct copy){0};
    rc = gateway_vault_read(vault, store, key, record->length, &copy->request);
    err = copy->request.error;
    if (rc == KVT_OK) {
        gateway_record_meta(record, &expected);
        rc = g4_check_body(&copy->request.meta, &expected, copy->request.buffer,
                           copy->request.buffer_size, &err);
    }
    if (rc == KVT_RANGE)
        rc = KVT_CORRUPT;
    memcpy(copy->reason, err.text, sizeof(copy->reason));
    return rc;
}

static void
release_copy(struct gateway_vault *vault, struct copy *copy)
{
    gateway_vault_release(vault, &copy->request);
}

/* Write the checked hot bytes into the bucket: where nothing is, or over exactly the bad object. */
static enum kvt_err
write_cold(struct gateway_vault *vault, const char *key, struct gateway_record *record,
           const struct copy *hot, const char *bad_etag)
{
    struct g4_request request = {.verb = G4_PUT,
                                 .key = key,
                                 .condition = bad_etag == NULL ? G4_IF_ABSENT : G4_IF_MATCH,
                                 .body = hot->request.buffer,
                                 .body_size = hot->request.buffer_size};
    enum kvt_err rc;

    gateway_record_meta(record, &request.meta);
    if (bad_etag != NULL)
        memcpy(request.etag, bad_etag, sizeof(request.etag));
    rc = g4_store_perform(gateway_cold_store(vault->cold), &request);
    if (rc == KVT_OK) {
        memcpy(record->etag, request.etag, sizeof(record->etag));
        gateway_stats_add(vault->stats, GATEWAY_STAT_BYTES_MOVED, record->length);
    }
    return rc == KVT_EXISTS || rc == KVT_PRECONDITION ? KVT_AGAIN : rc;
}

/* The bucket's copy, verified by reading it; made from the hot one when it is bad or absent. */
static enum kvt_err
ensure_cold(struct gateway_vault *vault, const char *key, struct gateway_record *record)
{
    struct g4_store *store = gateway_cold_store(vault->cold);
    struct copy cold;
    struct copy hot;
    enum kvt_err hot_rc;
    enum kvt_err rc;

    rc = read_copy(vault, store, key, record, &cold);
    if (rc == KVT_OK)
        memcpy(record->etag, cold.request.etag, sizeof(record->etag));
    if (rc != KVT_CORRUPT && rc != KVT_NOTFOUND)
        goto done;
    if (rc == KVT_CORRUPT && !gateway_fault_is_tombstone(&cold.request))
        gateway_fault_keep(vault, key, 1, cold.request.buffer, cold.request.buffer_size,
                           cold.reason);
    hot_rc = read_copy(vault, vault->hot, key, record, &hot);
    if (hot_rc == KVT_AGAIN)
        rc = KVT_AGAIN;
    if (hot_rc == KVT_OK) {
        rc = write_cold(vault, key, record, &hot, rc == KVT_CORRUPT ? cold.request.etag : NULL);
        release_copy(vault, &cold);
        if (rc == KVT_OK)
            rc = read_copy(vault, store, key, record, &cold);
    }
    release_copy(vault, &hot);

done:
    release_copy(vault, &cold);
    return rc;
}

static enum kvt_err
demote_held(struct gateway_vault *vault, const char *key, uint64_t *bytes)
{
    struct gateway_change change = {.key = key};
    struct g4_request request = {.verb = G4_DELETE, .key = key};
    enum kvt_err rc;

    rc = gateway_catalog_get(vault->catalog, key, &change.record);
    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    if (rc != KVT_OK)
        return rc;
    if (change.record.state != GATEWAY_STORED || (change.record.tiers & GATEWAY_HOT) == 0)
        return KVT_OK;
    rc = gateway_cold_ended(vault->cold, ensure_cold(vault, key, &change.record));
    if (rc != KVT_OK)
        return rc;
    change.record.tiers = GATEWAY_COLD;
    rc = gateway_catalog_change(vault->catalog, &change, 1, GATEWAY_DURABLE);
    if (rc != KVT_OK)
        return rc;
    /* A file that stays because this fails is an orphan; the keeper sweeps those. */
    if (g4_store_perform(vault->hot, &request) == KVT_OK)
        *bytes = change.record.length;
    return KVT_OK;
}

enum kvt_err
gateway_move_demote(struct gateway_vault *vault, const char *key, uint64_t *bytes)
{
    struct gateway_hold hold;
    enum kvt_err rc;

    *bytes = 0;
    if (vault->hot == NULL)
        return KVT_OK;
    if (!gateway_cold_healthy(vault->cold))
        return KVT_UNAVAILABLE;
    gateway_hold_init(&hold, key);
    gateway_hold_acquire(vault->holds, &hold, 1);
    rc = demote_held(vault, key, bytes);
    gateway_hold_release(vault->holds, &hold, 1);
    return rc;
}

/* Write the hot copy, read it back, and only then say so. */
static enum kvt_err
write_hot(struct gateway_vault *vault, const char *key, const struct copy *cold,
          struct gateway_change *change)
{
    struct g4_request request = {.verb = G4_PUT,
                                 .key = key,
                                 .body = cold->request.buffer,
                                 .body_size = cold->request.buffer_size};
    struct g4_request drop = {.verb = G4_DELETE, .key = key};
    struct copy check;
    enum kvt_err rc;

    gateway_record_meta(&change->record, &request.meta);
    rc = g4_store_perform(vault->hot, &request);
    if (rc != KVT_OK)
        return rc;
    rc = read_copy(vault, vault->hot, key, &change->record, &check);
    release_copy(vault, &check);
    if (rc == KVT_OK) {
        change->record.tiers |= GATEWAY_HOT;
        change->reserve = true;
        rc = gateway_catalog_change(vault->catalog, change, 1, GATEWAY_DURABLE);
        if (rc == KVT_OK)
            rc = change->status;
        if (rc == KVT_OK && (change->record.tiers & GATEWAY_HOT) == 0)
            rc = KVT_FULL;
    }
    if (rc != KVT_OK)
        (void)!g4_store_perform(vault->hot, &drop);
    return rc;
}

static enum kvt_err
promote_held(struct gateway_vault *vault, const char *key, uint64_t *bytes)
{
    struct gateway_change change = {.key = key};
    struct copy cold;
    enum kvt_err rc;

    rc = gateway_catalog_get(vault->catalog, key, &change.record);
    if (rc != KVT_OK)
        return rc;
    if (change.record.state != GATEWAY_STORED)
        return KVT_NOTFOUND;
    if ((change.record.tiers & GATEWAY_HOT) != 0)
        return KVT_OK;
    rc = read_copy(vault, gateway_cold_store(vault->cold), key, &change.record, &cold);
    if (rc == KVT_OK)
        rc = write_hot(vault, key, &cold, &change);
    else
        (void)gateway_cold_ended(vault->cold, rc);
    release_copy(vault, &cold);
    if (rc == KVT_OK) {
        *bytes = change.record.length;
        gateway_stats_add(vault->stats, GATEWAY_STAT_BYTES_MOVED, *bytes);
    }
    return rc;
}

enum kvt_err
gateway_move_promote(struct gateway_vault *vault, const char *key, uint64_t *bytes)
{
    struct gateway_hold hold;
    enum kvt_err rc;

    *bytes = 0;
    if (vault->hot == NULL)
        return KVT_FULL;
    if (!gateway_cold_healthy(vault->cold))
        return KVT_UNAVAILABLE;
    gateway_hold_init(&hold, key);
    gateway_hold_acquire(vault->holds, &hold, 1);
    rc = promote_held(vault, key, bytes);
    gateway_hold_release(vault->holds, &hold, 1);
    if (rc == KVT_CORRUPT)
        gateway_fault_inspect(vault, key); /* the key is free again: quarantine it properly */
    return rc;
}
