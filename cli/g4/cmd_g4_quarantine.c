#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/g4/g4_commands.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"

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

static bool
is_named(struct json_object *entry, const char *name)
{
    char id[ID_MAX];

    id_of(entry, id);
    return strcmp(id, name) == 0 || strcmp(cli_json_text(entry, "key"), name) == 0;
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

        if (is_named(entry, name)) {
            print_entry(context, entry);
            return CLI_EXIT_DONE;
        }
    }
    (void)kvt_error_set(&err, KVT_NOTFOUND, "nothing of %.120s is in quarantine", name);
    return cli_context_fail(context, &err);
}

/* ---- restore, drop ---- */

/* What came of the entries that were meant. */
struct tally {
    uint64_t meant;
    uint64_t done; /* or could be, without --yes */
    uint64_t failed;
};

/* Ask for one; `why_not` "" = it is done, or could be. */
static enum kvt_err
act_on(const struct cli_context *context, const char *verb, const char *id, bool act,
       struct json_object **answer, struct kvt_error *err)
{
    struct json_object *body = json_object_new_object();
    enum kvt_err rc;

    (void)json_object_object_add(body, "action", json_object_new_string(verb));
    (void)json_object_object_add(body, "id", json_object_new_string(id));
    (void)json_object_object_add(body, "dry_run", json_object_new_boolean(!act));
    rc = cli_admin_ask(context, CLI_ADMIN_GATEWAY, "/v1/quarantine", body, true, answer, err);
    (void)json_object_put(body);
    return rc;
}

static void
print_outcome(const struct cli_context *context, const char *verb, struct json_object *entry,
              struct json_object *answer)
{
    const bool done = cli_json_bool(answer, "done");
    const char *why_not = cli_json_text(answer, "why_not");
    const char *key = cli_json_text(entry, "key");
    FILE *out = context->out;

    if (context->json) {
        (void)json_object_object_add(answer, "key", json_object_new_string(key));
        (void)json_object_object_add(answer, "action", json_object_new_string(verb));
        cli_json_print(out, answer);
        return;
    }
    (void)fprintf(out, "%-8s  %s  ",
                  why_not[0] != '\0' ? "left"
                  : done             ? "done"
                                     : verb,
                  cli_json_text(answer, "id"));
    cli_table_text(out, key);
    (void)fprintf(out, "%s", why_not[0] == '\0' ? "" : ": ");
    cli_table_text(out, why_not);
    (void)fputc('\n', out);
}

/* One that went away meanwhile is none. */
static enum kvt_err
act_entry(const struct cli_context *context, const char *verb, struct json_object *entry,
          struct tally *tally, struct kvt_error *err)
{
    const bool act = kvt_config_bool(context->options, CLI_QUARANTINE_YES);
    struct json_object *answer = NULL;
    char id[ID_MAX];
    enum kvt_err rc;

    id_of(entry, id);
    rc = act_on(context, verb, id, act, &answer, err);
    if (rc != KVT_OK)
        return rc;
    if (strcmp(cli_json_text(answer, "code"), kvt_err_name(KVT_NOTFOUND)) != 0) {
        const bool bad = cli_json_text(answer, "why_not")[0] != '\0';

        tally->meant++;
        tally->done += bad ? 0 : 1;
        tally->failed += bad ? 1 : 0;
        print_outcome(context, verb, entry, answer);
    }
    (void)json_object_put(answer);
    return KVT_OK;
}

/* All, or those of an id or key. */
static enum cli_exit
act_all(const struct cli_context *context, struct json_object *answer, const char *verb,
        const char *name)
{
    const bool act = kvt_config_bool(context->options, CLI_QUARANTINE_YES);
    struct tally tally = {0};
    struct kvt_error err = {0};
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; rc == KVT_OK && i < cli_json_count(answer, "entries"); i++) {
        struct json_object *entry = cli_json_item(answer, "entries", i);

        if (name == NULL || is_named(entry, name))
            rc = act_entry(context, verb, entry, &tally, &err);
    }
    if (rc != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
    if (tally.meant == 0 && name != NULL) {
        (void)kvt_error_set(&err, KVT_NOTFOUND, "nothing of %.120s is in quarantine", name);
        return cli_context_fail(context, &err);
    }
    (void)fprintf(context->err, "%" PRIu64 " of %" PRIu64 " %s%s\n", tally.done, tally.meant,
                  act                         ? "done"
                  : strcmp(verb, "drop") == 0 ? "to be dropped"
                                              : "can be put back",
                  act || tally.done == 0 ? "" : "; --yes does it");
    return tally.failed > 0 ? CLI_EXIT_PARTIAL : CLI_EXIT_DONE;
}

enum cli_exit
cli_g4_quarantine(const struct cli_context *context)
{
    const char *verb = context->argument_count > 0 ? context->arguments[0] : "ls";
    const char *name = context->argument_count > 1 ? context->arguments[1] : NULL;
    const bool ls = strcmp(verb, "ls") == 0;
    const bool acts = strcmp(verb, "restore") == 0 || strcmp(verb, "drop") == 0;
    const bool all = kvt_config_bool(context->options, CLI_QUARANTINE_ALL);
    struct json_object *answer = NULL;
    struct kvt_error err = {0};
    char path[PATH_MAX_BYTES];
    enum cli_exit status = CLI_EXIT_DONE;

    if (!ls && !acts && strcmp(verb, "show") != 0)
        return cli_context_usage(context, "g4 quarantine: ls, show, restore or drop, not \"%s\"",
                                 verb);
    if (!acts && (all || kvt_config_bool(context->options, CLI_QUARANTINE_YES)))
        return cli_context_usage(context, "--all and --yes are of restore and drop");
    if (acts && all == (name != NULL))
        return cli_context_usage(context, "g4 quarantine %s wants an ID or a KEY, or --all", verb);
    if (!ls && !acts && name == NULL)
        return cli_context_usage(context, "g4 quarantine show wants an ID or a KEY");
    (void)snprintf(path, sizeof(path), "/v1/quarantine?limit=%" PRIu64,
                   ls ? kvt_config_u64(context->options, CLI_QUARANTINE_LIMIT)
                      : (uint64_t)ENTRIES_MAX);
    if (cli_admin_ask(context, CLI_ADMIN_GATEWAY, path, NULL, false, &answer, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
    if (acts)
        status = act_all(context, answer, verb, name);
    else if (!ls)
        status = show(context, answer, name);
    else if (context->json)
        cli_json_print(context->out, answer);
    else
        print_table(context, answer);
    (void)json_object_put(answer);
    return status;
}
