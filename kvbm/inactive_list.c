/* Least recently used first: one list a priority, through arrays by block number.  LRU is the same
 * with one priority. */
#include <assert.h>

#include "base/alloc.h"
#include "kvbm/inactive.h"

#define NONE KVBM_INACTIVE_NONE

struct link {
    uint32_t colder;
    uint32_t warmer;
};

struct level {
    uint32_t coldest;
    uint32_t warmest;
};

struct list {
    bool by_priority;
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
list_init(void **state, const struct kvbm_inactive_options *options)
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

    list->links[block] = (struct link){.colder = level->warmest, .warmer = NONE};
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

    list->links[block] = (struct link){.colder = NONE, .warmer = level->coldest};
    if (level->coldest == NONE)
        level->warmest = block;
    else
        list->links[level->coldest].colder = block;
    level->coldest = block;
    list->level_of[block] = (uint8_t)at;
}

static void
list_put(void *state, uint32_t block, uint32_t priority, enum kvbm_inactive_end end)
{
    struct list *list = state;

    if (end == KVBM_INACTIVE_COLD)
        add_cold(list, block, 0);
    else
        add_warm(list, block, list->by_priority ? priority : 0);
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

    add_cold(list, block, list->level_of[block]);
}

const struct kvbm_inactive_calls kvbm_inactive_list = {
    .init = list_init,
    .free = list_free,
    .put = list_put,
    .take = list_take,
    .victim = list_victim,
    .put_back = list_put_back,
};
