#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/g4/g4_commands.h"
#include "cli/output/cli_json.h"
#include "cli/remote/admin_client.h"

enum { LOOK_MS = 250 };

#define PATH "/v1/adoption"

/* ---- asking ---- */

static enum kvt_err
ask(const struct cli_context *context, const char *action, struct json_object **answer,
    struct kvt_error *err)
{
    struct json_object *body = NULL;
    enum kvt_err rc;

    if (action != NULL) {
        body = json_object_new_object();
        (void)json_object_object_add(body, "action", json_object_new_string(action));
        (void)json_object_object_add(
            body, "rate", json_object_new_uint64(kvt_config_u64(context->options, CLI_ADOPT_RATE)));
    }
    rc = cli_admin_ask(context, CLI_ADMIN_GATEWAY, PATH, body, action != NULL, answer, err);
    (void)json_object_put(body);
    return rc;
}

static const char *
state_of(struct json_object *answer)
{
    return cli_json_text(answer, "adoption.state");
}

/* ---- showing ---- */

static void
print_progress(const struct cli_context *context, struct json_object *answer)
{
    struct json_object *adoption = cli_json_at(answer, "adoption");

    if (cli_context_interactive(context))
        (void)fprintf(context->err, "\r%" PRIu64 " objects, %" PRIu64 " taken up%s  ",
                      cli_json_u64(adoption, "listed"), cli_json_u64(adoption, "adopted"),
                      cli_json_bool(adoption, "waiting") ? ", waiting for the bucket" : "");
}

static void
print_answer(const struct cli_context *context, struct json_object *answer)
{
    struct json_object *adoption = cli_json_at(answer, "adoption");
    char size[KVT_SIZE_TEXT_MAX];

    if (cli_context_interactive(context))
        (void)fputc('\n', context->err);
    if (context->json) {
        cli_json_print(context->out, answer);
        return;
    }
    kvt_size_format(cli_json_u64(adoption, "adopted_bytes"), size);
    (void)fprintf(context->out, "adoption  %s%s\n", state_of(answer),
                  cli_json_bool(adoption, "waiting") ? ", waiting for the bucket" : "");
    (void)fprintf(context->out,
                  "objects   %" PRIu64 " passed, %" PRIu64 " counted before, %" PRIu64
                  " signs of programs (locks, commit records, tombstones)\n",
                  cli_json_u64(adoption, "listed"), cli_json_u64(adoption, "known"),
                  cli_json_u64(adoption, "passed"));
    (void)fprintf(
        context->out,
        "taken up  %" PRIu64 " objects, %s: %" PRIu64 " blocks of others without checksum, "
        "%" PRIu64 " no blocks\n",
        cli_json_u64(adoption, "adopted"), size, cli_json_u64(adoption, "adopted_foreign"),
        cli_json_u64(adoption, "adopted_opaque"));
    (void)fprintf(context->out,
                  "left      %" PRIu64 " damaged, %" PRIu64 " of too many namespaces\n",
                  cli_json_u64(adoption, "damaged"), cli_json_u64(adoption, "refused"));
    (void)fprintf(context->out, "cap       %s\n",
                  cli_json_bool(adoption, "capped")
                      ? "cold.capacity is kept"
                      : "cold.capacity is not kept until all of the bucket is counted");
}

/* What a walk that is not under way came to, and what to do next. */
static enum cli_exit
conclude(const struct cli_context *context, bool stopping, struct json_object *answer)
{
    struct json_object *adoption = cli_json_at(answer, "adoption");
    const bool full = strcmp(cli_json_text(adoption, "why"), "FULL") == 0;

    print_answer(context, answer);
    if (strcmp(state_of(answer), "done") != 0) {
        (void)fprintf(context->err, "%s; go on with it: kvtier g4 adopt\n",
                      full ? "the gateway's catalog is full: raise catalog.max" : "it was stopped");
        return full ? CLI_EXIT_LIMIT : stopping ? CLI_EXIT_DONE : CLI_EXIT_PENDING;
    }
    if (cli_json_u64(adoption, "damaged") + cli_json_u64(adoption, "refused") == 0)
        return CLI_EXIT_DONE;
    (void)fprintf(context->err, "what is left: kvtier g4 fsck\n");
    return CLI_EXIT_PARTIAL;
}

/* ---- the command ---- */

/* Until the walk is over, or somebody has seen enough.  `stopping`: it was told to stop, and
 * finishes what is in the air. */
static enum cli_exit
watch(const struct cli_context *context, bool stopping)
{
    struct json_object *answer = NULL;
    struct kvt_error err = {0};
    enum cli_exit status;

    for (;;) {
        if (ask(context, NULL, &answer, &err) != KVT_OK) {
            status = cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
            (void)fprintf(context->err,
                          stopping ? "  whether it stopped: kvtier g4 adopt --show\n"
                                   : "  it goes on by itself when the gateway runs again\n");
            return status;
        }
        if (strcmp(state_of(answer), "running") != 0)
            break;
        print_progress(context, answer);
        if (cli_interrupt_wait(LOOK_MS)) {
            print_answer(context, answer);
            (void)json_object_put(answer);
            (void)fprintf(context->err,
                          stopping ? "it was told to stop, and finishes what is in the air\n"
                                     "  look at it again: kvtier g4 adopt --show\n"
                                     "  go on with it:    kvtier g4 adopt\n"
                                   : "it goes on in the gateway\n"
                                     "  look at it again: kvtier g4 adopt\n"
                                     "  stop it:          kvtier g4 adopt --stop\n");
            return CLI_EXIT_PENDING;
        }
        (void)json_object_put(answer);
    }
    status = conclude(context, stopping, answer);
    (void)json_object_put(answer);
    return status;
}

/* One question, and what it was answered. */
static enum cli_exit
once(const struct cli_context *context, const char *action)
{
    struct json_object *answer = NULL;
    struct kvt_error err = {0};

    if (ask(context, action, &answer, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
    print_answer(context, answer);
    (void)json_object_put(answer);
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_g4_adopt(const struct cli_context *context)
{
    const bool detach = kvt_config_bool(context->options, CLI_ADOPT_DETACH);
    const bool stop = kvt_config_bool(context->options, CLI_ADOPT_STOP);
    const bool show = kvt_config_bool(context->options, CLI_ADOPT_SHOW);
    const bool rated = kvt_config_origin(context->options, CLI_ADOPT_RATE) == KVT_ORIGIN_FLAG;
    struct json_object *answer = NULL;
    struct kvt_error err = {0};

    if ((int)detach + (int)stop + (int)show > 1)
        return cli_context_usage(context, "g4 adopt: one of --detach, --stop and --show");
    if (rated && (stop || show))
        return cli_context_usage(context, "g4 adopt: --rate is of a walk that begins or goes on, "
                                          "not of --stop and --show");
    if (show)
        return once(context, NULL);
    if (detach)
        return once(context, "start");
    cli_interrupt_begin();
    if (ask(context, stop ? "stop" : "start", &answer, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
    (void)json_object_put(answer);
    return watch(context, stop);
}
