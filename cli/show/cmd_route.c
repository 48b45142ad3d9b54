#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"
#include "kvtier/block.h"
#include "wire/message/route.h"

enum { TOKENS_MAX = 16 << 20 }; /* bytes of a file of tokens */

/* ---- ask ---- */

static const struct {
    size_t option;
    const char *member;
} weights[] = {
    {CLI_ROUTE_OVERLAP, "overlap_score_weight"},
    {CLI_ROUTE_TEMPERATURE, "router_temperature"},
    {CLI_ROUTE_G1, "g1_weight"},
    {CLI_ROUTE_G2, "g2_weight"},
    {CLI_ROUTE_G3, "g3_weight"},
    {CLI_ROUTE_G4, "g4_weight"},
    {CLI_ROUTE_ACTIVE, "active_request_weight"},
};

/* Numbers, with whatever blanks and commas between. */
static enum kvt_err
read_tokens(const char *path, struct json_object *tokens, struct kvt_error *err)
{
    static const char *const between = " \t\r\n,";
    char *text;
    size_t size;
    enum kvt_err rc = kvt_file_read(&text, &size, path, TOKENS_MAX, err);

    if (rc != KVT_OK)
        return rc;
    if (strlen(text) != size)
        rc = kvt_error_set(err, KVT_INVALID, "%s: a NUL among the tokens: want numbers", path);
    for (char *at = text + strspn(text, between); *at != '\0' && rc == KVT_OK;) {
        const size_t length = strcspn(at, between);
        char *next = at + length;
        uint64_t token;

        next += strspn(next, between);
        at[length] = '\0'; /* at the end of the text it is one already */
        rc = kvt_parse_u64(at, &token);
        if (rc != KVT_OK)
            rc = kvt_error_set(err, KVT_INVALID, "%s: \"%.32s\" is no token: want numbers", path,
                               at);
        else
            (void)json_object_array_add(tokens, json_object_new_uint64(token));
        at = next;
    }
    kvt_free(text);
    return rc;
}

/* False: said already. */
static bool
is_request_id(const struct cli_context *context, const char *id)
{
    const size_t length = strlen(id);

    if (length > 0 && length < WIRE_ROUTE_ID_MAX)
        return true;
    (void)cli_context_usage(context, "a request's id has 1 to %d bytes, this one %zu",
                            WIRE_ROUTE_ID_MAX - 1, length);
    return false;
}

/* KVT_CANCELLED: said already. */
static enum kvt_err
add_blocks(const struct cli_context *context, struct json_object *body, struct kvt_error *err)
{
    const char *tokens = kvt_config_string(context->options, CLI_ROUTE_TOKENS);
    const bool local = kvt_config_bool(context->options, CLI_ROUTE_TOKEN_HASHES);
    struct json_object *list = json_object_new_array();

    (void)json_object_object_add(body,
                                 tokens[0] != '\0' ? "tokens"
                                 : local           ? "tokens_hashes"
                                                   : "hashes",
                                 list);
    if ((tokens[0] != '\0') == (context->argument_count > 0)) {
        (void)cli_context_usage(context, "want hashes, or --tokens FILE");
        return KVT_CANCELLED;
    }
    if (tokens[0] != '\0')
        return read_tokens(tokens, list, err);
    for (size_t i = 0; i < context->argument_count; i++) {
        char text[KVT_HASH_TEXT_MAX];
        uint64_t hash;

        if (!kvt_hash_parse(context->arguments[i], &hash)) {
            (void)cli_context_usage(context,
                                    "\"%s\" is no hash: sixteen hex digits, 0x..., or decimal",
                                    context->arguments[i]);
            return KVT_CANCELLED;
        }
        kvt_hash_format(hash, text);
        (void)json_object_array_add(list, json_object_new_string(text));
    }
    return KVT_OK;
}

static void
add_workers(const char *names, struct json_object *body)
{
    struct json_object *list = json_object_new_array();

    (void)json_object_object_add(body, "workers", list);
    for (const char *at = names; *at != '\0';) {
        const size_t length = strcspn(at, ",");

        (void)json_object_array_add(list, json_object_new_string_len(at, (int)length));
        at += length + (at[length] == ',');
    }
}

static void
add_wishes(const struct cli_context *context, struct json_object *body)
{
    static const struct {
        size_t option;
        const char *member;
    } numbers[] = {{CLI_ROUTE_BLOCK_TOKENS, "block_tokens"}, {CLI_ROUTE_ISL_TOKENS, "isl_tokens"}};
    const struct kvt_config *options = context->options;
    enum { PPM = 1000000 };

    cli_json_add_text(body, "namespace", kvt_config_string(options, CLI_ROUTE_NAMESPACE));
    (void)json_object_object_add(body, "explain", json_object_new_boolean(true));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (kvt_config_is_set(options, numbers[i].option))
            cli_json_add(body, numbers[i].member, kvt_config_u64(options, numbers[i].option));
    for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++)
        if (kvt_config_is_set(options, weights[i].option))
            (void)json_object_object_add(
                body, weights[i].member,
                json_object_new_double((double)kvt_config_ppm(options, weights[i].option) / PPM));
    if (kvt_config_is_set(options, CLI_ROUTE_WORKERS))
        add_workers(kvt_config_string(options, CLI_ROUTE_WORKERS), body);
    if (kvt_config_is_set(options, CLI_ROUTE_REQUEST_ID))
        cli_json_add_text(body, "request_id", kvt_config_string(options, CLI_ROUTE_REQUEST_ID));
}

static double
number(struct json_object *row, const char *path)
{
    return json_object_get_double(cli_json_at(row, path));
}

static const char *
words_of(const char *why)
{
    if (strcmp(why, "lowest") == 0)
        return "its cost is the lowest";
    if (strcmp(why, "load") == 0)
        return "of those with the lowest cost it has least to do";
    if (strcmp(why, "chance") == 0)
        return "of those with the lowest cost and as much to do, by chance";
    return "drawn by its chance";
}

static void
print_rows(FILE *out, struct json_object *answer)
{
    static const struct cli_column columns[] = {
        {"  WORKER", false}, {"RANK", true}, {"G1", true},      {"G2", true},
        {"G3", true},        {"G4", true},   {"PREFILL", true}, {"DECODE", true},
        {"REQUESTS", true},  {"COST", true}, {"CHANCE", true}};
    static const char *const tiers[] = {"cached.g1", "cached.g2", "cached.g3", "cached.g4"};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(answer, "workers"); i++) {
        struct json_object *row = cli_json_item(answer, "workers", i);
        const bool chosen =
            strcmp(cli_json_text(row, "worker"), cli_json_text(answer, "worker")) == 0 &&
            cli_json_u64(row, "dp_rank") == cli_json_u64(answer, "dp_rank");

        cli_table_add(&table, "%s %s%s", chosen ? ">" : " ", cli_json_text(row, "worker"),
                      cli_json_bool(row, "uncertain") ? " !" : "");
        cli_table_add(&table, "%s", cli_json_text(row, "dp_rank"));
        for (size_t t = 0; t < sizeof(tiers) / sizeof(tiers[0]); t++)
            cli_table_add(&table, "%s", cli_json_text(row, tiers[t]));
        cli_table_add(&table, "%.6g", number(row, "prefill_blocks"));
        cli_table_add(&table, "%.6g", number(row, "decode_blocks"));
        cli_table_add(&table, "%s", cli_json_text(row, "active_requests"));
        cli_table_add(&table, "%.6g", number(row, "cost"));
        cli_table_add(&table, "%.3g%%", 100 * number(row, "probability"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static void
print_answer(FILE *out, struct json_object *answer)
{
    (void)fputs("worker   ", out);
    cli_table_text(out, cli_json_text(answer, "worker"));
    (void)fprintf(out, ", rank %" PRIu64 "\nwhy      %s\nrequest  %" PRIu64 " block%s, %s\n\n",
                  cli_json_u64(answer, "dp_rank"), words_of(cli_json_text(answer, "why")),
                  cli_json_u64(answer, "blocks"), cli_json_u64(answer, "blocks") == 1 ? "" : "s",
                  cli_json_bool(answer, "booked") ? "given out" : "only asked");
    print_rows(out, answer);
    if (cli_json_u64(answer, "candidates") > cli_json_count(answer, "workers"))
        (void)fprintf(out, "and %" PRIu64 " more\n",
                      cli_json_u64(answer, "candidates") - cli_json_count(answer, "workers"));
}

static enum cli_exit
ask_fails(const struct cli_context *context, const struct kvt_error *err)
{
    const enum cli_exit status = cli_admin_fail(context, CLI_ADMIN_ADVISOR, err);

    if (err->code == KVT_NOTFOUND)
        (void)fputs("  who is there: kvtier route workers\n", context->err);
    else if (err->code == KVT_EXISTS)
        (void)fputs("  what runs:    kvtier route requests\n"
                    "  if it ended:  kvtier route free ID\n",
                    context->err);
    return status;
}

enum cli_exit
cli_route_ask(const struct cli_context *context)
{
    /* "" is an id that somebody forgot, not a question alone. */
    const bool books =
        kvt_config_origin(context->options, CLI_ROUTE_REQUEST_ID) != KVT_ORIGIN_DEFAULT;
    struct json_object *body = json_object_new_object();
    struct json_object *answer = NULL;
    struct kvt_error err = {0};
    enum cli_exit status = CLI_EXIT_DONE;
    enum kvt_err rc = add_blocks(context, body, &err);

    if (rc == KVT_OK && books &&
        !is_request_id(context, kvt_config_string(context->options, CLI_ROUTE_REQUEST_ID)))
        rc = KVT_CANCELLED;
    if (rc == KVT_CANCELLED) {
        status = CLI_EXIT_USAGE;
    } else if (rc != KVT_OK) {
        status = cli_context_fail(context, &err);
    } else {
        add_wishes(context, body);
        rc = cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/route", body, books, &answer, &err);
        if (rc != KVT_OK)
            status = ask_fails(context, &err);
        else if (context->json)
            cli_json_print(context->out, answer);
        else
            print_answer(context->out, answer);
        if (rc == KVT_OK)
            cli_admin_loading(context, answer);
    }
    (void)json_object_put(answer);
    (void)json_object_put(body);
    return status;
}

/* ---- workers ---- */

static void
print_workers(FILE *out, struct json_object *answer)
{
    static const struct cli_column columns[] = {{"WORKER", false},  {"RANK", true},
                                                {"REQUESTS", true}, {"TOKENS", true},
                                                {"BLOCKS", true},   {"KNOWN BY", false}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(answer, "workers"); i++) {
        struct json_object *row = cli_json_item(answer, "workers", i);
        char origins[64];

        cli_json_join(row, "origins", origins, sizeof(origins));
        cli_table_add(&table, "%s", cli_json_text(row, "worker"));
        cli_table_add(&table, "%s", cli_json_text(row, "dp_rank"));
        cli_table_add(&table, "%s", cli_json_text(row, "active_requests"));
        cli_table_add(&table, "%s", cli_json_text(row, "active_prefill_tokens"));
        cli_table_add(&table, "%s", cli_json_text(row, "active_blocks"));
        cli_table_add(&table, "%s", origins);
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

enum cli_exit
cli_route_workers(const struct cli_context *context)
{
    struct json_object *answer;
    struct kvt_error err = {0};

    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/route/workers", NULL, false, &answer,
                      &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json)
        cli_json_print(context->out, answer);
    else if (cli_json_count(answer, "workers") == 0)
        (void)fputs("no workers: nobody publishes events of tiers of its own (kvtier sources ls), "
                    "and neither route.workers nor a key in route.bucket names one\n",
                    context->out);
    else
        print_workers(context->out, answer);
    (void)json_object_put(answer);
    return CLI_EXIT_DONE;
}

/* ---- requests ---- */

static void
print_requests(FILE *out, struct json_object *answer)
{
    static const struct cli_column columns[] = {
        {"REQUEST", false}, {"WORKER", false}, {"RANK", true},   {"STATE", false},
        {"SECONDS", true},  {"BLOCKS", true},  {"PREFILL", true}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(answer, "requests"); i++) {
        struct json_object *row = cli_json_item(answer, "requests", i);

        cli_table_add(&table, "%s", cli_json_text(row, "request_id"));
        cli_table_add(&table, "%s", cli_json_text(row, "worker"));
        cli_table_add(&table, "%s", cli_json_text(row, "dp_rank"));
        cli_table_add(&table, "%s", cli_json_text(row, "state"));
        cli_table_add(&table, "%.1f", (double)cli_json_u64(row, "age_ms") / 1000);
        cli_table_add(&table, "%s", cli_json_text(row, "blocks"));
        cli_table_add(&table, "%s", cli_json_text(row, "prefill_tokens"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
    if (cli_json_text(answer, "next_cursor")[0] != '\0')
        (void)fputs("and more: --limit\n", out);
}

enum cli_exit
cli_route_requests(const struct cli_context *context)
{
    struct json_object *answer;
    struct kvt_error err = {0};
    char path[64];

    (void)snprintf(path, sizeof(path), "/v1/route/requests?limit=%" PRIu64,
                   kvt_config_u64(context->options, CLI_ROUTE_LIMIT));
    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, path, NULL, false, &answer, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json)
        cli_json_print(context->out, answer);
    else if (cli_json_count(answer, "requests") == 0)
        (void)fputs("no requests: none was given out with an id, or all ended\n", context->out);
    else
        print_requests(context->out, answer);
    (void)json_object_put(answer);
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_route_free(const struct cli_context *context)
{
    struct json_object *body = json_object_new_object();
    struct json_object *answer = NULL;
    enum cli_exit status = CLI_EXIT_DONE;
    struct kvt_error err = {0};
    struct kvt_buffer path;

    if (!is_request_id(context, context->arguments[0])) {
        (void)json_object_put(body);
        return CLI_EXIT_USAGE;
    }
    kvt_buffer_init(&path, CLI_ADMIN_PATH_MAX);
    kvt_buffer_puts(&path, "/v1/route/requests/");
    cli_admin_escape(&path, context->arguments[0], false);
    kvt_buffer_puts(&path, "/free");
    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, kvt_buffer_text(&path), body, true, &answer,
                      &err) != KVT_OK) {
        status = cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    } else {
        const bool changed = cli_json_bool(answer, "changed");

        if (context->json)
            cli_json_print(context->out, answer);
        else
            (void)fputs(changed ? "it ended\n" : "it had ended already\n", context->out);
        status = changed ? CLI_EXIT_DONE : CLI_EXIT_NOTHING;
    }
    kvt_buffer_release(&path);
    (void)json_object_put(answer);
    (void)json_object_put(body);
    return status;
}
