#include "advisor/store/durable_store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "advisor/store/durable_store_private.h"
#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/store/lmdb.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are stored as they lie in memory");

static const char *const table_names[ADVISOR_TABLE_COUNT] = {
    "meta", "namespaces", "holders", "publishers", "sweeps",  "gateways",  "orders", "blocks",
    "held", "positions",  "foreign", "aliases",    "orphans", "journal",   "runs_a", "runs_b",
    "cold", "cold_drops", "learned", "policies",   "jobs",    "job_moves", "pins",   "seen",
};

enum kvt_err
advisor_store_code(int rc)
{
    return kvt_lmdb_error(NULL, rc, "");
}

static enum kvt_err
check_format(const struct advisor_txn *txn, bool read_only, struct kvt_error *err)
{
    uint64_t format = 0;
    enum kvt_err rc = advisor_store_number(txn, ADVISOR_META_FORMAT, &format);

    if (rc == KVT_OK && format == 0 && !read_only) {
        format = ADVISOR_STORE_FORMAT;
        rc = advisor_store_put_number(txn, ADVISOR_META_FORMAT, format);
    }
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "read the index's format: %s", kvt_err_text(rc));
    if (format != ADVISOR_STORE_FORMAT)
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "the index has format %" PRIu64 ", this program reads %d; move the "
                             "folder away to build it anew from the workers",
                             format, ADVISOR_STORE_FORMAT);
    return KVT_OK;
}

static enum kvt_err
open_tables(struct advisor_store *store, bool read_only, struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc =
        read_only ? advisor_store_read(store, &txn, err) : advisor_store_write(store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < ADVISOR_TABLE_COUNT && rc == KVT_OK; i++) {
        const int code =
            mdb_dbi_open(txn.handle, table_names[i], read_only ? 0 : MDB_CREATE, &store->tables[i]);

        if (code == MDB_NOTFOUND && (i == ADVISOR_TABLE_PINS || i == ADVISOR_TABLE_SEEN)) {
            store->tables[i] = 0;
            continue;
        }
        rc = kvt_lmdb_error(err, code, "open the index");
        /* Another format has other tables: what is missing says less than the format does. */
        if (rc == KVT_OK && i == ADVISOR_TABLE_META)
            rc = check_format(&txn, read_only, err);
    }
    /* Also a read: LMDB keeps the table handles only of a transaction that was committed. */
    if (rc == KVT_OK)
        return advisor_store_commit(&txn, err);
    advisor_store_end(&txn);
    return rc;
}

/* LMDB lets two processes write in turn; two advisors would each follow only half of the events. */
static enum kvt_err
lock_folder(struct advisor_store *store, const char *folder, struct kvt_error *err)
{
    char path[4096];
    enum kvt_err rc = kvt_folder_make(folder, err);

    if (rc != KVT_OK)
        return rc;
    if (snprintf(path, sizeof(path), "%s/lock", folder) >= (int)sizeof(path))
        return kvt_error_set(err, KVT_RANGE, "%s: name too long", folder);
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock_fd < 0)
        return kvt_error_sys(err, errno, "open %s", path);
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? kvt_error_set(err, KVT_BUSY, "another advisor runs on %s", folder)
                   : kvt_error_sys(err, errno, "lock %s", path);
    return KVT_OK;
}

enum kvt_err
advisor_store_open(struct advisor_store **out, const struct advisor_store_options *options,
                   struct kvt_error *err)
{
    const struct kvt_lmdb_options db = {
        .path = options->path,
        .map_bytes = options->map_bytes,
        .databases_max = ADVISOR_TABLE_COUNT,
        .read_only = options->read_only,
    };
    struct advisor_store *store = kvt_calloc(1, sizeof(*store));
    MDB_envinfo info;
    enum kvt_err rc;

    *out = NULL;
    if (store == NULL)
        return kvt_error_set(err, KVT_NOMEM, "index in %s", options->path);
    store->lock_fd = -1;
    rc = options->read_only ? KVT_OK : lock_folder(store, options->path, err);
    if (rc == KVT_OK)
        rc = kvt_lmdb_open(&store->env, &db, err);
    if (rc == KVT_OK)
        rc = open_tables(store, options->read_only, err);
    if (rc == KVT_OK)
        rc = kvt_lmdb_error(err, mdb_env_info(store->env, &info), "look at the index");
    if (rc != KVT_OK) {
        advisor_store_close(store);
        return rc;
    }
    store->map_bytes = info.me_mapsize;
    *out = store;
    return KVT_OK;
}

void
advisor_store_close(struct advisor_store *store)
{
    if (store == NULL)
        return;
    if (store->env != NULL)
        mdb_env_close(store->env);
    if (store->lock_fd >= 0)
        (void)close(store->lock_fd);
    kvt_free(store);
}

void
advisor_store_size(struct advisor_store *store, uint64_t *used, uint64_t *max)
{
    *used = kvt_lmdb_used(store->env);
    *max = store->map_bytes;
}

static enum kvt_err
begin(struct advisor_store *store, unsigned flags, struct advisor_txn *txn, struct kvt_error *err)
{
    *txn = (struct advisor_txn){.store = store};
    return kvt_lmdb_error(err, mdb_txn_begin(store->env, NULL, flags, &txn->handle),
                          "begin a transaction");
}

enum kvt_err
advisor_store_write(struct advisor_store *store, struct advisor_txn *txn, struct kvt_error *err)
{
    kvt_lmdb_forget_dead(store->env); /* a command that was killed must not keep pages for ever */
    return begin(store, 0, txn, err);
}

enum kvt_err
advisor_store_read(struct advisor_store *store, struct advisor_txn *txn, struct kvt_error *err)
{
    return begin(store, MDB_RDONLY, txn, err);
}

enum kvt_err
advisor_store_commit(struct advisor_txn *txn, struct kvt_error *err)
{
    MDB_txn *handle = txn->handle;

    assert(handle != NULL);
    txn->handle = NULL; /* freed also when it fails */
    return kvt_lmdb_error(err, mdb_txn_commit(handle), "commit to the index");
}

void
advisor_store_end(struct advisor_txn *txn)
{
    if (txn->handle != NULL)
        mdb_txn_abort(txn->handle);
    txn->handle = NULL;
}

enum kvt_err
advisor_store_sync(struct advisor_store *store, struct kvt_error *err)
{
    return kvt_lmdb_sync(store->env, err);
}

/* ---- values of any table ---- */

enum kvt_err
advisor_table_put(const struct advisor_txn *txn, enum advisor_table table, MDB_val key,
                  const void *bytes, size_t size)
{
    MDB_val value = {.mv_size = size, .mv_data = NULL};
    const int rc = mdb_put(txn->handle, txn->store->tables[table], &key, &value, MDB_RESERVE);

    if (rc == 0)
        memcpy(value.mv_data, bytes, size);
    return advisor_store_code(rc);
}

enum kvt_err
advisor_table_get(const struct advisor_txn *txn, enum advisor_table table, MDB_val key, void *bytes,
                  size_t size)
{
    MDB_val value;
    const int rc = mdb_get(txn->handle, txn->store->tables[table], &key, &value);

    memset(bytes, 0, size);
    if (rc != 0)
        return advisor_store_code(rc);
    if (value.mv_size != size)
        return KVT_CORRUPT;
    memcpy(bytes, value.mv_data, size);
    return KVT_OK;
}

enum kvt_err
advisor_table_delete(const struct advisor_txn *txn, enum advisor_table table, MDB_val key)
{
    const int rc = mdb_del(txn->handle, txn->store->tables[table], &key, NULL);

    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

enum kvt_err
advisor_table_walk(const struct advisor_txn *txn, enum advisor_table table, MDB_cursor_op first,
                   advisor_table_fn *callback, void *arg)
{
    const MDB_cursor_op next = first == MDB_LAST ? MDB_PREV : MDB_NEXT;
    enum kvt_err code = KVT_OK;
    MDB_cursor *cursor;
    MDB_val value;
    MDB_val key;
    int rc;

    if (txn->store->tables[table] == 0)
        return KVT_OK;
    rc = mdb_cursor_open(txn->handle, txn->store->tables[table], &cursor);
    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, first); rc == 0 && code == KVT_OK;
         rc = mdb_cursor_get(cursor, &key, &value, next))
        code = callback(arg, key, value);
    mdb_cursor_close(cursor);
    if (code != KVT_OK)
        return code;
    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

uint64_t
advisor_table_count(const struct advisor_txn *txn, enum advisor_table table)
{
    MDB_stat stat;

    if (mdb_stat(txn->handle, txn->store->tables[table], &stat) != 0)
        return 0;
    return stat.ms_entries;
}
