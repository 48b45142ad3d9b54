#include <stdio.h>
#include <string.h>

#include "policy/expression/expression_private.h"

enum { SHOWN_MAX = 48 };

const char *
policy_operator_text(enum policy_operator operator_)
{
    static const char *const texts[] = {
        [POLICY_EQUAL] = "==",   [POLICY_UNEQUAL] = "!=", [POLICY_BELOW] = "<",
        [POLICY_AT_MOST] = "<=", [POLICY_ABOVE] = ">",    [POLICY_AT_LEAST] = ">=",
        [POLICY_LIKE] = "~",
    };

    return texts[operator_];
}

enum policy_operator
policy_operator_opposite(enum policy_operator operator_)
{
    static const enum policy_operator opposites[] = {
        [POLICY_EQUAL] = POLICY_UNEQUAL,  [POLICY_UNEQUAL] = POLICY_EQUAL,
        [POLICY_BELOW] = POLICY_AT_LEAST, [POLICY_AT_MOST] = POLICY_ABOVE,
        [POLICY_ABOVE] = POLICY_AT_MOST,  [POLICY_AT_LEAST] = POLICY_BELOW,
        [POLICY_LIKE] = POLICY_LIKE,
    };

    return opposites[operator_];
}

static bool
is_order(enum policy_operator operator_)
{
    return operator_ != POLICY_EQUAL && operator_ != POLICY_UNEQUAL && operator_ != POLICY_LIKE;
}

/* "5 minutes": the letter for it; "" of what is none. */
static const char *
unit_behind(const struct policy_lexer *lexer, size_t at)
{
    static const struct {
        const char *word;
        const char *unit;
    } words[] = {{"sec", "s"}, {"min", "m"}, {"hour", "h"}, {"hr", "h"}, {"day", "d"}};

    while (at < lexer->size && (lexer->source[at] == ' ' || lexer->source[at] == '\t'))
        at++;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (lexer->size - at >= strlen(words[i].word) &&
            strncmp(lexer->source + at, words[i].word, strlen(words[i].word)) == 0)
            return words[i].unit;
    return "";
}

/* What stands in quotes and would be right without them. */
static bool
is_quoted_number(const char *shown)
{
    const size_t size = strlen(shown);

    return size > 2 && (shown[0] == '"' || shown[0] == '\'') && shown[size - 1] == shown[0] &&
           strchr("0123456789", shown[1]) != NULL;
}

/* A unit that makes a bare number what the fact is; a fact that is what the number is. */
static bool
mismatch(struct policy_lexer *lexer, const struct policy_fact_row *row,
         const struct policy_item *item)
{
    static const char *const unit[] = {
        [POLICY_TYPE_BOOL] = "",    [POLICY_TYPE_COUNT] = "",  [POLICY_TYPE_DURATION] = "s",
        [POLICY_TYPE_SIZE] = "MiB", [POLICY_TYPE_RATIO] = "%", [POLICY_TYPE_TEXT] = "",
    };
    static const char *const fact[] = {
        [POLICY_TYPE_BOOL] = "",     [POLICY_TYPE_COUNT] = "hits", [POLICY_TYPE_DURATION] = "age",
        [POLICY_TYPE_SIZE] = "size", [POLICY_TYPE_RATIO] = "fill", [POLICY_TYPE_TEXT] = "",
    };
    const size_t size = item->end - item->start;
    const char *behind = unit_behind(lexer, item->end);
    char shown[SHOWN_MAX];
    char hint[SHOWN_MAX + 8] = "";

    (void)snprintf(shown, sizeof(shown), "%.*s", (int)size, lexer->source + item->start);
    if (row->type == POLICY_TYPE_TEXT)
        (void)snprintf(hint, sizeof(hint), "'%s'", shown);
    else if (item->type == POLICY_TYPE_COUNT)
        (void)snprintf(hint, sizeof(hint), "%s%s", shown,
                       row->type == POLICY_TYPE_DURATION && behind[0] != '\0' ? behind
                                                                              : unit[row->type]);
    else if (is_quoted_number(shown))
        (void)snprintf(hint, sizeof(hint), "%.*s", (int)strlen(shown) - 2, shown + 1);
    else
        (void)snprintf(hint, sizeof(hint), "%s", fact[item->type]);
    return policy_lexer_fail(lexer, item->start, "%s is %s, and %s is %s%s%s%s", row->name,
                             policy_type_phrase(row->type), shown, policy_type_phrase(item->type),
                             hint[0] == '\0' ? "" : " (did you mean ", hint,
                             hint[0] == '\0' ? "" : "?)");
}

static bool
fits_operator(struct policy_lexer *lexer, const struct policy_fact_row *row,
              const struct policy_token *operator_)
{
    if (operator_->kind != POLICY_TOKEN_OPERATOR)
        return true; /* in */
    if (operator_->operator_ == POLICY_LIKE && row->type != POLICY_TYPE_TEXT)
        return policy_lexer_fail(lexer, operator_->start, "~ matches text, and %s is %s", row->name,
                                 policy_type_phrase(row->type));
    if (is_order(operator_->operator_) && row->type == POLICY_TYPE_TEXT)
        return policy_lexer_fail(lexer, operator_->start,
                                 "%s is text: == != ~ and in compare it, %s does not", row->name,
                                 policy_operator_text(operator_->operator_));
    return true;
}

bool
policy_expression_fits(struct policy_lexer *lexer, enum policy_fact fact,
                       const struct policy_token *operator_, const struct policy_item *item)
{
    const struct policy_fact_row *row = &policy_fact_rows[fact];

    if (!fits_operator(lexer, row, operator_))
        return false;
    if (row->type != item->type)
        return mismatch(lexer, row, item);
    return true;
}

bool
policy_expression_fits_fact(struct policy_lexer *lexer, enum policy_fact fact,
                            const struct policy_token *operator_, const struct policy_token *other)
{
    const struct policy_fact_row *row = &policy_fact_rows[fact];
    const enum policy_fact second =
        policy_fact_find(lexer->source + other->start, other->end - other->start);
    const struct policy_fact_row *other_row = &policy_fact_rows[second];

    if (!fits_operator(lexer, row, operator_))
        return false;
    if (operator_->operator_ == POLICY_LIKE)
        return policy_lexer_fail(lexer, other->start, "~ wants a pattern in quotes, not a fact");
    if (row->type != other_row->type)
        return policy_lexer_fail(lexer, other->start, "%s is %s, and %s is %s", row->name,
                                 policy_type_phrase(row->type), other_row->name,
                                 policy_type_phrase(other_row->type));
    if (second == fact)
        return policy_lexer_fail(lexer, other->start, "%s is compared with itself", row->name);
    return true;
}
