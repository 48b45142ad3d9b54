/*
 * index/holding.h -- who holds which blocks of one run.
 *
 * Why: a run is held by one worker in most cases and by thousands in the case that matters most, a
 * common system prompt.  Both must be small and fast: spans for parts, a set of numbers for those
 * that hold the whole run (index/DESIGN.md, "Holders").
 *
 * A span is (holder, shards code, from, to): blocks [from, to) of the run.  Spans of one holder
 * never overlap; neighbours with the same code are joined.
 *
 * Ownership: the run owns its holding; memory comes from the index's, replaced memory goes through
 *            the epoch.
 * Threads:   changes under the index's lock, between two steps of the run's version.  Functions
 *            that end in _read may run beside a change: all they touch is atomic, they stay inside
 *            of live memory and end, and the caller checks the version afterwards.
 * Limits:    INDEX_RUN_BLOCKS_MAX blocks, INDEX_HOLDERS_MAX holders, INDEX_SHARDS_MAX codes.
 */
#ifndef INDEX_HOLDING_H
#define INDEX_HOLDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/epoch.h"
#include "index/index.h"
#include "index/memory.h"

#define INDEX_RUN_BLOCKS_MAX 1024
#define INDEX_SHARDS_MAX     4095 /* code 0 is no shard at all */

/* holder:20 | code:12 | from:16 | to:16, high to low: the order of numbers is the order by holder.
 * 0 is no span: `to` of a span is never 0. */
typedef uint64_t index_span;

struct index_box; /* more than one span; holding.c */

struct index_holding {
    _Atomic uint64_t one;            /* the only span, or 0 */
    _Atomic(struct index_box *) box; /* NULL unless there are several */
};

struct index_holding_place {
    uint32_t holder;
    uint32_t code;
    uint32_t from;
    uint32_t to;
};

/* What a change did. */
struct index_holding_effect {
    uint32_t pairs;  /* (block, holder) pairs that came or went */
    uint32_t blocks; /* blocks that nobody held before, or nobody holds now */
};

/* Codes of bitmaps of shards are interned by the index; this joins and takes apart two of them.
 * KVT_FULL: no code is free. */
struct index_shards;
KVT_NODISCARD enum kvt_err index_shards_new(struct index_shards **out, struct index_memory *memory);
void index_shards_free(struct index_shards *shards, struct index_memory *memory);
/** The code of a bitmap (not 0), made on first use. */
KVT_NODISCARD enum kvt_err index_shards_code(struct index_shards *shards, uint32_t ranks,
                                             uint32_t *code);
/** Any thread. */
uint32_t index_shards_ranks(const struct index_shards *shards, uint32_t code);

/* What holdings need of their index. */
struct index_holding_context {
    struct index_memory *memory;
    struct index_epoch *epoch;
    struct index_shards *shards;
};

/**
 * `holder` now has the shards `code` of [from, to) too.  `length` is the run's length after this
 * change (its end may just have grown).
 *
 * @return KVT_OK or KVT_FULL (no memory, no code); unchanged then
 */
KVT_NODISCARD enum kvt_err index_holding_add(struct index_holding *holding,
                                             const struct index_holding_context *context,
                                             uint32_t holder, uint32_t code, uint32_t from,
                                             uint32_t to, uint32_t length,
                                             struct index_holding_effect *effect);

/**
 * `holder` no longer has the shards `ranks` (a bitmap; all ones: whatever it has) of [from, to).
 *
 * @param[out] effect  pairs: those that had one of the shards and have none left
 * @return KVT_OK or KVT_FULL (taking a span apart needed memory or a code); unchanged then
 */
KVT_NODISCARD enum kvt_err index_holding_remove(struct index_holding *holding,
                                                const struct index_holding_context *context,
                                                uint32_t holder, uint32_t ranks, uint32_t from,
                                                uint32_t to, uint32_t length,
                                                struct index_holding_effect *effect);

/** Give back everything. */
void index_holding_clear(struct index_holding *holding,
                         const struct index_holding_context *context);

/** Nobody holds anything. */
bool index_holding_empty(const struct index_holding *holding);
/** The only holder, or false: none, or several. */
bool index_holding_sole(const struct index_holding *holding, uint32_t *holder);
/** One past the last block that somebody holds; 0: none. */
uint32_t index_holding_end(const struct index_holding *holding, uint32_t length);

/** The `at`-th place (one per holder and span, in the order of holders); false: there are fewer. */
bool index_holding_place(const struct index_holding *holding, uint32_t length, size_t at,
                         struct index_holding_place *place);
/** The code of (block, holder); 0: it is not there. */
uint32_t index_holding_code_read(const struct index_holding *holding, uint32_t length,
                                 uint32_t holder, uint32_t block);
/** How many hold the block, and the first `capacity` of them by number. */
size_t index_holding_block_read(const struct index_holding *holding, uint32_t length,
                                uint32_t block, struct index_holding_place *places,
                                size_t capacity);

#endif /* INDEX_HOLDING_H */
