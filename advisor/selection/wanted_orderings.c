#include "advisor/selection/wanted_orderings.h"

#include "advisor/selection/ranking.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/watermark.h"

#include "policy/file/policy_keys.h"
#include "policy/ordering/ordering_table.h"

/* Somebody wrote it: there, or where it is inherited from. */
static const struct kvt_ordering *
named(const struct kvt_ordering *own, enum policy_section section, const void *target,
      const struct policy_name *name)
{
    const struct kvt_ordering *ordering = NULL;
    size_t at;

    if (policy_key_find(section, "order_by", &at) != NULL &&
        ((const struct policy_head *)target)->keys[at].origin != POLICY_BUILT_IN)
        ordering = policy_ordering_find(name->text);
    return ordering == NULL ? own : ordering;
}

const struct kvt_ordering *
advisor_wanted_ordering(const struct kvt_ordering *own, const struct policy_defaults *defaults)
{
    return named(own, POLICY_SECTION_DEFAULTS, defaults, &defaults->order_by);
}

static const struct kvt_ordering *
ordering_of(const struct kvt_ordering *own, const struct policy_rule *rule)
{
    return named(own, POLICY_SECTION_RULE, rule, &rule->order_by);
}

void
advisor_wanted_orderings(const struct kvt_ordering *own, const struct advisor_rules *rules,
                         int32_t place, struct advisor_orders *orders)
{
    const struct policy *policy = rules == NULL ? NULL : rules->policy;
    const int32_t last = policy == NULL ? -1 : advisor_watermark_last(policy, place);
    const struct kvt_ordering *first = policy == NULL ? own
                                       : last < 0
                                           ? advisor_wanted_ordering(own, &policy->defaults)
                                           : ordering_of(own, policy_rule_at(policy, (size_t)last));

    *orders = (struct advisor_orders){.count = 0};
    (void)advisor_orders_add(orders, first);
    for (size_t i = 0; policy != NULL && place >= 0 && i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);

        if (advisor_rule_drains(rule) && policy_rule_tier(rule) == place)
            (void)advisor_orders_add(orders, ordering_of(own, rule));
    }
}

uint32_t
advisor_wanted_order_of(const struct kvt_ordering *own, const struct advisor_orders *orders,
                        const struct policy_rule *rule)
{
    const uint32_t at = advisor_orders_find(orders, ordering_of(own, rule)->name);

    return at < orders->count ? at : 0;
}
