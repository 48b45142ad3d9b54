#include "cli/index.h"

#include <inttypes.h>
#include <json-c/json.h>

#include "base/parse.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/server.h"
#include "cli/table.h"
#include "kvtier/block.h"

enum { PAGE = 4096 };

enum cli_exit
cli_index_stats(const struct cli_context *context)
{
    static const struct cli_column columns[] = {
        {"TIER", false}, {"HOLDER", false}, {"RANK", true}, {"BLOCKS", true}, {"BYTES", true}};
    struct json_object *stats;
    struct kvt_error err = {0};
    struct cli_table table;

    if (cli_server_ask(context, CLI_SERVER_ADVISOR, "/v1/index/stats", NULL, false, &stats, &err) !=
        KVT_OK)
        return cli_server_fail(context, CLI_SERVER_ADVISOR, &err);
    if (context->json) {
        cli_json_print(context->out, stats);
        goto done;
    }
    (void)fprintf(context->out, "%" PRIu64 " blocks in %" PRIu64 " places\n\n",
                  cli_json_u64(stats, "blocks"), cli_json_u64(stats, "places"));
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(stats, "holders"); i++) {
        struct json_object *holder = cli_json_item(stats, "holders", i);
        char bytes[KVT_SIZE_TEXT_MAX];

        kvt_size_format(cli_json_u64(holder, "bytes"), bytes);
        cli_table_add(&table, "%s", cli_json_text(holder, "tier"));
        cli_table_add(&table, "%s", cli_json_text(holder, "holder"));
        cli_table_add(&table, "%s", cli_json_text(holder, "dp_rank"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(holder, "blocks"));
        cli_table_add(&table, "%s", bytes);
    }
    cli_table_print(&table, context->out);
    cli_table_release(&table);
done:
    (void)json_object_put(stats);
    return CLI_EXIT_DONE;
}

/* ---- match ---- */

/* {"namespace": ..., "hashes": [...]}; NULL when an argument is no hash. */
static struct json_object *
question(const struct cli_context *context, const char **bad)
{
    struct json_object *body = json_object_new_object();
    struct json_object *hashes = json_object_new_array();
    char text[KVT_HASH_TEXT_MAX];
    uint64_t hash;

    *bad = NULL;
    (void)json_object_object_add(
        body, "namespace",
        json_object_new_string(kvt_config_string(context->options, CLI_INDEX_NAMESPACE)));
    (void)json_object_object_add(body, "hashes", hashes);
    for (size_t i = 0; i < context->argument_count; i++) {
        if (!kvt_hash_parse(context->arguments[i], &hash)) {
            *bad = context->arguments[i];
            (void)json_object_put(body);
            return NULL;
        }
        kvt_hash_format(hash, text);
        (void)json_object_array_add(hashes, json_object_new_string(text));
    }
    return body;
}

static void
print_matches(FILE *out, struct json_object *match, struct json_object *find)
{
    static const struct cli_column block_columns[] = {{"BLOCK", false}, {"TIERS", false}};
    static const struct cli_column holder_columns[] = {
        {"PREFIX", true}, {"TIER", false}, {"HOLDER", false}, {"RANK", true}};
    struct cli_table table;

    cli_table_init(&table, block_columns, sizeof(block_columns) / sizeof(block_columns[0]));
    for (size_t i = 0; i < cli_json_count(match, "blocks"); i++) {
        struct json_object *block = cli_json_item(match, "blocks", i);
        char tiers[32] = "";
        size_t size = 0;

        for (size_t k = 0; k < cli_json_count(block, "tiers") && size < sizeof(tiers); k++)
            size += (size_t)snprintf(tiers + size, sizeof(tiers) - size, "%s%s", k == 0 ? "" : " ",
                                     json_object_get_string(cli_json_item(block, "tiers", k)));
        cli_table_add(&table, "%s", cli_json_text(block, "hash"));
        cli_table_add(&table, "%s", tiers[0] == '\0' ? "nowhere" : tiers);
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
    (void)fputc('\n', out);
    cli_table_init(&table, holder_columns, sizeof(holder_columns) / sizeof(holder_columns[0]));
    for (size_t i = 0; i < cli_json_count(find, "matches"); i++) {
        struct json_object *holder = cli_json_item(find, "matches", i);

        cli_table_add(&table, "%" PRIu64, cli_json_u64(holder, "blocks"));
        cli_table_add(&table, "%s", cli_json_text(holder, "tier"));
        cli_table_add(&table, "%s", cli_json_text(holder, "holder"));
        cli_table_add(&table, "%s", cli_json_text(holder, "dp_rank"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

enum cli_exit
cli_index_match(const struct cli_context *context)
{
    struct json_object *match = NULL;
    struct json_object *find = NULL;
    struct json_object *body;
    struct kvt_error err = {0};
    enum cli_exit status = CLI_EXIT_DONE;
    const char *bad;

    body = question(context, &bad);
    if (body == NULL)
        return cli_context_usage(context,
                                 "\"%s\" is no hash: sixteen hex digits, 0x..., or decimal", bad);
    if (cli_server_ask(context, CLI_SERVER_ADVISOR, "/v1/match", body, false, &match, &err) !=
            KVT_OK ||
        cli_server_ask(context, CLI_SERVER_ADVISOR, "/v1/find_matches", body, false, &find, &err) !=
            KVT_OK) {
        status = cli_server_fail(context, CLI_SERVER_ADVISOR, &err);
        goto done;
    }
    if (context->json) {
        (void)json_object_object_add(match, "matches",
                                     json_object_get(cli_json_at(find, "matches")));
        cli_json_print(context->out, match);
    } else {
        print_matches(context->out, match, find);
    }
done:
    (void)json_object_put(match);
    (void)json_object_put(find);
    (void)json_object_put(body);
    return status;
}

/* ---- dump ---- */

struct dump {
    const struct cli_context *context;
    uint64_t limit;
    uint64_t count;
};

static bool
dump_line(void *arg, struct json_object *line)
{
    struct dump *dump = arg;
    const char *namespace_ = cli_json_text(line, "namespace");
    FILE *out = dump->context->out;

    if (dump->context->json)
        cli_json_print(out, line);
    else
        (void)fprintf(out, "%s  %8" PRIu64 "  %s  %-24s  %10" PRIu64 "%s%s\n",
                      cli_json_text(line, "hash"), cli_json_u64(line, "position"),
                      cli_json_text(line, "tier"), cli_json_text(line, "holder"),
                      cli_json_u64(line, "size"), namespace_[0] == '\0' ? "" : "  ", namespace_);
    dump->count++;
    return ferror(out) == 0 && (dump->limit == 0 || dump->count < dump->limit);
}

enum cli_exit
cli_index_dump(const struct cli_context *context)
{
    struct dump dump = {.context = context,
                        .limit = kvt_config_u64(context->options, CLI_INDEX_LIMIT)};
    struct kvt_error err = {0};
    char path[64];

    (void)snprintf(path, sizeof(path), "/v1/index/dump?limit=%" PRIu64,
                   dump.limit == 0 || dump.limit > PAGE ? (uint64_t)PAGE : dump.limit);
    if (!context->json)
        (void)fprintf(context->out, "%-16s  %8s  %s  %-24s  %10s  %s\n", "HASH", "POSITION", "T ",
                      "HOLDER", "BYTES", "NAMESPACE");
    if (cli_server_walk(context, CLI_SERVER_ADVISOR, path, dump_line, &dump, &err) != KVT_OK)
        return cli_server_fail(context, CLI_SERVER_ADVISOR, &err);
    return CLI_EXIT_DONE;
}
