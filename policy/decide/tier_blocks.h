/*
 * policy/decide/tier_blocks.h -- the blocks of one tier by name, and the ordering over them.
 *
 * Why: an ordering knows numbers (kvtier/ordering.h); whoever follows a tier knows hashes, hears of
 * uses in no particular order, and of the end of a chain when its beginning was read elsewhere.
 * This gives each block a number and tells the ordering of uses as it wants them: tick after tick,
 * in each the deepest block first, and with a block all that come before it in its chain, for a
 * block is of no use without them.  The block of a chain behind which nothing was used is the last
 * of its request (KVT_ORDERING_LAST).
 *
 * A block that left the tier stays known while there is memory: what an ordering learns about is
 * also what it let go.  When memory is short, the one that was cold for longest is forgotten.
 *
 * What is told is only noted; policy_tier_blocks_settle() passes it on, and
 * policy_tier_blocks_victim() asks for that first.
 *
 * Ownership: policy_tier_blocks_new() makes it, policy_tier_blocks_free() ends it; blocks are
 *            copied.
 * Threads:   none; one owner.
 * Limits:    `bytes_max` of memory, the ordering's included; KVT_ORDERING_BLOCKS_MAX blocks.
 */
#ifndef POLICY_DECIDE_TIER_BLOCKS_H
#define POLICY_DECIDE_TIER_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/ordering.h"

struct policy_tier_blocks;

struct policy_tier_blocks_options {
    const struct kvt_ordering *ordering;
    struct kvt_ordering_options ordering_options;
    uint64_t bytes_max;
    /* Uses of a chain's blocks within so many ticks are taken for one request's, where one of two
     * is only known from a use of what comes behind; 0: those of one tick.  What is read is heard
     * of later than what is stored, and in parts.  At most POLICY_TIER_BLOCKS_REQUEST_MAX. */
    uint32_t request_ticks;
};

#define POLICY_TIER_BLOCKS_REQUEST_MAX 1024

/** A block as its tier has it. */
struct policy_block {
    uint64_t hash;
    uint64_t parent; /* 0: unknown, or the first of its chain */
    uint32_t ns;
    uint32_t position;
    uint32_t ranks; /* bitmap of the shards in the tier; 0: only known from elsewhere */
    uint32_t size;  /* of one shard */
};

struct policy_tier_blocks_counts {
    uint32_t in_tier; /* with those taken out */
    uint32_t taken;
    uint32_t passed; /* of them: set aside */
    uint32_t known;  /* in the tier or cold */
    uint64_t bytes;  /* of memory */
};

/** KVT_OK, KVT_INVALID (the ordering refuses its options) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err policy_tier_blocks_new(struct policy_tier_blocks **out,
                                                  const struct policy_tier_blocks_options *options);
/** NULL is allowed. */
void policy_tier_blocks_free(struct policy_tier_blocks *roster);

/**
 * The block is in the tier, with these shards.  Of a block that is new this is its first use; one
 * that was cold comes back, which is none.
 *
 * @return KVT_OK, or KVT_FULL or KVT_NOMEM: an unknown block is then not considered
 */
KVT_NODISCARD enum kvt_err policy_tier_blocks_store(struct policy_tier_blocks *roster,
                                                    const struct policy_block *block,
                                                    uint64_t tick);

/** The block was used, wherever it was read from.  Several uses in a tick are one.  As
 *  policy_tier_blocks_store(); one that the tier does not have becomes known as cold. */
KVT_NODISCARD enum kvt_err policy_tier_blocks_use(struct policy_tier_blocks *roster,
                                                  const struct policy_block *block, uint64_t tick);

/** What a former life knew: the block is in the tier (or was, without shards), was used `uses`
 *  times and last at `tick`.  A known block is left as it is; otherwise only before anything else
 *  is told. */
KVT_NODISCARD enum kvt_err policy_tier_blocks_restore(struct policy_tier_blocks *roster,
                                                      const struct policy_block *block,
                                                      uint32_t uses, uint64_t tick);

#define POLICY_TIER_BLOCKS_PIECE (1u << 16)

/* True: nobody wants it any more.  Asked at least with every POLICY_TIER_BLOCKS_PIECE blocks that
 * were put into a piece of the order, or further. */
typedef bool policy_tier_blocks_over_fn(const void *arg);
/**
 * All that a former life knew was told: put it into its order, which takes a minute where there are
 * tens of millions.  Without this call policy_tier_blocks_settle() does it.
 *
 * @param is_over  NULL: nobody asks
 * @return KVT_OK; KVT_NOMEM: all are there, by number, as if they had been used just now; or
 *         KVT_CANCELLED: the roster is to be freed, and nothing else
 */
KVT_NODISCARD enum kvt_err policy_tier_blocks_restored(struct policy_tier_blocks *roster,
                                                       policy_tier_blocks_over_fn *is_over,
                                                       const void *arg);

/** It left the tier.  An unknown block is none. */
void policy_tier_blocks_leave(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash);

/** Pass on what was told. */
void policy_tier_blocks_settle(struct policy_tier_blocks *roster);

/** Take out the block that should leave first; false = none.  It stays in the tier, and is not
 *  given again, until give_back() or leave(). */
bool policy_tier_blocks_victim(struct policy_tier_blocks *roster, uint64_t tick,
                               struct policy_block *block);
/** The same for one that should leave although there is room. */
bool policy_tier_blocks_due(struct policy_tier_blocks *roster, uint64_t tick,
                            struct policy_block *block);
void policy_tier_blocks_give_back(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash);
/** It was taken out and is not to leave: set aside, until policy_tier_blocks_resume() or as above,
 * or
 *  until it is used.  The order in which blocks leave is then what it would have been. */
void policy_tier_blocks_pass(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash);
/** Give back up to `max` that were set aside, the last first: ask until it is fewer
 *  before the next victim.  Returns how many. */
uint32_t policy_tier_blocks_resume(struct policy_tier_blocks *roster, uint32_t max);
/** Take out this block, whenever it would leave; false = it is not in the tier, or was taken out
 *  and not set aside.  Then as after policy_tier_blocks_victim(). */
bool policy_tier_blocks_claim(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash);
/** All that are taken out. */
void policy_tier_blocks_give_back_all(struct policy_tier_blocks *roster);
/** Is it in the tier? */
bool policy_tier_blocks_has(const struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash);
/** Is it in the tier, and taken out? */
bool policy_tier_blocks_is_taken(const struct policy_tier_blocks *roster, uint32_t ns,
                                 uint64_t hash);

/** The same, and not only set aside? */
bool policy_tier_blocks_is_leaving(const struct policy_tier_blocks *roster, uint32_t ns,
                                   uint64_t hash);

/** Of a block in the tier that is not taken out, or only set aside; `tick` of its last use. */
typedef void policy_tier_blocks_scan_fn(void *arg, const struct policy_block *block, uint64_t tick);
/** Go on from seat `*at` (0: the first), `max` seats.  False: that was all.  The callback does not
 *  call the roster; blocks that come meanwhile may be left out. */
bool policy_tier_blocks_scan(const struct policy_tier_blocks *roster, uint32_t *at, uint32_t max,
                             policy_tier_blocks_scan_fn *callback, void *arg);

struct policy_standing {
    struct policy_block block;
    bool in_tier;
    bool taken;
    uint32_t uses;
    uint64_t tick; /* of the last use */
    double value;  /* the ordering's: the lowest leaves first */
    double chance; /* of a use within `window` ticks; negative: the ordering does not say */
};

/** How a block stands; KVT_NOTFOUND for an unknown one.  Settles first. */
KVT_NODISCARD enum kvt_err policy_tier_blocks_standing(struct policy_tier_blocks *roster,
                                                       uint32_t ns, uint64_t hash, uint64_t tick,
                                                       uint64_t window,
                                                       struct policy_standing *standing);

/** About how many blocks of the tier leave before one of that value: exactly by their values where
 *  there are at most POLICY_TIER_BLOCKS_SAMPLE seats, else by as many evenly chosen ones.  An
 *  ordering may keep to chains before it looks at values.  Settles first. */
#define POLICY_TIER_BLOCKS_SAMPLE 16384
uint32_t policy_tier_blocks_before(struct policy_tier_blocks *roster, double value, uint64_t tick);

/** Would it pay to move the block into the tier, though another has to leave for it
 *  (policy/decide/promotion.h)?  Always, under an ordering that knows no chances; never of an
 *  unknown block. */
bool policy_tier_blocks_pays(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash,
                             uint64_t tick);

void policy_tier_blocks_counts(const struct policy_tier_blocks *roster,
                               struct policy_tier_blocks_counts *counts);

/** What the ordering learned, as kvt_ordering.save and .load. */
size_t policy_tier_blocks_save(const struct policy_tier_blocks *roster, void *bytes, size_t room);
KVT_NODISCARD enum kvt_err policy_tier_blocks_load(struct policy_tier_blocks *roster,
                                                   const void *bytes, size_t size);

#endif /* POLICY_DECIDE_TIER_BLOCKS_H */
