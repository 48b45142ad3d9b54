#include <string.h>

#include "base/text/parse.h"
#include "kvtier/block.h"

#include "policy/expression/expression_parser.h"

/* A single comparison, and all else that stands between "and" and "or". */

enum { SHOWN_MAX = 40, HASH_MAX = 24 };

bool
policy_parser_expected(struct policy_parser *parser, const char *what)
{
    const struct policy_token *token = &parser->lexer.token;
    const size_t size = token->end - token->start;

    if (token->kind == POLICY_TOKEN_WRONG)
        return false; /* which was told */
    if (token->kind == POLICY_TOKEN_END)
        return policy_lexer_fail(&parser->lexer, token->start, "%s is missing at the end", what);
    return policy_lexer_fail(&parser->lexer, token->start, "%s is wanted before \"%.*s\"", what,
                             (int)(size < SHOWN_MAX ? size : SHOWN_MAX),
                             parser->lexer.source + token->start);
}

bool
policy_parser_add(struct policy_parser *parser, const struct policy_node *node, size_t *index)
{
    if (policy_tree_add(&parser->tree, node, index))
        return true;
    (void)policy_lexer_fail(&parser->lexer, node->start,
                            "an expression of more than %d parts: make classes of some",
                            POLICY_EXPRESSION_NODES_MAX);
    parser->stopped = true;
    return false;
}

/* The token in hand as a value; a word is text. */
static bool
add_item(struct policy_parser *parser, size_t *index)
{
    const struct policy_token *token = &parser->lexer.token;
    const size_t start = token->start + (token->kind == POLICY_TOKEN_STRING);
    const size_t end = token->end - (token->kind == POLICY_TOKEN_STRING);

    *index = 0;
    if (token->kind != POLICY_TOKEN_NUMBER && end - start >= POLICY_TEXT_MAX)
        return policy_lexer_fail(&parser->lexer, start, "a word of more than %d bytes",
                                 POLICY_TEXT_MAX - 1);
    if (policy_tree_add_item(&parser->tree, token, index))
        return true;
    (void)policy_lexer_fail(&parser->lexer, token->start,
                            "more than %d values in an expression: make classes of some",
                            POLICY_EXPRESSION_NODES_MAX);
    parser->stopped = true;
    return false;
}

static bool
is_value(const struct policy_parser *parser)
{
    return parser->lexer.token.kind == POLICY_TOKEN_NUMBER ||
           parser->lexer.token.kind == POLICY_TOKEN_STRING ||
           parser->lexer.token.kind == POLICY_TOKEN_WORD;
}

static enum policy_fact
fact_of(const struct policy_parser *parser)
{
    const struct policy_token *token = &parser->lexer.token;

    if (token->kind != POLICY_TOKEN_WORD)
        return POLICY_FACT_COUNT;
    return policy_fact_find(parser->lexer.source + token->start, token->end - token->start);
}

static bool
is_function(const char *word)
{
    return strcmp(word, "class") == 0 || strcmp(word, "prefix") == 0;
}

/* Is a parenthesis right behind the word in hand?  Behind a blank it may be a "not" misspelt. */
static bool
is_called(const struct policy_parser *parser)
{
    return parser->lexer.source[parser->lexer.token.end] == '(';
}

static bool
unknown_word(struct policy_parser *parser)
{
    static const char *const others[] = {"class", "prefix", "not", "true", "false"};
    enum { OTHERS = sizeof(others) / sizeof(others[0]) };
    const struct policy_token token = parser->lexer.token;
    const char *words[POLICY_FACT_COUNT + OTHERS];
    char word[SHOWN_MAX + 1] = "";
    const char *near;

    memcpy(word, parser->lexer.source + token.start,
           token.end - token.start < SHOWN_MAX ? token.end - token.start : SHOWN_MAX);
    for (size_t i = 0; i < POLICY_FACT_COUNT; i++)
        words[i] = policy_fact_rows[i].name;
    memcpy(words + POLICY_FACT_COUNT, others, sizeof(others));
    near = kvt_suggest(word, words, POLICY_FACT_COUNT + OTHERS);
    if (is_called(parser) && (near == NULL || !is_function(near)))
        return policy_lexer_fail(&parser->lexer, token.start,
                                 "unknown function \"%s\": there are class() and prefix()", word);
    if (near != NULL)
        return policy_lexer_fail(&parser->lexer, token.start,
                                 "unknown fact \"%s\" (did you mean \"%s\"?)", word, near);
    return policy_lexer_fail(&parser->lexer, token.start, "unknown fact \"%s\"", word);
}

/* The parenthesis behind what was in one, and the leaf is whole. */
static bool
close(struct policy_parser *parser, const char *wanted, struct policy_node *node, size_t *index)
{
    if (parser->lexer.token.kind != POLICY_TOKEN_CLOSE)
        return policy_parser_expected(parser, wanted);
    parser->inner--;
    node->end = parser->lexer.token.end;
    policy_parser_next(parser);
    return policy_parser_add(parser, node, index);
}

/* class(NAME), with class in hand. */
static bool
class_(struct policy_parser *parser, size_t *index)
{
    struct policy_node node = {.kind = POLICY_NODE_CLASS, .start = parser->lexer.token.start};

    policy_parser_next(parser);
    if (parser->lexer.token.kind != POLICY_TOKEN_OPEN)
        return policy_parser_expected(parser, "( behind class");
    parser->inner++;
    policy_parser_next(parser);
    if (parser->lexer.token.kind != POLICY_TOKEN_WORD)
        return policy_parser_expected(parser, "the name of a class");
    if (!add_item(parser, &node.item))
        return false;
    policy_parser_next(parser);
    node.item_count = 1;
    return close(parser, ")", &node, index);
}

/* prefix(HASH), with prefix in hand. */
static bool
prefix(struct policy_parser *parser, size_t *index)
{
    struct policy_node node = {.kind = POLICY_NODE_PREFIX, .start = parser->lexer.token.start};
    char text[HASH_MAX] = "";
    size_t size;

    policy_parser_next(parser);
    if (parser->lexer.token.kind != POLICY_TOKEN_OPEN)
        return policy_parser_expected(parser, "( behind prefix");
    parser->inner++;
    policy_lexer_next_raw(&parser->lexer);
    size = parser->lexer.token.end - parser->lexer.token.start;
    if (size < sizeof(text))
        memcpy(text, parser->lexer.source + parser->lexer.token.start, size);
    if (!kvt_hash_parse(text, &node.hash))
        return policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                 "prefix() wants a block's hash: sixteen hex digits or 0x...");
    policy_parser_next(parser);
    return close(parser, ")", &node, index);
}

/* fact in (a, b), with in in hand. */
static bool
in(struct policy_parser *parser, struct policy_node *node, size_t *index)
{
    const struct policy_token operator_ = parser->lexer.token;

    node->kind = POLICY_NODE_IN;
    node->item = parser->tree.expression.item_count;
    policy_parser_next(parser);
    if (parser->lexer.token.kind != POLICY_TOKEN_OPEN)
        return policy_parser_expected(parser, "( behind in");
    parser->inner++;
    do {
        size_t item;

        policy_parser_next(parser);
        if (!is_value(parser))
            return policy_parser_expected(parser, "a value");
        if (!add_item(parser, &item))
            return false;
        /* The other values of the list may be wrong by themselves. */
        (void)policy_expression_fits(&parser->lexer, node->fact, &operator_,
                                     &parser->tree.expression.items[item]);
        policy_parser_next(parser);
        node->item_count++;
    } while (parser->lexer.token.kind == POLICY_TOKEN_COMMA);
    return close(parser, ", or )", node, index);
}

static bool
not_in(struct policy_parser *parser, struct policy_node *node, size_t *index)
{
    struct policy_node not = {.kind = POLICY_NODE_NOT, .start = node->start};

    policy_parser_next(parser);
    if (!policy_lexer_is(&parser->lexer, "in"))
        return policy_parser_expected(parser, "in");
    if (!in(parser, node, &not .left))
        return false;
    not .end = node->end;
    return policy_parser_add(parser, &not, index);
}

/* What stands behind a fact: operator and value, or operator and fact. */
static bool
compare(struct policy_parser *parser, struct policy_node *node, size_t *index)
{
    const struct policy_token operator_ = parser->lexer.token;

    if (operator_.kind != POLICY_TOKEN_OPERATOR)
        return policy_parser_expected(parser, "an operator (== != < <= > >= ~ in)");
    node->operator_ = operator_.operator_;
    policy_parser_next(parser);
    if (!is_value(parser))
        return policy_parser_expected(parser, "a value");
    node->other = fact_of(parser);
    if (node->other != POLICY_FACT_COUNT) {
        node->kind = POLICY_NODE_FACTS;
        if (!policy_expression_fits_fact(&parser->lexer, node->fact, &operator_,
                                         &parser->lexer.token))
            return false;
    } else {
        node->kind = operator_.operator_ == POLICY_LIKE ? POLICY_NODE_GLOB : POLICY_NODE_COMPARE;
        node->item_count = 1;
        if (!add_item(parser, &node->item) ||
            !policy_expression_fits(&parser->lexer, node->fact, &operator_,
                                    &parser->tree.expression.items[node->item]))
            return false;
    }
    node->end = parser->lexer.token.end;
    if (!policy_parser_add(parser, node, index))
        return false;
    policy_parser_next(parser);
    if (parser->lexer.token.kind == POLICY_TOKEN_OPERATOR)
        return policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                 "a comparison has one operator: write two with \"and\"");
    return true;
}

/* value operator fact: the same the other way round. */
static bool
compare_back(struct policy_parser *parser, size_t *index)
{
    static const enum policy_operator mirror[] = {
        [POLICY_EQUAL] = POLICY_EQUAL, [POLICY_UNEQUAL] = POLICY_UNEQUAL,
        [POLICY_BELOW] = POLICY_ABOVE, [POLICY_AT_MOST] = POLICY_AT_LEAST,
        [POLICY_ABOVE] = POLICY_BELOW, [POLICY_AT_LEAST] = POLICY_AT_MOST,
        [POLICY_LIKE] = POLICY_LIKE,
    };
    struct policy_node node = {
        .kind = POLICY_NODE_COMPARE, .item_count = 1, .start = parser->lexer.token.start};
    struct policy_token operator_;

    if (!add_item(parser, &node.item))
        return false;
    policy_parser_next(parser);
    operator_ = parser->lexer.token;
    if (operator_.kind != POLICY_TOKEN_OPERATOR)
        return policy_parser_expected(parser, "an operator (== != < <= > >=)");
    if (operator_.operator_ == POLICY_LIKE)
        return policy_lexer_fail(&parser->lexer, operator_.start,
                                 "the pattern stands behind ~: model ~ \"llama-*\"");
    node.operator_ = mirror[operator_.operator_];
    policy_parser_next(parser);
    node.fact = fact_of(parser);
    if (node.fact == POLICY_FACT_COUNT)
        return policy_parser_expected(parser, "a fact");
    node.end = parser->lexer.token.end;
    if (!policy_expression_fits(&parser->lexer, node.fact, &operator_,
                                &parser->tree.expression.items[node.item]) ||
        !policy_parser_add(parser, &node, index))
        return false;
    policy_parser_next(parser);
    if (parser->lexer.token.kind == POLICY_TOKEN_OPERATOR)
        return policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                 "a comparison has one operator: write two with \"and\"");
    return true;
}

static bool
fact(struct policy_parser *parser, size_t *index)
{
    struct policy_node node = {.fact = fact_of(parser),
                               .start = parser->lexer.token.start,
                               .end = parser->lexer.token.end};

    if (node.fact == POLICY_FACT_COUNT)
        return unknown_word(parser);
    policy_parser_next(parser);
    if (policy_fact_rows[node.fact].type == POLICY_TYPE_BOOL) {
        node.kind = POLICY_NODE_FLAG;
        if (parser->lexer.token.kind == POLICY_TOKEN_OPERATOR)
            return policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                     "%s is true or false by itself: write \"%s\" or \"not %s\"",
                                     policy_fact_rows[node.fact].name,
                                     policy_fact_rows[node.fact].name,
                                     policy_fact_rows[node.fact].name);
        return policy_parser_add(parser, &node, index);
    }
    if (policy_lexer_is(&parser->lexer, "in"))
        return in(parser, &node, index);
    if (policy_lexer_is(&parser->lexer, "not"))
        return not_in(parser, &node, index);
    return compare(parser, &node, index);
}

static bool
constant(struct policy_parser *parser, size_t *index)
{
    const struct policy_node node = {.kind = POLICY_NODE_CONSTANT,
                                     .constant = policy_lexer_is(&parser->lexer, "true"),
                                     .start = parser->lexer.token.start,
                                     .end = parser->lexer.token.end};

    policy_parser_next(parser);
    return policy_parser_add(parser, &node, index);
}

bool
policy_parser_leaf(struct policy_parser *parser, size_t *index)
{
    const struct policy_lexer *lexer = &parser->lexer;

    if (policy_lexer_is(lexer, "true") || policy_lexer_is(lexer, "false"))
        return constant(parser, index);
    if (policy_lexer_is(lexer, "class"))
        return class_(parser, index);
    if (policy_lexer_is(lexer, "prefix"))
        return prefix(parser, index);
    if (lexer->token.kind == POLICY_TOKEN_WORD && !policy_parser_joins(parser) &&
        !policy_lexer_is(lexer, "in"))
        return fact(parser, index);
    if (lexer->token.kind == POLICY_TOKEN_NUMBER || lexer->token.kind == POLICY_TOKEN_STRING)
        return compare_back(parser, index);
    return policy_parser_expected(parser, "a condition");
}
