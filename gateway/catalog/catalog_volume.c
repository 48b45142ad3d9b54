#include <string.h>

#include "gateway/catalog/catalog.h"
#include "gateway/catalog/catalog_private.h"

#define FAR_ROW "far bucket"

/* The hot one's is older than there was another. */
static const char *
row_of(enum gateway_tier tier)
{
    return tier == GATEWAY_TIER_HOT ? "volume" : "volume warm";
}

/* A text of at least `least` bytes in so much room; "" unless KVT_OK. */
static enum kvt_err
read_text(struct gateway_catalog *catalog, const char *row, size_t least, char *text, size_t room)
{
    MDB_val name = kvt_lmdb_val(row, strlen(row));
    MDB_txn *txn = NULL;
    MDB_val value;
    int rc = mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn);

    text[0] = '\0';
    if (rc != 0)
        return KVT_IO;
    rc = mdb_get(txn, catalog->meta, &name, &value);
    if (rc == 0 && value.mv_size >= least && value.mv_size < room) {
        memcpy(text, value.mv_data, value.mv_size);
        text[value.mv_size] = '\0';
    } else if (rc == 0) {
        rc = MDB_CORRUPTED;
    }
    mdb_txn_abort(txn);
    return rc == 0 ? KVT_OK : rc == MDB_NOTFOUND ? KVT_NOTFOUND : KVT_IO;
}

static enum kvt_err
write_text(struct gateway_catalog *catalog, const char *row, const char *text, const char *what,
           struct kvt_error *err)
{
    MDB_val name = kvt_lmdb_val(row, strlen(row));
    MDB_val value = kvt_lmdb_val(text, strlen(text));
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
        return kvt_lmdb_error(err, rc, what);
    return kvt_lmdb_sync(catalog->env, err);
}

enum kvt_err
gateway_catalog_volume(struct gateway_catalog *catalog, enum gateway_tier tier,
                       char id[GATEWAY_VOLUME_ID_TEXT])
{
    return read_text(catalog, row_of(tier), GATEWAY_VOLUME_ID_TEXT - 1, id, GATEWAY_VOLUME_ID_TEXT);
}

enum kvt_err
gateway_catalog_name_volume(struct gateway_catalog *catalog, enum gateway_tier tier, const char *id,
                            struct kvt_error *err)
{
    return write_text(catalog, row_of(tier), id, "write the volume's id into the catalog", err);
}

enum kvt_err
gateway_catalog_far(struct gateway_catalog *catalog, char bucket[KVT_NAME_MAX])
{
    return read_text(catalog, FAR_ROW, 1, bucket, KVT_NAME_MAX);
}

enum kvt_err
gateway_catalog_name_far(struct gateway_catalog *catalog, const char *bucket, struct kvt_error *err)
{
    return write_text(catalog, FAR_ROW, bucket, "write the far bucket's name into the catalog",
                      err);
}
