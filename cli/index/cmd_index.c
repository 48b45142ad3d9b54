#include <inttypes.h>
#include <json-c/json.h>

#include "base/core/alloc.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/index/index_commands.h"
#include "cli/index/offline_index.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "kvtier/block.h"

enum { PAGE = 4096 };

static enum cli_exit
fail(const struct cli_context *context, bool offline, const struct kvt_error *err)
{
    return offline ? cli_offline_index_fail(context, err)
                   : cli_admin_fail(context, CLI_ADMIN_ADVISOR, err);
}

/* ---- stats ---- */

static void
print_stats(FILE *out, struct json_object *stats, bool offline)
{
    static const struct cli_column columns[] = {
        {"TIER", false}, {"HOLDER", false}, {"RANK", true}, {"BLOCKS", true}, {"BYTES", true}};
    struct cli_table table;

    (void)fprintf(out, "%" PRIu64 " blocks in %" PRIu64 " places\n", cli_json_u64(stats, "blocks"),
                  cli_json_u64(stats, "places"));
    if (cli_json_u64(stats, "evicted_blocks") > 0)
        (void)fprintf(out, "and %" PRIu64 " with places on disk alone\n",
                      cli_json_u64(stats, "evicted_blocks"));
    if (offline) {
        char used[KVT_SIZE_TEXT_MAX];
        char max[KVT_SIZE_TEXT_MAX];

        kvt_size_format(cli_json_u64(stats, "db_bytes"), used);
        kvt_size_format(cli_json_u64(stats, "db_max_bytes"), max);
        (void)fprintf(out, "as of message %" PRIu64 " of the event stream; %s of %s on disk\n",
                      cli_json_u64(stats, "committed_seq"), used, max);
    }
    (void)fputc('\n', out);
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
    cli_table_print(&table, out);
    cli_table_release(&table);
}

enum cli_exit
cli_index_stats(const struct cli_context *context)
{
    const bool offline = kvt_config_is_set(context->options, CLI_INDEX_STATS_OFFLINE);
    struct json_object *stats;
    struct kvt_error err = {0};
    enum kvt_err rc;

    rc = offline ? cli_offline_index_stats(
                       kvt_config_string(context->options, CLI_INDEX_STATS_OFFLINE), &stats, &err)
                 : cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/index/stats", NULL, false, &stats,
                                 &err);
    if (rc != KVT_OK)
        return fail(context, offline, &err);
    cli_admin_loading(context, stats);
    if (context->json)
        cli_json_print(context->out, stats);
    else
        print_stats(context->out, stats, offline);
    (void)json_object_put(stats);
    return CLI_EXIT_DONE;
}

/* ---- match ---- */

/* Both questions to the advisor; the second's answer joins the first's. */
static enum kvt_err
ask_match(const struct cli_context *context, const char *namespace_, const uint64_t *hashes,
          struct json_object **match, struct kvt_error *err)
{
    struct json_object *body = json_object_new_object();
    struct json_object *texts = json_object_new_array();
    struct json_object *find = NULL;
    enum kvt_err rc;

    (void)json_object_object_add(body, "namespace", json_object_new_string(namespace_));
    (void)json_object_object_add(body, "hashes", texts);
    for (size_t i = 0; i < context->argument_count; i++) {
        char text[KVT_HASH_TEXT_MAX];

        kvt_hash_format(hashes[i], text);
        (void)json_object_array_add(texts, json_object_new_string(text));
    }
    rc = cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/match", body, false, match, err);
    if (rc == KVT_OK)
        rc = cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/find_matches", body, false, &find, err);
    if (rc == KVT_OK)
        (void)json_object_object_add(*match, "matches",
                                     json_object_get(cli_json_at(find, "matches")));
    (void)json_object_put(find);
    (void)json_object_put(body);
    return rc;
}

static void
print_matches(FILE *out, struct json_object *match)
{
    static const struct cli_column block_columns[] = {{"BLOCK", false}, {"TIERS", false}};
    static const struct cli_column holder_columns[] = {
        {"PREFIX", true}, {"TIER", false}, {"HOLDER", false}, {"RANK", true}};
    struct cli_table table;

    cli_table_init(&table, block_columns, sizeof(block_columns) / sizeof(block_columns[0]));
    for (size_t i = 0; i < cli_json_count(match, "blocks"); i++) {
        struct json_object *block = cli_json_item(match, "blocks", i);
        char tiers[32];

        cli_json_join(block, "tiers", tiers, sizeof(tiers));
        cli_table_add(&table, "%s", cli_json_text(block, "hash"));
        cli_table_add(&table, "%s", tiers[0] == '\0' ? "nowhere" : tiers);
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
    (void)fputc('\n', out);
    cli_table_init(&table, holder_columns, sizeof(holder_columns) / sizeof(holder_columns[0]));
    for (size_t i = 0; i < cli_json_count(match, "matches"); i++) {
        struct json_object *holder = cli_json_item(match, "matches", i);

        cli_table_add(&table, "%" PRIu64, cli_json_u64(holder, "blocks"));
        cli_table_add(&table, "%s", cli_json_text(holder, "tier"));
        cli_table_add(&table, "%s%s", cli_json_text(holder, "holder"),
                      cli_json_bool(holder, "uncertain") ? " (uncertain)" : "");
        cli_table_add(&table, "%s", cli_json_text(holder, "dp_rank"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

enum cli_exit
cli_index_match(const struct cli_context *context)
{
    const bool offline = kvt_config_is_set(context->options, CLI_INDEX_MATCH_OFFLINE);
    const char *namespace_ = kvt_config_string(context->options, CLI_INDEX_NAMESPACE);
    uint64_t *hashes = kvt_calloc(context->argument_count, sizeof(*hashes));
    struct json_object *match = NULL;
    struct kvt_error err = {0};
    enum cli_exit status = CLI_EXIT_DONE;
    enum kvt_err rc = KVT_OK;

    if (hashes == NULL)
        rc = kvt_error_set(&err, KVT_NOMEM, "out of memory");
    for (size_t i = 0; rc == KVT_OK && i < context->argument_count; i++)
        if (!kvt_hash_parse(context->arguments[i], &hashes[i])) {
            status = cli_context_usage(context,
                                       "\"%s\" is no hash: sixteen hex digits, 0x..., or decimal",
                                       context->arguments[i]);
            goto done;
        }
    if (rc == KVT_OK)
        rc = offline ? cli_offline_index_match(
                           kvt_config_string(context->options, CLI_INDEX_MATCH_OFFLINE), namespace_,
                           hashes, context->argument_count, &match, &err)
                     : ask_match(context, namespace_, hashes, &match, &err);
    if (rc != KVT_OK)
        status = fail(context, offline, &err);
    else if (context->json)
        cli_json_print(context->out, match);
    else
        print_matches(context->out, match);
    if (rc == KVT_OK)
        cli_admin_loading(context, match);
done:
    (void)json_object_put(match);
    kvt_free(hashes);
    return status;
}

/* ---- dump ---- */

struct dump {
    const struct cli_context *context;
    uint64_t limit;
    uint64_t count;
};

/* Above the first line, so that nothing is printed when nobody answers. */
static void
print_dump_titles(const struct cli_context *context)
{
    if (!context->json)
        (void)fprintf(context->out, "%-16s  %8s  %s  %-24s  %10s  %s\n", "HASH", "POSITION", "T ",
                      "HOLDER", "BYTES", "NAMESPACE");
}

static bool
dump_line(void *arg, struct json_object *line)
{
    struct dump *dump = arg;
    const char *namespace_ = cli_json_text(line, "namespace");
    FILE *out = dump->context->out;

    if (dump->count == 0)
        print_dump_titles(dump->context);
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
    const bool offline = kvt_config_is_set(context->options, CLI_INDEX_DUMP_OFFLINE);
    struct dump dump = {.context = context,
                        .limit = kvt_config_u64(context->options, CLI_INDEX_LIMIT)};
    struct kvt_error err = {0};
    char path[64];
    enum kvt_err rc;

    (void)snprintf(path, sizeof(path), "/v1/index/dump?limit=%" PRIu64,
                   dump.limit == 0 || dump.limit > PAGE ? (uint64_t)PAGE : dump.limit);
    rc = offline
             ? cli_offline_index_dump(kvt_config_string(context->options, CLI_INDEX_DUMP_OFFLINE),
                                      dump_line, &dump, &err)
             : cli_admin_walk(context, CLI_ADMIN_ADVISOR, path, dump_line, &dump, &err);
    if (rc != KVT_OK)
        return fail(context, offline, &err);
    if (dump.count == 0)
        print_dump_titles(context);
    return CLI_EXIT_DONE;
}
