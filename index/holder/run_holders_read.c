#include "index/holder/holder_list.h"
#include "index/holder/run_holders.h"

/* Groups a reader may look at, also of a list that changes. */
static uint32_t
groups_of(const struct index_holder_list *list)
{
    const uint32_t groups = index_holder_list_groups(list);

    return groups < list->group_capacity ? groups : list->group_capacity;
}

static bool
covers(index_block_range range, uint32_t block)
{
    return index_block_range_from(range) <= block && block < index_block_range_to(range);
}

/* The first range of a list behind the cursor; 0: none. */
static index_block_range
next_range(const struct index_holder_list *list, uint32_t holder, uint32_t block)
{
    const uint32_t count = index_holder_list_ranges(list);

    for (uint32_t at = index_holder_list_place_read(list, holder); at < count; at++) {
        const index_block_range range = index_holder_list_range(list, at);

        if (index_block_range_holder(range) != holder || index_block_range_to(range) > block)
            return range;
    }
    return 0;
}

bool
index_run_holders_next_read(const struct index_run_holders *holders, uint64_t *cursor,
                            struct index_run_holders_place *place)
{
    const struct index_holder_list *list = index_holder_list_of(holders);
    const uint32_t holder = (uint32_t)(*cursor >> 16);
    const uint32_t block = *cursor & 0xffff;
    index_block_range best = atomic_load_explicit(&holders->one, memory_order_relaxed);

    *place = (struct index_run_holders_place){.holder = 0};
    if (list != NULL) {
        best = next_range(list, holder, block);
        for (uint32_t i = 0; i < groups_of(list); i++) {
            const struct index_holder_set *set = index_holder_list_set(list, i);
            const uint64_t key = index_holder_list_key(list, i);
            const uint32_t first = holder + (index_block_range_to(key) <= block);
            const uint32_t next =
                set != NULL ? index_holder_set_next(set, first) : INDEX_HOLDERS_MAX;

            if (next < INDEX_HOLDERS_MAX && (best == 0 || next < index_block_range_holder(best)))
                best = (uint64_t)next << 44 | key;
        }
    } else if (index_block_range_holder(best) < holder ||
               (index_block_range_holder(best) == holder && index_block_range_to(best) <= block)) {
        best = 0;
    }
    if (best == 0)
        return false;
    *place = (struct index_run_holders_place){.holder = index_block_range_holder(best),
                                              .code = index_block_range_code(best),
                                              .from = index_block_range_from(best),
                                              .to = index_block_range_to(best)};
    if (place->holder == holder && place->from < block)
        place->from = block;
    *cursor = (uint64_t)place->holder << 16 | place->to;
    return true;
}

uint32_t
index_run_holders_code_read(const struct index_run_holders *holders, uint32_t holder,
                            uint32_t block)
{
    const struct index_holder_list *list = index_holder_list_of(holders);
    const index_block_range one = atomic_load_explicit(&holders->one, memory_order_relaxed);
    uint32_t count;

    if (list == NULL)
        return index_block_range_holder(one) == holder && covers(one, block)
                   ? index_block_range_code(one)
                   : 0;
    count = index_holder_list_ranges(list);
    for (uint32_t at = index_holder_list_place_read(list, holder); at < count; at++) {
        const index_block_range range = index_holder_list_range(list, at);

        if (index_block_range_holder(range) != holder)
            break;
        if (covers(range, block))
            return index_block_range_code(range);
    }
    for (uint32_t i = 0; i < groups_of(list); i++) {
        const struct index_holder_set *set = index_holder_list_set(list, i);
        const uint64_t key = index_holder_list_key(list, i);

        if (covers(key, block) && set != NULL && index_holder_set_has(set, holder))
            return index_block_range_code(key);
    }
    return 0;
}

/* The first holder of the block in a group, from `holder` on; 0: none. */
static index_block_range
next_in_groups(const struct index_holder_list *list, uint32_t holder, uint32_t block)
{
    index_block_range best = 0;

    for (uint32_t i = 0; i < groups_of(list); i++) {
        const struct index_holder_set *set = index_holder_list_set(list, i);
        const uint64_t key = index_holder_list_key(list, i);
        uint32_t next;

        if (!covers(key, block) || set == NULL)
            continue;
        next = index_holder_set_next(set, holder);
        if (next < INDEX_HOLDERS_MAX && (best == 0 || next < index_block_range_holder(best)))
            best = (uint64_t)next << 44 | key;
    }
    return best;
}

static size_t
count_holders(const struct index_holder_list *list, uint32_t block)
{
    const uint32_t ranges = index_holder_list_ranges(list);
    size_t count = 0;

    for (uint32_t i = 0; i < groups_of(list); i++) {
        const struct index_holder_set *set = index_holder_list_set(list, i);

        if (set != NULL && covers(index_holder_list_key(list, i), block))
            count += index_holder_set_count(set);
    }
    for (uint32_t i = 0; i < ranges; i++)
        count += covers(index_holder_list_range(list, i), block);
    return count;
}

size_t
index_run_holders_block_read(const struct index_run_holders *holders, uint32_t block,
                             struct index_run_holders_place *places, size_t capacity)
{
    const struct index_holder_list *list = index_holder_list_of(holders);
    const index_block_range one = atomic_load_explicit(&holders->one, memory_order_relaxed);
    uint32_t holder = 0;
    uint32_t at = 0;

    if (list == NULL) {
        if (!covers(one, block))
            return 0;
        if (capacity > 0)
            places[0] = (struct index_run_holders_place){.holder = index_block_range_holder(one),
                                                         .code = index_block_range_code(one),
                                                         .from = index_block_range_from(one),
                                                         .to = index_block_range_to(one)};
        return 1;
    }
    for (size_t filled = 0; filled < capacity && holder < INDEX_HOLDERS_MAX; filled++) {
        index_block_range best = next_in_groups(list, holder, block);

        while (at < index_holder_list_ranges(list) &&
               !covers(index_holder_list_range(list, at), block))
            at++;
        if (at < index_holder_list_ranges(list) &&
            (best == 0 || index_block_range_holder(index_holder_list_range(list, at)) <
                              index_block_range_holder(best)))
            best = index_holder_list_range(list, at++);
        if (best == 0)
            break;
        places[filled] = (struct index_run_holders_place){.holder = index_block_range_holder(best),
                                                          .code = index_block_range_code(best),
                                                          .from = index_block_range_from(best),
                                                          .to = index_block_range_to(best)};
        holder = index_block_range_holder(best) + 1;
    }
    return count_holders(list, block);
}
