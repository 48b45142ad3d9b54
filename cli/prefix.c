#include "cli/prefix.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/parse.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/server.h"
#include "cli/table.h"
#include "kvtier/block.h"

enum { TIERS_TEXT_MAX = 64 };

/* ---- asking ---- */

static enum kvt_err
ask(const struct cli_context *context, const char *path, const char *hash, const char *join,
    const char *namespace_, struct json_object **answer, struct kvt_error *err)
{
    struct kvt_buffer text;
    enum kvt_err rc;

    *answer = NULL;
    kvt_buffer_init(&text, CLI_SERVER_PATH_MAX);
    kvt_buffer_printf(&text, "%s%s%snamespace=", path, hash, join);
    cli_server_escape(&text, namespace_, false);
    rc = kvt_buffer_ok(&text) ? cli_server_ask(context, CLI_SERVER_ADVISOR, kvt_buffer_text(&text),
                                               NULL, false, answer, err)
                              : kvt_error_set(err, KVT_RANGE, "the name is too long");
    kvt_buffer_release(&text);
    return rc;
}

/* What hangs on a block, all in all; NULL: that is not known (any more). */
static struct json_object *
subtree(const struct cli_context *context, const char *hash, const char *namespace_)
{
    struct json_object *answer;
    struct kvt_error err;

    return ask(context, "/v1/index/subtree?hash=", hash, "&", namespace_, &answer, &err) == KVT_OK
               ? answer
               : NULL;
}

static uint64_t
bytes_of(struct json_object *totals)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < cli_json_count(totals, "tiers"); i++)
        bytes += cli_json_u64(cli_json_item(totals, "tiers", i), "bytes");
    return bytes;
}

/* "G1 G4", each once, in their order. */
static void
tiers_of(struct json_object *totals, char text[TIERS_TEXT_MAX])
{
    size_t size = 0;

    text[0] = '\0';
    for (size_t i = 0; i < cli_json_count(totals, "tiers") && size < TIERS_TEXT_MAX; i++) {
        const char *name = cli_json_text(cli_json_item(totals, "tiers", i), "tier");
        const int more =
            snprintf(text + size, TIERS_TEXT_MAX - size, "%s%.4s", i == 0 ? "" : " ", name);

        size += more > 0 ? (size_t)more : 0;
    }
}

static void
add_totals(struct cli_table *table, struct json_object *totals)
{
    const bool complete = totals == NULL || cli_json_bool(totals, "complete");
    char tiers[TIERS_TEXT_MAX];
    char size[KVT_SIZE_TEXT_MAX];

    kvt_size_format(bytes_of(totals), size);
    tiers_of(totals, tiers);
    cli_table_add(table, "%" PRIu64 "%s", cli_json_u64(totals, "blocks"), complete ? "" : "+");
    cli_table_add(table, "%s%s", size, complete ? "" : "+");
    cli_table_add(table, "%s", tiers);
}

/* ---- top ---- */

enum cli_exit
cli_prefix_top(const struct cli_context *context)
{
    static const struct cli_column columns[] = {
        {"READS", true}, {"HASH", false},  {"POSITION", true},  {"BLOCKS", true},
        {"BYTES", true}, {"TIERS", false}, {"NAMESPACE", false}};
    const uint64_t limit = kvt_config_u64(context->options, CLI_PREFIX_TOP_LIMIT);
    struct json_object *answer = json_object_new_object();
    struct json_object *list = json_object_new_array();
    struct json_object *overview;
    struct kvt_error err = {0};
    struct cli_table table;

    if (cli_server_ask(context, CLI_SERVER_ADVISOR, "/v1/overview", NULL, false, &overview, &err) !=
        KVT_OK) {
        (void)json_object_put(answer);
        (void)json_object_put(list);
        return cli_server_fail(context, CLI_SERVER_ADVISOR, &err);
    }
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(overview, "prefixes") && i < limit; i++) {
        struct json_object *row = cli_json_item(overview, "prefixes", i);
        const char *name = cli_json_text(row, "namespace");
        struct json_object *totals = subtree(context, cli_json_text(row, "hash"), name);

        cli_table_add(&table, "%" PRIu64, cli_json_u64(row, "reads"));
        cli_table_add(&table, "%s", cli_json_text(row, "hash"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(row, "position"));
        add_totals(&table, totals);
        cli_table_add(&table, "%s", name[0] == '\0' ? "-" : name);
        (void)json_object_object_add(row, "subtree", totals);
        (void)json_object_array_add(list, json_object_get(row));
    }
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "prefixes", list);
    if (context->json)
        cli_json_print(context->out, answer);
    else if (json_object_array_length(list) == 0)
        (void)fputs("no gateway has reported a read of late\n", context->out);
    else
        cli_table_print(&table, context->out);
    cli_table_release(&table);
    (void)json_object_put(answer);
    (void)json_object_put(overview);
    return CLI_EXIT_DONE;
}

/* ---- tree ---- */

struct tree {
    const struct cli_context *context;
    const char *namespace_;
    uint64_t depth;
    uint64_t width;
    size_t nodes;
    bool cut; /* there were more than are asked for */
    struct cli_table table;
};

/* So many of its children are looked at. */
static size_t
shown_of(const struct tree *tree, struct json_object *block, uint64_t level)
{
    const size_t count = cli_json_count(block, "children");

    return level == tree->depth ? 0 : count < tree->width ? count : (size_t)tree->width;
}

static void
add_left_out(struct tree *tree, struct json_object *block, uint64_t level)
{
    const uint64_t count = cli_json_u64(block, "child_count");
    const size_t shown = shown_of(tree, block, level);

    if (count > shown)
        cli_table_add(&tree->table, "%" PRIu64 " more %s", count - shown,
                      count - shown == 1 ? "child" : "children");
    else
        cli_table_add(&tree->table, "%s", "");
}

/* A line of the table, and the block as JSON with those below it. */
static enum kvt_err
visit(struct tree *tree, const char *hash, uint64_t level, struct json_object **out,
      struct kvt_error *err)
{
    struct json_object *children = json_object_new_array();
    struct json_object *node = json_object_new_object();
    struct json_object *block = NULL;
    struct json_object *totals;
    uint64_t left_out = 0;
    enum kvt_err rc;

    *out = node;
    (void)json_object_object_add(node, "hash", json_object_new_string(hash));
    (void)json_object_object_add(node, "children", children);
    rc = ask(tree->context, "/v1/blocks/", hash, "?", tree->namespace_, &block, err);
    if (rc != KVT_OK)
        return rc;
    tree->nodes++;
    totals = subtree(tree->context, hash, tree->namespace_);
    cli_table_add(&tree->table, "%*s%s", (int)(2 * level), "", hash);
    cli_table_add(&tree->table, "%" PRIu64, cli_json_u64(block, "position"));
    cli_table_add(&tree->table, "%" PRIu64, cli_json_u64(block, "hits"));
    add_totals(&tree->table, totals);
    add_left_out(tree, block, level);
    for (size_t i = 0; rc == KVT_OK && i < shown_of(tree, block, level); i++) {
        struct json_object *child = NULL;

        if (tree->nodes >= CLI_PREFIX_NODES_MAX) {
            tree->cut = true;
            break;
        }
        rc = visit(tree, json_object_get_string(cli_json_item(block, "children", i)), level + 1,
                   &child, err);
        if (rc == KVT_NOTFOUND) { /* it went meanwhile */
            (void)json_object_put(child);
            rc = KVT_OK;
            continue;
        }
        (void)json_object_array_add(children, child);
    }
    if (cli_json_u64(block, "child_count") > json_object_array_length(children))
        left_out = cli_json_u64(block, "child_count") - json_object_array_length(children);
    (void)json_object_object_add(node, "position",
                                 json_object_new_uint64(cli_json_u64(block, "position")));
    (void)json_object_object_add(node, "reads",
                                 json_object_new_uint64(cli_json_u64(block, "hits")));
    (void)json_object_object_add(node, "left_out", json_object_new_uint64(left_out));
    (void)json_object_object_add(node, "subtree", totals);
    (void)json_object_put(block);
    return rc;
}

enum cli_exit
cli_prefix_tree(const struct cli_context *context)
{
    static const struct cli_column columns[] = {
        {"HASH", false}, {"POSITION", true}, {"READS", true}, {"BLOCKS", true},
        {"BYTES", true}, {"TIERS", false},   {"", false}};
    struct tree tree = {.context = context,
                        .namespace_ =
                            kvt_config_string(context->options, CLI_PREFIX_TREE_NAMESPACE),
                        .depth = kvt_config_u64(context->options, CLI_PREFIX_TREE_DEPTH),
                        .width = kvt_config_u64(context->options, CLI_PREFIX_TREE_WIDTH)};
    enum cli_exit status = CLI_EXIT_DONE;
    struct json_object *root = NULL;
    struct json_object *answer;
    struct kvt_error err = {0};
    char hash[KVT_HASH_TEXT_MAX];
    uint64_t number;

    if (!kvt_hash_parse(context->arguments[0], &number))
        return cli_context_usage(context,
                                 "\"%.40s\" is no hash: sixteen hex digits, 0x..., or decimal",
                                 context->arguments[0]);
    kvt_hash_format(number, hash);
    cli_table_init(&tree.table, columns, sizeof(columns) / sizeof(columns[0]));
    if (visit(&tree, hash, 0, &root, &err) != KVT_OK) {
        status = cli_server_fail(context, CLI_SERVER_ADVISOR, &err);
        (void)json_object_put(root);
    } else if (context->json) {
        answer = json_object_new_object();
        (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
        (void)json_object_object_add(answer, "tree", root);
        cli_json_print(context->out, answer);
        (void)json_object_put(answer);
    } else {
        cli_table_print(&tree.table, context->out);
        (void)json_object_put(root);
    }
    cli_table_release(&tree.table);
    if (tree.cut)
        (void)fprintf(context->err, "kvtier: more than %d blocks: the others are left out\n",
                      CLI_PREFIX_NODES_MAX);
    return status;
}
