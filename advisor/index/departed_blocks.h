/*
 * advisor/index/departed_blocks.h -- blocks that went because all of a holder went, until rules
 * are asked.
 *
 * Why: a worker that leaves takes a million blocks with it in one word of the log, and what that
 * means for each is asked a bounded piece a tick.  A dump begins with the same word: then the
 * blocks are mostly there again a moment later, so whoever left is not gone through before its
 * publishers have told all.
 *
 * Ownership: it owns what it remembers, and nothing of it is durable.
 * Threads:   the engine's.
 * Limits:    ADVISOR_DEPARTED_BLOCKS_MAX words of blocks and pieces (32 MiB; with what segments
 *            have free 80 MiB at most), ADVISOR_LEAVERS_MAX holders that left; what is beyond that
 *            is counted and left out.
 */
#ifndef ADVISOR_INDEX_DEPARTED_BLOCKS_H
#define ADVISOR_INDEX_DEPARTED_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/index.h"
#include "kvtier/error.h"

#define ADVISOR_DEPARTED_BLOCKS_MAX (1u << 22)
#define ADVISOR_LEAVERS_MAX         1024

struct advisor_departed_blocks;

/* Consecutive blocks of one sequence that one holder had. */
struct advisor_departed_blocks_piece {
    const uint64_t *hashes; /* root side first */
    uint64_t parent;        /* before the first; 0: none, or not known */
    uint32_t count;         /* 0: only what comes before them is of interest */
    uint32_t ns;            /* the store's */
};

KVT_NODISCARD enum kvt_err advisor_departed_blocks_new(struct advisor_departed_blocks **out);
/** NULL is allowed. */
void advisor_departed_blocks_free(struct advisor_departed_blocks *departed);
void advisor_departed_blocks_clear(struct advisor_departed_blocks *departed);

/** The worker had it; at most INDEX_DROPPED_MAX blocks.  Without room it is counted as left out. */
void advisor_departed_blocks_add(struct advisor_departed_blocks *departed, const char *worker,
                                 const struct advisor_departed_blocks_piece *piece);

/** Blocks and pieces that wait. */
size_t advisor_departed_blocks_count(const struct advisor_departed_blocks *departed);
/** Blocks that were left out since the last call. */
uint64_t advisor_departed_blocks_left_out(struct advisor_departed_blocks *departed);

/* Has what the worker has in the namespace been told as a whole? */
typedef bool advisor_departed_blocks_settled_fn(void *arg, uint32_t ns, const char *worker);

/** Ask of whoever's turn it is whether it is settled.  False: it is not, and it is another's turn,
 *  or nobody waits. */
bool advisor_departed_blocks_turn(struct advisor_departed_blocks *departed,
                                  advisor_departed_blocks_settled_fn *settled, void *arg);
/** The next piece of whose turn it is; false: that was the last one, and it is another's turn.  It
 *  is valid until the next call of anything here. */
bool advisor_departed_blocks_next(struct advisor_departed_blocks *departed,
                                  struct advisor_departed_blocks_piece *piece);

#endif /* ADVISOR_INDEX_DEPARTED_BLOCKS_H */
