/*
 * advisor/store/durable_store_private.h -- what the files store*.c share: tables and keys.
 *
 * Why: rows, blocks and reading offline are each a page of their own.
 */
#ifndef ADVISOR_STORE_DURABLE_STORE_PRIVATE_H
#define ADVISOR_STORE_DURABLE_STORE_PRIVATE_H

#include <endian.h>
#include <lmdb.h>
#include <string.h>

#include "advisor/store/durable_store.h"

enum advisor_table {
    ADVISOR_TABLE_META,
    ADVISOR_TABLE_NAMESPACES,
    ADVISOR_TABLE_HOLDERS,
    ADVISOR_TABLE_PUBLISHERS,
    ADVISOR_TABLE_SWEEPS,
    ADVISOR_TABLE_GATEWAYS,
    ADVISOR_TABLE_ORDERS,
    ADVISOR_TABLE_BLOCKS,
    ADVISOR_TABLE_HELD,
    ADVISOR_TABLE_POSITIONS,
    ADVISOR_TABLE_FOREIGN,
    ADVISOR_TABLE_ALIASES,
    ADVISOR_TABLE_ORPHANS,
    ADVISOR_TABLE_JOURNAL,
    ADVISOR_TABLE_RUNS_A,
    ADVISOR_TABLE_RUNS_B,
    ADVISOR_TABLE_COLD,
    ADVISOR_TABLE_COLD_DROPS,
    ADVISOR_TABLE_LEARNED,
    ADVISOR_TABLE_POLICIES,
    ADVISOR_TABLE_JOBS,
    ADVISOR_TABLE_JOB_MOVES,
    ADVISOR_TABLE_PINS, /* a folder of a former version has none */
    ADVISOR_TABLE_SEEN, /* the same */
    ADVISOR_TABLE_COUNT,
};

/* Rows of `meta` that are no numbers; these begin behind enum advisor_meta. */
#define ADVISOR_META_LOG 0x10000u /* struct advisor_store_log */

struct advisor_store {
    MDB_env *env;
    MDB_dbi tables[ADVISOR_TABLE_COUNT];
    uint64_t map_bytes;
    int lock_fd; /* one writer a folder; -1: read-only */
};

struct advisor_key_u32 {
    uint32_t big;
};

struct advisor_key_two {
    uint64_t first_big;
    uint64_t second_big;
};

static inline MDB_val
advisor_val(void *bytes, size_t size)
{
    return (MDB_val){.mv_size = size, .mv_data = bytes};
}

/** Is the text of a row terminated?  A failing machine may have written it. */
static inline bool
advisor_text_ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

/* ---- values of any table ---- */

KVT_NODISCARD enum kvt_err advisor_table_put(const struct advisor_txn *txn,
                                             enum advisor_table table, MDB_val key,
                                             const void *bytes, size_t size);
/** A value of `size` bytes; all 0 unless KVT_OK.  KVT_CORRUPT: it has another size. */
KVT_NODISCARD enum kvt_err advisor_table_get(const struct advisor_txn *txn,
                                             enum advisor_table table, MDB_val key, void *bytes,
                                             size_t size);
/** A missing key is no error. */
KVT_NODISCARD enum kvt_err advisor_table_delete(const struct advisor_txn *txn,
                                                enum advisor_table table, MDB_val key);

typedef enum kvt_err advisor_table_fn(void *arg, MDB_val key, MDB_val value);

/** Calls back for each value, forwards from MDB_FIRST or backwards from MDB_LAST, until one returns
 *  another code than KVT_OK, which is then returned.  A file without the table has no values. */
KVT_NODISCARD enum kvt_err advisor_table_walk(const struct advisor_txn *txn,
                                              enum advisor_table table, MDB_cursor_op first,
                                              advisor_table_fn *callback, void *arg);
/** 0 in a file without the table. */
uint64_t advisor_table_count(const struct advisor_txn *txn, enum advisor_table table);

/* ---- rows of blocks, by (hash, namespace): a head, and places behind it (block_rows.c) ---- */

/** Room for `count` places of `size` bytes; KVT_OK, KVT_NOMEM or KVT_FULL
 *  (ADVISOR_STORE_PLACES_MAX). */
KVT_NODISCARD enum kvt_err advisor_store_reserve_places(void **places, size_t *capacity,
                                                        uint32_t count, size_t size);
/** KVT_OK, or what the store says (KVT_NOTFOUND: there is none). */
KVT_NODISCARD enum kvt_err advisor_block_row_get(const struct advisor_txn *txn,
                                                 enum advisor_table table, uint32_t ns,
                                                 uint64_t hash, MDB_val *value);
/** A row without places is deleted. */
KVT_NODISCARD enum kvt_err advisor_block_row_put(const struct advisor_txn *txn,
                                                 enum advisor_table table, uint32_t ns,
                                                 uint64_t hash, MDB_val head, MDB_val places);

typedef enum kvt_err advisor_block_row_fn(void *arg, uint32_t ns, uint64_t hash,
                                          const MDB_val *value);
/** As advisor_store_blocks(). */
KVT_NODISCARD enum kvt_err advisor_block_rows(const struct advisor_txn *txn,
                                              enum advisor_table table, uint64_t from, size_t max,
                                              uint64_t *next, advisor_block_row_fn *callback,
                                              void *arg);

/** Code of an LMDB result inside a transaction; its text is of no use to anyone there. */
enum kvt_err advisor_store_code(int rc);

#endif /* ADVISOR_STORE_DURABLE_STORE_PRIVATE_H */
