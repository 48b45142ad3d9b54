/*
 * advisor/order/planner_pause.h -- the stop switch: while it is on, no order leaves.
 *
 * Why: an operator must be able to stop all moves at once, and a restart must not undo that.
 * Threads:   any for the first three calls; the writer's for the rest.
 */
#ifndef ADVISOR_ORDER_PLANNER_PAUSE_H
#define ADVISOR_ORDER_PLANNER_PAUSE_H

#include <stdbool.h>

#include "kvtier/error.h"

struct advisor_planner;
struct advisor_txn;

bool advisor_planner_paused(struct advisor_planner *planner);
/** Was it set, and is that not in the store yet? */
bool advisor_planner_paused_dirty(struct advisor_planner *planner);
void advisor_planner_set_paused(struct advisor_planner *planner, bool paused);

/* ---- durable, as the mode is ---- */

KVT_NODISCARD enum kvt_err advisor_planner_load_paused(struct advisor_planner *planner,
                                                       const struct advisor_txn *txn);
KVT_NODISCARD enum kvt_err advisor_planner_save_paused(struct advisor_planner *planner,
                                                       const struct advisor_txn *txn);
void advisor_planner_saved_paused(struct advisor_planner *planner);

#endif /* ADVISOR_ORDER_PLANNER_PAUSE_H */
