#include "policy/file/policy_file.h"

int32_t
policy_tier_below(const struct policy *policy, size_t tier)
{
    const struct policy_tier *row = policy_tier_at(policy, tier);

    if (row->next.text[0] != '\0')
        return row->next.index;
    return tier + 1 < policy->tiers.count ? (int32_t)(tier + 1) : -1;
}

int32_t
policy_rule_tier(const struct policy_rule *rule)
{
    return rule->verb == POLICY_DEMOTE || rule->verb == POLICY_PROMOTE ? rule->from.index
                                                                       : rule->in.index;
}

const char *
policy_verb_text(enum policy_verb verb)
{
    static const char *const texts[] = {
        [POLICY_PIN] = "pin",       [POLICY_DEMOTE] = "demote",   [POLICY_PROMOTE] = "promote",
        [POLICY_EXPIRE] = "expire", [POLICY_COMPACT] = "compact", [POLICY_EXCLUDE] = "exclude",
    };

    return texts[verb];
}
