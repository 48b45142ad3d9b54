/*
 * advisor/selection/tier_kind.h -- what a live volume or bucket is to the gateway that has it.
 *
 * Why: people count and warm by hot, warm, cold and far; a holder's name tells volumes from buckets
 * ("hot@g1", "warm@g1", "cold@near"), and only the reports of gateways tell which bucket is the
 * second one of a gateway.
 * Ownership: the caller owns the kinds it takes (take, release).
 * Threads:   any; what was taken is a copy.
 * Limits:    ADVISOR_TIERS_MAX names.
 */
#ifndef ADVISOR_SELECTION_TIER_KIND_H
#define ADVISOR_SELECTION_TIER_KIND_H

#include <stdbool.h>
#include <stddef.h>

#include "kvtier/block.h"

/* From the top down, and where what was deleted goes. */
enum advisor_tier_kind {
    ADVISOR_TIER_KIND_HOT,
    ADVISOR_TIER_KIND_WARM,
    ADVISOR_TIER_KIND_COLD,
    ADVISOR_TIER_KIND_FAR,
    ADVISOR_TIER_KIND_GONE,
};

#define ADVISOR_TIER_KIND_COUNT ADVISOR_TIER_KIND_GONE /* that a block can be on */

/** "hot", "warm", "cold", "far", "gone". */
const char *advisor_tier_kind_name(enum advisor_tier_kind kind);
/** By one of the first four of these names. */
bool advisor_tier_kind_parse(const char *text, enum advisor_tier_kind *kind);

struct advisor_tier_kinds {
    char (*far)[KVT_NAME_MAX]; /* buckets that are some gateway's second one, and nobody's first */
    size_t far_count;
};

/** Those of advisor_planner_tier_kinds(). */
void advisor_tier_kinds_release(struct advisor_tier_kinds *kinds);

/** Of a G4 holder's name; what has none of the names above, or is not reported, is cold. */
enum advisor_tier_kind advisor_tier_kinds_of(const struct advisor_tier_kinds *kinds,
                                             const char *holder);

#endif /* ADVISOR_SELECTION_TIER_KIND_H */
