/*
 * advisor/plan/prefix_moves.h -- a block and everything behind it, as moves of the gateways that
 * have it.
 *
 * Why: a person names a prefix; orders name blocks, at a gateway.  No client has to fetch a million
 * hashes to send them back.
 * Ownership: the caller owns a selection (init by advisor_prefix_moves_make(), release).
 * Threads:   any; the RAM index, read transactions and the planner's views.
 * Limits:    ADVISOR_PREFIX_MOVES_BLOCKS_MAX blocks, ADVISOR_PREFIX_MOVES_PARTS_MAX parts.
 */
#ifndef ADVISOR_PLAN_PREFIX_MOVES_H
#define ADVISOR_PLAN_PREFIX_MOVES_H

#include <stddef.h>
#include <stdint.h>

#include "advisor/answer/finder.h"
#include "advisor/job/jobs.h"
#include "advisor/order/planner.h"
#include "kvtier/error.h"
#include "kvtier/order.h"

#define ADVISOR_PREFIX_MOVES_BLOCKS_MAX 500000
/* What is warmed comes from one of the tiers below. */
#define ADVISOR_PREFIX_MOVES_PARTS_MAX  (ADVISOR_GATEWAYS_MAX * (ADVISOR_TIER_KIND_COUNT - 1))

struct advisor_prefix_moves_part {
    char gateway[KVT_NAME_MAX];
    enum advisor_tier_kind from;    /* of WARM; else ADVISOR_TIER_KIND_GONE */
    char from_holder[KVT_NAME_MAX]; /* as orders want it: "" for the bucket to the hot volume, */
    char to_holder[KVT_NAME_MAX];   /* and of what moves nothing */
    struct kvt_order_item *items;
    size_t count;
    size_t capacity;
    uint64_t bytes;
};

struct advisor_prefix_moves {
    struct advisor_prefix_moves_part *parts; /* ADVISOR_PREFIX_MOVES_PARTS_MAX */
    size_t part_count;
    uint64_t blocks;    /* of the prefix, wherever they are */
    uint64_t chosen;    /* that are in the parts, each once */
    uint64_t bytes;     /* of these */
    uint64_t elsewhere; /* in no volume or bucket that a gateway reports */
};

struct advisor_prefix_moves_options {
    const struct advisor_finder *finder;
    struct advisor_planner *planner;
    const char *namespace_;
    uint64_t hash;
    enum kvt_order_verb verb;  /* PIN, UNPIN, WARM or DELETE */
    enum advisor_tier_kind to; /* of WARM: HOT, WARM or COLD */
};

/**
 * Choose.  A pin is of the uppermost copy; warmed is what is nowhere in the tier or above it, each
 * shard from its next copy below, at gateways that have both; unpin and delete are of every gateway
 * that has a copy.  Parents come before their children, but are deleted behind them, so that chains
 * lose their ends.
 *
 * @return KVT_OK; KVT_NOTFOUND: nobody holds the block, or no gateway has the tier; KVT_RANGE:
 *         there are more blocks than the limit; KVT_AGAIN: the index is being read into memory;
 *         KVT_NOMEM.  Release it in any case
 */
KVT_NODISCARD enum kvt_err
advisor_prefix_moves_make(struct advisor_prefix_moves *selection,
                          const struct advisor_prefix_moves_options *options,
                          struct kvt_error *err);

void advisor_prefix_moves_release(struct advisor_prefix_moves *selection);

#endif /* ADVISOR_PLAN_PREFIX_MOVES_H */
