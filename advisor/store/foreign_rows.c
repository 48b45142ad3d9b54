#include "advisor/store/foreign_rows.h"

#include <stdio.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"

static enum kvt_err
put(const struct advisor_txn *txn, enum advisor_table table, MDB_val key, const void *row,
    size_t size)
{
    MDB_val value = {.mv_size = size, .mv_data = NULL};
    const int rc = mdb_put(txn->handle, txn->store->tables[table], &key, &value, MDB_RESERVE);

    if (rc == 0)
        memcpy(value.mv_data, row, size);
    return advisor_store_code(rc);
}

static enum kvt_err
drop(const struct advisor_txn *txn, enum advisor_table table, MDB_val key)
{
    const int rc = mdb_del(txn->handle, txn->store->tables[table], &key, NULL);

    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

/* Copy each row of a table into `row`, of `size` bytes, and call `emit`. */
static enum kvt_err
walk(const struct advisor_txn *txn, enum advisor_table table, void *row, size_t size,
     enum kvt_err (*emit)(const void *to, void *arg, const void *row), const void *to, void *arg)
{
    MDB_cursor *cursor;
    MDB_val value;
    MDB_val key;
    enum kvt_err code = KVT_OK;
    int rc = mdb_cursor_open(txn->handle, txn->store->tables[table], &cursor);

    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST); rc == 0 && code == KVT_OK;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        if (value.mv_size != size) {
            code = KVT_CORRUPT;
            break;
        }
        memcpy(row, value.mv_data, size);
        code = emit(to, arg, row);
    }
    mdb_cursor_close(cursor);
    if (code != KVT_OK)
        return code;
    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

enum kvt_err
advisor_store_put_source(const struct advisor_txn *txn, const struct advisor_source_row *row)
{
    char key[KVT_NAME_MAX] = {0};

    (void)snprintf(key, sizeof(key), "%s", row->name);
    return put(txn, ADVISOR_TABLE_POSITIONS, advisor_val(key, sizeof(key)), row, sizeof(*row));
}

enum kvt_err
advisor_store_put_foreign(const struct advisor_txn *txn, const struct advisor_foreign_row *row)
{
    struct advisor_key_u32 key = {htobe32(row->number)};

    return put(txn, ADVISOR_TABLE_FOREIGN, advisor_val(&key, sizeof(key)), row, sizeof(*row));
}

enum kvt_err
advisor_store_delete_foreign(const struct advisor_txn *txn, uint32_t number)
{
    struct advisor_key_u32 key = {htobe32(number)};

    return drop(txn, ADVISOR_TABLE_FOREIGN, advisor_val(&key, sizeof(key)));
}

enum kvt_err
advisor_store_put_alias(const struct advisor_txn *txn, const struct advisor_alias_row *row)
{
    struct advisor_key_two key = {htobe64(row->publisher), htobe64(row->hash)};

    return put(txn, ADVISOR_TABLE_ALIASES, advisor_val(&key, sizeof(key)), row, sizeof(*row));
}

enum kvt_err
advisor_store_delete_alias(const struct advisor_txn *txn, uint32_t publisher, uint64_t hash)
{
    struct advisor_key_two key = {htobe64(publisher), htobe64(hash)};

    return drop(txn, ADVISOR_TABLE_ALIASES, advisor_val(&key, sizeof(key)));
}

/* The caller's function, by address: what is called through is an object. */
static enum kvt_err
emit_source(const void *to, void *arg, const void *row)
{
    return (*(advisor_store_source_fn *const *)to)(arg, row);
}

enum kvt_err
advisor_store_sources(const struct advisor_txn *txn, advisor_store_source_fn *callback, void *arg)
{
    struct advisor_source_row row;

    return walk(txn, ADVISOR_TABLE_POSITIONS, &row, sizeof(row), emit_source, &callback, arg);
}

static enum kvt_err
emit_foreign(const void *to, void *arg, const void *row)
{
    return (*(advisor_store_foreign_fn *const *)to)(arg, row);
}

enum kvt_err
advisor_store_foreigns(const struct advisor_txn *txn, advisor_store_foreign_fn *callback, void *arg)
{
    struct advisor_foreign_row row;

    return walk(txn, ADVISOR_TABLE_FOREIGN, &row, sizeof(row), emit_foreign, &callback, arg);
}

static enum kvt_err
emit_alias(const void *to, void *arg, const void *row)
{
    return (*(advisor_store_alias_fn *const *)to)(arg, row);
}

enum kvt_err
advisor_store_aliases(const struct advisor_txn *txn, advisor_store_alias_fn *callback, void *arg)
{
    struct advisor_alias_row row;

    return walk(txn, ADVISOR_TABLE_ALIASES, &row, sizeof(row), emit_alias, &callback, arg);
}

enum kvt_err
advisor_store_put_orphan(const struct advisor_txn *txn, uint32_t publisher, uint64_t serial,
                         const void *bytes, size_t size)
{
    struct advisor_key_two key = {htobe64(publisher), htobe64(serial)};

    return put(txn, ADVISOR_TABLE_ORPHANS, advisor_val(&key, sizeof(key)), bytes, size);
}

enum kvt_err
advisor_store_delete_orphan(const struct advisor_txn *txn, uint32_t publisher, uint64_t serial)
{
    struct advisor_key_two key = {htobe64(publisher), htobe64(serial)};

    return drop(txn, ADVISOR_TABLE_ORPHANS, advisor_val(&key, sizeof(key)));
}

enum kvt_err
advisor_store_orphans(const struct advisor_txn *txn, advisor_store_orphan_fn *callback, void *arg)
{
    struct advisor_key_two two;
    MDB_cursor *cursor;
    MDB_val value;
    MDB_val key;
    enum kvt_err code = KVT_OK;
    int rc = mdb_cursor_open(txn->handle, txn->store->tables[ADVISOR_TABLE_ORPHANS], &cursor);

    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST); rc == 0 && code == KVT_OK;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        if (key.mv_size != sizeof(two)) {
            code = KVT_CORRUPT;
            break;
        }
        memcpy(&two, key.mv_data, sizeof(two));
        code = callback(arg, (uint32_t)be64toh(two.first_big), be64toh(two.second_big),
                        value.mv_data, value.mv_size);
    }
    mdb_cursor_close(cursor);
    if (code != KVT_OK)
        return code;
    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}
