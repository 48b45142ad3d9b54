#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/output/store_tiers.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"

enum {
    PPM_PERCENT = 10000,
    STALE_MS = 15000, /* nothing is planned on an older report (advisor/DESIGN.md) */
    AGE_MAX = 32,
};

/* "G3" for a volume and "G4" for a bucket, as a policy's tiers say it. */
static const char *
level_of(const char *name)
{
    return strncmp(name, "cold@", 5) == 0 ? "G4" : "G3";
}

static struct json_object *
gateway_of(struct json_object *status, const char *name)
{
    for (size_t i = 0; i < cli_json_count(status, "gateways"); i++) {
        struct json_object *gateway = cli_json_item(status, "gateways", i);

        if (strcmp(cli_json_text(gateway, "name"), name) == 0)
            return gateway;
    }
    return NULL;
}

/* The first that is wrong, or what goes on. */
static const char *
state_of(struct json_object *status, struct json_object *tier, uint64_t now_ms)
{
    struct json_object *gateway = gateway_of(status, cli_json_text(tier, "gateway"));
    const uint64_t seen_ms = cli_json_u64(tier, "last_report_ms");

    if (seen_ms == 0 || now_ms > seen_ms + STALE_MS)
        return "silent";
    if (strcmp(level_of(cli_json_text(tier, "name")), "G4") == 0 &&
        !cli_json_bool(gateway, "healthy"))
        return "unhealthy";
    if (cli_json_bool(tier, "stuck"))
        return "stuck";
    return cli_json_bool(tier, "draining") ? "draining" : "ok";
}

static void
print_json(FILE *out, struct json_object *status, uint64_t now_ms)
{
    struct json_object *answer = json_object_new_object();
    struct json_object *rows = json_object_new_array();

    for (size_t i = 0; i < cli_json_count(status, "tiers"); i++) {
        struct json_object *tier = cli_json_item(status, "tiers", i);

        (void)json_object_object_add(tier, "level",
                                     json_object_new_string(level_of(cli_json_text(tier, "name"))));
        (void)json_object_object_add(tier, "state",
                                     json_object_new_string(state_of(status, tier, now_ms)));
        (void)json_object_array_add(rows, json_object_get(tier));
    }
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "time_ms", json_object_new_uint64(now_ms));
    (void)json_object_object_add(answer, "tiers", rows);
    cli_json_print(out, answer);
    (void)json_object_put(answer);
}

static void
add_age(struct cli_table *table, uint64_t now_ms, uint64_t seen_ms)
{
    if (seen_ms == 0)
        cli_table_add(table, "never");
    else
        cli_table_add(table, "%.1f s ago",
                      (double)(now_ms > seen_ms ? now_ms - seen_ms : 0) / 1000.0);
}

static void
add_row(struct cli_table *table, const struct cli_context *context, struct json_object *status,
        struct json_object *tier, uint64_t now_ms)
{
    const uint64_t used = cli_json_u64(tier, "used_bytes");
    const uint64_t capacity = cli_store_tier_limit(tier);
    char used_text[KVT_SIZE_TEXT_MAX];
    char capacity_text[KVT_SIZE_TEXT_MAX];

    kvt_size_format(used, used_text);
    kvt_size_format(capacity, capacity_text);
    cli_table_add(table, "%s", cli_json_text(tier, "name"));
    cli_table_add(table, "%s", level_of(cli_json_text(tier, "name")));
    cli_table_add(table, "%s", used_text);
    cli_table_add(table, "%s", capacity == 0 ? "no cap" : capacity_text);
    if (capacity == 0)
        cli_table_add(table, "-");
    else
        cli_table_add(table, "%.1f%%", 100.0 * (double)used / (double)capacity);
    if (cli_json_u64(tier, "start_ppm") == 0)
        cli_table_add(table, "-");
    else
        cli_table_add(table, "%" PRIu64 "%% / %" PRIu64 "%%",
                      cli_json_u64(tier, "start_ppm") / PPM_PERCENT,
                      cli_json_u64(tier, "stop_ppm") / PPM_PERCENT);
    cli_table_add(table, "%" PRIu64, cli_json_u64(tier, "blocks"));
    cli_table_add(table, "%s", state_of(status, tier, now_ms));
    cli_table_add(table, "%s", cli_json_text(tier, "gateway"));
    add_age(table, now_ms, cli_json_u64(tier, "last_report_ms"));
    if (context->wide)
        cli_table_add(table, "%" PRIu64, cli_json_u64(tier, "refused_blocks"));
}

static void
print_table(const struct cli_context *context, struct json_object *status, uint64_t now_ms)
{
    static const struct cli_column columns[] = {
        {"TIER", false},    {"LEVEL", false},       {"USED", true},   {"CAPACITY", true},
        {"USE", true},      {"START / STOP", true}, {"BLOCKS", true}, {"STATE", false},
        {"GATEWAY", false}, {"REPORTED", true},     {"REFUSED", true}};
    const size_t count = sizeof(columns) / sizeof(columns[0]);
    struct cli_table table;

    cli_table_init(&table, columns, context->wide ? count : count - 1);
    for (size_t i = 0; i < cli_json_count(status, "tiers"); i++)
        add_row(&table, context, status, cli_json_item(status, "tiers", i), now_ms);
    cli_table_print(&table, context->out);
    cli_table_release(&table);
}

enum cli_exit
cli_tier_ls(const struct cli_context *context)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    struct json_object *status;
    struct kvt_error err = {0};

    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/status", NULL, false, &status, &err) !=
        KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json)
        print_json(context->out, status, now_ms);
    else if (cli_json_count(status, "tiers") == 0)
        (void)fputs("no tiers: no gateway has reported yet; is one there? kvtier doctor\n",
                    context->out);
    else
        print_table(context, status, now_ms);
    (void)json_object_put(status);
    return CLI_EXIT_DONE;
}
