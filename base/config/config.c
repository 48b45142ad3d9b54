#include "base/config/config.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/config/config_private.h"
#include "base/core/alloc.h"

#define ENV_PREFIX "KVTIER_"

void
kvt_config_flag_name(const struct kvt_param *param, char name[KVT_CONFIG_KEY_MAX])
{
    (void)snprintf(name, KVT_CONFIG_KEY_MAX, "%s", param->key);
    for (char *at = name; *at != '\0'; at++)
        if (*at == '.' || *at == '_')
            *at = '-';
}

void
kvt_config_env_name(const struct kvt_param *param, char name[KVT_CONFIG_KEY_MAX])
{
    (void)snprintf(name, KVT_CONFIG_KEY_MAX, ENV_PREFIX "%s", param->key);
    for (char *at = name; *at != '\0'; at++)
        *at = (char)(*at == '.' ? '_' : toupper((unsigned char)*at));
}

bool
kvt_config_word(const char *words, size_t row, char word[KVT_CONFIG_KEY_MAX])
{
    const char *end;

    for (; row > 0; row--) {
        words = strchr(words, '|');
        if (words == NULL)
            return false;
        words++;
    }
    end = strchrnul(words, '|');
    (void)snprintf(word, KVT_CONFIG_KEY_MAX, "%.*s", (int)(end - words), words);
    return word[0] != '\0';
}

/* ---- one value ---- */

static bool
parse_bool(const char *text, uint64_t *number)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *number = i % 2;
            return true;
        }
    }
    return false;
}

static enum kvt_err
convert_enum(const struct kvt_param *param, const char *text, uint64_t *number, const char *where,
             struct kvt_error *err)
{
    char words[KVT_CONFIG_PARAMS_MAX][KVT_CONFIG_KEY_MAX];
    const char *pointers[KVT_CONFIG_PARAMS_MAX];
    const char *near;
    size_t count;

    for (count = 0; count < KVT_CONFIG_PARAMS_MAX; count++) {
        if (!kvt_config_word(param->max, count, words[count]))
            break;
        if (strcmp(words[count], text) == 0) {
            *number = count;
            return KVT_OK;
        }
        pointers[count] = words[count];
    }
    near = kvt_suggest(text, pointers, count);
    if (near != NULL)
        return kvt_error_set(err, KVT_INVALID, "%s: \"%s\" is none of %s (did you mean \"%s\"?)",
                             where, text, param->max, near);
    return kvt_error_set(err, KVT_INVALID, "%s: \"%s\" is none of %s", where, text, param->max);
}

/* The number behind `text` for the types that have one; the text of a limit is read the same way.
 */
static enum kvt_err
convert_number(enum kvt_config_type type, const char *text, uint64_t *number)
{
    uint32_t ppm;
    enum kvt_err rc;

    switch (type) {
    case KVT_CONFIG_INT: return kvt_parse_u64(text, number);
    case KVT_CONFIG_SIZE: return kvt_parse_size(text, number);
    case KVT_CONFIG_DURATION: return kvt_parse_duration(text, number);
    case KVT_CONFIG_RATIO:
        rc = kvt_parse_ratio(text, &ppm);
        *number = ppm;
        return rc;
    case KVT_CONFIG_BOOL: return parse_bool(text, number) ? KVT_OK : KVT_INVALID;
    case KVT_CONFIG_STRING:
    case KVT_CONFIG_PATH:
    case KVT_CONFIG_SECRET:
    case KVT_CONFIG_ENUM: break;
    }
    *number = 0;
    return KVT_OK;
}

static const char *
expected(enum kvt_config_type type)
{
    switch (type) {
    case KVT_CONFIG_INT: return "a whole number";
    case KVT_CONFIG_SIZE: return "a size (bytes, or with KiB MiB GiB TiB KB MB GB TB)";
    case KVT_CONFIG_DURATION: return "a duration (milliseconds, or with ms s m h d)";
    case KVT_CONFIG_RATIO: return "a ratio (85% or 0.85)";
    case KVT_CONFIG_BOOL: return "true or false";
    case KVT_CONFIG_STRING:
    case KVT_CONFIG_PATH:
    case KVT_CONFIG_SECRET:
    case KVT_CONFIG_ENUM: break;
    }
    return "text";
}

/* Who forgot the unit is told so: a bare number is milliseconds, which are rarely meant. */
static const char *
missing_unit(const struct kvt_param *param, const char *text)
{
    const bool bare = text[0] != '\0' && isdigit((unsigned char)text[strlen(text) - 1]);

    return bare && param->type == KVT_CONFIG_DURATION
               ? "; a number without a unit is milliseconds: add s, m, h or d"
               : "";
}

static enum kvt_err
check_limits(const struct kvt_param *param, const char *text, uint64_t number, const char *where,
             struct kvt_error *err)
{
    uint64_t limit;

    if (param->min[0] != '\0' && convert_number(param->type, param->min, &limit) == KVT_OK &&
        number < limit)
        return kvt_error_set(err, KVT_INVALID, "%s: %s is below the least, %s%s", where, text,
                             param->min, missing_unit(param, text));
    if (param->max[0] != '\0' && convert_number(param->type, param->max, &limit) == KVT_OK &&
        number > limit)
        return kvt_error_set(err, KVT_INVALID, "%s: %s is above the most, %s%s", where, text,
                             param->max, missing_unit(param, text));
    return KVT_OK;
}

static bool
has_number(enum kvt_config_type type)
{
    return type == KVT_CONFIG_INT || type == KVT_CONFIG_SIZE || type == KVT_CONFIG_DURATION ||
           type == KVT_CONFIG_RATIO || type == KVT_CONFIG_BOOL;
}

static enum kvt_err
convert(const struct kvt_param *param, const char *text, uint64_t *number, const char *where,
        struct kvt_error *err)
{
    enum kvt_err rc;

    *number = 0;
    if (strlen(text) >= KVT_CONFIG_VALUE_MAX)
        return kvt_error_set(err, KVT_RANGE, "%s: longer than %d bytes", where,
                             KVT_CONFIG_VALUE_MAX - 1);
    /* A line break in a setting ends up in a header, a log line or a path: never meant. */
    for (const char *at = text; *at != '\0'; at++)
        if (iscntrl((unsigned char)*at))
            return kvt_error_set(err, KVT_INVALID, "%s: control character in the value", where);
    if (text[0] == '\0' && (!has_number(param->type) || param->fallback[0] == '\0') &&
        (param->type != KVT_CONFIG_ENUM || param->fallback[0] == '\0'))
        return KVT_OK; /* unset */
    if (param->type == KVT_CONFIG_ENUM)
        return convert_enum(param, text, number, where, err);
    if (!has_number(param->type))
        return KVT_OK;
    rc = convert_number(param->type, text, number);
    if (rc == KVT_RANGE)
        return kvt_error_set(err, KVT_RANGE, "%s: %s is too large to count", where, text);
    if (rc != KVT_OK)
        return kvt_error_set(err, KVT_INVALID, "%s: \"%s\" is not %s", where, text,
                             expected(param->type));
    return check_limits(param, text, *number, where, err);
}

enum kvt_err
kvt_config_assign(struct kvt_config *config, size_t index, const char *text,
                  enum kvt_config_origin origin, const char *where, struct kvt_error *err)
{
    struct kvt_config_value *value = &config->values[index];
    char *where_copy = NULL;
    char *copy = NULL;
    char place[256];
    uint64_t number;
    enum kvt_err rc;

    /* A flag or a variable names the setting by itself; a line and a column do not. */
    (void)snprintf(place, sizeof(place), "%s%s%s", where, origin == KVT_ORIGIN_FILE ? ": " : "",
                   origin == KVT_ORIGIN_FILE ? config->params[index].key : "");
    rc = convert(&config->params[index], text, &number, place, err);
    if (rc != KVT_OK || origin < value->origin)
        return rc;
    copy = kvt_strdup(text);
    if (copy == NULL)
        goto no_memory;
    if (origin != KVT_ORIGIN_DEFAULT) {
        where_copy = kvt_strdup(where);
        if (where_copy == NULL)
            goto no_memory;
    }
    kvt_free(value->text);
    kvt_free(value->where);
    *value = (struct kvt_config_value){copy, where_copy, number, origin};
    return KVT_OK;

no_memory:
    kvt_free(copy);
    return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", where);
}

/* ---- life ---- */

enum kvt_err
kvt_config_new(struct kvt_config **out, const struct kvt_param *params, size_t count,
               struct kvt_error *err)
{
    struct kvt_config *config;
    enum kvt_err rc;

    assert(count <= KVT_CONFIG_PARAMS_MAX);
    *out = NULL;
    config = kvt_calloc(1, sizeof(*config));
    if (config == NULL)
        return kvt_error_set(err, KVT_NOMEM, "settings: out of memory");
    config->params = params;
    config->count = count;
    for (size_t i = 0; i < count; i++) {
        /* The table is ours: a key that makes no flag name, or a limit that is no value, is a bug.
         */
        uint64_t limit;

        assert(strlen(params[i].key) + sizeof(ENV_PREFIX) <= KVT_CONFIG_KEY_MAX);
        if (has_number(params[i].type)) {
            assert(params[i].min[0] == '\0' ||
                   convert_number(params[i].type, params[i].min, &limit) == KVT_OK);
            assert(params[i].max[0] == '\0' ||
                   convert_number(params[i].type, params[i].max, &limit) == KVT_OK);
        }
        rc = kvt_config_assign(config, i, params[i].fallback, KVT_ORIGIN_DEFAULT, params[i].key,
                               err);
        if (rc != KVT_OK) {
            kvt_config_free(config);
            return rc;
        }
    }
    *out = config;
    return KVT_OK;
}

void
kvt_config_free(struct kvt_config *config)
{
    if (config == NULL)
        return;
    for (size_t i = 0; i < config->count; i++) {
        kvt_free(config->values[i].text);
        kvt_free(config->values[i].where);
    }
    kvt_free(config);
}

/* ---- contexts, environment and flags ---- */

enum kvt_err
kvt_config_set_context(struct kvt_config *config, const char *key, const char *value,
                       const char *where, struct kvt_error *err)
{
    for (size_t i = 0; i < config->count; i++)
        if (strcmp(config->params[i].key, key) == 0)
            return kvt_config_assign(config, i, value, KVT_ORIGIN_CONTEXT, where, err);
    return kvt_error_set(err, KVT_NOTFOUND, "%s: no setting is called \"%s\"", where, key);
}

static enum kvt_err
load_one_env(struct kvt_config *config, size_t index, struct kvt_error *err)
{
    const struct kvt_param *param = &config->params[index];
    char name[KVT_CONFIG_KEY_MAX];
    const char *text;

    kvt_config_env_name(param, name);
    text = getenv(name);
    for (size_t row = 0; text == NULL || text[0] == '\0'; row++) {
        if (!kvt_config_word(param->env_alias, row, name))
            return KVT_OK;
        text = getenv(name);
    }
    return kvt_config_assign(config, index, text, KVT_ORIGIN_ENV, name, err);
}

enum kvt_err
kvt_config_load_env(struct kvt_config *config, struct kvt_error *err)
{
    for (size_t i = 0; i < config->count; i++) {
        const enum kvt_err rc = load_one_env(config, i, err);

        if (rc != KVT_OK)
            return rc;
    }
    return KVT_OK;
}

static bool
find_flag(const struct kvt_config *config, const char *name, size_t *index)
{
    for (*index = 0; *index < config->count; ++*index) {
        char flag[KVT_CONFIG_KEY_MAX];

        kvt_config_flag_name(&config->params[*index], flag);
        if (strcmp(flag, name) == 0)
            return true;
    }
    return false;
}

/* "no-x" where x is a BOOL. */
static bool
find_negated(const struct kvt_config *config, const char *name, size_t *index)
{
    return strncmp(name, "no-", 3) == 0 && find_flag(config, name + 3, index) &&
           config->params[*index].type == KVT_CONFIG_BOOL;
}

static enum kvt_err
unknown_flag(const struct kvt_config *config, const char *name, struct kvt_error *err)
{
    char flags[KVT_CONFIG_PARAMS_MAX][KVT_CONFIG_KEY_MAX];
    const char *words[KVT_CONFIG_PARAMS_MAX];
    const char *near;

    for (size_t i = 0; i < config->count; i++) {
        kvt_config_flag_name(&config->params[i], flags[i]);
        words[i] = flags[i];
    }
    near = kvt_suggest(name, words, config->count);
    if (near != NULL)
        return kvt_error_set(err, KVT_NOTFOUND, "unknown flag --%s (did you mean --%s?)", name,
                             near);
    return kvt_error_set(err, KVT_NOTFOUND, "unknown flag --%s", name);
}

enum kvt_err
kvt_config_set_flag(struct kvt_config *config, const char *name, const char *value,
                    struct kvt_error *err)
{
    char where[KVT_CONFIG_KEY_MAX + 8];
    size_t index;

    (void)snprintf(where, sizeof(where), "--%s", name);
    if (find_flag(config, name, &index)) {
        if (value == NULL && config->params[index].type != KVT_CONFIG_BOOL)
            return kvt_error_set(err, KVT_INVALID, "%s needs a value", where);
        return kvt_config_assign(config, index, value == NULL ? "true" : value, KVT_ORIGIN_FLAG,
                                 where, err);
    }
    if (find_negated(config, name, &index)) {
        if (value != NULL)
            return kvt_error_set(err, KVT_INVALID, "%s takes no value", where);
        return kvt_config_assign(config, index, "false", KVT_ORIGIN_FLAG, where, err);
    }
    return unknown_flag(config, name, err);
}

bool
kvt_config_flag_is_bool(const struct kvt_config *config, const char *name)
{
    size_t index;

    if (find_flag(config, name, &index))
        return config->params[index].type == KVT_CONFIG_BOOL;
    return find_negated(config, name, &index);
}

/* ---- readers ---- */

static const struct kvt_config_value *
value_of(const struct kvt_config *config, size_t index)
{
    assert(index < config->count);
    return &config->values[index];
}

const char *
kvt_config_string(const struct kvt_config *config, size_t index)
{
    return value_of(config, index)->text;
}

uint64_t
kvt_config_u64(const struct kvt_config *config, size_t index)
{
    const struct kvt_config_value *value = value_of(config, index);
    const enum kvt_config_type type = config->params[index].type;

    assert(type == KVT_CONFIG_INT || type == KVT_CONFIG_SIZE || type == KVT_CONFIG_DURATION);
    return value->number;
}

bool
kvt_config_bool(const struct kvt_config *config, size_t index)
{
    const struct kvt_config_value *value = value_of(config, index);

    assert(config->params[index].type == KVT_CONFIG_BOOL);
    return value->number != 0;
}

uint32_t
kvt_config_ppm(const struct kvt_config *config, size_t index)
{
    const struct kvt_config_value *value = value_of(config, index);

    assert(config->params[index].type == KVT_CONFIG_RATIO);
    return (uint32_t)value->number;
}

size_t
kvt_config_enum(const struct kvt_config *config, size_t index)
{
    const struct kvt_config_value *value = value_of(config, index);

    assert(config->params[index].type == KVT_CONFIG_ENUM);
    return (size_t)value->number;
}

bool
kvt_config_is_set(const struct kvt_config *config, size_t index)
{
    return value_of(config, index)->text[0] != '\0';
}

enum kvt_config_origin
kvt_config_origin(const struct kvt_config *config, size_t index)
{
    return value_of(config, index)->origin;
}
