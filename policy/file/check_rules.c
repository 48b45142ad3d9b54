#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/file/section_reader.h"

/* ---- tiers ---- */

static struct kvt_yaml_mark
tier_mark(const struct policy_tier *tier, const char *key)
{
    return policy_mark(POLICY_SECTION_TIER, tier, key);
}

/* A name that was there before is told as that. */
static bool
is_repeated(const struct policy *policy, int32_t at)
{
    for (int32_t i = 0; i < at; i++)
        if (strcmp(policy_tier_at(policy, (size_t)i)->name,
                   policy_tier_at(policy, (size_t)at)->name) == 0)
            return true;
    return false;
}

/* The chain of nexts leads down: by level, and never back. */
static void
check_next(const struct policy *policy, size_t at, struct policy_problems *problems)
{
    const struct policy_tier *tier = policy_tier_at(policy, at);
    const int32_t below = policy_tier_below(policy, at);
    const struct policy_tier *next = below < 0 ? NULL : policy_tier_at(policy, (size_t)below);
    int32_t walk = below;

    if (next != NULL && !is_repeated(policy, below) &&
        policy_is_written(POLICY_SECTION_TIER, tier, "level") &&
        policy_is_written(POLICY_SECTION_TIER, next, "level") && next->level < tier->level)
        policy_problems_add(problems, tier_mark(tier, "next"),
                            "%s is behind %s and of a hotter level: tiers stand from the hottest "
                            "to the coldest",
                            next->name, tier->name);
    for (size_t steps = 0; walk >= 0 && steps < policy->tiers.count; steps++) {
        if ((size_t)walk == at) {
            policy_problems_add(problems, tier_mark(tier, "next"),
                                "tier %s is below itself: its nexts make a circle", tier->name);
            return;
        }
        walk = policy_tier_below(policy, (size_t)walk);
    }
}

static void
check_kind(const struct policy_tier *tier, struct policy_problems *problems)
{
    static const char *const levels[] = {"G2", "G3", "G4"};

    if (!policy_is_written(POLICY_SECTION_TIER, tier, "kind") ||
        !policy_is_written(POLICY_SECTION_TIER, tier, "level"))
        return;
    if ((tier->kind == POLICY_BUCKET) != (tier->level == POLICY_G4))
        policy_problems_add(problems, tier_mark(tier, "kind"),
                            "tier %s is %s: a bucket is G4, and only a bucket is", tier->name,
                            levels[tier->level]);
}

void
policy_check_tiers(const struct policy *policy, struct policy_problems *problems)
{
    if (policy->tiers.items != NULL && policy->tiers.count == 0)
        policy_problems_add(problems, policy_mark(POLICY_SECTION_FILE, policy, "tiers"),
                            "tiers: there is none");
    for (size_t i = 0; i < policy->tiers.count; i++) {
        const struct policy_tier *tier = policy_tier_at(policy, i);

        check_next(policy, i, problems);
        check_kind(tier, problems);
        if (tier->storage_class[0] != '\0' && tier->level != POLICY_G4)
            policy_problems_add(problems, tier_mark(tier, "storage_class"),
                                "tier %s is no bucket: only objects have a storage class",
                                tier->name);
    }
}

/* ---- one rule ---- */

static struct kvt_yaml_mark
rule_mark(const struct policy_rule *rule, const char *key)
{
    return policy_mark(POLICY_SECTION_RULE, rule, key);
}

static bool
rule_has(const struct policy_rule *rule, const char *key)
{
    return policy_is_written(POLICY_SECTION_RULE, rule, key);
}

static bool
is_broken(const struct policy_rule *rule, const char *key)
{
    return policy_is_given(POLICY_SECTION_RULE, rule, key) && !rule_has(rule, key);
}

static const char *
rule_name(const struct policy_rule *rule)
{
    return rule->id[0] == '\0' ? "(without id)" : rule->id;
}

/* Keys that mean nothing with what the rule does. */
static void
check_keys(const struct policy_rule *rule, struct policy_problems *problems)
{
    static const struct {
        const char *key;
        uint32_t verbs; /* a bit for each it means something with */
        const char *instead;
    } table[] = {
        {"from", 1u << POLICY_DEMOTE | 1u << POLICY_PROMOTE, "in"},
        {"to", 1u << POLICY_DEMOTE | 1u << POLICY_PROMOTE, NULL},
        {"in", 1u << POLICY_EXPIRE | 1u << POLICY_COMPACT | 1u << POLICY_EXCLUDE, "from and to"},
        {"pin", 1u << POLICY_PIN, NULL},
        {"trigger", 1u << POLICY_DEMOTE | 1u << POLICY_EXPIRE, NULL},
        {"schedule",
         1u << POLICY_DEMOTE | 1u << POLICY_PROMOTE | 1u << POLICY_EXPIRE | 1u << POLICY_COMPACT,
         NULL},
        {"limits",
         1u << POLICY_DEMOTE | 1u << POLICY_PROMOTE | 1u << POLICY_EXPIRE | 1u << POLICY_COMPACT,
         NULL},
        {"order_by", 1u << POLICY_DEMOTE | 1u << POLICY_PROMOTE | 1u << POLICY_EXPIRE, NULL},
        {"protect_recent", 1u << POLICY_DEMOTE | 1u << POLICY_EXPIRE, NULL},
        {"promote_by", 1u << POLICY_PROMOTE, NULL},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (rule_has(rule, table[i].key) && (table[i].verbs >> rule->verb & 1) == 0)
            policy_problems_add(problems, rule_mark(rule, table[i].key),
                                "rule %s: %s means nothing with %s%s%s%s", rule_name(rule),
                                table[i].key, policy_verb_text((enum policy_verb)rule->verb),
                                table[i].instead == NULL ? "" : " (did you mean \"",
                                table[i].instead == NULL ? "" : table[i].instead,
                                table[i].instead == NULL ? "" : "\"?)");
    if (rule->verb == POLICY_PROMOTE && rule->promote_by == POLICY_BY_PRICE &&
        !is_broken(rule, "on") && (rule->on & (uint32_t)POLICY_ON_SECOND_COLD_HIT) == 0)
        policy_problems_add(problems, rule_mark(rule, "promote_by"),
                            "rule %s: promote_by price is asked at reads: it needs on: "
                            "second_cold_hit",
                            rule_name(rule));
}

static void
check_move(const struct policy *policy, const struct policy_rule *rule,
           struct policy_problems *problems)
{
    const bool down = rule->verb == POLICY_DEMOTE;
    const char *verb = policy_verb_text((enum policy_verb)rule->verb);
    const struct policy_tier *from;
    const struct policy_tier *to;

    if (!rule_has(rule, "from") || !rule_has(rule, "to")) {
        policy_problems_add(problems, rule_mark(rule, "id"), "rule %s: %s wants from and to",
                            rule_name(rule), verb);
        return;
    }
    if (rule->from.index < 0 || rule->to.index < 0)
        return;
    if (rule->from.index == rule->to.index) {
        policy_problems_add(problems, rule_mark(rule, "to"), "rule %s goes from %s to %s itself",
                            rule_name(rule), rule->from.text, rule->to.text);
        return;
    }
    from = policy_tier_at(policy, (size_t)rule->from.index);
    to = policy_tier_at(policy, (size_t)rule->to.index);
    if (down ? to->level < from->level : to->level > from->level)
        policy_problems_add(problems, rule_mark(rule, "to"),
                            "rule %s: %s goes %s, and %s is %s %s (did you mean \"%s\"?)",
                            rule_name(rule), verb, down ? "down" : "up", to->name,
                            down ? "above" : "below", from->name, down ? "promote" : "demote");
}

static bool
is_unfiltered(const struct policy_rule *rule)
{
    if (is_broken(rule, "when"))
        return false;
    return !rule_has(rule, "when") ||
           (rule->when != NULL && policy_expression_is_always(rule->when));
}

static void
check_expire(const struct policy_rule *rule, struct policy_problems *problems)
{
    if (!rule_has(rule, "in"))
        policy_problems_add(problems, rule_mark(rule, "id"), "rule %s: expire wants in",
                            rule_name(rule));
    if (is_unfiltered(rule) && !rule_has(rule, "trigger"))
        policy_problems_add(problems, rule_mark(rule, rule_has(rule, "when") ? "when" : "do"),
                            "rule %s would delete everything in %s: it wants a when or a trigger",
                            rule_name(rule), rule->in.text[0] == '\0' ? "it" : rule->in.text);
}

static void
check_compact(const struct policy *policy, const struct policy_rule *rule,
              struct policy_problems *problems)
{
    if (!rule_has(rule, "in"))
        policy_problems_add(problems, rule_mark(rule, "id"), "rule %s: compact wants in",
                            rule_name(rule));
    if (rule->in.index >= 0 && policy_tier_at(policy, (size_t)rule->in.index)->level != POLICY_G4)
        policy_problems_add(problems, rule_mark(rule, "in"),
                            "rule %s: only objects are compacted, and %s is no bucket",
                            rule_name(rule), rule->in.text);
}

static void
check_events(const struct policy_rule *rule, struct policy_problems *problems)
{
    if ((rule->on & POLICY_ON_FRAGMENTATION) != 0 && rule->verb != POLICY_COMPACT)
        policy_problems_add(problems, rule_mark(rule, "on"),
                            "rule %s: fragmentation is of objects, which only compact changes",
                            rule_name(rule));
    if ((rule->on & ~(uint32_t)POLICY_ON_FRAGMENTATION) != 0 && rule->verb == POLICY_COMPACT)
        policy_problems_add(problems, rule_mark(rule, "on"),
                            "rule %s: of all events, compact only knows fragmentation",
                            rule_name(rule));
    if (rule->on != 0 && rule_has(rule, "schedule"))
        policy_problems_add(problems, rule_mark(rule, "schedule"),
                            "rule %s: on and schedule exclude one another", rule_name(rule));
}

static void
check_when(const struct policy_rule *rule, struct policy_problems *problems)
{
    char protect[POLICY_VALUE_TEXT_MAX];
    uint64_t asked;

    if (rule->when == NULL)
        return;
    if (policy_expression_is_never(rule->when)) {
        policy_problems_add(problems, rule_mark(rule, "when"), "rule %s: no block can ever be so",
                            rule_name(rule));
        return;
    }
    asked = policy_expression_least(rule->when, POLICY_FACT_LAST_ACCESS);
    if (rule->verb != POLICY_EXPIRE || asked == 0 || rule->protect_recent <= asked)
        return;
    policy_value_format(POLICY_TYPE_DURATION, rule->protect_recent, protect);
    policy_problems_add(problems, rule_mark(rule, "when"),
                        "rule %s: protect_recent keeps blocks for %s, longer than the condition "
                        "asks for",
                        rule_name(rule), protect);
}

static struct kvt_yaml_mark
trigger_mark(const struct policy_rule *rule, const char *key)
{
    return policy_mark(POLICY_SECTION_TRIGGER, &rule->trigger, key);
}

static void
check_trigger(const struct policy *policy, const struct policy_rule *rule,
              struct policy_problems *problems)
{
    const struct policy_trigger *trigger = &rule->trigger;
    const int32_t tier = policy_rule_tier(rule);
    char above[POLICY_VALUE_TEXT_MAX];
    char below[POLICY_VALUE_TEXT_MAX];

    if (!policy_is_written(POLICY_SECTION_TRIGGER, trigger, "start") ||
        !policy_is_written(POLICY_SECTION_TRIGGER, trigger, "stop"))
        return;
    policy_value_format(POLICY_TYPE_RATIO, trigger->start, above);
    policy_value_format(POLICY_TYPE_RATIO, trigger->stop, below);
    if (trigger->start <= trigger->stop)
        policy_problems_add(problems, trigger_mark(rule, "stop"),
                            "rule %s starts at %s and stops at %s: stop lies below start",
                            rule_name(rule), above, below);
    policy_value_format(POLICY_TYPE_RATIO, trigger->prestage, above);
    if (policy_is_written(POLICY_SECTION_TRIGGER, trigger, "prestage") &&
        trigger->prestage > trigger->stop)
        policy_problems_add(problems, trigger_mark(rule, "prestage"),
                            "rule %s prestages from %s and stops at %s: prestage is at most stop",
                            rule_name(rule), above, below);
    if (policy_is_written(POLICY_SECTION_TRIGGER, trigger, "prestage") &&
        rule->verb == POLICY_EXPIRE)
        policy_problems_add(problems, trigger_mark(rule, "prestage"),
                            "rule %s: what is deleted is not copied first", rule_name(rule));
    if (tier >= 0 && policy_tier_at(policy, (size_t)tier)->capacity == 0 &&
        policy_is_written(POLICY_SECTION_TIER, policy_tier_at(policy, (size_t)tier), "capacity"))
        policy_problems_add(problems, rule_mark(rule, "trigger"),
                            "rule %s never starts: tier %s has no cap to come near to",
                            rule_name(rule), policy_tier_at(policy, (size_t)tier)->name);
}

static void
check_schedule(const struct policy_rule *rule, struct policy_problems *problems)
{
    const struct policy_schedule *schedule = &rule->schedule;
    const bool every = policy_is_given(POLICY_SECTION_SCHEDULE, schedule, "every");
    const bool at = policy_is_given(POLICY_SECTION_SCHEDULE, schedule, "at");

    if (schedule->head.place.line == 0)
        return;
    if (every == at)
        policy_problems_add(problems, policy_mark(POLICY_SECTION_SCHEDULE, schedule, "every"),
                            "rule %s: a schedule has %s", rule_name(rule),
                            every ? "every or at, not both" : "every or at");
    if (every && policy_is_given(POLICY_SECTION_SCHEDULE, schedule, "days"))
        policy_problems_add(problems, policy_mark(POLICY_SECTION_SCHEDULE, schedule, "days"),
                            "rule %s: days go with at, not with every", rule_name(rule));
    for (uint32_t i = 1; i < schedule->at.count; i++)
        if (schedule->at.minutes[i] <= schedule->at.minutes[i - 1])
            policy_problems_add(problems, policy_mark(POLICY_SECTION_SCHEDULE, schedule, "at"),
                                "rule %s: the times of a day stand in their order, each once",
                                rule_name(rule));
}

static void
check_rule(const struct policy *policy, const struct policy_rule *rule,
           struct policy_problems *problems)
{
    if (!policy_is_set(POLICY_SECTION_RULE, rule, "do")) {
        /* Where a tier is unknown that was said, and from and to would have done. */
        if (!is_broken(rule, "do") && (!rule_has(rule, "from") || !rule_has(rule, "to")))
            policy_problems_add(problems, rule_mark(rule, "id"),
                                "rule %s does nothing: it wants a do, a pin, or from and to",
                                rule_name(rule));
        return;
    }
    check_keys(rule, problems);
    if (rule->verb == POLICY_DEMOTE || rule->verb == POLICY_PROMOTE)
        check_move(policy, rule, problems);
    else if (rule->verb == POLICY_EXPIRE)
        check_expire(rule, problems);
    else if (rule->verb == POLICY_COMPACT)
        check_compact(policy, rule, problems);
    check_events(rule, problems);
    check_when(rule, problems);
    if (rule_has(rule, "trigger"))
        check_trigger(policy, rule, problems);
    check_schedule(rule, problems);
}

void
policy_check_rules(const struct policy *policy, struct policy_problems *problems)
{
    for (size_t i = 0; i < policy->rules.count; i++)
        check_rule(policy, policy_rule_at(policy, i), problems);
}
