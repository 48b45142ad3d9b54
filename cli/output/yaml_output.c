#include "cli/output/yaml_output.h"

#include <ctype.h>
#include <json-c/json.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/core/alloc.h"
#include "cli/output/object_stream.h"

enum { INDENT = 2, DIGITS_MIN = 15, DIGITS_MAX = 17, DOUBLE_MAX = 40 };

struct yaml {
    bool begun; /* there is a document already */
};

/* ---- text ---- */

/* Words that some reader takes for a boolean or for nothing. */
static bool
is_word(const char *text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on",
                                        "off",  "null",  "y",   "n"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

static bool
is_bare(const char *text, size_t size)
{
    if (size == 0 || !(isalpha((unsigned char)text[0]) || text[0] == '_' || text[0] == '/'))
        return false;
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)text[i]) &&
            (text[i] == '\0' || strchr("_./@+-", text[i]) == NULL))
            return false;
    return !is_word(text);
}

/* Bytes of the UTF-8 character at `at`, and which it is; 0: none. */
static size_t
decode(const unsigned char *at, size_t left, uint32_t *letter)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t size = at[0] < 0x80   ? 1
                        : at[0] < 0xc0 ? 0
                        : at[0] < 0xe0 ? 2
                        : at[0] < 0xf0 ? 3
                                       : 4;

    *letter = size == 1 ? at[0] : at[0] & (0x7fu >> size);
    if (size == 0 || size > left || at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        *letter = *letter << 6 | (at[i] & 0x3f);
    }
    if (*letter < least[size] || *letter > 0x10ffff || (*letter >= 0xd800 && *letter < 0xe000))
        return 0;
    return size;
}

/* May it stand between quotes as it is? */
static bool
is_printable(uint32_t letter)
{
    if (letter < 0xa0)
        return letter >= 0x20 && letter < 0x7f && letter != '"' && letter != '\\';
    return letter != 0x2028 && letter != 0x2029 && letter != 0xfeff && (letter & 0xfffe) != 0xfffe;
}

static void
put_quoted(FILE *out, const char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)text;

    (void)fputc('"', out);
    for (size_t i = 0; i < size;) {
        uint32_t letter;
        const size_t bytes = decode(at + i, size - i, &letter);

        if (bytes == 0)
            (void)fputs("\\uFFFD", out);
        else if (is_printable(letter))
            (void)fwrite(at + i, 1, bytes, out);
        else if (letter == '"' || letter == '\\')
            (void)fprintf(out, "\\%c", (char)letter);
        else if (letter == '\n')
            (void)fputs("\\n", out);
        else if (letter == '\t')
            (void)fputs("\\t", out);
        else if (letter <= 0xffff)
            (void)fprintf(out, "\\u%04X", letter);
        else
            (void)fprintf(out, "\\U%08X", letter);
        i += bytes == 0 ? 1 : bytes;
    }
    (void)fputc('"', out);
}

static void
put_text(FILE *out, const char *text, size_t size)
{
    if (is_bare(text, size))
        (void)fputs(text, out);
    else
        put_quoted(out, text, size);
}

/* As few digits as give the same number again; with a point, without which YAML 1.1 reads text. */
static void
put_double(FILE *out, double value)
{
    char text[DOUBLE_MAX];
    size_t mantissa;

    if (!isfinite(value)) {
        (void)fputs(isnan(value) ? ".nan" : value < 0 ? "-.inf" : ".inf", out);
        return;
    }
    for (int digits = DIGITS_MIN; digits <= DIGITS_MAX; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    mantissa = strcspn(text, "e");
    (void)fprintf(out, "%.*s%s%s", (int)mantissa, text,
                  memchr(text, '.', mantissa) == NULL ? ".0" : "", text + mantissa);
}

/* ---- values ---- */

/* What stands on one line. */
static bool
put_scalar(FILE *out, struct json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_object:
        if (json_object_object_length(value) > 0)
            return false;
        (void)fputs("{}", out);
        return true;
    case json_type_array:
        if (json_object_array_length(value) > 0)
            return false;
        (void)fputs("[]", out);
        return true;
    case json_type_string:
        put_text(out, json_object_get_string(value), (size_t)json_object_get_string_len(value));
        return true;
    case json_type_double: put_double(out, json_object_get_double(value)); return true;
    case json_type_null:
    case json_type_boolean:
    case json_type_int: break;
    }
    (void)fputs(value == NULL ? "null" : json_object_to_json_string(value), out);
    return true;
}

static void put_members(FILE *out, struct json_object *object, int depth, bool here);

/* Items, indented; `here`: the first one is already.  The tokener bounds the depth. */
static void
put_items(FILE *out, struct json_object *array, int depth, bool here)
{
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        struct json_object *item = json_object_array_get_idx(array, i);

        (void)fprintf(out, "%*s- ", here ? 0 : INDENT * depth, "");
        here = false;
        if (put_scalar(out, item))
            (void)fputc('\n', out);
        else if (json_object_is_type(item, json_type_array))
            put_items(out, item, depth + 1, true);
        else
            put_members(out, item, depth + 1, true);
    }
}

static void
put_members(FILE *out, struct json_object *object, int depth, bool here)
{
    json_object_object_foreach(object, key, value)
    {
        (void)fprintf(out, "%*s", here ? 0 : INDENT * depth, "");
        here = false;
        put_text(out, key, strlen(key));
        (void)fputc(':', out);
        if (json_object_is_type(value, json_type_object) && json_object_object_length(value) > 0) {
            (void)fputc('\n', out);
            put_members(out, value, depth + 1, false);
        } else if (json_object_is_type(value, json_type_array) &&
                   json_object_array_length(value) > 0) {
            (void)fputc('\n', out);
            put_items(out, value, depth + 1, false);
        } else {
            (void)fputc(' ', out);
            (void)put_scalar(out, value);
            (void)fputc('\n', out);
        }
    }
}

static void
put_document(void *arg, FILE *to, struct json_object *value)
{
    struct yaml *yaml = arg;

    if (yaml->begun)
        (void)fputs("---\n", to);
    yaml->begun = true;
    if (put_scalar(to, value))
        (void)fputc('\n', to);
    else if (json_object_is_type(value, json_type_array))
        put_items(to, value, 0, false);
    else
        put_members(to, value, 0, false);
}

FILE *
cli_yaml_output_open(FILE *to)
{
    static const struct cli_object_stream_ops ops = {put_document, kvt_free};
    struct yaml *yaml = kvt_calloc(1, sizeof(*yaml));

    return yaml == NULL ? NULL : cli_object_stream_open(to, &ops, yaml);
}
