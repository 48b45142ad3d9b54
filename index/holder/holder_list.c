#include "index/holder/holder_list.h"

#include <assert.h>

enum { SHRINK_FROM = 32, SHRINK_WHEN = 8, SET_SHRINK_WORDS = 16, SET_SHRINK_COUNT = 8 };

static inline void
put_range(struct index_holder_list *list, uint32_t at, index_block_range range)
{
    atomic_store_explicit(index_holder_list_range_at(list, at), range, memory_order_relaxed);
}

/* Where the rank is in the order, or would be. */
static uint32_t
order_place(const struct index_holder_list *list, uint32_t rank)
{
    const _Atomic uint32_t *order = index_holder_list_order(list);
    uint32_t low = 0;
    uint32_t high = atomic_load_explicit(&list->order_count, memory_order_relaxed);

    while (low < high) {
        const uint32_t middle = (low + high) / 2;

        if (atomic_load_explicit(&order[middle], memory_order_relaxed) < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The only range of the holder, from the first block on, ended at `old` and ends at `now`; 0: there
 * was, or is, no such range. */
static void
order_change(struct index_holder_list *list, uint32_t holder, uint32_t old, uint32_t now)
{
    _Atomic uint32_t *order = index_holder_list_order(list);
    uint32_t count = atomic_load_explicit(&list->order_count, memory_order_relaxed);
    uint32_t at = old != 0 ? order_place(list, index_holder_list_rank(holder, old)) : count;
    uint32_t to = now != 0 ? order_place(list, index_holder_list_rank(holder, now)) : count;

    if (old == now)
        return;
    if (now != 0 && old != 0 && to > at)
        to--; /* it is counted itself */
    if (now == 0)
        to = count - 1;
    for (; at < to; at++)
        atomic_store_explicit(&order[at],
                              atomic_load_explicit(&order[at + 1], memory_order_relaxed),
                              memory_order_relaxed);
    for (; at > to; at--)
        atomic_store_explicit(&order[at],
                              atomic_load_explicit(&order[at - 1], memory_order_relaxed),
                              memory_order_relaxed);
    if (now != 0)
        atomic_store_explicit(&order[to], index_holder_list_rank(holder, now),
                              memory_order_relaxed);
    count = count + (now != 0) - (old != 0);
    atomic_store_explicit(&list->order_count, count, memory_order_relaxed);
}

bool
index_holder_list_open(struct index_run_holders *holders,
                       const struct index_run_holders_context *context, index_block_range first,
                       bool overdraw)
{
    enum { SPANS = 4 };
    const size_t bytes = sizeof(struct index_holder_list) + 12 * SPANS;
    struct index_holder_list *list = overdraw ? index_memory_overdraw(context->memory, 1, bytes)
                                              : index_memory_take(context->memory, 1, bytes);

    if (list == NULL)
        return false;
    list->range_capacity = SPANS;
    list->end = (uint16_t)index_block_range_to(first);
    put_range(list, 0, first);
    atomic_store_explicit(&list->range_count, 1, memory_order_relaxed);
    if (index_block_range_from(first) == 0)
        order_change(list, index_block_range_holder(first), 0, index_block_range_to(first));
    atomic_store_explicit(&holders->list, list, memory_order_release);
    atomic_store_explicit(&holders->one, 0, memory_order_relaxed);
    return true;
}

void
index_holder_list_retire(struct index_holder_list *list,
                         const struct index_run_holders_context *context)
{
    for (uint32_t i = 0; i < index_holder_list_groups(list); i++) {
        struct index_holder_set *set = index_holder_list_set(list, i);

        index_epoch_retire(context->epoch, set, 1, index_holder_set_bytes(set));
    }
    index_epoch_retire(context->epoch, list, 1, index_holder_list_bytes(list));
}

uint32_t
index_holder_list_place_read(const struct index_holder_list *list, uint32_t holder)
{
    const uint64_t wanted = (uint64_t)holder << 44;
    uint32_t low = 0;
    uint32_t high = index_holder_list_ranges(list);

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (index_holder_list_range(list, middle) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct index_holder_list_slot
index_holder_list_find(const struct index_holder_list *list, uint32_t holder)
{
    struct index_holder_list_slot seat = {.group = INDEX_HOLDER_LIST_NO_GROUP};

    seat.first = index_holder_list_place_read(list, holder);
    while (seat.first + seat.count < index_holder_list_ranges(list) &&
           index_block_range_holder(index_holder_list_range(list, seat.first + seat.count)) ==
               holder)
        seat.count++;
    for (uint32_t i = 0; seat.count == 0 && i < index_holder_list_groups(list); i++) {
        if (!index_holder_set_has(index_holder_list_set(list, i), holder))
            continue;
        seat.group = i;
        break;
    }
    return seat;
}

void
index_holder_list_copy(const struct index_holder_list *list,
                       const struct index_holder_list_slot *seat, uint32_t holder,
                       struct index_block_ranges *ranges)
{
    ranges->count = 0;
    if (seat->group != INDEX_HOLDER_LIST_NO_GROUP) {
        ranges->ranges[ranges->count++] =
            (uint64_t)holder << 44 | index_holder_list_key(list, seat->group);
        return;
    }
    for (uint32_t i = 0; i < seat->count; i++)
        ranges->ranges[ranges->count++] = index_holder_list_range(list, seat->first + i);
}

void
index_holder_list_others(struct index_holder_list *list, uint32_t holder,
                         struct index_blocks *blocks)
{
    const uint32_t count = index_holder_list_ranges(list);

    for (uint32_t i = 0; i < index_holder_list_groups(list) && blocks->count > 0; i++) {
        const struct index_holder_set *set = index_holder_list_set(list, i);
        const uint64_t key = index_holder_list_key(list, i);

        if (index_holder_set_count(set) > 1 || !index_holder_set_has(set, holder))
            index_blocks_remove(blocks, index_block_range_from(key), index_block_range_to(key));
    }
    if (list->witness >= count)
        list->witness = 0;
    for (uint32_t i = 0, at = list->witness; i < count && blocks->count > 0; i++) {
        const index_block_range range = index_holder_list_range(list, at);

        if (index_block_range_holder(range) != holder) {
            index_blocks_remove(blocks, index_block_range_from(range), index_block_range_to(range));
            list->witness = at;
        }
        if (++at == count)
            at = 0;
    }
}

/* The group of holders with this part. */
static uint32_t
find_group(const struct index_holder_list *list, index_block_range range)
{
    const uint64_t key = range & INDEX_BLOCK_RANGE_KEY_MASK;
    uint32_t at = 0;

    while (at < index_holder_list_groups(list) && index_holder_list_key(list, at) != key)
        at++;
    return at < index_holder_list_groups(list) ? at : INDEX_HOLDER_LIST_NO_GROUP;
}

/* Make sure that the group has room for the holder. */
static bool
make_room(struct index_holder_list *list, const struct index_run_holders_context *context,
          uint32_t at, uint32_t holder, bool overdraw)
{
    struct index_group *group = index_holder_list_group(list, at);
    struct index_holder_set *set = index_holder_list_set(list, at);
    struct index_holder_set *larger;
    uint32_t highest = holder;

    if (index_holder_set_fits(set, holder))
        return true;
    if (set->few != 0) {
        const uint32_t last = index_holder_set_number(set, index_holder_set_count(set) - 1);

        highest = last > holder ? last : holder;
    } else {
        /* By a quarter more, so that holders that come by number do not copy it each time. */
        highest += highest / 4;
        if (highest >= INDEX_HOLDERS_MAX)
            highest = INDEX_HOLDERS_MAX - 1;
    }
    larger = index_holder_set_copy(set, context->memory, index_holder_set_count(set) + 1, highest,
                                   overdraw);
    if (larger == NULL)
        return false;
    if (!index_holder_set_fits(larger, holder)) {
        index_memory_give(context->memory, larger, 1, index_holder_set_bytes(larger));
        return false;
    }
    atomic_store_explicit(&group->set, larger, memory_order_release);
    index_epoch_retire(context->epoch, set, 1, index_holder_set_bytes(set));
    return true;
}

/* Take the holder out of its group; an empty group goes. */
static void
leave_group(struct index_holder_list *list, const struct index_run_holders_context *context,
            uint32_t at, uint32_t holder)
{
    struct index_group *group = index_holder_list_group(list, at);
    struct index_holder_set *set = index_holder_list_set(list, at);
    const uint32_t last = index_holder_list_groups(list) - 1;

    index_holder_set_remove(set, holder);
    if (index_holder_set_count(set) == 0) {
        atomic_store_explicit(&group->key, index_holder_list_key(list, last), memory_order_relaxed);
        atomic_store_explicit(&group->set, index_holder_list_set(list, last), memory_order_release);
        atomic_store_explicit(&index_holder_list_group(list, last)->set, NULL,
                              memory_order_relaxed);
        atomic_store_explicit(&list->group_count, last, memory_order_relaxed);
        index_epoch_retire(context->epoch, set, 1, index_holder_set_bytes(set));
    } else if (set->words > SET_SHRINK_WORDS && index_holder_set_count(set) == SET_SHRINK_COUNT) {
        uint32_t highest = 0;
        struct index_holder_set *smaller;

        for (uint32_t i = 0; i < INDEX_HOLDERS_MAX; i = index_holder_set_next(set, i + 1))
            highest = i;
        smaller = index_holder_set_copy(set, context->memory, SET_SHRINK_COUNT, highest, false);
        if (smaller == NULL)
            return; /* it works as it is */
        atomic_store_explicit(&group->set, smaller, memory_order_release);
        index_epoch_retire(context->epoch, set, 1, index_holder_set_bytes(set));
    }
}

/* Put `ranges` where those of the seat are. */
static void
replace_ranges(struct index_holder_list *list, const struct index_holder_list_slot *seat,
               const index_block_range *ranges, uint32_t count)
{
    const uint32_t old = index_holder_list_ranges(list);
    const uint32_t now = old - seat->count + count;
    const uint32_t behind = seat->first + seat->count;

    if (now > old)
        for (uint32_t i = old; i > behind; i--)
            put_range(list, i - 1 + now - old, index_holder_list_range(list, i - 1));
    if (now < old)
        for (uint32_t i = behind; i < old; i++)
            put_range(list, i + now - old, index_holder_list_range(list, i));
    for (uint32_t i = 0; i < count; i++)
        put_range(list, seat->first + i, ranges[i]);
    atomic_store_explicit(&list->range_count, now, memory_order_relaxed);
}

/* Where the holder goes with `ranges`, with room made for it; false: no memory. */
static bool
prepare(struct index_run_holders *holders, const struct index_run_holders_context *context,
        uint32_t holder, const struct index_block_ranges *ranges, bool overdraw,
        struct index_holder_list_slot *seat, uint32_t *target)
{
    for (;;) {
        struct index_holder_list *list = index_holder_list_of(holders);

        *seat = index_holder_list_find(list, holder);
        *target =
            ranges->count == 1 ? find_group(list, ranges->ranges[0]) : INDEX_HOLDER_LIST_NO_GROUP;
        if (*target != INDEX_HOLDER_LIST_NO_GROUP &&
            (*target == seat->group || make_room(list, context, *target, holder, overdraw)))
            return true;
        *target = INDEX_HOLDER_LIST_NO_GROUP;
        if (index_holder_list_ranges(list) - seat->count + ranges->count <= list->range_capacity)
            return true;
        if (!index_holder_list_rebuild(holders, context, ranges->count, overdraw))
            return false;
    }
}

/* Where the range ends, if it is all there is and begins with the run; otherwise 0. */
static uint32_t
simple_end(uint32_t count, index_block_range first)
{
    return count == 1 && index_block_range_from(first) == 0 ? index_block_range_to(first) : 0;
}

bool
index_holder_list_put(struct index_run_holders *holders,
                      const struct index_run_holders_context *context, uint32_t holder,
                      const struct index_block_ranges *ranges, bool overdraw)
{
    struct index_holder_list_slot seat;
    struct index_holder_list *list;
    uint32_t target;
    uint32_t old;

    if (!prepare(holders, context, holder, ranges, overdraw, &seat, &target))
        return false;
    list = index_holder_list_of(holders);
    for (uint32_t i = 0; i < ranges->count; i++)
        if (index_block_range_to(ranges->ranges[i]) > list->end)
            list->end = (uint16_t)index_block_range_to(ranges->ranges[i]);
    if (target != INDEX_HOLDER_LIST_NO_GROUP && target == seat.group)
        return true;
    if (target != INDEX_HOLDER_LIST_NO_GROUP)
        index_holder_set_add(index_holder_list_set(list, target), holder);
    old = seat.count == 0 ? 0 : simple_end(seat.count, index_holder_list_range(list, seat.first));
    if (target != INDEX_HOLDER_LIST_NO_GROUP) {
        replace_ranges(list, &seat, NULL, 0);
        order_change(list, holder, old, 0);
    } else {
        replace_ranges(list, &seat, ranges->ranges, ranges->count);
        order_change(list, holder, old, simple_end(ranges->count, ranges->ranges[0]));
    }
    if (seat.group != INDEX_HOLDER_LIST_NO_GROUP)
        leave_group(list, context, seat.group, holder);
    /* Without memory it stays as large as it is. */
    if (list->range_capacity >= SHRINK_FROM &&
        index_holder_list_ranges(list) < list->range_capacity / SHRINK_WHEN)
        (void)!index_holder_list_rebuild(holders, context, index_holder_list_ranges(list), false);
    return true;
}

/* Somebody but the holder, who has nothing of it, has all of [from, to). */
static bool
others_have(struct index_holder_list *list, uint32_t holder, uint32_t from, uint32_t to)
{
    const uint32_t count = index_holder_list_ranges(list);
    index_block_range range = 0;

    if (list->witness < count)
        range = index_holder_list_range(list, list->witness);
    if (range != 0 && index_block_range_holder(range) != holder &&
        index_block_range_from(range) <= from && to <= index_block_range_to(range))
        return true;
    for (uint32_t i = 0; i < index_holder_list_groups(list); i++)
        if (index_block_range_from(index_holder_list_key(list, i)) <= from &&
            to <= index_block_range_to(index_holder_list_key(list, i)))
            return true;
    return false;
}

bool
index_holder_list_extend(struct index_run_holders *holders,
                         const struct index_run_holders_context *context, uint32_t holder,
                         uint32_t code, uint32_t from, uint32_t to)
{
    struct index_holder_list *list = index_holder_list_of(holders);
    const struct index_holder_list_slot seat = index_holder_list_find(list, holder);
    uint32_t begin = from;
    uint32_t target;
    struct index_block_ranges ranges;
    index_block_range old = 0;

    if (seat.group != INDEX_HOLDER_LIST_NO_GROUP)
        old = (uint64_t)holder << 44 | index_holder_list_key(list, seat.group);
    else if (seat.count == 1)
        old = index_holder_list_range(list, seat.first);
    if (old != 0) {
        if (index_block_range_code(old) != code || index_block_range_to(old) != from)
            return false;
        begin = index_block_range_from(old);
    }
    if (seat.count > 1 || !others_have(list, holder, from, to))
        return false;
    ranges.count = 1;
    ranges.ranges[0] = index_block_range_make(holder, code, begin, to);
    target = find_group(list, ranges.ranges[0]);
    if (seat.group != INDEX_HOLDER_LIST_NO_GROUP && target != INDEX_HOLDER_LIST_NO_GROUP &&
        index_holder_set_fits(index_holder_list_set(list, target), holder)) {
        index_holder_set_add(index_holder_list_set(list, target), holder);
        leave_group(list, context, seat.group, holder);
        return true;
    }
    if (seat.count != 1 || target != INDEX_HOLDER_LIST_NO_GROUP)
        return index_holder_list_put(holders, context, holder, &ranges, false);
    put_range(list, seat.first, ranges.ranges[0]);
    if (begin == 0)
        order_change(list, holder, from, to);
    return true;
}

void
index_holder_list_close(struct index_run_holders *holders,
                        const struct index_run_holders_context *context)
{
    struct index_holder_list *list = index_holder_list_of(holders);
    const uint32_t groups = index_holder_list_groups(list);
    const uint32_t ranges = index_holder_list_ranges(list);
    index_block_range one = 0;

    if (groups == 0 && ranges == 1)
        one = index_holder_list_range(list, 0);
    else if (groups == 1 && ranges == 0 &&
             index_holder_set_count(index_holder_list_set(list, 0)) == 1)
        one = (uint64_t)index_holder_set_next(index_holder_list_set(list, 0), 0) << 44 |
              index_holder_list_key(list, 0);
    else if (groups != 0 || ranges != 0)
        return;
    atomic_store_explicit(&holders->one, one, memory_order_relaxed);
    atomic_store_explicit(&holders->list, NULL, memory_order_relaxed);
    index_holder_list_retire(list, context);
}

void
index_holder_list_end(struct index_holder_list *list)
{
    const uint32_t old = list->end;
    uint32_t end = 0;

    for (uint32_t i = 0; i < index_holder_list_groups(list); i++)
        if (index_block_range_to(index_holder_list_key(list, i)) > end)
            end = index_block_range_to(index_holder_list_key(list, i));
    for (uint32_t i = 0; i < index_holder_list_ranges(list) && end < old; i++)
        if (index_block_range_to(index_holder_list_range(list, i)) > end)
            end = index_block_range_to(index_holder_list_range(list, i));
    list->end = (uint16_t)end;
}
