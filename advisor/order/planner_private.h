/*
 * advisor/order/planner_private.h -- what the files of the planner share.
 *
 * Why: its tables, what it hears and what it saves are each a page of their own.
 * Ownership: as advisor/order/planner.h.
 * Threads:   `shared` is guarded by its lock; all else belongs to the writer's thread.
 * Limits:    as advisor/order/planner.h.
 */
#ifndef ADVISOR_ORDER_PLANNER_PRIVATE_H
#define ADVISOR_ORDER_PLANNER_PRIVATE_H

#include "advisor/order/planner.h"
#include "advisor/selection/planner_tables.h"

/* planner.c */
void advisor_planner_show(struct advisor_planner *planner);

/* roster_feed.c */
/** Rules are to be asked about it, if there is room. */
void advisor_planner_hear(struct advisor_planner *planner, const struct advisor_news *news);

/* lost_blocks.c */
void advisor_planner_free_departed(struct advisor_planner *planner);

/* learned_orderings.c */
KVT_NODISCARD enum kvt_err advisor_planner_load_learned(struct advisor_planner *planner,
                                                        const struct advisor_txn *txn);
KVT_NODISCARD enum kvt_err advisor_planner_save_learned(const struct advisor_planner *planner,
                                                        const struct advisor_txn *txn);
void advisor_planner_saved_learned(struct advisor_planner *planner);
/** It is to be saved when that is long ago. */
void advisor_planner_age_learned(struct advisor_planner *planner, uint64_t now_ms);

/* reported_pins.c */
/** Those of gateways that are gone for good go. */
void advisor_planner_forget_pins(struct advisor_planner *planner, uint64_t now_ms);

KVT_NODISCARD enum kvt_err advisor_planner_load_pins(struct advisor_planner *planner,
                                                     const struct advisor_txn *txn,
                                                     uint64_t now_ms);
KVT_NODISCARD enum kvt_err advisor_planner_save_pins(const struct advisor_planner *planner,
                                                     const struct advisor_txn *txn);

#endif /* ADVISOR_ORDER_PLANNER_PRIVATE_H */
