#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"

/* The tables that are small: names, publishers, sweeps, gateways, orders. */

/* Of an order between hot volume and bucket, as earlier versions write it. */
#define ORDER_WITHOUT_EDGE offsetof(struct advisor_order_row, from)

static MDB_dbi
table(const struct advisor_txn *txn, enum advisor_table which)
{
    return txn->store->tables[which];
}

static enum kvt_err
put(const struct advisor_txn *txn, enum advisor_table which, MDB_val key, const void *row,
    size_t size)
{
    MDB_val value = {.mv_size = size, .mv_data = NULL};
    int rc = mdb_put(txn->handle, table(txn, which), &key, &value, MDB_RESERVE);

    if (rc == 0)
        memcpy(value.mv_data, row, size);
    return advisor_store_code(rc);
}

static enum kvt_err
get(const struct advisor_txn *txn, enum advisor_table which, MDB_val key, void *row, size_t size)
{
    MDB_val value;
    const int rc = mdb_get(txn->handle, table(txn, which), &key, &value);

    memset(row, 0, size);
    if (rc != 0)
        return advisor_store_code(rc);
    if (value.mv_size != size)
        return KVT_CORRUPT;
    memcpy(row, value.mv_data, size);
    return KVT_OK;
}

static enum kvt_err
drop(const struct advisor_txn *txn, enum advisor_table which, MDB_val key)
{
    const int rc = mdb_del(txn->handle, table(txn, which), &key, NULL);

    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

/* One walk for all of them: `emit` copies the row out and calls the caller's own function. */
struct walk {
    enum advisor_table table;
    MDB_cursor_op first;
    MDB_cursor_op next;
    size_t size;  /* of a row */
    size_t least; /* 0, or of a row without its last members */
    enum kvt_err (*emit)(const struct walk *walk, const MDB_val *key, const MDB_val *value);
    void *arg;
    union {
        advisor_store_publisher_fn *publisher;
        advisor_store_sweep_fn *sweep;
        advisor_store_gateway_fn *gateway;
        advisor_store_order_fn *order;
        advisor_store_name_fn *name;
        advisor_store_holder_fn *holder;
    } to;
};

static enum kvt_err
walk_rows(const struct advisor_txn *txn, const struct walk *walk)
{
    MDB_val value;
    MDB_val key;
    MDB_cursor *cursor;
    enum kvt_err code = KVT_OK;
    int rc = mdb_cursor_open(txn->handle, table(txn, walk->table), &cursor);

    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, walk->first); rc == 0 && code == KVT_OK;
         rc = mdb_cursor_get(cursor, &key, &value, walk->next))
        code = value.mv_size == walk->size || value.mv_size == walk->least
                   ? walk->emit(walk, &key, &value)
                   : KVT_CORRUPT;
    mdb_cursor_close(cursor);
    if (code != KVT_OK)
        return code;
    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

/* ---- numbers and names ---- */

enum kvt_err
advisor_store_number(const struct advisor_txn *txn, enum advisor_meta which, uint64_t *value)
{
    struct advisor_key_u32 key = {htobe32((uint32_t)which)};
    const enum kvt_err rc =
        get(txn, ADVISOR_TABLE_META, advisor_val(&key, sizeof(key)), value, sizeof(*value));

    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
advisor_store_put_number(const struct advisor_txn *txn, enum advisor_meta which, uint64_t value)
{
    struct advisor_key_u32 key = {htobe32((uint32_t)which)};

    return put(txn, ADVISOR_TABLE_META, advisor_val(&key, sizeof(key)), &value, sizeof(value));
}

enum kvt_err
advisor_store_put_namespace(const struct advisor_txn *txn, uint32_t ns, const char *name)
{
    struct advisor_key_u32 key = {htobe32(ns)};
    char row[KVT_NAMESPACE_MAX] = {0};

    (void)snprintf(row, sizeof(row), "%s", name);
    return put(txn, ADVISOR_TABLE_NAMESPACES, advisor_val(&key, sizeof(key)), row, sizeof(row));
}

enum kvt_err
advisor_store_namespace(const struct advisor_txn *txn, uint32_t ns, char name[KVT_NAMESPACE_MAX])
{
    struct advisor_key_u32 key = {htobe32(ns)};

    return get(txn, ADVISOR_TABLE_NAMESPACES, advisor_val(&key, sizeof(key)), name,
               KVT_NAMESPACE_MAX);
}

enum kvt_err
advisor_store_put_holder(const struct advisor_txn *txn, uint32_t holder,
                         const struct index_holder *row)
{
    struct advisor_key_u32 key = {htobe32(holder)};

    return put(txn, ADVISOR_TABLE_HOLDERS, advisor_val(&key, sizeof(key)), row, sizeof(*row));
}

enum kvt_err
advisor_store_holder(const struct advisor_txn *txn, uint32_t holder, struct index_holder *row)
{
    struct advisor_key_u32 key = {htobe32(holder)};

    return get(txn, ADVISOR_TABLE_HOLDERS, advisor_val(&key, sizeof(key)), row, sizeof(*row));
}

static uint32_t
number_of(const MDB_val *key)
{
    uint32_t big = 0;

    if (key->mv_size == sizeof(big))
        memcpy(&big, key->mv_data, sizeof(big));
    return be32toh(big);
}

static enum kvt_err
emit_name(const struct walk *walk, const MDB_val *key, const MDB_val *value)
{
    char name[KVT_NAMESPACE_MAX];

    memcpy(name, value->mv_data, sizeof(name));
    name[sizeof(name) - 1] = '\0';
    return walk->to.name(walk->arg, number_of(key), name);
}

enum kvt_err
advisor_store_namespaces(const struct advisor_txn *txn, advisor_store_name_fn *callback, void *arg)
{
    const struct walk walk = {.table = ADVISOR_TABLE_NAMESPACES,
                              .first = MDB_FIRST,
                              .next = MDB_NEXT,
                              .size = KVT_NAMESPACE_MAX,
                              .emit = emit_name,
                              .arg = arg,
                              .to = {.name = callback}};

    return walk_rows(txn, &walk);
}

static enum kvt_err
emit_holder(const struct walk *walk, const MDB_val *key, const MDB_val *value)
{
    struct index_holder row;

    memcpy(&row, value->mv_data, sizeof(row));
    return walk->to.holder(walk->arg, number_of(key), &row);
}

enum kvt_err
advisor_store_holders(const struct advisor_txn *txn, advisor_store_holder_fn *callback, void *arg)
{
    const struct walk walk = {.table = ADVISOR_TABLE_HOLDERS,
                              .first = MDB_FIRST,
                              .next = MDB_NEXT,
                              .size = sizeof(struct index_holder),
                              .emit = emit_holder,
                              .arg = arg,
                              .to = {.holder = callback}};

    return walk_rows(txn, &walk);
}

/* ---- publishers, sweeps, gateways, orders ---- */

enum kvt_err
advisor_store_put_publisher(const struct advisor_txn *txn, const struct advisor_publisher_row *row)
{
    struct advisor_key_u32 key = {htobe32(row->number)};

    return put(txn, ADVISOR_TABLE_PUBLISHERS, advisor_val(&key, sizeof(key)), row, sizeof(*row));
}

enum kvt_err
advisor_store_delete_publisher(const struct advisor_txn *txn, uint32_t number)
{
    struct advisor_key_u32 key = {htobe32(number)};

    return drop(txn, ADVISOR_TABLE_PUBLISHERS, advisor_val(&key, sizeof(key)));
}

static struct advisor_key_two
two(uint64_t first, uint64_t second)
{
    return (struct advisor_key_two){htobe64(first), htobe64(second)};
}

enum kvt_err
advisor_store_put_sweep(const struct advisor_txn *txn, const struct advisor_sweep_row *row)
{
    struct advisor_key_two key = two(row->publisher, row->holder);

    return put(txn, ADVISOR_TABLE_SWEEPS, advisor_val(&key, sizeof(key)), row, sizeof(*row));
}

enum kvt_err
advisor_store_delete_sweep(const struct advisor_txn *txn, const struct advisor_sweep_row *row)
{
    struct advisor_key_two key = two(row->publisher, row->holder);

    return drop(txn, ADVISOR_TABLE_SWEEPS, advisor_val(&key, sizeof(key)));
}

enum kvt_err
advisor_store_put_gateway(const struct advisor_txn *txn, const struct advisor_gateway_row *row)
{
    char key[KVT_NAME_MAX] = {0};

    (void)snprintf(key, sizeof(key), "%s", row->name);
    return put(txn, ADVISOR_TABLE_GATEWAYS, advisor_val(key, sizeof(key)), row, sizeof(*row));
}

enum kvt_err
advisor_store_put_order(const struct advisor_txn *txn, const struct advisor_order_row *row)
{
    struct advisor_key_two key = two(row->epoch, row->id);

    return put(txn, ADVISOR_TABLE_ORDERS, advisor_val(&key, sizeof(key)), row,
               row->from[0] == '\0' ? ORDER_WITHOUT_EDGE : sizeof(*row));
}

enum kvt_err
advisor_store_delete_order(const struct advisor_txn *txn, uint64_t epoch, uint64_t id)
{
    struct advisor_key_two key = two(epoch, id);

    return drop(txn, ADVISOR_TABLE_ORDERS, advisor_val(&key, sizeof(key)));
}

static enum kvt_err
emit_publisher(const struct walk *walk, const MDB_val *key, const MDB_val *value)
{
    struct advisor_publisher_row row;

    (void)key;
    memcpy(&row, value->mv_data, sizeof(row));
    return walk->to.publisher(walk->arg, &row);
}

enum kvt_err
advisor_store_publishers(const struct advisor_txn *txn, advisor_store_publisher_fn *callback,
                         void *arg)
{
    const struct walk walk = {.table = ADVISOR_TABLE_PUBLISHERS,
                              .first = MDB_FIRST,
                              .next = MDB_NEXT,
                              .size = sizeof(struct advisor_publisher_row),
                              .emit = emit_publisher,
                              .arg = arg,
                              .to = {.publisher = callback}};

    return walk_rows(txn, &walk);
}

static enum kvt_err
emit_sweep(const struct walk *walk, const MDB_val *key, const MDB_val *value)
{
    struct advisor_sweep_row row;

    (void)key;
    memcpy(&row, value->mv_data, sizeof(row));
    return walk->to.sweep(walk->arg, &row);
}

enum kvt_err
advisor_store_sweeps(const struct advisor_txn *txn, advisor_store_sweep_fn *callback, void *arg)
{
    const struct walk walk = {.table = ADVISOR_TABLE_SWEEPS,
                              .first = MDB_FIRST,
                              .next = MDB_NEXT,
                              .size = sizeof(struct advisor_sweep_row),
                              .emit = emit_sweep,
                              .arg = arg,
                              .to = {.sweep = callback}};

    return walk_rows(txn, &walk);
}

static enum kvt_err
emit_gateway(const struct walk *walk, const MDB_val *key, const MDB_val *value)
{
    struct advisor_gateway_row row;

    (void)key;
    memcpy(&row, value->mv_data, sizeof(row));
    return walk->to.gateway(walk->arg, &row);
}

enum kvt_err
advisor_store_gateways(const struct advisor_txn *txn, advisor_store_gateway_fn *callback, void *arg)
{
    const struct walk walk = {.table = ADVISOR_TABLE_GATEWAYS,
                              .first = MDB_FIRST,
                              .next = MDB_NEXT,
                              .size = sizeof(struct advisor_gateway_row),
                              .emit = emit_gateway,
                              .arg = arg,
                              .to = {.gateway = callback}};

    return walk_rows(txn, &walk);
}

static enum kvt_err
emit_order(const struct walk *walk, const MDB_val *key, const MDB_val *value)
{
    struct advisor_order_row row = {.from = ""};

    (void)key;
    memcpy(&row, value->mv_data, value->mv_size);
    return memchr(row.from, '\0', sizeof(row.from)) != NULL &&
                   memchr(row.to, '\0', sizeof(row.to)) != NULL
               ? walk->to.order(walk->arg, &row)
               : KVT_CORRUPT;
}

enum kvt_err
advisor_store_orders(const struct advisor_txn *txn, advisor_store_order_fn *callback, void *arg)
{
    const struct walk walk = {.table = ADVISOR_TABLE_ORDERS,
                              .first = MDB_LAST,
                              .next = MDB_PREV,
                              .size = sizeof(struct advisor_order_row),
                              .least = ORDER_WITHOUT_EDGE,
                              .emit = emit_order,
                              .arg = arg,
                              .to = {.order = callback}};

    return walk_rows(txn, &walk);
}
