#include <assert.h>
#include <string.h>

#include "advisor/policy.h"
#include "base/alloc.h"

/*
 * Least recently used first, for chains of blocks.
 *
 * A block is of use only with every block before it, so using one uses its ancestors too: touch()
 * carries the time up the chain as far as it is news.  Hence a parent is never older than its
 * child, and of equally old blocks the deepest goes first: what leaves is always the end of a
 * chain.
 *
 * A heap of numbers, oldest on top, and a hash table from (ns, hash) to the number.
 */

#define NONE UINT32_MAX

enum { NODES_MIN = 64 };

struct node {
    struct advisor_policy_block block;
    uint32_t heap_at; /* NONE: taken out as a victim */
    uint32_t next;    /* in its bucket, or in the free list */
};

struct lru {
    struct node *nodes;
    uint32_t *heap;
    uint32_t *buckets; /* as many as nodes */
    uint32_t capacity; /* a power of two */
    uint32_t count;
    uint32_t heap_count;
    uint32_t free;
    uint64_t bytes_max;
};

static uint64_t
bytes_for(uint64_t capacity)
{
    return capacity * (sizeof(struct node) + 2 * sizeof(uint32_t));
}

static uint32_t
bucket_of(const struct lru *lru, uint32_t ns, uint64_t hash)
{
    uint64_t mixed = (hash ^ ns) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(mixed >> 32) & (lru->capacity - 1);
}

static uint32_t
find(const struct lru *lru, uint32_t ns, uint64_t hash)
{
    uint32_t at;

    if (lru->capacity == 0)
        return NONE;
    for (at = lru->buckets[bucket_of(lru, ns, hash)]; at != NONE; at = lru->nodes[at].next)
        if (lru->nodes[at].block.hash == hash && lru->nodes[at].block.ns == ns)
            return at;
    return NONE;
}

/* ---- the heap ---- */

static bool
goes_before(const struct lru *lru, uint32_t left, uint32_t right)
{
    const struct advisor_policy_block *a = &lru->nodes[left].block;
    const struct advisor_policy_block *b = &lru->nodes[right].block;

    if (a->touched_ms != b->touched_ms)
        return a->touched_ms < b->touched_ms;
    if (a->position != b->position)
        return a->position > b->position;
    if (a->hash != b->hash)
        return a->hash < b->hash;
    return a->ns < b->ns;
}

static void
put(struct lru *lru, uint32_t at, uint32_t node)
{
    lru->heap[at] = node;
    lru->nodes[node].heap_at = at;
}

static void
move_up(struct lru *lru, uint32_t at)
{
    const uint32_t node = lru->heap[at];

    while (at > 0) {
        const uint32_t above = (at - 1) / 2;

        if (!goes_before(lru, node, lru->heap[above]))
            break;
        put(lru, at, lru->heap[above]);
        at = above;
    }
    put(lru, at, node);
}

static void
move_down(struct lru *lru, uint32_t at)
{
    const uint32_t node = lru->heap[at];

    for (;;) {
        uint32_t below = at * 2 + 1;

        if (below >= lru->heap_count)
            break;
        if (below + 1 < lru->heap_count && goes_before(lru, lru->heap[below + 1], lru->heap[below]))
            below++;
        if (!goes_before(lru, lru->heap[below], node))
            break;
        put(lru, at, lru->heap[below]);
        at = below;
    }
    put(lru, at, node);
}

static void
heap_add(struct lru *lru, uint32_t node)
{
    put(lru, lru->heap_count, node);
    lru->heap_count++;
    move_up(lru, lru->heap_count - 1);
}

static void
heap_remove(struct lru *lru, uint32_t node)
{
    const uint32_t at = lru->nodes[node].heap_at;
    const uint32_t last = lru->heap[lru->heap_count - 1];

    assert(at < lru->heap_count);
    lru->heap_count--;
    lru->nodes[node].heap_at = NONE;
    if (last == node)
        return;
    put(lru, at, last);
    move_up(lru, at);
    move_down(lru, lru->nodes[last].heap_at);
}

/* ---- the interface ---- */

static enum kvt_err
lru_init(void **state, uint64_t bytes_max)
{
    struct lru *lru = kvt_calloc(1, sizeof(*lru));

    *state = lru;
    if (lru == NULL)
        return KVT_NOMEM;
    lru->bytes_max = bytes_max;
    lru->free = NONE;
    return KVT_OK;
}

static void
lru_free(void *state)
{
    struct lru *lru = state;

    if (lru == NULL)
        return;
    kvt_free(lru->nodes);
    kvt_free(lru->heap);
    kvt_free(lru->buckets);
    kvt_free(lru);
}

static enum kvt_err
grow(struct lru *lru)
{
    const uint32_t capacity = lru->capacity == 0 ? NODES_MIN : lru->capacity * 2;
    struct node *nodes;
    uint32_t *buckets;
    uint32_t *heap;

    if (capacity > UINT32_MAX / 4 || bytes_for(capacity) > lru->bytes_max)
        return KVT_FULL;
    nodes = kvt_realloc(lru->nodes, capacity, sizeof(*nodes));
    if (nodes != NULL)
        lru->nodes = nodes;
    heap = kvt_realloc(lru->heap, capacity, sizeof(*heap));
    if (heap != NULL)
        lru->heap = heap;
    buckets = kvt_realloc(lru->buckets, capacity, sizeof(*buckets));
    if (buckets != NULL)
        lru->buckets = buckets;
    if (nodes == NULL || heap == NULL || buckets == NULL)
        return KVT_NOMEM;
    lru->capacity = capacity;
    memset(buckets, 0xff, capacity * sizeof(*buckets));
    for (uint32_t i = 0; i < lru->count; i++) {
        const uint32_t bucket = bucket_of(lru, nodes[i].block.ns, nodes[i].block.hash);

        nodes[i].next = buckets[bucket];
        buckets[bucket] = i;
    }
    return KVT_OK;
}

static enum kvt_err
add(struct lru *lru, const struct advisor_policy_block *block, uint32_t *node)
{
    uint32_t bucket;
    uint32_t at = lru->free;

    *node = NONE;
    if (at == NONE) {
        /* Without a free one, the nodes in use are the first `count`. */
        if (lru->count == lru->capacity) {
            const enum kvt_err rc = grow(lru);

            if (rc != KVT_OK)
                return rc;
        }
        at = lru->count;
    } else {
        lru->free = lru->nodes[at].next;
    }
    lru->count++;
    bucket = bucket_of(lru, block->ns, block->hash);
    lru->nodes[at] = (struct node){.block = *block, .heap_at = NONE, .next = lru->buckets[bucket]};
    lru->buckets[bucket] = at;
    heap_add(lru, at);
    *node = at;
    return KVT_OK;
}

static void
refresh(struct lru *lru, uint32_t node, uint64_t touched_ms)
{
    lru->nodes[node].block.touched_ms = touched_ms;
    if (lru->nodes[node].heap_at != NONE)
        move_down(lru, lru->nodes[node].heap_at);
}

static enum kvt_err
lru_touch(void *state, const struct advisor_policy_block *block)
{
    struct lru *lru = state;
    uint32_t node = find(lru, block->ns, block->hash);
    uint64_t touched_ms = block->touched_ms;

    if (node == NONE) {
        const enum kvt_err rc = add(lru, block, &node);

        if (rc != KVT_OK)
            return rc;
    } else {
        struct advisor_policy_block *known = &lru->nodes[node].block;

        if (touched_ms < known->touched_ms)
            touched_ms = known->touched_ms;
        if (block->bytes != 0) {
            known->bytes = block->bytes;
            known->ranks = block->ranks;
        }
        refresh(lru, node, touched_ms);
    }
    for (;;) {
        const struct advisor_policy_block *child = &lru->nodes[node].block;

        if (child->parent == 0)
            return KVT_OK;
        node = find(lru, child->ns, child->parent);
        /* Also the end of a chain that bites its own tail: it has this time already. */
        if (node == NONE || lru->nodes[node].block.touched_ms >= touched_ms)
            return KVT_OK;
        refresh(lru, node, touched_ms);
    }
}

static void
lru_drop(void *state, uint32_t ns, uint64_t hash)
{
    struct lru *lru = state;
    const uint32_t node = find(lru, ns, hash);
    uint32_t *link;

    if (node == NONE)
        return;
    if (lru->nodes[node].heap_at != NONE)
        heap_remove(lru, node);
    link = &lru->buckets[bucket_of(lru, ns, hash)];
    while (*link != node)
        link = &lru->nodes[*link].next;
    *link = lru->nodes[node].next;
    lru->nodes[node] = (struct node){.heap_at = NONE, .next = lru->free};
    lru->free = node;
    lru->count--;
}

static bool
lru_victim(void *state, struct advisor_policy_block *block)
{
    struct lru *lru = state;
    uint32_t node;

    memset(block, 0, sizeof(*block));
    if (lru->heap_count == 0)
        return false;
    node = lru->heap[0];
    *block = lru->nodes[node].block;
    heap_remove(lru, node);
    return true;
}

static void
lru_give_back(void *state, uint32_t ns, uint64_t hash)
{
    struct lru *lru = state;
    const uint32_t node = find(lru, ns, hash);

    if (node != NONE && lru->nodes[node].heap_at == NONE)
        heap_add(lru, node);
}

static size_t
lru_count(const void *state)
{
    const struct lru *lru = state;

    return lru->heap_count;
}

static uint64_t
lru_bytes(const void *state)
{
    const struct lru *lru = state;

    return sizeof(*lru) + bytes_for(lru->capacity);
}

const struct advisor_policy_ops advisor_policy_lru = {
    .name = "lru",
    .init = lru_init,
    .touch = lru_touch,
    .drop = lru_drop,
    .victim = lru_victim,
    .give_back = lru_give_back,
    .count = lru_count,
    .bytes = lru_bytes,
    .free = lru_free,
};
