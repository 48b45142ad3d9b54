#include "policy/ordering/weight_order.h"

#include <assert.h>

#include "base/core/alloc.h"

#include "policy/ordering/block_queues.h"
#include "policy/ordering/tick_stamp.h"

void
policy_weight_order_free(void *state)
{
    struct policy_weight_order *weigh = state;

    if (weigh == NULL)
        return;
    policy_block_heap_release(&weigh->heap);
    kvt_free(weigh->uses);
    kvt_free(weigh);
}

enum kvt_err
policy_weight_order_init(void **state, const struct kvt_ordering_options *options,
                         double (*weight)(const struct policy_weight_order *weigh, uint32_t uses,
                                          uint64_t bytes))
{
    struct policy_weight_order *weigh = kvt_calloc(1, sizeof(*weigh));

    *state = weigh;
    if (weigh == NULL)
        return KVT_NOMEM;
    policy_block_heap_init(&weigh->heap);
    weigh->prices = options->prices;
    weigh->weight = weight;
    return KVT_OK;
}

enum kvt_err
policy_weight_order_reserve(void *state, uint32_t count)
{
    struct policy_weight_order *weigh = state;

    if (policy_tick_stamp_reserve(&weigh->uses, weigh->heap.count, count) != KVT_OK)
        return KVT_NOMEM;
    return policy_block_heap_reserve(&weigh->heap, count);
}

static void
set(struct policy_weight_order *weigh, const struct kvt_ordering_use *use, uint32_t uses)
{
    const double weight = weigh->weight(weigh, uses, use->bytes);

    policy_block_heap_set(&weigh->heap, use->block,
                          (struct policy_block_heap_key){weight, weigh->sequence++});
}

void
policy_weight_order_touch(void *state, const struct kvt_ordering_use *use)
{
    struct policy_weight_order *weigh = state;
    uint32_t *uses = &weigh->uses[use->block];

    if ((use->flags & KVT_ORDERING_AGAIN) != 0)
        return;
    if (*uses > 0 && *uses < UINT32_MAX)
        (*uses)++;
    set(weigh, use, *uses == 0 ? 1 : *uses);
}

void
policy_weight_order_enter(void *state, const struct kvt_ordering_use *use)
{
    struct policy_weight_order *weigh = state;

    assert(weigh->uses[use->block] == 0);
    weigh->uses[use->block] = 1;
    set(weigh, use, 1);
    policy_block_heap_add(&weigh->heap, use->block);
}

bool
policy_weight_order_victim(void *state, uint64_t now, uint32_t *block)
{
    struct policy_weight_order *weigh = state;

    (void)now;
    *block = policy_block_heap_lowest(&weigh->heap);
    if (*block == POLICY_NONE)
        return false;
    policy_block_heap_remove(&weigh->heap, *block);
    return true;
}

void
policy_weight_order_give_back(void *state, uint32_t block)
{
    struct policy_weight_order *weigh = state;

    policy_block_heap_add(&weigh->heap, block);
}

void
policy_weight_order_leave(void *state, uint32_t block)
{
    struct policy_weight_order *weigh = state;
    const double weight = weigh->heap.keys[block].value;

    weigh->uses[block] = 0;
    if (policy_block_heap_holds(&weigh->heap, block))
        policy_block_heap_remove(&weigh->heap, block); /* deleted, not outweighed */
    else if (weight > weigh->floor)
        weigh->floor = weight;
}

void
policy_weight_order_forget(void *state, uint32_t block)
{
    struct policy_weight_order *weigh = state;

    assert(weigh->uses[block] == 0);
    policy_block_heap_set(&weigh->heap, block, (struct policy_block_heap_key){0, 0});
}

double
policy_weight_order_value(const void *state, uint32_t block, uint64_t now)
{
    const struct policy_weight_order *weigh = state;

    (void)now;
    return weigh->heap.keys[block].value;
}

size_t
policy_weight_order_memory(const void *state)
{
    const struct policy_weight_order *weigh = state;

    return sizeof(*weigh) +
           weigh->heap.count * (POLICY_BLOCK_HEAP_BLOCK_BYTES + sizeof(*weigh->uses));
}
