/*
 * advisor/selection/refusals.h -- blocks that a gateway left where they are, though an order said
 * otherwise.
 *
 * Why: a pinned block stays, however often it is chosen, and who pinned it need not have told the
 * advisor.  So a block that was refused is not offered again for a while, the next time for twice
 * as long: others are chosen, and a pin that ended is found out.
 *
 * Ownership: the table owns its rows.
 * Threads:   none; the writer's thread.
 * Limits:    ADVISOR_REFUSALS_MAX blocks, of all tiers together; pauses of ADVISOR_REFUSAL_FIRST_MS
 *            to ADVISOR_REFUSAL_LAST_MS.
 */
#ifndef ADVISOR_SELECTION_REFUSALS_H
#define ADVISOR_SELECTION_REFUSALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define ADVISOR_REFUSALS_MAX     65536
#define ADVISOR_REFUSAL_FIRST_MS UINT64_C(10000)
#define ADVISOR_REFUSAL_LAST_MS  UINT64_C(1800000)

struct advisor_refusals;

struct advisor_refused {
    uint64_t hash;
    uint32_t ns;
    uint32_t tier;
};

KVT_NODISCARD enum kvt_err advisor_refusals_new(struct advisor_refusals **out);
void advisor_refusals_free(struct advisor_refusals *refusals);

/** It was refused, and begins a pause: twice its last one, when that is not long ago.
 *  KVT_OK, KVT_FULL or KVT_NOMEM: it has none. */
KVT_NODISCARD enum kvt_err advisor_refusals_add(struct advisor_refusals *refusals,
                                                const struct advisor_refused *block,
                                                uint64_t now_ms);

/** A block whose pause is over; false: there is none (more).  Ask until there is none. */
bool advisor_refusals_next(struct advisor_refusals *refusals, struct advisor_refused *block,
                           uint64_t now_ms);

/** The pauses of a tier's blocks are over, and were never long. */
void advisor_refusals_end(struct advisor_refusals *refusals, uint32_t tier);

/** Has the block a pause? */
bool advisor_refusals_has(const struct advisor_refusals *refusals,
                          const struct advisor_refused *block);

/** Each of the tier's blocks that has a pause. */
typedef void advisor_refusals_fn(void *arg, const struct advisor_refused *block);
void advisor_refusals_each(const struct advisor_refusals *refusals, uint32_t tier,
                           advisor_refusals_fn *callback, void *arg);

/** How many of the tier's blocks have a pause. */
size_t advisor_refusals_count(const struct advisor_refusals *refusals, uint32_t tier);

#endif /* ADVISOR_SELECTION_REFUSALS_H */
