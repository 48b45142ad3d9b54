#include "cli/ops/cmd_tenant.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/parse.h"
#include "cli/ops/ops_commands.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "kvtier/block.h"

struct row {
    char name[KVT_NAMESPACE_MAX];
    struct cli_tenant_sum sum;
};

/* What the policy lets a tenant have. */
struct quotas {
    struct json_object *answer; /* of the advisor */
    struct json_object *list;   /* NULL: it told none */
};

struct rows {
    bool whole;   /* namespaces by their whole names; else tenants */
    bool unnamed; /* only those of no tenant */
    struct row *rows;
    size_t count;
    size_t capacity;
    bool full;
};

/* ---- sums ---- */

static void
add(struct cli_tenant_sum *sum, struct json_object *line)
{
    static const char *const workers[] = {"g1", "g2", "g3"};
    char name[32];

    sum->blocks += cli_json_u64(line, "blocks");
    sum->reads += cli_json_u64(line, "reads");
    sum->cold_reads += cli_json_u64(line, "cold_reads");
    for (unsigned tier = 0; tier < CLI_STORE_TIER_COUNT; tier++) {
        (void)snprintf(name, sizeof(name), "%s_places", cli_store_tier_name(tier));
        sum->places[tier] += cli_json_u64(line, name);
        (void)snprintf(name, sizeof(name), "%s_bytes", cli_store_tier_name(tier));
        sum->bytes[tier] += cli_json_u64(line, name);
    }
    for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s_places", workers[i]);
        sum->worker_places += cli_json_u64(line, name);
        (void)snprintf(name, sizeof(name), "%s_bytes", workers[i]);
        sum->worker_bytes += cli_json_u64(line, name);
    }
}

static enum kvt_err
walk(const struct cli_context *context, const char *namespace_,
     bool (*each)(void *arg, struct json_object *line), void *arg, struct kvt_error *err)
{
    struct kvt_buffer path;
    enum kvt_err rc;

    kvt_buffer_init(&path, CLI_ADMIN_PATH_MAX);
    kvt_buffer_printf(&path, "/v1/usage?");
    if (namespace_ != NULL) {
        kvt_buffer_printf(&path, "namespace=");
        cli_admin_escape(&path, namespace_, false);
        kvt_buffer_printf(&path, "&");
    }
    rc = kvt_buffer_ok(&path)
             ? cli_admin_walk(context, CLI_ADMIN_ADVISOR, kvt_buffer_text(&path), each, arg, err)
             : kvt_error_set(err, KVT_RANGE, "the name is too long");
    kvt_buffer_release(&path);
    return rc;
}

static bool
add_all(void *arg, struct json_object *line)
{
    add(arg, line);
    return true;
}

enum kvt_err
cli_tenant_sum(const struct cli_context *context, const char *namespace_,
               struct cli_tenant_sum *sum, struct kvt_error *err)
{
    *sum = (struct cli_tenant_sum){.blocks = 0};
    return walk(context, namespace_, add_all, sum, err);
}

/* ---- usage ---- */

static bool
add_row(void *arg, struct json_object *line)
{
    struct rows *rows = arg;
    const char *name = cli_json_text(line, "namespace");
    const int size = (int)(rows->whole ? strlen(name) : strcspn(name, "/"));
    char key[KVT_NAMESPACE_MAX];
    size_t at = 0;

    if (rows->unnamed && name[0] != '\0' && name[0] != '/')
        return true;
    (void)snprintf(key, sizeof(key), "%.*s", size, name);
    while (at < rows->count && strcmp(rows->rows[at].name, key) < 0)
        at++;
    if (at == rows->count || strcmp(rows->rows[at].name, key) != 0) {
        struct row *grown =
            rows->count == CLI_TENANTS_MAX
                ? NULL
                : kvt_grow(rows->rows, &rows->capacity, rows->count + 1, sizeof(*rows->rows));

        rows->full = grown == NULL;
        if (grown == NULL)
            return false;
        rows->rows = grown;
        memmove(&rows->rows[at + 1], &rows->rows[at], (rows->count - at) * sizeof(*rows->rows));
        rows->count++;
        rows->rows[at] = (struct row){.sum = {.blocks = 0}};
        (void)snprintf(rows->rows[at].name, sizeof(rows->rows[at].name), "%s", key);
    }
    add(&rows->rows[at].sum, line);
    return true;
}

/* An advisor of a former version has none to tell. */
static void
ask_quotas(const struct cli_context *context, struct quotas *quotas)
{
    struct kvt_error err;

    *quotas = (struct quotas){.answer = NULL};
    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/quotas", NULL, false, &quotas->answer,
                      &err) == KVT_OK)
        (void)json_object_object_get_ex(quotas->answer, "quotas", &quotas->list);
}

/* Number `at` of a tenant's (""; all tenants'); NULL: there are no more. */
static struct json_object *
quota_at(const struct quotas *quotas, const char *tenant, size_t at)
{
    for (size_t i = 0; quotas->list != NULL && i < json_object_array_length(quotas->list); i++) {
        struct json_object *quota = json_object_array_get_idx(quotas->list, i);

        if ((tenant[0] == '\0' || strcmp(cli_json_text(quota, "tenant"), tenant) == 0) && at-- == 0)
            return quota;
    }
    return NULL;
}

static void
add_member(struct json_object *row, const char *name, uint64_t value)
{
    (void)json_object_object_add(row, name, json_object_new_uint64(value));
}

static void
print_json(FILE *out, const struct rows *rows, const struct quotas *quotas, const char *tenant)
{
    struct json_object *answer = json_object_new_object();
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < rows->count; i++) {
        const struct cli_tenant_sum *sum = &rows->rows[i].sum;
        struct json_object *row = json_object_new_object();

        (void)json_object_object_add(row, rows->whole ? "namespace" : "tenant",
                                     json_object_new_string(rows->rows[i].name));
        add_member(row, "blocks", sum->blocks);
        for (unsigned tier = 0; tier < CLI_STORE_TIER_COUNT; tier++) {
            char name[32];

            (void)snprintf(name, sizeof(name), "%s_places", cli_store_tier_name(tier));
            add_member(row, name, sum->places[tier]);
            (void)snprintf(name, sizeof(name), "%s_bytes", cli_store_tier_name(tier));
            add_member(row, name, sum->bytes[tier]);
        }
        add_member(row, "worker_places", sum->worker_places);
        add_member(row, "worker_bytes", sum->worker_bytes);
        add_member(row, "reads", sum->reads);
        add_member(row, "cold_reads", sum->cold_reads);
        (void)json_object_array_add(list, row);
    }
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, rows->whole ? "namespaces" : "tenants", list);
    list = json_object_new_array();
    for (size_t i = 0; quota_at(quotas, tenant, i) != NULL; i++)
        (void)json_object_array_add(list, json_object_get(quota_at(quotas, tenant, i)));
    (void)json_object_object_add(answer, "quotas", list);
    cli_json_print(out, answer);
    (void)json_object_put(answer);
}

static void
add_size(struct cli_table *table, uint64_t bytes)
{
    char text[KVT_SIZE_TEXT_MAX];

    kvt_size_format(bytes, text);
    cli_table_add(table, "%s", text);
}

static void
print_table(const struct cli_context *context, const struct rows *rows)
{
    enum { FIRST_RUNG = 2 };
    const struct cli_column columns[] = {{rows->whole ? "NAMESPACE" : "TENANT", false},
                                         {"BLOCKS", true},
                                         CLI_STORE_TIER_COLUMNS,
                                         {"WORKERS", true},
                                         {"READS", true},
                                         {"OF THEM COLD", true}};
    bool used[CLI_STORE_TIER_COUNT] = {false};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < rows->count; i++) {
        const struct cli_tenant_sum *sum = &rows->rows[i].sum;

        cli_table_add(&table, "%s",
                      rows->rows[i].name[0] == '\0' ? CLI_TENANT_UNNAMED : rows->rows[i].name);
        cli_table_add(&table, "%" PRIu64, sum->blocks);
        for (unsigned tier = 0; tier < CLI_STORE_TIER_COUNT; tier++) {
            add_size(&table, sum->bytes[tier]);
            used[tier] = used[tier] || sum->places[tier] > 0;
        }
        add_size(&table, sum->worker_bytes);
        cli_table_add(&table, "%" PRIu64, sum->reads);
        cli_table_add(&table, "%" PRIu64, sum->cold_reads);
    }
    cli_store_tiers_hide(&table, context, FIRST_RUNG, used);
    cli_table_print(&table, context->out);
    cli_table_release(&table);
}

static void
print_quotas(FILE *out, const struct quotas *quotas, const char *tenant)
{
    static const struct cli_column columns[] = {{"QUOTA OF", false}, {"TIER", false},
                                                {"USED", true},      {"SOFT", true},
                                                {"HARD", true},      {"STATE", false}};
    struct cli_table table;
    struct json_object *quota;

    if (quota_at(quotas, tenant, 0) == NULL)
        return;
    (void)fputc('\n', out);
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; (quota = quota_at(quotas, tenant, i)) != NULL; i++) {
        const char *above = cli_json_text(quota, "above");

        cli_table_add(&table, "%s", cli_json_text(quota, "tenant"));
        cli_table_add(&table, "%s",
                      cli_json_text(quota, "tier")[0] == '\0' ? "all"
                                                              : cli_json_text(quota, "tier"));
        add_size(&table, cli_json_u64(quota, "used_bytes"));
        add_size(&table, cli_json_u64(quota, "soft_bytes"));
        add_size(&table, cli_json_u64(quota, "hard_bytes"));
        cli_table_add(&table, "%s%s%s", strcmp(above, "within") == 0 ? "" : "above ", above,
                      cli_json_bool(quota, "stuck") ? ", nothing may leave" : "");
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

enum cli_exit
cli_tenant_usage(const struct cli_context *context)
{
    const char *tenant = context->argument_count > 0 ? context->arguments[0] : NULL;
    struct rows rows = {.whole = tenant != NULL,
                        .unnamed = tenant != NULL && strcmp(tenant, CLI_TENANT_UNNAMED) == 0};
    enum cli_exit status = CLI_EXIT_DONE;
    struct quotas quotas = {.answer = NULL};
    struct kvt_error err = {0};
    /* The advisor's word for all is the empty name: those of no tenant are picked here. */
    enum kvt_err rc = walk(context, rows.unnamed ? NULL : tenant, add_row, &rows, &err);

    if (rc == KVT_OK && rows.full)
        rc = kvt_error_set(&err, KVT_FULL, "more than %d tenants: ask for one of them",
                           CLI_TENANTS_MAX);
    else if (rc == KVT_OK && tenant != NULL && rows.count == 0)
        rc = kvt_error_set(&err, KVT_NOTFOUND, "the index knows nothing of \"%.80s\"", tenant);
    if (rc == KVT_OK)
        ask_quotas(context, &quotas);
    if (rc == KVT_FULL || rc == KVT_NOTFOUND) {
        status = cli_context_fail(context, &err);
    } else if (rc != KVT_OK) {
        status = cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    } else if (context->json) {
        print_json(context->out, &rows, &quotas, tenant == NULL ? "" : tenant);
    } else {
        if (rows.count == 0)
            (void)fputs("no tenants: the index knows of no block yet; who sends events: kvtier "
                        "sources ls\n",
                        context->out);
        else
            print_table(context, &rows);
        print_quotas(context->out, &quotas, tenant == NULL ? "" : tenant);
    }
    (void)json_object_put(quotas.answer);
    kvt_free(rows.rows);
    return status;
}
