#include "policy/file/section_reader.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/parse.h"

enum { SHOWN_MAX = 60 };

static struct policy_place
place_of(struct kvt_yaml_value value)
{
    const struct kvt_yaml_mark mark = kvt_yaml_mark(value);

    return (struct policy_place){(uint32_t)mark.line, (uint32_t)mark.column, POLICY_WRITTEN,
                                 value.node};
}

static void *
member(const struct policy_key *key, void *target)
{
    return (char *)target + key->offset;
}

/* ---- defaults ---- */

static void
set_default(const struct policy_key *key, void *target, struct policy_place *place)
{
    struct policy_share *share = target;
    char word[POLICY_NAME_MAX];
    uint64_t number;
    enum kvt_err rc;

    if (key->type == POLICY_KEY_TIER || key->type == POLICY_KEY_RULE ||
        key->type == POLICY_KEY_ORDERING)
        ((struct policy_name *)target)->index = -1;
    if (key->fallback[0] == '\0')
        return;
    place->origin = POLICY_BUILT_IN;
    if (key->type == POLICY_KEY_CHOICE) {
        for (uint32_t i = 0; policy_word(key->max, i, word); i++)
            if (strcmp(word, key->fallback) == 0)
                *(uint32_t *)target = i;
        return;
    }
    if (key->type == POLICY_KEY_SHARE) {
        share->is_ratio = true;
        rc = policy_number_parse(POLICY_KEY_RATIO, key->fallback, &share->value);
    } else {
        rc = policy_number_parse(key->type, key->fallback, &number);
        memcpy(target, &number, sizeof(number));
    }
    assert(rc == KVT_OK); /* the table is ours */
}

void
policy_section_init(enum policy_section section, void *target)
{
    struct policy_head *head = target;
    const struct policy_key *key;

    for (size_t i = 0; (key = policy_key_at(section, i)) != NULL; i++) {
        set_default(key, member(key, target), &head->keys[i]);
        if (key->type == POLICY_KEY_SECTION)
            policy_section_init(key->nested, member(key, target));
    }
}

void
policy_section_release(enum policy_section section, void *target)
{
    const struct policy_key *key;

    for (size_t i = 0; (key = policy_key_at(section, i)) != NULL; i++) {
        struct policy_list *list = member(key, target);

        if (key->type == POLICY_KEY_WHEN) {
            policy_expression_free(*(struct policy_expression **)member(key, target));
        } else if (key->type == POLICY_KEY_SECTION) {
            policy_section_release(key->nested, member(key, target));
        } else if (key->type == POLICY_KEY_LIST || key->type == POLICY_KEY_MAP) {
            for (size_t j = 0; j < list->count; j++)
                policy_section_release(key->nested, (char *)list->items +
                                                        j * policy_section_rows[key->nested].size);
            kvt_free(list->items);
        }
    }
}

/* ---- lists and maps ---- */

static void read_key(struct policy_reader *reader, struct kvt_yaml_value value,
                     const struct policy_key *key, void *target, struct policy_place *place);

static bool
make_items(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
           size_t count, struct policy_list *list)
{
    const size_t size = policy_section_rows[key->nested].size;
    uint64_t most = 0;

    if (kvt_parse_u64(key->max, &most) != KVT_OK || count > most) {
        policy_problems_add(reader->problems, kvt_yaml_mark(value), "%s: more than %s", key->key,
                            key->max);
        return false;
    }
    list->items = kvt_calloc(count == 0 ? 1 : count, size);
    if (list->items == NULL) {
        reader->rc = KVT_NOMEM;
        return false;
    }
    for (size_t i = 0; i < count; i++)
        policy_section_init(key->nested, (char *)list->items + i * size);
    list->count = count;
    return true;
}

static void
read_list(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
          struct policy_list *list)
{
    const size_t size = policy_section_rows[key->nested].size;

    if (kvt_yaml_kind(value) != KVT_YAML_SEQUENCE) {
        policy_problems_add(reader->problems, kvt_yaml_mark(value),
                            "%s wants a list: begin each with \"- \"", key->key);
        return;
    }
    if (!make_items(reader, value, key, kvt_yaml_count(value), list))
        return;
    for (size_t i = 0; i < list->count && reader->rc == KVT_OK; i++)
        policy_section_read(reader, kvt_yaml_at(value, i), key->nested,
                            (char *)list->items + i * size);
}

/* The name of a map's item is its first member behind the head. */
static char *
name_of(void *item)
{
    return (char *)item + sizeof(struct policy_head);
}

static void
read_item(struct policy_reader *reader, struct kvt_yaml_value name, struct kvt_yaml_value value,
          const struct policy_key *key, void *item)
{
    const struct policy_key word = {.key = key->key, .type = POLICY_KEY_WORD};
    struct policy_head *head = item;
    const struct policy_key *only;
    size_t at;

    head->place = place_of(name);
    if (!policy_value_read(reader, name, &word, name_of(item)))
        return;
    if (key->nested != POLICY_SECTION_CLASS) {
        policy_section_read(reader, value, key->nested, item);
        head->place = place_of(name);
        return;
    }
    only = policy_key_find(POLICY_SECTION_CLASS, "when", &at);
    read_key(reader, value, only, item, &head->keys[at]);
}

static void
read_map(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
         struct policy_list *list)
{
    const size_t size = policy_section_rows[key->nested].size;
    struct kvt_yaml_value name;
    struct kvt_yaml_value item;
    size_t count = 0;

    if (kvt_yaml_kind(value) != KVT_YAML_MAPPING) {
        policy_problems_add(reader->problems, kvt_yaml_mark(value),
                            kvt_yaml_kind(value) == KVT_YAML_SEQUENCE
                                ? "%s is a section and no list: indent names under it, without -"
                                : "%s is a section: indent names under it",
                            key->key);
        return;
    }
    while (kvt_yaml_pair(value, count, &name, &item))
        count++;
    if (!make_items(reader, value, key, count, list))
        return;
    for (size_t i = 0; i < count && reader->rc == KVT_OK; i++) {
        void *target = (char *)list->items + i * size;

        (void)kvt_yaml_pair(value, i, &name, &item);
        read_item(reader, name, item, key, target);
        for (size_t j = 0; j < i; j++)
            if (name_of(target)[0] != '\0' &&
                strcmp(name_of((char *)list->items + j * size), name_of(target)) == 0)
                policy_problems_add(reader->problems, kvt_yaml_mark(name),
                                    "%s: \"%s\" is given twice", key->key, name_of(target));
    }
}

/* ---- sections ---- */

static void
unknown_key(struct policy_reader *reader, struct kvt_yaml_value name, const char *text,
            enum policy_section which)
{
    const char *words[POLICY_KEYS_MAX];
    char hint[POLICY_NAME_MAX + 24];
    const struct policy_key *key;
    size_t count = 0;

    if (strcmp(text, "<<") == 0) {
        policy_problems_add(reader->problems, kvt_yaml_mark(name),
                            "<< is not followed in a policy: write the keys out, or alias a whole "
                            "value (limits: *slow)");
        return;
    }
    while ((key = policy_key_at(which, count)) != NULL)
        words[count++] = key->key;
    policy_hint(text, words, count, hint);
    policy_problems_add(reader->problems, kvt_yaml_mark(name), "unknown key \"%.*s\" in %s%s",
                        SHOWN_MAX, text, policy_section_rows[which].title, hint);
}

static void
read_key(struct policy_reader *reader, struct kvt_yaml_value value, const struct policy_key *key,
         void *target, struct policy_place *place)
{
    /* Of a condition the place of its first word, to count from. */
    const struct kvt_yaml_mark mark =
        key->type == POLICY_KEY_WHEN ? kvt_yaml_mark_at(value, 0) : kvt_yaml_mark(value);

    *place = (struct policy_place){(uint32_t)mark.line, (uint32_t)mark.column, POLICY_WRITTEN,
                                   value.node};
    /* What is wrong was told: nothing is concluded from it. */
    if (key->type == POLICY_KEY_LIST)
        read_list(reader, value, key, member(key, target));
    else if (key->type == POLICY_KEY_MAP)
        read_map(reader, value, key, member(key, target));
    else if (key->type == POLICY_KEY_SECTION)
        policy_section_read(reader, value, key->nested, member(key, target));
    else if (!policy_value_read(reader, value, key, member(key, target)))
        place->origin = POLICY_BROKEN;
}

static void
read_pair(struct policy_reader *reader, struct kvt_yaml_value name, struct kvt_yaml_value value,
          enum policy_section which, void *target)
{
    struct policy_head *head = target;
    const char *text = kvt_yaml_text(name);
    const struct policy_key *key;
    size_t at;

    if (text == NULL) {
        policy_problems_add(reader->problems, kvt_yaml_mark(name), "a key must be a word");
        return;
    }
    key = policy_key_find(which, text, &at);
    if (key == NULL) {
        unknown_key(reader, name, text, which);
        return;
    }
    if (head->keys[at].line != 0) {
        policy_problems_add(reader->problems, kvt_yaml_mark(name), "%s is given twice", text);
        return;
    }
    /* "capacity:" alone leaves the default; a condition that somebody forgot is another thing. */
    if (kvt_yaml_is_null(value) && key->type != POLICY_KEY_WHEN)
        return;
    read_key(reader, value, key, target, &head->keys[at]);
}

void
policy_section_read(struct policy_reader *reader, struct kvt_yaml_value section,
                    enum policy_section which, void *target)
{
    struct policy_head *head = target;
    struct kvt_yaml_value name;
    struct kvt_yaml_value value;
    const struct policy_key *key;

    head->place = place_of(section);
    if (kvt_yaml_kind(section) != KVT_YAML_MAPPING) {
        policy_problems_add(reader->problems, kvt_yaml_mark(section),
                            "%s is made of \"key: value\" lines", policy_section_rows[which].title);
        return;
    }
    for (size_t i = 0; kvt_yaml_pair(section, i, &name, &value) && reader->rc == KVT_OK; i++) {
        if (reader->lines == POLICY_LINES_MAX)
            return;
        if (++reader->lines == POLICY_LINES_MAX)
            policy_problems_add(reader->problems, kvt_yaml_mark(name),
                                "more than %d lines, with those that aliases repeat",
                                POLICY_LINES_MAX - 1);
        read_pair(reader, name, value, which, target);
    }
    for (size_t i = 0; (key = policy_key_at(which, i)) != NULL; i++)
        if (key->required && head->keys[i].line == 0)
            policy_problems_add(reader->problems, kvt_yaml_mark(section), "%s has no %s",
                                policy_section_rows[which].title, key->key);
}

struct kvt_yaml_mark
policy_mark(enum policy_section section, const void *target, const char *key)
{
    const struct policy_head *head = target;
    struct policy_place place = head->place;
    size_t at;

    if (policy_key_find(section, key, &at) != NULL && head->keys[at].line != 0)
        place = head->keys[at];
    return (struct kvt_yaml_mark){place.line, place.column};
}

bool
policy_is_given(enum policy_section section, const void *target, const char *key)
{
    size_t at;

    return policy_key_find(section, key, &at) != NULL &&
           ((const struct policy_head *)target)->keys[at].line != 0;
}

bool
policy_is_written(enum policy_section section, const void *target, const char *key)
{
    size_t at;

    return policy_key_find(section, key, &at) != NULL &&
           ((const struct policy_head *)target)->keys[at].origin == POLICY_WRITTEN;
}

bool
policy_is_set(enum policy_section section, const void *target, const char *key)
{
    size_t at;

    return policy_key_find(section, key, &at) != NULL &&
           ((const struct policy_head *)target)->keys[at].origin != POLICY_UNSET &&
           ((const struct policy_head *)target)->keys[at].origin != POLICY_BROKEN;
}
