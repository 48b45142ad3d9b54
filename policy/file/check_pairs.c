#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/file/section_reader.h"

enum { SPELLING_MAX = 1 << 16, PPM = 1000000 };

static struct kvt_yaml_mark
mark_of(const struct policy_rule *rule, const char *key)
{
    return policy_mark(POLICY_SECTION_RULE, rule, key);
}

/* ---- two rules ---- */

static bool
is_unconditional(const struct policy_rule *rule)
{
    if (!policy_is_given(POLICY_SECTION_RULE, rule, "when"))
        return true;
    return rule->when != NULL && policy_expression_is_always(rule->when);
}

static bool
is_same_condition(const struct policy_rule *left, const struct policy_rule *right)
{
    struct kvt_buffer texts[2];
    bool same;

    if (left->when == NULL || right->when == NULL)
        return false;
    kvt_buffer_init(&texts[0], SPELLING_MAX);
    kvt_buffer_init(&texts[1], SPELLING_MAX);
    policy_expression_print(left->when, &texts[0]);
    policy_expression_print(right->when, &texts[1]);
    same = kvt_buffer_ok(&texts[0]) && kvt_buffer_ok(&texts[1]) &&
           strcmp(kvt_buffer_text(&texts[0]), kvt_buffer_text(&texts[1])) == 0;
    kvt_buffer_release(&texts[0]);
    kvt_buffer_release(&texts[1]);
    return same;
}

/* Does `rule` take nothing but blocks of tiers that `earlier` looks at? */
static bool
covers_tiers(const struct policy_rule *earlier, const struct policy_rule *rule)
{
    if (earlier->verb == POLICY_PIN) {
        if (earlier->pin.tiers.count == 0)
            return true;
        for (uint32_t i = 0; i < earlier->pin.tiers.count; i++)
            if (rule->verb != POLICY_PIN && policy_rule_tier(rule) >= 0 &&
                earlier->pin.tiers.list[i].index == policy_rule_tier(rule))
                return true;
        return false;
    }
    if (policy_rule_tier(earlier) < 0)
        return earlier->verb == POLICY_EXCLUDE && earlier->in.text[0] == '\0';
    return rule->verb != POLICY_PIN && policy_rule_tier(rule) == policy_rule_tier(earlier);
}

/* A rule that demotes or expires passes over what is protected or pinned, and so leaves blocks to
 * those behind it that do neither. */
static bool
covers_verbs(const struct policy_rule *earlier, const struct policy_rule *rule)
{
    if (earlier->verb != POLICY_DEMOTE && earlier->verb != POLICY_EXPIRE)
        return true;
    return (rule->verb == POLICY_DEMOTE || rule->verb == POLICY_EXPIRE) &&
           earlier->protect_recent <= rule->protect_recent;
}

static void
check_reachable(const struct policy *policy, size_t at, struct policy_problems *problems)
{
    const struct policy_rule *rule = policy_rule_at(policy, at);

    for (size_t i = 0; i < at; i++) {
        const struct policy_rule *earlier = policy_rule_at(policy, i);

        if (!policy_is_set(POLICY_SECTION_RULE, earlier, "do") || !covers_tiers(earlier, rule) ||
            !covers_verbs(earlier, rule) ||
            (earlier->on != 0 && (rule->on == 0 || (rule->on & ~earlier->on) != 0)))
            continue;
        if (is_unconditional(earlier)) {
            policy_problems_add(problems, mark_of(rule, "id"),
                                "rule %s is never reached: %s takes every block before it",
                                rule->id, earlier->id);
            return;
        }
        if (is_same_condition(earlier, rule)) {
            policy_problems_add(problems, mark_of(rule, "when"),
                                "rule %s is never reached: %s asks the same before it", rule->id,
                                earlier->id);
            return;
        }
    }
}

static void
check_ids(const struct policy *policy, size_t at, struct policy_problems *problems)
{
    const struct policy_rule *rule = policy_rule_at(policy, at);

    if (rule->id[0] == '\0')
        return;
    if (strcmp(rule->id, "none") == 0)
        policy_problems_add(problems, mark_of(rule, "id"),
                            "no rule can be called none: tests use that word");
    for (size_t i = 0; i < at; i++) {
        const struct policy_rule *earlier = policy_rule_at(policy, i);

        if (strcmp(earlier->id, rule->id) == 0) {
            policy_problems_add(problems, mark_of(rule, "id"),
                                "rule %s is given twice; the first is on line %zu", rule->id,
                                mark_of(earlier, "id").line);
            return;
        }
    }
}

static bool
has_trigger(const struct policy_rule *rule)
{
    return policy_is_written(POLICY_SECTION_TRIGGER, &rule->trigger, "start") &&
           policy_is_written(POLICY_SECTION_TRIGGER, &rule->trigger, "stop") &&
           rule->trigger.start > rule->trigger.stop;
}

/* Two rules that drain one tier: the one that starts later never does when the other has drained it
 * below by then. */
static void
check_watermarks(const struct policy *policy, size_t at, struct policy_problems *problems)
{
    const struct policy_rule *rule = policy_rule_at(policy, at);

    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct policy_rule *other = policy_rule_at(policy, i);
        char start[POLICY_VALUE_TEXT_MAX];
        char stop[POLICY_VALUE_TEXT_MAX];

        if (i == at || !has_trigger(rule) || !has_trigger(other) || !is_unconditional(other) ||
            policy_rule_tier(rule) < 0 || policy_rule_tier(rule) != policy_rule_tier(other) ||
            other->trigger.start > rule->trigger.stop)
            continue;
        policy_value_format(POLICY_TYPE_RATIO, rule->trigger.start, start);
        policy_value_format(POLICY_TYPE_RATIO, other->trigger.start, stop);
        policy_problems_add(problems, policy_mark(POLICY_SECTION_RULE, rule, "trigger"),
                            "rule %s waits for %s, but %s drains %s from %s on", rule->id, start,
                            other->id, policy_tier_at(policy, (size_t)policy_rule_tier(rule))->name,
                            stop);
        return;
    }
}

/* ---- circles of demotions ---- */

/* Can a block that `at` demotes come back to where it was by demotions alone? */
static void
check_circle(const struct policy *policy, size_t at, struct policy_problems *problems)
{
    const struct policy_rule *rule = policy_rule_at(policy, at);
    bool reached[POLICY_TIERS_MAX] = {false};
    bool more = true;

    if (rule->verb != POLICY_DEMOTE || rule->from.index < 0 || rule->to.index < 0 ||
        rule->from.index == rule->to.index)
        return;
    reached[rule->to.index] = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < policy->rules.count; i++) {
            const struct policy_rule *step = policy_rule_at(policy, i);

            if (step->verb != POLICY_DEMOTE || step->from.index < 0 || step->to.index < 0 ||
                !reached[step->from.index] || reached[step->to.index])
                continue;
            reached[step->to.index] = more = true;
        }
    }
    if (reached[rule->from.index])
        policy_problems_add(problems, mark_of(rule, "to"),
                            "rule %s: what goes from %s to %s is demoted back to %s; one of the "
                            "ways is a promote",
                            rule->id, rule->from.text, rule->to.text, rule->from.text);
}

/* ---- what pins may take ---- */

static uint64_t
budget_in(const struct policy_rule *rule, const struct policy_tier *tier, size_t tier_at)
{
    const struct policy_share *budget = &rule->pin.budget;
    bool here = rule->pin.tiers.count == 0;

    for (uint32_t i = 0; i < rule->pin.tiers.count; i++)
        here = here || rule->pin.tiers.list[i].index == (int32_t)tier_at;
    if (!policy_is_set(POLICY_SECTION_RULE, rule, "do") || rule->verb != POLICY_PIN || !here ||
        (tier->capacity == 0 && !budget->is_ratio))
        return 0;
    if (budget->is_ratio)
        return budget->value;
    return budget->value >= tier->capacity
               ? (budget->value > tier->capacity ? 2 * PPM : PPM)
               : (uint64_t)((unsigned __int128)budget->value * PPM / tier->capacity);
}

static void
check_pins(const struct policy *policy, size_t tier_at, struct policy_problems *problems)
{
    const struct policy_tier *tier = policy_tier_at(policy, tier_at);
    const struct policy_rule *last = NULL;
    char pinned[POLICY_VALUE_TEXT_MAX];
    char stop[POLICY_VALUE_TEXT_MAX];
    uint64_t sum = 0;

    for (size_t i = 0; i < policy->rules.count; i++) {
        const uint64_t budget = budget_in(policy_rule_at(policy, i), tier, tier_at);

        sum += budget;
        last = budget > 0 ? policy_rule_at(policy, i) : last;
    }
    if (last == NULL)
        return;
    policy_value_format(POLICY_TYPE_RATIO, sum, pinned);
    if (sum > PPM) {
        policy_problems_add(problems,
                            last->pin.head.place.line == 0
                                ? mark_of(last, "do")
                                : policy_mark(POLICY_SECTION_PIN, &last->pin, "budget"),
                            "pins may take more than all of tier %s", tier->name);
        return;
    }
    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);

        if (!has_trigger(rule) || policy_rule_tier(rule) != (int32_t)tier_at ||
            rule->trigger.stop >= sum)
            continue;
        policy_value_format(POLICY_TYPE_RATIO, rule->trigger.stop, stop);
        policy_problems_add(problems, policy_mark(POLICY_SECTION_TRIGGER, &rule->trigger, "stop"),
                            "rule %s drains %s down to %s, but pins may keep %s of it", rule->id,
                            tier->name, stop, pinned);
    }
}

void
policy_check_pairs(const struct policy *policy, struct policy_problems *problems)
{
    for (size_t i = 0; i < policy->rules.count; i++) {
        check_ids(policy, i, problems);
        if (!policy_is_set(POLICY_SECTION_RULE, policy_rule_at(policy, i), "do"))
            continue;
        check_reachable(policy, i, problems);
        check_watermarks(policy, i, problems);
        check_circle(policy, i, problems);
    }
    for (size_t i = 0; i < policy->tiers.count; i++)
        check_pins(policy, i, problems);
}
