/*
 * policy/ordering/block_heap.h -- block numbers by a key, the lowest on top.
 *
 * Why: orderings that weigh blocks need the lightest at any time, and change one weight a use.  The
 * keys stay by number, so that a block's weight can be asked for when it is not in the heap.
 *
 * Ownership: policy_block_heap_release() frees the arrays; the structure is the caller's.
 * Threads:   none; one owner.
 * Limits:    as many members as numbers.
 */
#ifndef POLICY_ORDERING_BLOCK_HEAP_H
#define POLICY_ORDERING_BLOCK_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

struct policy_block_heap_key {
    double value;
    uint64_t tie; /* among equal values */
};

struct policy_block_heap {
    struct policy_block_heap_key *keys; /* by number */
    uint32_t *places;                   /* by number: where it is in `members`, or POLICY_NONE */
    uint32_t *members;
    uint32_t member_count;
    uint32_t count; /* numbers there is room for */
};

/** Bytes for each number. */
#define POLICY_BLOCK_HEAP_BLOCK_BYTES (sizeof(struct policy_block_heap_key) + 2 * sizeof(uint32_t))

void policy_block_heap_init(struct policy_block_heap *heap);
void policy_block_heap_release(struct policy_block_heap *heap);

/** Room for numbers below `count`.  KVT_OK, or KVT_NOMEM with everything as it was. */
KVT_NODISCARD enum kvt_err policy_block_heap_reserve(struct policy_block_heap *heap,
                                                     uint32_t count);

bool policy_block_heap_holds(const struct policy_block_heap *heap, uint32_t block);

/** With the key that stands in `keys`; the block is no member before. */
void policy_block_heap_add(struct policy_block_heap *heap, uint32_t block);

/** The block's key, of a member or not. */
void policy_block_heap_set(struct policy_block_heap *heap, uint32_t block,
                           struct policy_block_heap_key key);

/** The lowest, or POLICY_NONE. */
uint32_t policy_block_heap_lowest(const struct policy_block_heap *heap);

/** A member is none any more; its key stays. */
void policy_block_heap_remove(struct policy_block_heap *heap, uint32_t block);

#endif /* POLICY_ORDERING_BLOCK_HEAP_H */
