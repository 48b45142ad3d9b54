/*
 * The order of a kvtier/ordering.h, whose numbers are the pool's block numbers.
 *
 * An ordering's tier is the pool's listed blocks, held or not.  When it names a block that is held
 * as its victim, the block leaves its tier and enters anew when it is put here again: it is asked
 * about each held block once at most.  Blocks put at the cold end have left its tier, too; they are
 * in a list of ours, which goes first.
 */
#include <assert.h>

#include "base/core/alloc.h"
#include "kvbm/pool/eviction.h"

#define NONE KVBM_EVICTION_NONE

struct spot {
    uint32_t uses;
    uint32_t position;
    uint32_t colder; /* in the cold list */
    uint32_t warmer;
    bool inside; /* in the ordering's tier, taken out or not */
    bool held;
    bool cold; /* in the cold list */
};

struct order {
    const struct kvt_ordering *calls;
    void *state;
    uint64_t block_bytes;
    uint64_t now; /* last heard */
    struct spot *spots;
    uint32_t coldest; /* of the cold list */
};

static void
order_free(void *state)
{
    struct order *order = state;

    if (order == NULL)
        return;
    order->calls->free(order->state);
    kvt_free(order->spots);
    kvt_free(order);
}

static enum kvt_err
order_init(void **state, const struct kvbm_eviction_options *options)
{
    struct order *order = kvt_calloc(1, sizeof(*order));
    enum kvt_err rc = KVT_NOMEM;

    *state = NULL;
    if (order == NULL)
        return KVT_NOMEM;
    order->calls = options->ordering;
    order->block_bytes = options->block_bytes == 0 ? 1 : options->block_bytes;
    order->coldest = NONE;
    order->spots = kvt_calloc(options->block_count, sizeof(*order->spots));
    if (order->spots != NULL)
        rc = order->calls->init(&order->state, &options->ordering_options);
    if (rc == KVT_OK)
        rc = order->calls->reserve(order->state, options->block_count);
    if (rc != KVT_OK) {
        order_free(order);
        return rc;
    }
    *state = order;
    return KVT_OK;
}

static struct kvt_ordering_use
use_of(const struct order *order, uint32_t block)
{
    const struct spot *spot = &order->spots[block];

    return (struct kvt_ordering_use){
        .block = block,
        .uses = spot->uses,
        .position = spot->position,
        .flags = spot->inside ? KVT_ORDERING_HOT : 0,
        .bytes = order->block_bytes,
        .now = order->now,
    };
}

static void
touch(struct order *order, uint32_t block)
{
    struct kvt_ordering_use use;

    order->spots[block].uses++;
    use = use_of(order, block);
    order->calls->touch(order->state, &use);
}

static void
enter(struct order *order, uint32_t block)
{
    const struct kvt_ordering_use use = use_of(order, block);

    order->calls->enter(order->state, &use);
    order->spots[block].inside = true;
}

static void
leave(struct order *order, uint32_t block)
{
    order->calls->leave(order->state, block);
    order->spots[block].inside = false;
}

/* ---- the cold list ---- */

static void
chill(struct order *order, uint32_t block)
{
    struct spot *spot = &order->spots[block];

    spot->colder = NONE;
    spot->warmer = order->coldest;
    if (order->coldest != NONE)
        order->spots[order->coldest].colder = block;
    order->coldest = block;
    spot->cold = true;
}

static void
unchill(struct order *order, uint32_t block)
{
    struct spot *spot = &order->spots[block];

    if (spot->colder == NONE)
        order->coldest = spot->warmer;
    else
        order->spots[spot->colder].warmer = spot->warmer;
    if (spot->warmer != NONE)
        order->spots[spot->warmer].colder = spot->colder;
    spot->cold = false;
}

/* ---- calls ---- */

static void
order_list(void *state, uint32_t block, const struct kvt_block_id *id, uint64_t now)
{
    struct order *order = state;

    order->now = now;
    order->spots[block] = (struct spot){.position = id->position, .held = true};
    touch(order, block);
    enter(order, block);
}

static void
order_use(void *state, uint32_t block, uint64_t now)
{
    struct order *order = state;

    order->now = now;
    touch(order, block);
}

static void
order_put(void *state, uint32_t block, uint32_t priority, enum kvbm_eviction_end end)
{
    struct order *order = state;
    struct spot *spot = &order->spots[block];

    (void)priority;
    spot->held = false;
    if (end == KVBM_EVICTION_COLD) {
        if (spot->inside)
            leave(order, block);
        chill(order, block);
    } else if (!spot->inside) {
        enter(order, block);
    }
}

static void
order_take(void *state, uint32_t block)
{
    struct order *order = state;

    order->spots[block].held = true;
    if (order->spots[block].cold)
        unchill(order, block);
}

static uint32_t
order_victim(void *state, uint64_t now)
{
    struct order *order = state;
    uint32_t block = order->coldest;

    if (block != NONE) {
        unchill(order, block);
        return block;
    }
    order->now = now;
    while (order->calls->victim(order->state, now, &block)) {
        if (!order->spots[block].held)
            return block;
        leave(order, block);
    }
    return NONE;
}

static void
order_put_back(void *state, uint32_t block)
{
    struct order *order = state;

    if (order->spots[block].inside)
        order->calls->give_back(order->state, block);
    else
        chill(order, block);
}

static void
order_keep(void *state, uint32_t block)
{
    struct order *order = state;

    order->spots[block].held = true;
    if (order->spots[block].inside)
        leave(order, block);
}

static void
order_delist(void *state, uint32_t block)
{
    struct order *order = state;

    if (order->spots[block].inside)
        leave(order, block);
    order->calls->forget(order->state, block); /* the number returns as another block's */
}

const struct kvbm_eviction_calls kvbm_eviction_ordering = {
    .init = order_init,
    .free = order_free,
    .list = order_list,
    .use = order_use,
    .put = order_put,
    .take = order_take,
    .victim = order_victim,
    .put_back = order_put_back,
    .keep = order_keep,
    .delist = order_delist,
};
