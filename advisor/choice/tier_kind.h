/*
 * advisor/choice/tier_kind.h -- what a live volume or bucket is to the gateway that has it.
 *
 * Why: people count and warm by hot, warm, cold and far; a holder's name tells volumes from buckets
 * ("hot@g1", "warm@g1", "cold@near"), and only the reports of gateways tell which bucket is the
 * second one of a gateway.
 * Ownership: the caller owns the rungs it takes (take, release).
 * Threads:   any; what was taken is a copy.
 * Limits:    ADVISOR_TIERS_MAX names.
 */
#ifndef ADVISOR_CHOICE_TIER_KIND_H
#define ADVISOR_CHOICE_TIER_KIND_H

#include <stdbool.h>
#include <stddef.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

struct advisor_planner;

/* From the top down, and where what was deleted goes. */
enum advisor_rung {
    ADVISOR_RUNG_HOT,
    ADVISOR_RUNG_WARM,
    ADVISOR_RUNG_COLD,
    ADVISOR_RUNG_FAR,
    ADVISOR_RUNG_GONE,
};

#define ADVISOR_RUNG_COUNT ADVISOR_RUNG_GONE /* that a block can be on */

/** "hot", "warm", "cold", "far", "gone". */
const char *advisor_rung_name(enum advisor_rung rung);
/** By one of the first four of these names. */
bool advisor_rung_parse(const char *text, enum advisor_rung *rung);

struct advisor_rungs {
    char (*far)[KVT_NAME_MAX]; /* buckets that are some gateway's second one, and nobody's first */
    size_t far_count;
};

/** As gateways reported last.  KVT_OK or KVT_NOMEM; release it in any case. */
KVT_NODISCARD enum kvt_err advisor_rungs_take(struct advisor_rungs *rungs,
                                              struct advisor_planner *planner);
void advisor_rungs_release(struct advisor_rungs *rungs);

/** Of a G4 holder's name; what has none of the names above, or is not reported, is cold. */
enum advisor_rung advisor_rungs_of(const struct advisor_rungs *rungs, const char *holder);

#endif /* ADVISOR_CHOICE_TIER_KIND_H */
