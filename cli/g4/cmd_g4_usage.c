#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/g4/cmd_g4.h"
#include "cli/g4/g4_commands.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "cli/remote/cli_bucket.h"
#include "g4/object/kind.h"

enum {
    TIER_MAX = 16,
    PROGRESS_EVERY = 10000,
    ROWS_MAX = 1024, /* the rest is one row called "(others)" */
};

struct row {
    char namespace_[KVT_NAMESPACE_MAX];
    enum g4_kind kind;
    char tier[TIER_MAX];
    uint64_t objects;
    uint64_t bytes;
};

struct usage {
    const struct cli_context *context;
    const char *prefix;
    struct row rows[ROWS_MAX];
    size_t count;
    size_t last; /* keys come sorted: the next one is most likely of the same row */
    struct row others;
    uint64_t objects;
    uint64_t bytes;
};

static bool
is_row(const struct row *row, const char *namespace_, enum g4_kind kind, const char *tier)
{
    return row->kind == kind && strcmp(row->tier, tier) == 0 &&
           strcmp(row->namespace_, namespace_) == 0;
}

static struct row *
row_of(struct usage *usage, const char *namespace_, enum g4_kind kind, const char *tier)
{
    struct row *row;

    if (usage->count > 0 && is_row(&usage->rows[usage->last], namespace_, kind, tier))
        return &usage->rows[usage->last];
    for (size_t i = 0; i < usage->count; i++)
        if (is_row(&usage->rows[i], namespace_, kind, tier)) {
            usage->last = i;
            return &usage->rows[i];
        }
    if (usage->count == ROWS_MAX)
        return &usage->others;
    usage->last = usage->count;
    row = &usage->rows[usage->count++];
    (void)snprintf(row->namespace_, sizeof(row->namespace_), "%s", namespace_);
    (void)snprintf(row->tier, sizeof(row->tier), "%s", tier);
    row->kind = kind;
    return row;
}

static bool
count(struct usage *usage, const char *key, const char *tier, uint64_t size)
{
    struct kvt_key parts = {.namespace_ = ""};
    const enum g4_kind kind = g4_kind_of_key(key, &parts);
    struct row *row = row_of(usage, kind == G4_KIND_BLOCK ? parts.namespace_ : "", kind, tier);

    row->objects++;
    row->bytes += size;
    usage->objects++;
    usage->bytes += size;
    if (usage->objects % PROGRESS_EVERY == 0 && cli_context_interactive(usage->context))
        (void)fprintf(usage->context->err, "\r%" PRIu64 " objects ", usage->objects);
    return true;
}

static bool
count_line(void *arg, struct json_object *line)
{
    struct usage *usage = arg;
    const char *key = cli_json_text(line, "key");

    if (strncmp(key, usage->prefix, strlen(usage->prefix)) != 0)
        return true;
    return count(usage, key, cli_json_text(line, "tier"), cli_json_u64(line, "length"));
}

static bool
count_row(void *arg, const struct g4_listed *listed)
{
    return count(arg, listed->key, "bucket", listed->size);
}

static void
add_row(struct json_object *rows, const struct row *row, bool others)
{
    struct json_object *line = json_object_new_object();

    (void)json_object_object_add(line, "namespace", json_object_new_string(row->namespace_));
    (void)json_object_object_add(
        line, "kind", json_object_new_string(others ? "others" : g4_kind_name(row->kind)));
    (void)json_object_object_add(line, "tier", json_object_new_string(row->tier));
    (void)json_object_object_add(line, "objects", json_object_new_uint64(row->objects));
    (void)json_object_object_add(line, "bytes", json_object_new_uint64(row->bytes));
    (void)json_object_array_add(rows, line);
}

static void
print_json(const struct usage *usage, bool bucket)
{
    struct json_object *answer = json_object_new_object();
    struct json_object *rows = json_object_new_array();

    for (size_t i = 0; i < usage->count; i++)
        add_row(rows, &usage->rows[i], false);
    if (usage->others.objects > 0)
        add_row(rows, &usage->others, true);
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "source",
                                 json_object_new_string(bucket ? "bucket" : "gateway"));
    (void)json_object_object_add(answer, "usage", rows);
    (void)json_object_object_add(answer, "objects", json_object_new_uint64(usage->objects));
    (void)json_object_object_add(answer, "bytes", json_object_new_uint64(usage->bytes));
    cli_json_print(usage->context->out, answer);
    (void)json_object_put(answer);
}

static void
print_row(struct cli_table *table, const struct row *row, const char *namespace_, const char *kind)
{
    char size[KVT_SIZE_TEXT_MAX];

    kvt_size_format(row->bytes, size);
    cli_table_add(table, "%s", namespace_);
    cli_table_add(table, "%s", kind);
    cli_table_add(table, "%s", row->tier);
    cli_table_add(table, "%" PRIu64, row->objects);
    cli_table_add(table, "%s", size);
}

static void
print_table(const struct usage *usage)
{
    static const struct cli_column columns[] = {
        {"NAMESPACE", false}, {"KIND", false}, {"TIER", false}, {"OBJECTS", true}, {"SIZE", true}};
    char size[KVT_SIZE_TEXT_MAX];
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < usage->count; i++) {
        const struct row *row = &usage->rows[i];

        print_row(&table, row, row->namespace_[0] == '\0' ? "-" : row->namespace_,
                  g4_kind_name(row->kind));
    }
    if (usage->others.objects > 0)
        print_row(&table, &usage->others, "(others)", "-");
    cli_table_print(&table, usage->context->out);
    cli_table_release(&table);
    kvt_size_format(usage->bytes, size);
    (void)fprintf(usage->context->err, "%s%" PRIu64 " in all, %s\n",
                  cli_context_interactive(usage->context) ? "\r" : "", usage->objects, size);
}

static enum kvt_err
count_all(struct usage *usage, bool bucket, struct kvt_error *err)
{
    const struct cli_g4_walk walk = {.prefix = usage->prefix, .after = "", .each = count_line};
    struct g4_store *store = NULL;
    enum kvt_err rc;

    if (!bucket)
        return cli_g4_walk(usage->context, &walk, usage, err);
    rc = cli_bucket_open(usage->context, CLI_G4_USAGE_S3, &store, err);
    if (rc == KVT_OK)
        rc = cli_bucket_walk(store, usage->prefix, "", count_row, usage, err);
    g4_store_close(store);
    return rc;
}

enum cli_exit
cli_g4_usage(const struct cli_context *context)
{
    const bool bucket = cli_bucket_given(context, CLI_G4_USAGE_S3);
    struct usage *usage = kvt_calloc(1, sizeof(*usage));
    struct kvt_error err = {0};
    enum cli_exit status = CLI_EXIT_DONE;

    if (usage == NULL) {
        (void)kvt_error_set(&err, KVT_NOMEM, "out of memory");
        return cli_context_fail(context, &err);
    }
    usage->context = context;
    usage->prefix = context->argument_count > 0 ? context->arguments[0] : "";
    if (count_all(usage, bucket, &err) != KVT_OK)
        status = bucket ? cli_bucket_fail(context, CLI_G4_USAGE_S3, &err)
                        : cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
    else if (context->json)
        print_json(usage, bucket);
    else
        print_table(usage);
    kvt_free(usage);
    return status;
}
