/*
 * advisor/policy.h -- which block goes first: an ordering behind one interface.
 *
 * Why: orderings come and go, the planner stays.  One state orders the blocks of one tier.
 *
 * Ownership: `init` makes a state, `free` ends it; blocks are copied.
 * Threads:   none; the engine's thread.
 * Limits:    `bytes_max` of memory: a block that does not fit is KVT_FULL and simply not ordered.
 */
#ifndef ADVISOR_POLICY_H
#define ADVISOR_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

struct advisor_policy_block {
    uint64_t hash;
    uint64_t parent;
    uint64_t bytes; /* of all its shards in this tier */
    uint64_t touched_ms;
    uint32_t ns;
    uint32_t position;
    uint32_t ranks;
};

struct advisor_policy_ops {
    const char *name;
    enum kvt_err (*init)(void **state, uint64_t bytes_max);
    /** The block is in the tier and was used at touched_ms; new or known. */
    enum kvt_err (*touch)(void *state, const struct advisor_policy_block *block);
    /** It is no longer in the tier. */
    void (*drop)(void *state, uint32_t ns, uint64_t hash);
    /** Take out the block that should leave first; false = none.  It stays known, and is not given
     *  again before give_back() or drop(). */
    bool (*victim)(void *state, struct advisor_policy_block *block);
    void (*give_back)(void *state, uint32_t ns, uint64_t hash);
    size_t (*count)(const void *state); /* without those taken out */
    uint64_t (*bytes)(const void *state);
    void (*free)(void *state); /* NULL is allowed */
};

/** Least recently used first; of equally old ones the deepest, so that no chain gets a hole. */
extern const struct advisor_policy_ops advisor_policy_lru;

/** By name; NULL when there is none. */
const struct advisor_policy_ops *advisor_policy_find(const char *name);

#endif /* ADVISOR_POLICY_H */
