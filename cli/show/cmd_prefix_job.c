#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/frame/command.h"
#include "cli/frame/options.h"
#include "cli/ops/cmd_migrate.h"
#include "cli/output/cli_json.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"
#include "kvtier/block.h"

enum { LINE_MAX_BYTES = 64 };

/* Of all four; the same rows of options. */
enum {
    NAMESPACE = CLI_PREFIX_PIN_NAMESPACE,
    DRY_RUN = CLI_PREFIX_PIN_DRY_RUN,
    WAIT = CLI_PREFIX_PIN_WAIT
};

_Static_assert((int)CLI_PREFIX_PURGE_WAIT == (int)WAIT && (int)CLI_PREFIX_WARM_WAIT == (int)WAIT &&
                   (int)CLI_PREFIX_UNPIN_WAIT == (int)WAIT,
               "the options of a prefix begin alike");

struct act {
    const struct cli_context *context;
    const char *verb; /* of the order */
    char hash[KVT_HASH_TEXT_MAX];
    const char *to; /* the tier to warm into; NULL: the hot volume, or nothing moves */
    uint64_t until_ms;
};

static enum kvt_err
ask(const struct act *act, bool dry, struct json_object **answer, struct kvt_error *err)
{
    const struct cli_context *context = act->context;
    struct json_object *body = json_object_new_object();
    enum kvt_err rc;

    (void)json_object_object_add(body, "kind", json_object_new_string("prefix"));
    (void)json_object_object_add(body, "verb", json_object_new_string(act->verb));
    (void)json_object_object_add(body, "hash", json_object_new_string(act->hash));
    (void)json_object_object_add(
        body, "namespace", json_object_new_string(kvt_config_string(context->options, NAMESPACE)));
    if (act->to != NULL)
        (void)json_object_object_add(body, "to", json_object_new_string(act->to));
    if (act->until_ms > 0)
        (void)json_object_object_add(body, "until_ms", json_object_new_uint64(act->until_ms));
    (void)json_object_object_add(body, "dry_run", json_object_new_boolean(dry));
    rc = cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/jobs", body, true, answer, err);
    (void)json_object_put(body);
    return rc;
}

/* What it would be about. */
static enum cli_exit
show(const struct act *act, struct json_object *answer)
{
    const struct cli_context *context = act->context;
    const uint64_t blocks = cli_json_u64(answer, "blocks");
    char size[KVT_SIZE_TEXT_MAX];

    if (context->json) {
        cli_json_print(context->out, answer);
        return blocks == 0 ? CLI_EXIT_NOTHING : CLI_EXIT_PENDING;
    }
    kvt_size_format(cli_json_u64(answer, "bytes"), size);
    (void)fprintf(context->out,
                  "%s %s: %" PRIu64 " of %" PRIu64 " blocks, %s; %" PRIu64
                  " are with workers only\n",
                  act->verb, act->hash, blocks, cli_json_u64(answer, "prefix_blocks"), size,
                  cli_json_u64(answer, "elsewhere"));
    for (size_t i = 0; i < cli_json_count(answer, "gateways"); i++) {
        struct json_object *row = cli_json_item(answer, "gateways", i);

        kvt_size_format(cli_json_u64(row, "bytes"), size);
        (void)fprintf(context->out, "  at %s: %" PRIu64 " blocks, %s",
                      cli_json_text(row, "gateway"), cli_json_u64(row, "blocks"), size);
        if (cli_json_at(row, "from") != NULL)
            (void)fprintf(context->out, ", from %s to %s", cli_json_text(row, "from"),
                          cli_json_text(row, "to"));
        (void)fputc('\n', context->out);
    }
    return blocks == 0 ? CLI_EXIT_NOTHING : CLI_EXIT_PENDING;
}

static enum cli_exit
begin(const struct act *act)
{
    const struct cli_context *context = act->context;
    struct json_object *answer = NULL;
    struct kvt_error err = {0};
    enum cli_exit status = CLI_EXIT_DONE;
    uint64_t job;

    if (ask(act, false, &answer, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    job = cli_json_u64(answer, "job.id");
    if (cli_json_at(answer, "job") == NULL) { /* there is nothing of it to be done */
        status = show(act, answer);
        (void)json_object_put(answer);
        return status;
    }
    if (kvt_config_bool(context->options, WAIT)) {
        (void)json_object_put(answer);
        return cli_migrate_follow(context, job);
    }
    if (context->json)
        cli_json_print(context->out, answer);
    else
        (void)fprintf(context->out,
                      "job %" PRIu64 ": %" PRIu64 " blocks; watch it with:  kvtier migrate status "
                      "%" PRIu64 "\n",
                      job, cli_json_u64(answer, "job.blocks"), job);
    (void)json_object_put(answer);
    return status;
}

static enum cli_exit
run(struct act *act, bool ask_first)
{
    const struct cli_context *context = act->context;
    struct json_object *answer = NULL;
    struct kvt_error err = {0};
    char line[LINE_MAX_BYTES] = "";
    enum cli_exit status;
    uint64_t number;

    if (!kvt_hash_parse(context->arguments[0], &number))
        return cli_context_usage(context,
                                 "\"%.40s\" is no hash: sixteen hex digits, 0x..., or decimal",
                                 context->arguments[0]);
    kvt_hash_format(number, act->hash);
    if (!ask_first && !kvt_config_bool(context->options, DRY_RUN))
        return begin(act);
    if (ask_first && isatty(STDIN_FILENO) != 1)
        return cli_context_usage(context,
                                 "%s wants --yes where nobody can be asked; --dry-run "
                                 "says what it is",
                                 context->command->path);
    if (ask(act, true, &answer, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    status = show(act, answer);
    (void)json_object_put(answer);
    if (!ask_first || status == CLI_EXIT_NOTHING)
        return status;
    (void)fputs("Delete them? yes or no: ", context->err);
    if (fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "yes\n") == 0)
        return begin(act);
    (void)fputs("kvtier: nothing was changed\n", context->err);
    return CLI_EXIT_FAILED;
}

enum cli_exit
cli_prefix_pin(const struct cli_context *context)
{
    struct act act = {.context = context, .verb = "pin"};

    if (kvt_config_is_set(context->options, CLI_PREFIX_PIN_FOR))
        act.until_ms = kvt_clock_unix_ms() + kvt_config_u64(context->options, CLI_PREFIX_PIN_FOR);
    return run(&act, false);
}

enum cli_exit
cli_prefix_unpin(const struct cli_context *context)
{
    struct act act = {.context = context, .verb = "unpin"};

    return run(&act, false);
}

enum cli_exit
cli_prefix_warm(const struct cli_context *context)
{
    const char *to = kvt_config_string(context->options, CLI_PREFIX_WARM_TO);
    struct act act = {.context = context, .verb = "warm"};

    /* An advisor of a former version knows no other tier, and takes no word of one. */
    if (strcmp(to, "hot") != 0)
        act.to = to;
    return run(&act, false);
}

enum cli_exit
cli_prefix_purge(const struct cli_context *context)
{
    struct act act = {.context = context, .verb = "delete"};

    return run(&act, !kvt_config_bool(context->options, CLI_PREFIX_PURGE_YES) &&
                         !kvt_config_bool(context->options, DRY_RUN));
}
