#include "index/block/holder_usage.h"

#include <xxhash.h>

#include "index/block/state.h"

void
index_holder_usage_init(struct index *index)
{
    index_hash_map_init(&index->usages, &index->memory);
    index_record_pool_init(&index->usage_pool, &index->memory, sizeof(struct index_holder_usage));
}

void
index_holder_usage_release(struct index *index)
{
    index_hash_map_release(&index->usages);
    index_record_pool_release(&index->usage_pool);
}

static uint64_t
hash_of(uint32_t holder, uint32_t ns)
{
    const uint64_t key = (uint64_t)holder << 32 | ns;

    return XXH3_64bits(&key, sizeof(key));
}

static bool
is_of(const struct index_holder_usage *usage, uint32_t holder, uint32_t ns)
{
    return usage->holder == holder && usage->ns == ns;
}

/* Number of the record, or INDEX_NONE; the probe stands on its entry. */
static uint32_t
look_up(struct index *index, uint32_t holder, uint32_t ns, struct index_hash_map_probe *probe)
{
    uint32_t number = index_hash_map_first(&index->usages, hash_of(holder, ns), probe);

    while (number != INDEX_NONE &&
           !is_of(index_record_pool_at(&index->usage_pool, number), holder, ns))
        number = index_hash_map_next(probe);
    return number;
}

struct index_holder_usage *
index_holder_usage_find(struct index *index, uint32_t holder, uint32_t ns)
{
    struct index_holder_record *record = index_state_holder(index, holder);
    struct index_holder_usage *usage;
    struct index_hash_map_probe probe;
    uint32_t number;

    /* Most holders are of one namespace.  One that went has no blocks, whatever it says else. */
    if (record->usage != 0) {
        usage = index_record_pool_at(&index->usage_pool, record->usage - 1);
        if (usage->blocks > 0 && is_of(usage, holder, ns))
            return usage;
    }
    number = look_up(index, holder, ns, &probe);
    if (number == INDEX_NONE)
        return NULL;
    record->usage = number + 1;
    return index_record_pool_at(&index->usage_pool, number);
}

struct index_holder_usage *
index_holder_usage_make(struct index *index, uint32_t holder, uint32_t ns)
{
    struct index_holder_usage *usage = index_holder_usage_find(index, holder, ns);
    uint32_t number;

    if (usage != NULL)
        return usage;
    if (!index_hash_map_reserve(&index->usages, hash_of(holder, ns)) ||
        !index_record_pool_reserve(&index->usage_pool))
        return NULL;
    number = index_record_pool_take(&index->usage_pool);
    index_hash_map_add(&index->usages, hash_of(holder, ns), number);
    usage = index_record_pool_at(&index->usage_pool, number);
    usage->holder = holder;
    usage->ns = ns;
    usage->first = UINT32_MAX;
    index_state_holder(index, holder)->usage = number + 1;
    return usage;
}

void
index_holder_usage_settle(struct index *index, struct index_holder_usage *usage)
{
    struct index_hash_map_probe probe;
    uint32_t number;

    if (usage->blocks > 0)
        return;
    number = look_up(index, usage->holder, usage->ns, &probe);
    assert(number != INDEX_NONE);
    index_hash_map_remove(&probe);
    index_record_pool_give(&index->usage_pool, number);
}

void
index_holder_usage_add(struct index_holder_usage *usage, uint32_t pairs, uint32_t number)
{
    const uint32_t page = number >> INDEX_PAGE_SHIFT;
    const uint32_t bit = page % INDEX_HOLDER_USAGE_BITS;

    usage->blocks += pairs;
    usage->bits[bit / 64] |= UINT64_C(1) << bit % 64;
    if (page < usage->first)
        usage->first = page;
    if (page > usage->last)
        usage->last = page;
}

void
index_holder_usage_take(struct index *index, uint32_t holder, uint32_t ns, uint32_t pairs)
{
    struct index_holder_usage *usage = index_holder_usage_find(index, holder, ns);

    if (pairs == 0)
        return;
    assert(usage != NULL && usage->blocks >= pairs);
    usage->blocks -= pairs;
    index_holder_usage_settle(index, usage);
}

uint32_t
index_holder_usage_page(const struct index_holder_usage *usage, uint32_t page)
{
    if (page < usage->first)
        page = usage->first;
    while (page <= usage->last) {
        const uint32_t bit = page % INDEX_HOLDER_USAGE_BITS;
        const uint64_t word = usage->bits[bit / 64] >> bit % 64;

        if (word != 0) {
            page += (uint32_t)__builtin_ctzll(word);
            break;
        }
        page += 64 - bit % 64;
    }
    return page <= usage->last ? page : UINT32_MAX;
}
