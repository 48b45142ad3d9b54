/*
 * Least recently used first: one list a priority, through arrays by block number.  LRU is the same
 * with one priority.
 *
 * Each list ascends by the ticks of its blocks' puts.  A block that comes back to where it was goes
 * next to the neighbour it had; where both neighbours have moved, too, its place is sought from the
 * cold end, for SEEK_MAX blocks.
 */
#include <assert.h>

#include "base/core/alloc.h"
#include "kvbm/pool/eviction.h"

#define NONE KVBM_EVICTION_NONE

enum {
    OUT = 0x80, /* of level_of: taken, and not put since */
    SEEK_MAX = 64,
};

struct link {
    uint32_t colder; /* as it was when the block was taken, too */
    uint32_t warmer;
    int64_t tick;
};

struct level {
    uint32_t coldest;
    uint32_t warmest;
};

struct list {
    bool by_priority;
    int64_t warm;      /* last tick given, upwards ... */
    int64_t cold;      /* ... and downwards */
    uint8_t *level_of; /* by block */
    struct link *links;
    struct level levels[KVT_PRIORITY_MAX + 1];
};

static void
list_free(void *state)
{
    struct list *list = state;

    if (list == NULL)
        return;
    kvt_free(list->links);
    kvt_free(list->level_of);
    kvt_free(list);
}

static enum kvt_err
list_init(void **state, const struct kvbm_eviction_options *options)
{
    struct list *list = kvt_calloc(1, sizeof(*list));

    *state = NULL;
    if (list == NULL)
        return KVT_NOMEM;
    list->by_priority = options->order == KVT_POOL_ORDER_PRIORITY;
    list->links = kvt_calloc(options->block_count, sizeof(*list->links));
    list->level_of = kvt_calloc(options->block_count, sizeof(*list->level_of));
    if (list->links == NULL || list->level_of == NULL) {
        list_free(list);
        return KVT_NOMEM;
    }
    for (size_t i = 0; i <= KVT_PRIORITY_MAX; i++)
        list->levels[i] = (struct level){NONE, NONE};
    *state = list;
    return KVT_OK;
}

static void
add_warm(struct list *list, uint32_t block, uint32_t at)
{
    struct level *level = &list->levels[at];

    list->links[block] = (struct link){level->warmest, NONE, ++list->warm};
    if (level->warmest == NONE)
        level->coldest = block;
    else
        list->links[level->warmest].warmer = block;
    level->warmest = block;
    list->level_of[block] = (uint8_t)at;
}

static void
add_cold(struct list *list, uint32_t block, uint32_t at)
{
    struct level *level = &list->levels[at];

    list->links[block] = (struct link){NONE, level->coldest, --list->cold};
    if (level->coldest == NONE)
        level->warmest = block;
    else
        list->links[level->coldest].colder = block;
    level->coldest = block;
    list->level_of[block] = (uint8_t)at;
}

/* The block that `block` goes before, or NONE: it is the warmest. */
static uint32_t
seek_warmer(const struct list *list, uint32_t block, uint32_t at)
{
    const struct link *links = list->links;
    const struct link *link = &links[block];
    uint32_t warmer = list->levels[at].coldest;

    if (link->colder != NONE && list->level_of[link->colder] == at &&
        links[link->colder].tick < link->tick)
        warmer = links[link->colder].warmer;
    else if (link->warmer != NONE && list->level_of[link->warmer] == at &&
             links[link->warmer].tick > link->tick)
        warmer = link->warmer;
    for (unsigned i = 0; i < SEEK_MAX && warmer != NONE && links[warmer].colder != NONE &&
                         links[links[warmer].colder].tick > link->tick;
         i++)
        warmer = links[warmer].colder;
    for (unsigned i = 0; i < SEEK_MAX && warmer != NONE && links[warmer].tick < link->tick; i++)
        warmer = links[warmer].warmer;
    return warmer;
}

static void
add_same(struct list *list, uint32_t block, uint32_t at)
{
    struct level *level = &list->levels[at];
    struct link *link = &list->links[block];

    link->warmer = seek_warmer(list, block, at);
    link->colder = link->warmer == NONE ? level->warmest : list->links[link->warmer].colder;
    if (link->warmer == NONE)
        level->warmest = block;
    else
        list->links[link->warmer].colder = block;
    if (link->colder == NONE)
        level->coldest = block;
    else
        list->links[link->colder].warmer = block;
    list->level_of[block] = (uint8_t)at;
}

static void
list_put(void *state, uint32_t block, uint32_t priority, enum kvbm_eviction_end end)
{
    struct list *list = state;
    const uint32_t at = list->by_priority ? priority : 0;

    switch (end) {
    case KVBM_EVICTION_WARM: add_warm(list, block, at); break;
    case KVBM_EVICTION_COLD: add_cold(list, block, 0); break;
    case KVBM_EVICTION_SAME: add_same(list, block, at); break;
    }
}

static void
list_take(void *state, uint32_t block)
{
    struct list *list = state;
    struct level *level = &list->levels[list->level_of[block]];
    const struct link link = list->links[block];

    if (link.colder == NONE)
        level->coldest = link.warmer;
    else
        list->links[link.colder].warmer = link.warmer;
    if (link.warmer == NONE)
        level->warmest = link.colder;
    else
        list->links[link.warmer].colder = link.colder;
    list->level_of[block] |= OUT;
}

static uint32_t
list_victim(void *state, uint64_t now)
{
    struct list *list = state;
    const size_t levels = list->by_priority ? KVT_PRIORITY_MAX + 1 : 1;

    (void)now;
    for (size_t i = 0; i < levels; i++) {
        const uint32_t block = list->levels[i].coldest;

        if (block == NONE)
            continue;
        list_take(list, block);
        return block;
    }
    return NONE;
}

static void
list_put_back(void *state, uint32_t block)
{
    struct list *list = state;

    add_cold(list, block, list->level_of[block] & ~OUT & 0xff);
}

const struct kvbm_eviction_calls kvbm_eviction_lru = {
    .init = list_init,
    .free = list_free,
    .put = list_put,
    .take = list_take,
    .victim = list_victim,
    .put_back = list_put_back,
};
