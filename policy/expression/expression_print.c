#include <inttypes.h>
#include <string.h>

#include "policy/expression/expression_private.h"

static void
print_item(const struct policy_expression *expression, const struct policy_item *item,
           struct kvt_buffer *out)
{
    char text[POLICY_VALUE_TEXT_MAX];
    const char *word = expression->texts + item->text;

    if (item->type == POLICY_TYPE_TEXT) {
        const char quote = strchr(word, '"') == NULL ? '"' : '\'';

        kvt_buffer_printf(out, "%c%s%c", quote, word, quote);
        return;
    }
    policy_value_format(item->type, item->number, text);
    kvt_buffer_printf(out, "%s", text);
}

static void
print_leaf(const struct policy_expression *expression, const struct policy_node *node,
           struct kvt_buffer *out)
{
    const struct policy_item *item = &expression->items[node->item];
    const char *name = policy_fact_rows[node->fact].name;

    switch (node->kind) {
    case POLICY_NODE_CONSTANT: kvt_buffer_printf(out, node->constant ? "true" : "false"); return;
    case POLICY_NODE_FLAG: kvt_buffer_printf(out, "%s", name); return;
    case POLICY_NODE_COMPARE:
    case POLICY_NODE_GLOB:
        kvt_buffer_printf(out, "%s %s ", name, policy_operator_text(node->operator_));
        print_item(expression, item, out);
        return;
    case POLICY_NODE_FACTS:
        kvt_buffer_printf(out, "%s %s %s", name, policy_operator_text(node->operator_),
                          policy_fact_rows[node->other].name);
        return;
    case POLICY_NODE_IN:
        kvt_buffer_printf(out, "%s in (", name);
        for (size_t i = 0; i < node->item_count; i++) {
            kvt_buffer_printf(out, i == 0 ? "" : ", ");
            print_item(expression, &item[i], out);
        }
        kvt_buffer_printf(out, ")");
        return;
    case POLICY_NODE_CLASS:
        kvt_buffer_printf(out, "class(%s)", expression->texts + item->text);
        return;
    case POLICY_NODE_PREFIX: kvt_buffer_printf(out, "prefix(0x%016" PRIx64 ")", node->hash); return;
    case POLICY_NODE_NOT:
    case POLICY_NODE_AND:
    case POLICY_NODE_OR: return;
    }
}

/* How tightly it binds: or, and, not, leaf. */
static int
binding(const struct policy_node *node)
{
    switch (node->kind) {
    case POLICY_NODE_OR: return 0;
    case POLICY_NODE_AND: return 1;
    case POLICY_NODE_NOT: return 2;
    case POLICY_NODE_CONSTANT:
    case POLICY_NODE_FLAG:
    case POLICY_NODE_COMPARE:
    case POLICY_NODE_FACTS:
    case POLICY_NODE_IN:
    case POLICY_NODE_GLOB:
    case POLICY_NODE_CLASS:
    case POLICY_NODE_PREFIX: break;
    }
    return 3;
}

/* As deep as there are nodes, at most POLICY_EXPRESSION_NODES_MAX; parentheses only where the
 * reading would be another without them. */
static void
print_node(const struct policy_expression *expression, size_t at, int around,
           struct kvt_buffer *out)
{
    const struct policy_node *node = &expression->nodes[at];
    const int own = binding(node);

    if (own < around)
        kvt_buffer_printf(out, "(");
    if (node->kind == POLICY_NODE_NOT) {
        kvt_buffer_printf(out, "not ");
        print_node(expression, node->left, own, out);
    } else if (own < 2) {
        print_node(expression, node->left, own, out);
        kvt_buffer_printf(out, own == 0 ? " or " : " and ");
        print_node(expression, node->right, own, out);
    } else {
        print_leaf(expression, node, out);
    }
    if (own < around)
        kvt_buffer_printf(out, ")");
}

void
policy_expression_print(const struct policy_expression *expression, struct kvt_buffer *out)
{
    print_node(expression, expression->count - 1, 0, out);
}
