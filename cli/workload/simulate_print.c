#include "cli/workload/simulate_print.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "base/text/parse.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"

enum { CHART_COLUMNS = 50, PPM_DIGITS = 4, MONEY_DIGITS = 9 };

static void
size_text(const struct cli_study *study, size_t size, char text[KVT_SIZE_TEXT_MAX])
{
    kvt_size_format(study->options.sizes[size] * study->options.block_bytes, text);
}

static double
share_of_blocks(const struct cli_study *study, size_t size)
{
    return 100 * (double)study->options.sizes[size] / (double)study->blocks;
}

/* One row a size, one column an ordering: `figure` says what stands in it. */
static void
print_curves(FILE *out, const struct cli_study *study, const char *best_title,
             double (*best)(const struct cli_study *study, size_t size),
             double (*figure)(const struct cli_study *study, size_t ordering, size_t size),
             int digits)
{
    struct cli_column columns[CLI_TABLE_COLUMNS_MAX] = {
        {"SIZE", true}, {"OF ALL", true}, {best_title, true}};
    const size_t count = study->options.ordering_count;
    struct cli_table table;

    for (size_t i = 0; i < count; i++)
        columns[3 + i] = (struct cli_column){study->options.orderings[i]->name, true};
    cli_table_init(&table, columns, 3 + count);
    for (size_t size = 0; size < study->options.size_count; size++) {
        char text[KVT_SIZE_TEXT_MAX];

        size_text(study, size, text);
        cli_table_add(&table, "%s", text);
        cli_table_add(&table, "%.1f%%", share_of_blocks(study, size));
        cli_table_add(&table, "%.*f", digits, best(study, size));
        for (size_t i = 0; i < count; i++)
            cli_table_add(&table, "%.*f", digits, figure(study, i, size));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static double
best_hits(const struct cli_study *study, size_t size)
{
    return 100 * (double)study->best_hits[size] / (double)study->reads;
}

static double
best_cost(const struct cli_study *study, size_t size)
{
    return study->best_cost[size];
}

static double
cell_cost(const struct cli_study *study, size_t ordering, size_t size)
{
    return study->cells[ordering][size].read_cost;
}

/* Cents and less, too: two digits that say something. */
static void
money_format(char text[KVT_SIZE_TEXT_MAX], double money)
{
    int digits = 2;

    for (double least = 0.1; money > 0 && money < least && digits < MONEY_DIGITS; least /= 10)
        digits++;
    (void)snprintf(text, KVT_SIZE_TEXT_MAX, "%.*f", digits, money);
}

/* The picked ordering at every size: what is moved, asked for and paid. */
static void
print_picked(FILE *out, const struct cli_study *study)
{
    static const struct cli_column columns[] = {
        {"SIZE", true}, {"HITS", true},    {"OF BEST", true}, {"HOT READS", true}, {"GETS", true},
        {"PUTS", true}, {"READ UP", true}, {"WRITTEN", true}, {"MONEY", true},
    };
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t size = 0; size < study->options.size_count; size++) {
        const struct cli_study_cell *cell = &study->cells[study->pick_ordering][size];
        const struct policy_tier_simulation_result *result = &cell->result;
        const uint64_t gets = result->known_reads - result->hot_reads + result->promotions;
        char text[KVT_SIZE_TEXT_MAX];

        size_text(study, size, text);
        cli_table_add(&table, "%s", text);
        cli_table_add(&table, "%.1f%%", cli_study_hits(study, study->pick_ordering, size));
        cli_table_add(&table, "%.1f%%", cli_study_of_best(study, study->pick_ordering, size));
        cli_table_add(&table, "%" PRIu64, result->hot_reads);
        cli_table_add(&table, "%" PRIu64, gets);
        cli_table_add(&table, "%" PRIu64, result->uploads);
        kvt_size_format(gets * study->options.block_bytes, text);
        cli_table_add(&table, "%s", text);
        kvt_size_format(result->uploads * study->options.block_bytes, text);
        cli_table_add(&table, "%s", text);
        money_format(text, cell->money);
        cli_table_add(&table, "%s", text);
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static void
print_chart(FILE *out, const struct cli_study *study)
{
    const double top = 100 * (double)study->endless_hits / (double)study->reads;

    (void)fprintf(out, "\n%s: hits, and the best there could be (|), up to %.1f%% of reads\n",
                  study->options.orderings[study->pick_ordering]->name, top);
    for (size_t size = 0; size < study->options.size_count; size++) {
        const double hits = cli_study_hits(study, study->pick_ordering, size);
        const int bar = (int)(CHART_COLUMNS * hits / top + 0.5);
        const int mark = (int)(CHART_COLUMNS * best_hits(study, size) / top + 0.5);
        char text[KVT_SIZE_TEXT_MAX];

        size_text(study, size, text);
        (void)fprintf(out, "%12s  ", text);
        for (int i = 0; i <= CHART_COLUMNS; i++)
            (void)fputs(i == mark ? "|" : i < bar ? "\xe2\x96\x88" : " ", out);
        (void)fputc('\n', out);
    }
}

void
cli_simulate_reason(const struct cli_study *study, char reason[CLI_SIMULATE_REASON_MAX])
{
    const size_t size = study->pick_size;
    const size_t ordering = study->pick_ordering;
    const struct cli_study_cell *cell = &study->cells[ordering][size];
    const double served = 100 * (double)cell->result.prefix_hits / (double)study->endless_hits;
    char text[KVT_SIZE_TEXT_MAX];
    size_t second = ordering;
    int end;

    for (size_t i = 0; i < study->options.ordering_count; i++)
        if (i != ordering && (second == ordering || study->cells[i][size].read_cost <
                                                        study->cells[second][size].read_cost))
            second = i;
    size_text(study, size, text);
    end = snprintf(reason, CLI_SIMULATE_REASON_MAX,
                   "%s with %s (%.1f%% of all blocks): it serves %.1f%% of what an endless tier "
                   "would, %s, at %.2f hot reads a read",
                   study->options.orderings[ordering]->name, text, share_of_blocks(study, size),
                   served,
                   size == 0                              ? "and no smaller size was looked at"
                   : size + 1 < study->options.size_count ? "and smaller ones stay below 90%"
                                                          : "the most of these sizes",
                   cell->read_cost);
    if (second != ordering && end > 0 && end < CLI_SIMULATE_REASON_MAX)
        (void)snprintf(reason + end, (size_t)(CLI_SIMULATE_REASON_MAX - end), "; %s needs %.2f",
                       study->options.orderings[second]->name,
                       study->cells[second][size].read_cost);
}

void
cli_simulate_print(FILE *out, const struct cli_study *study, bool chart)
{
    const struct cli_study_prices *prices = &study->options.prices;
    const struct kvt_ordering_prices *costs = &study->options.ordering_options.prices;
    char reason[CLI_SIMULATE_REASON_MAX];
    char text[KVT_SIZE_TEXT_MAX];

    kvt_size_format(study->options.block_bytes, text);
    (void)fprintf(out,
                  "%" PRIu64 " requests over %.1f s read %" PRIu64 " blocks, %" PRIu64
                  " different ones of %s; an endless tier would hit %.1f%%\n\n",
                  study->requests, (double)study->span_ms / 1000, study->reads, study->blocks, text,
                  100 * (double)study->endless_hits / (double)study->reads);
    (void)fprintf(out, "Prefix hits, %% of reads\n");
    print_curves(out, study, "BEST", best_hits, cli_study_hits, 1);
    (void)fprintf(out, "\nCost of a read, in hot reads: cold read %g, move %g, promotion %s\n",
                  costs->cold_read, costs->move, policy_promotion_text(study->options.promotion));
    print_curves(out, study, "LEAST", best_cost, cell_cost, 2);
    (void)fprintf(out,
                  "\nUnder %s; money for this time at %g for 1,000 PUTs, %g for 1,000 GETs, %g and "
                  "%g a GiB month hot and cold, %g a GiB read\n",
                  study->options.orderings[study->pick_ordering]->name, prices->put_1000,
                  prices->get_1000, prices->hot_gib_month, prices->cold_gib_month,
                  prices->transfer_gib);
    print_picked(out, study);
    if (chart)
        print_chart(out, study);
    cli_simulate_reason(study, reason);
    (void)fprintf(out, "\nPick: %s.\n", reason);
}

/* ---- JSON ---- */

static struct json_object *
cell_json(const struct cli_study *study, size_t ordering, size_t size)
{
    const struct cli_study_cell *cell = &study->cells[ordering][size];
    const struct policy_tier_simulation_result *result = &cell->result;
    struct json_object *object = json_object_new_object();

    cli_json_add_text(object, "ordering", study->options.orderings[ordering]->name);
    cli_json_add(object, "blocks", study->options.sizes[size]);
    cli_json_add(object, "bytes", study->options.sizes[size] * study->options.block_bytes);
    cli_json_add(object, "best_hits", study->best_hits[size]);
    cli_json_add_number(object, "best_hits_percent", best_hits(study, size), PPM_DIGITS);
    cli_json_add_number(object, "least_read_cost", study->best_cost[size], PPM_DIGITS);
    cli_json_add(object, "prefix_hits", result->prefix_hits);
    cli_json_add_number(object, "hits_percent", cli_study_hits(study, ordering, size), PPM_DIGITS);
    cli_json_add_number(object, "of_best_percent", cli_study_of_best(study, ordering, size),
                        PPM_DIGITS);
    cli_json_add(object, "hot_reads", result->hot_reads);
    cli_json_add(object, "cold_reads", result->known_reads - result->hot_reads);
    cli_json_add(object, "promotions", result->promotions);
    cli_json_add(object, "demotions", result->demotions);
    cli_json_add(object, "puts", result->uploads);
    cli_json_add(object, "gets", result->known_reads - result->hot_reads + result->promotions);
    cli_json_add(object, "bytes_moved",
                 (result->promotions + result->demotions) * study->options.block_bytes);
    cli_json_add(object, "ordering_bytes", result->memory);
    cli_json_add_number(object, "read_cost", cell->read_cost, PPM_DIGITS);
    cli_json_add_number(object, "money", cell->money, PPM_DIGITS);
    return object;
}

void
cli_simulate_print_json(FILE *out, const struct cli_study *study)
{
    struct json_object *object = json_object_new_object();
    struct json_object *runs = json_object_new_array();
    struct json_object *picked = json_object_new_object();
    char reason[CLI_SIMULATE_REASON_MAX];

    cli_json_add(object, "schema_version", 1);
    cli_json_add(object, "requests", study->requests);
    cli_json_add(object, "span_ms", study->span_ms);
    cli_json_add(object, "reads", study->reads);
    cli_json_add(object, "blocks", study->blocks);
    cli_json_add(object, "block_bytes", study->options.block_bytes);
    cli_json_add(object, "endless_hits", study->endless_hits);
    cli_json_add_text(object, "promotion", policy_promotion_text(study->options.promotion));
    for (size_t size = 0; size < study->options.size_count; size++)
        for (size_t i = 0; i < study->options.ordering_count; i++)
            (void)json_object_array_add(runs, cell_json(study, i, size));
    (void)json_object_object_add(object, "runs", runs);
    cli_simulate_reason(study, reason);
    cli_json_add_text(picked, "ordering", study->options.orderings[study->pick_ordering]->name);
    cli_json_add(picked, "blocks", study->options.sizes[study->pick_size]);
    cli_json_add_text(picked, "why", reason);
    (void)json_object_object_add(object, "pick", picked);
    cli_json_print(out, object);
    (void)json_object_put(object);
}
