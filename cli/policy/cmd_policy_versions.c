#include "cli/policy/cmd_policy_versions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/text/parse.h"
#include "base/text/yaml.h"
#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/policy/cmd_policy_file.h"
#include "cli/policy/policy_commands.h"
#include "cli/remote/admin_client.h"

#include "policy/file/policy_parse.h"

enum { PPM_PERCENT = 10000, HEADER_MAX = 64, DIGEST_SHOWN = 12 };

/* ---- in force ---- */

static void
print_mode(FILE *out, struct json_object *policy)
{
    const char *mode = cli_json_text(policy, "mode");
    const char *configured = cli_json_text(policy, "configured_mode");
    const char *effective = cli_json_text(policy, "effective_mode");

    (void)fprintf(out, "mode           %s", mode);
    /* What was set at run time stays over restarts, whatever the file says. */
    if (configured[0] != '\0' && strcmp(configured, mode) != 0)
        (void)fprintf(out, ", by kvtier policy mode; the settings say %s", configured);
    (void)fputc('\n', out);
    if (effective[0] != '\0' && strcmp(effective, mode) != 0)
        (void)fprintf(out, "in effect      %s, as the policy's own mode\n", effective);
}

/* How a tier is drained: "demote from 85% down to 70%". */
static void
print_drain(FILE *out, struct json_object *policy, const char *tier, const char *verb,
            const char *of)
{
    char start[HEADER_MAX];
    char stop[HEADER_MAX];

    (void)snprintf(start, sizeof(start), "%s.start_ppm", tier);
    (void)snprintf(stop, sizeof(stop), "%s.stop_ppm", tier);
    (void)fprintf(out, "%-14s ", tier);
    if (cli_json_u64(policy, start) == 0)
        (void)fprintf(out, "never drained\n");
    else
        (void)fprintf(out, "%s from %" PRIu64 "%% down to %" PRIu64 "%%%s\n", verb,
                      cli_json_u64(policy, start) / PPM_PERCENT,
                      cli_json_u64(policy, stop) / PPM_PERCENT, of);
}

void
cli_policy_print_ranked(FILE *out, struct json_object *object)
{
    const uint64_t total = cli_json_u64(object, "to_rank");
    const uint64_t done = cli_json_u64(object, "ranked");

    if (total > 0)
        (void)fprintf(out, " (%" PRIu64 "%% of %" PRIu64 " blocks read)",
                      (uint64_t)(100 * (unsigned __int128)(done < total ? done : total) / total),
                      total);
}

static void
print_policy(FILE *out, struct json_object *policy)
{
    const uint64_t promote = cli_json_u64(policy, "promote_after_cold_hits");
    const char *next = cli_json_text(policy, "next_ordering");
    char time[KVT_CLOCK_TEXT_MAX];

    if (cli_json_u64(policy, "version") > 0) {
        kvt_clock_format(cli_json_u64(policy, "since_ms"), time);
        (void)fprintf(out, "version        %" PRIu64 ", since %s\n",
                      cli_json_u64(policy, "version"), time);
    }
    print_mode(out, policy);
    (void)fprintf(out, "ordering       %s", cli_json_text(policy, "ordering"));
    if (next[0] != '\0') {
        (void)fprintf(out, ", until %s is ready", next);
        cli_policy_print_ranked(out, policy);
    }
    (void)fputc('\n', out);
    print_drain(out, policy, "hot", "demote", "");
    print_drain(out, policy, "cold", "delete", " of its cap");
    if (promote == 0)
        (void)fputs("promote after  never\n", out);
    else
        (void)fprintf(out, "promote after  %" PRIu64 " hits in cold\n", promote);
    for (size_t i = 0; i < cli_json_count(policy, "rules"); i++) {
        struct json_object *rule = cli_json_item(policy, "rules", i);

        (void)fprintf(out, "%-14s %s: %s\n", i == 0 ? "rules" : "", cli_json_text(rule, "id"),
                      cli_json_text(rule, "do"));
    }
    (void)fprintf(out, "from           %s\n", cli_json_text(policy, "source"));
}

void
cli_policy_print(const struct cli_context *context, struct json_object *policy)
{
    if (context->json)
        cli_json_print(context->out, policy);
    else
        print_policy(context->out, policy);
}

/* ---- install ---- */

/* The policy is one, as far as this program can tell: all that is wrong is told with its line,
 * before anything is sent. */
static enum cli_exit
check_first(const struct cli_context *context, const char *path)
{
    struct policy *policy;
    const enum cli_exit status = cli_policy_file_load(context, path, &policy);

    policy_free(policy);
    return status;
}

/* "If-Match: N", or nothing for 0. */
static const char *const *
expect(uint64_t version, char line[HEADER_MAX], const char *headers[2])
{
    if (version == 0)
        return NULL;
    (void)snprintf(line, HEADER_MAX, "If-Match: %" PRIu64, version);
    headers[0] = line;
    headers[1] = NULL;
    return headers;
}

static enum kvt_err
version_now(const struct cli_context *context, uint64_t *version, struct kvt_error *err)
{
    struct json_object *policy = NULL;
    const enum kvt_err rc =
        cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/policy", NULL, false, &policy, err);

    *version = rc == KVT_OK ? cli_json_u64(policy, "version") : 0;
    if (rc == KVT_OK)
        (void)json_object_put(policy);
    return rc;
}

static enum cli_exit
send(const struct cli_context *context, const struct cli_admin_request *request)
{
    struct json_object *policy;
    struct kvt_error err = {0};
    uint64_t before;

    if (version_now(context, &before, &err) != KVT_OK ||
        cli_admin_send(context, CLI_ADMIN_ADVISOR, request, &policy, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    /* Each change has a number above all before it. */
    if (before > 0 && cli_json_u64(policy, "version") == before)
        (void)fprintf(context->err,
                      "kvtier: already in force as version %" PRIu64 ": nothing was changed\n",
                      before);
    cli_policy_print(context, policy);
    (void)json_object_put(policy);
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_policy_install(const struct cli_context *context)
{
    struct cli_admin_request request = {
        .method = "PUT", .path = "/v1/policy", .type = "application/yaml"};
    const char *path = context->arguments[0];
    enum cli_exit status = check_first(context, path);
    struct kvt_error err = {0};
    const char *headers[2];
    char line[HEADER_MAX];
    char *text = NULL;
    size_t size;

    if (status != CLI_EXIT_DONE)
        return status;
    if (kvt_file_read(&text, &size, path, KVT_YAML_FILE_MAX, &err) != KVT_OK)
        return cli_context_fail(context, &err);
    request.body = text;
    request.body_size = size;
    request.headers =
        expect(kvt_config_u64(context->options, CLI_POLICY_IF_VERSION), line, headers);
    status = send(context, &request);
    kvt_free(text);
    return status;
}

enum cli_exit
cli_policy_rollback(const struct cli_context *context)
{
    struct cli_admin_request request = {.method = "POST", .path = "/v1/policy/rollback"};
    const char *headers[2];
    char line[HEADER_MAX];
    char body[HEADER_MAX] = "{}";
    uint64_t version;

    if (context->argument_count > 0) {
        if (kvt_parse_u64(context->arguments[0], &version) != KVT_OK || version == 0)
            return cli_context_usage(context, "\"%s\" is no version: see kvtier policy history",
                                     context->arguments[0]);
        (void)snprintf(body, sizeof(body), "{\"version\":%" PRIu64 "}", version);
    }
    request.body = body;
    request.body_size = strlen(body);
    request.headers =
        expect(kvt_config_u64(context->options, CLI_POLICY_IF_VERSION), line, headers);
    return send(context, &request);
}

/* ---- history ---- */

static void
print_history(FILE *out, struct json_object *answer)
{
    static const struct cli_column columns[] = {
        {"VERSION", true}, {"SINCE", false}, {"FROM", false}, {"SIZE", true}, {"DIGEST", false}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(answer, "versions"); i++) {
        struct json_object *row = cli_json_item(answer, "versions", i);
        char time[KVT_CLOCK_TEXT_MAX];
        char size[KVT_SIZE_TEXT_MAX];

        kvt_clock_format(cli_json_u64(row, "since_ms"), time);
        kvt_size_format(cli_json_u64(row, "size"), size);
        cli_table_add(&table, "%" PRIu64, cli_json_u64(row, "version"));
        cli_table_add(&table, "%s", time);
        cli_table_add(&table, "%s", cli_json_text(row, "source"));
        cli_table_add(&table, "%s", size);
        cli_table_add(&table, "%.*s", DIGEST_SHOWN, cli_json_text(row, "digest"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

enum cli_exit
cli_policy_history(const struct cli_context *context)
{
    struct json_object *answer;
    struct kvt_error err = {0};

    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/policy/history", NULL, false, &answer,
                      &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json)
        cli_json_print(context->out, answer);
    else
        print_history(context->out, answer);
    (void)json_object_put(answer);
    return CLI_EXIT_DONE;
}
