#include "policy/decide/decision.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/file/policy_keys.h"

enum kvt_err
policy_decision_new(struct policy_decision **out, const struct policy *policy)
{
    struct policy_decision *decision = kvt_calloc(1, sizeof(*decision));
    size_t nodes = 0;

    *out = NULL;
    if (decision == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < policy->rules.count; i++)
        if (policy_rule_at(policy, i)->when != NULL)
            nodes += policy_expression_nodes(policy_rule_at(policy, i)->when);
    decision->rule = decision->to = -1;
    decision->verdicts = kvt_calloc(policy->rules.count + 1, sizeof(*decision->verdicts));
    decision->traces = kvt_calloc(nodes + 1, sizeof(*decision->traces));
    if (decision->verdicts == NULL || decision->traces == NULL) {
        policy_decision_free(decision);
        return KVT_NOMEM;
    }
    *out = decision;
    return KVT_OK;
}

void
policy_decision_free(struct policy_decision *decision)
{
    if (decision == NULL)
        return;
    kvt_free(decision->verdicts);
    kvt_free(decision->traces);
    kvt_free(decision);
}

/* Each class once, behind those it uses: however they use one another, the time is bounded. */
bool
policy_is_enforced(const struct policy *policy, uint64_t hash)
{
    /* The upper bits of a product depend on all of the hash. */
    const uint64_t mixed = hash * UINT64_C(0x9e3779b97f4a7c15) >> 40;

    return mixed * 1000000 >> 24 < policy->modes.canary;
}

void
policy_classes_of(const struct policy *policy, const struct policy_facts *facts,
                  bool classes[POLICY_CLASSES_MAX])
{
    for (size_t i = 0; i < policy->classes.count; i++) {
        const uint32_t at = policy->class_order[i];

        classes[at] =
            policy_expression_evaluate(policy_class_at(policy, at)->when, facts, classes, NULL);
    }
}

static int32_t
find_tier(const struct policy *policy, const char *name)
{
    for (size_t i = 0; name != NULL && i < policy->tiers.count; i++)
        if (strcmp(policy_tier_at(policy, i)->name, name) == 0)
            return (int32_t)i;
    return -1;
}

static bool
looks_at(const struct policy_rule *rule, int32_t tier)
{
    if (rule->verb == POLICY_EXCLUDE && rule->in.index < 0)
        return true;
    if (rule->verb != POLICY_PIN)
        return tier >= 0 && policy_rule_tier(rule) == tier;
    for (uint32_t i = 0; i < rule->pin.tiers.count; i++)
        if (rule->pin.tiers.list[i].index == tier && tier >= 0)
            return true;
    return rule->pin.tiers.count == 0;
}

/* All but the condition. */
static uint32_t
refusals_of(const struct policy_rule *rule, const struct policy_facts *facts, int32_t tier,
            enum policy_event event)
{
    const bool drains = rule->verb == POLICY_DEMOTE || rule->verb == POLICY_EXPIRE;
    uint32_t refusals = 0;

    if (!looks_at(rule, tier))
        refusals |= POLICY_REFUSES_TIER;
    if (rule->on != 0 && (rule->on & (uint32_t)event) == 0)
        refusals |= POLICY_REFUSES_EVENT;
    if (drains && facts->pinned)
        refusals |= POLICY_REFUSES_PINNED;
    if (drains && facts->last_access_ms < rule->protect_recent)
        refusals |= POLICY_REFUSES_RECENT;
    if (rule->verb == POLICY_PIN && rule->pin.ttl > 0 && facts->last_access_ms > rule->pin.ttl)
        refusals |= POLICY_REFUSES_TTL;
    return refusals;
}

void
policy_decide(const struct policy *policy, const struct policy_facts *facts,
              enum policy_event event, struct policy_decision *decision)
{
    const int32_t tier = find_tier(policy, facts->tier);
    const struct policy_rule *rule;
    bool *trace = decision->traces;

    decision->rule = decision->to = -1;
    decision->waits = false;
    policy_classes_of(policy, facts, decision->classes);
    for (size_t i = 0; i < policy->rules.count; i++) {
        struct policy_verdict *verdict = &decision->verdicts[i];

        rule = policy_rule_at(policy, i);
        *verdict = (struct policy_verdict){.refusals = refusals_of(rule, facts, tier, event)};
        if (rule->when != NULL) {
            verdict->trace = trace;
            if (!policy_expression_evaluate(rule->when, facts, decision->classes, trace))
                verdict->refusals |= POLICY_REFUSES_WHEN;
            trace += policy_expression_nodes(rule->when);
        }
        if (verdict->refusals == 0 && decision->rule < 0)
            decision->rule = (int32_t)i;
    }
    if (decision->rule < 0)
        return;
    rule = policy_rule_at(policy, (size_t)decision->rule);
    decision->to = rule->to.index;
    decision->waits = rule->trigger.head.place.line != 0 && facts->fill_ppm < rule->trigger.start;
}

int32_t
policy_match(const struct policy *policy, const struct policy_facts *facts, enum policy_event event)
{
    return policy_match_behind(policy, facts, event, -1);
}

int32_t
policy_match_behind(const struct policy *policy, const struct policy_facts *facts,
                    enum policy_event event, int32_t former)
{
    const int32_t tier = find_tier(policy, facts->tier);
    bool classes[POLICY_CLASSES_MAX];
    bool asked = false;

    for (size_t i = former < 0 ? 0 : (size_t)former + 1; i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);

        if (refusals_of(rule, facts, tier, event) != 0)
            continue;
        if (rule->when == NULL)
            return (int32_t)i;
        if (!asked)
            policy_classes_of(policy, facts, classes);
        asked = true;
        if (policy_expression_evaluate(rule->when, facts, classes, NULL))
            return (int32_t)i;
    }
    return -1;
}

/* ---- tests ---- */

struct policy_facts
policy_test_facts(const struct policy_test *test)
{
    const struct policy_given *given = &test->given;

    return (struct policy_facts){
#define FACT(id, name, type, member, help) .member = given->member,
#include "policy/expression/fact.def"
#undef FACT
        .prefixes = given->prefix.list,
        .prefix_count = given->prefix.count,
    };
}

enum policy_event
policy_test_event(const struct policy_test *test)
{
    size_t at;

    (void)policy_key_find(POLICY_SECTION_TEST, "on", &at);
    if (test->head.keys[at].origin != POLICY_WRITTEN)
        return POLICY_ON_NOTHING;
    return (enum policy_event)(UINT32_C(1) << test->on);
}

bool
policy_test_holds(const struct policy *policy, const struct policy_test *test,
                  const struct policy_decision *decision)
{
    const struct policy_expect *expect = &test->expect;
    size_t at;

    if (decision->rule != expect->rule.index)
        return false;
    if (expect->to.index >= 0 && decision->to != expect->to.index)
        return false;
    (void)policy_key_find(POLICY_SECTION_EXPECT, "do", &at);
    return decision->rule < 0 || expect->head.keys[at].origin != POLICY_WRITTEN ||
           policy_rule_at(policy, (size_t)decision->rule)->verb == expect->verb;
}
