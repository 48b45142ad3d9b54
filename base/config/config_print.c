#include <inttypes.h>
#include <string.h>

#include "base/config/config_private.h"
#include "base/core/alloc.h"
#include "base/core/escape.h"
#include "base/core/redact.h"

enum { HELP_WIDTH = 80 }; /* of a terminal */

static const char *
metavar(const struct kvt_param *param)
{
    switch (param->type) {
    case KVT_CONFIG_STRING: return "TEXT";
    case KVT_CONFIG_BOOL: return "";
    case KVT_CONFIG_INT: return "N";
    case KVT_CONFIG_SIZE: return "SIZE";
    case KVT_CONFIG_DURATION: return "TIME";
    case KVT_CONFIG_RATIO: return "RATIO";
    case KVT_CONFIG_PATH: return "PATH";
    case KVT_CONFIG_SECRET: return "FILE";
    case KVT_CONFIG_ENUM: return param->max;
    }
    return "";
}

/* `text` in lines of at most HELP_WIDTH, each behind `lead`. */
static void
print_wrapped(FILE *out, const char *lead, const char *text)
{
    const size_t room = HELP_WIDTH - strlen(lead);

    while (*text != '\0') {
        size_t size = strlen(text);

        if (size > room) {
            for (size = room; size > 0 && text[size] != ' '; size--)
                continue;
            if (size == 0)
                size = strcspn(text, " "); /* one word wider than the page */
        }
        (void)fprintf(out, "%s%.*s\n", lead, (int)size, text);
        text += size;
        text += strspn(text, " ");
    }
}

/* "default 9471, at least 0, at most 65535; KVTIER_ADMIN_PORT" */
static void
format_facts(const struct kvt_param *param, char *text, size_t size)
{
    const bool number = param->type != KVT_CONFIG_ENUM;
    char name[KVT_CONFIG_KEY_MAX];
    int done;

    kvt_config_env_name(param, name);
    done = snprintf(
        text, size, "%s%s%s%s%s%s; %s", param->fallback[0] == '\0' ? "no default" : "default ",
        param->fallback, param->min[0] == '\0' ? "" : ", at least ", param->min,
        param->max[0] == '\0' || !number ? "" : ", at most ", number ? param->max : "", name);
    for (size_t row = 0; done > 0 && (size_t)done < size; row++) {
        if (!kvt_config_word(param->env_alias, row, name))
            return;
        done += snprintf(text + done, size - (size_t)done, ", %s", name);
    }
}

void
kvt_config_print_flags(const struct kvt_config *config, FILE *out)
{
    for (size_t i = 0; i < config->count; i++) {
        const struct kvt_param *param = &config->params[i];
        const bool negatable = param->type == KVT_CONFIG_BOOL;
        char flag[KVT_CONFIG_KEY_MAX];
        char facts[KVT_ERROR_TEXT_MAX];
        char line[sizeof(facts) + 2];

        kvt_config_flag_name(param, flag);
        format_facts(param, facts, sizeof(facts));
        (void)snprintf(line, sizeof(line), "(%s)", facts);
        (void)fprintf(out, "  --%s%s%s%s%s\n", flag, negatable ? "" : " ", metavar(param),
                      negatable ? ", --no-" : "", negatable ? flag : "");
        print_wrapped(out, "        ", param->help);
        print_wrapped(out, "        ", line);
    }
}

/* A value as YAML: bare where that is plainly safe, otherwise quoted (JSON's quotes are YAML's). */
static void
print_quoted(FILE *out, const char *text)
{
    char quoted[KVT_CONFIG_VALUE_MAX * KVT_ESCAPE_GROWTH];
    const size_t size = kvt_escape_json(quoted, sizeof(quoted), text);

    (void)fprintf(out, "\"%.*s\"", (int)size, quoted);
}

static void
print_yaml_value(FILE *out, const struct kvt_param *param)
{
    const bool text = param->type == KVT_CONFIG_STRING || param->type == KVT_CONFIG_PATH ||
                      param->type == KVT_CONFIG_SECRET;

    if (text || param->fallback[0] == '\0')
        print_quoted(out, param->fallback);
    else
        (void)fputs(param->fallback, out);
}

/* Has an earlier row the same first `size` bytes, up to and with the dot? */
static bool
section_is_old(const struct kvt_config *config, size_t index, size_t size)
{
    const char *key = config->params[index].key;

    for (size_t i = 0; i < index; i++)
        if (strncmp(config->params[i].key, key, size) == 0)
            return true;
    return false;
}

/* All rows below `prefix` ("" or "admin."), sections where their first row stands.  Recursion is as
 * deep as a key has dots. */
static void
print_example_section(const struct kvt_config *config, FILE *out, const char *prefix, int depth)
{
    const size_t prefix_size = strlen(prefix);

    for (size_t i = 0; i < config->count; i++) {
        const struct kvt_param *param = &config->params[i];
        const char *rest = param->key + prefix_size;
        char facts[KVT_ERROR_TEXT_MAX];
        char section[KVT_CONFIG_KEY_MAX];
        const char *dot;
        char lead[64];

        if (strncmp(param->key, prefix, prefix_size) != 0)
            continue;
        dot = strchr(rest, '.');
        if (dot != NULL) {
            const size_t size = (size_t)(dot + 1 - param->key);

            if (section_is_old(config, i, size))
                continue;
            (void)snprintf(section, sizeof(section), "%.*s", (int)size, param->key);
            (void)fprintf(out, "%s%*s%.*s:\n", depth == 0 ? "\n" : "", 2 * depth, "",
                          (int)(dot - rest), rest);
            print_example_section(config, out, section, depth + 1);
            continue;
        }
        format_facts(param, facts, sizeof(facts));
        (void)snprintf(lead, sizeof(lead), "%*s# ", 2 * depth, "");
        print_wrapped(out, lead, param->help);
        (void)fprintf(out, "%s(%s%s%s)\n", lead,
                      param->type == KVT_CONFIG_ENUM ? metavar(param) : "",
                      param->type == KVT_CONFIG_ENUM ? "; " : "", facts);
        (void)fprintf(out, "%*s#%s: ", 2 * depth, "", rest);
        print_yaml_value(out, param);
        (void)fputc('\n', out);
    }
}

void
kvt_config_print_example(const struct kvt_config *config, FILE *out)
{
    (void)fputs("# Every setting with its default.  Take away a '#' to change one.\n", out);
    print_example_section(config, out, "", 0);
}

/* Text for roff: '-' is a minus, and a line must not start with a dot or a quote. */
static void
print_roff(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        (void)fputs("\\&", out);
    for (; *text != '\0'; text++) {
        if (*text == '-')
            (void)fputs("\\-", out);
        else if (*text == '\\')
            (void)fputs("\\e", out);
        else
            (void)fputc(*text, out);
    }
}

void
kvt_config_print_man(const struct kvt_config *config, FILE *out)
{
    (void)fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < config->count; i++) {
        const struct kvt_param *param = &config->params[i];
        char flag[KVT_CONFIG_KEY_MAX];
        char facts[KVT_ERROR_TEXT_MAX];

        kvt_config_flag_name(param, flag);
        format_facts(param, facts, sizeof(facts));
        (void)fputs(".TP\n\\fB\\-\\-", out);
        print_roff(out, flag);
        (void)fputs("\\fR", out);
        if (param->type == KVT_CONFIG_BOOL) {
            (void)fputs(", \\fB\\-\\-no\\-", out);
            print_roff(out, flag);
            (void)fputs("\\fR", out);
        } else {
            (void)fputs(" \\fI", out);
            print_roff(out, metavar(param));
            (void)fputs("\\fR", out);
        }
        (void)fputc('\n', out);
        print_roff(out, param->help);
        (void)fputs("\n.br\n", out);
        print_roff(out, facts);
        (void)fputs("; \\fB", out);
        print_roff(out, param->key);
        (void)fputs("\\fR in the settings file\n", out);
    }
}

static void
print_origin(FILE *out, const struct kvt_config_value *value, bool json)
{
    static const char *const names[] = {
        [KVT_ORIGIN_DEFAULT] = "default", [KVT_ORIGIN_FILE] = "file",
        [KVT_ORIGIN_CONTEXT] = "context", [KVT_ORIGIN_ENV] = "environment",
        [KVT_ORIGIN_FLAG] = "flag",
    };

    if (!json) {
        (void)fprintf(out, "  # %s%s%s", names[value->origin], value->where == NULL ? "" : " ",
                      value->where == NULL ? "" : value->where);
        return;
    }
    (void)fprintf(out, ",\"origin\":\"%s\",\"where\":", names[value->origin]);
    print_quoted(out, value->where == NULL ? "" : value->where);
}

/* Addresses may have a password in them. */
static void
format_value(const struct kvt_config *config, size_t index, char text[KVT_CONFIG_VALUE_MAX])
{
    const char *key = config->params[index].key;
    const char *dot = strrchr(key, '.');
    const char *last = dot == NULL ? key : dot + 1;

    if (strcmp(last, "url") == 0 || strcmp(last, "endpoint") == 0 ||
        strcmp(last, "data_url") == 0) {
        kvt_redact_url(text, KVT_CONFIG_VALUE_MAX, config->values[index].text);
        return;
    }
    (void)snprintf(text, KVT_CONFIG_VALUE_MAX, "%s", config->values[index].text);
    kvt_redact(text);
}

static void
print_json_value(FILE *out, const struct kvt_config *config, size_t index, const char *shown)
{
    const struct kvt_config_value *value = &config->values[index];

    if (config->params[index].type == KVT_CONFIG_BOOL)
        (void)fputs(value->number != 0 ? "true" : "false", out);
    else if (config->params[index].type == KVT_CONFIG_INT && value->text[0] != '\0')
        (void)fprintf(out, "%" PRIu64, value->number);
    else
        print_quoted(out, shown);
}

void
kvt_config_print_show(const struct kvt_config *config, FILE *out, bool origin, bool json)
{
    if (json)
        (void)fputs("{", out);
    for (size_t i = 0; i < config->count; i++) {
        const struct kvt_config_value *value = &config->values[i];
        char shown[KVT_CONFIG_VALUE_MAX];

        format_value(config, i, shown);
        if (json) {
            (void)fprintf(out, "%s\n  \"%s\": ", i == 0 ? "" : ",", config->params[i].key);
            (void)fputs(origin ? "{\"value\":" : "", out);
            print_json_value(out, config, i, shown);
            if (origin)
                print_origin(out, value, true);
            (void)fputs(origin ? "}" : "", out);
        } else {
            (void)fprintf(out, "%s: %s", config->params[i].key, shown[0] == '\0' ? "\"\"" : shown);
            if (origin)
                print_origin(out, value, false);
            (void)fputc('\n', out);
        }
    }
    if (json)
        (void)fputs("\n}\n", out);
}
