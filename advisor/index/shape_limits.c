#include "advisor/index/shape_limits.h"

#include <stdbool.h>

#include "base/core/alloc.h"

enum { SLOTS_MIN = 8 };

/* Where the value is, or would be. */
static uint64_t *
find(const struct advisor_shape_limits_set *set, uint64_t value)
{
    uint64_t mixed = value * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(mixed >> 32) & (set->capacity - 1);

    while (set->slots[at] != 0 && set->slots[at] != value)
        at = (at + 1) & (set->capacity - 1);
    return &set->slots[at];
}

static bool
has(const struct advisor_shape_limits_set *set, uint64_t value)
{
    return value == 0 || (set->capacity > 0 && *find(set, value) == value);
}

static enum kvt_err
reserve(struct advisor_shape_limits_set *set)
{
    struct advisor_shape_limits_set grown = {.capacity = set->capacity * 2, .count = set->count};

    if (set->capacity > set->count * 2)
        return KVT_OK;
    if (grown.capacity < SLOTS_MIN)
        grown.capacity = SLOTS_MIN;
    grown.slots = kvt_calloc(grown.capacity, sizeof(*grown.slots));
    if (grown.slots == NULL)
        return KVT_NOMEM;
    for (uint32_t i = 0; i < set->capacity; i++)
        if (set->slots[i] != 0)
            *find(&grown, set->slots[i]) = set->slots[i];
    kvt_free(set->slots);
    *set = grown;
    return KVT_OK;
}

/* There is room for it. */
static void
put(struct advisor_shape_limits_set *set, uint64_t value)
{
    *find(set, value) = value;
    set->count++;
}

static enum kvt_err
reserve_space(struct advisor_shape_limits *variety, uint32_t ns)
{
    struct advisor_shape_limits_space *grown;

    if (ns < variety->count)
        return KVT_OK;
    grown = kvt_realloc(variety->spaces, (size_t)ns + 1, sizeof(*grown));
    if (grown == NULL)
        return KVT_NOMEM;
    for (uint32_t i = variety->count; i <= ns; i++)
        grown[i] = (struct advisor_shape_limits_space){.ranks = {.slots = NULL}};
    variety->spaces = grown;
    variety->count = ns + 1;
    return KVT_OK;
}

static enum kvt_err
learn(struct advisor_shape_limits_space *space, uint32_t ranks, uint64_t size)
{
    const bool new_ranks = !has(&space->ranks, ranks);
    const bool new_size = !has(&space->sizes, size);
    enum kvt_err rc = KVT_OK;

    if ((new_ranks && space->ranks.count == ADVISOR_SHAPE_LIMITS_RANKS) ||
        (new_size && space->sizes.count == ADVISOR_SHAPE_LIMITS_SIZES))
        return KVT_RANGE;
    if (new_ranks)
        rc = reserve(&space->ranks);
    if (rc == KVT_OK && new_size)
        rc = reserve(&space->sizes);
    if (rc != KVT_OK)
        return rc;
    if (new_ranks)
        put(&space->ranks, ranks);
    if (new_size)
        put(&space->sizes, size);
    return KVT_OK;
}

enum kvt_err
advisor_shape_limits_admit(struct advisor_shape_limits *variety, uint32_t ns, uint32_t ranks,
                           uint64_t size)
{
    enum kvt_err rc;

    if (ranks == 0 ||
        (variety->last_ranks == ranks && variety->last_ns == ns && variety->last_size == size))
        return KVT_OK;
    rc = reserve_space(variety, ns);
    if (rc == KVT_OK)
        rc = learn(&variety->spaces[ns], ranks, size);
    if (rc != KVT_OK)
        return rc;
    variety->last_ns = ns;
    variety->last_ranks = ranks;
    variety->last_size = size;
    return KVT_OK;
}

void
advisor_shape_limits_release(struct advisor_shape_limits *variety)
{
    for (uint32_t i = 0; i < variety->count; i++) {
        kvt_free(variety->spaces[i].ranks.slots);
        kvt_free(variety->spaces[i].sizes.slots);
    }
    kvt_free(variety->spaces);
    *variety = (struct advisor_shape_limits){.spaces = NULL};
}
