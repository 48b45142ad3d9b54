/*
 * policy/expression/expression_parser.h -- what reads a condition, while it reads.
 *
 * Why: what is made (expression_tree.c), a single comparison (expression_leaf.c) and what joins
 * comparisons (expression_parse.c) are a page each.
 * Ownership: a parser owns its tree; policy_tree_copy() makes what outlives it.
 * Limits:    POLICY_EXPRESSION_NODES_MAX nodes and as many values, POLICY_EXPRESSION_MAX bytes.
 */
#ifndef POLICY_EXPRESSION_EXPRESSION_PARSER_H
#define POLICY_EXPRESSION_EXPRESSION_PARSER_H

#include "policy/expression/expression_private.h"

/* As large as an expression can be. */
struct policy_tree {
    struct policy_expression expression; /* its arrays are those below */
    struct policy_node nodes[POLICY_EXPRESSION_NODES_MAX];
    struct policy_item items[POLICY_EXPRESSION_NODES_MAX];
    char texts[POLICY_EXPRESSION_MAX + POLICY_EXPRESSION_NODES_MAX];
    char source[POLICY_EXPRESSION_MAX + 1];
};

struct policy_parser {
    struct policy_lexer lexer;
    struct policy_tree tree;
    size_t depth;
    size_t inner; /* parentheses of class(), prefix() and in () that are open */
    size_t owed;  /* closing ones of what was passed over, that may come yet */
    bool stopped; /* there is no room for more of it: nothing is looked at behind */
};

/* ---- expression_tree.c ---- */

/** Begin a tree of `size` bytes at `text`, at most POLICY_EXPRESSION_MAX. */
void policy_tree_begin(struct policy_tree *tree, const char *text, size_t size);

/** Put a node behind its children.  False: it is full. */
KVT_NODISCARD bool policy_tree_add(struct policy_tree *tree, const struct policy_node *node,
                                   size_t *index);

/** Put in the value that a token is; a word is text, of fewer than POLICY_TEXT_MAX bytes.  False:
 *  it is full. */
KVT_NODISCARD bool policy_tree_add_item(struct policy_tree *tree, const struct policy_token *token,
                                        size_t *index);

/** Mark the parts below an odd number of nots: they help by being false. */
void policy_tree_mark_negated(struct policy_tree *tree);

/** As large as it is, and not as it could have been: a policy has many.  NULL: no memory. */
struct policy_expression *policy_tree_copy(const struct policy_tree *tree);

/* ---- expression_leaf.c ---- */

/** Say that `what` is wanted at the token in hand, unless that was told to be none.  Always
 *  false. */
bool policy_parser_expected(struct policy_parser *parser, const char *what);

/** Put a node into the tree.  False: it is full, which was told, and the parser stops. */
bool policy_parser_add(struct policy_parser *parser, const struct policy_node *node, size_t *index);

/** A comparison, a flag, a constant, class() or prefix(), with its first token in hand.  False: it
 *  is none, which was told. */
bool policy_parser_leaf(struct policy_parser *parser, size_t *index);

static inline void
policy_parser_next(struct policy_parser *parser)
{
    policy_lexer_next(&parser->lexer);
}

/** Is the token in hand "and" or "or"? */
static inline bool
policy_parser_joins(const struct policy_parser *parser)
{
    return policy_lexer_is(&parser->lexer, "and") || policy_lexer_is(&parser->lexer, "or");
}

#endif /* POLICY_EXPRESSION_EXPRESSION_PARSER_H */
