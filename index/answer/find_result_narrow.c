#include <string.h>

#include "index/answer/find_result.h"
#include "index/block/state.h"

enum {
    SPARSE_FROM = 256, /* ranges from which looking up a few followers pays */
    SPARSE_COST = 16,  /* a search in as many ranges as this costs */
};

/* One run being read.  Beside a change anything may be read twice or not at all, so what leaves is
 * bounded by its room, not by how many there can be. */
struct reading {
    struct index_find_result *found;
    const struct index_find_result_set *old; /* NULL: all there are */
    struct index_find_result_set *now;
    uint32_t from;
    uint32_t to;
    uint32_t depth;
};

static inline void
or_word(struct index_find_result_set *set, uint32_t at, uint64_t bits)
{
    const uint64_t bit = UINT64_C(1) << at % 64;

    set->words[at] = (set->summary[at / 64] & bit) != 0 ? set->words[at] | bits : bits;
    set->summary[at / 64] |= bit;
}

/* 1: the holder is in the set.  Without a branch: a word that does not count is read in vain. */
static inline uint32_t
has(const struct index_find_result_set *set, uint32_t holder)
{
    const uint64_t word = set->words[holder / 64] >> holder % 64;

    return (uint32_t)(word & set->summary[holder / 4096] >> holder / 64 % 64) & 1;
}

static inline uint64_t
left_key(const struct reading *reading, uint32_t end, uint32_t holder)
{
    return (uint64_t) ~(reading->depth + (end - reading->from)) << 32 | holder;
}

/* Followers of one word of a set that have the same part, up to `end`. */
static inline void
take_word(struct reading *reading, uint32_t at, uint64_t bits, uint32_t end)
{
    struct index_find_result *found = reading->found;

    if (reading->old != NULL)
        bits &= index_find_result_word(reading->old, at);
    if (bits == 0)
        return;
    if (end >= reading->to) {
        or_word(reading->now, at, bits);
        return;
    }
    for (; bits != 0 && found->left_tried < found->left_capacity; bits &= bits - 1)
        found->left[found->left_tried++] =
            left_key(reading, end, at * 64 + (uint32_t)__builtin_ctzll(bits));
}

/* A group whose part ends at `end`. */
static bool
take_group(struct reading *reading, const struct index_holder_set *set, uint32_t end)
{
    const uint32_t count = index_holder_set_count(set);
    const uint32_t words = set->words;

    if (end < reading->to && !index_find_result_reserve(reading->found, count))
        return false;
    if (set->few != 0) {
        for (uint32_t i = 0; i < count && i < set->few; i++) {
            const uint32_t holder = index_holder_set_number(set, i);

            take_word(reading, holder / 64, UINT64_C(1) << holder % 64, end);
        }
    } else if (reading->old == NULL) {
        for (uint32_t i = 0; i < words; i++)
            take_word(reading, i, index_holder_set_word(set, i), end);
    } else {
        for (uint32_t i = 0; i < reading->found->upper && i * 64 < words; i++) {
            for (uint64_t left = reading->old->summary[i]; left != 0; left &= left - 1) {
                const uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(left);

                if (at < words)
                    take_word(reading, at, index_holder_set_word(set, at), end);
            }
        }
    }
    return true;
}

/* The holder follows to block `end`. */
static inline void
take_one(struct reading *reading, uint32_t holder, uint32_t end)
{
    struct index_find_result *found = reading->found;

    if (end >= reading->to)
        or_word(reading->now, holder / 64, UINT64_C(1) << holder % 64);
    else if (found->left_tried < found->left_capacity)
        found->left[found->left_tried++] = left_key(reading, end, holder);
}

/* The ranges of one holder from `at` on: to what block it follows, or 0; `at` moves behind them. */
static inline uint32_t
follow(const struct reading *reading, const struct index_holder_list *list, uint32_t count,
       uint32_t *at)
{
    const index_block_range first = index_holder_list_range(list, (*at)++);
    uint32_t end = index_block_range_to(first);

    if (index_block_range_from(first) > reading->from || end <= reading->from)
        return 0;
    while (end < reading->to && *at < count) {
        const index_block_range next = index_holder_list_range(list, *at);

        if (index_block_range_holder(next) != index_block_range_holder(first) ||
            index_block_range_from(next) != end)
            break;
        end = index_block_range_to(next);
        (*at)++;
    }
    return end;
}

/* Few follow and many hold: look each one up. */
static void
look_up(struct reading *reading, const struct index_holder_list *list, uint32_t count)
{
    for (uint32_t i = 0; i < reading->found->upper * 64; i++) {
        for (uint64_t bits = index_find_result_word(reading->old, i); bits != 0; bits &= bits - 1) {
            const uint32_t holder = i * 64 + (uint32_t)__builtin_ctzll(bits);
            uint32_t at = index_holder_list_place_read(list, holder);

            while (at < count &&
                   index_block_range_holder(index_holder_list_range(list, at)) == holder) {
                const uint32_t end = follow(reading, list, count, &at);

                if (end == 0)
                    continue;
                take_one(reading, holder, end);
                break;
            }
        }
    }
}

/* All ranges of the array, or those that are not in its order. */
static void
take_ranges(struct reading *reading, const struct index_holder_list *list, uint32_t count,
            bool ordered)
{
    uint32_t before = UINT32_MAX; /* holder of the range before */

    for (uint32_t at = 0; at < count;) {
        const index_block_range range = index_holder_list_range(list, at);
        const uint32_t holder = index_block_range_holder(range) % INDEX_HOLDERS_MAX;
        uint32_t end;

        if (ordered && index_block_range_from(range) == 0 && holder != before &&
            (at + 1 == count ||
             index_block_range_holder(index_holder_list_range(list, at + 1)) != holder)) {
            at++;
            continue;
        }
        before = holder;
        end = follow(reading, list, count, &at);
        if (end != 0 && (reading->old == NULL || has(reading->old, holder) != 0))
            take_one(reading, holder, end);
    }
}

/* In any order: groups first, then ranges. */
static bool
take_any(struct reading *reading, const struct index_holder_list *list, uint32_t groups,
         bool sparse)
{
    const uint32_t count = index_holder_list_ranges(list);

    for (uint32_t i = 0; i < groups; i++) {
        const struct index_holder_set *set = index_holder_list_set(list, i);
        const uint64_t key = index_holder_list_key(list, i);

        if (set != NULL && index_block_range_from(key) <= reading->from &&
            index_block_range_to(key) > reading->from &&
            !take_group(reading, set, index_block_range_to(key)))
            return false;
    }
    if (!index_find_result_reserve(reading->found, count))
        return false;
    if (sparse)
        look_up(reading, list, count);
    else
        take_ranges(reading, list, count, false);
    reading->found->mixed = true;
    return true;
}

/* Groups by the end of their part, longest first; those that go on to the end are taken. */
static bool
sort_groups(struct reading *reading, const struct index_holder_list *list, uint32_t groups,
            const struct index_holder_set *sets[INDEX_HOLDER_LIST_GROUPS_MAX],
            uint32_t ends[INDEX_HOLDER_LIST_GROUPS_MAX], uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < groups; i++) {
        const struct index_holder_set *set = index_holder_list_set(list, i);
        const uint64_t key = index_holder_list_key(list, i);
        const uint32_t end = index_block_range_to(key);
        uint32_t at = *count;

        if (set == NULL || index_block_range_from(key) != 0)
            continue;
        if (end >= reading->to) {
            if (!take_group(reading, set, end))
                return false;
            continue;
        }
        for (; at > 0 && ends[at - 1] <= end; at--) {
            reading->found->mixed |= ends[at - 1] == end;
            ends[at] = ends[at - 1];
            sets[at] = sets[at - 1];
        }
        ends[at] = end;
        sets[at] = set;
        (*count)++;
    }
    return true;
}

/* Those of the order from `at` on who follow to the end; returns where the others begin. */
static uint32_t
stay(const struct reading *reading, const _Atomic uint32_t *order, uint32_t at, uint32_t count)
{
    const struct index_find_result_set *old = reading->old;
    struct index_find_result_set *now = reading->now;
    const uint32_t least = index_holder_list_rank(0, reading->to - 1); /* of those who leave */

    for (; at < count; at++) {
        const uint32_t rank = atomic_load_explicit(&order[at], memory_order_relaxed);
        const uint32_t holder = rank & 0xffff;

        if (rank >= least)
            break;
        if (old == NULL || has(old, holder) != 0)
            or_word(now, holder / 64, UINT64_C(1) << holder % 64);
    }
    return at;
}

/* Those of the order from `at` on who leave behind block `end`; there is room for them. */
static uint32_t
leave(const struct reading *reading, const _Atomic uint32_t *order, uint32_t at, uint32_t count,
      uint32_t end)
{
    const struct index_find_result_set *old = reading->old;
    struct index_find_result *found = reading->found;
    const uint32_t least = index_holder_list_rank(0, end); /* of those who come after a group */
    const uint32_t deep = UINT32_MAX - reading->depth - INDEX_HOLDER_LIST_LAST;
    uint64_t *left = found->left + found->left_tried;

    for (; at < count; at++) {
        const uint32_t rank = atomic_load_explicit(&order[at], memory_order_relaxed);

        if (rank >= least)
            break;
        *left = (uint64_t)(deep + (rank >> 16)) << 32 | (rank & 0xffff);
        left += old == NULL ? 1 : has(old, rank & 0xffff);
    }
    found->left_tried = (uint32_t)(left - found->left);
    return at;
}

/* Longest first, as groups and the order of the list have it: those who leave need no sorting. */
static bool
take_ordered(struct reading *reading, const struct index_holder_list *list, uint32_t groups)
{
    struct index_find_result *found = reading->found;
    const _Atomic uint32_t *order = index_holder_list_order(list);
    const uint32_t ranges = index_holder_list_ranges(list);
    uint32_t count = atomic_load_explicit(&list->order_count, memory_order_relaxed);
    const struct index_holder_set *sets[INDEX_HOLDER_LIST_GROUPS_MAX];
    uint32_t ends[INDEX_HOLDER_LIST_GROUPS_MAX];
    uint32_t group_count = 0;
    uint32_t at = 0;

    if (count > list->range_capacity)
        count = list->range_capacity;
    if ((groups > 0 && !sort_groups(reading, list, groups, sets, ends, &group_count)) ||
        !index_find_result_reserve(found, (size_t)count + ranges))
        return false;
    at = stay(reading, order, 0, count);
    for (uint32_t i = 0; i < group_count; i++) {
        at = leave(reading, order, at, count, ends[i]);
        if (at < count && index_holder_list_rank_to(
                              atomic_load_explicit(&order[at], memory_order_relaxed)) == ends[i])
            found->mixed = true; /* holders of both in one order */
        if (!take_group(reading, sets[i], ends[i]) ||
            !index_find_result_reserve(found, (size_t)count + ranges))
            return false;
    }
    at = leave(reading, order, at, count, 0);
    if (ranges != count) {
        take_ranges(reading, list, ranges, true);
        found->mixed = true;
    }
    return true;
}

/* Who followed and has nothing here leaves where the run begins. */
static bool
leave_behind(struct reading *reading)
{
    struct index_find_result *found = reading->found;
    const struct index_find_result_set *old = reading->old;
    uint64_t any = 0;

    for (uint32_t i = 0; i < found->upper; i++) {
        for (uint64_t words = old->summary[i]; words != 0; words &= words - 1) {
            const uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(words);

            found->rest[at] = old->words[at] & ~index_find_result_word(reading->now, at);
            any |= found->rest[at];
        }
    }
    if (any == 0)
        return true;
    for (uint32_t i = found->left_count; i < found->left_tried; i++)
        found->rest[(uint32_t)found->left[i] / 64] &=
            ~(UINT64_C(1) << (uint32_t)found->left[i] % 64);
    for (uint32_t i = 0; i < found->upper; i++) {
        for (uint64_t words = old->summary[i]; words != 0; words &= words - 1) {
            const uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(words);

            if (found->rest[at] != 0 && !index_find_result_reserve(found, 64))
                return false;
            for (uint64_t bits = found->rest[at]; bits != 0; bits &= bits - 1)
                found->left[found->left_tried++] =
                    left_key(reading, reading->from, at * 64 + (uint32_t)__builtin_ctzll(bits));
        }
    }
    return true;
}

static bool
take_list(struct reading *reading, const struct index_holder_list *list)
{
    const uint32_t ranges = index_holder_list_ranges(list);
    uint32_t groups = index_holder_list_groups(list);

    if (groups > list->group_capacity)
        groups = list->group_capacity;
    if (reading->old != NULL && ranges >= SPARSE_FROM &&
        index_find_result_members(reading->found, reading->old) < ranges / SPARSE_COST)
        return take_any(reading, list, groups, true);
    if (reading->from == 0)
        return take_ordered(reading, list, groups);
    return take_any(reading, list, groups, false);
}

enum kvt_err
index_find_result_narrow(struct index_find_result *found, const struct index_run_holders *holders,
                         uint32_t from, uint32_t to, uint32_t depth)
{
    const struct index_holder_list *list = index_holder_list_of(holders);
    struct reading reading = {
        .found = found,
        .old = depth == 0 ? NULL : &found->sets[found->followed],
        .now = &found->sets[1 - found->followed],
        .from = from,
        .to = to,
        .depth = depth,
    };

    memset(reading.now->summary, 0, sizeof(reading.now->summary));
    found->left_tried = found->left_count;
    found->mixed = false;
    if (!index_find_result_reserve(found, 1))
        return KVT_NOMEM;
    if (list == NULL) {
        const index_block_range one = atomic_load_explicit(&holders->one, memory_order_relaxed);
        const uint32_t holder = index_block_range_holder(one) % INDEX_HOLDERS_MAX;

        if (index_block_range_from(one) <= from && from < index_block_range_to(one) &&
            (reading.old == NULL || has(reading.old, holder)))
            take_one(&reading, holder, index_block_range_to(one));
    } else if (!take_list(&reading, list)) {
        return KVT_NOMEM;
    }
    return reading.old == NULL || leave_behind(&reading) ? KVT_OK : KVT_NOMEM;
}
