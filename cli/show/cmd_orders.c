#include <inttypes.h>
#include <json-c/json.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"

static void
print_orders(FILE *out, struct json_object *orders)
{
    static const struct cli_column columns[] = {
        {"ISSUED", false}, {"ORDER", true}, {"GATEWAY", false}, {"VERB", false}, {"STATE", false},
        {"ITEMS", true},   {"DONE", true},  {"FAILED", true},   {"MOVED", true}, {"WHY", false}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(orders, "orders"); i++) {
        struct json_object *order = cli_json_item(orders, "orders", i);
        const char *text = cli_json_text(order, "text");
        const char *from = cli_json_text(order, "from");
        char time[KVT_CLOCK_TEXT_MAX];
        char moved[KVT_SIZE_TEXT_MAX];

        kvt_clock_format(cli_json_u64(order, "issued_ms"), time);
        kvt_size_format(cli_json_u64(order, "bytes_moved"), moved);
        cli_table_add(&table, "%s", time);
        cli_table_add(&table, "%" PRIu64 ".%" PRIu64, cli_json_u64(order, "epoch"),
                      cli_json_u64(order, "id"));
        cli_table_add(&table, "%s", cli_json_text(order, "gateway"));
        cli_table_add(&table, "%s", cli_json_text(order, "verb"));
        cli_table_add(&table, "%s", cli_json_text(order, "state"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(order, "items"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(order, "done"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(order, "failed"));
        cli_table_add(&table, "%s", moved);
        cli_table_add(&table, "%s%s%s%s%s%s%s", cli_json_text(order, "reason"),
                      from[0] == '\0' ? "" : ", ", from, from[0] == '\0' ? "" : " to ",
                      cli_json_text(order, "to"), text[0] == '\0' ? "" : ": ", text);
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

enum cli_exit
cli_orders_ls(const struct cli_context *context)
{
    struct json_object *orders;
    struct kvt_error err = {0};
    char path[64];

    (void)snprintf(path, sizeof(path), "/v1/orders?limit=%" PRIu64,
                   kvt_config_u64(context->options, CLI_ORDERS_LIMIT));
    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, path, NULL, false, &orders, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json)
        cli_json_print(context->out, orders);
    else if (cli_json_count(orders, "orders") == 0)
        (void)fputs("no orders: nothing was to be moved yet; why, and what is full: kvtier status, "
                    "kvtier tier ls\n",
                    context->out);
    else
        print_orders(context->out, orders);
    (void)json_object_put(orders);
    return CLI_EXIT_DONE;
}
