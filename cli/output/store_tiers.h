/*
 * cli/output/store_tiers.h -- the tiers that a gateway may have, as people and JSON name them.
 *
 * Why: what hangs on a block and what a tenant has are told by the same four; most gateways have
 * two, so columns of which nothing is said stay away.
 * Ownership: none.
 * Threads:   any.
 * Limits:    none.
 */
#ifndef CLI_OUTPUT_STORE_TIERS_H
#define CLI_OUTPUT_STORE_TIERS_H

#include "cli/frame/context.h"
#include "cli/output/cli_table.h"

enum cli_rung { CLI_RUNG_HOT, CLI_RUNG_WARM, CLI_RUNG_COLD, CLI_RUNG_FAR, CLI_RUNG_COUNT };

/* In a table that has all of them. */
#define CLI_RUNG_COLUMNS                                                                           \
    {"HOT", true}, {"WARM", true}, {"COLD", true},                                                 \
    {                                                                                              \
        "FAR", true                                                                                \
    }

/** "hot", "warm", "cold", "far". */
static inline const char *
cli_rung_name(unsigned rung)
{
    static const char *const names[CLI_RUNG_COUNT] = {"hot", "warm", "cold", "far"};

    return names[rung];
}

/** Leave out the columns, from `first` on, of tiers that not everybody has and that had nothing in
 *  any row; -o wide has all. */
static inline void
cli_rungs_hide(struct cli_table *table, const struct cli_context *context, size_t first,
               const bool used[CLI_RUNG_COUNT])
{
    if (!context->wide && !used[CLI_RUNG_WARM])
        cli_table_hide(table, first + CLI_RUNG_WARM);
    if (!context->wide && !used[CLI_RUNG_FAR])
        cli_table_hide(table, first + CLI_RUNG_FAR);
}

#endif /* CLI_OUTPUT_STORE_TIERS_H */
