#include "cli/output/cli_json.h"

#include <string.h>

struct json_object *
cli_json_at(struct json_object *object, const char *path)
{
    char name[CLI_JSON_PATH_MAX];

    while (object != NULL && *path != '\0') {
        const size_t size = strcspn(path, ".");

        (void)snprintf(name, sizeof(name), "%.*s", (int)size, path);
        if (!json_object_object_get_ex(object, name, &object))
            return NULL;
        path += size;
        path += *path == '.';
    }
    return object;
}

const char *
cli_json_text(struct json_object *object, const char *path)
{
    struct json_object *value = cli_json_at(object, path);

    return value == NULL ? "" : json_object_get_string(value);
}

uint64_t
cli_json_u64(struct json_object *object, const char *path)
{
    return json_object_get_uint64(cli_json_at(object, path));
}

int64_t
cli_json_i64(struct json_object *object, const char *path)
{
    return json_object_get_int64(cli_json_at(object, path));
}

bool
cli_json_bool(struct json_object *object, const char *path)
{
    return json_object_get_boolean(cli_json_at(object, path));
}

size_t
cli_json_count(struct json_object *object, const char *path)
{
    struct json_object *array = cli_json_at(object, path);

    return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

struct json_object *
cli_json_item(struct json_object *object, const char *path, size_t index)
{
    struct json_object *array = cli_json_at(object, path);

    if (!json_object_is_type(array, json_type_array) || index >= json_object_array_length(array))
        return NULL;
    return json_object_array_get_idx(array, index);
}

void
cli_json_join(struct json_object *object, const char *path, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < cli_json_count(object, path) && used < size; i++) {
        const char *text = json_object_get_string(cli_json_item(object, path, i));

        used += (size_t)snprintf(out + used, size - used, "%s%s", i == 0 ? "" : " ",
                                 text == NULL ? "" : text);
    }
}

void
cli_json_add(struct json_object *object, const char *name, uint64_t value)
{
    (void)json_object_object_add(object, name, json_object_new_uint64(value));
}

void
cli_json_add_text(struct json_object *object, const char *name, const char *text)
{
    (void)json_object_object_add(object, name, json_object_new_string(text));
}

void
cli_json_add_number(struct json_object *object, const char *name, double value, int digits)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "%.*f", digits, value);
    (void)json_object_object_add(object, name, json_object_new_double_s(value, text));
}

void
cli_json_print(FILE *out, struct json_object *object)
{
    (void)fprintf(out, "%s\n",
                  json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
                                                             JSON_C_TO_STRING_NOSLASHESCAPE));
}
