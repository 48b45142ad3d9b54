/*
 * kvbm/pool/eviction.h -- which of a pool's blocks that nobody holds goes first.
 *
 * Why: the pool knows who holds a block and what it is called; what order the others leave in is a
 * choice.  Here are the choices, behind one table of calls:
 *
 *   lru        least recently used first
 *   priority   the lowest priority first, in it least recently used
 *   lineage    least recently used first, but only blocks that nothing in the pool continues: a
 *              parent never goes before its child
 *   ordering   what a kvtier/ordering.h says, one of KVTier's own or a plugin
 *
 * A block is *listed* from its registration until it loses its name.  In between it is held, or it
 * waits here: put() to take() or victim().
 *
 * Ownership: kvbm_eviction_release() frees what kvbm_eviction_init() made; the struct is the
 *            pool's.  `names` are the pool's and outlive it.
 * Threads:   none; the pool's lock guards it.  An ordering therefore runs under that lock: it is a
 *            data structure, and must neither wait nor call the pool.
 * Limits:    block numbers below `block_count`; nothing allocates after init.
 */
#ifndef KVBM_POOL_EVICTION_H
#define KVBM_POOL_EVICTION_H

#include <stdbool.h>
#include <stdint.h>

#include "kvbm/pool/block_names.h"
#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/kvbm.h"
#include "kvtier/ordering.h"

#define KVBM_EVICTION_NONE UINT32_MAX

struct kvbm_eviction_options {
    enum kvt_pool_order order;
    uint32_t block_count;
    uint64_t block_bytes;                 /* what an ordering is told; 0 = 1 */
    const struct kvbm_block_names *names; /* lineage: of listed blocks */
    const struct kvt_ordering *ordering;  /* KVT_POOL_ORDER_ORDERING only */
    struct kvt_ordering_options ordering_options;
};

enum kvbm_eviction_end {
    KVBM_EVICTION_WARM,
    KVBM_EVICTION_COLD,
    KVBM_EVICTION_SAME, /* where it was when it was taken: it was copied, not used */
};

/* An order.  Calls that may be NULL say so. */
struct kvbm_eviction_calls {
    enum kvt_err (*init)(void **state, const struct kvbm_eviction_options *options);
    void (*free)(void *state); /* NULL is allowed */
    /* The held block has a name now.  May be NULL. */
    void (*list)(void *state, uint32_t block, const struct kvt_block_id *id, uint64_t now);
    /* Somebody found it at tick `now`, and holds it: after take(), if nobody had.  May be NULL. */
    void (*use)(void *state, uint32_t block, uint64_t now);
    void (*put)(void *state, uint32_t block, uint32_t priority, enum kvbm_eviction_end end);
    void (*take)(void *state, uint32_t block);
    /* Take out the block that goes first; KVBM_EVICTION_NONE when none may. */
    uint32_t (*victim)(void *state, uint64_t now);
    /* A victim stays after all; the last taken is put back first. */
    void (*put_back)(void *state, uint32_t block);
    /* A victim is held by somebody instead.  May be NULL. */
    void (*keep)(void *state, uint32_t block);
    /* A held block, or a victim, has no name any more.  May be NULL. */
    void (*delist)(void *state, uint32_t block);
};

extern const struct kvbm_eviction_calls kvbm_eviction_lru; /* lru and priority */
extern const struct kvbm_eviction_calls kvbm_eviction_lineage;
extern const struct kvbm_eviction_calls kvbm_eviction_ordering;

struct kvbm_eviction {
    const struct kvbm_eviction_calls *calls;
    void *state;
    uint64_t now;   /* ticks: one a lookup or registration of a request's blocks */
    uint32_t count; /* of blocks that wait here */
};

/** KVT_OK; KVT_INVALID for an order that is none or lacks what it needs; KVT_NOMEM. */
KVT_NODISCARD enum kvt_err kvbm_eviction_init(struct kvbm_eviction *inactive,
                                              const struct kvbm_eviction_options *options);
void kvbm_eviction_release(struct kvbm_eviction *inactive);

#endif /* KVBM_POOL_EVICTION_H */
