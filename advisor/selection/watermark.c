#include "advisor/selection/watermark.h"

#include "advisor/selection/rule_set.h"

uint64_t
advisor_watermark_bytes(uint64_t capacity, uint64_t ppm)
{
    return (uint64_t)((unsigned __int128)capacity * ppm / 1000000);
}

uint64_t
advisor_watermark_capacity(const struct policy *policy, int32_t place, uint64_t reported)
{
    const uint64_t own = place < 0 ? 0 : policy_tier_at(policy, (size_t)place)->capacity;

    return own != 0 && (reported == 0 || own < reported) ? own : reported;
}

void
advisor_watermark_rules(const struct policy *policy, int32_t place, uint64_t used,
                        uint64_t capacity, struct advisor_rule_set *set)
{
    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);
        const uint64_t stop = advisor_watermark_bytes(capacity, rule->trigger.stop);

        if (place < 0 || !advisor_rule_drains(rule) || policy_rule_tier(rule) != place ||
            used <= stop)
            advisor_rule_set_put(set, (int32_t)i, false);
        else if (used >= advisor_watermark_bytes(capacity, rule->trigger.start))
            advisor_rule_set_put(set, (int32_t)i, true);
    }
}

int32_t
advisor_watermark_last(const struct policy *policy, int32_t place)
{
    int32_t last = -1;

    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);

        if (place >= 0 && advisor_rule_drains(rule) && policy_rule_tier(rule) == place &&
            (last < 0 || rule->trigger.start > policy_rule_at(policy, (size_t)last)->trigger.start))
            last = (int32_t)i;
    }
    return last;
}
