#include "cli/ops/cmd_migrate.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/ops/ops_commands.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"

enum {
    FOLLOW_EVERY_MS = 500,
    AWAY_MAX_MS = 60000, /* that the advisor may be away while a job is followed: it may restart */
    PATH_MAX_BYTES = 64,
};

/* ---- printing ---- */

static void
print_switch(FILE *out, struct json_object *answer)
{
    if (cli_json_bool(answer, "paused"))
        (void)fputs("all orders are PAUSED; go on with: kvtier migrate resume\n", out);
    else if (strcmp(cli_json_text(answer, "mode"), "off") == 0)
        (void)fputs("the policy mode is off: jobs wait; go on with: kvtier policy mode observe\n",
                    out);
}

static void
add_percent(struct cli_table *table, struct json_object *job)
{
    const uint64_t blocks = cli_json_u64(job, "blocks");
    const uint64_t tried = cli_json_u64(job, "done") + cli_json_u64(job, "failed");

    if (blocks == 0)
        cli_table_add(table, "-");
    else
        cli_table_add(table, "%" PRIu64 "%%", tried * 100 / blocks);
}

static void
print_jobs(const struct cli_context *context, struct json_object *answer)
{
    static const struct cli_column columns[] = {
        {"JOB", true},    {"STATE", false}, {"KIND", false}, {"BLOCKS", true}, {"DONE", true},
        {"FAILED", true}, {"%", true},      {"MOVED", true}, {"TITLE", false}};
    struct cli_table table;

    print_switch(context->out, answer);
    if (cli_json_count(answer, "jobs") == 0) {
        (void)fputs(
            "no jobs: none was given lately; kvtier policy plan shows what could be moved\n",
            context->out);
        return;
    }
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(answer, "jobs"); i++) {
        struct json_object *job = cli_json_item(answer, "jobs", i);
        const char *text = cli_json_text(job, "text");
        char moved[KVT_SIZE_TEXT_MAX];

        kvt_size_format(cli_json_u64(job, "bytes_moved"), moved);
        cli_table_add(&table, "%" PRIu64, cli_json_u64(job, "id"));
        cli_table_add(&table, "%s", cli_json_text(job, "state"));
        cli_table_add(&table, "%s", cli_json_text(job, "kind"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(job, "blocks"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(job, "done"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(job, "failed"));
        add_percent(&table, job);
        cli_table_add(&table, "%s", moved);
        cli_table_add(&table, "%s%s%s", cli_json_text(job, "title"), text[0] == '\0' ? "" : ": ",
                      text);
    }
    cli_table_print(&table, context->out);
    cli_table_release(&table);
}

static void
print_times(FILE *out, struct json_object *job)
{
    const uint64_t finished_ms = cli_json_u64(job, "finished_ms");
    char text[KVT_CLOCK_TEXT_MAX];

    kvt_clock_format(cli_json_u64(job, "created_ms"), text);
    (void)fprintf(out, "given    %s\n", text);
    if (finished_ms == 0)
        return;
    kvt_clock_format(finished_ms, text);
    (void)fprintf(out, "ended    %s\n", text);
}

static void
print_failures(FILE *out, struct json_object *answer)
{
    static const struct cli_column columns[] = {
        {"BATCH", true}, {"GATEWAY", false}, {"NAMESPACE", false},    {"VERB", false},
        {"DONE", true},  {"FAILED", true},   {"FIRST FAILURE", false}};
    struct cli_table table;

    if (cli_json_count(answer, "failures") == 0)
        return;
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(answer, "failures"); i++) {
        struct json_object *failure = cli_json_item(answer, "failures", i);

        cli_table_add(&table, "%" PRIu64, cli_json_u64(failure, "batch"));
        cli_table_add(&table, "%s", cli_json_text(failure, "gateway"));
        cli_table_add(&table, "%s", cli_json_text(failure, "namespace"));
        cli_table_add(&table, "%s", cli_json_text(failure, "verb"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(failure, "done"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(failure, "failed"));
        cli_table_add(&table, "%s", cli_json_text(failure, "text"));
    }
    (void)fputc('\n', out);
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static void
print_job(const struct cli_context *context, struct json_object *answer)
{
    struct json_object *job = cli_json_at(answer, "job");
    const char *text = cli_json_text(job, "text");
    FILE *out = context->out;
    char moved[KVT_SIZE_TEXT_MAX];
    char bytes[KVT_SIZE_TEXT_MAX];

    kvt_size_format(cli_json_u64(job, "bytes_moved"), moved);
    kvt_size_format(cli_json_u64(job, "bytes"), bytes);
    print_switch(out, answer);
    (void)fprintf(out, "job      %" PRIu64 ": %s %s\nstate    %s\n%s%s%s", cli_json_u64(job, "id"),
                  cli_json_text(job, "kind"), cli_json_text(job, "title"),
                  cli_json_text(job, "state"), text[0] == '\0' ? "" : "failure  ", text,
                  text[0] == '\0' ? "" : "\n");
    print_times(out, job);
    (void)fprintf(out,
                  "blocks   %" PRIu64 " of %" PRIu64 " done, %" PRIu64 " failed\n"
                  "batches  %" PRIu64 " of %" PRIu64 "\nbytes    %s moved, %s planned\n",
                  cli_json_u64(job, "done"), cli_json_u64(job, "blocks"),
                  cli_json_u64(job, "failed"), cli_json_u64(job, "batches_done"),
                  cli_json_u64(job, "batches"), moved, bytes);
    print_failures(out, answer);
}

/* ---- status ---- */

static enum kvt_err
ask(const struct cli_context *context, const char *job, struct json_object **answer,
    struct kvt_error *err)
{
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof(path), "/v1/jobs%s%s", job == NULL ? "" : "/",
                   job == NULL ? "" : job);
    return cli_admin_ask(context, CLI_ADMIN_ADVISOR, path, NULL, false, answer, err);
}

static bool
has_ended(const char *state)
{
    return strcmp(state, "done") == 0 || strcmp(state, "failed") == 0 ||
           strcmp(state, "cancelled") == 0;
}

/* The number as it was written; NULL: it is none, which was said. */
static const char *
job_of(const struct cli_context *context, enum cli_exit *status)
{
    uint64_t id;

    *status = CLI_EXIT_DONE;
    if (context->argument_count == 0)
        return NULL;
    if (kvt_parse_u64(context->arguments[0], &id) == KVT_OK)
        return context->arguments[0];
    *status = cli_context_usage(context, "no job \"%s\": a number, as kvtier migrate status lists",
                                context->arguments[0]);
    return NULL;
}

static enum cli_exit
show(const struct cli_context *context, const char *job, bool *ended)
{
    struct json_object *answer;
    struct kvt_error err = {0};

    *ended = false;
    if (ask(context, job, &answer, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json)
        cli_json_print(context->out, answer);
    else if (job != NULL)
        print_job(context, answer);
    else
        print_jobs(context, answer);
    *ended = job != NULL && has_ended(cli_json_text(answer, "job.state"));
    (void)json_object_put(answer);
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_migrate_status(const struct cli_context *context)
{
    const bool watch = kvt_config_is_set(context->options, CLI_MIGRATE_WATCH);
    const bool screen = watch && !context->json && isatty(fileno(context->out)) == 1;
    enum cli_exit status;
    const char *job = job_of(context, &status);
    bool ended;

    if (status != CLI_EXIT_DONE)
        return status;
    if (watch)
        cli_interrupt_begin();
    do {
        if (screen)
            (void)fputs("\033[H\033[J", context->out);
        status = show(context, job, &ended);
        (void)fflush(context->out);
    } while (watch && !ended && status == CLI_EXIT_DONE &&
             !cli_interrupt_wait(kvt_config_u64(context->options, CLI_MIGRATE_WATCH)));
    return status;
}

/* ---- pause, resume, cancel ---- */

static enum cli_exit
tell(const struct cli_context *context, const char *verb)
{
    struct json_object *body = json_object_new_object();
    struct json_object *answer = NULL;
    struct kvt_error err = {0};
    enum cli_exit status;
    const char *job = job_of(context, &status);
    char path[PATH_MAX_BYTES];

    if (status != CLI_EXIT_DONE) {
        (void)json_object_put(body);
        return status;
    }
    if (job == NULL)
        (void)snprintf(path, sizeof(path), "/v1/planner/%s", verb);
    else
        (void)snprintf(path, sizeof(path), "/v1/jobs/%s/%s", job, verb);
    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, path, body, true, &answer, &err) != KVT_OK)
        status = cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    else if (context->json)
        cli_json_print(context->out, answer);
    else if (job == NULL)
        (void)fprintf(context->out, "%s\n",
                      cli_json_bool(answer, "paused")
                          ? "paused: no order leaves until kvtier migrate resume"
                          : "resumed: orders leave again");
    else
        (void)fprintf(context->out, "job %s (%s): %s\n", job, cli_json_text(answer, "job.title"),
                      cli_json_text(answer, "job.state"));
    (void)json_object_put(answer);
    (void)json_object_put(body);
    return status;
}

enum cli_exit
cli_migrate_pause(const struct cli_context *context)
{
    return tell(context, "pause");
}

enum cli_exit
cli_migrate_resume(const struct cli_context *context)
{
    return tell(context, "resume");
}

enum cli_exit
cli_migrate_cancel(const struct cli_context *context)
{
    return tell(context, "cancel");
}

/* ---- following one ---- */

static enum cli_exit
status_of(const char *state)
{
    if (strcmp(state, "done") == 0)
        return CLI_EXIT_DONE;
    return strcmp(state, "failed") == 0 ? CLI_EXIT_PARTIAL : CLI_EXIT_PRECONDITION;
}

static void
draw(const struct cli_context *context, struct json_object *answer)
{
    struct json_object *job = cli_json_at(answer, "job");
    char moved[KVT_SIZE_TEXT_MAX];

    if (!cli_context_interactive(context))
        return;
    kvt_size_format(cli_json_u64(job, "bytes_moved"), moved);
    (void)fprintf(context->err,
                  "\r\033[Kjob %" PRIu64 " %s: %" PRIu64 " of %" PRIu64 " blocks, %" PRIu64
                  " failed, %s%s",
                  cli_json_u64(job, "id"), cli_json_text(job, "state"), cli_json_u64(job, "done"),
                  cli_json_u64(job, "blocks"), cli_json_u64(job, "failed"), moved,
                  cli_json_bool(answer, "paused") ? "; all orders are paused" : "");
    (void)fflush(context->err);
}

enum cli_exit
cli_migrate_follow(const struct cli_context *context, uint64_t job)
{
    uint64_t heard_ms = kvt_clock_mono_ms();
    struct json_object *answer = NULL;
    enum cli_exit status = CLI_EXIT_DONE;
    bool ended = false;
    char number[24];

    (void)snprintf(number, sizeof(number), "%" PRIu64, job);
    while (!ended) {
        struct kvt_error err = {0};
        const enum kvt_err rc = ask(context, number, &answer, &err);

        if (rc == KVT_OK) {
            const char *state = cli_json_text(answer, "job.state");

            heard_ms = kvt_clock_mono_ms();
            draw(context, answer);
            status = status_of(state);
            ended = has_ended(state) || strcmp(state, "paused") == 0;
            if (!ended)
                (void)json_object_put(answer);
        } else if ((rc != KVT_UNAVAILABLE && rc != KVT_TIMEOUT && rc != KVT_AGAIN) ||
                   kvt_clock_mono_ms() - heard_ms > AWAY_MAX_MS) {
            return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
        }
        if (!ended)
            kvt_clock_sleep_ms(FOLLOW_EVERY_MS);
    }
    if (cli_context_interactive(context))
        (void)fputs("\r\033[K", context->err);
    if (context->json)
        cli_json_print(context->out, answer);
    else
        print_job(context, answer);
    (void)json_object_put(answer);
    return status;
}
