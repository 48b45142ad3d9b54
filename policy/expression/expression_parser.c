#include "policy/expression/expression_parser.h"

#include <assert.h>

#include "base/core/alloc.h"

/*
 *   any   = all { "or" all }
 *   all   = one { "and" one }
 *   one   = "not" one | "(" any ")" | "true" | "false"
 *         | "class" "(" name ")" | "prefix" "(" hash ")" | flag
 *         | fact operator value | value operator fact | fact operator fact
 *         | fact [ "not" ] "in" "(" value { "," value } ")"
 *
 * Only parentheses and nots recurse, and those are counted.
 */
static bool any(struct policy_parser *parser, size_t *index);
static bool one(struct policy_parser *parser, size_t *index);

static bool
deeper(struct policy_parser *parser)
{
    if (parser->depth == POLICY_EXPRESSION_DEPTH_MAX) {
        (void)policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                "more than %d parentheses and nots within one another",
                                POLICY_EXPRESSION_DEPTH_MAX);
        parser->stopped = true;
        return false;
    }
    parser->depth++;
    return true;
}

/* What is wrong was told: go on behind it, at the next "and", "or" or closing parenthesis that is
 * not of its own.  False: nothing more is looked at. */
static bool
recover(struct policy_parser *parser, size_t *index)
{
    const struct policy_node node = {.kind = POLICY_NODE_CONSTANT};
    const size_t inner = parser->inner;
    size_t level = inner;

    parser->inner = 0;
    for (; parser->lexer.token.kind != POLICY_TOKEN_END; policy_parser_next(parser)) {
        if (parser->lexer.token.kind == POLICY_TOKEN_OPEN)
            level++;
        if (parser->lexer.token.kind == POLICY_TOKEN_CLOSE && level-- == 0)
            break;
        /* In class() there is none of both: its parenthesis is missing, or comes behind. */
        if (policy_parser_joins(parser) && level <= inner) {
            parser->owed += level;
            break;
        }
    }
    return !parser->stopped && policy_parser_add(parser, &node, index);
}

/* What stands where a condition has ended, up to its closing parenthesis (`within`) or the end: it
 * is told, and looked at for itself.  False: nothing more is looked at. */
static bool
rest(struct policy_parser *parser, bool within, const char *wanted)
{
    const struct policy_token *token = &parser->lexer.token;
    size_t unused;

    while (token->kind != POLICY_TOKEN_END) {
        const bool closes = token->kind == POLICY_TOKEN_CLOSE;

        if (closes && parser->owed > 0)
            parser->owed--;
        else if (closes && within)
            return true;
        else if (!policy_parser_joins(parser))
            (void)policy_parser_expected(parser, wanted);
        if (closes || policy_parser_joins(parser) || token->kind == POLICY_TOKEN_WRONG)
            policy_parser_next(parser);
        if (token->kind == POLICY_TOKEN_END || token->kind == POLICY_TOKEN_CLOSE ||
            policy_parser_joins(parser))
            continue;
        if (!any(parser, &unused))
            return false;
    }
    return true;
}

static bool
strictly_one(struct policy_parser *parser, size_t *index)
{
    const struct policy_lexer *lexer = &parser->lexer;
    struct policy_node node = {.kind = POLICY_NODE_NOT, .start = lexer->token.start};

    if (lexer->token.kind == POLICY_TOKEN_OPEN) {
        if (!deeper(parser))
            return false;
        policy_parser_next(parser);
        if (!any(parser, index) || !rest(parser, true, "\"and\", \"or\" or )"))
            return false;
        if (lexer->token.kind != POLICY_TOKEN_CLOSE)
            return policy_parser_expected(parser, "\"and\", \"or\" or )");
        parser->depth--;
        policy_parser_next(parser);
        return true;
    }
    if (policy_lexer_is(lexer, "not")) {
        if (!deeper(parser))
            return false;
        policy_parser_next(parser);
        if (!one(parser, &node.left))
            return false;
        parser->depth--;
        node.end = parser->tree.expression.nodes[node.left].end;
        return policy_parser_add(parser, &node, index);
    }
    return policy_parser_leaf(parser, index);
}

static bool
one(struct policy_parser *parser, size_t *index)
{
    const size_t depth = parser->depth;

    if (strictly_one(parser, index))
        return true;
    parser->depth = depth;
    return recover(parser, index);
}

static bool
chain(struct policy_parser *parser, size_t *index, const char *word, enum policy_node_kind kind,
      bool (*part)(struct policy_parser *parser, size_t *index))
{
    if (!part(parser, index))
        return false;
    while (policy_lexer_is(&parser->lexer, word)) {
        struct policy_node node = {.kind = kind, .left = *index};

        policy_parser_next(parser);
        if (!part(parser, &node.right))
            return false;
        node.start = parser->tree.expression.nodes[node.left].start;
        node.end = parser->tree.expression.nodes[node.right].end;
        if (!policy_parser_add(parser, &node, index))
            return false;
    }
    return true;
}

static bool
all(struct policy_parser *parser, size_t *index)
{
    return chain(parser, index, "and", POLICY_NODE_AND, one);
}

static bool
any(struct policy_parser *parser, size_t *index)
{
    return chain(parser, index, "or", POLICY_NODE_OR, all);
}

/* What could be read of it, and what is wrong.  KVT_OK also where something is. */
static enum kvt_err
read(struct policy_expression **out, const char *text, size_t size,
     struct policy_expression_errors *faults)
{
    struct policy_lexer lexer = {.size = size, .faults = faults};
    struct policy_parser *parser;
    size_t index;

    *out = NULL;
    *faults = (struct policy_expression_errors){.count = 0};
    if (size > POLICY_EXPRESSION_MAX) {
        (void)policy_lexer_fail(&lexer, POLICY_EXPRESSION_MAX,
                                "an expression of more than %d bytes: make classes of some",
                                POLICY_EXPRESSION_MAX);
        return KVT_OK;
    }
    parser = kvt_calloc(1, sizeof(*parser));
    if (parser == NULL)
        return KVT_NOMEM;
    policy_tree_begin(&parser->tree, text, size);
    parser->lexer = lexer;
    parser->lexer.source = parser->tree.source;
    policy_parser_next(parser);
    if (any(parser, &index) && rest(parser, false, "\"and\" or \"or\"") && faults->count == 0) {
        assert(index + 1 == parser->tree.expression.count);
        policy_tree_mark_negated(&parser->tree);
    }
    *out = policy_tree_copy(&parser->tree);
    kvt_free(parser);
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

enum kvt_err
policy_expression_parse(struct policy_expression **out, const char *text, size_t size,
                        struct policy_expression_errors *faults)
{
    const enum kvt_err rc = read(out, text, size, faults);

    if (rc != KVT_OK || faults->count == 0)
        return rc;
    policy_expression_free(*out);
    *out = NULL;
    return KVT_INVALID;
}

enum kvt_err
policy_expression_parse_names(struct policy_expression **out, const char *text, size_t size)
{
    struct policy_expression_errors faults;

    return read(out, text, size, &faults);
}
