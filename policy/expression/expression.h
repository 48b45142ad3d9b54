/*
 * policy/expression/expression.h -- a condition on a block's facts: parsed once, true or false for
 * each block.
 *
 * Why: rules and classes are written by people and asked for millions of blocks.  The language is
 * total: no loops, no functions of the user's, no arithmetic, and every type is checked when it is
 * parsed, so that evaluation always ends and never fails.
 *
 *   fanout >= 8 and depth <= 64
 *   last_access > 30m and (hits <= 1 or tenant in (batch, "team a")) and not class(kept)
 *   model ~ "llama-*" and not prefix(0x1234)
 *
 * Ownership: an expression belongs to the caller until policy_expression_free().
 * Threads:   read-only after binding; then any thread may evaluate.
 * Limits:    the names below; a comparison has one operator.
 */
#ifndef POLICY_EXPRESSION_EXPRESSION_H
#define POLICY_EXPRESSION_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#include "policy/expression/facts.h"

#define POLICY_EXPRESSION_MAX        4096 /* bytes of text */
#define POLICY_EXPRESSION_NODES_MAX  256  /* comparisons, words of lists, ands, ors and nots */
#define POLICY_EXPRESSION_DEPTH_MAX  32   /* parentheses and nots within one another */
#define POLICY_EXPRESSION_FAULTS_MAX 16   /* mistakes that are told; the others are counted */

struct policy_expression;

/* What is wrong with a text, and where. */
struct policy_expression_error {
    size_t offset; /* bytes into the text */
    char text[KVT_ERROR_TEXT_MAX];
};

/* Mistakes that do not follow from one another: behind each it goes on at the next and, or or
 * closing parenthesis.  One a place, in the order in which they were found. */
struct policy_expression_errors {
    struct policy_expression_error list[POLICY_EXPRESSION_FAULTS_MAX];
    size_t count;
    size_t left_out;
};

/** KVT_OK, KVT_INVALID (see `faults`) or KVT_NOMEM; `out` is NULL on failure. */
KVT_NODISCARD enum kvt_err policy_expression_parse(struct policy_expression **out, const char *text,
                                                   size_t size,
                                                   struct policy_expression_errors *faults);
/** What could be read of a text that was refused: for policy_expression_class() and _word(), and
 *  nothing else.  KVT_OK, `out` NULL where it is too long, or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err policy_expression_parse_names(struct policy_expression **out,
                                                         const char *text, size_t size);
/** NULL is allowed. */
void policy_expression_free(struct policy_expression *expression);

/** The name that class() number `at` asks for, and where it stands; NULL behind the last. */
const char *policy_expression_class(const struct policy_expression *expression, size_t at,
                                    size_t *offset);
/** Say which number of `classes` (see below) class() number `at` is. */
void policy_expression_bind(struct policy_expression *expression, size_t at, uint32_t class_);

/** Does it look at the fact?  Of one that is a number or a text. */
bool policy_expression_uses(const struct policy_expression *expression, enum policy_fact fact);

/** The hash that prefix() number `at` asks for; false behind the last. */
bool policy_expression_prefix(const struct policy_expression *expression, size_t at,
                              uint64_t *hash);

/** A text that `fact` is compared with (== != in), number `at`, and where it stands; NULL behind
 *  the last. */
const char *policy_expression_word(const struct policy_expression *expression,
                                   enum policy_fact fact, size_t at, size_t *offset);

/** Is it true of `facts`?  `classes` has the truth of each class, by the numbers they were bound
 *  to; `trace`, NULL or policy_expression_nodes() values, receives what every part is. */
bool policy_expression_evaluate(const struct policy_expression *expression,
                                const struct policy_facts *facts, const bool *classes, bool *trace);
size_t policy_expression_nodes(const struct policy_expression *expression);

/* A part without and, or and not in it. */
struct policy_clause {
    const char *text; /* not ended */
    size_t size;
    size_t node;  /* in the trace */
    bool negated; /* the whole is nearer to true when this is false */
};

/** Clause number `at` from the left; false behind the last. */
bool policy_expression_clause(const struct policy_expression *expression, size_t at,
                              struct policy_clause *clause);

/** The nearest change of a fact that makes the clause the other thing: "hits 1 -> 3"; "" where no
 *  single one does. */
void policy_expression_change(const struct policy_expression *expression, size_t node,
                              const struct policy_facts *facts, char *text, size_t size);

/** In one spelling: two texts that say the same in the same order print the same. */
void policy_expression_print(const struct policy_expression *expression, struct kvt_buffer *out);

/** True of every block, or of none, whatever its facts (as far as can be told without asking). */
bool policy_expression_is_always(const struct policy_expression *expression);
bool policy_expression_is_never(const struct policy_expression *expression);

/** The least `fact` at which the expression can be true (as far as its outer "and" tells). */
uint64_t policy_expression_least(const struct policy_expression *expression, enum policy_fact fact);

/** The match of the operator ~ and of a tier's `holders`: "*" is any text, "?" any one byte. */
bool policy_glob_match(const char *pattern, const char *text);

#endif /* POLICY_EXPRESSION_EXPRESSION_H */
