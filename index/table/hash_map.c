#include "index/table/hash_map.h"

#include <assert.h>

#include "index/memory/record_pool.h"

enum {
    CAPACITY_FIRST = 8,
    SEGMENT_SHIFT = 58, /* the top six bits choose the segment, the lower 32 the slot */
};

_Static_assert(INDEX_HASH_MAP_SEGMENTS == 1 << (64 - SEGMENT_SHIFT), "segments fit the shift");

void
index_hash_map_init(struct index_hash_map *table, struct index_memory *memory)
{
    *table = (struct index_hash_map){.memory = memory};
}

void
index_hash_map_release(struct index_hash_map *table)
{
    for (size_t i = 0; i < INDEX_HASH_MAP_SEGMENTS; i++) {
        struct index_hash_map_part *segment = &table->segments[i];

        index_memory_give(table->memory, segment->slots, segment->capacity,
                          sizeof(*segment->slots));
        *segment = (struct index_hash_map_part){.slots = NULL};
    }
}

/* The number at the first slot from probe->at on that has the probe's hash. */
static uint32_t
seek(struct index_hash_map_probe *probe)
{
    const struct index_hash_map_part *segment = probe->segment;
    const uint32_t mask = segment->capacity - 1;

    if (segment->capacity == 0)
        return INDEX_NONE;
    for (;; probe->at = (probe->at + 1) & mask) {
        const struct index_hash_map_slot *slot = &segment->slots[probe->at];

        if (slot->number == 0)
            return INDEX_NONE;
        if (slot->hash == probe->hash)
            return slot->number - 1;
    }
}

uint32_t
index_hash_map_first(struct index_hash_map *table, uint64_t hash,
                     struct index_hash_map_probe *probe)
{
    probe->segment = &table->segments[hash >> SEGMENT_SHIFT];
    probe->hash = (uint32_t)hash;
    probe->at = probe->segment->capacity > 0 ? probe->hash & (probe->segment->capacity - 1) : 0;
    return seek(probe);
}

uint32_t
index_hash_map_next(struct index_hash_map_probe *probe)
{
    probe->at = (probe->at + 1) & (probe->segment->capacity - 1);
    return seek(probe);
}

uint32_t
index_hash_map_number(const struct index_hash_map_probe *probe)
{
    assert(probe->segment->slots[probe->at].number != 0);
    return probe->segment->slots[probe->at].number - 1;
}

void
index_hash_map_replace(const struct index_hash_map_probe *probe, uint32_t number)
{
    assert(probe->segment->slots[probe->at].number != 0);
    probe->segment->slots[probe->at].number = number + 1;
}

/* No tombstones: entries behind the hole that may stand in it move up, up to an empty slot. */
void
index_hash_map_remove(const struct index_hash_map_probe *probe)
{
    struct index_hash_map_part *segment = probe->segment;
    const uint32_t mask = segment->capacity - 1;
    uint32_t hole = probe->at;

    assert(segment->slots[hole].number != 0);
    for (uint32_t at = (hole + 1) & mask; segment->slots[at].number != 0; at = (at + 1) & mask) {
        const uint32_t home = segment->slots[at].hash & mask;

        if (((at - home) & mask) >= ((at - hole) & mask)) {
            segment->slots[hole] = segment->slots[at];
            hole = at;
        }
    }
    segment->slots[hole] = (struct index_hash_map_slot){.number = 0};
    segment->used--;
}

static void
insert(struct index_hash_map_part *segment, struct index_hash_map_slot entry)
{
    const uint32_t mask = segment->capacity - 1;
    uint32_t at = entry.hash & mask;

    while (segment->slots[at].number != 0)
        at = (at + 1) & mask;
    segment->slots[at] = entry;
}

static bool
grow(struct index_hash_map *table, struct index_hash_map_part *segment)
{
    struct index_hash_map_part grown = {.used = segment->used};

    grown.capacity = segment->capacity == 0 ? CAPACITY_FIRST : segment->capacity * 2;
    if (grown.capacity == 0)
        return false;
    grown.slots = index_memory_take(table->memory, grown.capacity, sizeof(*grown.slots));
    if (grown.slots == NULL)
        return false;
    for (uint32_t i = 0; i < segment->capacity; i++)
        if (segment->slots[i].number != 0)
            insert(&grown, segment->slots[i]);
    index_memory_give(table->memory, segment->slots, segment->capacity, sizeof(*segment->slots));
    *segment = grown;
    return true;
}

bool
index_hash_map_reserve(struct index_hash_map *table, uint64_t hash)
{
    struct index_hash_map_part *segment = &table->segments[hash >> SEGMENT_SHIFT];
    const uint64_t needed = (uint64_t)segment->used + 1;

    if (needed * 4 <= (uint64_t)segment->capacity * 3)
        return true;
    if (grow(table, segment))
        return true;
    /* No memory for a larger one: fill this one further, slower but not refused, up to 7/8. */
    return needed * 8 <= (uint64_t)segment->capacity * 7;
}

void
index_hash_map_add(struct index_hash_map *table, uint64_t hash, uint32_t number)
{
    struct index_hash_map_part *segment = &table->segments[hash >> SEGMENT_SHIFT];

    assert(segment->used < segment->capacity - 1);
    insert(segment, (struct index_hash_map_slot){.hash = (uint32_t)hash, .number = number + 1});
    segment->used++;
}
