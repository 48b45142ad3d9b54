#include "advisor/store/foreign_rows.h"

#include <string.h>

#include "advisor/store/durable_store_private.h"

enum kvt_err
advisor_store_put_orphan(const struct advisor_txn *txn, uint32_t publisher, uint64_t serial,
                         const void *bytes, size_t size)
{
    struct advisor_key_two key = {htobe64(publisher), htobe64(serial)};

    return advisor_table_put(txn, ADVISOR_TABLE_ORPHANS, advisor_val(&key, sizeof(key)), bytes,
                             size);
}

enum kvt_err
advisor_store_delete_orphan(const struct advisor_txn *txn, uint32_t publisher, uint64_t serial)
{
    struct advisor_key_two key = {htobe64(publisher), htobe64(serial)};

    return advisor_table_delete(txn, ADVISOR_TABLE_ORPHANS, advisor_val(&key, sizeof(key)));
}

struct walk {
    advisor_store_orphan_fn *callback;
    void *arg;
};

static enum kvt_err
emit(void *arg, MDB_val key, MDB_val value)
{
    const struct walk *walk = arg;
    struct advisor_key_two two;

    if (key.mv_size != sizeof(two))
        return KVT_CORRUPT;
    memcpy(&two, key.mv_data, sizeof(two));
    return walk->callback(walk->arg, (uint32_t)be64toh(two.first_big), be64toh(two.second_big),
                          value.mv_data, value.mv_size);
}

enum kvt_err
advisor_store_orphans(const struct advisor_txn *txn, advisor_store_orphan_fn *callback, void *arg)
{
    struct walk walk = {callback, arg};

    return advisor_table_walk(txn, ADVISOR_TABLE_ORPHANS, MDB_FIRST, emit, &walk);
}
