/*
 * index/table/table.h -- from a sequence hash to the number of a block, one table for each
 * namespace.
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
#ifndef INDEX_TABLE_TABLE_H
#define INDEX_TABLE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/memory/epoch.h"
#include "index/memory/memory.h"

#define INDEX_TABLE_NONE UINT32_MAX

struct index_table_segment;
struct index_table_directory;

struct index_table {
    _Atomic(struct index_table_directory *) directory; /* NULL: nothing was ever entered */
};

/* What tables need of their index: to mix hashes again when a segment splits. */
struct index_table_context {
    struct index_memory *memory;
    struct index_epoch *epoch;
    const _Atomic uint64_t *seq;
    const uint64_t *seed;
};

/** A hash, mixed with the index's seed: hashes from outside may be anything. */
static inline uint64_t
index_table_mix(const uint64_t seed[2], uint64_t hash)
{
    const __uint128_t product = (__uint128_t)(hash ^ seed[0]) * seed[1];
    const uint64_t folded = (uint64_t)product ^ (uint64_t)(product >> 64);

    return (folded ^ folded >> 32) * UINT64_C(0xd6e8feb86659fd93);
}

/**
 * The number that was entered for `hash`, or 0.  `seq` are the hashes by number, `mixed` is the
 * hash mixed.  Any thread.
 */
uint32_t index_table_find(const struct index_table *table, const _Atomic uint64_t *seq,
                          uint64_t hash, uint64_t mixed);

/** Start loading the cache line a lookup will need.  Any thread. */
void index_table_prefetch(const struct index_table *table, uint64_t mixed);

/** The same of several, to be written. */
void index_table_prefetch_all(const struct index_table *table, const uint64_t *mixed,
                              uint32_t count);

/** A number that may be the hash's, by its tag alone, or 0.  Any thread. */
uint32_t index_table_guess(const struct index_table *table, uint64_t mixed);

/* Where a lookup begins: good until the table is changed. */
struct index_table_spot {
    const void *bucket; /* NULL: the table is empty */
    uint32_t passes;
    uint32_t tag;
};

/** The same two, in two steps. */
void index_table_spot(const struct index_table *table, uint64_t mixed,
                      struct index_table_spot *spot);
uint32_t index_table_guess_at(const struct index_table_spot *spot);

/**
 * Enter `number` for `hash`, with seq[number] == hash, unless the hash is there.
 *
 * @return 0: entered; INDEX_TABLE_NONE: no memory; otherwise the number that was there
 */
uint32_t index_table_enter(struct index_table *table, const struct index_table_context *context,
                           uint64_t hash, uint64_t mixed, uint32_t number);

/** Make room at once for about `count` entries of a table that was never used.  Without memory to
 *  spare, and for few, it grows as they come. */
void index_table_expect(struct index_table *table, const struct index_table_context *context,
                        uint64_t count);

/**
 * The same for `count` hashes with numbers from `first` on, as far as they are new.
 *
 * @param[out] stop  why not further, as index_table_enter()
 * @return how many
 */
uint32_t index_table_enter_all(struct index_table *table, const struct index_table_context *context,
                               const uint64_t *hashes, const uint64_t *mixed, uint32_t first,
                               uint32_t count, uint32_t *stop);

/** Take out what was entered (asserted to be there). */
void index_table_remove(struct index_table *table, uint64_t mixed, uint32_t number);

/** Is nothing entered? */
bool index_table_is_empty(const struct index_table *table);

/** Nobody may be reading. */
void index_table_release(struct index_table *table, struct index_memory *memory);

#endif /* INDEX_TABLE_TABLE_H */
