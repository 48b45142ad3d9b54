#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/route/presence.h"
#include "base/text/json.h"

/* How workers are named, in the settings and in a bucket. */

#define INSTANCES "v1/instances/"
#define BLANKS    " \t\r\n"

enum { HEX_DIGITS_MAX = 16, NUMBER_MAX = 24 };

/* ---- settings ---- */

static enum kvt_err
wrong(struct kvt_error *err, const char *list, size_t at, const char *what)
{
    size_t line = 1;
    size_t column = 1;

    for (size_t i = 0; i < at; i++) {
        column = list[i] == '\n' ? 1 : column + 1;
        line += list[i] == '\n' ? 1 : 0;
    }
    return kvt_error_set(err, KVT_INVALID, "%zu:%zu: %s", line, column, what);
}

static void
first_ranks(struct advisor_presence_entry *entry, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        entry->ranks[i] = i;
    entry->rank_count = count;
}

/* Digits alone, from 1 to the limit. */
static bool
read_count(const char *text, size_t size, uint32_t *count)
{
    *count = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *count = *count * 10 + (uint32_t)(text[i] - '0');
        if (*count > ADVISOR_PRESENCE_RANKS_MAX)
            return false;
    }
    return *count > 0;
}

enum kvt_err
advisor_presence_read_list(const char *list, size_t *at, struct advisor_presence_entry *entry,
                           struct kvt_error *err)
{
    const bool all = *at > 0 && list[*at - 1] == '\0';
    const size_t begin = all ? 0 : *at + strspn(list + *at, BLANKS);
    const size_t size = strcspn(list + begin, "," BLANKS);
    const char *word = list + begin;
    const char *colon = memrchr(word, ':', size);
    const size_t name = colon == NULL ? size : (size_t)(colon - word);
    const size_t end = begin + size + strspn(word + size, BLANKS);
    uint32_t count = 1;

    entry->name[0] = '\0';
    entry->rank_count = 0;
    if (all || (*at == 0 && *word == '\0'))
        return KVT_NOTFOUND;
    if (name == 0)
        return wrong(err, list, begin, "want a worker's name");
    if (name >= sizeof(entry->name))
        return wrong(err, list, begin, "a worker's name has at most 63 bytes");
    if (colon != NULL && !read_count(colon + 1, size - name - 1, &count))
        return wrong(err, list, begin + name + 1, "want how many ranks it has, from 1 to 1024");
    if (list[end] != ',' && list[end] != '\0')
        return wrong(err, list, end, "want a comma before the next worker");
    memcpy(entry->name, word, name);
    entry->name[name] = '\0';
    first_ranks(entry, count);
    *at = end + 1; /* behind the comma, or the end */
    return KVT_OK;
}

/* ---- a bucket ---- */

static enum kvt_err
set_name(struct advisor_presence_entry *entry, const char *name, struct kvt_error *err)
{
    const size_t size = strlen(name);

    if (size == 0)
        return kvt_error_set(err, KVT_INVALID, "a name that is empty");
    if (size >= sizeof(entry->name))
        return kvt_error_set(err, KVT_RANGE, "a name of %zu bytes, at most %zu", size,
                             sizeof(entry->name) - 1);
    memcpy(entry->name, name, size + 1);
    return KVT_OK;
}

/* Events call a Dynamo worker by its number, in decimal. */
static void
set_number(struct advisor_presence_entry *entry, uint64_t number)
{
    (void)snprintf(entry->name, sizeof(entry->name), "%" PRIu64, number);
}

/* [v1/instances/]<namespace>/<component>/<endpoint>/<instance>, the last in hex.  False: another
 * shape. */
static bool
is_instance(const char *key, bool *serves, uint64_t *number)
{
    const char *part =
        strncmp(key, INSTANCES, sizeof(INSTANCES) - 1) == 0 ? key + sizeof(INSTANCES) - 1 : key;
    size_t digits;

    *serves = false;
    *number = 0;
    for (int i = 0; i < 3; i++) {
        const char *slash = strchr(part, '/');

        if (slash == NULL || slash == part)
            return false;
        *serves = i == 2 && (size_t)(slash - part) == strlen("generate") &&
                  strncmp(part, "generate", strlen("generate")) == 0;
        part = slash + 1;
    }
    digits = strspn(part, "0123456789abcdef");
    if (digits == 0 || digits > HEX_DIGITS_MAX || part[digits] != '\0')
        return false;
    *number = strtoull(part, NULL, 16);
    return true;
}

static enum kvt_err
read_ranks(struct json_object *value, struct advisor_presence_entry *entry, struct kvt_error *err)
{
    uint64_t number;
    size_t count;

    if (kvt_json_to_u64(value, &number)) {
        if (number == 0 || number > ADVISOR_PRESENCE_RANKS_MAX)
            return kvt_error_set(err, KVT_RANGE, "dp_ranks: want from 1 to %d",
                                 ADVISOR_PRESENCE_RANKS_MAX);
        first_ranks(entry, (uint32_t)number);
        return KVT_OK;
    }
    if (!json_object_is_type(value, json_type_array))
        return kvt_error_set(err, KVT_INVALID, "dp_ranks: want a number or a list of numbers");
    count = json_object_array_length(value);
    if (count == 0 || count > ADVISOR_PRESENCE_RANKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "dp_ranks: want from 1 to %d of them",
                             ADVISOR_PRESENCE_RANKS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!kvt_json_to_u64(json_object_array_get_idx(value, i), &number) || number > UINT32_MAX)
            return kvt_error_set(err, KVT_INVALID, "dp_ranks: want numbers");
        entry->ranks[i] = (uint32_t)number;
    }
    entry->rank_count = (uint32_t)count;
    return KVT_OK;
}

static enum kvt_err
read_value(struct json_object *value, struct advisor_presence_entry *entry, struct kvt_error *err)
{
    const char *name = kvt_json_string(value, "name");
    enum kvt_err rc = KVT_OK;
    uint64_t number;

    if (!json_object_is_type(value, json_type_object))
        return kvt_error_set(err, KVT_INVALID, "want nothing or an object");
    if (kvt_json_has(value, "name") && name == NULL)
        return kvt_error_set(err, KVT_INVALID, "name: want a text");
    if (kvt_json_has(value, "instance_id") && !kvt_json_u64(value, "instance_id", &number))
        return kvt_error_set(err, KVT_INVALID, "instance_id: want a number");
    if (name != NULL)
        rc = set_name(entry, name, err);
    else if (kvt_json_has(value, "instance_id"))
        set_number(entry, number);
    if (rc == KVT_OK && kvt_json_has(value, "dp_ranks"))
        rc = read_ranks(kvt_json_member(value, "dp_ranks"), entry, err);
    return rc;
}

static bool
is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (memchr(BLANKS, text[i], sizeof(BLANKS) - 1) == NULL)
            return false;
    return true;
}

enum kvt_err
advisor_presence_read_key(const char *key, const void *value, size_t size,
                          struct advisor_presence_entry *entry, struct kvt_error *err)
{
    struct json_object *read = NULL;
    enum kvt_err rc = KVT_OK;
    uint64_t number;
    bool serves;

    entry->name[0] = '\0';
    first_ranks(entry, 1);
    if (is_instance(key, &serves, &number)) {
        if (!serves)
            return KVT_NOTFOUND;
        set_number(entry, number);
    }
    if (!is_blank(value, size)) {
        rc = kvt_json_parse(&read, value, size, key, err);
        if (rc == KVT_OK)
            rc = read_value(read, entry, err);
        (void)json_object_put(read);
    }
    if (rc == KVT_OK && entry->name[0] == '\0')
        rc = set_name(entry, key, err);
    return rc;
}
