#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parse.h"
#include "kvtier/block.h"

#include "policy/expression_private.h"

enum { SHOWN_MAX = 40, HASH_MAX = 24 };

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
struct parser {
    struct policy_lexer lexer;
    struct policy_expression expression; /* its arrays are those below */
    size_t depth;
    size_t inner; /* parentheses of class(), prefix() and in () that are open */
    size_t owed;  /* closing ones of what was passed over, that may come yet */
    bool stopped;
    struct policy_node nodes[POLICY_EXPRESSION_NODES_MAX];
    struct policy_item items[POLICY_EXPRESSION_NODES_MAX];
    char texts[POLICY_EXPRESSION_MAX + POLICY_EXPRESSION_NODES_MAX];
    char source[POLICY_EXPRESSION_MAX + 1];
};

static bool any(struct parser *parser, size_t *node);
static bool one(struct parser *parser, size_t *node);

static void
next(struct parser *parser)
{
    policy_lexer_next(&parser->lexer);
}

/* There is no room for more of it: nothing is looked at behind. */
static bool
stop(struct parser *parser)
{
    parser->stopped = true;
    return false;
}

static bool
add(struct parser *parser, const struct policy_node *node, size_t *index)
{
    struct policy_expression *expression = &parser->expression;

    if (expression->count == POLICY_EXPRESSION_NODES_MAX) {
        (void)policy_lexer_fail(&parser->lexer, node->start,
                                "an expression of more than %d parts: make classes of some",
                                POLICY_EXPRESSION_NODES_MAX);
        return stop(parser);
    }
    *index = expression->count;
    expression->nodes[expression->count++] = *node;
    return true;
}

static bool
add_text(struct parser *parser, size_t start, size_t end, size_t *text)
{
    struct policy_expression *expression = &parser->expression;

    if (end - start >= POLICY_TEXT_MAX)
        return policy_lexer_fail(&parser->lexer, start, "a word of more than %d bytes",
                                 POLICY_TEXT_MAX - 1);
    /* Words do not overlap in the source, and there is a NUL of room for each. */
    assert(expression->text_size + end - start < sizeof(parser->texts));
    *text = expression->text_size;
    memcpy(expression->texts + expression->text_size, expression->source + start, end - start);
    expression->text_size += end - start;
    expression->texts[expression->text_size++] = '\0';
    return true;
}

/* The token in hand as a value; a word is text. */
static bool
add_item(struct parser *parser, size_t *index)
{
    struct policy_expression *expression = &parser->expression;
    const struct policy_token *token = &parser->lexer.token;
    struct policy_item item = {.type = POLICY_TYPE_TEXT, .start = token->start, .end = token->end};
    const size_t quote = token->kind == POLICY_TOKEN_STRING ? 1 : 0;

    if (expression->item_count == POLICY_EXPRESSION_NODES_MAX) {
        (void)policy_lexer_fail(&parser->lexer, token->start,
                                "more than %d values in an expression: make classes of some",
                                POLICY_EXPRESSION_NODES_MAX);
        return stop(parser);
    }
    if (token->kind == POLICY_TOKEN_NUMBER) {
        item.type = token->type;
        item.number = token->number;
    } else if (!add_text(parser, token->start + quote, token->end - quote, &item.text)) {
        return false;
    }
    *index = expression->item_count;
    expression->items[expression->item_count++] = item;
    return true;
}

static bool
expected(struct parser *parser, const char *what)
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

static bool
is_value(const struct parser *parser)
{
    return parser->lexer.token.kind == POLICY_TOKEN_NUMBER ||
           parser->lexer.token.kind == POLICY_TOKEN_STRING ||
           parser->lexer.token.kind == POLICY_TOKEN_WORD;
}

static enum policy_fact
fact_of(const struct parser *parser)
{
    const struct policy_token *token = &parser->lexer.token;

    if (token->kind != POLICY_TOKEN_WORD)
        return POLICY_FACT_COUNT;
    return policy_fact_find(parser->lexer.source + token->start, token->end - token->start);
}

/* ---- leaves ---- */

static bool
unknown_word(struct parser *parser)
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
    if (near != NULL)
        return policy_lexer_fail(&parser->lexer, token.start,
                                 "unknown fact \"%s\" (did you mean \"%s\"?)", word, near);
    return policy_lexer_fail(&parser->lexer, token.start, "unknown fact \"%s\"", word);
}

/* The parenthesis behind what was in one, and the leaf is whole. */
static bool
close(struct parser *parser, const char *wanted, struct policy_node *node, size_t *index)
{
    if (parser->lexer.token.kind != POLICY_TOKEN_CLOSE)
        return expected(parser, wanted);
    parser->inner--;
    node->end = parser->lexer.token.end;
    next(parser);
    return add(parser, node, index);
}

/* class(NAME), with class in hand. */
static bool
class_(struct parser *parser, size_t *index)
{
    struct policy_node node = {.kind = POLICY_NODE_CLASS, .start = parser->lexer.token.start};

    next(parser);
    if (parser->lexer.token.kind != POLICY_TOKEN_OPEN)
        return expected(parser, "( behind class");
    parser->inner++;
    next(parser);
    if (parser->lexer.token.kind != POLICY_TOKEN_WORD)
        return expected(parser, "the name of a class");
    if (!add_item(parser, &node.item))
        return false;
    next(parser);
    node.item_count = 1;
    return close(parser, ")", &node, index);
}

/* prefix(HASH), with prefix in hand. */
static bool
prefix(struct parser *parser, size_t *index)
{
    struct policy_node node = {.kind = POLICY_NODE_PREFIX, .start = parser->lexer.token.start};
    char text[HASH_MAX] = "";
    size_t size;

    next(parser);
    if (parser->lexer.token.kind != POLICY_TOKEN_OPEN)
        return expected(parser, "( behind prefix");
    parser->inner++;
    policy_lexer_next_raw(&parser->lexer);
    size = parser->lexer.token.end - parser->lexer.token.start;
    if (size < sizeof(text))
        memcpy(text, parser->lexer.source + parser->lexer.token.start, size);
    if (!kvt_hash_parse(text, &node.hash))
        return policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                 "prefix() wants a block's hash: sixteen hex digits or 0x...");
    next(parser);
    return close(parser, ")", &node, index);
}

/* fact in (a, b), with in in hand. */
static bool
in(struct parser *parser, struct policy_node *node, size_t *index)
{
    const struct policy_token operator_ = parser->lexer.token;

    node->kind = POLICY_NODE_IN;
    node->item = parser->expression.item_count;
    next(parser);
    if (parser->lexer.token.kind != POLICY_TOKEN_OPEN)
        return expected(parser, "( behind in");
    parser->inner++;
    do {
        size_t item;

        next(parser);
        if (!is_value(parser))
            return expected(parser, "a value");
        if (!add_item(parser, &item))
            return false;
        /* The other values of the list may be wrong by themselves. */
        (void)policy_expression_fits(&parser->lexer, node->fact, &operator_,
                                     &parser->expression.items[item]);
        next(parser);
        node->item_count++;
    } while (parser->lexer.token.kind == POLICY_TOKEN_COMMA);
    return close(parser, ", or )", node, index);
}

static bool
not_in(struct parser *parser, struct policy_node *node, size_t *index)
{
    struct policy_node not = {.kind = POLICY_NODE_NOT, .start = node->start};

    next(parser);
    if (!policy_lexer_is(&parser->lexer, "in"))
        return expected(parser, "in");
    if (!in(parser, node, &not .left))
        return false;
    not .end = node->end;
    return add(parser, &not, index);
}

/* What stands behind a fact: operator and value, or operator and fact. */
static bool
compare(struct parser *parser, struct policy_node *node, size_t *index)
{
    const struct policy_token operator_ = parser->lexer.token;

    if (operator_.kind != POLICY_TOKEN_OPERATOR)
        return expected(parser, "an operator (== != < <= > >= ~ in)");
    node->operator_ = operator_.operator_;
    next(parser);
    if (!is_value(parser))
        return expected(parser, "a value");
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
                                    &parser->expression.items[node->item]))
            return false;
    }
    node->end = parser->lexer.token.end;
    if (!add(parser, node, index))
        return false;
    next(parser);
    if (parser->lexer.token.kind == POLICY_TOKEN_OPERATOR)
        return policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                 "a comparison has one operator: write two with \"and\"");
    return true;
}

/* value operator fact: the same the other way round. */
static bool
compare_back(struct parser *parser, size_t *index)
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
    next(parser);
    operator_ = parser->lexer.token;
    if (operator_.kind != POLICY_TOKEN_OPERATOR)
        return expected(parser, "an operator (== != < <= > >=)");
    if (operator_.operator_ == POLICY_LIKE)
        return policy_lexer_fail(&parser->lexer, operator_.start,
                                 "the pattern stands behind ~: model ~ \"llama-*\"");
    node.operator_ = mirror[operator_.operator_];
    next(parser);
    node.fact = fact_of(parser);
    if (node.fact == POLICY_FACT_COUNT)
        return expected(parser, "a fact");
    node.end = parser->lexer.token.end;
    if (!policy_expression_fits(&parser->lexer, node.fact, &operator_,
                                &parser->expression.items[node.item]) ||
        !add(parser, &node, index))
        return false;
    next(parser);
    if (parser->lexer.token.kind == POLICY_TOKEN_OPERATOR)
        return policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                 "a comparison has one operator: write two with \"and\"");
    return true;
}

static bool
fact(struct parser *parser, size_t *index)
{
    struct policy_node node = {.fact = fact_of(parser),
                               .start = parser->lexer.token.start,
                               .end = parser->lexer.token.end};

    if (node.fact == POLICY_FACT_COUNT)
        return unknown_word(parser);
    next(parser);
    if (policy_fact_rows[node.fact].type == POLICY_TYPE_BOOL) {
        node.kind = POLICY_NODE_FLAG;
        if (parser->lexer.token.kind == POLICY_TOKEN_OPERATOR)
            return policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                     "%s is true or false by itself: write \"%s\" or \"not %s\"",
                                     policy_fact_rows[node.fact].name,
                                     policy_fact_rows[node.fact].name,
                                     policy_fact_rows[node.fact].name);
        return add(parser, &node, index);
    }
    if (policy_lexer_is(&parser->lexer, "in"))
        return in(parser, &node, index);
    if (policy_lexer_is(&parser->lexer, "not"))
        return not_in(parser, &node, index);
    return compare(parser, &node, index);
}

static bool
constant(struct parser *parser, size_t *index)
{
    const struct policy_node node = {.kind = POLICY_NODE_CONSTANT,
                                     .constant = policy_lexer_is(&parser->lexer, "true"),
                                     .start = parser->lexer.token.start,
                                     .end = parser->lexer.token.end};

    next(parser);
    return add(parser, &node, index);
}

/* ---- what leaves make ---- */

static bool
deeper(struct parser *parser)
{
    if (parser->depth == POLICY_EXPRESSION_DEPTH_MAX) {
        (void)policy_lexer_fail(&parser->lexer, parser->lexer.token.start,
                                "more than %d parentheses and nots within one another",
                                POLICY_EXPRESSION_DEPTH_MAX);
        return stop(parser);
    }
    parser->depth++;
    return true;
}

static bool
is_connector(const struct parser *parser)
{
    return policy_lexer_is(&parser->lexer, "and") || policy_lexer_is(&parser->lexer, "or");
}

/* What is wrong was told: go on behind it, at the next "and", "or" or closing parenthesis that is
 * not of its own.  False: nothing more is looked at. */
static bool
recover(struct parser *parser, size_t *index)
{
    const struct policy_node node = {.kind = POLICY_NODE_CONSTANT};
    const size_t inner = parser->inner;
    size_t level = inner;

    parser->inner = 0;
    for (; parser->lexer.token.kind != POLICY_TOKEN_END; next(parser)) {
        if (parser->lexer.token.kind == POLICY_TOKEN_OPEN)
            level++;
        if (parser->lexer.token.kind == POLICY_TOKEN_CLOSE && level-- == 0)
            break;
        /* In class() there is none of both: its parenthesis is missing, or comes behind. */
        if (is_connector(parser) && level <= inner) {
            parser->owed += level;
            break;
        }
    }
    return !parser->stopped && add(parser, &node, index);
}

/* What stands where a condition has ended, up to its closing parenthesis (`within`) or the end: it
 * is told, and looked at for itself.  False: nothing more is looked at. */
static bool
rest(struct parser *parser, bool within, const char *wanted)
{
    const struct policy_token *token = &parser->lexer.token;
    size_t unused;

    while (token->kind != POLICY_TOKEN_END) {
        const bool closes = token->kind == POLICY_TOKEN_CLOSE;

        if (closes && parser->owed > 0)
            parser->owed--;
        else if (closes && within)
            return true;
        else if (!is_connector(parser))
            (void)expected(parser, wanted);
        if (closes || is_connector(parser) || token->kind == POLICY_TOKEN_WRONG)
            next(parser);
        if (token->kind == POLICY_TOKEN_END || token->kind == POLICY_TOKEN_CLOSE ||
            is_connector(parser))
            continue;
        if (!any(parser, &unused))
            return false;
    }
    return true;
}

static bool
strictly_one(struct parser *parser, size_t *index)
{
    const struct policy_lexer *lexer = &parser->lexer;
    struct policy_node node = {.kind = POLICY_NODE_NOT, .start = lexer->token.start};

    if (lexer->token.kind == POLICY_TOKEN_OPEN) {
        if (!deeper(parser))
            return false;
        next(parser);
        if (!any(parser, index) || !rest(parser, true, "\"and\", \"or\" or )"))
            return false;
        if (lexer->token.kind != POLICY_TOKEN_CLOSE)
            return expected(parser, "\"and\", \"or\" or )");
        parser->depth--;
        next(parser);
        return true;
    }
    if (policy_lexer_is(lexer, "not")) {
        if (!deeper(parser))
            return false;
        next(parser);
        if (!one(parser, &node.left))
            return false;
        parser->depth--;
        node.end = parser->expression.nodes[node.left].end;
        return add(parser, &node, index);
    }
    if (policy_lexer_is(lexer, "true") || policy_lexer_is(lexer, "false"))
        return constant(parser, index);
    if (policy_lexer_is(lexer, "class"))
        return class_(parser, index);
    if (policy_lexer_is(lexer, "prefix"))
        return prefix(parser, index);
    if (lexer->token.kind == POLICY_TOKEN_WORD && !is_connector(parser) &&
        !policy_lexer_is(lexer, "in"))
        return fact(parser, index);
    if (lexer->token.kind == POLICY_TOKEN_NUMBER || lexer->token.kind == POLICY_TOKEN_STRING)
        return compare_back(parser, index);
    return expected(parser, "a condition");
}

static bool
one(struct parser *parser, size_t *index)
{
    const size_t depth = parser->depth;

    if (strictly_one(parser, index))
        return true;
    parser->depth = depth;
    return recover(parser, index);
}

static bool
chain(struct parser *parser, size_t *index, const char *word, enum policy_node_kind kind,
      bool (*part)(struct parser *parser, size_t *index))
{
    if (!part(parser, index))
        return false;
    while (policy_lexer_is(&parser->lexer, word)) {
        struct policy_node node = {.kind = kind, .left = *index};

        next(parser);
        if (!part(parser, &node.right))
            return false;
        node.start = parser->expression.nodes[node.left].start;
        node.end = parser->expression.nodes[node.right].end;
        if (!add(parser, &node, index))
            return false;
    }
    return true;
}

static bool
all(struct parser *parser, size_t *index)
{
    return chain(parser, index, "and", POLICY_NODE_AND, one);
}

static bool
any(struct parser *parser, size_t *index)
{
    return chain(parser, index, "or", POLICY_NODE_OR, all);
}

/* A part below an odd number of nots helps by being false. */
static void
mark_negated(struct policy_expression *expression)
{
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

/* As large as it is, and not as it could have been: a policy has many. */
static struct policy_expression *
copy(const struct policy_expression *from)
{
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

/* What could be read of it, and what is wrong.  KVT_OK also where something is. */
static enum kvt_err
read(struct policy_expression **out, const char *text, size_t size, struct policy_faults *faults)
{
    struct policy_lexer lexer = {.size = size, .faults = faults};
    struct parser *parser;
    size_t index;

    *out = NULL;
    *faults = (struct policy_faults){.count = 0};
    if (size > POLICY_EXPRESSION_MAX) {
        (void)policy_lexer_fail(&lexer, POLICY_EXPRESSION_MAX,
                                "an expression of more than %d bytes: make classes of some",
                                POLICY_EXPRESSION_MAX);
        return KVT_OK;
    }
    parser = kvt_calloc(1, sizeof(*parser));
    if (parser == NULL)
        return KVT_NOMEM;
    memcpy(parser->source, text, size);
    parser->lexer = lexer;
    parser->lexer.source = parser->source;
    parser->expression = (struct policy_expression){.nodes = parser->nodes,
                                                    .items = parser->items,
                                                    .texts = parser->texts,
                                                    .source = parser->source,
                                                    .source_size = size};
    next(parser);
    if (any(parser, &index) && rest(parser, false, "\"and\" or \"or\"") && faults->count == 0) {
        assert(index + 1 == parser->expression.count);
        mark_negated(&parser->expression);
    }
    *out = copy(&parser->expression);
    kvt_free(parser);
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

enum kvt_err
policy_expression_parse(struct policy_expression **out, const char *text, size_t size,
                        struct policy_faults *faults)
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
    struct policy_faults faults;

    return read(out, text, size, &faults);
}

void
policy_expression_free(struct policy_expression *expression)
{
    kvt_free(expression);
}
