/*
 * kvbm/pool/block_pool.h -- the blocks of one tier: who holds them, what they are called, which
 * goes next.
 *
 * Why: G1, G2 and G3 need the same book-keeping whatever their memory is.  The pool moves block
 * numbers only, never bytes.  A block is in one of three parts:
 *
 *   free      Reset, held by nobody
 *   active    held: either being written by its one holder, or registered and shared by several
 *   inactive  registered, held by nobody; evicted in the pool's order (kvbm/pool/eviction.h) when
 *   room
 *             is needed
 *
 * A registered block is announced (on_store) before anybody can find it, and taken back (on_remove)
 * after nobody can find it any more and before its name can be registered again: whoever listens
 * sees, for each name, Store and Remove strictly in turn.
 *
 * Ownership: a handle names a block in one life (it carries the generation).  What allocate, find,
 *            match, coldest and upgrade give is held by the caller until kvbm_pool_drop() or one of
 *            the calls that say they take it.  A copy of a handle kept past that is a weak handle:
 *            kvbm_pool_upgrade() turns it into a held one if the block still lives.
 * Threads:   any; what only the one holder of a block does before it registers it
 *            (kvbm/pool/mutable_block.h) is one thread's at a time.  The callbacks run on the
 *            calling thread with no lock held; they must not call the pool.
 * Limits:    1 <= block_count <= KVT_POOL_BLOCKS_MAX.  A full pool is an ordinary answer
 *            (KVT_AGAIN).  Using a handle that is not held is a bug, and asserted.
 */
#ifndef KVBM_POOL_BLOCK_POOL_H
#define KVBM_POOL_BLOCK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/kvbm.h"
#include "kvtier/ordering.h"

struct kvbm_pool;

/* What a block is called, and the prefix that routes its events (kvtier/event.h). */
struct kvbm_label {
    struct kvt_block_id id;
    uint64_t prefix_hash;
    uint64_t tokens_hash; /* of its own tokens; 0: unknown */
};

typedef void kvbm_pool_event_fn(void *arg, const struct kvbm_label *label);

struct kvbm_pool_options {
    uint32_t block_count;
    enum kvt_pool_dedup dedup;
    enum kvt_pool_order order;
    const struct kvt_ordering *ordering; /* KVT_POOL_ORDER_ORDERING; outlives the pool */
    struct kvt_ordering_options ordering_options;
    uint64_t block_bytes; /* what an ordering is told; 0 = 1 */
    uint32_t
        block_tokens; /* 0: blocks are named by their holders only (kvbm/pool/mutable_block.h) */
    uint32_t prefix_depth;         /* of names made from tokens; 0 = 8 */
    kvbm_pool_event_fn *on_store;  /* may be NULL */
    kvbm_pool_event_fn *on_remove; /* may be NULL */
    void *arg;
};

struct kvbm_pool_stats {
    uint32_t blocks;
    uint32_t free;
    uint32_t active;
    uint32_t inactive;
    uint32_t registered; /* names that can be found */
    uint32_t unstored;   /* names of blocks that were not marked stored */
    uint64_t registrations;
    uint64_t duplicates;
    uint64_t sought;            /* names asked for by match, find and scan, ... */
    uint64_t found;             /* ... and found */
    uint64_t evictions;         /* of inactive blocks, to make room or by clear */
    uint64_t evictions_unsaved; /* of them, not marked saved or stored */
    uint64_t early_used;        /* blocks marked early that were found, ... */
    uint64_t early_unused;      /* ... and that lost their name before they were */
};

/* What is known of a held block. */
struct kvbm_pool_facts {
    struct kvbm_label label;
    uint32_t priority;
    bool saved;  /* the next tier had a copy */
    bool stored; /* kvbm_pool_mark_stored() */
};

/** KVT_OK; KVT_INVALID (a count or an order that cannot be) or KVT_NOMEM with *out NULL. */
KVT_NODISCARD enum kvt_err kvbm_pool_new(struct kvbm_pool **out,
                                         const struct kvbm_pool_options *options);

/** NULL is allowed.  No callback is made.  Freeing a pool with held blocks is a bug, and asserted.
 */
void kvbm_pool_free(struct kvbm_pool *pool);

/**
 * Take `count` blocks in state Reset, all or none; inactive blocks are evicted when the free ones
 * do not suffice.
 *
 * @return KVT_OK, or KVT_AGAIN when not even eviction makes that much room
 */
KVT_NODISCARD enum kvt_err kvbm_pool_allocate(struct kvbm_pool *pool, size_t count,
                                              struct kvt_handle *handles);

/** As allocate, without evicting anything. */
KVT_NODISCARD enum kvt_err kvbm_pool_allocate_free(struct kvbm_pool *pool, size_t count,
                                                   struct kvt_handle *handles);

/** As allocate, waiting up to `wait_ms` for holders to let go. */
KVT_NODISCARD enum kvt_err kvbm_pool_allocate_wait(struct kvbm_pool *pool, size_t count,
                                                   struct kvt_handle *handles, uint64_t wait_ms);

/**
 * Complete -> Registered: the block can now be found, and may be shared.
 *
 * @return KVT_OK; KVT_EXISTS (the name is known and dedup is REJECT: `handle` now holds the block
 *         that has it, the new one is free again); KVT_BUSY (the name is just coming or going:
 *         nothing changed); KVT_INVALID
 */
KVT_NODISCARD enum kvt_err kvbm_pool_register(struct kvbm_pool *pool, struct kvt_handle *handle,
                                              struct kvt_error *err);

/**
 * The same for several blocks under one lock; `results` has what register would have said of each.
 * A name that is there twice is KVT_EXISTS or KVT_BUSY the second time.  Returns how many of the
 * names can be found now (KVT_OK and KVT_EXISTS).
 */
size_t kvbm_pool_register_all(struct kvbm_pool *pool, struct kvt_handle *handles, size_t count,
                              enum kvt_err *results);

/** Give a handle back.  The last one moves a registered block to the warm end of the inactive part;
 *  any other block becomes free. */
void kvbm_pool_drop(struct kvbm_pool *pool, struct kvt_handle handle);

/** As drop, to the cold end: it goes first when room is needed. */
void kvbm_pool_drop_cold(struct kvbm_pool *pool, struct kvt_handle handle);

/** As drop, to where it rested before it was taken to be looked at, or near it. */
void kvbm_pool_drop_same(struct kvbm_pool *pool, struct kvt_handle handle);

/** As drop, of several, the last first: of a chain, what continues a block is then colder than the
 *  block.  Handles that are none are left out. */
void kvbm_pool_drop_all(struct kvbm_pool *pool, const struct kvt_handle *handles, size_t count);

/** Is the name registered?  Neither holds nor warms the block. */
bool kvbm_pool_has(struct kvbm_pool *pool, uint64_t hash);

/** Hold the block of this name.  KVT_OK or KVT_NOTFOUND. */
KVT_NODISCARD enum kvt_err kvbm_pool_find(struct kvbm_pool *pool, uint64_t hash,
                                          struct kvt_handle *handle);

/** Hold the longest prefix of `hashes` that is registered; returns its length. */
size_t kvbm_pool_match(struct kvbm_pool *pool, const uint64_t *hashes, size_t count,
                       struct kvt_handle *handles);

/** Hold each of `hashes` that is registered, and say none of the others; returns how many. */
size_t kvbm_pool_scan(struct kvbm_pool *pool, const uint64_t *hashes, size_t count,
                      struct kvt_handle *handles);

/** Hold the block that a handle given back earlier named.  KVT_NOTFOUND: it is gone since.  Where
 *  that is no use of it, give it back by kvbm_pool_drop_same(). */
KVT_NODISCARD enum kvt_err kvbm_pool_upgrade(struct kvbm_pool *pool, struct kvt_handle weak);

/** One more holder of a registered block that the caller holds. */
void kvbm_pool_share(struct kvbm_pool *pool, struct kvt_handle handle);

/** Hold up to `max` of the coldest inactive blocks that were not set aside; returns how many. */
size_t kvbm_pool_coldest(struct kvbm_pool *pool, size_t max, struct kvt_handle *handles);

/** What the engine's iteration is by now.  It only says how long a block rests; wraps around. */
void kvbm_pool_set_iteration(struct kvbm_pool *pool, uint32_t iteration);

/**
 * Hold up to `max` blocks that have rested for `iterations` or longer, have no copy in the next
 * tier and were not set aside.  Looks at `looks` blocks at most, from block `*at` on, round about,
 * and advances it: the caller goes on where it ended.  Give them back by kvbm_pool_drop_same().
 */
size_t kvbm_pool_idle(struct kvbm_pool *pool, uint32_t iterations, uint32_t *at, uint32_t looks,
                      size_t max, struct kvt_handle *handles);

/**
 * Hold up to `max` registered blocks, held by others or not, that were not marked stored.  Looks at
 * `looks` blocks at most, from block `*at` on to the end of the pool, and advances it; at the end
 * it is the number of blocks.  Give them back by kvbm_pool_drop_same().
 */
size_t kvbm_pool_unstored(struct kvbm_pool *pool, uint32_t *at, uint32_t looks, size_t max,
                          struct kvt_handle *handles);

/** What KVT_POOL_ORDER_PRIORITY goes by from the held block's next drop on; 0 when it is new.  At
 *  most KVT_PRIORITY_MAX (asserted). */
void kvbm_pool_set_priority(struct kvbm_pool *pool, struct kvt_handle handle, uint32_t priority);

/** Do not offer the held block as coldest again until somebody finds it anew. */
void kvbm_pool_set_aside(struct kvbm_pool *pool, struct kvt_handle handle);

/** Note that the next tier has a copy of the held block. */
void kvbm_pool_mark_saved(struct kvbm_pool *pool, struct kvt_handle handle);

/** Note that the object tier has the block of this name, whichever tier is next, or will never take
 *  it.  Nothing happens where the name is not registered. */
void kvbm_pool_mark_stored(struct kvbm_pool *pool, uint64_t hash);

/** Note that nobody has asked for the held block yet: it is counted when somebody does, or when it
 *  goes before. */
void kvbm_pool_mark_early(struct kvbm_pool *pool, struct kvt_handle handle);

/** Take the handle; free the block if nobody else holds it.  KVT_BUSY: somebody does, it stays. */
enum kvt_err kvbm_pool_evict(struct kvbm_pool *pool, struct kvt_handle handle);

/** Take the handle; the block can no longer be found and becomes free with its last holder.  For
 *  content that proved wrong. */
void kvbm_pool_discard(struct kvbm_pool *pool, struct kvt_handle handle);

/** Evict every inactive block that may go; returns how many went. */
size_t kvbm_pool_clear(struct kvbm_pool *pool);

/** What the held block is called; zero before it is Complete. */
struct kvbm_label kvbm_pool_label(struct kvbm_pool *pool, struct kvt_handle handle);
struct kvbm_pool_facts kvbm_pool_facts(struct kvbm_pool *pool, struct kvt_handle handle);
enum kvt_block_state kvbm_pool_state(struct kvbm_pool *pool, struct kvt_handle handle);

/**
 * Copy out names that are registered, or about to be, from slot `at` on, at most `capacity`;
 * advances `at`.  Returns how many; fewer than `capacity` means that was the end.  Names that are
 * being taken back are left out: together with the order of callbacks a walk never shows what a
 * Remove before it has ended.
 */
size_t kvbm_pool_walk(struct kvbm_pool *pool, uint32_t *at, struct kvbm_label *labels,
                      size_t capacity);

/** Wait until at least `count` blocks are free without evicting any; false when time ran out. */
bool kvbm_pool_wait_free(struct kvbm_pool *pool, uint32_t count, uint64_t wait_ms);

/** A consistent snapshot. */
struct kvbm_pool_stats kvbm_pool_stats(struct kvbm_pool *pool);

#endif /* KVBM_POOL_BLOCK_POOL_H */
