#include <endian.h>
#include <string.h>

#include "gateway/catalog/catalog.h"
#include "gateway/catalog/catalog_private.h"

/* Little-endian in the database. */
struct note {
    uint64_t writing; /* the transaction that noted it: a later one is of later bytes */
    uint64_t length;
};

static int
take_note(const MDB_val *value, struct note *note)
{
    if (value->mv_size != sizeof(*note))
        return MDB_CORRUPTED;
    memcpy(note, value->mv_data, sizeof(*note));
    note->writing = le64toh(note->writing);
    note->length = le64toh(note->length);
    return 0;
}

static int
read_note(struct gateway_catalog *catalog, MDB_txn *txn, const char *key, struct note *note)
{
    MDB_val name = kvt_lmdb_val(key, strlen(key));
    MDB_val value;
    const int rc = mdb_get(txn, catalog->unsynced, &name, &value);

    return rc != 0 ? rc : take_note(&value, note);
}

static void
count_note(struct gateway_catalog *catalog, const struct note *note, bool add)
{
    catalog->unsynced_now.blocks += add ? 1 : UINT64_MAX; /* wraps: subtracts */
    catalog->unsynced_now.bytes += add ? note->length : 0 - note->length;
}

int
gateway_catalog_note_unsynced(struct gateway_catalog *catalog, MDB_txn *txn, const char *key,
                              uint64_t length)
{
    const struct note note = {.writing = mdb_txn_id(txn), .length = length};
    const struct note bytes = {.writing = htole64(note.writing), .length = htole64(length)};
    MDB_val name = kvt_lmdb_val(key, strlen(key));
    MDB_val value = kvt_lmdb_val(&bytes, sizeof(bytes));
    struct note old;
    int rc = read_note(catalog, txn, key, &old);

    if (rc == 0)
        count_note(catalog, &old, false);
    else if (rc != MDB_NOTFOUND)
        return rc;
    rc = mdb_put(txn, catalog->unsynced, &name, &value, 0);
    if (rc == 0)
        count_note(catalog, &note, true);
    return rc;
}

static int
forget(struct gateway_catalog *catalog, MDB_txn *txn, const struct gateway_unsynced_row *row)
{
    MDB_val name = kvt_lmdb_val(row->key, strlen(row->key));
    struct note note;
    int rc = read_note(catalog, txn, row->key, &note);

    if (rc == MDB_NOTFOUND || (rc == 0 && note.writing != row->writing))
        return 0;
    if (rc == 0)
        rc = mdb_del(txn, catalog->unsynced, &name, NULL);
    if (rc == 0)
        count_note(catalog, &note, false);
    return rc;
}

int
gateway_catalog_apply_synced(struct gateway_catalog *catalog, MDB_txn *txn,
                             const struct gateway_job *job)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < job->synced_count; i++)
        rc = forget(catalog, txn, &job->synced[i]);
    return rc;
}

int
gateway_catalog_count_unsynced(struct gateway_catalog *catalog, MDB_txn *txn)
{
    MDB_cursor *cursor = NULL;
    struct note note;
    MDB_val value;
    MDB_val name;
    int rc = mdb_cursor_open(txn, catalog->unsynced, &cursor);

    if (rc != 0)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) == 0) {
        rc = take_note(&value, &note);
        if (rc != 0)
            break;
        count_note(catalog, &note, true);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* ---- for others ---- */

static int
take_row(const MDB_val *name, const MDB_val *value, struct gateway_unsynced_row *row)
{
    struct note note;
    const int rc = take_note(value, &note);

    if (rc != 0 || name->mv_size >= sizeof(row->key))
        return MDB_CORRUPTED;
    memcpy(row->key, name->mv_data, name->mv_size);
    row->key[name->mv_size] = '\0';
    row->writing = note.writing;
    row->length = note.length;
    return 0;
}

/* Move to the first note behind the key. */
static int
seek(MDB_cursor *cursor, const char *after, MDB_val *name, MDB_val *value)
{
    const size_t size = strlen(after);
    int rc;

    if (size == 0)
        return mdb_cursor_get(cursor, name, value, MDB_FIRST);
    *name = kvt_lmdb_val(after, size);
    rc = mdb_cursor_get(cursor, name, value, MDB_SET_RANGE);
    if (rc == 0 && name->mv_size == size && memcmp(name->mv_data, after, size) == 0)
        rc = mdb_cursor_get(cursor, name, value, MDB_NEXT);
    return rc;
}

enum kvt_err
gateway_catalog_unsynced(struct gateway_catalog *catalog, const char *after,
                         struct gateway_unsynced_row *rows, size_t capacity, size_t *count)
{
    MDB_cursor *cursor = NULL;
    MDB_txn *txn = NULL;
    MDB_val value;
    MDB_val name;
    int rc;

    *count = 0;
    if (mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn) != 0)
        return KVT_IO;
    rc = mdb_cursor_open(txn, catalog->unsynced, &cursor);
    if (rc == 0)
        rc = seek(cursor, after, &name, &value);
    while (rc == 0 && *count < capacity) {
        rc = take_row(&name, &value, &rows[*count]);
        if (rc != 0)
            break;
        (*count)++;
        rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
    }
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    return rc == 0 || rc == MDB_NOTFOUND ? KVT_OK : KVT_IO;
}

enum kvt_err
gateway_catalog_synced(struct gateway_catalog *catalog, const struct gateway_unsynced_row *rows,
                       size_t count)
{
    struct gateway_job job = {.synced = rows, .synced_count = count, .wait = GATEWAY_APPLIED};

    return count == 0 ? KVT_OK : gateway_catalog_submit(catalog, &job);
}
