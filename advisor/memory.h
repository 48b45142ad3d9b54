/*
 * advisor/memory.h -- the RAM copy of the index, and when not to trust it.
 *
 * Why: the RAM index has a bound.  Once a store did not fit, it no longer has everything, and
 * questions are answered from the durable index instead: slower, and right.  The store keeps
 * blocks in the order of their hashes; the index wants sequences from their roots on, in one piece
 * where it can get it.  Putting them back in that order is done here.
 *
 * Ownership: index and names are borrowed.
 * Threads:   load, apply and release on the engine's thread; whole on any.
 * Limits:    the index's own; loading takes 16 bytes a block while it lasts.
 */
#ifndef ADVISOR_MEMORY_H
#define ADVISOR_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "advisor/group.h"
#include "advisor/names.h"
#include "advisor/store.h"
#include "index/index.h"

struct advisor_memory_scratch;

struct advisor_memory {
    struct index *index;
    const struct advisor_names *names;
    struct advisor_memory_scratch *scratch; /* NULL at first */
    _Atomic bool spilled;
};

/** Fill it from the store. */
KVT_NODISCARD enum kvt_err advisor_memory_load(struct advisor_memory *memory,
                                               const struct advisor_txn *txn);

/** What was committed, in any order of the effects: their ops say which came first. */
void advisor_memory_apply(struct advisor_memory *memory, const struct advisor_effect *effects,
                          size_t count);

/** Does the RAM index have everything? */
bool advisor_memory_whole(struct advisor_memory *memory);

/** Give back what apply works with. */
void advisor_memory_release(struct advisor_memory *memory);

#endif /* ADVISOR_MEMORY_H */
