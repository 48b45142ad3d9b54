#include <assert.h>

#include "index/holder/holder_list.h"

/*
 * A list of another size, with groups for the parts that many holders have.  Which those are, one
 * pass finds out without memory: of n ranges, every part with more than n / (CANDIDATES + 1) of
 * them is among the candidates that are left (Misra and Gries, 1982).
 */

enum {
    CANDIDATES = 16,
    SPANS_MIN = 4,
    LOOK_FROM = 16, /* ranges; fewer are no place for groups: they may be on their way */
    MANY = 64,      /* holders that are a group in any case; else it takes half of them */
};

struct candidate {
    uint64_t key;
    uint32_t count;
    uint32_t highest; /* holder */
    struct index_holder_set *set;
};

/* The holder of the range has no other. */
static bool
is_single(const struct index_holder_list *list, uint32_t at)
{
    const uint32_t holder = index_block_range_holder(index_holder_list_range(list, at));

    return (at == 0 || index_block_range_holder(index_holder_list_range(list, at - 1)) != holder) &&
           (at + 1 >= index_holder_list_ranges(list) ||
            index_block_range_holder(index_holder_list_range(list, at + 1)) != holder);
}

static struct candidate *
find_candidate(struct candidate *candidates, uint32_t count, index_block_range range)
{
    const uint64_t key = range & INDEX_BLOCK_RANGE_KEY_MASK;

    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].key == key)
            return &candidates[i];
    return NULL;
}

static void
vote(struct candidate candidates[CANDIDATES], index_block_range range)
{
    struct candidate *candidate = find_candidate(candidates, CANDIDATES, range);

    if (candidate != NULL) {
        candidate->count++;
        return;
    }
    candidate = find_candidate(candidates, CANDIDATES, 0);
    if (candidate != NULL) {
        candidate->key = range & INDEX_BLOCK_RANGE_KEY_MASK;
        candidate->count = 1;
        return;
    }
    for (uint32_t i = 0; i < CANDIDATES; i++)
        if (--candidates[i].count == 0)
            candidates[i].key = 0;
}

/* Parts that are worth a group, with their sets made; how many. */
static uint32_t
choose(const struct index_holder_list *list, const struct index_run_holders_context *context,
       struct candidate candidates[CANDIDATES])
{
    const uint32_t ranges = index_holder_list_ranges(list);
    const uint32_t room = INDEX_HOLDER_LIST_GROUPS_MAX - index_holder_list_groups(list);
    uint32_t chosen = 0;

    if (ranges < LOOK_FROM || room == 0)
        return 0;
    for (uint32_t i = 0; i < ranges; i++)
        if (is_single(list, i))
            vote(candidates, index_holder_list_range(list, i));
    for (uint32_t i = 0; i < CANDIDATES; i++)
        candidates[i].count = 0;
    for (uint32_t i = 0; i < ranges; i++) {
        struct candidate *candidate;

        candidate = find_candidate(candidates, CANDIDATES, index_holder_list_range(list, i));
        if (candidate == NULL || !is_single(list, i))
            continue;
        candidate->count++;
        candidate->highest = index_block_range_holder(index_holder_list_range(list, i));
    }
    for (uint32_t i = 0; i < CANDIDATES && chosen < room; i++) {
        struct candidate candidate = candidates[i];

        if (candidate.count < MANY && candidate.count <= ranges / 2)
            continue;
        candidate.set =
            index_holder_set_new(context->memory, candidate.count, candidate.highest, false);
        if (candidate.set != NULL)
            candidates[chosen++] = candidate;
    }
    return chosen;
}

/* Groups have their old places; new ones stand behind them. */
static void
fill_groups(struct index_holder_list *list, const struct index_holder_list *old,
            const struct candidate *chosen, uint32_t count)
{
    const uint32_t before = index_holder_list_groups(old);

    for (uint32_t i = 0; i < before + count; i++) {
        struct index_group *group = index_holder_list_group(list, i);
        const bool is_new = i >= before;

        atomic_store_explicit(&group->key,
                              is_new ? chosen[i - before].key : index_holder_list_key(old, i),
                              memory_order_relaxed);
        atomic_store_explicit(&group->set,
                              is_new ? chosen[i - before].set : index_holder_list_set(old, i),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&list->group_count, before + count, memory_order_relaxed);
}

/* The rest of the ranges; those of a chosen part go into its set. */
static void
fill_ranges(struct index_holder_list *list, const struct index_holder_list *old,
            struct candidate *chosen, uint32_t count)
{
    uint32_t filled = 0;

    for (uint32_t i = 0; i < index_holder_list_ranges(old); i++) {
        const index_block_range range = index_holder_list_range(old, i);
        struct candidate *candidate = find_candidate(chosen, count, range);

        if (candidate != NULL && is_single(old, i))
            index_holder_set_add(candidate->set, index_block_range_holder(range));
        else
            atomic_store_explicit(index_holder_list_range_at(list, filled++), range,
                                  memory_order_relaxed);
    }
    atomic_store_explicit(&list->range_count, filled, memory_order_relaxed);
}

/* The order without those that are in a chosen set now. */
static void
fill_order(struct index_holder_list *list, const struct index_holder_list *old,
           const struct candidate *chosen, uint32_t count)
{
    const uint32_t ranks = atomic_load_explicit(&old->order_count, memory_order_relaxed);
    uint32_t filled = 0;

    for (uint32_t i = 0; i < ranks; i++) {
        const uint32_t rank =
            atomic_load_explicit(&index_holder_list_order(old)[i], memory_order_relaxed);
        bool moved = false;

        for (uint32_t j = 0; j < count && !moved; j++)
            moved = index_block_range_to(chosen[j].key) == index_holder_list_rank_to(rank) &&
                    index_holder_set_has(chosen[j].set, rank & 0xffff);
        if (!moved)
            atomic_store_explicit(&index_holder_list_order(list)[filled++], rank,
                                  memory_order_relaxed);
    }
    atomic_store_explicit(&list->order_count, filled, memory_order_relaxed);
}

bool
index_holder_list_rebuild(struct index_run_holders *holders,
                          const struct index_run_holders_context *context, uint32_t extra,
                          bool overdraw)
{
    struct index_holder_list *old = index_holder_list_of(holders);
    struct candidate chosen[CANDIDATES] = {{.key = 0}};
    const uint32_t count = choose(old, context, chosen);
    uint32_t groups = index_holder_list_groups(old) + count;
    uint32_t left = index_holder_list_ranges(old) + extra;
    uint32_t ranges = SPANS_MIN;
    struct index_holder_list *made;
    size_t bytes;

    for (uint32_t i = 0; i < count; i++)
        left -= chosen[i].count;
    while (ranges < left)
        ranges *= 2;
    groups = groups > 8 ? INDEX_HOLDER_LIST_GROUPS_MAX : groups > 2 ? 8 : groups > 0 ? 2 : 0;
    bytes = sizeof(*made) + 16 * (size_t)groups + 12 * (size_t)ranges;
    made = overdraw ? index_memory_overdraw(context->memory, 1, bytes)
                    : index_memory_take(context->memory, 1, bytes);
    if (made == NULL) {
        for (uint32_t i = 0; i < count; i++)
            index_memory_give(context->memory, chosen[i].set, 1,
                              index_holder_set_bytes(chosen[i].set));
        return false;
    }
    made->group_capacity = (uint16_t)groups;
    made->range_capacity = ranges;
    made->end = old->end;
    fill_groups(made, old, chosen, count);
    fill_ranges(made, old, chosen, count);
    fill_order(made, old, chosen, count);
    atomic_store_explicit(&holders->list, made, memory_order_release);
    index_epoch_retire(context->epoch, old, 1, index_holder_list_bytes(old));
    return true;
}
