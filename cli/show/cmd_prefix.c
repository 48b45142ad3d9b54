#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/buffer.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/output/store_tiers.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"
#include "kvtier/block.h"

/* ---- asking ---- */

static enum kvt_err
ask(const struct cli_context *context, const char *path, const char *hash, const char *join,
    const char *namespace_, struct json_object **answer, struct kvt_error *err)
{
    struct kvt_buffer text;
    enum kvt_err rc;

    *answer = NULL;
    kvt_buffer_init(&text, CLI_ADMIN_PATH_MAX);
    kvt_buffer_printf(&text, "%s%s%snamespace=", path, hash, join);
    cli_admin_escape(&text, namespace_, false);
    rc = kvt_buffer_ok(&text) ? cli_admin_ask(context, CLI_ADMIN_ADVISOR, kvt_buffer_text(&text),
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

static void
add_size(struct cli_table *table, uint64_t bytes, const char *more)
{
    char size[KVT_SIZE_TEXT_MAX];

    kvt_size_format(bytes, size);
    cli_table_add(table, "%s%s", size, more);
}

/* Blocks each once, then bytes tier by tier of gateways, and with workers in G1 to G3. */
static void
add_totals(struct cli_table *table, struct json_object *totals, bool used[CLI_STORE_TIER_COUNT])
{
    const char *more = totals == NULL || cli_json_bool(totals, "complete") ? "" : "+";
    uint64_t workers = 0;

    for (size_t i = 0; i < cli_json_count(totals, "tiers"); i++) {
        struct json_object *tier = cli_json_item(totals, "tiers", i);

        if (strcmp(cli_json_text(tier, "tier"), "G4") != 0)
            workers += cli_json_u64(tier, "bytes");
    }
    cli_table_add(table, "%" PRIu64 "%s", cli_json_u64(totals, "blocks"), more);
    for (unsigned tier = 0; tier < CLI_STORE_TIER_COUNT; tier++) {
        char name[16];
        uint64_t bytes;

        (void)snprintf(name, sizeof(name), "%s.bytes", cli_store_tier_name(tier));
        bytes = cli_json_u64(totals, name);
        add_size(table, bytes, more);
        used[tier] = used[tier] || bytes > 0;
    }
    add_size(table, workers, more);
}

static void
print_table(struct cli_table *table, const struct cli_context *context,
            const bool used[CLI_STORE_TIER_COUNT])
{
    enum { FIRST_RUNG = 4 }; /* of both tables */

    cli_store_tiers_hide(table, context, FIRST_RUNG, used);
    cli_table_print(table, context->out);
}

/* ---- top ---- */

enum { TOP_MAX = 256, NOBODY = -1, NODES_MAX = 1000 /* blocks of a tree */ };

/* The rows of the overview, and how they hang together: a row with one listed child is a chain with
 * it, and shown once. */
struct top {
    struct json_object *rows[TOP_MAX];
    size_t count;
    int parent[TOP_MAX];        /* its row, or NOBODY */
    int child[TOP_MAX];         /* the last one listed, or NOBODY */
    unsigned children[TOP_MAX]; /* so many are listed */
};

static void
read_top(struct top *top, struct json_object *overview)
{
    top->count = cli_json_count(overview, "prefixes");
    if (top->count > TOP_MAX)
        top->count = TOP_MAX;
    for (size_t i = 0; i < top->count; i++) {
        top->rows[i] = cli_json_item(overview, "prefixes", i);
        top->parent[i] = top->child[i] = NOBODY;
        top->children[i] = 0;
    }
    for (size_t i = 0; i < top->count; i++)
        for (size_t at = 0; at < top->count && top->parent[i] == NOBODY; at++)
            if (at != i &&
                strcmp(cli_json_text(top->rows[at], "hash"),
                       cli_json_text(top->rows[i], "parent")) == 0 &&
                strcmp(cli_json_text(top->rows[at], "namespace"),
                       cli_json_text(top->rows[i], "namespace")) == 0) {
                top->parent[i] = (int)at;
                top->child[at] = (int)i;
                top->children[at]++;
            }
}

static bool
begins_chain(const struct top *top, size_t at)
{
    return top->parent[at] == NOBODY || top->children[top->parent[at]] != 1;
}

/* Is it nowhere any more?  Memory may have forgotten it; the store has not. */
static bool
is_dead(const struct cli_context *context, struct json_object *row)
{
    struct json_object *block = NULL;
    struct kvt_error err;
    const enum kvt_err rc = ask(context, "/v1/blocks/", cli_json_text(row, "hash"), "?",
                                cli_json_text(row, "namespace"), &block, &err);

    (void)json_object_put(block);
    return rc == KVT_NOTFOUND;
}

/* The chain that begins at a row, from the first of it that is anywhere; NULL: none is. */
static struct json_object *
live_of(const struct cli_context *context, const struct top *top, size_t at)
{
    const size_t first = at;
    struct json_object *row;
    struct json_object *totals;
    struct json_object *last;

    for (;;) {
        row = top->rows[at];
        totals = subtree(context, cli_json_text(row, "hash"), cli_json_text(row, "namespace"));
        if (totals != NULL || !is_dead(context, row))
            break;
        if (top->children[at] != 1 || top->child[at] == (int)first)
            return NULL;
        at = (size_t)top->child[at];
    }
    last = row;
    for (size_t steps = 0; top->children[at] == 1 && steps < top->count; steps++) {
        at = (size_t)top->child[at];
        last = top->rows[at];
    }
    (void)json_object_object_add(row, "last_hash",
                                 json_object_new_string(cli_json_text(last, "hash")));
    (void)json_object_object_add(row, "last_position",
                                 json_object_new_uint64(cli_json_u64(last, "position")));
    (void)json_object_object_add(row, "subtree", totals);
    return row;
}

static void
add_top(struct cli_table *table, struct json_object *row, bool used[CLI_STORE_TIER_COUNT])
{
    const uint64_t first = cli_json_u64(row, "position");
    const uint64_t last = cli_json_u64(row, "last_position");
    const char *name = cli_json_text(row, "namespace");

    cli_table_add(table, "%" PRIu64, cli_json_u64(row, "reads"));
    cli_table_add(table, "%s", cli_json_text(row, "hash"));
    if (last > first)
        cli_table_add(table, "%" PRIu64 "-%" PRIu64, first, last);
    else
        cli_table_add(table, "%" PRIu64, first);
    add_totals(table, cli_json_at(row, "subtree"), used);
    cli_table_add(table, "%s%s", name[0] == '\0' ? "-" : name,
                  cli_json_bool(row, "pinned") ? ", pinned" : "");
}

enum cli_exit
cli_prefix_top(const struct cli_context *context)
{
    static const struct cli_column columns[] = {
        {"READS", true},        {"HASH", false},   {"POSITIONS", true}, {"BLOCKS", true},
        CLI_STORE_TIER_COLUMNS, {"WORKERS", true}, {"NAMESPACE", false}};
    const uint64_t limit = kvt_config_u64(context->options, CLI_PREFIX_TOP_LIMIT);
    struct json_object *answer;
    struct json_object *list;
    struct json_object *overview;
    struct kvt_error err = {0};
    bool used[CLI_STORE_TIER_COUNT] = {false};
    struct cli_table table;
    struct top top;

    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/overview", NULL, false, &overview, &err) !=
        KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    answer = json_object_new_object();
    list = json_object_new_array();
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    read_top(&top, overview);
    for (size_t i = 0; i < top.count && json_object_array_length(list) < limit; i++) {
        struct json_object *row = begins_chain(&top, i) ? live_of(context, &top, i) : NULL;

        if (row == NULL)
            continue;
        add_top(&table, row, used);
        (void)json_object_array_add(list, json_object_get(row));
    }
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "prefixes", list);
    if (context->json)
        cli_json_print(context->out, answer);
    else if (json_object_array_length(list) == 0)
        (void)fputs("no prefix: no gateway has reported a read of late; who reports: kvtier tier "
                    "ls\n",
                    context->out);
    else
        print_table(&table, context, used);
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
    bool used[CLI_STORE_TIER_COUNT];
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
    add_totals(&tree->table, totals, tree->used);
    add_left_out(tree, block, level);
    for (size_t i = 0; rc == KVT_OK && i < shown_of(tree, block, level); i++) {
        struct json_object *child = NULL;

        if (tree->nodes >= NODES_MAX) {
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
        {"HASH", false},        {"POSITION", true}, {"READS", true}, {"BLOCKS", true},
        CLI_STORE_TIER_COLUMNS, {"WORKERS", true},  {"", false}};
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
        status = cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
        (void)json_object_put(root);
    } else if (context->json) {
        answer = json_object_new_object();
        (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
        (void)json_object_object_add(answer, "tree", root);
        cli_json_print(context->out, answer);
        (void)json_object_put(answer);
    } else {
        print_table(&tree.table, context, tree.used);
        (void)json_object_put(root);
    }
    cli_table_release(&tree.table);
    if (tree.cut)
        (void)fprintf(context->err, "kvtier: more than %d blocks: the others are left out\n",
                      NODES_MAX);
    return status;
}
