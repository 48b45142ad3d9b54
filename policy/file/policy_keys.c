#include "policy/file/policy_keys.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"
#include "kvtier/block.h"

enum { NANO = 1000000000, DAY_MINUTES = 1440, NUMBER_MAX = 64 };

const struct policy_section_row policy_section_rows[POLICY_SECTION_COUNT] = {
#define SECTION(id, tag, title, help) {title, help, sizeof(struct tag)},
#define KEY(...)
#define SYNONYM(...)
#include "policy/file/key.def"
#undef SECTION
#undef KEY
#undef SYNONYM
};

/* Rows of a section stand together; those of the facts are a block before the others. */
static const struct policy_key rows[] = {
#define FACT(id, name, type, member, help)                                                         \
    {POLICY_SECTION_GIVEN,                                                                         \
     name,                                                                                         \
     POLICY_KEY_##type,                                                                            \
     POLICY_SECTION_NONE,                                                                          \
     offsetof(struct policy_given, member),                                                        \
     "",                                                                                           \
     "",                                                                                           \
     "",                                                                                           \
     false,                                                                                        \
     help},
#include "policy/expression/fact.def"
#undef FACT
#define SECTION(...)
#define SYNONYM(...)
#define KEY(section, tag, member, key, type, nested, fallback, min, max, required, help)           \
    {POLICY_SECTION_##section,                                                                     \
     key,                                                                                          \
     POLICY_KEY_##type,                                                                            \
     POLICY_SECTION_##nested,                                                                      \
     offsetof(struct tag, member),                                                                 \
     fallback,                                                                                     \
     min,                                                                                          \
     max,                                                                                          \
     required,                                                                                     \
     help},
#include "policy/file/key.def"
#undef SECTION
#undef KEY
#undef SYNONYM
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

const struct policy_key *
policy_key_at(enum policy_section section, size_t at)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].section == section && at-- == 0)
            return &rows[i];
    return NULL;
}

const struct policy_key *
policy_key_find(enum policy_section section, const char *key, size_t *at)
{
    *at = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].section != section)
            continue;
        assert(*at < POLICY_KEYS_MAX);
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
        ++*at;
    }
    return NULL;
}

const char *
policy_synonym(const char *word, size_t at)
{
    static const char *const pairs[][2] = {
#define SECTION(...)
#define KEY(...)
#define SYNONYM(theirs, ours) {theirs, ours},
#include "policy/file/key.def"
#undef SECTION
#undef KEY
#undef SYNONYM
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (strcmp(pairs[i][0], word) == 0 && at-- == 0)
            return pairs[i][1];
    return NULL;
}

bool
policy_word(const char *words, size_t at, char word[POLICY_NAME_MAX])
{
    const char *end;

    for (; at > 0; at--) {
        words = strchr(words, '|');
        if (words == NULL)
            return false;
        words++;
    }
    end = strchrnul(words, '|');
    (void)snprintf(word, POLICY_NAME_MAX, "%.*s", (int)(end - words), words);
    return word[0] != '\0';
}

/* ---- text to numbers ---- */

/* "100k", "2M" */
static enum kvt_err
parse_count(const char *text, uint64_t *value)
{
    const size_t size = strlen(text);
    char digits[NUMBER_MAX];
    uint64_t factor = 1;
    enum kvt_err rc;

    if (size > 1 && text[size - 1] == 'k')
        factor = 1000;
    else if (size > 1 && text[size - 1] == 'M')
        factor = 1000000;
    if (size >= sizeof(digits))
        return KVT_INVALID;
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)(size - (factor > 1 ? 1 : 0)), text);
    rc = kvt_parse_u64(digits, value);
    if (rc == KVT_OK && __builtin_mul_overflow(*value, factor, value))
        rc = KVT_RANGE;
    return rc;
}

/* "2GiB/s" */
static enum kvt_err
parse_rate(const char *text, uint64_t *value)
{
    const size_t size = strlen(text);
    char bytes[NUMBER_MAX];

    if (size < 3 || size >= sizeof(bytes) || strcmp(text + size - 2, "/s") != 0)
        return KVT_INVALID;
    (void)snprintf(bytes, sizeof(bytes), "%.*s", (int)(size - 2), text);
    return kvt_parse_size(bytes, value);
}

/* A bare number would be milliseconds, which nobody means who writes 30. */
static enum kvt_err
parse_duration(const char *text, uint64_t *value)
{
    const size_t size = strlen(text);

    if (size == 0 || strchr("0123456789.", text[size - 1]) != NULL)
        return KVT_INVALID;
    return kvt_parse_duration(text, value);
}

enum kvt_err
policy_number_parse(enum policy_key_type type, const char *text, uint64_t *value)
{
    uint32_t ppm;
    enum kvt_err rc;

    *value = 0;
    switch (type) {
    case POLICY_KEY_COUNT: rc = parse_count(text, value); break;
    case POLICY_KEY_DURATION: rc = parse_duration(text, value); break;
    case POLICY_KEY_SIZE: rc = kvt_parse_size(text, value); break;
    case POLICY_KEY_RATE: rc = parse_rate(text, value); break;
    case POLICY_KEY_PRICE: rc = kvt_parse_nano(text, value); break;
    case POLICY_KEY_RATIO:
        rc = kvt_parse_ratio(text, &ppm);
        *value = ppm;
        break;
    default: rc = KVT_INVALID; break;
    }
    if (rc != KVT_OK)
        *value = 0;
    return rc;
}

const char *
policy_key_phrase(enum policy_key_type type)
{
    switch (type) {
    case POLICY_KEY_BOOL: return "true or false";
    case POLICY_KEY_COUNT: return "a number such as 100 or 100k";
    case POLICY_KEY_DURATION: return "a duration with its unit, such as 30m";
    case POLICY_KEY_SIZE: return "a size such as 512GiB";
    case POLICY_KEY_RATIO: return "a ratio such as 85%";
    case POLICY_KEY_RATE: return "a rate such as 2GiB/s";
    case POLICY_KEY_PRICE: return "a price such as 0.0004";
    case POLICY_KEY_SHARE: return "a share such as 10%, or a size such as 1TiB";
    case POLICY_KEY_TEXT: return "text";
    case POLICY_KEY_WORD:
    case POLICY_KEY_TIER:
    case POLICY_KEY_RULE:
    case POLICY_KEY_ORDERING: return "a name";
    case POLICY_KEY_CHOICE: return "a word";
    case POLICY_KEY_CHOICES: return "a word or a list of words";
    case POLICY_KEY_TIERS: return "a tier or a list of tiers";
    case POLICY_KEY_WHEN: return "a condition";
    case POLICY_KEY_TIMES: return "a time of day such as \"02:30\", or a list of them";
    case POLICY_KEY_HASHES: return "a block's hash or a list of them";
    case POLICY_KEY_SECTION:
    case POLICY_KEY_MAP: return "a section";
    case POLICY_KEY_LIST: return "a list";
    }
    return "";
}

/* ---- values to text ---- */

static void
format_number(enum policy_key_type type, uint64_t value, struct kvt_buffer *out)
{
    static const enum policy_type types[] = {
        [POLICY_KEY_COUNT] = POLICY_TYPE_COUNT, [POLICY_KEY_DURATION] = POLICY_TYPE_DURATION,
        [POLICY_KEY_SIZE] = POLICY_TYPE_SIZE,   [POLICY_KEY_RATIO] = POLICY_TYPE_RATIO,
        [POLICY_KEY_RATE] = POLICY_TYPE_SIZE,
    };
    char text[POLICY_VALUE_TEXT_MAX];

    if (type == POLICY_KEY_PRICE) {
        size_t size = (size_t)snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, value / NANO,
                                       value % NANO);

        while (text[size - 1] == '0')
            size--;
        size -= text[size - 1] == '.' ? 1 : 0;
        kvt_buffer_append(out, text, size);
        return;
    }
    policy_value_format(types[type], value, text);
    kvt_buffer_printf(out, "%s%s", text, type == POLICY_KEY_RATE ? "/s" : "");
}

static void
format_words(const char *words, uint32_t bits, struct kvt_buffer *out)
{
    const char *comma = "";
    char word[POLICY_NAME_MAX];

    for (size_t i = 0; policy_word(words, i, word); i++) {
        if ((bits >> i & 1) == 0)
            continue;
        kvt_buffer_printf(out, "%s%s", comma, word);
        comma = ", ";
    }
}

static void
format_times(const struct policy_times *times, struct kvt_buffer *out)
{
    for (uint32_t i = 0; i < times->count; i++)
        kvt_buffer_printf(out, "%s%02u:%02u", i == 0 ? "" : ", ", times->minutes[i] / 60u,
                          times->minutes[i] % 60u);
}

static void
format_hashes(const struct policy_hashes *hashes, struct kvt_buffer *out)
{
    char text[KVT_HASH_TEXT_MAX];

    for (uint32_t i = 0; i < hashes->count; i++) {
        kvt_hash_format(hashes->list[i], text);
        kvt_buffer_printf(out, "%s%s", i == 0 ? "" : ", ", text);
    }
}

static void
format_names(const struct policy_names *names, struct kvt_buffer *out)
{
    for (uint32_t i = 0; i < names->count; i++)
        kvt_buffer_printf(out, "%s%s", i == 0 ? "" : ", ", names->list[i].text);
}

void
policy_key_format(const struct policy_key *key, const void *section, struct kvt_buffer *out)
{
    const void *value = (const char *)section + key->offset;
    const struct policy_share *share = value;
    char word[POLICY_NAME_MAX] = "";

    switch (key->type) {
    case POLICY_KEY_BOOL: kvt_buffer_printf(out, *(const bool *)value ? "true" : "false"); return;
    case POLICY_KEY_COUNT:
    case POLICY_KEY_DURATION:
    case POLICY_KEY_SIZE:
    case POLICY_KEY_RATIO:
    case POLICY_KEY_RATE:
    case POLICY_KEY_PRICE: format_number(key->type, *(const uint64_t *)value, out); return;
    case POLICY_KEY_SHARE:
        format_number(share->is_ratio ? POLICY_KEY_RATIO : POLICY_KEY_SIZE, share->value, out);
        return;
    case POLICY_KEY_TEXT:
    case POLICY_KEY_WORD: kvt_buffer_printf(out, "%s", (const char *)value); return;
    case POLICY_KEY_TIER:
    case POLICY_KEY_RULE:
    case POLICY_KEY_ORDERING:
        kvt_buffer_printf(out, "%s", ((const struct policy_name *)value)->text);
        return;
    case POLICY_KEY_CHOICE:
        (void)policy_word(key->max, *(const uint32_t *)value, word);
        kvt_buffer_printf(out, "%s", word);
        return;
    case POLICY_KEY_CHOICES: format_words(key->max, *(const uint32_t *)value, out); return;
    case POLICY_KEY_TIERS: format_names(value, out); return;
    case POLICY_KEY_WHEN:
        policy_expression_print(*(struct policy_expression *const *)value, out);
        return;
    case POLICY_KEY_TIMES: format_times(value, out); return;
    case POLICY_KEY_HASHES: format_hashes(value, out); return;
    case POLICY_KEY_SECTION:
    case POLICY_KEY_LIST:
    case POLICY_KEY_MAP: break;
    }
    assert(false);
}
