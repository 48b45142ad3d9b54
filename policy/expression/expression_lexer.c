#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/parse.h"

#include "policy/expression/expression_private.h"

enum { NUMBER_MAX = 64, SHOWN_MAX = 40 };

bool
policy_lexer_fail(struct policy_lexer *lexer, size_t offset, const char *format, ...)
{
    struct policy_expression_errors *faults = lexer->faults;
    va_list args;

    for (size_t i = 0; i < faults->count; i++)
        if (faults->list[i].offset == offset)
            return false;
    if (faults->count == POLICY_EXPRESSION_FAULTS_MAX) {
        faults->left_out++;
        return false;
    }
    faults->list[faults->count].offset = offset;
    va_start(args, format);
    (void)vsnprintf(faults->list[faults->count].text, sizeof(faults->list[0].text), format, args);
    va_end(args);
    faults->count++;
    return false;
}

bool
policy_lexer_is(const struct policy_lexer *lexer, const char *word)
{
    const struct policy_token *token = &lexer->token;

    if (token->meant != NULL)
        return strcmp(token->meant, word) == 0;
    return token->kind == POLICY_TOKEN_WORD && strlen(word) == token->end - token->start &&
           memcmp(word, lexer->source + token->start, token->end - token->start) == 0;
}

static char
peek(const struct policy_lexer *lexer, size_t at)
{
    return at < lexer->size ? lexer->source[at] : '\0';
}

/* A name may have what tenants, models and tiers have in theirs; it does not begin so. */
static bool
is_word(char byte)
{
    return isalnum((unsigned char)byte) || (byte != '\0' && strchr("_-./:", byte) != NULL);
}

static void
take_word(struct policy_lexer *lexer)
{
    while (is_word(peek(lexer, lexer->at)))
        lexer->at++;
    lexer->token.kind = POLICY_TOKEN_WORD;
    lexer->token.end = lexer->at;
}

void
policy_lexer_next_raw(struct policy_lexer *lexer)
{
    while (isspace((unsigned char)peek(lexer, lexer->at)))
        lexer->at++;
    lexer->token = (struct policy_token){.kind = POLICY_TOKEN_WORD, .start = lexer->at};
    take_word(lexer);
}

/* ---- numbers ---- */

struct unit {
    const char *name;
    enum policy_type type;
};

static const struct unit units[] = {
    {"ms", POLICY_TYPE_DURATION}, {"s", POLICY_TYPE_DURATION}, {"m", POLICY_TYPE_DURATION},
    {"h", POLICY_TYPE_DURATION},  {"d", POLICY_TYPE_DURATION}, {"B", POLICY_TYPE_SIZE},
    {"KiB", POLICY_TYPE_SIZE},    {"MiB", POLICY_TYPE_SIZE},   {"GiB", POLICY_TYPE_SIZE},
    {"TiB", POLICY_TYPE_SIZE},    {"KB", POLICY_TYPE_SIZE},    {"MB", POLICY_TYPE_SIZE},
    {"GB", POLICY_TYPE_SIZE},     {"TB", POLICY_TYPE_SIZE},    {"%", POLICY_TYPE_RATIO},
    {"k", POLICY_TYPE_COUNT},
};

static const struct unit *
unit_of(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strlen(units[i].name) == size && memcmp(units[i].name, name, size) == 0)
            return &units[i];
    return NULL;
}

static bool
unknown_unit(struct policy_lexer *lexer, size_t start, size_t end)
{
    const char *words[sizeof(units) / sizeof(units[0])];
    const int size = end - start > SHOWN_MAX ? SHOWN_MAX : (int)(end - start);
    char shown[SHOWN_MAX + 1];
    const char *near = NULL;

    (void)snprintf(shown, sizeof(shown), "%.*s", size, lexer->source + start);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        words[i] = units[i].name;
        if (strcasecmp(shown, units[i].name) == 0)
            near = units[i].name;
    }
    if (near == NULL)
        near = kvt_suggest(shown, words, sizeof(units) / sizeof(units[0]));
    if (near != NULL)
        return policy_lexer_fail(lexer, start, "\"%s\" is no unit (did you mean \"%s\"?)", shown,
                                 near);
    return policy_lexer_fail(
        lexer, start, "\"%s\" is no unit: ms s m h d, B KiB MiB GiB TiB KB MB GB TB, %%, k", shown);
}

static enum kvt_err
convert(const char *text, const struct unit *unit, struct policy_token *token)
{
    enum kvt_err rc;
    uint32_t ppm;

    switch (token->type) {
    case POLICY_TYPE_DURATION: return kvt_parse_duration(text, &token->number);
    case POLICY_TYPE_SIZE: return kvt_parse_size(text, &token->number);
    case POLICY_TYPE_RATIO:
        rc = kvt_parse_ratio(text, &ppm);
        token->number = ppm;
        return rc;
    case POLICY_TYPE_COUNT:
        if (unit == NULL)
            return kvt_parse_u64(text, &token->number);
        /* "100kB": thousands count as kilobytes do. */
        return kvt_parse_size(text, &token->number);
    case POLICY_TYPE_BOOL:
    case POLICY_TYPE_TEXT: break;
    }
    return KVT_INVALID;
}

/* Digits, then a unit, also behind a blank where the next word is one. */
static bool
take_number(struct policy_lexer *lexer)
{
    struct policy_token *token = &lexer->token;
    const struct unit *unit = NULL;
    char text[NUMBER_MAX];
    enum kvt_err rc;
    size_t digits;
    size_t start;
    size_t end;
    bool point;

    while (isdigit((unsigned char)peek(lexer, lexer->at)) || peek(lexer, lexer->at) == '.')
        lexer->at++;
    digits = lexer->at - token->start;
    point = memchr(lexer->source + token->start, '.', digits) != NULL;
    for (start = lexer->at; peek(lexer, start) == ' ';)
        start++;
    end = start;
    while (isalpha((unsigned char)peek(lexer, end)) || peek(lexer, end) == '%')
        end++;
    if (end > start)
        unit = unit_of(lexer->source + start, end - start);
    if (unit == NULL && start == lexer->at && is_word(peek(lexer, start)))
        return unknown_unit(lexer, start, end == start ? start + 1 : end);
    if (unit != NULL)
        lexer->at = end;
    token->kind = POLICY_TOKEN_NUMBER;
    token->end = lexer->at;
    token->type = POLICY_TYPE_COUNT;
    if (unit != NULL)
        token->type = unit->type;
    else if (point)
        token->type = POLICY_TYPE_RATIO;
    if (snprintf(text, sizeof(text), "%.*s%s%s", (int)(digits < NUMBER_MAX ? digits : NUMBER_MAX),
                 lexer->source + token->start, unit == NULL ? "" : unit->name,
                 unit != NULL && unit->type == POLICY_TYPE_COUNT ? "B" : "") >= (int)sizeof(text))
        return policy_lexer_fail(lexer, token->start, "a number of more than %d digits",
                                 NUMBER_MAX / 2);
    rc = convert(text, unit, token);
    if (rc == KVT_RANGE)
        return policy_lexer_fail(lexer, token->start, "%.*s is too large to count",
                                 (int)(token->end - token->start), lexer->source + token->start);
    if (rc != KVT_OK)
        return policy_lexer_fail(lexer, token->start, "\"%.*s\" is no number",
                                 (int)(token->end - token->start), lexer->source + token->start);
    return true;
}

/* ---- the rest ---- */

static bool
take_string(struct policy_lexer *lexer)
{
    struct policy_token *token = &lexer->token;
    const char quote = lexer->source[token->start];
    size_t at = token->start + 1;

    while (at < lexer->size && lexer->source[at] != quote && lexer->source[at] != '\0')
        at++;
    if (at == lexer->size || lexer->source[at] != quote)
        return policy_lexer_fail(lexer, token->start, "a text that does not end: %c is missing",
                                 quote);
    if (at - token->start - 1 >= POLICY_TEXT_MAX)
        return policy_lexer_fail(lexer, token->start, "a text of more than %d bytes",
                                 POLICY_TEXT_MAX - 1);
    token->kind = POLICY_TOKEN_STRING;
    lexer->at = at + 1;
    token->end = lexer->at;
    return true;
}

/* As other languages have them: told, and taken for ours. */
static bool
take_foreign(struct policy_lexer *lexer)
{
    static const struct {
        const char *text;
        const char *ours;
        bool is_word;
        enum policy_operator operator_;
    } table[] = {
        {"&&", "and", true, POLICY_EQUAL},   {"||", "or", true, POLICY_EQUAL},
        {"=~", "~", false, POLICY_LIKE},     {"=>", ">=", false, POLICY_AT_LEAST},
        {"<>", "!=", false, POLICY_UNEQUAL}, {"=", "==", false, POLICY_EQUAL},
        {"!", "not", true, POLICY_EQUAL},    {"&", "and", true, POLICY_EQUAL},
        {"|", "or", true, POLICY_EQUAL},
    };
    struct policy_token *token = &lexer->token;
    const char *rest = lexer->source + token->start;
    const size_t left = lexer->size - token->start;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const size_t size = strlen(table[i].text);
        const bool longer = size == 1 && left > 1 && rest[1] == '=';

        if (longer || left < size || memcmp(rest, table[i].text, size) != 0)
            continue;
        (void)policy_lexer_fail(lexer, token->start,
                                "\"%s\" means nothing here (did you mean \"%s\"?)", table[i].text,
                                table[i].ours);
        token->kind = table[i].is_word ? POLICY_TOKEN_WORD : POLICY_TOKEN_OPERATOR;
        token->operator_ = table[i].operator_;
        token->meant = table[i].is_word ? table[i].ours : NULL;
        lexer->at += size;
        token->end = lexer->at;
        return true;
    }
    return false;
}

static bool
take_operator(struct policy_lexer *lexer)
{
    /* Longer ones first. */
    static const struct {
        const char *text;
        enum policy_operator operator_;
    } table[] = {
        {"==", POLICY_EQUAL},    {"!=", POLICY_UNEQUAL}, {"<=", POLICY_AT_MOST},
        {">=", POLICY_AT_LEAST}, {"<", POLICY_BELOW},    {">", POLICY_ABOVE},
        {"~", POLICY_LIKE},
    };
    struct policy_token *token = &lexer->token;
    const char *rest = lexer->source + token->start;
    const size_t left = lexer->size - token->start;

    if (take_foreign(lexer))
        return true;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const size_t size = strlen(table[i].text);

        if (left >= size && memcmp(rest, table[i].text, size) == 0) {
            token->kind = POLICY_TOKEN_OPERATOR;
            token->operator_ = table[i].operator_;
            lexer->at += size;
            token->end = lexer->at;
            return true;
        }
    }
    if (rest[0] == '-')
        return policy_lexer_fail(lexer, token->start, "no fact is ever below 0");
    if (rest[0] == '*' || rest[0] == '?')
        return policy_lexer_fail(lexer, token->start, "a pattern wants quotes: ~ \"llama-*\"");
    if (isprint((unsigned char)rest[0]))
        return policy_lexer_fail(lexer, token->start, "\"%c\" means nothing here", rest[0]);
    return policy_lexer_fail(lexer, token->start, "byte 0x%02x means nothing outside of quotes",
                             (unsigned)(unsigned char)rest[0]);
}

/* What is told already is passed over: to its end where it has one. */
static void
pass_over(struct policy_lexer *lexer)
{
    const char first = peek(lexer, lexer->token.start);

    if (first == '"' || first == '\'')
        lexer->at = lexer->size;
    else if (lexer->at == lexer->token.start)
        lexer->at++;
    while (is_word(peek(lexer, lexer->at)) ||
           (peek(lexer, lexer->at) != '\0' && strchr("%*?", peek(lexer, lexer->at)) != NULL))
        lexer->at++;
    lexer->token.kind = POLICY_TOKEN_WRONG;
    lexer->token.end = lexer->at;
}

static bool
take(struct policy_lexer *lexer)
{
    struct policy_token *token = &lexer->token;
    const char byte = lexer->source[lexer->at];

    if (isdigit((unsigned char)byte))
        return take_number(lexer);
    if (isalpha((unsigned char)byte) || byte == '_') {
        take_word(lexer);
        return true;
    }
    if (byte == '"' || byte == '\'')
        return take_string(lexer);
    if (byte != '(' && byte != ')' && byte != ',')
        return take_operator(lexer);
    token->kind = byte == '('   ? POLICY_TOKEN_OPEN
                  : byte == ')' ? POLICY_TOKEN_CLOSE
                                : POLICY_TOKEN_COMMA;
    lexer->at++;
    token->end = lexer->at;
    return true;
}

void
policy_lexer_next(struct policy_lexer *lexer)
{
    while (lexer->at < lexer->size && isspace((unsigned char)lexer->source[lexer->at]))
        lexer->at++;
    lexer->token = (struct policy_token){.start = lexer->at, .end = lexer->at};
    if (lexer->at < lexer->size && !take(lexer))
        pass_over(lexer);
}
