#include <string.h>

#include "gateway/catalog.h"
#include "gateway/catalog_private.h"

/* The hot one's is older than there was another. */
static const char *
row_of(enum gateway_tier tier)
{
    return tier == GATEWAY_TIER_HOT ? "volume" : "volume warm";
}

enum kvt_err
gateway_catalog_volume(struct gateway_catalog *catalog, enum gateway_tier tier,
                       char id[GATEWAY_VOLUME_ID])
{
    MDB_val name = kvt_db_val(row_of(tier), strlen(row_of(tier)));
    MDB_txn *txn = NULL;
    MDB_val value;
    int rc = mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn);

    id[0] = '\0';
    if (rc != 0)
        return KVT_IO;
    rc = mdb_get(txn, catalog->meta, &name, &value);
    if (rc == 0 && value.mv_size == GATEWAY_VOLUME_ID - 1) {
        memcpy(id, value.mv_data, value.mv_size);
        id[value.mv_size] = '\0';
    } else if (rc == 0) {
        rc = MDB_CORRUPTED;
    }
    mdb_txn_abort(txn);
    return rc == 0 ? KVT_OK : rc == MDB_NOTFOUND ? KVT_NOTFOUND : KVT_IO;
}

enum kvt_err
gateway_catalog_name_volume(struct gateway_catalog *catalog, enum gateway_tier tier, const char *id,
                            struct kvt_error *err)
{
    MDB_val name = kvt_db_val(row_of(tier), strlen(row_of(tier)));
    MDB_val value = kvt_db_val(id, GATEWAY_VOLUME_ID - 1);
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(catalog->env, NULL, 0, &txn);

    if (rc == 0) {
        rc = mdb_put(txn, catalog->meta, &name, &value, 0);
        if (rc == 0)
            rc = mdb_txn_commit(txn);
        else
            mdb_txn_abort(txn);
    }
    if (rc != 0)
        return kvt_db_error(err, rc, "write the volume's id into the catalog");
    return kvt_db_sync(catalog->env, err);
}
