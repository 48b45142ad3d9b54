/*
 * index/holder/run_holders.h -- who holds which blocks of one run.
 *
 * Why: a run is held by one worker in most cases and by thousands in the case that matters most, a
 * common system prompt.  Both must be small and fast: one range in the run itself, a sorted array
 * of ranges beyond that, and sets of numbers for holders that have the same part
 * (index/holder/holder_list.h).
 *
 * A range is (holder, shards code, from, to): blocks [from, to) of the run.  Ranges of one holder
 * never overlap; neighbours with the same code are joined.  Nothing here depends on the length of
 * the run: it may grow or shrink at its end at any time.
 *
 * Ownership: the run owns this record; memory comes from the index's, replaced memory goes through
 *            the epoch.
 * Threads:   changes under the index's lock, between two steps of the run's version.  Functions
 *            that end in _read may run beside a change: all they touch is atomic, they stay inside
 *            of live memory and end, and the caller checks the version afterwards.
 * Limits:    INDEX_RUN_BLOCKS_MAX blocks, INDEX_HOLDERS_MAX holders, INDEX_SHARDS_MAX codes.
 */
#ifndef INDEX_HOLDER_RUN_HOLDERS_H
#define INDEX_HOLDER_RUN_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/holder/holder_list.h"

struct index_run_holders_place {
    uint32_t holder;
    uint32_t code;
    uint32_t from;
    uint32_t to;
};

/* What a change did. */
struct index_run_holders_effect {
    uint32_t pairs;  /* (block, holder) pairs that came or went */
    uint32_t blocks; /* blocks that nobody held before, or nobody holds now */
    uint32_t shards; /* (block, holder, shard) triples that came or went: times the size of a
                      * block, the bytes */
};

/**
 * `holder` now has the shards `code` of [from, to) too.
 *
 * @return KVT_OK or KVT_FULL (no memory, no code); unchanged then
 */
KVT_NODISCARD enum kvt_err index_run_holders_add(struct index_run_holders *holders,
                                                 const struct index_run_holders_context *context,
                                                 uint32_t holder, uint32_t code, uint32_t from,
                                                 uint32_t to,
                                                 struct index_run_holders_effect *effect);

/**
 * `holder` no longer has the shards `ranks` (a bitmap; all ones: whatever it has) of [from, to).
 * What taking a range apart needs is taken also beyond the memory's ceiling.
 *
 * @param[out] effect  pairs: those that had one of the shards and have none left
 * @return KVT_OK or KVT_FULL (the heap is out, or no code is free); unchanged then
 */
KVT_NODISCARD enum kvt_err index_run_holders_remove(struct index_run_holders *holders,
                                                    const struct index_run_holders_context *context,
                                                    uint32_t holder, uint32_t ranks, uint32_t from,
                                                    uint32_t to,
                                                    struct index_run_holders_effect *effect);

/** Give back everything. */
void index_run_holders_clear(struct index_run_holders *holders,
                             const struct index_run_holders_context *context);

/** The only holder, or false: none, or several. */
bool index_run_holders_sole(const struct index_run_holders *holders, uint32_t *holder);
/** One past the last block that somebody holds; 0: none. */
uint32_t index_run_holders_end(const struct index_run_holders *holders);

/**
 * The next place, in the order of (holder, block).  A cursor is `holder << 16 | block`: all before
 * it was given, 0 is the start; it may be set into the middle of a place, and stays good through
 * changes.  It is moved to the end of the place that is given.
 *
 * @return false: there is no more
 */
bool index_run_holders_next_read(const struct index_run_holders *holders, uint64_t *cursor,
                                 struct index_run_holders_place *place);
/** The code of (block, holder); 0: it is not there. */
uint32_t index_run_holders_code_read(const struct index_run_holders *holders, uint32_t holder,
                                     uint32_t block);
/** How many hold the block, and the first `capacity` of them by number. */
size_t index_run_holders_block_read(const struct index_run_holders *holders, uint32_t block,
                                    struct index_run_holders_place *places, size_t capacity);

#endif /* INDEX_HOLDER_RUN_HOLDERS_H */
