#include <string.h>

#include "policy/decide/decision.h"
#include "policy/file/policy_keys.h"

enum { CHANGE_MAX = 1024, LEVELS_MAX = 8, INDENT = 2 };

/* What explaining one block needs at every step. */
struct explanation {
    const struct policy *policy;
    const struct policy_facts *facts;
    const struct policy_decision *decision;
    struct kvt_buffer *out;
};

/* What a condition should become for its rule to match. */
enum wanted { WANTED_AS_IT_IS, WANTED_TRUE, WANTED_FALSE };

static void explain_class(const struct explanation *explanation, const char *name,
                          enum wanted wanted, int level);

/* What a clause should become, within a condition that should become `wanted`. */
static enum wanted
wanted_of(const struct policy_clause *clause, bool is, enum wanted wanted)
{
    const bool good = (wanted == WANTED_TRUE) != clause->negated;

    if (wanted == WANTED_AS_IT_IS || is == good)
        return WANTED_AS_IT_IS;
    return good ? WANTED_TRUE : WANTED_FALSE;
}

/* The clauses of a condition, one a line: its truth, and what would make it help.  One below a not
 * is told with it, so that true is good throughout. */
static void
explain_clauses(const struct explanation *explanation, const struct policy_expression *when,
                const bool *trace, enum wanted wanted, int level)
{
    struct policy_clause clause;
    char change[CHANGE_MAX];
    size_t classes = 0;

    for (size_t i = 0; policy_expression_clause(when, i, &clause); i++) {
        const bool is = trace[clause.node];
        const enum wanted here = wanted_of(&clause, is, wanted);

        change[0] = '\0';
        if (here != WANTED_AS_IT_IS)
            policy_expression_change(when, clause.node, explanation->facts, change, sizeof(change));
        kvt_buffer_printf(explanation->out, "%*s%-5s  %s%.*s%s%s\n", INDENT * level, "",
                          is != clause.negated ? "true" : "false", clause.negated ? "not " : "",
                          (int)clause.size, clause.text,
                          change[0] == '\0' ? "" : "  ; would do: ", change);
        if (strncmp(clause.text, "class", 5) == 0) {
            size_t offset;

            explain_class(explanation, policy_expression_class(when, classes++, &offset), here,
                          level + 1);
        }
    }
}

/* What a class that was asked for is made of, and those in it; not without end, for brevity. */
static void
explain_class(const struct explanation *explanation, const char *name, enum wanted wanted,
              int level)
{
    bool trace[POLICY_EXPRESSION_NODES_MAX];

    for (size_t i = 0; level < LEVELS_MAX && i < explanation->policy->classes.count; i++) {
        const struct policy_class *class_ = policy_class_at(explanation->policy, i);

        if (strcmp(class_->name, name) != 0)
            continue;
        (void)policy_expression_evaluate(class_->when, explanation->facts,
                                         explanation->decision->classes, trace);
        explain_clauses(explanation, class_->when, trace, wanted, level);
    }
}

static void
explain_tier(const struct explanation *explanation, const struct policy_rule *rule)
{
    const char *tier = policy_facts_text(explanation->facts, POLICY_FACT_TIER);

    kvt_buffer_printf(explanation->out, "    false  it is asked of blocks in ");
    if (rule->verb != POLICY_PIN)
        kvt_buffer_printf(
            explanation->out, "%s",
            policy_tier_at(explanation->policy, (size_t)policy_rule_tier(rule))->name);
    for (uint32_t i = 0; i < rule->pin.tiers.count; i++)
        kvt_buffer_printf(explanation->out, "%s%s", i == 0 ? "" : " or ",
                          rule->pin.tiers.list[i].text);
    kvt_buffer_printf(explanation->out, ", and this one lies in %s\n",
                      tier[0] == '\0' ? "none" : tier);
}

static void
explain_refusals(const struct explanation *explanation, const struct policy_rule *rule,
                 uint32_t refusals)
{
    char value[POLICY_VALUE_TEXT_MAX];
    char limit[POLICY_VALUE_TEXT_MAX];

    if ((refusals & POLICY_REFUSES_TIER) != 0)
        explain_tier(explanation, rule);
    if ((refusals & POLICY_REFUSES_EVENT) != 0)
        kvt_buffer_printf(explanation->out, "    false  it is asked when something else happens\n");
    if ((refusals & POLICY_REFUSES_PINNED) != 0)
        kvt_buffer_printf(explanation->out,
                          "    false  not pinned  ; would do: pinned true -> false\n");
    if ((refusals & POLICY_REFUSES_TTL) != 0) {
        policy_value_format(POLICY_TYPE_DURATION, explanation->facts->last_access_ms, value);
        policy_value_format(POLICY_TYPE_DURATION, rule->pin.ttl, limit);
        kvt_buffer_printf(explanation->out,
                          "    false  pin.ttl  ; would do: last_access %s -> %s\n", value, limit);
    }
    if ((refusals & POLICY_REFUSES_RECENT) == 0)
        return;
    policy_value_format(POLICY_TYPE_DURATION, explanation->facts->last_access_ms, value);
    policy_value_format(POLICY_TYPE_DURATION, rule->protect_recent, limit);
    kvt_buffer_printf(explanation->out,
                      "    false  protect_recent  ; would do: last_access %s -> %s\n", value,
                      limit);
}

static void
explain_rule(const struct explanation *explanation, size_t at)
{
    const struct policy_rule *rule = policy_rule_at(explanation->policy, at);
    const struct policy_verdict *verdict = &explanation->decision->verdicts[at];

    kvt_buffer_printf(explanation->out, "  rule %s (line %u): %s\n", rule->id,
                      rule->head.place.line, verdict->refusals == 0 ? "matches" : "does not match");
    explain_refusals(explanation, rule, verdict->refusals);
    if (rule->when != NULL)
        explain_clauses(
            explanation, rule->when, verdict->trace,
            (verdict->refusals & POLICY_REFUSES_WHEN) == 0 ? WANTED_AS_IT_IS : WANTED_TRUE, 2);
}

void
policy_explain(const struct policy *policy, const struct policy_facts *facts,
               const struct policy_decision *decision, struct kvt_buffer *out)
{
    const struct explanation explanation = {policy, facts, decision, out};
    const size_t end = decision->rule < 0 ? policy->rules.count : (size_t)decision->rule + 1;
    const struct policy_rule *rule;
    char start[POLICY_VALUE_TEXT_MAX];
    char fill[POLICY_VALUE_TEXT_MAX];

    for (size_t i = 0; i < end; i++)
        explain_rule(&explanation, i);
    if (decision->rule < 0) {
        kvt_buffer_printf(out, "  no rule has the block: it stays\n");
        return;
    }
    rule = policy_rule_at(policy, (size_t)decision->rule);
    kvt_buffer_printf(out, "  %s has the block: %s%s%s\n", rule->id,
                      policy_verb_text((enum policy_verb)rule->verb),
                      rule->to.index < 0 ? "" : " to ", rule->to.index < 0 ? "" : rule->to.text);
    if (!decision->waits)
        return;
    policy_value_format(POLICY_TYPE_RATIO, facts->fill_ppm, fill);
    policy_value_format(POLICY_TYPE_RATIO, rule->trigger.start, start);
    kvt_buffer_printf(out, "  and waits: its tier is %s full, and it starts at %s\n", fill, start);
}
