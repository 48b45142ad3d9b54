/*
 * advisor/answer/finder.h -- answers: who has the longest prefix, which blocks are where, what is
 * known of one.
 *
 * Why: HTTP and NATS ask the same questions, and RAM or disk may have to answer them: RAM while it
 * is whole, with what was evicted from it (advisor/index/evicted.h); while it is being filled, and
 * without the advisor, the store alone, whose log is read through once a question
 * (advisor/answer/store_lookup.h).
 *
 * Ownership: a finder borrows all it reads.
 * Threads:   any number at once.
 * Limits:    WIRE_QUERY_HASHES_MAX hashes a question, WIRE_QUERY_HOLDERS_MAX holders an answer.
 */
#ifndef ADVISOR_ANSWER_FINDER_H
#define ADVISOR_ANSWER_FINDER_H

#include <stddef.h>
#include <stdint.h>

#include "advisor/index/ram_index.h"
#include "advisor/store/durable_store.h"
#include "kvtier/error.h"
#include "wire/message/query.h"

struct advisor_publishers;

struct advisor_finder {
    struct advisor_ram_index *memory; /* NULL: only the store answers */
    struct advisor_store *store;
    struct advisor_publishers *publishers; /* who is uncertain; NULL: nobody is said to be */
};

/**
 * Longest prefix per holder, longest first; at most `capacity`.
 *
 * @param query        by sequence hashes, or by local token hashes of blocks that are named by
 *                     Dynamo's chain (kvtier/token.h)
 * @param[out] count  0 also when the namespace is unknown
 */
KVT_NODISCARD enum kvt_err advisor_finder_matches(const struct advisor_finder *finder,
                                                  const struct wire_query *query,
                                                  struct wire_query_holder *holders,
                                                  size_t capacity, size_t *count);

/** Per block a mask of KVT_TIER_MASK() bits. */
KVT_NODISCARD enum kvt_err advisor_finder_masks(const struct advisor_finder *finder,
                                                const char *namespace_, const uint64_t *hashes,
                                                size_t hash_count, uint8_t *masks);

#define ADVISOR_FINDER_PLACES_MAX 256

struct advisor_finder_place {
    struct index_holder holder;
    uint32_t ranks;
};

struct advisor_finder_block {
    struct kvt_block_id id;
    uint64_t tokens_hash;
    uint64_t size;
    uint64_t hits;
    uint64_t cold_hits;
    uint64_t last_access_ms;
    uint64_t touched_ms;
    uint32_t ranks;       /* union */
    uint32_t place_count; /* all of them; at most ADVISOR_FINDER_PLACES_MAX are given */
    struct advisor_finder_place places[ADVISOR_FINDER_PLACES_MAX];
};

/** All that is known of it; statistics and G4 places are those of the store.  KVT_OK or
 *  KVT_NOTFOUND. */
KVT_NODISCARD enum kvt_err advisor_finder_block(const struct advisor_finder *finder,
                                                const char *namespace_, uint64_t hash,
                                                struct advisor_finder_block *block);

/** Children that are in RAM, evicted ones are not; at most `capacity`; returns how many there are.
 */
size_t advisor_finder_children(const struct advisor_finder *finder, const char *namespace_,
                               uint64_t hash, uint64_t *children, size_t capacity);

/* One place, with names. */
struct advisor_finder_row {
    char namespace_[KVT_NAMESPACE_MAX];
    struct index_holder holder;
    struct index_block block; /* ranks: at this holder */
};

/** Places from `cursor` (0 = start) on, about `max`; `next` 0 = that was all.  KVT_AGAIN: RAM does
 *  not have them (all); the store's are in an advisor/index/index_image.h. */
typedef void advisor_finder_row_fn(void *arg, const struct advisor_finder_row *row);
KVT_NODISCARD enum kvt_err advisor_finder_rows(const struct advisor_finder *finder, uint64_t cursor,
                                               size_t max, uint64_t *next,
                                               advisor_finder_row_fn *callback, void *arg);

/* ---- for those that ask in their own way ---- */

/** May RAM answer? */
bool advisor_finder_from_ram(const struct advisor_finder *finder);

/** Begin to read the store about a namespace, whose number `ns` gets.  KVT_NOTFOUND: nobody ever
 *  named it.  The transaction is there only with KVT_OK. */
KVT_NODISCARD enum kvt_err advisor_finder_begin(struct advisor_store *store, const char *name,
                                                struct advisor_txn *txn, uint32_t *ns);

/** A holder as it is answered. */
void advisor_finder_name(struct wire_query_holder *to, const struct index_holder *key,
                         uint32_t blocks);

#endif /* ADVISOR_ANSWER_FINDER_H */
