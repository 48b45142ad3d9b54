#include <endian.h>
#include <string.h>

#include "advisor/store/durable_store.h"
#include "advisor/store/durable_store_private.h"

/* Keys are hash and namespace (big-endian) and the gateway's name, without its end. */

struct key {
    uint64_t hash_big;
    uint32_t ns_big;
    char gateway[KVT_NAME_MAX];
};

enum { NAME_AT = offsetof(struct key, gateway) };

static MDB_val
key_of(const struct advisor_pin_row *row, struct key *key)
{
    const size_t size = strnlen(row->gateway, sizeof(row->gateway) - 1);

    memset(key, 0, sizeof(*key));
    key->hash_big = htobe64(row->hash);
    key->ns_big = htobe32(row->ns);
    memcpy(key->gateway, row->gateway, size);
    return advisor_val(key, NAME_AT + size);
}

enum kvt_err
advisor_store_put_pin(const struct advisor_txn *txn, const struct advisor_pin_row *row)
{
    uint64_t until_ms = row->until_ms;
    struct key bytes;
    MDB_val key = key_of(row, &bytes);
    MDB_val value = advisor_val(&until_ms, sizeof(until_ms));

    return advisor_store_code(
        mdb_put(txn->handle, txn->store->tables[ADVISOR_TABLE_PINS], &key, &value, 0));
}

enum kvt_err
advisor_store_delete_pin(const struct advisor_txn *txn, const struct advisor_pin_row *row)
{
    struct key bytes;
    MDB_val key = key_of(row, &bytes);
    const int rc = mdb_del(txn->handle, txn->store->tables[ADVISOR_TABLE_PINS], &key, NULL);

    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

static enum kvt_err
emit(const MDB_val *key, const MDB_val *value, advisor_store_pin_fn *callback, void *arg)
{
    struct advisor_pin_row row = {.hash = 0};
    struct key bytes;

    if (key->mv_size <= NAME_AT || key->mv_size - NAME_AT >= sizeof(row.gateway) ||
        value->mv_size != sizeof(row.until_ms))
        return KVT_CORRUPT;
    memcpy(&bytes, key->mv_data, key->mv_size);
    memcpy(&row.until_ms, value->mv_data, sizeof(row.until_ms));
    memcpy(row.gateway, bytes.gateway, key->mv_size - NAME_AT);
    row.hash = be64toh(bytes.hash_big);
    row.ns = be32toh(bytes.ns_big);
    return callback(arg, &row);
}

enum kvt_err
advisor_store_pins(const struct advisor_txn *txn, advisor_store_pin_fn *callback, void *arg)
{
    enum kvt_err code = KVT_OK;
    MDB_cursor *cursor;
    MDB_val value;
    MDB_val key;
    int rc;

    if (txn->store->tables[ADVISOR_TABLE_PINS] == 0)
        return KVT_OK;
    rc = mdb_cursor_open(txn->handle, txn->store->tables[ADVISOR_TABLE_PINS], &cursor);
    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST); rc == 0 && code == KVT_OK;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))
        code = emit(&key, &value, callback, arg);
    mdb_cursor_close(cursor);
    if (code != KVT_OK)
        return code;
    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}
