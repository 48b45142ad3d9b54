#include <assert.h>

#include "index/holder/holder_list.h"

/*
 * A box of another size, with groups for the parts that many holders have.  Which those are, one
 * pass finds out without memory: of n spans, every part with more than n / (CANDIDATES + 1) of them
 * is among the candidates that are left (Misra and Gries, 1982).
 */

enum {
    CANDIDATES = 16,
    SPANS_MIN = 4,
    LOOK_FROM = 16, /* spans; fewer are no place for groups: they may be on their way */
    MANY = 64,      /* holders that are a group in any case; else it takes half of them */
};

struct candidate {
    uint64_t key;
    uint32_t count;
    uint32_t highest; /* holder */
    struct index_holder_set *set;
};

/* The holder of the span has no other. */
static bool
is_single(const struct index_holder_list *box, uint32_t at)
{
    const uint32_t holder = index_block_range_holder(index_holder_list_range(box, at));

    return (at == 0 || index_block_range_holder(index_holder_list_range(box, at - 1)) != holder) &&
           (at + 1 >= index_holder_list_ranges(box) ||
            index_block_range_holder(index_holder_list_range(box, at + 1)) != holder);
}

static struct candidate *
find_candidate(struct candidate *candidates, uint32_t count, index_block_range span)
{
    const uint64_t key = span & INDEX_BLOCK_RANGE_KEY_MASK;

    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].key == key)
            return &candidates[i];
    return NULL;
}

static void
vote(struct candidate candidates[CANDIDATES], index_block_range span)
{
    struct candidate *candidate = find_candidate(candidates, CANDIDATES, span);

    if (candidate != NULL) {
        candidate->count++;
        return;
    }
    candidate = find_candidate(candidates, CANDIDATES, 0);
    if (candidate != NULL) {
        candidate->key = span & INDEX_BLOCK_RANGE_KEY_MASK;
        candidate->count = 1;
        return;
    }
    for (uint32_t i = 0; i < CANDIDATES; i++)
        if (--candidates[i].count == 0)
            candidates[i].key = 0;
}

/* Parts that are worth a group, with their sets made; how many. */
static uint32_t
choose(const struct index_holder_list *box, const struct index_run_holders_context *context,
       struct candidate candidates[CANDIDATES])
{
    const uint32_t spans = index_holder_list_ranges(box);
    const uint32_t room = INDEX_HOLDER_LIST_GROUPS_MAX - index_holder_list_groups(box);
    uint32_t chosen = 0;

    if (spans < LOOK_FROM || room == 0)
        return 0;
    for (uint32_t i = 0; i < spans; i++)
        if (is_single(box, i))
            vote(candidates, index_holder_list_range(box, i));
    for (uint32_t i = 0; i < CANDIDATES; i++)
        candidates[i].count = 0;
    for (uint32_t i = 0; i < spans; i++) {
        struct candidate *candidate;

        candidate = find_candidate(candidates, CANDIDATES, index_holder_list_range(box, i));
        if (candidate == NULL || !is_single(box, i))
            continue;
        candidate->count++;
        candidate->highest = index_block_range_holder(index_holder_list_range(box, i));
    }
    for (uint32_t i = 0; i < CANDIDATES && chosen < room; i++) {
        struct candidate candidate = candidates[i];

        if (candidate.count < MANY && candidate.count <= spans / 2)
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
fill_groups(struct index_holder_list *box, const struct index_holder_list *old,
            const struct candidate *chosen, uint32_t count)
{
    const uint32_t before = index_holder_list_groups(old);

    for (uint32_t i = 0; i < before + count; i++) {
        struct index_group *group = index_holder_list_group(box, i);
        const bool is_new = i >= before;

        atomic_store_explicit(&group->key,
                              is_new ? chosen[i - before].key : index_holder_list_key(old, i),
                              memory_order_relaxed);
        atomic_store_explicit(&group->set,
                              is_new ? chosen[i - before].set : index_holder_list_set(old, i),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&box->group_count, before + count, memory_order_relaxed);
}

/* The rest of the spans; those of a chosen part go into its set. */
static void
fill_spans(struct index_holder_list *box, const struct index_holder_list *old,
           struct candidate *chosen, uint32_t count)
{
    uint32_t filled = 0;

    for (uint32_t i = 0; i < index_holder_list_ranges(old); i++) {
        const index_block_range span = index_holder_list_range(old, i);
        struct candidate *candidate = find_candidate(chosen, count, span);

        if (candidate != NULL && is_single(old, i))
            index_holder_set_add(candidate->set, index_block_range_holder(span));
        else
            atomic_store_explicit(index_holder_list_range_at(box, filled++), span,
                                  memory_order_relaxed);
    }
    atomic_store_explicit(&box->span_count, filled, memory_order_relaxed);
}

/* The order without those that are in a chosen set now. */
static void
fill_order(struct index_holder_list *box, const struct index_holder_list *old,
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
            atomic_store_explicit(&index_holder_list_order(box)[filled++], rank,
                                  memory_order_relaxed);
    }
    atomic_store_explicit(&box->order_count, filled, memory_order_relaxed);
}

bool
index_holder_list_rebuild(struct index_run_holders *holding,
                          const struct index_run_holders_context *context, uint32_t extra,
                          bool overdraw)
{
    struct index_holder_list *old = index_holder_list_of(holding);
    struct candidate chosen[CANDIDATES] = {{.key = 0}};
    const uint32_t count = choose(old, context, chosen);
    uint32_t groups = index_holder_list_groups(old) + count;
    uint32_t left = index_holder_list_ranges(old) + extra;
    uint32_t spans = SPANS_MIN;
    struct index_holder_list *made;
    size_t bytes;

    for (uint32_t i = 0; i < count; i++)
        left -= chosen[i].count;
    while (spans < left)
        spans *= 2;
    groups = groups > 8 ? INDEX_HOLDER_LIST_GROUPS_MAX : groups > 2 ? 8 : groups > 0 ? 2 : 0;
    bytes = sizeof(*made) + 16 * (size_t)groups + 12 * (size_t)spans;
    made = overdraw ? index_memory_overdraw(context->memory, 1, bytes)
                    : index_memory_take(context->memory, 1, bytes);
    if (made == NULL) {
        for (uint32_t i = 0; i < count; i++)
            index_memory_give(context->memory, chosen[i].set, 1,
                              index_holder_set_bytes(chosen[i].set));
        return false;
    }
    made->group_capacity = (uint16_t)groups;
    made->span_capacity = spans;
    made->end = old->end;
    fill_groups(made, old, chosen, count);
    fill_spans(made, old, chosen, count);
    fill_order(made, old, chosen, count);
    atomic_store_explicit(&holding->box, made, memory_order_release);
    index_epoch_retire(context->epoch, old, 1, index_holder_list_bytes(old));
    return true;
}
