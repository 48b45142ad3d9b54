#include <string.h>

#include "policy/expression/expression_private.h"

/* What can be said of an expression without facts: enough to tell a person that a rule can never
 * match, or always does; "unknown" where that is not plain. */
enum known { UNKNOWN, ALWAYS, NEVER };

/* The values of a number that a comparison allows: least..most; empty where least > most. */
static void
range_of(const struct policy_node *node, uint64_t limit, uint64_t *least, uint64_t *most)
{
    const bool empty = (node->operator_ == POLICY_BELOW && limit == 0) ||
                       (node->operator_ == POLICY_ABOVE && limit == UINT64_MAX);

    *least = 0;
    *most = UINT64_MAX;
    if (empty) {
        *least = 1;
        *most = 0;
    } else if (node->operator_ == POLICY_EQUAL) {
        *least = *most = limit;
    } else if (node->operator_ == POLICY_BELOW) {
        *most = limit - 1;
    } else if (node->operator_ == POLICY_AT_MOST) {
        *most = limit;
    } else if (node->operator_ == POLICY_ABOVE) {
        *least = limit + 1;
    } else if (node->operator_ == POLICY_AT_LEAST) {
        *least = limit;
    }
}

static enum known
leaf_known(const struct policy_expression *expression, const struct policy_node *node)
{
    uint64_t least;
    uint64_t most;

    if (node->kind == POLICY_NODE_CONSTANT)
        return node->constant ? ALWAYS : NEVER;
    if (node->kind == POLICY_NODE_GLOB)
        return strcmp(expression->texts + expression->items[node->item].text, "*") == 0 ? ALWAYS
                                                                                        : UNKNOWN;
    if (node->kind != POLICY_NODE_COMPARE || policy_fact_rows[node->fact].type == POLICY_TYPE_TEXT)
        return UNKNOWN;
    range_of(node, expression->items[node->item].number, &least, &most);
    if (least > most)
        return NEVER;
    return least == 0 && most == UINT64_MAX && node->operator_ != POLICY_UNEQUAL ? ALWAYS : UNKNOWN;
}

static enum known
node_known(const struct policy_expression *expression, const struct policy_node *node,
           const enum known *known)
{
    const enum known left = known[node->left];
    const enum known right = known[node->right];

    switch (node->kind) {
    case POLICY_NODE_NOT: return left == UNKNOWN ? UNKNOWN : left == ALWAYS ? NEVER : ALWAYS;
    case POLICY_NODE_AND:
        if (left == NEVER || right == NEVER)
            return NEVER;
        return left == ALWAYS && right == ALWAYS ? ALWAYS : UNKNOWN;
    case POLICY_NODE_OR:
        if (left == ALWAYS || right == ALWAYS)
            return ALWAYS;
        return left == NEVER && right == NEVER ? NEVER : UNKNOWN;
    case POLICY_NODE_CONSTANT:
    case POLICY_NODE_FLAG:
    case POLICY_NODE_COMPARE:
    case POLICY_NODE_FACTS:
    case POLICY_NODE_IN:
    case POLICY_NODE_GLOB:
    case POLICY_NODE_CLASS:
    case POLICY_NODE_PREFIX: break;
    }
    return leaf_known(expression, node);
}

static enum known
whole_known(const struct policy_expression *expression)
{
    enum known known[POLICY_EXPRESSION_NODES_MAX] = {UNKNOWN};

    for (size_t i = 0; i < expression->count; i++)
        known[i] = node_known(expression, &expression->nodes[i], known);
    return known[expression->count - 1];
}

/* The parts that must all be true: those that only "and" joins to the whole. */
static void
find_needed(const struct policy_expression *expression, bool needed[POLICY_EXPRESSION_NODES_MAX])
{
    memset(needed, 0, POLICY_EXPRESSION_NODES_MAX * sizeof(*needed));
    needed[expression->count - 1] = true;
    for (size_t i = expression->count; i-- > 0;) {
        const struct policy_node *node = &expression->nodes[i];

        if (!needed[i] || node->kind != POLICY_NODE_AND)
            continue;
        needed[node->left] = true;
        needed[node->right] = true;
    }
}

/* Two needed parts that exclude one another: hits > 5 and hits < 3, tenant == a and tenant == b. */
static bool
contradicts(const struct policy_expression *expression, enum policy_fact fact,
            const bool needed[POLICY_EXPRESSION_NODES_MAX])
{
    const bool is_text = policy_fact_rows[fact].type == POLICY_TYPE_TEXT;
    const char *word = NULL;
    uint64_t least = 0;
    uint64_t most = UINT64_MAX;

    for (size_t i = 0; i < expression->count; i++) {
        const struct policy_node *node = &expression->nodes[i];
        const struct policy_item *item = &expression->items[node->item];
        uint64_t low;
        uint64_t high;

        if (!needed[i] || node->kind != POLICY_NODE_COMPARE || node->fact != fact)
            continue;
        if (is_text && node->operator_ == POLICY_EQUAL) {
            if (word != NULL && strcmp(word, expression->texts + item->text) != 0)
                return true;
            word = expression->texts + item->text;
        } else if (!is_text) {
            range_of(node, item->number, &low, &high);
            least = low > least ? low : least;
            most = high < most ? high : most;
        }
    }
    return least > most;
}

bool
policy_expression_is_always(const struct policy_expression *expression)
{
    return whole_known(expression) == ALWAYS;
}

bool
policy_expression_is_never(const struct policy_expression *expression)
{
    bool needed[POLICY_EXPRESSION_NODES_MAX];

    if (whole_known(expression) == NEVER)
        return true;
    find_needed(expression, needed);
    for (size_t fact = 0; fact < POLICY_FACT_COUNT; fact++)
        if (policy_fact_rows[fact].type != POLICY_TYPE_BOOL &&
            contradicts(expression, (enum policy_fact)fact, needed))
            return true;
    return false;
}

uint64_t
policy_expression_least(const struct policy_expression *expression, enum policy_fact fact)
{
    bool needed[POLICY_EXPRESSION_NODES_MAX];
    uint64_t found = 0;

    find_needed(expression, needed);
    for (size_t i = 0; i < expression->count; i++) {
        const struct policy_node *node = &expression->nodes[i];
        uint64_t least;
        uint64_t most;

        if (!needed[i] || node->kind != POLICY_NODE_COMPARE || node->fact != fact)
            continue;
        range_of(node, expression->items[node->item].number, &least, &most);
        found = least > found ? least : found;
    }
    return found;
}
