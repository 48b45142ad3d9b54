#include "cli/g4_quarantine.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/server.h"
#include "cli/table.h"

enum { PATH_MAX_BYTES = 64, ID_MAX = 64 };

/* Of the gateway: how many it may keep, which `show` looks through. */
#define ENTRIES_MAX 2000

/* An entry's id is its file's name without ".body". */
static void
id_of(struct json_object *entry, char id[ID_MAX])
{
    const char *file = cli_json_text(entry, "file");

    (void)snprintf(id, ID_MAX, "%.*s", (int)strcspn(file, "."), file);
}

static void
print_table(const struct cli_context *context, struct json_object *answer)
{
    static const struct cli_column columns[] = {{"ID", false},   {"FOUND", false},
                                                {"TIER", false}, {"SIZE", true},
                                                {"KEY", false},  {"REASON", false}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(answer, "entries"); i++) {
        struct json_object *entry = cli_json_item(answer, "entries", i);
        char found[KVT_CLOCK_TEXT_MAX];
        char size[KVT_SIZE_TEXT_MAX];
        char id[ID_MAX];

        id_of(entry, id);
        kvt_clock_format(cli_json_u64(entry, "time_ms"), found);
        kvt_size_format(cli_json_u64(entry, "size"), size);
        cli_table_add(&table, "%s", id);
        cli_table_add(&table, "%s", found);
        cli_table_add(&table, "%s", cli_json_text(entry, "tier"));
        cli_table_add(&table, "%s", size);
        cli_table_add(&table, "%s", cli_json_text(entry, "key"));
        cli_table_add(&table, "%s", cli_json_text(entry, "reason"));
    }
    cli_table_print(&table, context->out);
    cli_table_release(&table);
}

static void
print_entry(const struct cli_context *context, struct json_object *entry)
{
    FILE *out = context->out;
    char found[KVT_CLOCK_TEXT_MAX];

    if (context->json) {
        (void)json_object_object_add(entry, "schema_version", json_object_new_int(1));
        cli_json_print(out, entry);
        return;
    }
    kvt_clock_format(cli_json_u64(entry, "time_ms"), found);
    (void)fputs("key     ", out);
    cli_table_text(out, cli_json_text(entry, "key"));
    (void)fprintf(out, "\ntier    %s\nfound   %s\nsize    %" PRIu64 " bytes\nreason  ",
                  cli_json_text(entry, "tier"), found, cli_json_u64(entry, "size"));
    cli_table_text(out, cli_json_text(entry, "reason"));
    (void)fprintf(out, "\nfile    %s in quarantine/ of the gateway's state.dir\n",
                  cli_json_text(entry, "file"));
}

/* By id, or the newest of a key. */
static enum cli_exit
show(const struct cli_context *context, struct json_object *answer, const char *name)
{
    struct kvt_error err = {0};

    for (size_t i = 0; i < cli_json_count(answer, "entries"); i++) {
        struct json_object *entry = cli_json_item(answer, "entries", i);
        char id[ID_MAX];

        id_of(entry, id);
        if (strcmp(id, name) == 0 || strcmp(cli_json_text(entry, "key"), name) == 0) {
            print_entry(context, entry);
            return CLI_EXIT_DONE;
        }
    }
    (void)kvt_error_set(&err, KVT_NOTFOUND, "nothing of %.120s is in quarantine", name);
    return cli_context_fail(context, &err);
}

enum cli_exit
cli_g4_quarantine(const struct cli_context *context)
{
    const char *verb = context->argument_count > 0 ? context->arguments[0] : "ls";
    const bool ls = strcmp(verb, "ls") == 0;
    struct json_object *answer = NULL;
    struct kvt_error err = {0};
    char path[PATH_MAX_BYTES];
    enum cli_exit status = CLI_EXIT_DONE;

    if (!ls && strcmp(verb, "show") != 0)
        return cli_context_usage(context, "g4 quarantine: ls or show, not \"%s\"", verb);
    if (!ls && context->argument_count < 2)
        return cli_context_usage(context, "g4 quarantine show wants an ID or a KEY");
    (void)snprintf(path, sizeof(path), "/v1/quarantine?limit=%" PRIu64,
                   ls ? kvt_config_u64(context->options, CLI_QUARANTINE_LIMIT)
                      : (uint64_t)ENTRIES_MAX);
    if (cli_server_ask(context, CLI_SERVER_GATEWAY, path, NULL, false, &answer, &err) != KVT_OK)
        return cli_server_fail(context, CLI_SERVER_GATEWAY, &err);
    if (!ls)
        status = show(context, answer, context->arguments[1]);
    else if (context->json)
        cli_json_print(context->out, answer);
    else
        print_table(context, answer);
    (void)json_object_put(answer);
    return status;
}
