#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"
#include "kvtier/block.h"

#include "policy/file/section_reader.h"

enum { SHOWN_MAX = 60, WORDS_MAX = 32, MINUTES = 60, HOURS = 24 };

void
policy_hint(const char *word, const char *const *words, size_t count,
            char hint[POLICY_NAME_MAX + 24])
{
    const char *near = NULL;
    const char *ours;

    for (size_t at = 0; near == NULL && (ours = policy_synonym(word, at)) != NULL; at++)
        for (size_t i = 0; i < count; i++)
            if (strcmp(words[i], ours) == 0)
                near = words[i];
    if (near == NULL)
        near = kvt_suggest(word, words, count);
    hint[0] = '\0';
    if (near != NULL)
        (void)snprintf(hint, POLICY_NAME_MAX + 24, " (did you mean \"%s\"?)", near);
}

static bool
refuse(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
       const char *text, const char *why)
{
    policy_problems_add(reader->problems, kvt_yaml_mark(value), "%s: \"%.*s\" %s", key->key,
                        SHOWN_MAX, text, why);
    return false;
}

static bool
refuse_type(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
            const char *text)
{
    char why[2 * SHOWN_MAX + 40];
    uint64_t size;

    if (key->type == POLICY_KEY_RATE && kvt_parse_size(text, &size) == KVT_OK)
        (void)snprintf(why, sizeof(why), "is not %s (did you mean %.*s/s?)",
                       policy_key_phrase(key->type), SHOWN_MAX, text);
    else
        (void)snprintf(why, sizeof(why), "is not %s", policy_key_phrase(key->type));
    return refuse(reader, value, key, text, why);
}

/* ---- numbers ---- */

static bool
is_in_bounds(struct policy_reader *reader, struct kvt_yaml_value value,
             const struct policy_key *key, const char *text, uint64_t number)
{
    char why[SHOWN_MAX + 40];
    uint64_t limit;

    if (key->min[0] != '\0' && policy_number_parse(key->type, key->min, &limit) == KVT_OK &&
        number < limit) {
        (void)snprintf(why, sizeof(why), "is below the least, %s", key->min);
        return refuse(reader, value, key, text, why);
    }
    if (key->max[0] != '\0' && policy_number_parse(key->type, key->max, &limit) == KVT_OK &&
        number > limit) {
        /* "90" is 90 times all. */
        if (key->type == POLICY_KEY_RATIO && strspn(text, "0123456789") == strlen(text) &&
            number <= 100 * UINT64_C(1000000))
            (void)snprintf(why, sizeof(why), "is above the most, %s (did you mean %s%%?)", key->max,
                           text);
        else
            (void)snprintf(why, sizeof(why), "is above the most, %s", key->max);
        return refuse(reader, value, key, text, why);
    }
    return true;
}

static bool
read_number(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
            const char *text, uint64_t *target)
{
    uint64_t number;
    enum kvt_err rc;

    if (text[0] == '-')
        return refuse(reader, value, key, text, "is below 0");
    rc = policy_number_parse(key->type, text, &number);
    if (rc == KVT_RANGE)
        return refuse(reader, value, key, text, "is too large to count");
    if (rc != KVT_OK)
        return refuse_type(reader, value, key, text);
    if (!is_in_bounds(reader, value, key, text, number))
        return false;
    *target = number;
    return true;
}

static bool
read_share(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
           const char *text, struct policy_share *share)
{
    struct policy_key plain = *key;

    share->is_ratio = strchr(text, '%') != NULL;
    plain.type = share->is_ratio ? POLICY_KEY_RATIO : POLICY_KEY_SIZE;
    if (share->is_ratio)
        plain.max = "100%";
    return read_number(reader, value, &plain, text, &share->value);
}

/* ---- words ---- */

static bool
read_text(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
          const char *text, char *target)
{
    if (strlen(text) >= POLICY_TEXT_MAX) {
        policy_problems_add(reader->problems, kvt_yaml_mark(value), "%s is longer than %d bytes",
                            key->key, POLICY_TEXT_MAX - 1);
        return false;
    }
    memcpy(target, text, strlen(text) + 1);
    return true;
}

static bool
read_word(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
          const char *text, char target[POLICY_NAME_MAX])
{
    const size_t size = strlen(text);

    if (size >= POLICY_NAME_MAX) {
        policy_problems_add(reader->problems, kvt_yaml_mark(value), "%s is longer than %d bytes",
                            key->key, POLICY_NAME_MAX - 1);
        return false;
    }
    if (size == 0 || text[0] == '-' || text[0] == '.')
        return refuse(reader, value, key, text, "is no name: it begins with a letter, digit or _");
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("_-.", text[i]) == NULL)
            return refuse(reader, value, key, text, "is no name: letters, digits, _ - and .");
    memcpy(target, text, size + 1);
    return true;
}

static bool
find_word(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
          const char *text, uint32_t *at)
{
    char words[WORDS_MAX][POLICY_NAME_MAX];
    const char *pointers[WORDS_MAX];
    char hint[POLICY_NAME_MAX + 24];
    uint32_t count = 0;

    while (count < WORDS_MAX && policy_word(key->max, count, words[count])) {
        pointers[count] = words[count];
        if (strcmp(words[count], text) == 0) {
            *at = count;
            return true;
        }
        count++;
    }
    policy_hint(text, pointers, count, hint);
    policy_problems_add(reader->problems, kvt_yaml_mark(value), "%s: \"%.*s\" is none of %s%s",
                        key->key, SHOWN_MAX, text, key->max, hint);
    return false;
}

static bool
read_when(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
          const char *text, struct policy_expression **target)
{
    struct policy_expression_errors faults;
    enum kvt_err rc;

    if (text[strspn(text, " \t\r\n")] == '\0') {
        policy_problems_add(reader->problems, kvt_yaml_mark(value),
                            "%s is empty: write a condition, or leave it out for every block",
                            key->key);
        return false;
    }
    policy_expression_free(*target);
    rc = policy_expression_parse(target, text, strlen(text), &faults);
    if (rc == KVT_NOMEM)
        reader->rc = rc;
    for (size_t i = 0; i < faults.count; i++)
        policy_problems_add(reader->problems,
                            policy_problems_mark(reader->problems, value, faults.list[i].offset),
                            "%s: %s", key->key, faults.list[i].text);
    reader->problems->left_out += faults.left_out;
    return rc == KVT_OK;
}

/* ---- elements of lists, one at a time ---- */

static bool
add_time(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
         const char *text, struct policy_times *times)
{
    unsigned hour;
    unsigned minute;

    if (strlen(text) != 5 || !isdigit((unsigned char)text[0]) || !isdigit((unsigned char)text[1]) ||
        text[2] != ':' || !isdigit((unsigned char)text[3]) || !isdigit((unsigned char)text[4]))
        return refuse_type(reader, value, key, text);
    hour = (unsigned)(text[0] - '0') * 10 + (unsigned)(text[1] - '0');
    minute = (unsigned)(text[3] - '0') * 10 + (unsigned)(text[4] - '0');
    if (hour >= HOURS || minute >= MINUTES)
        return refuse(reader, value, key, text, "is no time of day: 00:00 to 23:59");
    times->minutes[times->count++] = (uint16_t)(hour * MINUTES + minute);
    return true;
}

static bool
add_hash(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
         const char *text, struct policy_hashes *hashes)
{
    if (!kvt_hash_parse(text, &hashes->list[hashes->count]))
        return refuse_type(reader, value, key, text);
    hashes->count++;
    return true;
}

static bool
add_name(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
         const char *text, struct policy_names *names)
{
    struct policy_name *name = &names->list[names->count];
    const struct kvt_yaml_mark mark = kvt_yaml_mark(value);

    if (!read_word(reader, value, key, text, name->text))
        return false;
    name->index = -1;
    names->places[names->count++] = (struct policy_place){
        (uint32_t)mark.line, (uint32_t)mark.column, POLICY_WRITTEN, value.node};
    return true;
}

static bool
add_bit(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
        const char *text, uint32_t *bits)
{
    uint32_t at;

    if (!find_word(reader, value, key, text, &at))
        return false;
    if ((*bits >> at & 1) != 0)
        return refuse(reader, value, key, text, "is given twice");
    *bits |= UINT32_C(1) << at;
    return true;
}

static bool
add_element(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
            void *target)
{
    const char *text = kvt_yaml_text(value);

    if (text == NULL) {
        policy_problems_add(reader->problems, kvt_yaml_mark(value), "%s wants %s", key->key,
                            policy_key_phrase(key->type));
        return false;
    }
    switch (key->type) {
    case POLICY_KEY_TIMES: return add_time(reader, value, key, text, target);
    case POLICY_KEY_HASHES: return add_hash(reader, value, key, text, target);
    case POLICY_KEY_TIERS: return add_name(reader, value, key, text, target);
    case POLICY_KEY_CHOICES: return add_bit(reader, value, key, text, target);
    default: assert(false); return false;
    }
}

static size_t
elements_max(enum policy_key_type type)
{
    switch (type) {
    case POLICY_KEY_TIMES: return POLICY_TIMES_MAX;
    case POLICY_KEY_HASHES: return POLICY_HASHES_MAX;
    case POLICY_KEY_TIERS: return POLICY_TIERS_MAX;
    default: return WORDS_MAX;
    }
}

/* A single one may stand without brackets. */
static bool
read_elements(struct policy_reader *reader, struct kvt_yaml_value value,
              const struct policy_key *key, void *target)
{
    const size_t count = kvt_yaml_count(value);
    bool good = true;

    if (kvt_yaml_kind(value) != KVT_YAML_SEQUENCE)
        return add_element(reader, value, key, target);
    if (count == 0 || count > elements_max(key->type)) {
        policy_problems_add(reader->problems, kvt_yaml_mark(value),
                            count == 0 ? "%s: an empty list" : "%s: more than %zu in a list",
                            key->key, elements_max(key->type));
        return false;
    }
    for (size_t i = 0; i < count; i++)
        good = add_element(reader, kvt_yaml_at(value, i), key, target) && good;
    return good;
}

bool
policy_value_read(struct policy_reader *reader, struct kvt_yaml_value value,
                  const struct policy_key *key, void *target)
{
    const char *text = kvt_yaml_text(value);
    struct policy_name *name = target;

    if (key->type == POLICY_KEY_TIMES || key->type == POLICY_KEY_HASHES ||
        key->type == POLICY_KEY_TIERS || key->type == POLICY_KEY_CHOICES)
        return read_elements(reader, value, key, target);
    if (text == NULL) {
        policy_problems_add(reader->problems, kvt_yaml_mark(value), "%s wants %s%s", key->key,
                            policy_key_phrase(key->type),
                            kvt_yaml_kind(value) == KVT_YAML_SCALAR ? ", without a NUL byte" : "");
        return false;
    }
    switch (key->type) {
    case POLICY_KEY_BOOL:
        *(bool *)target = strcmp(text, "true") == 0;
        if (!*(bool *)target && strcmp(text, "false") != 0)
            return refuse(reader, value, key, text, "is neither true nor false");
        return true;
    case POLICY_KEY_SHARE: return read_share(reader, value, key, text, target);
    case POLICY_KEY_TEXT: return read_text(reader, value, key, text, target);
    case POLICY_KEY_WORD: return read_word(reader, value, key, text, target);
    case POLICY_KEY_CHOICE: return find_word(reader, value, key, text, target);
    case POLICY_KEY_TIER:
    case POLICY_KEY_RULE:
    case POLICY_KEY_ORDERING:
        name->index = -1;
        return read_word(reader, value, key, text, name->text);
    case POLICY_KEY_WHEN: return read_when(reader, value, key, text, target);
    default: return read_number(reader, value, key, text, target);
    }
}
