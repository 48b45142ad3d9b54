#include "cli/output/csv_output.h"

#include <stdbool.h>
#include <string.h>

#include "base/core/alloc.h"
#include "cli/output/object_stream.h"

enum { PATH_SIZE = 256 };

struct columns {
    char *names[CLI_CSV_OUTPUT_COLUMNS_MAX];
    size_t count;
};

struct csv {
    const char *lists;      /* "name:column,column|name:column" */
    struct columns columns; /* of the lines before */
    bool begun;
};

static void
clear(struct columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        kvt_free(columns->names[i]);
    columns->count = 0;
}

static void
on_end(void *arg)
{
    struct csv *csv = arg;

    clear(&csv->columns);
    kvt_free(csv);
}

/* ---- columns ---- */

/* Where there is no memory for a name its column is left out, as beyond the limit. */
static void
add_column(struct columns *columns, const char *name)
{
    char *copy;

    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->names[i], name) == 0)
            return;
    copy = columns->count == CLI_CSV_OUTPUT_COLUMNS_MAX ? NULL : kvt_strdup(name);
    if (copy != NULL)
        columns->names[columns->count++] = copy;
}

/* The single values in an object, by their paths; as deep as cli/output/object_stream.h lets JSON
 * be. */
static void
add_columns(struct columns *columns, struct json_object *object, const char *prefix)
{
    json_object_object_foreach(object, key, value)
    {
        char path[PATH_SIZE];

        if (snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".", key) >=
            (int)sizeof(path))
            continue;
        if (json_object_is_type(value, json_type_object) && json_object_object_length(value) > 0)
            add_columns(columns, value, path);
        else
            add_column(columns, path);
    }
}

/* The member at a path whose names may have dots in them. */
static struct json_object *
member_at(struct json_object *object, const char *path)
{
    json_object_object_foreach(object, key, value)
    {
        const size_t size = strlen(key);

        if (strncmp(path, key, size) != 0)
            continue;
        if (path[size] == '\0')
            return value;
        if (path[size] == '.' && json_object_is_type(value, json_type_object)) {
            struct json_object *found = member_at(value, path + size + 1);

            if (found != NULL)
                return found;
        }
    }
    return NULL;
}

/* ---- lines ---- */

static void
put_cell(FILE *to, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL && text[0] != ' ') {
        (void)fputs(text, to);
        return;
    }
    (void)fputc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            (void)fputc('"', to);
        (void)fputc(*text, to);
    }
    (void)fputc('"', to);
}

static void
put_names(FILE *to, const struct columns *columns)
{
    for (size_t i = 0; i < columns->count; i++) {
        (void)fputs(i == 0 ? "" : ",", to);
        put_cell(to, columns->names[i]);
    }
    (void)fputc('\n', to);
}

static void
put_line(FILE *to, const struct columns *columns, struct json_object *object)
{
    for (size_t i = 0; i < columns->count; i++) {
        struct json_object *value = member_at(object, columns->names[i]);

        (void)fputs(i == 0 ? "" : ",", to);
        if (json_object_is_type(value, json_type_string))
            put_cell(to, json_object_get_string(value));
        else if (value != NULL)
            put_cell(to, json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                                   JSON_C_TO_STRING_NOSLASHESCAPE));
    }
    (void)fputc('\n', to);
}

/* The columns of a list as they are known beforehand, "name,size|..."; NULL: they are not. */
static const char *
columns_of(const struct csv *csv, const char *list)
{
    const size_t size = strlen(list);
    const char *at = csv->lists;

    while (at != NULL && at[0] != '\0') {
        if (strncmp(at, list, size) == 0 && at[size] == ':')
            return at + size + 1;
        at = strchr(at, '|');
        at = at == NULL ? NULL : at + 1;
    }
    return NULL;
}

static void
add_known(struct columns *columns, const char *known)
{
    while (known != NULL && known[0] != '\0' && known[0] != '|') {
        const size_t size = strcspn(known, ",|");
        char name[PATH_SIZE];

        (void)snprintf(name, sizeof(name), "%.*s", (int)size, known);
        add_column(columns, name);
        known += size;
        known += known[0] == ',';
    }
}

/* The first member that is a list of objects, or a list whose columns are known; NULL when there is
 * none. */
static struct json_object *
list_in(const struct csv *csv, struct json_object *object, const char **known)
{
    *known = NULL;
    json_object_object_foreach(object, name, list)
    {
        *known = json_object_is_type(list, json_type_array) ? columns_of(csv, name) : NULL;
        if (*known != NULL)
            return list;
    }
    json_object_object_foreach(object, key, value)
    {
        (void)key;
        if (json_object_is_type(value, json_type_array) && json_object_array_length(value) > 0 &&
            json_object_is_type(json_object_array_get_idx(value, 0), json_type_object))
            return value;
    }
    return NULL;
}

static bool
is_same(const struct columns *left, const struct columns *right)
{
    if (left->count != right->count)
        return false;
    for (size_t i = 0; i < left->count; i++)
        if (strcmp(left->names[i], right->names[i]) != 0)
            return false;
    return true;
}

/* Begin with the names of the columns, where they are not those of the lines before. */
static void
take_columns(struct csv *csv, FILE *to, struct columns *columns)
{
    if (csv->begun && is_same(&csv->columns, columns)) {
        clear(columns);
        return;
    }
    (void)fputs(csv->begun ? "\n" : "", to);
    csv->begun = true;
    clear(&csv->columns);
    csv->columns = *columns;
    put_names(to, &csv->columns);
}

static void
put_object(void *arg, FILE *to, struct json_object *object)
{
    struct csv *csv = arg;
    struct json_object *list;
    struct columns columns = {.count = 0};
    const char *known;
    size_t count;

    if (!json_object_is_type(object, json_type_object))
        return;
    list = list_in(csv, object, &known);
    add_known(&columns, known);
    count = list == NULL ? 0 : json_object_array_length(list);
    for (size_t i = 0; i < count; i++)
        if (json_object_is_type(json_object_array_get_idx(list, i), json_type_object))
            add_columns(&columns, json_object_array_get_idx(list, i), "");
    if (list == NULL)
        add_columns(&columns, object, "");
    take_columns(csv, to, &columns);
    for (size_t i = 0; i < count; i++)
        put_line(to, &csv->columns, json_object_array_get_idx(list, i));
    if (list == NULL)
        put_line(to, &csv->columns, object);
}

FILE *
cli_csv_output_open(FILE *to, const char *lists)
{
    static const struct cli_object_stream_ops ops = {put_object, on_end};
    struct csv *csv = kvt_calloc(1, sizeof(*csv));

    if (csv == NULL)
        return NULL;
    csv->lists = lists;
    return cli_object_stream_open(to, &ops, csv);
}
