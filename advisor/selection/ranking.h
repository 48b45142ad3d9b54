/*
 * advisor/selection/ranking.h -- the blocks of one tier, in each order that its rules ask for.
 *
 * Why: a rule may say by which ordering its blocks leave, so a tier has a roster for each ordering
 * that the rules which drain it name.  All hear the same.  What one of them gives out is out in the
 * others too, unless it is only set aside there: then a rule of another order may still take it.
 * Another order than those that are there is made on the side (advisor/selection/rerank.h), which
 * hears what happens meanwhile from here.
 *
 * Ownership: the ranking owns its rosters; orderings are constants.  Whoever only reads may use the
 *            first roster; all that changes one goes through here.
 * Threads:   none; the writer's thread.
 * Limits:    ADVISOR_RANKINGS_MAX orderings.
 */
#ifndef ADVISOR_SELECTION_RANKING_H
#define ADVISOR_SELECTION_RANKING_H

#include "advisor/store/durable_store.h"
#include "index/index.h"
#include "kvtier/block.h"

#include "policy/decide/tier_blocks.h"

#define ADVISOR_RANKINGS_MAX 4
#define ADVISOR_TICK_MS      100 /* of the orderings */

/* What a listener of a ranking hears. */
enum advisor_ranking_event_kind {
    ADVISOR_RANKING_STORED,
    ADVISOR_RANKING_USED,
    ADVISOR_RANKING_LEFT,
    ADVISOR_RANKING_OUT, /* it was taken out in the order that decides */
    ADVISOR_RANKING_BACK,
    ADVISOR_RANKING_ALL_BACK,
    ADVISOR_RANKING_SETTLED,
};

/* Something that rosters are told. */
struct advisor_ranking_event {
    struct policy_block block; /* of some kinds the name alone */
    uint64_t tick;
    uint32_t kind;
};

typedef void advisor_ranking_event_fn(void *arg, const struct advisor_ranking_event *heard);

/* Orderings without a repetition; the first is the tier's own, that of rules which name none of the
 * others. */
struct advisor_orders {
    const struct kvt_ordering *list[ADVISOR_RANKINGS_MAX];
    uint32_t count;
};

struct advisor_ranking {
    struct advisor_orders orders;
    struct policy_tier_blocks *rosters[ADVISOR_RANKINGS_MAX]; /* of each */
    advisor_ranking_event_fn *hear; /* hears everything, to make another order; NULL: none does */
    void *hear_arg;
};

/** `options` without its ordering.  KVT_OK, or KVT_NOMEM with nothing made. */
KVT_NODISCARD enum kvt_err advisor_ranking_init(struct advisor_ranking *ranking,
                                                const struct advisor_orders *orders,
                                                const struct policy_tier_blocks_options *options);
void advisor_ranking_release(struct advisor_ranking *ranking);

/** The block before it.  A gateway knows a part of that hash only, and the orderings want chains:
 *  the index may have heard of it from workers.  On any thread; `index` may be NULL. */
uint64_t advisor_ranking_parent(struct index *index, uint32_t index_ns,
                                const struct kvt_block_id *block);

/** Number of the ordering; `orders->count`: it is none of them. */
uint32_t advisor_orders_find(const struct advisor_orders *orders, const char *name);
bool advisor_orders_alike(const struct advisor_orders *a, const struct advisor_orders *b);
/** If it is not there and there is room; false: there is no room. */
bool advisor_orders_add(struct advisor_orders *orders, const struct kvt_ordering *ordering);

/* ---- what happened: as the calls of policy/decide/tier_blocks.h ---- */

KVT_NODISCARD enum kvt_err advisor_ranking_store(struct advisor_ranking *ranking,
                                                 const struct policy_block *block, uint64_t tick);
KVT_NODISCARD enum kvt_err advisor_ranking_use(struct advisor_ranking *ranking,
                                               const struct policy_block *block, uint64_t tick);
/** What the row of a block says of one of its places, as policy_tier_blocks_restore(). */
KVT_NODISCARD enum kvt_err advisor_ranking_restore(struct advisor_ranking *ranking,
                                                   const struct advisor_store_block *row,
                                                   uint64_t parent, uint32_t ranks);
/** The same for one roster. */
KVT_NODISCARD enum kvt_err advisor_ranking_restore_row(struct policy_tier_blocks *roster,
                                                       const struct advisor_store_block *row,
                                                       uint64_t parent, uint32_t ranks);
/** All rows were told, as policy_tier_blocks_restored(). */
KVT_NODISCARD enum kvt_err advisor_ranking_restored(struct advisor_ranking *ranking,
                                                    policy_tier_blocks_over_fn *is_over,
                                                    const void *arg);
void advisor_ranking_leave(struct advisor_ranking *ranking, uint32_t ns, uint64_t hash);
void advisor_ranking_settle(struct advisor_ranking *ranking);

/* ---- who leaves ---- */

/** The next by the ordering of that number, or one that is due: it is out there alone, until
 *  keep() or pass(). */
bool advisor_ranking_victim(struct advisor_ranking *ranking, uint32_t order, uint64_t tick,
                            struct policy_block *block);
bool advisor_ranking_due(struct advisor_ranking *ranking, uint32_t order, uint64_t tick,
                         struct policy_block *block);
/** What was given out stays out, in all orders. */
void advisor_ranking_keep(struct advisor_ranking *ranking, uint32_t order,
                          const struct policy_block *block);
/** It is set aside in that order. */
void advisor_ranking_pass(struct advisor_ranking *ranking, uint32_t order, uint32_t ns,
                          uint64_t hash);
/** What was kept is set aside in all orders. */
void advisor_ranking_pass_all(struct advisor_ranking *ranking, uint32_t ns, uint64_t hash);
void advisor_ranking_give_back(struct advisor_ranking *ranking, uint32_t ns, uint64_t hash);
void advisor_ranking_give_back_all(struct advisor_ranking *ranking);
/** Up to `max` of each order.  True: there may be more. */
bool advisor_ranking_resume(struct advisor_ranking *ranking, uint32_t max);
bool advisor_ranking_claim(struct advisor_ranking *ranking, uint32_t ns, uint64_t hash);

/** Bytes of memory, of all orders. */
uint64_t advisor_ranking_bytes(const struct advisor_ranking *ranking);

#endif /* ADVISOR_SELECTION_RANKING_H */
