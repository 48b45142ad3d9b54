#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"

enum { AGE_MAX = 32 };

static void
age_format(char text[AGE_MAX], uint64_t unix_ms)
{
    const uint64_t now = kvt_clock_unix_ms();

    if (unix_ms == 0)
        (void)snprintf(text, AGE_MAX, "never");
    else
        (void)snprintf(text, AGE_MAX, "%.1f s ago",
                       (double)(now > unix_ms ? now - unix_ms : 0) / 1000.0);
}

/* ---- ls ---- */

static void
print_list(FILE *out, struct json_object *answer)
{
    static const struct cli_column columns[] = {
        {"SOURCE", false}, {"KIND", false},      {"STATE", false},    {"EVENTS", true},
        {"PER S", true},   {"LAG", true},        {"WAITING", true},   {"DROPPED", true},
        {"GAPS", true},    {"PUBLISHERS", true}, {"UNCERTAIN", true}, {"LAST ERROR", false}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(answer, "sources"); i++) {
        struct json_object *source = cli_json_item(answer, "sources", i);
        const char *detail = cli_json_text(source, "detail");

        cli_table_add(&table, "%s", cli_json_text(source, "name"));
        cli_table_add(&table, "%s", cli_json_text(source, "kind"));
        cli_table_add(&table, "%s", cli_json_text(source, "state"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(source, "events"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(source, "events_per_second"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(source, "lag"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(source, "waiting"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(source, "dropped"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(source, "gaps"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(source, "publishers"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(source, "uncertain"));
        cli_table_add(&table, "%s",
                      detail[0] != '\0' ? detail : cli_json_text(source, "last_error"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

enum cli_exit
cli_sources_ls(const struct cli_context *context)
{
    struct json_object *answer;
    struct kvt_error err = {0};

    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/sources", NULL, false, &answer, &err) !=
        KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json)
        cli_json_print(context->out, answer);
    else if (cli_json_count(answer, "sources") == 0)
        (void)fputs(
            "no sources: the advisor listens to nobody; see its sources.file: kvtier-advisor "
            "config show\n",
            context->out);
    else
        print_list(context->out, answer);
    (void)json_object_put(answer);
    return CLI_EXIT_DONE;
}

/* ---- show ---- */

static void
print_counts(FILE *out, struct json_object *source)
{
    struct json_object *skipped = cli_json_at(source, "skipped");
    char age[AGE_MAX];

    age_format(age, cli_json_u64(source, "last_message_ms"));
    (void)fprintf(out, "%s  %s, %s%s%s\n", cli_json_text(source, "name"),
                  cli_json_text(source, "kind"), cli_json_text(source, "state"),
                  cli_json_text(source, "detail")[0] == '\0' ? "" : ": ",
                  cli_json_text(source, "detail"));
    (void)fprintf(out, "namespace  \"%s\"\n", cli_json_text(source, "namespace"));
    (void)fprintf(out,
                  "messages   %" PRIu64 " received, %" PRIu64 " waiting, %" PRIu64
                  " dropped, %" PRIu64 " malformed; last %s\n",
                  cli_json_u64(source, "received"), cli_json_u64(source, "waiting"),
                  cli_json_u64(source, "dropped"), cli_json_u64(source, "malformed"), age);
    (void)fprintf(out,
                  "events     %" PRIu64 " applied, %" PRIu64 " per second, %" PRIu64
                  " duplicates, %" PRIu64 " gaps\n",
                  cli_json_u64(source, "events"), cli_json_u64(source, "events_per_second"),
                  cli_json_u64(source, "duplicates"), cli_json_u64(source, "gaps"));
    (void)fprintf(out,
                  "left out   %" PRIu64 " removes of unknown blocks, %" PRIu64
                  " stores whose parent never came, %" PRIu64 " of another salt\n",
                  cli_json_u64(source, "unmatched"), cli_json_u64(source, "orphans"),
                  cli_json_u64(source, "conflicts"));
    json_object_object_foreach(skipped, why, count) if (json_object_get_uint64(count) > 0)(void)
        fprintf(out, "           %" PRIu64 " %s\n", json_object_get_uint64(count), why);
    if (cli_json_u64(source, "last_seq") > 0)
        (void)fprintf(out,
                      "stream     applied to %" PRIu64 ", committed to %" PRIu64 ", newest %" PRIu64
                      ", lag %" PRIu64 "\n",
                      cli_json_u64(source, "applied_seq"), cli_json_u64(source, "committed_seq"),
                      cli_json_u64(source, "last_seq"), cli_json_u64(source, "lag"));
    if (cli_json_text(source, "last_error")[0] != '\0')
        (void)fprintf(out, "last error %s\n", cli_json_text(source, "last_error"));
}

static void
print_publishers(FILE *out, struct json_object *source)
{
    static const struct cli_column columns[] = {
        {"PUBLISHER", false}, {"RANK", true},     {"NAMESPACE", false},
        {"STATE", false},     {"LAST SEQ", true}, {"GAPS", true},
        {"RESYNCS", true},    {"LAST", true},     {"WHY", false}};
    struct cli_table table;

    if (cli_json_count(source, "publisher_list") == 0)
        return;
    (void)fputc('\n', out);
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(source, "publisher_list"); i++) {
        struct json_object *publisher = cli_json_item(source, "publisher_list", i);
        char age[AGE_MAX];

        age_format(age, cli_json_u64(publisher, "last_event_ms"));
        cli_table_add(&table, "%s", cli_json_text(publisher, "worker"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(publisher, "dp_rank"));
        cli_table_add(&table, "%s", cli_json_text(publisher, "namespace"));
        cli_table_add(&table, "%s%s", cli_json_text(publisher, "state"),
                      cli_json_bool(publisher, "silent") ? ", silent" : "");
        cli_table_add(&table, "%" PRIu64, cli_json_u64(publisher, "last_seq"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(publisher, "gaps"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(publisher, "resyncs"));
        cli_table_add(&table, "%s", age);
        cli_table_add(&table, "%s", cli_json_text(publisher, "reason"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

enum cli_exit
cli_sources_show(const struct cli_context *context)
{
    struct json_object *source = NULL;
    struct kvt_error err = {0};
    struct kvt_buffer path;
    enum kvt_err rc;

    kvt_buffer_init(&path, CLI_ADMIN_PATH_MAX);
    kvt_buffer_printf(&path, "/v1/sources/");
    cli_admin_escape(&path, context->arguments[0], false);
    rc = kvt_buffer_ok(&path) ? cli_admin_ask(context, CLI_ADMIN_ADVISOR, kvt_buffer_text(&path),
                                              NULL, false, &source, &err)
                              : kvt_error_set(&err, KVT_RANGE, "the name is too long");
    kvt_buffer_release(&path);
    if (rc != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json) {
        cli_json_print(context->out, source);
    } else {
        print_counts(context->out, source);
        print_publishers(context->out, source);
    }
    (void)json_object_put(source);
    return CLI_EXIT_DONE;
}
