/*
 * advisor/index/ram_index.h -- the RAM copy of the index, and when not to trust it.
 *
 * Why: what is committed is given to the RAM index in the order it came, many blocks at a time.
 * While it is being filled, and should anything ever keep it from being a true copy, questions are
 * answered from the store instead: slower, and right.
 *
 * Ownership: index, names and cold are borrowed.
 * Threads:   op, flush, apply and release on the engine's thread; whole and the flags on any.
 * Limits:    the index's own.
 */
#ifndef ADVISOR_INDEX_RAM_INDEX_H
#define ADVISOR_INDEX_RAM_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>

#include "advisor/index/change_group.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/event_log.h"
#include "advisor/store/name_table.h"
#include "index/index.h"

struct advisor_evicted;
struct advisor_departed_blocks;
struct advisor_ram_index_scratch;

struct advisor_ram_index {
    struct index *index;
    const struct advisor_name_table *names;
    struct advisor_evicted *cold; /* what is in the store alone; NULL: nothing ever is */
    struct advisor_ram_index_scratch *scratch; /* NULL at first */
    _Atomic uint64_t collisions; /* blocks refused so far: same hash, other parent or position */
    _Atomic uint64_t refused;    /* and those of one bitmap of shards, or size, too many */
    struct advisor_event_log
        *taken_back; /* REMOVEs of what was refused, for the log; NULL: nobody has
                                     * one.  Borrowed; whoever writes them clears it */
    struct advisor_departed_blocks
        *departed; /* is told what goes with a holder as a whole; NULL: nobody
                                        * asks.  Borrowed */
    _Atomic bool loading;
    _Atomic bool spilled;
    _Atomic bool behind; /* a group is being committed that RAM has not followed yet */
    bool quiet;          /* nobody is answered from it: its owner says what is wrong */
};

/** Give one change of the log to the index, together with those before and after it: what `op`
 *  points to must stay until advisor_ram_index_flush().  A RUN is passed over. */
void advisor_ram_index_op(struct advisor_ram_index *memory, const struct advisor_event_log_op *op);
/** One (block, holder) pair of a row of the store; the values are copied. */
void advisor_ram_index_place(struct advisor_ram_index *memory,
                             const struct advisor_store_block *row,
                             const struct advisor_store_place *place);
void advisor_ram_index_flush(struct advisor_ram_index *memory);

/** What was committed: the log's changes, then the effects in the order of their ops. */
void advisor_ram_index_apply(struct advisor_ram_index *memory, const struct advisor_event_log *log,
                             const struct advisor_effect *effects, size_t count);

/** Does the RAM index, with what is in `cold`, have everything? */
bool advisor_ram_index_whole(struct advisor_ram_index *memory);

/** Give back what apply works with. */
void advisor_ram_index_release(struct advisor_ram_index *memory);

#endif /* ADVISOR_INDEX_RAM_INDEX_H */
