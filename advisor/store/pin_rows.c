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
    struct key key;

    return advisor_table_put(txn, ADVISOR_TABLE_PINS, key_of(row, &key), &row->until_ms,
                             sizeof(row->until_ms));
}

enum kvt_err
advisor_store_delete_pin(const struct advisor_txn *txn, const struct advisor_pin_row *row)
{
    struct key key;

    return advisor_table_delete(txn, ADVISOR_TABLE_PINS, key_of(row, &key));
}

struct walk {
    advisor_store_pin_fn *callback;
    void *arg;
};

static enum kvt_err
emit(void *arg, MDB_val key, MDB_val value)
{
    const struct walk *walk = arg;
    struct advisor_pin_row row = {.hash = 0};
    struct key bytes;

    if (key.mv_size <= NAME_AT || key.mv_size - NAME_AT >= sizeof(row.gateway) ||
        value.mv_size != sizeof(row.until_ms))
        return KVT_CORRUPT;
    memcpy(&bytes, key.mv_data, key.mv_size);
    memcpy(&row.until_ms, value.mv_data, sizeof(row.until_ms));
    memcpy(row.gateway, bytes.gateway, key.mv_size - NAME_AT);
    row.hash = be64toh(bytes.hash_big);
    row.ns = be32toh(bytes.ns_big);
    return walk->callback(walk->arg, &row);
}

enum kvt_err
advisor_store_pins(const struct advisor_txn *txn, advisor_store_pin_fn *callback, void *arg)
{
    struct walk walk = {callback, arg};

    return advisor_table_walk(txn, ADVISOR_TABLE_PINS, MDB_FIRST, emit, &walk);
}
