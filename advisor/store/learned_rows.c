#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "kvtier/ordering.h"

/* Keys are "<tier>\0<ordering>\0". */

enum { KEY_MAX = KVT_NAME_MAX + KVT_ORDERING_NAME_MAX };

enum kvt_err
advisor_store_put_learned(const struct advisor_txn *txn, const char *tier, const char *ordering,
                          const void *bytes, size_t size)
{
    char text[KEY_MAX];
    const size_t tier_size = strlen(tier) + 1;
    const size_t ordering_size = strlen(ordering) + 1;
    MDB_val key = advisor_val(text, tier_size + ordering_size);
    MDB_val value = {.mv_size = size, .mv_data = NULL};
    int rc;

    if (tier_size > KVT_NAME_MAX || ordering_size > KVT_ORDERING_NAME_MAX)
        return KVT_RANGE;
    memcpy(text, tier, tier_size);
    memcpy(text + tier_size, ordering, ordering_size);
    rc = mdb_put(txn->handle, txn->store->tables[ADVISOR_TABLE_LEARNED], &key, &value, MDB_RESERVE);
    if (rc == 0)
        memcpy(value.mv_data, bytes, size);
    return advisor_store_code(rc);
}

static enum kvt_err
emit(const MDB_val *key, const MDB_val *value, advisor_store_learned_fn *callback, void *arg)
{
    const char *tier = key->mv_data;
    const char *end = memchr(tier, '\0', key->mv_size);
    const size_t left = end == NULL ? 0 : key->mv_size - (size_t)(end + 1 - tier);

    if (left == 0 || memchr(end + 1, '\0', left) != end + left)
        return KVT_CORRUPT;
    return callback(arg, tier, end + 1, value->mv_data, value->mv_size);
}

enum kvt_err
advisor_store_learned(const struct advisor_txn *txn, advisor_store_learned_fn *callback, void *arg)
{
    enum kvt_err code = KVT_OK;
    MDB_cursor *cursor;
    MDB_val value;
    MDB_val key;
    int rc = mdb_cursor_open(txn->handle, txn->store->tables[ADVISOR_TABLE_LEARNED], &cursor);

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
