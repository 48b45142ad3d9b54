#include "base/text/json.h"

#include <limits.h>
#include <string.h>

#include "kvtier/block.h"

static enum kvt_err
refuse(struct kvt_error *err, enum kvt_err code, const char *name, const char *text, size_t offset,
       const char *what)
{
    size_t line = 1;
    size_t column = 1;

    for (size_t i = 0; i < offset; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n' ? 1 : 0;
    }
    return kvt_error_set(err, code, "%s:%zu:%zu: %s", name, line, column, what);
}

/* Every comma outside of a string stands before one value more: the offset of the first that is too
 * many, or `size`. */
static size_t
find_too_many(const char *text, size_t size)
{
    bool in_string = false;
    unsigned commas = 0;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"')
            in_string = !in_string;
        else if (in_string)
            i += text[i] == '\\' ? 1 : 0;
        else if (text[i] == ',' && ++commas >= KVT_JSON_VALUES_MAX)
            return i;
    }
    return size;
}

enum kvt_err
kvt_json_parse(struct json_object **out, const char *text, size_t size, const char *name,
               struct kvt_error *err)
{
    struct json_object *value;
    struct json_tokener *tokener;
    enum json_tokener_error error;
    enum kvt_err rc = KVT_OK;
    size_t end;

    *out = NULL;
    if (size > INT_MAX - 1)
        return kvt_error_set(err, KVT_RANGE, "%s: larger than %d bytes", name, INT_MAX - 1);
    end = find_too_many(text, size);
    if (end < size)
        return refuse(err, KVT_RANGE, name, text, end, "more values than are read at once");
    tokener = json_tokener_new_ex(KVT_JSON_DEPTH_MAX);
    if (tokener == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", name);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    value = json_tokener_parse_ex(tokener, text, (int)size);
    error = json_tokener_get_error(tokener);
    end = json_tokener_get_parse_end(tokener);
    if (error == json_tokener_continue) {
        /* A number at the very end is whole only once something follows it. */
        value = json_tokener_parse_ex(tokener, "", 1);
        error = json_tokener_get_error(tokener);
        if (error != json_tokener_success)
            rc = refuse(err, KVT_INVALID, name, text, size, "the text ends too early");
    } else if (error == json_tokener_success) {
        while (end < size && strchr(" \t\r\n", text[end]) != NULL && text[end] != '\0')
            end++;
        if (end < size)
            rc = refuse(err, KVT_INVALID, name, text, end, "more text after the value");
    } else {
        rc = refuse(err, KVT_INVALID, name, text, end, json_tokener_error_desc(error));
    }
    if (rc == KVT_OK && value == NULL)
        rc = refuse(err, KVT_INVALID, name, text, 0, "null");
    json_tokener_free(tokener);
    if (rc != KVT_OK) {
        (void)json_object_put(value);
        return rc;
    }
    *out = value;
    return KVT_OK;
}

bool
kvt_json_to_u64(struct json_object *value, uint64_t *number)
{
    *number = 0;
    /* Above INT64_MAX json-c's signed view saturates, so "negative" really means negative. */
    if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
        return false;
    *number = json_object_get_uint64(value);
    return true;
}

const char *
kvt_json_to_string(struct json_object *value)
{
    const char *text;

    if (!json_object_is_type(value, json_type_string))
        return NULL;
    text = json_object_get_string(value);
    return strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
}

bool
kvt_json_to_hash(struct json_object *value, uint64_t *hash)
{
    const char *text = kvt_json_to_string(value);

    if (text != NULL)
        return kvt_hash_parse(text, hash);
    return kvt_json_to_u64(value, hash);
}

bool
kvt_json_has(struct json_object *object, const char *key)
{
    return json_object_is_type(object, json_type_object) &&
           json_object_object_get_ex(object, key, NULL) != 0;
}

struct json_object *
kvt_json_member(struct json_object *object, const char *key)
{
    struct json_object *value = NULL;

    if (!json_object_is_type(object, json_type_object))
        return NULL;
    (void)json_object_object_get_ex(object, key, &value);
    return value;
}

bool
kvt_json_u64(struct json_object *object, const char *key, uint64_t *number)
{
    return kvt_json_to_u64(kvt_json_member(object, key), number);
}

bool
kvt_json_hash(struct json_object *object, const char *key, uint64_t *hash)
{
    return kvt_json_to_hash(kvt_json_member(object, key), hash);
}

bool
kvt_json_bool(struct json_object *object, const char *key, bool *flag)
{
    struct json_object *value = kvt_json_member(object, key);

    *flag = false;
    if (!json_object_is_type(value, json_type_boolean))
        return false;
    *flag = json_object_get_boolean(value) != 0;
    return true;
}

const char *
kvt_json_string(struct json_object *object, const char *key)
{
    return kvt_json_to_string(kvt_json_member(object, key));
}

struct json_object *
kvt_json_array(struct json_object *object, const char *key)
{
    struct json_object *value = kvt_json_member(object, key);

    return json_object_is_type(value, json_type_array) ? value : NULL;
}
