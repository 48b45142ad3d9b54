#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "policy/file/section_reader.h"
#include "policy/ordering/ordering_table.h"

enum { ORDERINGS_MAX = 64, RULES_MAX = 128 };

/* ---- what rules have from defaults ---- */

static void
copy_key(enum policy_section section, const char *name, size_t size, void *target,
         const void *source, enum policy_section source_section)
{
    struct policy_head *head = target;
    const struct policy_head *source_head = source;
    const struct policy_key *key;
    const struct policy_key *source_key;
    size_t at;
    size_t source_at;

    key = policy_key_find(section, name, &at);
    source_key = policy_key_find(source_section, name, &source_at);
    assert(key != NULL && source_key != NULL && key->type == source_key->type);
    if (head->keys[at].line != 0)
        return;
    memcpy((char *)target + key->offset, (const char *)source + source_key->offset, size);
    head->keys[at] = source_head->keys[source_at];
    if (head->keys[at].origin == POLICY_WRITTEN)
        head->keys[at].origin = POLICY_INHERITED;
}

static void
inherit(struct policy_rule *rule, const struct policy_defaults *defaults)
{
    static const char *const limits[] = {"rate", "per_run", "suspend_if_errors"};

    copy_key(POLICY_SECTION_RULE, "order_by", sizeof(rule->order_by), rule, defaults,
             POLICY_SECTION_DEFAULTS);
    copy_key(POLICY_SECTION_RULE, "protect_recent", sizeof(rule->protect_recent), rule, defaults,
             POLICY_SECTION_DEFAULTS);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        copy_key(POLICY_SECTION_LIMITS, limits[i], sizeof(uint64_t), &rule->limits,
                 &defaults->limits, POLICY_SECTION_LIMITS);
}

/* What a tier of its level mostly is. */
static void
infer_kind(struct policy_tier *tier)
{
    size_t at;

    (void)policy_key_find(POLICY_SECTION_TIER, "kind", &at);
    if (tier->head.keys[at].line != 0 || !policy_is_written(POLICY_SECTION_TIER, tier, "level"))
        return;
    tier->kind = tier->level; /* G2 memory, G3 volume, G4 bucket */
    tier->head.keys[at].origin = POLICY_INFERRED;
}

/* ---- names ---- */

static void
unknown(struct policy_problems *problems, struct kvt_yaml_mark mark, const char *what,
        const char *word, const char *const *words, size_t count)
{
    char hint[POLICY_NAME_MAX + 24];

    policy_hint(word, words, count, hint);
    policy_problems_add(problems, mark, "unknown %s \"%s\"%s", what, word, hint);
}

static int32_t
tier_index(const struct policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->tiers.count; i++)
        if (strcmp(policy_tier_at(policy, i)->name, name) == 0)
            return (int32_t)i;
    return -1;
}

static void
unknown_tier(const struct policy *policy, const char *name, struct policy_problems *problems,
             struct kvt_yaml_mark mark)
{
    const char *words[POLICY_TIERS_MAX];

    for (size_t i = 0; i < policy->tiers.count; i++)
        words[i] = policy_tier_at(policy, i)->name;
    unknown(problems, mark, "tier", name, words, policy->tiers.count);
}

static int32_t
find_tier(const struct policy *policy, const char *name, struct policy_problems *problems,
          struct kvt_yaml_mark mark)
{
    const int32_t index = tier_index(policy, name);

    if (index < 0)
        unknown_tier(policy, name, problems, mark);
    return index;
}

static void
resolve_tier(const struct policy *policy, enum policy_section section, const void *target,
             const char *key, struct policy_name *name, struct policy_problems *problems)
{
    name->index = -1;
    if (name->text[0] != '\0')
        name->index = find_tier(policy, name->text, problems, policy_mark(section, target, key));
}

static void
resolve_ordering(struct policy_name *name, struct kvt_yaml_mark mark,
                 struct policy_problems *problems)
{
    const char *words[ORDERINGS_MAX];
    const struct kvt_ordering *const *all;
    size_t count;

    if (name->text[0] == '\0' || policy_ordering_find(name->text) != NULL)
        return;
    all = policy_ordering_all(&count);
    for (size_t i = 0; i < count && i < ORDERINGS_MAX; i++)
        words[i] = all[i]->name;
    unknown(problems, mark, "ordering", name->text, words,
            count < ORDERINGS_MAX ? count : ORDERINGS_MAX);
}

static void
resolve_defaults(struct policy_defaults *defaults, struct policy_problems *problems)
{
    size_t at;

    resolve_ordering(&defaults->order_by,
                     policy_mark(POLICY_SECTION_DEFAULTS, defaults, "order_by"), problems);
    (void)policy_key_find(POLICY_SECTION_DEFAULTS, "order_by", &at);
    if (defaults->head.keys[at].line != 0)
        return;
    (void)snprintf(defaults->order_by.text, sizeof(defaults->order_by.text), "%s",
                   POLICY_ORDERING_DEFAULT);
    defaults->head.keys[at].origin = POLICY_BUILT_IN;
}

/* ---- conditions ---- */

static int32_t
find_class(const struct policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->classes.count; i++)
        if (strcmp(policy_class_at(policy, i)->name, name) == 0)
            return (int32_t)i;
    return -1;
}

/* A condition, and where its words stand. */
struct condition {
    const struct policy *policy;
    struct policy_expression *when;
    struct kvt_yaml_value value;
};

static void
bind_classes(const struct condition *condition, struct policy_problems *problems)
{
    const struct policy *policy = condition->policy;
    const char *words[POLICY_CLASSES_MAX];
    const char *name;
    size_t offset;

    for (size_t i = 0; i < policy->classes.count; i++)
        words[i] = policy_class_at(policy, i)->name;
    for (size_t at = 0; (name = policy_expression_class(condition->when, at, &offset)) != NULL;
         at++) {
        const int32_t index = find_class(policy, name);

        if (index >= 0)
            policy_expression_bind(condition->when, at, (uint32_t)index);
        else
            unknown(problems, policy_problems_mark(problems, condition->value, offset), "class",
                    name, words, policy->classes.count);
    }
}

static void
check_words(const struct condition *condition, struct policy_problems *problems)
{
    const char *word;
    size_t offset;

    for (size_t at = 0;
         (word = policy_expression_word(condition->when, POLICY_FACT_TIER, at, &offset)) != NULL;
         at++)
        if (tier_index(condition->policy, word) < 0)
            unknown_tier(condition->policy, word, problems,
                         policy_problems_mark(problems, condition->value, offset));
}

static void
resolve_when(const struct policy *policy, struct kvt_yaml *file, struct policy_expression *when,
             const struct policy_place *place, struct policy_problems *problems)
{
    struct condition condition = {policy, when, {file, place->node}};
    const char *text = when != NULL || place->line == 0 ? NULL : kvt_yaml_text(condition.value);
    struct policy_expression *names = NULL;

    /* One that was refused may call for what is not there besides. */
    if (text != NULL && policy_expression_parse_names(&names, text, strlen(text)) == KVT_OK &&
        names != NULL)
        condition.when = names;
    if (condition.when == NULL)
        return;
    bind_classes(&condition, problems);
    check_words(&condition, problems);
    policy_expression_free(names);
}

static const struct policy_place *
when_place(enum policy_section section, const struct policy_head *head)
{
    size_t at;

    (void)policy_key_find(section, "when", &at);
    return &head->keys[at];
}

/* ---- the order of classes ---- */

/* Can class `at` be evaluated when those in `done` are? */
static bool
is_ready(const struct policy *policy, size_t at, const bool *done)
{
    const struct policy_expression *when = policy_class_at(policy, at)->when;
    const char *name;
    size_t offset;

    for (size_t i = 0; when != NULL && (name = policy_expression_class(when, i, &offset)) != NULL;
         i++) {
        const int32_t other = find_class(policy, name);

        if (other >= 0 && !done[other])
            return false;
    }
    return true;
}

/* Those that never become ready use one another in a circle, or a circle. */
static void
order_classes(struct policy *policy, struct policy_problems *problems)
{
    bool done[POLICY_CLASSES_MAX] = {false};
    size_t count = 0;
    bool more = true;

    assert(policy->classes.count <= POLICY_CLASSES_MAX);
    while (more) {
        more = false;
        for (size_t i = 0; i < policy->classes.count; i++) {
            if (done[i] || !is_ready(policy, i, done))
                continue;
            done[i] = more = true;
            policy->class_order[count++] = (uint32_t)i;
        }
    }
    for (size_t i = 0; i < policy->classes.count; i++)
        if (!done[i])
            policy_problems_add(
                problems, policy_mark(POLICY_SECTION_CLASS, policy_class_at(policy, i), "when"),
                "class \"%s\" needs itself: its classes make a circle",
                policy_class_at(policy, i)->name);
}

/* ---- rules and the rest ---- */

/* What a rule does that does not say it. */
static void
infer_verb(struct policy_rule *rule)
{
    size_t at;

    (void)policy_key_find(POLICY_SECTION_RULE, "do", &at);
    if (rule->head.keys[at].line != 0)
        return;
    if (rule->pin.head.place.line != 0) {
        rule->verb = POLICY_PIN;
        rule->head.keys[at].origin = POLICY_INFERRED;
    } else if (rule->from.index >= 0 && rule->to.index >= 0) {
        rule->verb = rule->from.index < rule->to.index ? POLICY_DEMOTE : POLICY_PROMOTE;
        rule->head.keys[at].origin = POLICY_INFERRED;
    }
}

static void
resolve_rule(const struct policy *policy, struct kvt_yaml *file, struct policy_rule *rule,
             struct policy_problems *problems)
{
    resolve_tier(policy, POLICY_SECTION_RULE, rule, "from", &rule->from, problems);
    resolve_tier(policy, POLICY_SECTION_RULE, rule, "to", &rule->to, problems);
    resolve_tier(policy, POLICY_SECTION_RULE, rule, "in", &rule->in, problems);
    for (uint32_t i = 0; i < rule->pin.tiers.count; i++)
        rule->pin.tiers.list[i].index =
            find_tier(policy, rule->pin.tiers.list[i].text, problems,
                      (struct kvt_yaml_mark){rule->pin.tiers.places[i].line,
                                             rule->pin.tiers.places[i].column});
    resolve_ordering(&rule->order_by, policy_mark(POLICY_SECTION_RULE, rule, "order_by"), problems);
    resolve_when(policy, file, rule->when, when_place(POLICY_SECTION_RULE, &rule->head), problems);
    infer_verb(rule);
    inherit(rule, &policy->defaults);
}

static void
resolve_test(const struct policy *policy, struct policy_test *test,
             struct policy_problems *problems)
{
    const char *words[RULES_MAX + 1];
    const size_t count = policy->rules.count;
    struct policy_name *rule = &test->expect.rule;

    if (test->given.tier[0] != '\0')
        (void)find_tier(policy, test->given.tier, problems,
                        policy_mark(POLICY_SECTION_GIVEN, &test->given, "tier"));
    resolve_tier(policy, POLICY_SECTION_EXPECT, &test->expect, "to", &test->expect.to, problems);
    rule->index = -1;
    for (size_t i = 0; i < count; i++) {
        words[i] = policy_rule_at(policy, i)->id;
        if (strcmp(words[i], rule->text) == 0 && rule->text[0] != '\0')
            rule->index = (int32_t)i;
    }
    words[count] = "none";
    if (rule->text[0] != '\0' && rule->index < 0 && strcmp(rule->text, "none") != 0)
        unknown(problems, policy_mark(POLICY_SECTION_EXPECT, &test->expect, "rule"), "rule",
                rule->text, words, count + 1);
}

void
policy_resolve(struct policy *policy, struct kvt_yaml *file, struct policy_problems *problems)
{
    resolve_defaults(&policy->defaults, problems);
    for (size_t i = 0; i < policy->tiers.count; i++) {
        struct policy_tier *tier = policy_tier_at(policy, i);

        resolve_tier(policy, POLICY_SECTION_TIER, tier, "next", &tier->next, problems);
        infer_kind(tier);
    }
    for (size_t i = 0; i < policy->classes.count; i++) {
        struct policy_class *class_ = policy_class_at(policy, i);

        resolve_when(policy, file, class_->when, when_place(POLICY_SECTION_CLASS, &class_->head),
                     problems);
    }
    order_classes(policy, problems);
    for (size_t i = 0; i < policy->rules.count; i++)
        resolve_rule(policy, file, policy_rule_at(policy, i), problems);
    for (size_t i = 0; i < policy->quotas.count; i++) {
        struct policy_quota *quota = policy_quota_at(policy, i);

        resolve_tier(policy, POLICY_SECTION_QUOTA, quota, "tier", &quota->tier, problems);
    }
    for (size_t i = 0; i < policy->tests.count; i++)
        resolve_test(policy, policy_test_at(policy, i), problems);
}
