#include <endian.h>
#include <string.h>

#include "gateway/catalog/catalog.h"
#include "gateway/catalog/catalog_private.h"

/* Big-endian: the database's order is the orders' own, and the first one is the oldest. */
struct order_key {
    uint64_t epoch;
    uint64_t id;
};

/* Little-endian. */
struct order_value {
    uint32_t verb;
    uint32_t code;
    uint32_t done;
    uint32_t failed;
    uint64_t bytes_moved;
    char text[sizeof(((struct kvt_order_result *)NULL)->text)];
};

int
gateway_catalog_remember(struct gateway_catalog *catalog, MDB_txn *txn,
                         const struct kvt_order_result *result)
{
    struct order_key key = {.epoch = htobe64(result->epoch), .id = htobe64(result->id)};
    struct order_value value = {.verb = htole32((uint32_t)result->verb),
                                .code = htole32((uint32_t)result->code),
                                .done = htole32(result->done),
                                .failed = htole32(result->failed),
                                .bytes_moved = htole64(result->bytes_moved)};
    MDB_val name = {.mv_size = sizeof(key), .mv_data = &key};
    MDB_val bytes = {.mv_size = sizeof(value), .mv_data = &value};
    MDB_cursor *cursor = NULL;
    MDB_stat stat;
    int rc;

    memcpy(value.text, result->text, sizeof(value.text));
    rc = mdb_put(txn, catalog->finished, &name, &bytes, 0);
    if (rc == 0)
        rc = mdb_stat(txn, catalog->finished, &stat);
    if (rc != 0 || stat.ms_entries <= GATEWAY_CATALOG_ORDERS)
        return rc;
    rc = mdb_cursor_open(txn, catalog->finished, &cursor);
    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &name, &bytes, MDB_FIRST);
    if (rc == 0)
        rc = mdb_cursor_del(cursor, 0);
    mdb_cursor_close(cursor);
    return rc;
}

enum kvt_err
gateway_catalog_recall(struct gateway_catalog *catalog, uint64_t epoch, uint64_t id,
                       struct kvt_order_result *result)
{
    struct order_key key = {.epoch = htobe64(epoch), .id = htobe64(id)};
    MDB_val name = {.mv_size = sizeof(key), .mv_data = &key};
    struct order_value value = {0};
    MDB_txn *txn = NULL;
    MDB_val bytes;
    int rc;

    *result = (struct kvt_order_result){.epoch = epoch, .id = id};
    if (mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn) != 0)
        return KVT_IO;
    rc = mdb_get(txn, catalog->finished, &name, &bytes);
    if (rc == 0 && bytes.mv_size == sizeof(value))
        memcpy(&value, bytes.mv_data, sizeof(value));
    else if (rc == 0)
        rc = MDB_CORRUPTED;
    mdb_txn_abort(txn);
    if (rc != 0)
        return rc == MDB_NOTFOUND ? KVT_NOTFOUND : KVT_IO;
    result->verb = (enum kvt_order_verb)le32toh(value.verb);
    result->code = (enum kvt_err)le32toh(value.code);
    result->done = le32toh(value.done);
    result->failed = le32toh(value.failed);
    result->bytes_moved = le64toh(value.bytes_moved);
    memcpy(result->text, value.text, sizeof(result->text));
    result->text[sizeof(result->text) - 1] = '\0';
    return KVT_OK;
}
