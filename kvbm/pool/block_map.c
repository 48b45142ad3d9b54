#include "kvbm/pool/block_map.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

enum kvt_err
kvbm_block_map_init(struct kvbm_block_map *map, uint32_t capacity)
{
    uint32_t size = 8;

    assert(capacity > 0 && capacity <= UINT32_C(1) << 30);
    memset(map, 0, sizeof(*map));
    while (size / 2 < capacity)
        size *= 2;
    map->entries = kvt_calloc(size, sizeof(*map->entries));
    if (map->entries == NULL)
        return KVT_NOMEM;
    map->mask = size - 1;
    map->capacity = capacity;
    return KVT_OK;
}

void
kvbm_block_map_release(struct kvbm_block_map *map)
{
    kvt_free(map->entries);
    memset(map, 0, sizeof(*map));
}

/* The slot that holds `hash`, or the empty one where its search ends. */
static uint32_t
find(const struct kvbm_block_map *map, uint64_t hash)
{
    uint32_t at = kvbm_block_map_home(map, hash);

    while (map->entries[at].used && map->entries[at].hash != hash)
        at = (at + 1) & map->mask;
    return at;
}

bool
kvbm_block_map_get(const struct kvbm_block_map *map, uint64_t hash, uint32_t *block)
{
    const struct kvbm_block_map_entry *entry = &map->entries[find(map, hash)];

    *block = entry->used ? entry->block : 0;
    return entry->used;
}

bool
kvbm_block_map_add(struct kvbm_block_map *map, uint64_t hash, uint32_t block, uint32_t *known)
{
    struct kvbm_block_map_entry *entry = &map->entries[find(map, hash)];

    *known = entry->used ? entry->block : 0;
    if (entry->used)
        return false;
    assert(map->count < map->capacity);
    *entry = (struct kvbm_block_map_entry){hash, block, true};
    map->count++;
    return true;
}

void
kvbm_block_map_put(struct kvbm_block_map *map, uint64_t hash, uint32_t block)
{
    uint32_t known;
    const bool added = kvbm_block_map_add(map, hash, block, &known);

    assert(added);
}

void
kvbm_block_map_remove(struct kvbm_block_map *map, uint64_t hash)
{
    uint32_t hole = find(map, hash);

    assert(map->entries[hole].used);
    /* Pull later entries of the same run back over the hole, so that no search stops short. */
    for (uint32_t at = (hole + 1) & map->mask; map->entries[at].used; at = (at + 1) & map->mask) {
        const uint32_t home = kvbm_block_map_home(map, map->entries[at].hash);

        if (((at - home) & map->mask) < ((at - hole) & map->mask))
            continue;
        map->entries[hole] = map->entries[at];
        hole = at;
    }
    map->entries[hole].used = false;
    map->count--;
}
