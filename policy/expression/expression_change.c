#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/expression/expression_private.h"

enum { TO_MAX = POLICY_TEXT_MAX + 16 };

/* The nearest number on the other side: "3", "over 7d", "under 30m", "any other". */
static bool
nearest_number(enum policy_type type, enum policy_operator wanted, uint64_t limit, char to[TO_MAX])
{
    const bool whole = type == POLICY_TYPE_COUNT;
    char text[POLICY_VALUE_TEXT_MAX];
    const char *word = "";

    switch (wanted) {
    case POLICY_BELOW:
        if (limit == 0)
            return false;
        limit -= whole ? 1 : 0;
        word = whole ? "" : "under ";
        break;
    case POLICY_ABOVE:
        if (limit == UINT64_MAX)
            return false;
        limit += whole ? 1 : 0;
        word = whole ? "" : "over ";
        break;
    case POLICY_UNEQUAL: word = "anything but "; break;
    case POLICY_EQUAL:
    case POLICY_AT_MOST:
    case POLICY_AT_LEAST:
    case POLICY_LIKE: break;
    }
    policy_value_format(type, limit, text);
    (void)snprintf(to, TO_MAX, "%s%s", word, text);
    return true;
}

/* Of a list the member nearest to what the fact is. */
static uint64_t
nearest_member(const struct policy_expression *expression, const struct policy_node *node,
               uint64_t value)
{
    uint64_t best = expression->items[node->item].number;

    for (size_t i = 0; i < node->item_count; i++) {
        const uint64_t number = expression->items[node->item + i].number;
        const uint64_t far = number > value ? number - value : value - number;
        const uint64_t best_far = best > value ? best - value : value - best;

        if (far < best_far)
            best = number;
    }
    return best;
}

static bool
change_number(const struct policy_expression *expression, const struct policy_node *node,
              const struct policy_facts *facts, bool now, char to[TO_MAX])
{
    const enum policy_type type = policy_fact_rows[node->fact].type;
    enum policy_operator wanted = node->operator_;
    uint64_t limit;

    if (node->kind == POLICY_NODE_IN) {
        limit = nearest_member(expression, node, policy_facts_number(facts, node->fact));
        return nearest_number(type, now ? POLICY_UNEQUAL : POLICY_EQUAL, limit, to);
    }
    limit = node->kind == POLICY_NODE_FACTS ? policy_facts_number(facts, node->other)
                                            : expression->items[node->item].number;
    if (now)
        wanted = policy_operator_opposite(wanted);
    return nearest_number(type, wanted, limit, to);
}

static void
change_text(const struct policy_expression *expression, const struct policy_node *node,
            const struct policy_facts *facts, bool now, char to[TO_MAX])
{
    const char *value;
    bool equal;

    if (node->kind == POLICY_NODE_FACTS)
        value = policy_facts_text(facts, node->other);
    else
        value = expression->texts + expression->items[node->item].text;
    if (node->kind == POLICY_NODE_GLOB) {
        (void)snprintf(to, TO_MAX, "%s \"%s\"", now ? "unlike" : "like", value);
        return;
    }
    equal = node->kind == POLICY_NODE_IN || node->operator_ == POLICY_EQUAL;
    if (equal != now)
        (void)snprintf(to, TO_MAX, "\"%s\"", value);
    else
        (void)snprintf(to, TO_MAX, "another");
}

void
policy_expression_change(const struct policy_expression *expression, size_t node_at,
                         const struct policy_facts *facts, char *text, size_t size)
{
    const struct policy_node *node = &expression->nodes[node_at];
    const struct policy_fact_row *row = &policy_fact_rows[node->fact];
    const bool none[1] = {false};
    char from[POLICY_VALUE_TEXT_MAX];
    char to[TO_MAX];
    bool now;

    text[0] = '\0';
    switch (node->kind) {
    case POLICY_NODE_FLAG:
        now = policy_facts_flag(facts, node->fact);
        (void)snprintf(text, size, "%s %s -> %s", row->name, now ? "true" : "false",
                       now ? "false" : "true");
        return;
    case POLICY_NODE_COMPARE:
    case POLICY_NODE_FACTS:
    case POLICY_NODE_IN:
    case POLICY_NODE_GLOB: break;
    case POLICY_NODE_CONSTANT:
    case POLICY_NODE_CLASS:
    case POLICY_NODE_PREFIX:
    case POLICY_NODE_NOT:
    case POLICY_NODE_AND:
    case POLICY_NODE_OR: return; /* no one fact makes it */
    }
    now = policy_expression_node(expression, node_at, facts, none);
    if (row->type == POLICY_TYPE_TEXT) {
        change_text(expression, node, facts, now, to);
        (void)snprintf(text, size, "%s \"%s\" -> %s", row->name,
                       policy_facts_text(facts, node->fact), to);
        return;
    }
    if (!change_number(expression, node, facts, now, to))
        return;
    policy_value_format(row->type, policy_facts_number(facts, node->fact), from);
    (void)snprintf(text, size, "%s %s -> %s", row->name, from, to);
}
