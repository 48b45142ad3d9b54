/*
 * tests/unit/kvbm/pool/block_pool_model.h -- what a pool must do, said by looking through all its
 * blocks.
 *
 * Why: pool_model_test.c compares every answer of a pool with a picture too simple to be wrong in
 * the same way.  Names are the nodes of a binary tree, so that blocks continue each other.
 * Ownership: one model a program; test_model_start() begins anew.
 * Threads:   one.
 * Limits:    the names below.
 */
#ifndef TESTS_UNIT_KVBM_POOL_BLOCK_POOL_MODEL_H
#define TESTS_UNIT_KVBM_POOL_BLOCK_POOL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvbm/pool/block_pool.h"
#include "kvbm/pool/mutable_block.h"

enum {
    BLOCKS = 12,
    NODES = 31,
    HANDLES = 40,
    WEAKS = 16,
    TOKENS = 2,
    BATCH = 4,
};

enum stage { RESET, NAMED, EMPTY, PART, FULL, COMPLETE, REGISTERED, STAGES };
enum move { BEGIN, NAME, INIT, ADD, POP, COMMIT, REGISTER, DO_RESET, MOVES };

/* What must have happened at least once. */
#define EVENTS(X)                                                                                  \
    X(ALLOCATED)                                                                                   \
    X(EVICTED)                                                                                     \
    X(NO_ROOM)                                                                                     \
    X(DUPLICATE)                                                                                   \
    X(NAME_BUSY)                                                                                   \
    X(MATCHED)                                                                                     \
    X(HOLE)                                                                                        \
    X(SCANNED_OVER_HOLES)                                                                          \
    X(WEAK_ALIVE)                                                                                  \
    X(WEAK_DEAD)                                                                                   \
    X(SHARED)                                                                                      \
    X(COLDEST)                                                                                     \
    X(COLDEST_ASIDE)                                                                               \
    X(CLEARED)                                                                                     \
    X(DROPPED_UNREGISTERED)                                                                        \
    X(DROPPED_OF_SEVERAL)                                                                          \
    X(DROPPED_LAST)                                                                                \
    X(DROPPED_COLD)                                                                                \
    X(EVICT_OK)                                                                                    \
    X(EVICT_BUSY)                                                                                  \
    X(DISCARDED)                                                                                   \
    X(PRIORITY_SET)

enum event {
#define X(name) EVENT_##name,
    EVENTS(X)
#undef X
        EVENT_COUNT
};

struct model_block {
    enum stage stage;
    unsigned node; /* of the tree; 0: not chosen yet */
    uint32_t holders;
    uint32_t filled;
    uint32_t priority;
    uint32_t level; /* what it was put with */
    int64_t tick;
    bool listed;
    bool waits;
    bool aside;
};

struct test_model {
    enum kvt_pool_order order;
    enum kvt_pool_dedup dedup;
    struct kvbm_pool *pool;
    struct kvbm_label labels[NODES + 1];
    struct model_block blocks[BLOCKS];
    struct kvt_handle held[HANDLES];
    size_t held_count;
    struct kvt_handle weaks[WEAKS];
    uint32_t generations[BLOCKS]; /* of the life the model knows */
    int64_t warm;
    int64_t cold;
    bool told[NODES + 1];   /* the world thinks the name is here */
    unsigned going[BLOCKS]; /* the nodes whose Remove must come next, in this order */
    size_t going_count;
    size_t gone;
    unsigned moved[MOVES][STAGES];
    unsigned refused[MOVES][STAGES];
    unsigned events[EVENT_COUNT];
};

extern struct test_model model;

/** Forget all, and name the nodes. */
void test_model_start(enum kvt_pool_order order, enum kvt_pool_dedup dedup);

/* For kvbm_pool_options: the model's picture of what the world was told. */
void test_model_on_store(void *arg, const struct kvbm_label *label);
void test_model_on_remove(void *arg, const struct kvbm_label *label);

/** The block that has the name, or BLOCKS. */
uint32_t test_model_listed(unsigned node);

/** The blocks that go first, up to `count`; returns how many may go. */
size_t test_model_foretell(uint32_t *victims, size_t count);

/** These, and no others, lose their names from here on, in this order. */
void test_model_expect(const uint32_t *blocks, size_t count);

void test_model_forget(uint32_t block);
void test_model_add(struct kvt_handle handle);
void test_model_found(struct kvt_handle handle, unsigned node);
struct kvt_handle test_model_take(size_t at);

/** The last holder let go, or one of several. */
void test_model_put(uint32_t block, bool cold);

bool test_model_may_move(enum move move, enum stage stage);

/** The complete block of held[at] was registered; `known` had the name, or is BLOCKS. */
void test_model_registered(size_t at, struct kvt_handle handle, uint32_t known, enum kvt_err rc);

/** Try a move of held[at]; `node` names it if it has no name yet. */
void test_model_move(size_t at, enum move move, unsigned node);

#endif /* TESTS_UNIT_KVBM_POOL_BLOCK_POOL_MODEL_H */
