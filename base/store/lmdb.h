/*
 * base/store/lmdb.h -- opening an LMDB environment the way both daemons need it.
 *
 * Why: the durability flags, the reserved map and the meaning of "map full" must not differ between
 * the advisor's index and the gateway's catalog.  No WRITEMAP, no NOSYNC: MDB_NOMETASYNC, and the
 * owner calls kvt_lmdb_sync() once per group.
 *
 * Ownership: the MDB_env belongs to the caller; close it with mdb_env_close().
 * Threads:   one writer thread; readers in short read transactions.
 * Limits:    `map_bytes` is the quota: what does not fit is KVT_FULL, and nothing is lost.
 */
#ifndef BASE_STORE_LMDB_H
#define BASE_STORE_LMDB_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

struct kvt_lmdb_options {
    const char *path; /* a folder, made when missing (not for read_only) */
    uint64_t map_bytes;
    unsigned databases_max;
    bool read_only;
};

KVT_NODISCARD enum kvt_err kvt_lmdb_open(MDB_env **out, const struct kvt_lmdb_options *options,
                                         struct kvt_error *err);

/** Make every committed transaction durable. */
KVT_NODISCARD enum kvt_err kvt_lmdb_sync(MDB_env *env, struct kvt_error *err);

/** Forget readers whose process died: a snapshot nobody looks at keeps every page freed since.
 *  Cheap; worth a call when the map is full, and now and then before. */
void kvt_lmdb_forget_dead(MDB_env *env);

/** Bytes as LMDB takes keys and values, which it only reads when they are put or looked for. */
MDB_val kvt_lmdb_val(const void *bytes, size_t size);

/** The code for an LMDB result, with `what` and its text in `err`. */
enum kvt_err kvt_lmdb_error(struct kvt_error *err, int rc, const char *what);

/** Bytes in use (pages not on the free list are not counted exactly: last page x page size). */
uint64_t kvt_lmdb_used(MDB_env *env);

#endif /* BASE_STORE_LMDB_H */
