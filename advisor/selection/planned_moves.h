/*
 * advisor/selection/planned_moves.h -- where blocks are, as if a plan's moves so far were done.
 *
 * Why: what a plan moves for a quota is not to be moved by a rule once more, and what it brought to
 * a tier is there for whoever asks next; the rosters say how it is now.
 *
 * Ownership: advisor_planned_moves_new() makes it, advisor_planned_moves_free() ends it.
 * Threads:   none; one owner.
 * Limits:    ADVISOR_PLANNED_MOVES_MAX changes, of 48 to 96 bytes each.
 */
#ifndef ADVISOR_SELECTION_PLANNED_MOVES_H
#define ADVISOR_SELECTION_PLANNED_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

#define ADVISOR_PLANNED_MOVES_MAX (3u << 19) /* three of each move that a document has */
#define ADVISOR_PLANNED_MOVES_ANYWHERE                                                             \
    UINT32_MAX /* as the tier of a copy that came: to some tier */

struct advisor_planned_moves;

/* A copy of a block in a tier of the planner's. */
struct advisor_copy {
    uint64_t hash;
    uint32_t ns;
    uint32_t tier;
};

enum advisor_change {
    ADVISOR_COPY_GONE, /* it was there */
    ADVISOR_COPY_CAME, /* it was not */
};

KVT_NODISCARD enum kvt_err advisor_planned_moves_new(struct advisor_planned_moves **out);
/** NULL is allowed. */
void advisor_planned_moves_free(struct advisor_planned_moves *moved);

/** KVT_OK, also where it was noted before; KVT_FULL or KVT_NOMEM: it is not noted. */
KVT_NODISCARD enum kvt_err advisor_planned_moves_add(struct advisor_planned_moves *moved,
                                                     const struct advisor_copy *copy,
                                                     enum advisor_change change);
/** NULL: nothing moved. */
bool advisor_planned_moves_has(const struct advisor_planned_moves *moved,
                               const struct advisor_copy *copy, enum advisor_change change);

#endif /* ADVISOR_SELECTION_PLANNED_MOVES_H */
