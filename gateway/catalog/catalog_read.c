#include <endian.h>
#include <string.h>

#include "gateway/catalog/catalog.h"
#include "gateway/catalog/catalog_private.h"

enum kvt_err
gateway_catalog_get(struct gateway_catalog *catalog, const char *key, struct gateway_record *record)
{
    MDB_val name = kvt_lmdb_val(key, strlen(key));
    enum kvt_err result = KVT_OK;
    MDB_txn *txn = NULL;
    MDB_val value;
    int rc;

    *record = (struct gateway_record){0};
    if (name.mv_size == 0 || name.mv_size >= KVT_KEY_MAX)
        return KVT_NOTFOUND;
    if (mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn) != 0)
        return KVT_IO;
    rc = mdb_get(txn, catalog->objects, &name, &value);
    if (rc == MDB_NOTFOUND)
        result = KVT_NOTFOUND;
    else if (rc != 0 || !gateway_record_decode(value.mv_data, value.mv_size, record))
        result = KVT_IO;
    mdb_txn_abort(txn);
    return result;
}

/* Move the cursor to the first key behind `after` and at or behind the prefix. */
static int
seek(MDB_cursor *cursor, const struct gateway_scan *scan, MDB_val *key)
{
    const char *prefix = scan->prefix == NULL ? "" : scan->prefix;
    const char *from = strcmp(scan->after, prefix) > 0 ? scan->after : prefix;
    int rc;

    if (from[0] == '\0')
        return mdb_cursor_get(cursor, key, NULL, MDB_FIRST);
    *key = kvt_lmdb_val(from, strlen(from));
    rc = mdb_cursor_get(cursor, key, NULL, MDB_SET_RANGE);
    if (rc == 0 && from == scan->after && key->mv_size == strlen(from) &&
        memcmp(key->mv_data, from, key->mv_size) == 0)
        rc = mdb_cursor_get(cursor, key, NULL, MDB_NEXT);
    return rc;
}

static bool
inside(const struct gateway_scan *scan, const MDB_val *key)
{
    const size_t size = scan->prefix == NULL ? 0 : strlen(scan->prefix);

    return key->mv_size >= size && (size == 0 || memcmp(key->mv_data, scan->prefix, size) == 0);
}

/* Copy the row under the cursor when it is one that was asked for. */
static int
take_row(struct gateway_catalog *catalog, MDB_txn *txn, struct gateway_scan *scan, MDB_val *key)
{
    struct gateway_row *row = &scan->rows[scan->count];
    MDB_val value;
    int rc;

    if (key->mv_size >= sizeof(row->key))
        return MDB_CORRUPTED;
    rc = mdb_get(txn, catalog->objects, key, &value);
    if (rc != 0)
        return rc;
    memcpy(row->key, key->mv_data, key->mv_size);
    row->key[key->mv_size] = '\0';
    memcpy(scan->after, row->key, key->mv_size + 1);
    if (!gateway_record_decode(value.mv_data, value.mv_size, &row->record))
        return MDB_CORRUPTED;
    if (scan->tiers == 0 || (row->record.tiers & scan->tiers) != 0)
        scan->count++;
    return 0;
}

enum kvt_err
gateway_catalog_scan(struct gateway_catalog *catalog, struct gateway_scan *scan)
{
    MDB_cursor *cursor = NULL;
    MDB_txn *txn = NULL;
    MDB_val key;
    int rc;

    scan->count = 0;
    scan->end = false;
    rc = mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0)
        return KVT_IO;
    rc = mdb_cursor_open(txn, scan->pending ? catalog->pending : catalog->objects, &cursor);
    if (rc == 0)
        rc = seek(cursor, scan, &key);
    for (unsigned visits = 0; rc == 0; visits++) {
        if (scan->count == scan->capacity || visits == GATEWAY_SCAN_VISITS)
            break;
        if (!inside(scan, &key)) {
            rc = MDB_NOTFOUND;
            break;
        }
        rc = take_row(catalog, txn, scan, &key);
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &key, NULL, MDB_NEXT);
    }
    scan->end = rc == MDB_NOTFOUND;
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    return rc == 0 || rc == MDB_NOTFOUND ? KVT_OK : KVT_IO;
}

enum kvt_err
gateway_catalog_events(struct gateway_catalog *catalog, uint32_t stream, uint64_t from,
                       struct gateway_event *events, size_t capacity, size_t *count)
{
    struct gateway_outbox_key start = {{0}};
    struct gateway_outbox_key end;
    struct gateway_stream state;
    MDB_cursor *cursor = NULL;
    MDB_txn *txn = NULL;
    MDB_val key = kvt_lmdb_val(start.bytes, sizeof(start.bytes));
    MDB_val value;
    int rc;

    *count = 0;
    if (!gateway_catalog_stream(catalog, stream, &state))
        return KVT_OK;
    gateway_catalog_outbox_key(&start, stream, from);
    gateway_catalog_outbox_key(&end, stream, state.durable_seq);
    rc = mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0)
        return KVT_IO;
    rc = mdb_cursor_open(txn, catalog->outbox, &cursor);
    if (rc == 0)
        rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (rc == 0 && *count < capacity) {
        struct gateway_event *event = &events[*count];
        uint64_t seq;

        if (key.mv_size != sizeof(end.bytes) ||
            memcmp(key.mv_data, end.bytes, sizeof(end.bytes)) > 0)
            break;
        if (!gateway_record_decode_event(value.mv_data, value.mv_size, event)) {
            rc = MDB_CORRUPTED;
            break;
        }
        memcpy(&seq, (const uint8_t *)key.mv_data + sizeof(uint32_t), sizeof(seq));
        event->seq = be64toh(seq);
        (*count)++;
        rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    return rc == 0 || rc == MDB_NOTFOUND ? KVT_OK : KVT_IO;
}
