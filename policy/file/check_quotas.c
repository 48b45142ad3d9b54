#include <string.h>

#include "policy/file/section_reader.h"

/* ---- quotas ---- */

static struct kvt_yaml_mark
quota_mark(const struct policy_quota *quota, const char *key)
{
    return policy_mark(POLICY_SECTION_QUOTA, quota, key);
}

/* What a quota is a part of; 0 where there is no cap. */
static uint64_t
room_of(const struct policy *policy, const struct policy_quota *quota)
{
    uint64_t sum = 0;

    if (quota->tier.text[0] != '\0')
        return quota->tier.index < 0 ? 0
                                     : policy_tier_at(policy, (size_t)quota->tier.index)->capacity;
    for (size_t i = 0; i < policy->tiers.count; i++) {
        const uint64_t capacity = policy_tier_at(policy, i)->capacity;

        if (capacity == 0 || __builtin_add_overflow(sum, capacity, &sum))
            return 0;
    }
    return sum;
}

static void
check_quota(const struct policy *policy, size_t at, struct policy_problems *problems)
{
    const struct policy_quota *quota = policy_quota_at(policy, at);
    const uint64_t room = room_of(policy, quota);
    char most[POLICY_VALUE_TEXT_MAX];
    char hard[POLICY_VALUE_TEXT_MAX];

    policy_value_format(POLICY_TYPE_SIZE, quota->hard, hard);
    policy_value_format(POLICY_TYPE_SIZE, room, most);
    if (policy_is_written(POLICY_SECTION_QUOTA, quota, "soft") && quota->soft > quota->hard &&
        quota->hard > 0)
        policy_problems_add(problems, quota_mark(quota, "soft"),
                            "quota of %s: soft is above hard, %s", quota->tenant, hard);
    if (room > 0 && quota->hard > room)
        policy_problems_add(problems, quota_mark(quota, "hard"),
                            "quota of %s: hard is above the capacity of %s, %s", quota->tenant,
                            quota->tier.text[0] == '\0' ? "all tiers" : quota->tier.text, most);
    for (size_t i = 0; i < at; i++) {
        const struct policy_quota *earlier = policy_quota_at(policy, i);

        if (strcmp(earlier->tenant, quota->tenant) == 0 && quota->tenant[0] != '\0' &&
            strcmp(earlier->tier.text, quota->tier.text) == 0) {
            policy_problems_add(problems, quota_mark(quota, "tenant"),
                                "quota of %s is given twice; the first is on line %zu",
                                quota->tenant, quota_mark(earlier, "tenant").line);
            return;
        }
    }
}

void
policy_check_quotas(const struct policy *policy, struct policy_problems *problems)
{
    for (size_t i = 0; i < policy->quotas.count; i++)
        check_quota(policy, i, problems);
}

/* ---- tests ---- */

static struct kvt_yaml_mark
expect_mark(const struct policy_expect *expect, const char *key)
{
    return policy_mark(POLICY_SECTION_EXPECT, expect, key);
}

/* A test that no facts can pass is a mistake of the test. */
static void
check_test(const struct policy *policy, const struct policy_test *test,
           struct policy_problems *problems)
{
    const struct policy_expect *expect = &test->expect;
    const struct policy_rule *rule;

    if (strcmp(expect->rule.text, "none") == 0 && expect->to.text[0] != '\0')
        policy_problems_add(problems, expect_mark(expect, "to"),
                            "where no rule has the block it goes nowhere");
    if (expect->rule.index < 0)
        return;
    rule = policy_rule_at(policy, (size_t)expect->rule.index);
    if (expect->to.index >= 0 && rule->to.index >= 0 && expect->to.index != rule->to.index)
        policy_problems_add(problems, expect_mark(expect, "to"),
                            "rule %s never goes to %s: it goes to %s", rule->id, expect->to.text,
                            rule->to.text);
    if (expect->to.index >= 0 && rule->to.text[0] == '\0')
        policy_problems_add(problems, expect_mark(expect, "to"), "rule %s moves nothing", rule->id);
    if (policy_is_written(POLICY_SECTION_EXPECT, expect, "do") &&
        policy_is_set(POLICY_SECTION_RULE, rule, "do") && expect->verb != rule->verb)
        policy_problems_add(problems, expect_mark(expect, "do"), "rule %s does %s, not %s",
                            rule->id, policy_verb_text((enum policy_verb)rule->verb),
                            policy_verb_text((enum policy_verb)expect->verb));
}

void
policy_check_tests(const struct policy *policy, struct policy_problems *problems)
{
    for (size_t i = 0; i < policy->tests.count; i++)
        check_test(policy, policy_test_at(policy, i), problems);
}
