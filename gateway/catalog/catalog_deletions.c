#include <endian.h>
#include <string.h>

#include "gateway/catalog/catalog.h"
#include "gateway/catalog/catalog_private.h"

/* Little-endian: minute and rows of each slot. */
struct deletions_value {
    uint64_t words[2 * GATEWAY_DELETION_SLOTS];
};

static const char deletions_name[] = "deletions";

int
gateway_catalog_store_deletions(struct gateway_catalog *catalog, MDB_txn *txn,
                                const struct gateway_deletions *deletions)
{
    MDB_val name = kvt_lmdb_val(deletions_name, sizeof(deletions_name) - 1);
    struct deletions_value value;
    MDB_val bytes = kvt_lmdb_val(&value, sizeof(value));

    for (size_t i = 0; i < GATEWAY_DELETION_SLOTS; i++) {
        value.words[2 * i] = htole64(deletions->slots[i].minute);
        value.words[2 * i + 1] = htole64(deletions->slots[i].rows);
    }
    return mdb_put(txn, catalog->meta, &name, &bytes, 0);
}

enum kvt_err
gateway_catalog_deletions(struct gateway_catalog *catalog, struct gateway_deletions *deletions)
{
    MDB_val name = kvt_lmdb_val(deletions_name, sizeof(deletions_name) - 1);
    struct deletions_value value;
    MDB_txn *txn = NULL;
    MDB_val bytes;
    int rc;

    *deletions = (struct gateway_deletions){0};
    if (mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn) != 0)
        return KVT_IO;
    rc = mdb_get(txn, catalog->meta, &name, &bytes);
    if (rc == 0 && bytes.mv_size == sizeof(value))
        memcpy(&value, bytes.mv_data, sizeof(value));
    else if (rc == 0)
        rc = MDB_CORRUPTED;
    mdb_txn_abort(txn);
    if (rc == MDB_NOTFOUND)
        return KVT_OK; /* nothing was deleted yet */
    if (rc != 0)
        return KVT_IO;
    for (size_t i = 0; i < GATEWAY_DELETION_SLOTS; i++)
        deletions->slots[i] = (struct gateway_deletion_slot){
            .minute = le64toh(value.words[2 * i]), .rows = le64toh(value.words[2 * i + 1])};
    return KVT_OK;
}

enum kvt_err
gateway_catalog_keep_deletions(struct gateway_catalog *catalog,
                               const struct gateway_deletions *deletions)
{
    struct gateway_job job = {.deletions = deletions, .wait = GATEWAY_DURABLE};

    return gateway_catalog_submit(catalog, &job);
}
