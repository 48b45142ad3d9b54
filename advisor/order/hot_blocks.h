/*
 * advisor/order/hot_blocks.h -- the blocks that are read most of late, within a few kilobytes.
 *
 * Why: people want to see which prefixes are worth their room, and nobody keeps a count a block and
 * sorts millions of them.  A read counts in one of a few rows its hash may have; where none is free
 * the one with the fewest reads goes, and the new one begins with that many as its doubt.  A parent
 * is read whenever its child is, so hot blocks come with the prefix before them.
 *
 * Ownership: plain values, inside somebody's struct.
 * Threads:   none; the owner's lock.
 * Limits:    ADVISOR_HOT_BLOCKS_ROWS rows; counts are halved every ADVISOR_HOT_BLOCKS_HALVE_MS.
 */
#ifndef ADVISOR_ORDER_HOT_BLOCKS_H
#define ADVISOR_ORDER_HOT_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#define ADVISOR_HOT_BLOCKS_WAYS     8
#define ADVISOR_HOT_BLOCKS_ROWS     1024
#define ADVISOR_HOT_BLOCKS_HALVE_MS 600000

struct advisor_hot_block {
    uint64_t hash;
    uint64_t parent;
    uint64_t reads;
    uint64_t doubt;    /* of `reads`, so many may have been of others */
    uint64_t bytes;    /* of one shard */
    uint32_t ns;       /* by the store's numbers, as pins are */
    uint32_t index_ns; /* by those of the RAM index */
    uint32_t position;
};

struct advisor_hot_blocks {
    struct advisor_hot_block rows[ADVISOR_HOT_BLOCKS_ROWS]; /* reads 0: free */
    uint64_t halved_ms;
};

/** `block->reads` reads of it. */
void advisor_hot_blocks_add(struct advisor_hot_blocks *hottest,
                            const struct advisor_hot_block *block, uint64_t now_ms);

/** At most `capacity`, most reads first, of equal ones the nearer to the root; those of which
 *  nothing is certain are left out.  Returns how many. */
size_t advisor_hot_blocks_top(const struct advisor_hot_blocks *hottest,
                              struct advisor_hot_block *out, size_t capacity);

#endif /* ADVISOR_ORDER_HOT_BLOCKS_H */
