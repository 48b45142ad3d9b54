#include "advisor/store/number_map.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"

enum { SLOTS_MIN = 16 };

struct slot {
    uint64_t hash;
    uint8_t *key; /* NULL: free */
    size_t size;
    uint32_t value;
};

/* Open addressing, linear probing, at most half full; removal moves later entries back. */
struct advisor_number_map {
    struct slot *slots;
    size_t slot_count; /* a power of two */
    size_t count;
};

enum kvt_err
advisor_number_map_new(struct advisor_number_map **out)
{
    struct advisor_number_map *map = kvt_calloc(1, sizeof(*map));

    *out = NULL;
    if (map == NULL)
        return KVT_NOMEM;
    map->slots = kvt_calloc(SLOTS_MIN, sizeof(*map->slots));
    if (map->slots == NULL) {
        advisor_number_map_free(map);
        return KVT_NOMEM;
    }
    map->slot_count = SLOTS_MIN;
    *out = map;
    return KVT_OK;
}

void
advisor_number_map_free(struct advisor_number_map *map)
{
    if (map == NULL)
        return;
    for (size_t i = 0; i < map->slot_count; i++)
        kvt_free(map->slots[i].key);
    kvt_free(map->slots);
    kvt_free(map);
}

/* The slot of the key, or the free one where it belongs. */
static size_t
find(const struct advisor_number_map *map, uint64_t hash, const void *key, size_t size)
{
    const size_t mask = map->slot_count - 1;
    size_t at = (size_t)hash & mask;

    while (map->slots[at].key != NULL) {
        const struct slot *slot = &map->slots[at];

        if (slot->hash == hash && slot->size == size && memcmp(slot->key, key, size) == 0)
            break;
        at = (at + 1) & mask;
    }
    return at;
}

bool
advisor_number_map_get(const struct advisor_number_map *map, const void *key, size_t size,
                       uint32_t *value)
{
    const struct slot *slot = &map->slots[find(map, XXH3_64bits(key, size), key, size)];

    *value = slot->key == NULL ? 0 : slot->value;
    return slot->key != NULL;
}

static enum kvt_err
grow(struct advisor_number_map *map)
{
    const size_t slot_count = map->slot_count * 2;
    struct slot *slots = kvt_calloc(slot_count, sizeof(*slots));

    if (slots == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < map->slot_count; i++) {
        size_t at = (size_t)map->slots[i].hash & (slot_count - 1);

        if (map->slots[i].key == NULL)
            continue;
        while (slots[at].key != NULL)
            at = (at + 1) & (slot_count - 1);
        slots[at] = map->slots[i];
    }
    kvt_free(map->slots);
    map->slots = slots;
    map->slot_count = slot_count;
    return KVT_OK;
}

enum kvt_err
advisor_number_map_put(struct advisor_number_map *map, const void *key, size_t size, uint32_t value)
{
    const uint64_t hash = XXH3_64bits(key, size);
    struct slot *slot = &map->slots[find(map, hash, key, size)];

    assert(size > 0 && size <= ADVISOR_NUMBER_MAP_KEY_MAX);
    if (slot->key == NULL) {
        uint8_t *copy;

        if ((map->count + 1) * 2 > map->slot_count && grow(map) != KVT_OK)
            return KVT_NOMEM;
        copy = kvt_calloc(size, 1);
        if (copy == NULL)
            return KVT_NOMEM;
        memcpy(copy, key, size);
        slot = &map->slots[find(map, hash, key, size)];
        slot->hash = hash;
        slot->key = copy;
        slot->size = size;
        map->count++;
    }
    slot->value = value;
    return KVT_OK;
}

void
advisor_number_map_remove(struct advisor_number_map *map, const void *key, size_t size)
{
    const size_t mask = map->slot_count - 1;
    size_t hole = find(map, XXH3_64bits(key, size), key, size);
    size_t at = hole;

    if (map->slots[hole].key == NULL)
        return;
    kvt_free(map->slots[hole].key);
    map->slots[hole].key = NULL;
    map->count--;
    for (;;) {
        size_t home;

        at = (at + 1) & mask;
        if (map->slots[at].key == NULL)
            return;
        home = (size_t)map->slots[at].hash & mask;
        /* Its probe path leads over the hole: move it there, and go on with the new hole. */
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            map->slots[at].key = NULL;
            hole = at;
        }
    }
}

size_t
advisor_number_map_count(const struct advisor_number_map *map)
{
    return map->count;
}
