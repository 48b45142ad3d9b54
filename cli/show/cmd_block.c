#include <inttypes.h>
#include <json-c/json.h>

#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/index/offline_index.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"
#include "kvtier/block.h"

static void
print_places(FILE *out, struct json_object *block)
{
    static const struct cli_column columns[] = {
        {"TIER", false}, {"HOLDER", false}, {"RANK", true}, {"SHARDS", true}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(block, "places"); i++) {
        struct json_object *place = cli_json_item(block, "places", i);

        cli_table_add(&table, "%s", cli_json_text(place, "tier"));
        cli_table_add(&table, "%s", cli_json_text(place, "holder"));
        cli_table_add(&table, "%s", cli_json_text(place, "dp_rank"));
        cli_table_add(&table, "%#" PRIx64, cli_json_u64(place, "ranks"));
    }
    (void)fputc('\n', out);
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static void
print_block(FILE *out, struct json_object *block)
{
    const char *namespace_ = cli_json_text(block, "namespace");
    const uint64_t last = cli_json_u64(block, "last_access_ms");
    char time[KVT_CLOCK_TEXT_MAX] = "never";
    char size[KVT_SIZE_TEXT_MAX];

    kvt_size_format(cli_json_u64(block, "size"), size);
    if (last != 0)
        kvt_clock_format(last, time);
    (void)fprintf(out, "block      %s\nnamespace  %s\nposition   %" PRIu64 "\nparent     %s\n",
                  cli_json_text(block, "hash"),
                  namespace_[0] == '\0' ? "(none: KVBM-compatible)" : namespace_,
                  cli_json_u64(block, "position"), cli_json_text(block, "parent"));
    (void)fprintf(out, "size       %s a shard\n", size);
    if (cli_json_at(block, "child_count") != NULL)
        (void)fprintf(out, "children   %" PRIu64 "\n", cli_json_u64(block, "child_count"));
    (void)fprintf(out,
                  "used       %" PRIu64 " time%s through a gateway, %" PRIu64
                  " of them from cold; last %s\n",
                  cli_json_u64(block, "hits"), cli_json_u64(block, "hits") == 1 ? "" : "s",
                  cli_json_u64(block, "cold_hits"), time);
    print_places(out, block);
    if (cli_json_at(block, "policy") == NULL)
        return;
    (void)fprintf(out, "\nstored     %s\n", cli_json_text(block, "policy.verdict"));
    for (size_t i = 0; i < cli_json_count(block, "policy.why"); i++)
        (void)fprintf(out, "policy     %s\n",
                      json_object_get_string(cli_json_item(block, "policy.why", i)));
}

static enum kvt_err
ask(const struct cli_context *context, uint64_t hash, struct json_object **block,
    struct kvt_error *err)
{
    char text[KVT_HASH_TEXT_MAX];
    struct kvt_buffer path;
    enum kvt_err rc;

    kvt_hash_format(hash, text);
    kvt_buffer_init(&path, CLI_ADMIN_PATH_MAX);
    kvt_buffer_printf(&path, "/v1/blocks/%s?namespace=", text);
    cli_admin_escape(&path, kvt_config_string(context->options, CLI_BLOCK_NAMESPACE), false);
    rc = cli_admin_ask(context, CLI_ADMIN_ADVISOR, kvt_buffer_text(&path), NULL, false, block, err);
    kvt_buffer_release(&path);
    return rc;
}

enum cli_exit
cli_block_show(const struct cli_context *context)
{
    const bool offline = kvt_config_is_set(context->options, CLI_BLOCK_OFFLINE);
    struct json_object *block;
    struct kvt_error err = {0};
    enum kvt_err rc;
    uint64_t hash;

    if (!kvt_hash_parse(context->arguments[0], &hash))
        return cli_context_usage(context,
                                 "\"%s\" is no hash: sixteen hex digits, 0x..., or decimal",
                                 context->arguments[0]);
    rc = offline ? cli_offline_index_block(kvt_config_string(context->options, CLI_BLOCK_OFFLINE),
                                           kvt_config_string(context->options, CLI_BLOCK_NAMESPACE),
                                           hash, &block, &err)
                 : ask(context, hash, &block, &err);
    if (rc != KVT_OK)
        return offline ? cli_offline_index_fail(context, &err)
                       : cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    cli_admin_loading(context, block);
    if (context->json)
        cli_json_print(context->out, block);
    else
        print_block(context->out, block);
    (void)json_object_put(block);
    return CLI_EXIT_DONE;
}
