/*
 * policy/expression/expression_private.h -- what the files expression*.c share.
 *
 * Why: words, grammar, types, evaluation and printing are each a page of their own.
 * Ownership: as policy/expression/expression.h.
 * Threads:   as policy/expression/expression.h.
 * Limits:    as policy/expression/expression.h.
 */
#ifndef POLICY_EXPRESSION_EXPRESSION_PRIVATE_H
#define POLICY_EXPRESSION_EXPRESSION_PRIVATE_H

#include "policy/expression/expression.h"

enum policy_node_kind {
    POLICY_NODE_CONSTANT,
    POLICY_NODE_FLAG,    /* a BOOL fact */
    POLICY_NODE_COMPARE, /* fact, operator, item */
    POLICY_NODE_FACTS,   /* fact, operator, other fact */
    POLICY_NODE_IN,      /* fact, items */
    POLICY_NODE_GLOB,    /* fact, item */
    POLICY_NODE_CLASS,
    POLICY_NODE_PREFIX,
    POLICY_NODE_NOT,
    POLICY_NODE_AND,
    POLICY_NODE_OR,
};

enum policy_operator {
    POLICY_EQUAL,
    POLICY_UNEQUAL,
    POLICY_BELOW,
    POLICY_AT_MOST,
    POLICY_ABOVE,
    POLICY_AT_LEAST,
    POLICY_LIKE, /* ~ */
};

/* A value written in the text. */
struct policy_item {
    enum policy_type type;
    uint64_t number;
    size_t text;  /* TEXT: where it begins in `texts` */
    size_t start; /* in the source */
    size_t end;
};

/* Children stand before their parent, and leaves in the order of the text. */
struct policy_node {
    enum policy_node_kind kind;
    enum policy_operator operator_;
    enum policy_fact fact;
    enum policy_fact other;
    bool constant;
    bool negated; /* an odd number of nots is above it */
    uint32_t class_;
    uint64_t hash;
    size_t left;  /* NOT, AND, OR */
    size_t right; /* AND, OR */
    size_t item;  /* first; CLASS: its name */
    size_t item_count;
    size_t start; /* in the source */
    size_t end;
};

/* In one piece of memory, the arrays behind it. */
struct policy_expression {
    struct policy_node *nodes; /* the last is the whole */
    size_t count;
    struct policy_item *items;
    size_t item_count;
    char *texts; /* each ended by NUL */
    size_t text_size;
    char *source;
    size_t source_size; /* without its NUL */
};

/* ---- words ---- */

enum policy_token_kind {
    POLICY_TOKEN_END,
    POLICY_TOKEN_WORD,
    POLICY_TOKEN_NUMBER,
    POLICY_TOKEN_STRING,
    POLICY_TOKEN_OPERATOR,
    POLICY_TOKEN_OPEN,
    POLICY_TOKEN_CLOSE,
    POLICY_TOKEN_COMMA,
    POLICY_TOKEN_WRONG, /* none, as was told */
};

struct policy_token {
    enum policy_token_kind kind;
    size_t start;
    size_t end;
    enum policy_operator operator_;
    enum policy_type type; /* of a NUMBER */
    uint64_t number;
    const char *meant; /* the WORD for which another language's operator stands; NULL: itself */
};

struct policy_lexer {
    const char *source;
    size_t size;
    size_t at;
    struct policy_token token; /* the one in hand */
    struct policy_expression_errors *faults;
};

/** Take the next token into `token`; what is none is told, and taken for what it was meant to be
 *  where that is plain. */
void policy_lexer_next(struct policy_lexer *lexer);

/** Take letters and digits as they are, whatever they mean: a hash. */
void policy_lexer_next_raw(struct policy_lexer *lexer);

/** Is the token in hand this word? */
bool policy_lexer_is(const struct policy_lexer *lexer, const char *word);

/** Say what is wrong at `offset`; only the first of a place is kept.  Always false. */
bool policy_lexer_fail(struct policy_lexer *lexer, size_t offset, const char *format, ...)
    KVT_PRINTF(3, 4);

/* ---- types ---- */

/** May `fact` stand on that side of the operator with `item` on the other? */
bool policy_expression_fits(struct policy_lexer *lexer, enum policy_fact fact,
                            const struct policy_token *operator_, const struct policy_item *item);
bool policy_expression_fits_fact(struct policy_lexer *lexer, enum policy_fact fact,
                                 const struct policy_token *operator_,
                                 const struct policy_token *other);

const char *policy_operator_text(enum policy_operator operator_);
/** What is true where `operator_` is false; not of LIKE. */
enum policy_operator policy_operator_opposite(enum policy_operator operator_);

/** The value of one leaf by itself; `classes` as for policy_expression_evaluate(). */
bool policy_expression_node(const struct policy_expression *expression, size_t node,
                            const struct policy_facts *facts, const bool *classes);

#endif /* POLICY_EXPRESSION_EXPRESSION_PRIVATE_H */
