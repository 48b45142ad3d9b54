#include "advisor/store/policy_version_rows.h"

#include <string.h>

#include "advisor/store/durable_store_private.h"

/* Keys are versions; the values begin with the row.  Key 0 has the digest of the last file. */

_Static_assert(sizeof(struct advisor_policy_row) == 136, "no padding on disk");

static MDB_dbi
table_of(const struct advisor_txn *txn)
{
    return txn->store->tables[ADVISOR_TABLE_POLICIES];
}

/* The text of a value is behind its row. */
static enum kvt_err
unpack(const MDB_val *value, uint64_t version, struct advisor_policy_row *row, const char **text)
{
    if (value->mv_size < sizeof(*row))
        return KVT_CORRUPT;
    memcpy(row, value->mv_data, sizeof(*row));
    if (row->version != version || row->size != value->mv_size - sizeof(*row) ||
        memchr(row->source, '\0', sizeof(row->source)) == NULL ||
        memchr(row->digest, '\0', ADVISOR_POLICY_DIGEST_MAX) == NULL)
        return KVT_CORRUPT;
    *text = (const char *)value->mv_data + sizeof(*row);
    return KVT_OK;
}

struct walk {
    advisor_store_policy_fn *callback;
    void *arg;
    const char *text; /* of the row in hand */
};

/* KVT_NOTFOUND is where the versions end. */
static enum kvt_err
emit(void *arg, MDB_val key, MDB_val value)
{
    struct walk *walk = arg;
    struct advisor_policy_row row;
    uint64_t version;
    enum kvt_err rc;

    if (key.mv_size != sizeof(version))
        return KVT_CORRUPT;
    memcpy(&version, key.mv_data, sizeof(version));
    version = be64toh(version);
    rc = version == 0 ? KVT_NOTFOUND : unpack(&value, version, &row, &walk->text);
    return rc == KVT_OK ? walk->callback(walk->arg, &row) : rc;
}

static enum kvt_err
walk_rows(const struct advisor_txn *txn, struct walk *walk)
{
    const enum kvt_err rc = advisor_table_walk(txn, ADVISOR_TABLE_POLICIES, MDB_LAST, emit, walk);

    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
advisor_store_policies(const struct advisor_txn *txn, advisor_store_policy_fn *callback, void *arg)
{
    struct walk walk = {.callback = callback, .arg = arg};

    return walk_rows(txn, &walk);
}

static enum kvt_err
take_first(void *arg, const struct advisor_policy_row *row)
{
    *(struct advisor_policy_row *)arg = *row;
    return KVT_CANCELLED;
}

enum kvt_err
advisor_store_policy(const struct advisor_txn *txn, uint64_t version,
                     struct advisor_policy_row *row, const char **text)
{
    struct walk walk = {.callback = take_first, .arg = row};
    uint64_t id = htobe64(version);
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value;
    enum kvt_err rc;

    *row = (struct advisor_policy_row){.version = 0};
    *text = NULL;
    if (version == 0) {
        rc = walk_rows(txn, &walk);
        if (rc == KVT_CANCELLED)
            *text = walk.text;
        return rc == KVT_CANCELLED ? KVT_OK : rc == KVT_OK ? KVT_NOTFOUND : rc;
    }
    rc = advisor_store_code(mdb_get(txn->handle, table_of(txn), &key, &value));
    return rc == KVT_OK ? unpack(&value, version, row, text) : rc;
}

enum kvt_err
advisor_store_put_policy(const struct advisor_txn *txn, const struct advisor_policy_row *row,
                         const char *text)
{
    uint64_t id = htobe64(row->version);
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value = {.mv_size = sizeof(*row) + row->size, .mv_data = NULL};
    int rc = mdb_put(txn->handle, table_of(txn), &key, &value, MDB_RESERVE);

    if (rc != 0)
        return advisor_store_code(rc);
    memcpy(value.mv_data, row, sizeof(*row));
    memcpy((char *)value.mv_data + sizeof(*row), text, row->size);
    if (row->version <= ADVISOR_POLICIES_KEPT)
        return KVT_OK;
    /* Versions have no holes, so that one goes for one that comes. */
    id = htobe64(row->version - ADVISOR_POLICIES_KEPT);
    return advisor_table_delete(txn, ADVISOR_TABLE_POLICIES, key);
}

enum kvt_err
advisor_store_policy_file(const struct advisor_txn *txn, char digest[ADVISOR_POLICY_DIGEST_MAX])
{
    uint64_t id = 0;
    const enum kvt_err rc =
        advisor_table_get(txn, ADVISOR_TABLE_POLICIES, advisor_val(&id, sizeof(id)), digest,
                          ADVISOR_POLICY_DIGEST_MAX);

    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    return rc == KVT_OK && !advisor_text_ends(digest, ADVISOR_POLICY_DIGEST_MAX) ? KVT_CORRUPT : rc;
}

enum kvt_err
advisor_store_put_policy_file(const struct advisor_txn *txn,
                              const char digest[ADVISOR_POLICY_DIGEST_MAX])
{
    uint64_t id = 0;

    return advisor_table_put(txn, ADVISOR_TABLE_POLICIES, advisor_val(&id, sizeof(id)), digest,
                             ADVISOR_POLICY_DIGEST_MAX);
}
