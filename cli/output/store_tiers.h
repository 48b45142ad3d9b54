/*
 * cli/output/store_tiers.h -- the tiers that a gateway may have, as people and JSON name them.
 *
 * Why: what hangs on a block and what a tenant has are shown for the same four tiers.  Most
 * gateways have two, so columns without a value are left out.
 */
#ifndef CLI_OUTPUT_STORE_TIERS_H
#define CLI_OUTPUT_STORE_TIERS_H

#include "cli/frame/context.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"

enum cli_store_tier {
    CLI_STORE_TIER_HOT,
    CLI_STORE_TIER_WARM,
    CLI_STORE_TIER_COLD,
    CLI_STORE_TIER_FAR,
    CLI_STORE_TIER_COUNT
};

/* In a table that has all of them. */
#define CLI_STORE_TIER_COLUMNS                                                                     \
    {"HOT", true}, {"WARM", true}, {"COLD", true},                                                 \
    {                                                                                              \
        "FAR", true                                                                                \
    }

/** "hot", "warm", "cold", "far". */
static inline const char *
cli_store_tier_name(unsigned tier)
{
    static const char *const names[CLI_STORE_TIER_COUNT] = {"hot", "warm", "cold", "far"};

    return names[tier];
}

/** Bytes that watermarks of a tier of the advisor's answer are shares of; 0: no cap. */
static inline uint64_t
cli_store_tier_limit(struct json_object *tier)
{
    const uint64_t limit = cli_json_u64(tier, "limit_bytes");

    /* An older advisor does not send limit_bytes. */
    return limit > 0 ? limit : cli_json_u64(tier, "capacity_bytes");
}

/** Leave out the columns, from `first` on, of tiers that not everybody has and that had nothing in
 *  any row; -o wide has all. */
static inline void
cli_store_tiers_hide(struct cli_table *table, const struct cli_context *context, size_t first,
                     const bool used[CLI_STORE_TIER_COUNT])
{
    if (!context->wide && !used[CLI_STORE_TIER_WARM])
        cli_table_hide(table, first + CLI_STORE_TIER_WARM);
    if (!context->wide && !used[CLI_STORE_TIER_FAR])
        cli_table_hide(table, first + CLI_STORE_TIER_FAR);
}

#endif /* CLI_OUTPUT_STORE_TIERS_H */
