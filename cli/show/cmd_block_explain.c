#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/policy/cmd_policy_versions.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"
#include "kvtier/block.h"

enum { VALUE_TEXT_MAX = 400 }; /* the longest double in whole digits */

static const double VALUE_LEAST = 1e-6;
static const double VALUE_WHOLE = 1e6;
static const double CHANCE_LEAST = 1e-5;

/* "depth 3, fanout 2, ..."; what is empty is left out. */
static void
print_facts(FILE *out, struct json_object *facts)
{
    bool any = false;

    (void)fputs("  facts  ", out);
    json_object_object_foreach(facts, name, value)
    {
        const char *text = json_object_get_string(value);

        if (text[0] == '\0')
            continue;
        (void)fprintf(out, "%s%s ", any ? ", " : "", name);
        cli_table_text(out, text);
        any = true;
    }
    (void)fputc('\n', out);
}

/* What no reader compares is not printed: 1.1669782e-17 is next to nothing. */
static void
value_format(char text[VALUE_TEXT_MAX], double value)
{
    if (value == 0 || (value < VALUE_LEAST && value > -VALUE_LEAST))
        (void)snprintf(text, VALUE_TEXT_MAX, "%s", value == 0 ? "0" : "nearly 0");
    else if (value > VALUE_WHOLE || value < -VALUE_WHOLE)
        (void)snprintf(text, VALUE_TEXT_MAX, "%.0f", value);
    else
        (void)snprintf(text, VALUE_TEXT_MAX, "%.6g", value);
}

/* "read within an hour: 12%"; an ordering may not know. */
static void
print_chance(FILE *out, struct json_object *order)
{
    const double chance = json_object_get_double(cli_json_at(order, "chance_1h"));

    if (cli_json_at(order, "chance_1h") == NULL)
        return;
    if (chance > 0 && chance < CHANCE_LEAST)
        (void)fprintf(out, "; chance of a use within an hour under %g%%", 100 * CHANCE_LEAST);
    else
        (void)fprintf(out, "; chance of a use within an hour %.3g%%", 100 * chance + 0.0);
}

static void
print_order(FILE *out, struct json_object *order)
{
    char value[VALUE_TEXT_MAX];
    char time[KVT_CLOCK_TEXT_MAX];

    (void)fprintf(out, "  order  by %s", cli_json_text(order, "by"));
    if (cli_json_text(order, "next")[0] != '\0') {
        (void)fprintf(out, ", until %s is ready", cli_json_text(order, "next"));
        cli_policy_print_ranked(out, order);
    }
    if (!cli_json_bool(order, "known")) {
        (void)fputs(", which does not consider it\n", out);
        return;
    }
    kvt_clock_format(cli_json_u64(order, "last_use_ms"), time);
    value_format(value, json_object_get_double(cli_json_at(order, "value")));
    (void)fprintf(out,
                  ": its value is %s; about %" PRIu64 " of %" PRIu64
                  " blocks leave before it; used %" PRIu64 " times, last %s",
                  value, cli_json_u64(order, "before"), cli_json_u64(order, "blocks"),
                  cli_json_u64(order, "uses"), time);
    print_chance(out, order);
    (void)fputc('\n', out);
}

static void
add_clauses(struct cli_table *table, struct json_object *row, const char *name, const char *verb,
            bool is)
{
    for (size_t i = 0; i < cli_json_count(row, "clauses"); i++) {
        struct json_object *clause = cli_json_item(row, "clauses", i);

        cli_table_add(table, "%s", i == 0 ? name : "");
        cli_table_add(table, "%s", i == 0 ? verb : "");
        cli_table_add(table, "%s", i > 0 ? "" : is ? "yes" : "no");
        cli_table_add(table, "%s", cli_json_text(clause, "clause"));
        cli_table_add(table, "%s", cli_json_bool(clause, "is") ? "true" : "false");
        cli_table_add(table, "%s", cli_json_text(clause, "change"));
    }
}

static void
print_rules(FILE *out, struct json_object *tier)
{
    static const struct cli_column columns[] = {{"  RULE", false},  {"DO", false},
                                                {"MATCHES", false}, {"CLAUSE", false},
                                                {"IS", false},      {"WOULD DO", false}};
    struct cli_table table;
    char name[128];

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(tier, "rules"); i++) {
        struct json_object *rule = cli_json_item(tier, "rules", i);

        (void)snprintf(name, sizeof(name), "%s %s", cli_json_bool(rule, "wins") ? ">" : " ",
                       cli_json_text(rule, "id"));
        add_clauses(&table, rule, name, cli_json_text(rule, "do"), cli_json_bool(rule, "matches"));
    }
    for (size_t i = 0; i < cli_json_count(tier, "classes"); i++) {
        struct json_object *class_ = cli_json_item(tier, "classes", i);

        (void)snprintf(name, sizeof(name), "  class(%s)", cli_json_text(class_, "name"));
        add_clauses(&table, class_, name, "", cli_json_bool(class_, "is"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static void
print_tier(FILE *out, struct json_object *tier)
{
    const char *name = cli_json_text(tier, "tier");

    (void)fprintf(out, "\n%s, ", cli_json_text(tier, "holder"));
    if (name[0] == '\0')
        (void)fputs("which is no tier of the policy: ", out);
    else
        (void)fprintf(out, "tier %s: ", name);
    cli_table_text(out, cli_json_text(tier, "sum"));
    (void)fputc('\n', out);
    print_facts(out, cli_json_at(tier, "facts"));
    print_order(out, cli_json_at(tier, "order"));
    print_rules(out, tier);
}

static void
print_answer(FILE *out, struct json_object *answer)
{
    const char *namespace_ = cli_json_text(answer, "namespace");
    const uint64_t places = cli_json_u64(answer, "place_count");

    (void)fprintf(out, "block      %s\nnamespace  %s\npolicy     version %" PRIu64 ", from ",
                  cli_json_text(answer, "hash"),
                  namespace_[0] == '\0' ? "(none: KVBM-compatible)" : namespace_,
                  cli_json_u64(answer, "version"));
    (void)fprintf(out, "%s; in effect %s\n", cli_json_text(answer, "source"),
                  cli_json_text(answer, "effective_mode"));
    for (size_t i = 0; i < cli_json_count(answer, "tiers"); i++)
        print_tier(out, cli_json_item(answer, "tiers", i));
    if (places > cli_json_count(answer, "tiers"))
        (void)fprintf(out, "\nand %" PRIu64 " more places\n",
                      places - cli_json_count(answer, "tiers"));
}

enum cli_exit
cli_block_explain(const struct cli_context *context)
{
    const char *event = kvt_config_string(context->options, CLI_BLOCK_EXPLAIN_ON);
    char text[KVT_HASH_TEXT_MAX];
    struct json_object *answer;
    struct kvt_error err = {0};
    struct kvt_buffer path;
    enum kvt_err rc;
    uint64_t hash;

    if (!kvt_hash_parse(context->arguments[0], &hash))
        return cli_context_usage(context,
                                 "\"%s\" is no hash: sixteen hex digits, 0x..., or decimal",
                                 context->arguments[0]);
    kvt_hash_format(hash, text);
    kvt_buffer_init(&path, CLI_ADMIN_PATH_MAX);
    kvt_buffer_printf(&path, "/v1/explain/%s?namespace=", text);
    cli_admin_escape(&path, kvt_config_string(context->options, CLI_BLOCK_EXPLAIN_NAMESPACE),
                     false);
    if (strcmp(event, "nothing") != 0)
        kvt_buffer_printf(&path, "&on=%s", event);
    rc = cli_admin_ask(context, CLI_ADMIN_ADVISOR, kvt_buffer_text(&path), NULL, false, &answer,
                       &err);
    kvt_buffer_release(&path);
    if (rc != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json)
        cli_json_print(context->out, answer);
    else
        print_answer(context->out, answer);
    (void)json_object_put(answer);
    return CLI_EXIT_DONE;
}
