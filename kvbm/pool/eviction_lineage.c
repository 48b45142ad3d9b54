/*
 * Leaves first.  A block is a leaf while no listed block continues it; of the leaves that wait the
 * one that was put here first goes first.  They are in a heap, because a parent whose last child
 * went comes back into the middle: with the tick it was put here with.
 *
 * Children are counted by their parent's name, so that a child may be listed before its parent.
 */
#include <assert.h>

#include "base/core/alloc.h"
#include "kvbm/pool/block_map.h"
#include "kvbm/pool/eviction.h"

#define NONE KVBM_EVICTION_NONE

struct node {
    int64_t tick;    /* of its last put */
    uint64_t hash;   /* its name */
    uint64_t parent; /* 0: continues nothing */
    uint32_t place;  /* in the heap, or NONE */
    bool waits;      /* put here, and not taken since */
    bool counted;    /* among its parent's children */
};

struct lineage {
    const struct kvbm_block_names *names;
    struct kvbm_block_map children; /* how many listed blocks continue a name */
    struct node *nodes;             /* by block */
    uint32_t *heap;
    uint32_t heap_count;
    int64_t warm; /* last tick given, upwards ... */
    int64_t cold; /* ... and downwards */
};

static void
lineage_free(void *state)
{
    struct lineage *lineage = state;

    if (lineage == NULL)
        return;
    kvbm_block_map_release(&lineage->children);
    kvt_free(lineage->heap);
    kvt_free(lineage->nodes);
    kvt_free(lineage);
}

static enum kvt_err
lineage_init(void **state, const struct kvbm_eviction_options *options)
{
    struct lineage *lineage = kvt_calloc(1, sizeof(*lineage));

    *state = NULL;
    if (lineage == NULL)
        return KVT_NOMEM;
    lineage->names = options->names;
    lineage->nodes = kvt_calloc(options->block_count, sizeof(*lineage->nodes));
    lineage->heap = kvt_calloc(options->block_count, sizeof(*lineage->heap));
    if (lineage->nodes == NULL || lineage->heap == NULL ||
        kvbm_block_map_init(&lineage->children, options->block_count) != KVT_OK) {
        lineage_free(lineage);
        return KVT_NOMEM;
    }
    for (uint32_t i = 0; i < options->block_count; i++)
        lineage->nodes[i].place = NONE;
    *state = lineage;
    return KVT_OK;
}

/* ---- heap ---- */

static void
place(struct lineage *lineage, uint32_t at, uint32_t block)
{
    lineage->heap[at] = block;
    lineage->nodes[block].place = at;
}

static bool
is_older(const struct lineage *lineage, uint32_t a, uint32_t b)
{
    return lineage->nodes[a].tick < lineage->nodes[b].tick;
}

static void
sift_up(struct lineage *lineage, uint32_t at, uint32_t block)
{
    while (at > 0 && is_older(lineage, block, lineage->heap[(at - 1) / 2])) {
        place(lineage, at, lineage->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(lineage, at, block);
}

static void
sift_down(struct lineage *lineage, uint32_t at, uint32_t block)
{
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= lineage->heap_count)
            break;
        if (child + 1 < lineage->heap_count &&
            is_older(lineage, lineage->heap[child + 1], lineage->heap[child]))
            child++;
        if (!is_older(lineage, lineage->heap[child], block))
            break;
        place(lineage, at, lineage->heap[child]);
        at = child;
    }
    place(lineage, at, block);
}

static void
heap_add(struct lineage *lineage, uint32_t block)
{
    assert(lineage->nodes[block].place == NONE);
    sift_up(lineage, lineage->heap_count++, block);
}

static void
heap_remove(struct lineage *lineage, uint32_t block)
{
    const uint32_t at = lineage->nodes[block].place;
    const uint32_t last = lineage->heap[--lineage->heap_count];

    lineage->nodes[block].place = NONE;
    if (last == block)
        return;
    if (at > 0 && is_older(lineage, last, lineage->heap[(at - 1) / 2]))
        sift_up(lineage, at, last);
    else
        sift_down(lineage, at, last);
}

/* ---- parents and children ---- */

/* The block of a name, if it waits here. */
static uint32_t
waiting_block(const struct lineage *lineage, uint64_t hash)
{
    const uint32_t block = kvbm_block_names_get(lineage->names, hash);

    return block == KVBM_BLOCK_NAMES_NONE || !lineage->nodes[block].waits ? NONE : block;
}

static bool
is_leaf(const struct lineage *lineage, uint32_t block)
{
    uint32_t children;

    return !kvbm_block_map_get(&lineage->children, lineage->nodes[block].hash, &children);
}

static void
count_child(struct lineage *lineage, uint32_t block)
{
    struct node *node = &lineage->nodes[block];
    uint32_t children;
    uint32_t parent;

    if (node->parent == 0)
        return;
    if (kvbm_block_map_get(&lineage->children, node->parent, &children))
        kvbm_block_map_remove(&lineage->children, node->parent);
    kvbm_block_map_put(&lineage->children, node->parent, children + 1);
    node->counted = true;
    parent = waiting_block(lineage, node->parent);
    if (parent != NONE && lineage->nodes[parent].place != NONE)
        heap_remove(lineage, parent);
}

static void
uncount_child(struct lineage *lineage, uint32_t block)
{
    struct node *node = &lineage->nodes[block];
    uint32_t children;
    uint32_t parent;

    if (!node->counted)
        return;
    node->counted = false;
    (void)kvbm_block_map_get(&lineage->children, node->parent, &children);
    assert(children > 0);
    kvbm_block_map_remove(&lineage->children, node->parent);
    if (children > 1) {
        kvbm_block_map_put(&lineage->children, node->parent, children - 1);
        return;
    }
    parent = waiting_block(lineage, node->parent);
    if (parent != NONE && lineage->nodes[parent].place == NONE)
        heap_add(lineage, parent);
}

/* ---- calls ---- */

static void
lineage_list(void *state, uint32_t block, const struct kvt_block_id *id, uint64_t now)
{
    struct lineage *lineage = state;
    struct node *node = &lineage->nodes[block];

    (void)now;
    node->hash = id->hash;
    node->parent = id->position > 0 && id->parent != id->hash ? id->parent : 0;
    count_child(lineage, block);
}

static void
lineage_put(void *state, uint32_t block, uint32_t priority, enum kvbm_eviction_end end)
{
    struct lineage *lineage = state;
    struct node *node = &lineage->nodes[block];

    (void)priority;
    if (end != KVBM_EVICTION_SAME)
        node->tick = end == KVBM_EVICTION_COLD ? --lineage->cold : ++lineage->warm;
    node->waits = true;
    if (is_leaf(lineage, block))
        heap_add(lineage, block);
}

static void
lineage_take(void *state, uint32_t block)
{
    struct lineage *lineage = state;

    lineage->nodes[block].waits = false;
    if (lineage->nodes[block].place != NONE)
        heap_remove(lineage, block);
}

static uint32_t
lineage_victim(void *state, uint64_t now)
{
    struct lineage *lineage = state;
    uint32_t block;

    (void)now;
    if (lineage->heap_count == 0)
        return NONE;
    block = lineage->heap[0];
    lineage_take(lineage, block);
    uncount_child(lineage, block); /* its parent may be the next victim */
    return block;
}

static void
lineage_put_back(void *state, uint32_t block)
{
    struct lineage *lineage = state;

    lineage->nodes[block].waits = true;
    heap_add(lineage, block);
    count_child(lineage, block);
}

static void
lineage_keep(void *state, uint32_t block)
{
    count_child(state, block);
}

static void
lineage_delist(void *state, uint32_t block)
{
    uncount_child(state, block);
}

const struct kvbm_eviction_calls kvbm_eviction_lineage = {
    .init = lineage_init,
    .free = lineage_free,
    .list = lineage_list,
    .put = lineage_put,
    .take = lineage_take,
    .victim = lineage_victim,
    .put_back = lineage_put_back,
    .keep = lineage_keep,
    .delist = lineage_delist,
};
