#include "gateway/move.h"

#include <string.h>

#include "base/alloc.h"
#include "gateway/claim.h"
#include "gateway/fault.h"

/* Write the checked hot bytes into the bucket: where nothing is, or over exactly the bad object. */
static enum kvt_err
write_cold(struct gateway_vault *vault, const char *key, struct gateway_record *record,
           const struct g4_request *hot, const char *bad_etag)
{
    struct g4_request request = {.verb = G4_PUT,
                                 .key = key,
                                 .condition = bad_etag == NULL ? G4_IF_ABSENT : G4_IF_MATCH,
                                 .body = hot->buffer,
                                 .body_size = hot->buffer_size};
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

/* The bucket's copy, verified by reading it; made from the hot one when it is bad, or where none is
 * known.  KVT_NOTFOUND: it is gone. */
static enum kvt_err
ensure_cold(struct gateway_vault *vault, const char *key, struct gateway_record *record)
{
    struct g4_store *store = gateway_cold_store(vault->cold);
    struct g4_request cold;
    struct g4_request hot;
    enum kvt_err hot_rc;
    enum kvt_err rc;

    rc = gateway_vault_read_block(vault, store, key, record, &cold);
    if (rc == KVT_OK)
        memcpy(record->etag, cold.etag, sizeof(record->etag));
    if (rc != KVT_CORRUPT && rc != KVT_NOTFOUND)
        goto done;
    if (rc == KVT_NOTFOUND && (record->tiers & GATEWAY_COLD) != 0)
        goto done; /* whoever removed it meant the block: it is not made anew */
    if (rc == KVT_CORRUPT && !gateway_fault_is_tombstone(&cold))
        gateway_fault_keep(vault, key, 1, cold.buffer, cold.buffer_size, cold.error.text);
    hot_rc = gateway_vault_read_block(vault, vault->hot, key, record, &hot);
    if (hot_rc == KVT_AGAIN)
        rc = KVT_AGAIN;
    if (hot_rc == KVT_OK) {
        rc = write_cold(vault, key, record, &hot, rc == KVT_CORRUPT ? cold.etag : NULL);
        gateway_vault_release(vault, &cold);
        if (rc == KVT_OK)
            rc = gateway_vault_read_block(vault, store, key, record, &cold);
    }
    gateway_vault_release(vault, &hot);

done:
    gateway_vault_release(vault, &cold);
    return rc;
}

/* Into the bucket with what it is owed, as the first writer or not at all. */
static enum kvt_err
upload(struct gateway_vault *vault, const char *key, struct gateway_record *record)
{
    struct gateway_claim claim;
    struct g4_request hot;
    enum kvt_err rc;

    rc = gateway_vault_read_block(vault, vault->hot, key, record, &hot);
    if (rc == KVT_OK) {
        gateway_claim_init(&claim, key, record, &hot);
        rc = gateway_claim_perform(vault, &claim);
    }
    gateway_vault_release(vault, &hot);
    return rc;
}

static enum kvt_err
demote_held(struct gateway_vault *vault, const char *key, uint64_t *bytes)
{
    struct gateway_change change = {.key = key};
    struct g4_request request = {.verb = G4_DELETE, .key = key};
    enum kvt_err rc;
    bool owed;

    rc = gateway_catalog_get(vault->catalog, key, &change.record);
    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    if (rc != KVT_OK)
        return rc;
    if (change.record.state != GATEWAY_STORED || (change.record.tiers & GATEWAY_HOT) == 0)
        return KVT_OK;
    owed = change.record.owed;
    if (owed)
        rc = upload(vault, key, &change.record);
    if (rc == KVT_OK)
        rc = gateway_cold_ended(vault->cold, ensure_cold(vault, key, &change.record));
    if (rc == KVT_NOTFOUND) {
        gateway_fault_gone_held(vault, key);
        rc = gateway_catalog_get(vault->catalog, key, &change.record);
        return rc == KVT_NOTFOUND ? KVT_OK : KVT_UNAVAILABLE;
    }
    if (rc != KVT_OK)
        return rc;
    change.record.tiers = GATEWAY_COLD;
    change.record.owed = false;
    rc = gateway_catalog_change(vault->catalog, &change, 1, GATEWAY_DURABLE);
    if (rc != KVT_OK)
        return rc;
    if (owed)
        gateway_stats_add(vault->stats, GATEWAY_STAT_BACKLOG_UPLOADED, 1);
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
write_hot(struct gateway_vault *vault, const char *key, const struct g4_request *cold,
          struct gateway_change *change)
{
    struct g4_request request = {
        .verb = G4_PUT, .key = key, .body = cold->buffer, .body_size = cold->buffer_size};
    struct g4_request drop = {.verb = G4_DELETE, .key = key};
    struct g4_request check;
    enum kvt_err rc;

    gateway_record_meta(&change->record, &request.meta);
    rc = g4_store_perform(vault->hot, &request);
    if (rc != KVT_OK)
        return rc;
    rc = gateway_vault_read_block(vault, vault->hot, key, &change->record, &check);
    gateway_vault_release(vault, &check);
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
    struct g4_request cold;
    enum kvt_err rc;

    rc = gateway_catalog_get(vault->catalog, key, &change.record);
    if (rc != KVT_OK)
        return rc;
    if (change.record.state != GATEWAY_STORED)
        return KVT_NOTFOUND;
    if (change.record.foreign)
        return KVT_UNSUPPORTED; /* it could not be checked */
    if ((change.record.tiers & GATEWAY_HOT) != 0)
        return KVT_OK;
    rc = gateway_vault_read_block(vault, gateway_cold_store(vault->cold), key, &change.record,
                                  &cold);
    if (rc == KVT_OK)
        rc = write_hot(vault, key, &cold, &change);
    else
        (void)gateway_cold_ended(vault->cold, rc);
    gateway_vault_release(vault, &cold);
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
