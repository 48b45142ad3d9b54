/*
 * router/prompt_tree.h -- the active prompts of all workers, as one tree of runs of blocks.
 *
 * Why: sequence hashes chain over the whole prefix, so what requests share is always a beginning.
 * A run that the same requests hold is one node, whatever its length: entering, leaving and asking
 * cost steps a branch, not a block, and a shared prompt is kept once.  Who holds a node holds all
 * above it.
 *
 * Ownership: the tree owns its nodes; hashes are copied.
 * Threads:   none; one owner.
 * Limits:    two nodes a prompt (where memory fails, runs that were cut stay so); else memory.
 */
#ifndef ROUTER_PROMPT_TREE_H
#define ROUTER_PROMPT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROUTER_PROMPT_TREE_ROOT 0 /* where a prompt without blocks ends */

struct router_prompt_tree_node;

struct router_prompt_tree {
    struct router_prompt_tree_node *nodes;
    size_t capacity;
    uint32_t used; /* nodes ever made, the root too */
    uint32_t free; /* head of those to use again; 0: none */
    uint32_t live;
    uint32_t *heads; /* nodes by (parent, first hash) */
    size_t head_count;
    uint64_t seed;
};

/** False: no memory.  Release it all the same. */
bool router_prompt_tree_init(struct router_prompt_tree *prefixes);
void router_prompt_tree_release(struct router_prompt_tree *prefixes);

/** A request of `worker` holds these blocks, root first, until it leaves `*end`.
 *  @param[out] end    where the prompt ends
 *  @param[out] fresh  blocks that no request of the worker held before
 *  @return false: no memory, and nobody holds more than before */
bool router_prompt_tree_enter(struct router_prompt_tree *prefixes, const uint64_t *hashes,
                              uint32_t count, uint32_t worker, uint32_t *end, uint32_t *fresh);
/** @return blocks that no request of the worker holds any more */
uint32_t router_prompt_tree_leave(struct router_prompt_tree *prefixes, uint32_t end,
                                  uint32_t worker);

/** The hashes of a prompt that ends there, root first; there is room for all. */
void router_prompt_tree_read(const struct router_prompt_tree *prefixes, uint32_t end,
                             uint64_t *hashes);

/** Take from `columns[places[w]]` of each worker w that holds a beginning of these blocks how many
 *  it holds. */
void router_prompt_tree_subtract(const struct router_prompt_tree *prefixes, const uint64_t *hashes,
                                 uint32_t count, const uint32_t *places, uint64_t *columns);

#endif /* ROUTER_PROMPT_TREE_H */
