#include "index/holder/run_holders.h"

#include <assert.h>

#include "index/holder/holder_list.h"

/* What a change of one holder's ranges is worked out in. */
struct change {
    struct index_block_ranges old;
    struct index_block_ranges now;
    struct index_blocks blocks; /* that the holder got, or lost */
    uint32_t shards;
};

static inline index_block_range
get_one(const struct index_run_holders *holders)
{
    return atomic_load_explicit(&holders->one, memory_order_relaxed);
}

static inline void
put_one(struct index_run_holders *holders, index_block_range range)
{
    atomic_store_explicit(&holders->one, range, memory_order_relaxed);
}

/* The ranges of one holder as they are. */
static void
copy_old(const struct index_run_holders *holders, uint32_t holder,
         struct index_block_ranges *ranges)
{
    const struct index_holder_list *list = index_holder_list_of(holders);
    const index_block_range one = get_one(holders);

    ranges->count = 0;
    if (list != NULL) {
        const struct index_holder_list_slot seat = index_holder_list_find(list, holder);

        index_holder_list_copy(list, &seat, holder, ranges);
    } else if (one != 0 && index_block_range_holder(one) == holder) {
        ranges->ranges[ranges->count++] = one;
    }
}

/* Leave those blocks of the change that nobody else has. */
static void
leave_sole(struct index_run_holders *holders, uint32_t holder, struct change *change)
{
    struct index_holder_list *list = index_holder_list_of(holders);
    const index_block_range one = get_one(holders);

    if (list != NULL)
        index_holder_list_others(list, holder, &change->blocks);
    else if (one != 0 && index_block_range_holder(one) != holder)
        index_blocks_remove(&change->blocks, index_block_range_from(one),
                            index_block_range_to(one));
}

/* The holder's ranges are `now`; false: no memory. */
static bool
put_now(struct index_run_holders *holders, const struct index_run_holders_context *context,
        uint32_t holder, const struct index_block_ranges *now, bool overdraw)
{
    const index_block_range one = get_one(holders);

    if (index_holder_list_of(holders) == NULL) {
        const bool sole = one == 0 || index_block_range_holder(one) == holder;

        if (sole && now->count <= 1) {
            put_one(holders, now->count == 1 ? now->ranges[0] : 0);
            return true;
        }
        if (!index_holder_list_open(holders, context, sole ? now->ranges[0] : one, overdraw))
            return false;
    }
    /* A list that was just opened has room for all that comes of one range. */
    return index_holder_list_put(holders, context, holder, now, overdraw);
}

static enum kvt_err
finish(struct index_run_holders *holders, const struct index_run_holders_context *context,
       uint32_t holder, struct change *change, bool overdraw,
       struct index_run_holders_effect *effect)
{
    const uint32_t pairs = change->blocks.count;
    struct index_holder_list *list;
    uint32_t last;

    leave_sole(holders, holder, change);
    if (!put_now(holders, context, holder, &change->now, overdraw))
        return KVT_FULL;
    *effect = (struct index_run_holders_effect){
        .pairs = pairs, .blocks = change->blocks.count, .shards = change->shards};
    list = index_holder_list_of(holders);
    if (list == NULL)
        return KVT_OK;
    last = list->end - 1u;
    if (overdraw && (change->blocks.bits[last / 64] >> last % 64 & 1) != 0)
        index_holder_list_end(list);
    index_holder_list_close(holders, context);
    return KVT_OK;
}

enum kvt_err
index_run_holders_add(struct index_run_holders *holders,
                      const struct index_run_holders_context *context, uint32_t holder,
                      uint32_t code, uint32_t from, uint32_t to,
                      struct index_run_holders_effect *effect)
{
    const index_block_range one = get_one(holders);
    struct change change;
    enum kvt_err rc;

    assert(holder < INDEX_HOLDERS_MAX && code != 0 && code <= INDEX_SHARDS_MAX);
    assert(from < to && to <= INDEX_RUN_BLOCKS_MAX);
    *effect = (struct index_run_holders_effect){.pairs = 0};
    /* Nearly always: the first holder, or the only one goes on. */
    if (index_holder_list_of(holders) == NULL &&
        (one == 0 || (index_block_range_holder(one) == holder &&
                      index_block_range_code(one) == code && index_block_range_to(one) == from))) {
        const uint32_t ranks = index_shards_ranks(context->shards, code);

        put_one(holders, index_block_range_make(holder, code,
                                                one == 0 ? from : index_block_range_from(one), to));
        *effect = (struct index_run_holders_effect){.pairs = to - from,
                                                    .blocks = to - from,
                                                    .shards = (to - from) *
                                                              (uint32_t)__builtin_popcount(ranks)};
        return KVT_OK;
    }
    if (index_holder_list_of(holders) != NULL &&
        index_holder_list_extend(holders, context, holder, code, from, to)) {
        const uint32_t ranks = index_shards_ranks(context->shards, code);

        effect->pairs = to - from;
        effect->shards = (to - from) * (uint32_t)__builtin_popcount(ranks);
        return KVT_OK;
    }
    copy_old(holders, holder, &change.old);
    rc = index_block_range_store(&change.old, context->shards,
                                 index_block_range_make(holder, code, from, to), &change.now,
                                 &change.blocks, &change.shards);
    if (rc != KVT_OK)
        return rc;
    if (change.shards == 0)
        return KVT_OK; /* all of it was there */
    return finish(holders, context, holder, &change, false, effect);
}

/* The only range loses a piece at an end, or all of it; false: it is not that simple. */
static bool
trim_one(struct index_run_holders *holders, const struct index_run_holders_context *context,
         uint32_t ranks, uint32_t from, uint32_t to, struct index_run_holders_effect *effect)
{
    const index_block_range one = get_one(holders);
    const uint32_t begin = index_block_range_from(one);
    const uint32_t end = index_block_range_to(one);
    const uint32_t low = begin > from ? begin : from;
    const uint32_t high = end < to ? end : to;
    const uint32_t had = index_shards_ranks(context->shards, index_block_range_code(one));

    if ((had & ~ranks) != 0 || low >= high || (low > begin && high < end))
        return false;
    *effect = (struct index_run_holders_effect){.pairs = high - low,
                                                .blocks = high - low,
                                                .shards = (high - low) *
                                                          (uint32_t)__builtin_popcount(had)};
    if (high - low == end - begin)
        put_one(holders, 0);
    else
        put_one(holders,
                index_block_range_make(index_block_range_holder(one), index_block_range_code(one),
                                       low > begin ? begin : high, low > begin ? low : end));
    return true;
}

enum kvt_err
index_run_holders_remove(struct index_run_holders *holders,
                         const struct index_run_holders_context *context, uint32_t holder,
                         uint32_t ranks, uint32_t from, uint32_t to,
                         struct index_run_holders_effect *effect)
{
    const index_block_range one = get_one(holders);
    struct change change;
    enum kvt_err rc;

    assert(from < to && to <= INDEX_RUN_BLOCKS_MAX);
    *effect = (struct index_run_holders_effect){.pairs = 0};
    if (index_holder_list_of(holders) == NULL &&
        (one == 0 || index_block_range_holder(one) != holder ||
         trim_one(holders, context, ranks, from, to, effect)))
        return KVT_OK;
    copy_old(holders, holder, &change.old);
    rc = index_block_range_take(&change.old, context->shards, ranks, from, to, &change.now,
                                &change.blocks, &change.shards);
    if (rc != KVT_OK)
        return rc;
    if (change.shards == 0)
        return KVT_OK; /* none of it was there */
    return finish(holders, context, holder, &change, true, effect);
}

void
index_run_holders_clear(struct index_run_holders *holders,
                        const struct index_run_holders_context *context)
{
    struct index_holder_list *list = index_holder_list_of(holders);

    put_one(holders, 0);
    atomic_store_explicit(&holders->list, NULL, memory_order_relaxed);
    if (list != NULL)
        index_holder_list_retire(list, context);
}

bool
index_run_holders_sole(const struct index_run_holders *holders, uint32_t *holder)
{
    const struct index_holder_list *list = index_holder_list_of(holders);
    uint32_t count;

    if (list == NULL) {
        *holder = index_block_range_holder(get_one(holders));
        return get_one(holders) != 0;
    }
    count = index_holder_list_ranges(list);
    *holder = 0;
    /* One alone is never left in a group. */
    if (index_holder_list_groups(list) != 0 || count == 0)
        return false;
    *holder = index_block_range_holder(index_holder_list_range(list, 0));
    return index_block_range_holder(index_holder_list_range(list, count - 1)) == *holder;
}

uint32_t
index_run_holders_end(const struct index_run_holders *holders)
{
    const struct index_holder_list *list = index_holder_list_of(holders);

    return list != NULL ? list->end : index_block_range_to(get_one(holders));
}
