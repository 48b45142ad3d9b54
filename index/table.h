/*
 * index/table.h -- from a sequence hash to the number of a block, one table for each namespace.
 *
 * Why: this is touched for every block of every event, so an entry is six bytes (a 16-bit tag and a
 * number) and a lookup one cache line: a bucket of ten.  The table is cut into segments by the
 * highest bits of the mixed hash; each grows and splits on its own, so that no change pays for
 * moving everything.  Tags are bits of the place in a segment that the bucket does not say, so a
 * segment grows without looking at a single hash.  What does not fit its bucket goes to one of the
 * next few, and every bucket passed counts it.
 *
 * Ownership: the index.
 * Threads:   find and prefetch on any thread, inside of an epoch; the rest under the index's lock.
 * Limits:    the memory's ceiling.
 */
#ifndef INDEX_TABLE_H
#define INDEX_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/epoch.h"
#include "index/memory.h"

struct index_table_segment;
struct index_table_directory;

struct index_table {
    _Atomic(struct index_table_directory *) directory; /* NULL: nothing was ever entered */
    uint64_t used;
};

/**
 * The number that was entered for `hash`, or 0.  `seq` are the hashes by number, `mixed` is the
 * hash mixed (index_state_mix()).  Any thread.
 */
uint32_t index_table_find(const struct index_table *table, const _Atomic uint64_t *seq,
                          uint64_t hash, uint64_t mixed);

/** Start loading the cache line a lookup will need.  Any thread. */
void index_table_prefetch(const struct index_table *table, uint64_t mixed);

#endif /* INDEX_TABLE_H */
