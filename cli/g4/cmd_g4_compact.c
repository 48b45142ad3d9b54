#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/g4/g4_commands.h"
#include "cli/output/cli_json.h"
#include "cli/remote/admin_client.h"

enum {
    LOOK_MS = 250,
    GIVE_UP_MS = 10000, /* of tries that failed: it is the gateway's from then on */
};

/* ---- asking ---- */

/* The gateway answers at once: what was asked for is done when this ticket is. */
static enum kvt_err
ask(const struct cli_context *context, bool dry, uint64_t *ticket, struct kvt_error *err)
{
    struct json_object *body = json_object_new_object();
    struct json_object *answer = NULL;
    enum kvt_err rc;

    *ticket = 0;
    (void)json_object_object_add(body, "namespace", json_object_new_string(context->arguments[0]));
    (void)json_object_object_add(body, "dry_run", json_object_new_boolean(dry));
    rc = cli_admin_ask(context, CLI_ADMIN_GATEWAY, "/v1/compact", body, true, &answer, err);
    if (rc == KVT_OK)
        *ticket = cli_json_u64(answer, "ticket");
    (void)json_object_put(answer);
    (void)json_object_put(body);
    return rc;
}

/* The row of the namespace in a status; NULL: it is not packed any more. */
static struct json_object *
row_of(struct json_object *status, const char *namespace_)
{
    for (size_t i = 0; i < cli_json_count(status, "packing"); i++) {
        struct json_object *row = cli_json_item(status, "packing", i);

        if (strcmp(cli_json_text(row, "namespace"), namespace_) == 0)
            return row;
    }
    return NULL;
}

/* ---- showing ---- */

static void
print_amount(FILE *out, const char *title, uint64_t count, const char *noun, uint64_t bytes)
{
    char size[KVT_SIZE_TEXT_MAX];

    kvt_size_format(bytes, size);
    (void)fprintf(out, "%-11s%" PRIu64 " %s, %s", title, count, noun, size);
}

static void
print_segments(FILE *out, struct json_object *row)
{
    const uint64_t live = cli_json_u64(row, "live_bytes");
    const uint64_t bytes = cli_json_u64(row, "segment_bytes");

    print_amount(out, "segments", cli_json_u64(row, "segments"), "of them", bytes);
    (void)fprintf(out, ": %" PRIu64 " blocks, %.1f%% live\n", cli_json_u64(row, "blocks"),
                  bytes == 0 ? 100.0 : 100.0 * (double)live / (double)bytes);
}

static void
print_outlook(FILE *out, struct json_object *row)
{
    struct json_object *outlook = cli_json_at(row, "outlook");
    char size[KVT_SIZE_TEXT_MAX];

    (void)fprintf(out, "namespace  %s\n", cli_json_text(row, "namespace"));
    print_amount(out, "would pack", cli_json_u64(outlook, "pack_blocks"), "objects",
                 cli_json_u64(outlook, "pack_bytes"));
    kvt_size_format(cli_json_u64(outlook, "plain_bytes"), size);
    (void)fprintf(out, ", of %" PRIu64 " that are not packed, %s\n",
                  cli_json_u64(outlook, "plain_blocks"), size);
    print_amount(out, "would copy", cli_json_u64(outlook, "forward_segments"),
                 "segments of which too little lives", cli_json_u64(outlook, "forward_bytes"));
    (void)fputc('\n', out);
    if (cli_json_bool(outlook, "full"))
        (void)fprintf(out, "full       the manifest has no room for more blocks than that\n");
    print_segments(out, row);
}

static void
print_run(FILE *out, struct json_object *row)
{
    (void)fprintf(out, "namespace  %s\n", cli_json_text(row, "namespace"));
    print_amount(out, "packed", cli_json_u64(row, "last.packed"), "objects",
                 cli_json_u64(row, "last.copied_bytes"));
    (void)fprintf(out,
                  ", with %" PRIu64 " blocks of other segments; %" PRIu64 " damaged ones left\n",
                  cli_json_u64(row, "last.forwarded"), cli_json_u64(row, "last.bad"));
    print_segments(out, row);
}

static void
print_progress(const struct cli_context *context, struct json_object *row)
{
    const char *error = cli_json_text(row, "last.error");

    if (cli_context_interactive(context))
        (void)fprintf(context->err, "\r%" PRIu64 " blocks in %" PRIu64 " segments%s%s  ",
                      cli_json_u64(row, "blocks"), cli_json_u64(row, "segments"),
                      error[0] == '\0' ? "" : ", tries again: ", error);
}

static enum cli_exit
conclude(const struct cli_context *context, struct json_object *row, bool dry)
{
    const char *error = cli_json_text(row, dry ? "outlook.error" : "last.error");

    if (cli_context_interactive(context))
        (void)fputc('\n', context->err);
    if (context->json) {
        (void)json_object_object_add(row, "schema_version", json_object_new_int(1));
        cli_json_print(context->out, row);
    } else if (!dry) {
        print_run(context->out, row);
    } else if (error[0] == '\0') { /* else nothing is known */
        print_outlook(context->out, row);
    }
    if (error[0] == '\0')
        return CLI_EXIT_DONE;
    (void)fprintf(context->err, "the gateway could not do it: %s\n", error);
    return CLI_EXIT_PARTIAL;
}

/* ---- the command ---- */

/* Has every try failed for so long?  `since_ms` is when the first of them was seen; 0: none was. */
static bool
is_given_up(struct json_object *row, bool dry, uint64_t *since_ms)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    if (dry || cli_json_text(row, "last.error")[0] == '\0')
        *since_ms = 0;
    else if (*since_ms == 0)
        *since_ms = now_ms;
    return *since_ms != 0 && now_ms - *since_ms >= GIVE_UP_MS;
}

static enum cli_exit
watch(const struct cli_context *context, uint64_t ticket, bool dry)
{
    enum cli_exit status = CLI_EXIT_PENDING;
    uint64_t since_ms = 0;
    bool waits = true;

    while (waits) {
        struct json_object *answer = NULL;
        struct json_object *row;
        struct kvt_error err = {0};
        bool ends = false;

        if (cli_admin_ask(context, CLI_ADMIN_GATEWAY, "/v1/status", NULL, false, &answer, &err) !=
            KVT_OK)
            return cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
        row = row_of(answer, context->arguments[0]);
        if (row != NULL && cli_json_u64(row, "answered") >= ticket) {
            status = conclude(context, row, dry);
            waits = false;
        } else if (row != NULL) {
            print_progress(context, row);
            ends = is_given_up(row, dry, &since_ms);
        }
        if (ends)
            (void)fprintf(context->err, "not done yet: %s\n", cli_json_text(row, "last.error"));
        if (waits && (row == NULL || ends || cli_interrupt_wait(LOOK_MS))) {
            (void)fprintf(context->err, "it goes on in the gateway: kvtier status\n");
            waits = false;
        }
        (void)json_object_put(answer);
    }
    return status;
}

enum cli_exit
cli_g4_compact(const struct cli_context *context)
{
    const bool dry = kvt_config_bool(context->options, CLI_COMPACT_DRY_RUN);
    struct kvt_error err = {0};
    uint64_t ticket;

    cli_interrupt_begin();
    if (ask(context, dry, &ticket, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
    return watch(context, ticket, dry);
}
