/*
 * advisor/selection/wanted_orderings.h -- the orderings that a policy asks for in a tier.
 *
 * Why: new tiers, tiers that change their orders, dry runs and what people see ask the same.
 * Threads:   pure functions of a policy.
 * Limits:    ADVISOR_RANKINGS_MAX orderings of a tier: rules that name more go by the first.
 */
#ifndef ADVISOR_SELECTION_WANTED_ORDERINGS_H
#define ADVISOR_SELECTION_WANTED_ORDERINGS_H

#include "advisor/rule/rulebook.h"
#include "advisor/selection/ranking.h"

/* `own` is the ordering of the settings, for where a policy names none or one that is not known
 * here. */

/** The ordering that a policy asks for where its rules name none. */
const struct kvt_ordering *advisor_wanted_ordering(const struct kvt_ordering *own,
                                                   const struct policy_defaults *defaults);

/** What the rules that drain a tier of the policy ask for; `rules` may be NULL. */
void advisor_wanted_orderings(const struct kvt_ordering *own, const struct advisor_rules *rules,
                              int32_t place, struct advisor_orders *orders);

/** Number of the order, of those that a tier has, by which a rule takes its blocks. */
uint32_t advisor_wanted_order_of(const struct kvt_ordering *own,
                                 const struct advisor_orders *orders,
                                 const struct policy_rule *rule);

#endif /* ADVISOR_SELECTION_WANTED_ORDERINGS_H */
