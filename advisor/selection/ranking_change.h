/*
 * advisor/selection/ranking_change.h -- by which orderings the blocks of a tier leave, and how they
 * change.
 *
 * Why: the policy in force says so, and it changes while the advisor runs.  A tier of which it asks
 * another order than the ones it has gets that made beside them (advisor/selection/rerank.h), one
 * tier at a time; until it is whole those decide that are there.
 *
 * Ownership: as advisor/order/planner.h.
 * Threads:   the writer's.
 * Limits:    ADVISOR_RANKINGS_MAX orderings of a tier: rules that name more go by the tier's own.
 *            One that failed is begun again after ADVISOR_RERANK_AGAIN_MS.
 */
#ifndef ADVISOR_SELECTION_RANKING_CHANGE_H
#define ADVISOR_SELECTION_RANKING_CHANGE_H

#include "advisor/rule/rulebook.h"
#include "advisor/selection/planner_types.h"
#include "advisor/selection/ranking.h"

#define ADVISOR_RERANK_AGAIN_MS 60000

struct advisor_planner;

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
/** What leaving orderings had learned is written, or not needed. */
void advisor_planner_free_parting(struct advisor_planner *planner);
void advisor_planner_free_reranking(struct advisor_planner *planner);

#endif /* ADVISOR_SELECTION_RANKING_CHANGE_H */
