/*
 * tests/unit/engine/leader/leader_node.h -- an instance, and nothing left out: a leader, a real
 * rank, memory that others read.
 *
 * Why: what becomes of a session when either side dies has to be tried with processes, real reads
 * and real calls.  Chain c has blocks c * 100 + 1, c * 100 + 2, ...; the content of a block is its
 * name.  A *gate* before the rank keeps jobs of one verb back, so that a session stays in the state
 * in which something is to happen to it.
 * Ownership: node_close() after a node_open() that said KVT_OK.
 * Threads:   any; open and close are the owner's.
 * Limits:    NODE_BLOCKS blocks of G2 and of G3; NODE_CHAIN blocks a chain.
 */
#ifndef TESTS_UNIT_ENGINE_LEADER_LEADER_NODE_H
#define TESTS_UNIT_ENGINE_LEADER_LEADER_NODE_H

#include "engine/leader/leader.h"
#include "engine/rank/rank.h"

#define NODE_BLOCKS 64
#define NODE_CHAIN  8

struct node_options {
    uint64_t number; /* of the instance */
    const char *endpoint;
    bool far;         /* others are read over TCP, and not in shared memory */
    uint64_t hold_ms; /* as in engine/leader/leader.h */
};

struct node {
    struct engine_leader *leader;
    struct engine_worker *worker; /* the gate; the rank is behind it */
    struct engine_rank_options rank;
    struct kvbm_pool *pools[KVT_TIER_G4]; /* by enum kvt_tier */
};

enum kvt_err node_open(struct node *node, const struct node_options *options);
/** Opens the gate, and asserts what engine_leader_close() does. */
void node_close(struct node *node);

/** Jobs of this verb wait from now on, whatever their deadline; 0: none do, and those that did
 *  begin. */
void node_gate(struct node *node, enum engine_verb verb);
/** Jobs that wait there. */
size_t node_gated(struct node *node);

void node_labels(struct kvbm_label *labels, uint64_t chain, size_t count);
/** Blocks [first, first + count) of a chain; false: there is no room. */
bool node_make(struct node *node, enum kvt_tier tier, uint64_t chain, size_t first, size_t count);
/** Blocks of G2 are the first of this chain, by name and by bytes. */
bool node_are(struct node *node, uint64_t chain, const struct kvt_handle *handles, size_t count);
/** How many of a chain G2 has, holes or not; each is looked at.  SIZE_MAX: one has other bytes. */
size_t node_has(struct node *node, uint64_t chain);
/** Nothing goes on, nothing is held but by `holders` (blocks of G2) of the test's own. */
bool node_is_idle(struct node *node, uint64_t holders);

#endif /* TESTS_UNIT_ENGINE_LEADER_LEADER_NODE_H */
