#include <assert.h>
#include <string.h>

#include "policy/expression/expression_private.h"

bool
policy_glob_match(const char *pattern, const char *text)
{
    const char *star = NULL; /* the last one, and where the text went on behind it */
    const char *behind = NULL;

    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            behind = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++behind;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool
holds(enum policy_operator operator_, int order)
{
    switch (operator_) {
    case POLICY_EQUAL: return order == 0;
    case POLICY_UNEQUAL: return order != 0;
    case POLICY_BELOW: return order < 0;
    case POLICY_AT_MOST: return order <= 0;
    case POLICY_ABOVE: return order > 0;
    case POLICY_AT_LEAST: return order >= 0;
    case POLICY_LIKE: break;
    }
    return false;
}

static int
order_of(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

/* Where a fact stands to a value of its type. */
static int
compare_item(const struct policy_expression *expression, const struct policy_facts *facts,
             enum policy_fact fact, const struct policy_item *item)
{
    if (item->type == POLICY_TYPE_TEXT)
        return strcmp(policy_facts_text(facts, fact), expression->texts + item->text);
    return order_of(policy_facts_number(facts, fact), item->number);
}

static int
compare_facts(const struct policy_facts *facts, enum policy_fact left, enum policy_fact right)
{
    if (policy_fact_rows[left].type == POLICY_TYPE_TEXT)
        return strcmp(policy_facts_text(facts, left), policy_facts_text(facts, right));
    return order_of(policy_facts_number(facts, left), policy_facts_number(facts, right));
}

static bool
is_in(const struct policy_expression *expression, const struct policy_facts *facts,
      const struct policy_node *node)
{
    for (size_t i = 0; i < node->item_count; i++)
        if (compare_item(expression, facts, node->fact, &expression->items[node->item + i]) == 0)
            return true;
    return false;
}

static bool
is_below(const struct policy_facts *facts, uint64_t hash)
{
    for (size_t i = 0; i < facts->prefix_count; i++)
        if (facts->prefixes[i] == hash)
            return true;
    return false;
}

static bool
node_value(const struct policy_expression *expression, const struct policy_node *node,
           const struct policy_facts *facts, const bool *classes, const bool *values)
{
    const struct policy_item *item = &expression->items[node->item];

    switch (node->kind) {
    case POLICY_NODE_CONSTANT: return node->constant;
    case POLICY_NODE_FLAG: return policy_facts_flag(facts, node->fact);
    case POLICY_NODE_COMPARE:
        return holds(node->operator_, compare_item(expression, facts, node->fact, item));
    case POLICY_NODE_FACTS:
        return holds(node->operator_, compare_facts(facts, node->fact, node->other));
    case POLICY_NODE_IN: return is_in(expression, facts, node);
    case POLICY_NODE_GLOB:
        return policy_glob_match(expression->texts + item->text,
                                 policy_facts_text(facts, node->fact));
    case POLICY_NODE_CLASS: return classes[node->class_];
    case POLICY_NODE_PREFIX: return is_below(facts, node->hash);
    case POLICY_NODE_NOT: return !values[node->left];
    case POLICY_NODE_AND: return values[node->left] && values[node->right];
    case POLICY_NODE_OR: return values[node->left] || values[node->right];
    }
    return false;
}

bool
policy_expression_node(const struct policy_expression *expression, size_t node,
                       const struct policy_facts *facts, const bool *classes)
{
    assert(expression->nodes[node].kind < POLICY_NODE_NOT);
    return node_value(expression, &expression->nodes[node], facts, classes, NULL);
}

/* Children come before their parents, so one pass does; nothing is skipped, so the trace is whole
 * and the time the same for every block. */
bool
policy_expression_evaluate(const struct policy_expression *expression,
                           const struct policy_facts *facts, const bool *classes, bool *trace)
{
    bool values[POLICY_EXPRESSION_NODES_MAX];

    assert(expression->count > 0);
    for (size_t i = 0; i < expression->count; i++)
        values[i] = node_value(expression, &expression->nodes[i], facts, classes, values);
    if (trace != NULL)
        memcpy(trace, values, expression->count * sizeof(*values));
    return values[expression->count - 1];
}

size_t
policy_expression_nodes(const struct policy_expression *expression)
{
    return expression->count;
}

/* ---- what stands in it ---- */

const char *
policy_expression_class(const struct policy_expression *expression, size_t at, size_t *offset)
{
    *offset = 0;
    for (size_t i = 0; i < expression->count; i++) {
        const struct policy_node *node = &expression->nodes[i];

        if (node->kind == POLICY_NODE_CLASS && at-- == 0) {
            *offset = expression->items[node->item].start;
            return expression->texts + expression->items[node->item].text;
        }
    }
    return NULL;
}

void
policy_expression_bind(struct policy_expression *expression, size_t at, uint32_t class_)
{
    for (size_t i = 0; i < expression->count; i++)
        if (expression->nodes[i].kind == POLICY_NODE_CLASS && at-- == 0)
            expression->nodes[i].class_ = class_;
}

bool
policy_expression_prefix(const struct policy_expression *expression, size_t at, uint64_t *hash)
{
    *hash = 0;
    for (size_t i = 0; i < expression->count; i++)
        if (expression->nodes[i].kind == POLICY_NODE_PREFIX && at-- == 0) {
            *hash = expression->nodes[i].hash;
            return true;
        }
    return false;
}

bool
policy_expression_uses(const struct policy_expression *expression, enum policy_fact fact)
{
    for (size_t i = 0; i < expression->count; i++) {
        const struct policy_node *node = &expression->nodes[i];

        if ((node->kind == POLICY_NODE_COMPARE || node->kind == POLICY_NODE_IN) &&
            node->fact == fact)
            return true;
    }
    return false;
}

const char *
policy_expression_word(const struct policy_expression *expression, enum policy_fact fact, size_t at,
                       size_t *offset)
{
    *offset = 0;
    for (size_t i = 0; i < expression->count; i++) {
        const struct policy_node *node = &expression->nodes[i];

        if ((node->kind != POLICY_NODE_COMPARE && node->kind != POLICY_NODE_IN) ||
            node->fact != fact)
            continue;
        if (at >= node->item_count) {
            at -= node->item_count;
            continue;
        }
        *offset = expression->items[node->item + at].start;
        return expression->texts + expression->items[node->item + at].text;
    }
    return NULL;
}

static bool
is_leaf(const struct policy_node *node)
{
    return node->kind != POLICY_NODE_NOT && node->kind != POLICY_NODE_AND &&
           node->kind != POLICY_NODE_OR;
}

bool
policy_expression_clause(const struct policy_expression *expression, size_t at,
                         struct policy_clause *clause)
{
    *clause = (struct policy_clause){.text = ""};
    for (size_t i = 0; i < expression->count; i++) {
        const struct policy_node *node = &expression->nodes[i];

        if (!is_leaf(node) || at-- > 0)
            continue;
        *clause = (struct policy_clause){.text = expression->source + node->start,
                                         .size = node->end - node->start,
                                         .node = i,
                                         .negated = node->negated};
        return true;
    }
    return false;
}
