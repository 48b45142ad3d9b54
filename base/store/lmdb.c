#include "base/store/lmdb.h"

#include "base/core/file.h"

enum { FILE_MODE = 0600, READERS_MAX = 126 };

enum kvt_err
kvt_lmdb_error(struct kvt_error *err, int rc, const char *what)
{
    enum kvt_err code;

    switch (rc) {
    case MDB_SUCCESS: return KVT_OK;
    case MDB_MAP_FULL: code = KVT_FULL; break;
    case MDB_NOTFOUND: code = KVT_NOTFOUND; break;
    case MDB_KEYEXIST: code = KVT_EXISTS; break;
    case MDB_READERS_FULL: code = KVT_AGAIN; break;
    case MDB_TXN_FULL: code = KVT_FULL; break;
    case MDB_BAD_VALSIZE: code = KVT_RANGE; break;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH: code = KVT_CORRUPT; break;
    case MDB_MAP_RESIZED: code = KVT_AGAIN; break;
    default:
        if (rc > 0)
            return kvt_error_sys(err, rc, "%s", what);
        code = KVT_IO;
    }
    return kvt_error_set(err, code, "%s: %s%s", what,
                         code == KVT_FULL ? "the database is full: " : "", mdb_strerror(rc));
}

/* A map is whole pages; a quota that is none is rounded down, so it is never exceeded. */
static size_t
map_size(uint64_t bytes)
{
    const uint64_t page = 65536; /* a multiple of every page size Linux has */

    return (size_t)(bytes < page ? page : bytes / page * page);
}

enum kvt_err
kvt_lmdb_open(MDB_env **out, const struct kvt_lmdb_options *options, struct kvt_error *err)
{
    const unsigned flags = options->read_only ? MDB_RDONLY | MDB_NOTLS : MDB_NOMETASYNC | MDB_NOTLS;
    MDB_env *env = NULL;
    enum kvt_err code;
    int rc;

    *out = NULL;
    if (!options->read_only) {
        code = kvt_folder_make(options->path, err);
        if (code != KVT_OK)
            return code;
    }
    rc = mdb_env_create(&env);
    if (rc == 0)
        rc = mdb_env_set_maxreaders(env, READERS_MAX);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(env, options->databases_max);
    if (rc == 0 && options->map_bytes > 0)
        rc = mdb_env_set_mapsize(env, map_size(options->map_bytes));
    if (rc == 0)
        rc = mdb_env_open(env, options->path, flags, FILE_MODE);
    if (rc != 0) {
        code = kvt_lmdb_error(err, rc, options->path);
        mdb_env_close(env); /* NULL is allowed */
        return code;
    }
    /* LMDB syncs its file, but nobody the file's name. */
    if (!options->read_only) {
        code = kvt_folder_sync(options->path, err);
        if (code != KVT_OK) {
            mdb_env_close(env);
            return code;
        }
    }
    if (!options->read_only)
        kvt_lmdb_forget_dead(env);
    *out = env;
    return KVT_OK;
}

enum kvt_err
kvt_lmdb_sync(MDB_env *env, struct kvt_error *err)
{
    return kvt_lmdb_error(err, mdb_env_sync(env, 1), "sync the database");
}

void
kvt_lmdb_forget_dead(MDB_env *env)
{
    int dead;

    (void)mdb_reader_check(env, &dead); /* what it cannot clear now, it can the next time */
}

uint64_t
kvt_lmdb_used(MDB_env *env)
{
    MDB_envinfo info;
    MDB_stat stat;

    if (mdb_env_info(env, &info) != 0 || mdb_env_stat(env, &stat) != 0)
        return 0;
    return ((uint64_t)info.me_last_pgno + 1) * stat.ms_psize;
}

MDB_val
kvt_lmdb_val(const void *bytes, size_t size)
{
    union {
        const void *in;
        void *out;
    } pointer = {.in = bytes};

    return (MDB_val){.mv_size = size, .mv_data = pointer.out};
}
