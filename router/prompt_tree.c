#include "router/prompt_tree.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "router/prompt_holders.h"

enum { HEADS_FIRST = 64 };

struct router_prompt_tree_node {
    uint64_t *hashes;
    uint32_t length;
    uint32_t end;  /* blocks from the root to the end of this run */
    uint32_t ends; /* prompts that end with this run */
    uint32_t parent;
    uint32_t children;
    uint32_t child; /* all their numbers, with exclusive or: of one child its own */
    uint32_t next;  /* of those with the same head; of those to use again */
    struct router_prompt_holders holders;
};

static size_t
head_of(const struct router_prompt_tree *prefixes, uint32_t parent, uint64_t first)
{
    uint64_t mixed = (first ^ prefixes->seed) + parent * UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (size_t)(mixed >> 32) & (prefixes->head_count - 1);
}

static uint32_t
child_of(const struct router_prompt_tree *prefixes, uint32_t parent, uint64_t first)
{
    uint32_t at = prefixes->heads[head_of(prefixes, parent, first)];

    while (at != 0 &&
           (prefixes->nodes[at].parent != parent || prefixes->nodes[at].hashes[0] != first))
        at = prefixes->nodes[at].next;
    return at;
}

static void
link_node(struct router_prompt_tree *prefixes, uint32_t at)
{
    struct router_prompt_tree_node *node = &prefixes->nodes[at];
    uint32_t *head = &prefixes->heads[head_of(prefixes, node->parent, node->hashes[0])];

    node->next = *head;
    *head = at;
}

static void
unlink_node(struct router_prompt_tree *prefixes, uint32_t at)
{
    const struct router_prompt_tree_node *node = &prefixes->nodes[at];
    uint32_t *link = &prefixes->heads[head_of(prefixes, node->parent, node->hashes[0])];

    while (*link != at)
        link = &prefixes->nodes[*link].next;
    *link = node->next;
}

/* Twice the heads, where there is memory; without, the lists are longer. */
static void
spread(struct router_prompt_tree *prefixes)
{
    uint32_t *heads;
    uint32_t *old = prefixes->heads;
    const size_t old_count = prefixes->head_count;

    if (prefixes->live < old_count)
        return;
    heads = kvt_calloc(2 * old_count, sizeof(heads[0]));
    if (heads == NULL)
        return;
    prefixes->heads = heads;
    prefixes->head_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        for (uint32_t at = old[i]; at != 0;) {
            const uint32_t next = prefixes->nodes[at].next;

            link_node(prefixes, at);
            at = next;
        }
    }
    kvt_free(old);
}

bool
router_prompt_tree_init(struct router_prompt_tree *prefixes)
{
    *prefixes = (struct router_prompt_tree){.used = 1, .head_count = HEADS_FIRST};
    kvt_random_system(&prefixes->seed, sizeof(prefixes->seed));
    prefixes->heads = kvt_calloc(HEADS_FIRST, sizeof(prefixes->heads[0]));
    prefixes->nodes = kvt_grow(NULL, &prefixes->capacity, 1, sizeof(prefixes->nodes[0]));
    if (prefixes->nodes == NULL || prefixes->heads == NULL)
        return false;
    prefixes->nodes[ROUTER_PROMPT_TREE_ROOT] = (struct router_prompt_tree_node){0};
    return true;
}

void
router_prompt_tree_release(struct router_prompt_tree *prefixes)
{
    for (uint32_t i = 1; prefixes->nodes != NULL && i < prefixes->used; i++) {
        kvt_free(prefixes->nodes[i].hashes);
        router_prompt_holders_release(&prefixes->nodes[i].holders);
    }
    kvt_free(prefixes->nodes);
    kvt_free(prefixes->heads);
    *prefixes = (struct router_prompt_tree){0};
}

static void
count_child(struct router_prompt_tree *prefixes, uint32_t parent, uint32_t child, bool more)
{
    struct router_prompt_tree_node *node = &prefixes->nodes[parent];

    node->child ^= child;
    if (more)
        node->children++;
    else
        node->children--;
}

/* A node that nobody holds yet, or 0: no memory. */
static uint32_t
make(struct router_prompt_tree *prefixes, uint32_t parent, const uint64_t *hashes, uint32_t length)
{
    uint64_t *copy = kvt_calloc(length, sizeof(copy[0]));
    uint32_t at = prefixes->free;

    if (copy == NULL)
        return 0;
    if (at == 0) {
        struct router_prompt_tree_node *nodes = kvt_grow(
            prefixes->nodes, &prefixes->capacity, (size_t)prefixes->used + 1, sizeof(nodes[0]));

        if (nodes == NULL) {
            kvt_free(copy);
            return 0;
        }
        prefixes->nodes = nodes;
        at = prefixes->used++;
    } else {
        prefixes->free = prefixes->nodes[at].next;
    }
    memcpy(copy, hashes, length * sizeof(copy[0]));
    prefixes->nodes[at] = (struct router_prompt_tree_node){
        .hashes = copy,
        .length = length,
        .end = prefixes->nodes[parent].end + length,
        .parent = parent,
    };
    count_child(prefixes, parent, at, true);
    prefixes->live++;
    spread(prefixes);
    link_node(prefixes, at);
    return at;
}

static void
unmake(struct router_prompt_tree *prefixes, uint32_t at)
{
    struct router_prompt_tree_node *node = &prefixes->nodes[at];

    unlink_node(prefixes, at);
    count_child(prefixes, node->parent, at, false);
    kvt_free(node->hashes);
    router_prompt_holders_release(&node->holders);
    *node = (struct router_prompt_tree_node){.next = prefixes->free};
    prefixes->free = at;
    prefixes->live--;
}

/* Cut a run in two.  Prompts end where they did: the lower part keeps the number.  The upper one's,
 * or 0: no memory. */
static uint32_t
split(struct router_prompt_tree *prefixes, uint32_t at, uint32_t length)
{
    const uint32_t parent = prefixes->nodes[at].parent;
    struct router_prompt_holders holders = {0};
    struct router_prompt_tree_node *node;
    uint32_t upper;

    if (!router_prompt_holders_copy(&holders, &prefixes->nodes[at].holders))
        return 0;
    upper = make(prefixes, parent, prefixes->nodes[at].hashes, length);
    if (upper == 0) {
        router_prompt_holders_release(&holders);
        return 0;
    }
    prefixes->nodes[upper].holders = holders;
    unlink_node(prefixes, at);
    node = &prefixes->nodes[at];
    node->length -= length;
    memmove(node->hashes, node->hashes + length, node->length * sizeof(node->hashes[0]));
    node->parent = upper;
    count_child(prefixes, parent, at, false);
    count_child(prefixes, upper, at, true);
    link_node(prefixes, at);
    return upper;
}

/* A run that goes on one way only is one with what follows, where there is memory for both: its
 * number goes, no prompt ends there. */
static void
mend(struct router_prompt_tree *prefixes, uint32_t at)
{
    struct router_prompt_tree_node *upper = &prefixes->nodes[at];
    const uint32_t child = upper->child;
    struct router_prompt_tree_node *lower;
    uint64_t *hashes;

    if (upper->ends > 0 || upper->children != 1)
        return;
    lower = &prefixes->nodes[child];
    hashes = kvt_calloc((size_t)upper->length + lower->length, sizeof(hashes[0]));
    if (hashes == NULL)
        return;
    memcpy(hashes, upper->hashes, upper->length * sizeof(hashes[0]));
    memcpy(hashes + upper->length, lower->hashes, lower->length * sizeof(hashes[0]));
    unlink_node(prefixes, child);
    kvt_free(lower->hashes);
    lower->hashes = hashes;
    lower->length += upper->length;
    lower->parent = upper->parent;
    count_child(prefixes, upper->parent, child, true);
    unmake(prefixes, at);
    link_node(prefixes, child);
}

/* The worker holds all from here to the root for one request less. */
static uint32_t
let_go(struct router_prompt_tree *prefixes, uint32_t end, uint32_t worker)
{
    uint32_t gone = 0;

    for (uint32_t at = end; at != ROUTER_PROMPT_TREE_ROOT;) {
        struct router_prompt_tree_node *node = &prefixes->nodes[at];
        const uint32_t parent = node->parent;

        if (router_prompt_holders_remove(&node->holders, worker))
            gone += node->length;
        if (node->holders.count == 0)
            unmake(prefixes, at);
        else
            mend(prefixes, at);
        at = parent;
    }
    return gone;
}

static uint32_t
common(const struct router_prompt_tree_node *node, const uint64_t *hashes, uint32_t count)
{
    const uint32_t most = node->length < count ? node->length : count;
    uint32_t same = 1; /* it was found by the first */

    while (same < most && node->hashes[same] == hashes[same])
        same++;
    return same;
}

bool
router_prompt_tree_enter(struct router_prompt_tree *prefixes, const uint64_t *hashes,
                         uint32_t count, uint32_t worker, uint32_t *end, uint32_t *fresh)
{
    uint32_t held = ROUTER_PROMPT_TREE_ROOT; /* by this request, and all above */
    uint32_t at = 0;
    bool first;

    *fresh = 0;
    *end = ROUTER_PROMPT_TREE_ROOT;
    while (at < count) {
        uint32_t node = child_of(prefixes, held, hashes[at]);

        if (node == 0) {
            node = make(prefixes, held, hashes + at, count - at);
        } else {
            const uint32_t same = common(&prefixes->nodes[node], hashes + at, count - at);

            if (same < prefixes->nodes[node].length)
                node = split(prefixes, node, same);
        }
        if (node == 0)
            goto fail;
        if (!router_prompt_holders_add(&prefixes->nodes[node].holders, worker, &first)) {
            if (prefixes->nodes[node].holders.count == 0)
                unmake(prefixes, node);
            goto fail;
        }
        at += prefixes->nodes[node].length;
        *fresh += first ? prefixes->nodes[node].length : 0;
        held = node;
    }
    if (held != ROUTER_PROMPT_TREE_ROOT)
        prefixes->nodes[held].ends++;
    *end = held;
    return true;

fail:
    (void)let_go(prefixes, held, worker);
    *fresh = 0;
    return false;
}

uint32_t
router_prompt_tree_leave(struct router_prompt_tree *prefixes, uint32_t end, uint32_t worker)
{
    if (end != ROUTER_PROMPT_TREE_ROOT)
        prefixes->nodes[end].ends--;
    return let_go(prefixes, end, worker);
}

void
router_prompt_tree_read(const struct router_prompt_tree *prefixes, uint32_t end, uint64_t *hashes)
{
    for (uint32_t at = end; at != ROUTER_PROMPT_TREE_ROOT; at = prefixes->nodes[at].parent) {
        const struct router_prompt_tree_node *node = &prefixes->nodes[at];

        memcpy(hashes + (node->end - node->length), node->hashes, node->length * sizeof(hashes[0]));
    }
}

static void
subtract(const struct router_prompt_tree_node *node, uint32_t blocks, const uint32_t *places,
         uint64_t *columns)
{
    uint32_t count;
    const struct router_prompt_holder *holder = router_prompt_holders_all(&node->holders, &count);

    for (uint32_t i = 0; i < count; i++)
        columns[places[holder[i].worker]] -= blocks;
}

void
router_prompt_tree_subtract(const struct router_prompt_tree *prefixes, const uint64_t *hashes,
                            uint32_t count, const uint32_t *places, uint64_t *columns)
{
    const struct router_prompt_tree_node *above = &prefixes->nodes[ROUTER_PROMPT_TREE_ROOT];
    uint32_t parent = ROUTER_PROMPT_TREE_ROOT;
    uint32_t blocks = 0; /* that the holders of `above` hold, and were not told yet */
    uint32_t at = 0;

    while (at < count) {
        const uint32_t child = child_of(prefixes, parent, hashes[at]);
        const struct router_prompt_tree_node *node = &prefixes->nodes[child];
        uint32_t same;

        if (child == 0)
            break;
        /* A node's holders are among those above it: as many are the same ones. */
        if (node->holders.count != above->holders.count && blocks > 0) {
            subtract(above, blocks, places, columns);
            blocks = 0;
        }
        same = common(node, hashes + at, count - at);
        blocks += same;
        above = node;
        at += same;
        if (same < node->length)
            break;
        parent = child;
    }
    if (blocks > 0)
        subtract(above, blocks, places, columns);
}
