#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/expression/expression_parser.h"

/* What is read of a condition: nodes, values and their texts. */

void
policy_tree_begin(struct policy_tree *tree, const char *text, size_t size)
{
    assert(size <= POLICY_EXPRESSION_MAX);
    memcpy(tree->source, text, size);
    tree->source[size] = '\0';
    tree->expression = (struct policy_expression){.nodes = tree->nodes,
                                                  .items = tree->items,
                                                  .texts = tree->texts,
                                                  .source = tree->source,
                                                  .source_size = size};
}

bool
policy_tree_add(struct policy_tree *tree, const struct policy_node *node, size_t *index)
{
    struct policy_expression *expression = &tree->expression;

    *index = expression->count;
    if (expression->count == POLICY_EXPRESSION_NODES_MAX)
        return false;
    expression->nodes[expression->count++] = *node;
    return true;
}

static size_t
add_text(struct policy_tree *tree, size_t start, size_t end)
{
    struct policy_expression *expression = &tree->expression;
    const size_t text = expression->text_size;

    /* Words do not overlap in the source, and there is a NUL of room for each. */
    assert(text + end - start < sizeof(tree->texts));
    memcpy(expression->texts + text, expression->source + start, end - start);
    expression->text_size += end - start;
    expression->texts[expression->text_size++] = '\0';
    return text;
}

bool
policy_tree_add_item(struct policy_tree *tree, const struct policy_token *token, size_t *index)
{
    struct policy_expression *expression = &tree->expression;
    struct policy_item item = {.type = POLICY_TYPE_TEXT, .start = token->start, .end = token->end};
    const size_t quote = token->kind == POLICY_TOKEN_STRING ? 1 : 0;

    *index = expression->item_count;
    if (expression->item_count == POLICY_EXPRESSION_NODES_MAX)
        return false;
    if (token->kind == POLICY_TOKEN_NUMBER) {
        item.type = token->type;
        item.number = token->number;
    } else {
        item.text = add_text(tree, token->start + quote, token->end - quote);
    }
    expression->items[expression->item_count++] = item;
    return true;
}

void
policy_tree_mark_negated(struct policy_tree *tree)
{
    struct policy_expression *expression = &tree->expression;

    for (size_t i = expression->count; i-- > 0;) {
        const struct policy_node *node = &expression->nodes[i];

        if (node->kind == POLICY_NODE_NOT) {
            expression->nodes[node->left].negated = !node->negated;
        } else if (node->kind == POLICY_NODE_AND || node->kind == POLICY_NODE_OR) {
            expression->nodes[node->left].negated = node->negated;
            expression->nodes[node->right].negated = node->negated;
        }
    }
}

struct policy_expression *
policy_tree_copy(const struct policy_tree *tree)
{
    const struct policy_expression *from = &tree->expression;
    const size_t nodes_size = from->count * sizeof(*from->nodes);
    const size_t items_size = from->item_count * sizeof(*from->items);
    struct policy_expression *to = kvt_calloc(1, sizeof(*to) + nodes_size + items_size +
                                                     from->text_size + 1 + from->source_size + 1);

    if (to == NULL)
        return NULL;
    *to = *from;
    to->nodes = (struct policy_node *)(to + 1);
    to->items = (struct policy_item *)(to->nodes + from->count);
    to->texts = (char *)(to->items + from->item_count);
    to->source = to->texts + from->text_size + 1;
    memcpy(to->nodes, from->nodes, nodes_size);
    memcpy(to->items, from->items, items_size);
    memcpy(to->texts, from->texts, from->text_size);
    memcpy(to->source, from->source, from->source_size);
    return to;
}

void
policy_expression_free(struct policy_expression *expression)
{
    kvt_free(expression);
}
