#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/contexts.h"
#include "cli/frame/options.h"
#include "cli/ops/ops_commands.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"

/* "user:word@" of an address is left out wherever it is shown, and never kept. */
static bool
holds_secret(const char *value)
{
    const char *rest = strstr(value, "://");
    const char *at;

    if (rest == NULL)
        return false;
    rest += strlen("://");
    at = strchr(rest, '@');
    return at != NULL && at < rest + strcspn(rest, "/?#");
}

/* A copy of what is to be kept: files are named from the root, for it is used anywhere. */
static char *
kept(const struct kvt_param *param, const char *value)
{
    char folder[CLI_CONTEXT_VALUE_MAX];
    char path[2 * CLI_CONTEXT_VALUE_MAX];
    const bool file = param->type == KVT_CONFIG_PATH || param->type == KVT_CONFIG_SECRET;

    if (!file || value[0] == '\0' || value[0] == '/' || getcwd(folder, sizeof(folder)) == NULL)
        return kvt_strdup(value);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, value);
    return kvt_strdup(path);
}

/* The flags of this command line, into the entry. */
static enum kvt_err
take_flags(const struct cli_context *context, struct cli_context_entry *entry, size_t *taken,
           struct kvt_error *err)
{
    *taken = 0;
    for (size_t i = 0; i < CLI_CONTEXT_KEYS; i++) {
        const size_t index = cli_context_keys[i];
        const char *value = kvt_config_string(context->settings, index);

        if (kvt_config_origin(context->settings, index) != KVT_ORIGIN_FLAG)
            continue;
        if (holds_secret(value))
            return kvt_error_set(err, KVT_INVALID,
                                 "%s has a password in it, which a context does not keep: name a "
                                 "file of it, as with --nats-user-file",
                                 cli_settings[index].key);
        kvt_free(entry->values[i]);
        entry->values[i] = kept(&cli_settings[index], value);
        if (entry->values[i] == NULL)
            return kvt_error_set(err, KVT_NOMEM, "out of memory");
        if (strlen(entry->values[i]) >= CLI_CONTEXT_VALUE_MAX)
            return kvt_error_set(err, KVT_RANGE, "%s is too long", cli_settings[index].key);
        (*taken)++;
    }
    return KVT_OK;
}

enum cli_exit
cli_context_command_add(const struct cli_context *context)
{
    const char *name = context->arguments[0];
    struct cli_contexts *contexts = NULL;
    struct cli_context_entry *entry;
    struct kvt_error err = {0};
    size_t taken = 0;
    enum kvt_err rc;
    int lock;

    if (!cli_contexts_name_ok(name))
        return cli_context_usage(context,
                                 "\"%.60s\" is no name of a context: letters, digits, '.', '_' and "
                                 "'-', at most %d",
                                 name, CLI_CONTEXT_NAME_MAX - 1);
    rc = cli_contexts_lock(&contexts, &lock, &err);
    if (rc != KVT_OK)
        return cli_context_fail(context, &err);
    entry = cli_contexts_find(contexts, name);
    if (entry != NULL && !kvt_config_bool(context->options, CLI_CONTEXT_ADD_REPLACE))
        rc = kvt_error_set(&err, KVT_EXISTS,
                           "there is a context \"%s\" already; change it with --replace", name);
    else if (entry == NULL)
        rc = cli_contexts_add(contexts, name, &entry, &err);
    if (rc == KVT_OK)
        rc = take_flags(context, entry, &taken, &err);
    if (rc == KVT_OK && taken > 0)
        rc = cli_contexts_save(contexts, &err);
    cli_contexts_free(contexts);
    (void)close(lock);
    if (rc != KVT_OK)
        return cli_context_fail(context, &err);
    if (taken == 0)
        return cli_context_usage(context, "context add wants what to keep, as --advisor-url URL");
    (void)fprintf(context->err, "use it with:  kvtier context use %s\n", name);
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_context_command_use(const struct cli_context *context)
{
    const char *name = context->arguments[0];
    const bool none = strcmp(name, "-") == 0;
    struct cli_contexts *contexts = NULL;
    struct kvt_error err = {0};
    enum kvt_err rc;
    int lock;

    rc = cli_contexts_lock(&contexts, &lock, &err);
    if (rc != KVT_OK)
        return cli_context_fail(context, &err);
    if (!none && cli_contexts_find(contexts, name) == NULL)
        rc = cli_contexts_unknown(contexts, name, &err);
    else
        (void)snprintf(contexts->current, sizeof(contexts->current), "%s", none ? "" : name);
    if (rc == KVT_OK)
        rc = cli_contexts_save(contexts, &err);
    cli_contexts_free(contexts);
    (void)close(lock);
    return rc == KVT_OK ? CLI_EXIT_DONE : cli_context_fail(context, &err);
}

enum cli_exit
cli_context_command_rm(const struct cli_context *context)
{
    const char *name = context->arguments[0];
    struct cli_contexts *contexts = NULL;
    struct cli_context_entry *entry;
    struct kvt_error err = {0};
    enum kvt_err rc;
    int lock;

    rc = cli_contexts_lock(&contexts, &lock, &err);
    if (rc != KVT_OK)
        return cli_context_fail(context, &err);
    entry = cli_contexts_find(contexts, name);
    if (entry == NULL) {
        rc = cli_contexts_unknown(contexts, name, &err);
    } else {
        cli_contexts_remove(contexts, entry);
        rc = cli_contexts_save(contexts, &err);
    }
    cli_contexts_free(contexts);
    (void)close(lock);
    return rc == KVT_OK ? CLI_EXIT_DONE : cli_context_fail(context, &err);
}

/* ---- ls ---- */

static void
print_json(FILE *out, const struct cli_contexts *contexts, const char *current)
{
    struct json_object *answer = json_object_new_object();
    struct json_object *rows = json_object_new_array();

    for (size_t i = 0; i < contexts->count; i++) {
        const struct cli_context_entry *entry = &contexts->entries[i];
        struct json_object *row = json_object_new_object();
        struct json_object *values = json_object_new_object();

        for (size_t key = 0; key < CLI_CONTEXT_KEYS; key++)
            if (entry->values[key] != NULL)
                (void)json_object_object_add(values, cli_settings[cli_context_keys[key]].key,
                                             json_object_new_string(holds_secret(entry->values[key])
                                                                        ? "(not shown)"
                                                                        : entry->values[key]));
        (void)json_object_object_add(row, "name", json_object_new_string(entry->name));
        (void)json_object_object_add(row, "current",
                                     json_object_new_boolean(strcmp(entry->name, current) == 0));
        (void)json_object_object_add(row, "settings", values);
        (void)json_object_array_add(rows, row);
    }
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "contexts", rows);
    cli_json_print(out, answer);
    (void)json_object_put(answer);
}

static void
print_table(const struct cli_context *context, const struct cli_contexts *contexts,
            const char *current)
{
    struct cli_column columns[CLI_CONTEXT_KEYS + 2] = {{"", false}, {"CONTEXT", false}};
    const size_t shown = context->wide ? CLI_CONTEXT_KEYS : 2; /* advisor.url, gateway.url */
    struct cli_table table;

    for (size_t key = 0; key < shown; key++)
        columns[key + 2].title = cli_settings[cli_context_keys[key]].key;
    cli_table_init(&table, columns, shown + 2);
    for (size_t i = 0; i < contexts->count; i++) {
        const struct cli_context_entry *entry = &contexts->entries[i];

        cli_table_add(&table, "%s", strcmp(entry->name, current) == 0 ? "*" : "");
        cli_table_add(&table, "%s", entry->name);
        for (size_t key = 0; key < shown; key++)
            cli_table_add(&table, "%s",
                          entry->values[key] == NULL         ? ""
                          : holds_secret(entry->values[key]) ? "(not shown)"
                                                             : entry->values[key]);
    }
    cli_table_print(&table, context->out);
    cli_table_release(&table);
}

enum cli_exit
cli_context_command_ls(const struct cli_context *context)
{
    const char *current = kvt_config_string(context->settings, CLI_SETTING_CONTEXT);
    struct cli_contexts *contexts;
    struct kvt_error err = {0};

    if (cli_contexts_load(&contexts, &err) != KVT_OK)
        return cli_context_fail(context, &err);
    if (current[0] == '\0')
        current = contexts->current;
    if (kvt_config_bool(context->options, CLI_CONTEXT_LS_NAMES))
        for (size_t i = 0; i < contexts->count; i++)
            (void)fprintf(context->raw, "%s\n", contexts->entries[i].name);
    else if (context->json)
        print_json(context->out, contexts, current);
    else if (contexts->count == 0)
        (void)fputs("no contexts; add one with:  kvtier context add NAME --advisor-url URL\n",
                    context->out);
    else
        print_table(context, contexts, current);
    cli_contexts_free(contexts);
    return CLI_EXIT_DONE;
}
