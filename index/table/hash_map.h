/*
 * index/table/hash_map.h -- from a hashed key to the number of a record.
 *
 * Why: one open-addressing table serves blocks, places, children and names.  It stores the hash
 * beside the number, so that growing touches no record and a lookup touches only records that
 * probably fit; the caller compares the key.  It is cut into segments that grow on their own: no
 * single Store pays for moving everything, and growing needs room for a segment, not for a second
 * table.
 *
 * Ownership: the index.
 * Threads:   under the index's lock.
 * Limits:    the memory's ceiling.
 */
#ifndef INDEX_TABLE_HASH_MAP_H
#define INDEX_TABLE_HASH_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/memory/memory.h"

#define INDEX_SLOTS_SEGMENTS 64

struct index_slot {
    uint32_t hash;
    uint32_t number; /* of the record, plus 1; 0 = empty */
};

struct index_slots_part {
    struct index_slot *slots;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t used;
};

struct index_slots {
    struct index_memory *memory;
    struct index_slots_part segments[INDEX_SLOTS_SEGMENTS];
};

/* Where a lookup stands. */
struct index_slots_probe {
    struct index_slots_part *segment;
    uint32_t hash;
    uint32_t at;
};

void index_slots_init(struct index_slots *table, struct index_memory *memory);
void index_slots_release(struct index_slots *table);

/**
 * The first candidate for `hash`: a record's number, or INDEX_NONE.  A candidate that is another
 * key is passed over with index_slots_next().
 */
uint32_t index_slots_first(struct index_slots *table, uint64_t hash,
                           struct index_slots_probe *probe);
uint32_t index_slots_next(struct index_slots_probe *probe);

/** Point the entry the probe found at another record (same hash). */
void index_slots_replace(const struct index_slots_probe *probe, uint32_t number);

/** The number of the entry the probe found. */
uint32_t index_slots_number(const struct index_slots_probe *probe);

/** Take out the entry the probe found. */
void index_slots_remove(const struct index_slots_probe *probe);

/** Make sure that the next index_slots_add() of this hash has room. */
bool index_slots_reserve(struct index_slots *table, uint64_t hash);
void index_slots_add(struct index_slots *table, uint64_t hash, uint32_t number);

/** Start loading the cache line a lookup of `hash` will need. */
void index_slots_prefetch(const struct index_slots *table, uint64_t hash);

#endif /* INDEX_TABLE_HASH_MAP_H */
