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

#define INDEX_HASH_MAP_SEGMENTS 64

struct index_hash_map_slot {
    uint32_t hash;
    uint32_t number; /* of the record, plus 1; 0 = empty */
};

struct index_hash_map_part {
    struct index_hash_map_slot *slots;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t used;
};

struct index_hash_map {
    struct index_memory *memory;
    struct index_hash_map_part segments[INDEX_HASH_MAP_SEGMENTS];
};

/* Where a lookup stands. */
struct index_hash_map_probe {
    struct index_hash_map_part *segment;
    uint32_t hash;
    uint32_t at;
};

void index_hash_map_init(struct index_hash_map *table, struct index_memory *memory);
void index_hash_map_release(struct index_hash_map *table);

/**
 * The first candidate for `hash`: a record's number, or INDEX_NONE.  A candidate that is another
 * key is passed over with index_hash_map_next().
 */
uint32_t index_hash_map_first(struct index_hash_map *table, uint64_t hash,
                              struct index_hash_map_probe *probe);
uint32_t index_hash_map_next(struct index_hash_map_probe *probe);

/** Point the entry the probe found at another record (same hash). */
void index_hash_map_replace(const struct index_hash_map_probe *probe, uint32_t number);

/** The number of the entry the probe found. */
uint32_t index_hash_map_number(const struct index_hash_map_probe *probe);

/** Take out the entry the probe found. */
void index_hash_map_remove(const struct index_hash_map_probe *probe);

/** Make sure that the next index_hash_map_add() of this hash has room. */
bool index_hash_map_reserve(struct index_hash_map *table, uint64_t hash);
void index_hash_map_add(struct index_hash_map *table, uint64_t hash, uint32_t number);

#endif /* INDEX_TABLE_HASH_MAP_H */
