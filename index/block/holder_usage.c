#include "index/block/holder_usage.h"

#include <xxhash.h>

#include "index/block/state.h"

void
index_holder_usage_init(struct index *index)
{
    index_hash_map_init(&index->stakes, &index->memory);
    index_record_pool_init(&index->stake_pool, &index->memory, sizeof(struct index_holder_usage));
}

void
index_holder_usage_release(struct index *index)
{
    index_hash_map_release(&index->stakes);
    index_record_pool_release(&index->stake_pool);
}

static uint64_t
hash_of(uint32_t holder, uint32_t ns)
{
    const uint64_t key = (uint64_t)holder << 32 | ns;

    return XXH3_64bits(&key, sizeof(key));
}

static bool
is_of(const struct index_holder_usage *stake, uint32_t holder, uint32_t ns)
{
    return stake->holder == holder && stake->ns == ns;
}

/* Number of the stake, or INDEX_NONE; the probe stands on its entry. */
static uint32_t
look_up(struct index *index, uint32_t holder, uint32_t ns, struct index_hash_map_probe *probe)
{
    uint32_t number = index_hash_map_first(&index->stakes, hash_of(holder, ns), probe);

    while (number != INDEX_NONE &&
           !is_of(index_record_pool_at(&index->stake_pool, number), holder, ns))
        number = index_hash_map_next(probe);
    return number;
}

struct index_holder_usage *
index_holder_usage_find(struct index *index, uint32_t holder, uint32_t ns)
{
    struct index_holder_record *record = index_state_holder(index, holder);
    struct index_holder_usage *stake;
    struct index_hash_map_probe probe;
    uint32_t number;

    /* Most holders are of one namespace.  One that went has no blocks, whatever it says else. */
    if (record->stake != 0) {
        stake = index_record_pool_at(&index->stake_pool, record->stake - 1);
        if (stake->blocks > 0 && is_of(stake, holder, ns))
            return stake;
    }
    number = look_up(index, holder, ns, &probe);
    if (number == INDEX_NONE)
        return NULL;
    record->stake = number + 1;
    return index_record_pool_at(&index->stake_pool, number);
}

struct index_holder_usage *
index_holder_usage_make(struct index *index, uint32_t holder, uint32_t ns)
{
    struct index_holder_usage *stake = index_holder_usage_find(index, holder, ns);
    uint32_t number;

    if (stake != NULL)
        return stake;
    if (!index_hash_map_reserve(&index->stakes, hash_of(holder, ns)) ||
        !index_record_pool_reserve(&index->stake_pool))
        return NULL;
    number = index_record_pool_take(&index->stake_pool);
    index_hash_map_add(&index->stakes, hash_of(holder, ns), number);
    stake = index_record_pool_at(&index->stake_pool, number);
    stake->holder = holder;
    stake->ns = ns;
    stake->first = UINT32_MAX;
    index_state_holder(index, holder)->stake = number + 1;
    return stake;
}

void
index_holder_usage_settle(struct index *index, struct index_holder_usage *stake)
{
    struct index_hash_map_probe probe;
    uint32_t number;

    if (stake->blocks > 0)
        return;
    number = look_up(index, stake->holder, stake->ns, &probe);
    assert(number != INDEX_NONE);
    index_hash_map_remove(&probe);
    index_record_pool_give(&index->stake_pool, number);
}

void
index_holder_usage_add(struct index_holder_usage *stake, uint32_t pairs, uint32_t number)
{
    const uint32_t page = number >> INDEX_PAGE_SHIFT;
    const uint32_t bit = page % INDEX_HOLDER_USAGE_BITS;

    stake->blocks += pairs;
    stake->bits[bit / 64] |= UINT64_C(1) << bit % 64;
    if (page < stake->first)
        stake->first = page;
    if (page > stake->last)
        stake->last = page;
}

void
index_holder_usage_take(struct index *index, uint32_t holder, uint32_t ns, uint32_t pairs)
{
    struct index_holder_usage *stake = index_holder_usage_find(index, holder, ns);

    if (pairs == 0)
        return;
    assert(stake != NULL && stake->blocks >= pairs);
    stake->blocks -= pairs;
    index_holder_usage_settle(index, stake);
}

uint32_t
index_holder_usage_page(const struct index_holder_usage *stake, uint32_t page)
{
    if (page < stake->first)
        page = stake->first;
    while (page <= stake->last) {
        const uint32_t bit = page % INDEX_HOLDER_USAGE_BITS;
        const uint64_t word = stake->bits[bit / 64] >> bit % 64;

        if (word != 0) {
            page += (uint32_t)__builtin_ctzll(word);
            break;
        }
        page += 64 - bit % 64;
    }
    return page <= stake->last ? page : UINT32_MAX;
}
