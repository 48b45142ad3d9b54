#include <assert.h>
#include <endian.h>
#include <string.h>

#include "gateway/catalog/catalog.h"
#include "gateway/catalog/catalog_private.h"

/* Oldest first: the time in front of the key.  Keys of blocks leave room for it. */
struct backlog_key {
    uint8_t bytes[sizeof(uint64_t) + KVT_KEY_MAX];
};

static MDB_val
name_of(struct backlog_key *name, uint64_t modified_ms, const char *key)
{
    const uint64_t time = htobe64(modified_ms);
    const size_t size = strlen(key);

    assert(size < KVT_KEY_MAX);
    memcpy(name->bytes, &time, sizeof(time));
    memcpy(name->bytes + sizeof(time), key, size);
    return kvt_lmdb_val(name->bytes, sizeof(time) + size);
}

int
gateway_catalog_enlist(struct gateway_catalog *catalog, MDB_txn *txn, const char *key,
                       const struct gateway_record *record, bool add)
{
    struct backlog_key text;
    MDB_val name = name_of(&text, record->modified_ms, key);
    MDB_val nothing = kvt_lmdb_val("", 0);
    int rc;

    if (!gateway_record_waits(record))
        return 0;
    if (add)
        return mdb_put(txn, catalog->backlog, &name, &nothing, 0);
    rc = mdb_del(txn, catalog->backlog, &name, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Move to the first row behind the one visited last. */
static int
seek(MDB_cursor *at, const struct gateway_backlog_cursor *cursor, MDB_val *name)
{
    struct backlog_key text;
    MDB_val from = name_of(&text, cursor->modified_ms, cursor->key);
    int rc;

    if (cursor->key[0] == '\0')
        return mdb_cursor_get(at, name, NULL, MDB_FIRST);
    *name = from;
    rc = mdb_cursor_get(at, name, NULL, MDB_SET_RANGE);
    if (rc == 0 && name->mv_size == from.mv_size &&
        memcmp(name->mv_data, text.bytes, from.mv_size) == 0)
        rc = mdb_cursor_get(at, name, NULL, MDB_NEXT);
    return rc;
}

static int
take_row(struct gateway_catalog *catalog, MDB_txn *txn, const MDB_val *name,
         struct gateway_row *row)
{
    const size_t size = name->mv_size - sizeof(uint64_t);
    MDB_val value;
    MDB_val key;
    int rc;

    if (name->mv_size <= sizeof(uint64_t) || size >= sizeof(row->key))
        return MDB_CORRUPTED;
    memcpy(row->key, (const uint8_t *)name->mv_data + sizeof(uint64_t), size);
    row->key[size] = '\0';
    key = kvt_lmdb_val(row->key, size);
    rc = mdb_get(txn, catalog->objects, &key, &value);
    if (rc != 0)
        return rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc;
    return gateway_record_decode(value.mv_data, value.mv_size, &row->record) ? 0 : MDB_CORRUPTED;
}

enum kvt_err
gateway_catalog_backlog(struct gateway_catalog *catalog, struct gateway_backlog_cursor *cursor,
                        struct gateway_row *rows, size_t capacity, size_t *count)
{
    MDB_cursor *at = NULL;
    MDB_txn *txn = NULL;
    MDB_val name;
    int rc;

    *count = 0;
    if (mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn) != 0)
        return KVT_IO;
    rc = mdb_cursor_open(txn, catalog->backlog, &at);
    if (rc == 0)
        rc = seek(at, cursor, &name);
    while (rc == 0 && *count < capacity) {
        struct gateway_row *row = &rows[*count];

        rc = take_row(catalog, txn, &name, row);
        if (rc != 0)
            break;
        cursor->modified_ms = row->record.modified_ms;
        memcpy(cursor->key, row->key, sizeof(cursor->key));
        (*count)++;
        rc = mdb_cursor_get(at, &name, NULL, MDB_NEXT);
    }
    if (at != NULL)
        mdb_cursor_close(at);
    mdb_txn_abort(txn);
    return rc == 0 || rc == MDB_NOTFOUND ? KVT_OK : KVT_IO;
}
