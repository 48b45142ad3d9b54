/*
 * advisor/selection/edge.h -- from which tier to which, at which gateway.
 *
 * Why: a rule says which tiers of the policy a block goes between; an order names two holders of
 * one gateway.  Whoever plans asks here for the edge of a rule, and how much may come to its end.
 *
 * Ownership: everything is borrowed.
 * Threads:   the writer's.
 * Limits:    KVT_REPORT_TIERS_MAX tiers of a gateway.
 */
#ifndef ADVISOR_SELECTION_EDGE_H
#define ADVISOR_SELECTION_EDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/report.h"

#include "policy/file/policy_file.h"

struct advisor_gateway;
struct advisor_planner;
struct advisor_rules;
struct policy_block;

/* Tiers and gateway by their numbers; ADVISOR_NONE: there is none. */
struct advisor_edge {
    uint32_t gateway;
    uint32_t from;
    uint32_t to; /* ADVISOR_NONE: what leaves `from` that way is deleted */
};

/** What a gateway reports, in that order. */
void advisor_gateway_take_tiers(struct advisor_planner *planner, struct advisor_gateway *gateway,
                                const struct kvt_report *report, uint64_t now_ms);

bool advisor_gateway_has(const struct advisor_gateway *gateway, uint32_t tier);

/** Does the gateway report lately, and is its bucket there? */
bool advisor_gateway_can_move(const struct advisor_gateway *gateway, uint64_t now_ms);

/**
 * The edge of a demoting, promoting or expiring rule for blocks in `from`.  Of a bucket that
 * several gateways have it is `prefer`'s, else that of the one that reported it last, else of the
 * first that has both ends.
 *
 * @param prefer  a gateway, or ADVISOR_NONE
 * @return false: no gateway that may be told now has both ends
 */
bool advisor_edge_of(const struct advisor_planner *planner, const struct advisor_rules *rules,
                     const struct policy_rule *rule, uint32_t from, uint32_t prefer,
                     uint64_t now_ms, struct advisor_edge *edge);

/** Is there any gateway that has both ends, whether it reports or not? */
bool advisor_edge_exists(const struct advisor_planner *planner, const struct advisor_rules *rules,
                         const struct policy_rule *rule, uint32_t from);

/** Is it the edge of orders that name no tiers, between hot volume and bucket? */
bool advisor_edge_is_plain(const struct advisor_planner *planner, const struct advisor_edge *edge);

/**
 * May a block come down to the tier?  Not while the tier is at the highest start watermark of the
 * rules that drain it: then it is drained first.  Of a tier that none drains, up to its capacity.
 *
 * @param used  bytes there, with what is on its way and was chosen
 */
bool advisor_edge_has_room(const struct advisor_planner *planner, const struct advisor_rules *rules,
                           uint32_t to, uint64_t used, uint64_t bytes);

/**
 * May a rule without a watermark move the block along the edge?  Down where it is below already or
 * has room; up where it is not, is not on its way out, and does not bring the tier to be drained.
 * What ends at no tier always may.
 *
 * @param used  bytes of each tier, with what is on its way and was chosen
 */
bool advisor_edge_takes(const struct advisor_planner *planner, const struct advisor_rules *rules,
                        const struct policy_rule *rule, const struct advisor_edge *edge,
                        const struct policy_block *block, const uint64_t *used);

#endif /* ADVISOR_SELECTION_EDGE_H */
