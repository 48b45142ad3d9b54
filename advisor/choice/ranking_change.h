/*
 * advisor/choice/ranking_change.h -- by which orderings the blocks of a tier leave, and how they
 * change.
 *
 * Why: the policy in force says so, and it changes while the advisor runs.  A tier of which it asks
 * another order than the ones it has gets that made beside them (advisor/choice/rerank.h), one
 * tier at a time; until it is whole those decide that are there.
 *
 * Ownership: as advisor/order/planner.h.
 * Threads:   the engine's.
 * Limits:    ADVISOR_RANKINGS_MAX orderings of a tier: rules that name more go by the tier's own.
 *            One that failed is begun again after ADVISOR_RERANK_AGAIN_MS.
 */
#ifndef ADVISOR_CHOICE_RANKING_CHANGE_H
#define ADVISOR_CHOICE_RANKING_CHANGE_H

#include "advisor/choice/ranking.h"
#include "advisor/order/planner.h"
#include "advisor/rule/rulebook.h"

#define ADVISOR_RERANK_AGAIN_MS 60000

/* What an ordering that a tier has no more had learned of it, until that is written. */
struct advisor_parting {
    struct advisor_parting *next;
    const struct kvt_ordering *ordering;
    char tier[KVT_NAME_MAX];
    size_t size;
    uint8_t bytes[];
};

/* An order that a plan asks for, and no tier has. */
enum advisor_plan_order {
    ADVISOR_PLAN_NONE,
    ADVISOR_PLAN_MADE,  /* by a thread */
    ADVISOR_PLAN_TAKEN, /* the plan goes by it */
    ADVISOR_PLAN_ENDS,  /* on its thread */
};

/* One tier gets another order. */
struct advisor_reranking {
    struct advisor_rerank *rerank; /* NULL: none does */
    bool hears;                    /* else it is given up, or through, and ends by itself */
    uint32_t tier;
    struct advisor_orders wanted; /* when it is through */
    struct advisor_orders made;
    uint64_t again_ms; /* not before */
    struct advisor_parting *parting;

    enum advisor_plan_order plan;
    struct advisor_rerank *planning; /* of the plan's order; NULL: NONE */
    uint32_t plan_tier;
    struct advisor_ranking planned; /* TAKEN: what it goes by */
    bool awaited;                   /* a plan waits until `rerank` is through */
};

/** The ordering that a policy asks for where its rules name none, and the one of a rule; where both
 *  say nothing, or what is not known here, the planner's own. */
const struct kvt_ordering *advisor_planner_ordering(const struct advisor_planner *planner,
                                                    const struct policy_defaults *defaults);
const struct kvt_ordering *advisor_planner_rule_ordering(const struct advisor_planner *planner,
                                                         const struct policy_rule *rule);

/** What the rules that drain a tier of the policy ask for. */
void advisor_planner_wanted(const struct advisor_planner *planner,
                            const struct advisor_rules *rules, int32_t place,
                            struct advisor_orders *orders);

/** Number of the order, of those that a tier has, by which a rule takes its blocks. */
uint32_t advisor_planner_order_of(const struct advisor_planner *planner,
                                  const struct advisor_orders *orders,
                                  const struct policy_rule *rule);

/** At each tick: begin, go on, or end. */
void advisor_planner_rerank(struct advisor_planner *planner, uint64_t now_ms);

/**
 * The order by which a policy, in force or not, would take blocks from a tier: the tier's own where
 * it has that, else one that is made of the rows of the store as for a change of policy.  One at a
 * time; it hears nothing any more once it is given, and is the caller's until
 * advisor_planner_end_plan_order().
 *
 * @return KVT_OK; KVT_AGAIN: it is being made, ask again; or why it cannot be: `ranking` is the
 *         tier's own then
 */
KVT_NODISCARD enum kvt_err advisor_planner_plan_order(struct advisor_planner *planner,
                                                      const struct advisor_rules *rules,
                                                      uint32_t tier,
                                                      struct advisor_ranking **ranking);
/** The plan needs it no more; there may be none. */
void advisor_planner_end_plan_order(struct advisor_planner *planner);

/** Of one tier; under the lock of what is shared. */
void advisor_planner_show_reranking(struct advisor_planner *planner, uint32_t tier,
                                    struct advisor_tier_view *view);
/** In all, as numbers. */
void advisor_planner_count_reranking(struct advisor_planner *planner);
void advisor_planner_free_reranking(struct advisor_planner *planner);

#endif /* ADVISOR_CHOICE_RANKING_CHANGE_H */
