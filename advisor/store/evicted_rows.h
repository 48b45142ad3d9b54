/*
 * advisor/store/evicted_rows.h -- rows of blocks that are in the store alone.
 *
 * Why: advisor/index/evicted.h.  `cold` has (hash, namespace) -> parent, position, size, tokens,
 * places [holder, shards, number]; `cold_drops` has (holder, namespace) -> number.  Numbers count
 * the groups that evicted or dropped something: a place is void when its holder was dropped in that
 * namespace at its number or a later one.
 *
 * Ownership: rows are copied in and out.
 * Threads:   as advisor/store/durable_store.h.
 * Limits:    as advisor/store/durable_store.h.
 */
#ifndef ADVISOR_STORE_EVICTED_ROWS_H
#define ADVISOR_STORE_EVICTED_ROWS_H

#include "advisor/store/durable_store.h"

struct advisor_evicted_place {
    uint64_t number;
    uint32_t holder;
    uint32_t ranks;
};

/* A block; `places` is grown as needed, advisor_evicted_row_release() ends it. */
struct advisor_evicted_row {
    uint64_t hash;
    uint64_t parent;
    uint64_t tokens_hash;
    uint64_t size;
    uint32_t ns;
    uint32_t position;
    uint32_t place_count;
    size_t place_capacity;
    struct advisor_evicted_place *places;
};

void advisor_evicted_row_release(struct advisor_evicted_row *row);
/** Room for `count` places; KVT_OK, KVT_NOMEM or KVT_FULL (ADVISOR_STORE_PLACES_MAX). */
KVT_NODISCARD enum kvt_err advisor_evicted_row_reserve(struct advisor_evicted_row *row,
                                                       uint32_t count);

/** With void places.  KVT_NOTFOUND: `row` then has the key and no places. */
KVT_NODISCARD enum kvt_err advisor_store_get_cold(const struct advisor_txn *txn, uint32_t ns,
                                                  uint64_t hash, struct advisor_evicted_row *row);
/** A row without places is deleted. */
KVT_NODISCARD enum kvt_err advisor_store_put_cold(const struct advisor_txn *txn,
                                                  const struct advisor_evicted_row *row);
uint64_t advisor_store_evicted_count(const struct advisor_txn *txn);

typedef enum kvt_err advisor_store_evicted_fn(void *arg, struct advisor_evicted_row *row);

/** As advisor_store_blocks(); the callback must not write. */
KVT_NODISCARD enum kvt_err advisor_store_colds(const struct advisor_txn *txn, uint64_t from,
                                               size_t max, uint64_t *next,
                                               advisor_store_evicted_fn *callback, void *arg);

KVT_NODISCARD enum kvt_err advisor_store_put_cold_drop(const struct advisor_txn *txn,
                                                       uint32_t holder, uint32_t ns,
                                                       uint64_t number);
uint64_t advisor_store_evicted_drop_count(const struct advisor_txn *txn);
/** Those below a number go. */
KVT_NODISCARD enum kvt_err advisor_store_delete_cold_drops(const struct advisor_txn *txn,
                                                           uint64_t below);
/** Void places leave the row, not the store: `count` of them lie behind its places. */
KVT_NODISCARD enum kvt_err advisor_store_evicted_prune(const struct advisor_txn *txn,
                                                       struct advisor_evicted_row *row,
                                                       uint32_t *count);

/** Nothing is left of both tables. */
KVT_NODISCARD enum kvt_err advisor_store_clear_cold(const struct advisor_txn *txn);

#endif /* ADVISOR_STORE_EVICTED_ROWS_H */
