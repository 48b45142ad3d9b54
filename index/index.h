/*
 * index/index.h -- who holds which block, in RAM.
 *
 * Why: one structure answers the worker's "do I have it?" and the advisor's "who has the longest
 * prefix of this request?".  A block is (namespace, sequence hash); the same hash with another
 * parent or position is a counted collision, refused and never merged.
 *
 * Ownership: the index owns everything; views copy out.
 * Threads:   any number of readers and one writer at a time, one reader-writer lock inside; no call
 *            calls back while holding it except index_walk(), whose callback must be short and must
 *            not call the index.
 * Limits:    `bytes_max` of memory: a Store that does not fit is KVT_FULL and changes nothing.
 */
#ifndef INDEX_INDEX_H
#define INDEX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define INDEX_HOLDERS_MAX    65536
#define INDEX_NAMESPACES_MAX 4096

struct index;

struct index_holder {
    char name[KVT_NAME_MAX]; /* worker, or the G4 holder's name */
    uint32_t dp_rank;
    enum kvt_tier tier;
};

struct index_block {
    struct kvt_block_id id;
    uint64_t tokens_hash;
    uint64_t size; /* bytes of one shard */
    uint32_t ranks;
};

/* One (block, holder) pair, copied out. */
struct index_place {
    uint32_t holder;
    uint32_t ranks;
};

#define INDEX_PLACES_MAX 64 /* places one view shows; more are counted */

struct index_view {
    struct index_block block; /* ranks: union over the places */
    uint32_t place_count;     /* all of them, also beyond INDEX_PLACES_MAX */
    struct index_place places[INDEX_PLACES_MAX];
};

struct index_match {
    uint32_t holder;
    uint32_t blocks; /* length of the longest prefix this holder has, starting at the first hash */
};

struct index_stats {
    uint64_t blocks;
    uint64_t places; /* (block, holder) pairs */
    uint64_t holders;
    uint64_t namespaces;
    uint64_t bytes;
    uint64_t bytes_max;
    uint64_t collisions;
};

KVT_NODISCARD enum kvt_err index_new(struct index **out, uint64_t bytes_max);
void index_free(struct index *index);

/** Number of a namespace, made on first use.  KVT_FULL beyond INDEX_NAMESPACES_MAX. */
KVT_NODISCARD enum kvt_err index_namespace(struct index *index, const char *name, uint32_t *ns);
/** The number of a known namespace; KVT_NOTFOUND otherwise.  Never makes one. */
KVT_NODISCARD enum kvt_err index_namespace_find(struct index *index, const char *name,
                                                uint32_t *ns);
/** Copy the name of `ns` (asserted to exist). */
void index_namespace_name(struct index *index, uint32_t ns, char out[KVT_NAMESPACE_MAX]);

/** Number of a holder, made on first use.  KVT_FULL beyond INDEX_HOLDERS_MAX. */
KVT_NODISCARD enum kvt_err index_holder(struct index *index, const struct index_holder *key,
                                        uint32_t *holder);
/**
 * Give the number of a holder that holds nothing (asserted) to another.
 *
 * @return KVT_OK, KVT_EXISTS (`key` has a number) or KVT_FULL (no memory); unchanged then
 */
KVT_NODISCARD enum kvt_err index_holder_rename(struct index *index, uint32_t holder,
                                               const struct index_holder *key);
/** Copy out who `holder` is (asserted to exist) and how much it holds. */
void index_holder_info(struct index *index, uint32_t holder, struct index_holder *key,
                       uint64_t *blocks, uint64_t *bytes);
uint32_t index_holder_count(struct index *index);

/**
 * The block is now at `holder` (its `ranks` are added to what was there).
 *
 * @param[out] added  true when the pair is new; may be NULL
 * @return KVT_OK, KVT_EXISTS (collision: same hash, other parent or position; counted, unchanged;
 *         a parent of 0 at a position > 0 means "unknown" and collides with nothing), KVT_FULL,
 *         KVT_INVALID (no shard in `ranks`)
 */
KVT_NODISCARD enum kvt_err index_store(struct index *index, uint32_t ns, uint32_t holder,
                                       const struct index_block *block, bool *added);

/**
 * The shards `ranks` of the block are no longer at `holder`; the pair goes with its last shard, the
 * block with its last pair.
 *
 * @return KVT_OK or KVT_NOTFOUND (the holder did not have it; unchanged)
 */
KVT_NODISCARD enum kvt_err index_remove(struct index *index, uint32_t ns, uint32_t holder,
                                        uint64_t hash, uint32_t ranks);

/** Drop up to `max` blocks of `holder`; returns how many went (fewer than `max`: all are gone). */
size_t index_drop_holder(struct index *index, uint32_t holder, size_t max);

/** Longest prefix per holder, root first.  Holders without the first block are not given.  Longest
 *  first; at most `capacity`. */
size_t index_find_matches(struct index *index, uint32_t ns, const uint64_t *hashes, size_t count,
                          struct index_match *matches, size_t capacity);

/** Per block the mask of tiers that have it (KVT_TIER_MASK bits); 0 = nobody. */
void index_match(struct index *index, uint32_t ns, const uint64_t *hashes, size_t count,
                 uint8_t *masks);

/** KVT_OK or KVT_NOTFOUND. */
KVT_NODISCARD enum kvt_err index_get(struct index *index, uint32_t ns, uint64_t hash,
                                     struct index_view *view);

/** Children of a block that are in the index, at most `capacity` hashes; returns how many there
 * are. */
size_t index_children(struct index *index, uint32_t ns, uint64_t hash, uint64_t *children,
                      size_t capacity);

/**
 * Walk (block, holder) pairs in no order, from `cursor` (0 = start) on, at most `max`; returns the
 * next cursor, 0 at the end.  Pairs present during the whole walk are given at least once.
 */
typedef void index_walk_fn(void *arg, uint32_t ns, uint32_t holder,
                           const struct index_block *block);
uint64_t index_walk(struct index *index, uint64_t cursor, size_t max, index_walk_fn *callback,
                    void *arg);

void index_stats(struct index *index, struct index_stats *stats);

#endif /* INDEX_INDEX_H */
