/*
 * advisor/order/order_ledger.h -- orders from their making to their results.
 *
 * Why: ticks and jobs give orders, reports end them, and the writer round sends them.
 * Ownership: the planner owns its orders.
 * Threads:   the writer's.
 * Limits:    ADVISOR_ORDERS_KEPT finished orders are remembered.
 */
#ifndef ADVISOR_ORDER_ORDER_LEDGER_H
#define ADVISOR_ORDER_ORDER_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/order.h"
#include "kvtier/report.h"

struct advisor_order;
struct advisor_order_row;
struct advisor_planner;
struct advisor_txn;

/** An order of this start while it is known: at least until some seconds after its end.  NULL: it
 *  is not. */
const struct advisor_order_row *advisor_planner_order_row(const struct advisor_planner *planner,
                                                          uint64_t id);
/** End an order that did not leave yet.  False: it left, or is none: its result is to come. */
bool advisor_planner_withdraw(struct advisor_planner *planner, uint64_t id, uint64_t now_ms);
/** A new order; takes over `items` in every case.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_planner_add_order(struct advisor_planner *planner,
                                                     const struct advisor_order *model);
/** What was only observed moves nothing: its blocks may be chosen again at once. */
void advisor_planner_forget_observed(struct advisor_planner *planner, uint64_t now_ms);
/** An order that is durable and not yet on its way; false = none.  `order` borrows its items until
 *  the next call of anything here. */
bool advisor_planner_next(struct advisor_planner *planner, struct kvt_order *order,
                          uint64_t now_ms);
/** It could not be sent: try again later. */
void advisor_planner_unsent(struct advisor_planner *planner, uint64_t id, uint64_t now_ms);
void advisor_planner_take_results(struct advisor_planner *planner, const struct kvt_report *report,
                                  uint64_t now_ms);
/** Blocks that were refused long enough ago may be chosen again. */
void advisor_planner_end_pauses(struct advisor_planner *planner, uint64_t now_ms);
void advisor_planner_expire(struct advisor_planner *planner, uint64_t now_ms);
KVT_NODISCARD enum kvt_err advisor_planner_load_orders(struct advisor_planner *planner,
                                                       const struct advisor_txn *txn);
KVT_NODISCARD enum kvt_err advisor_planner_save_orders(struct advisor_planner *planner,
                                                       const struct advisor_txn *txn);
void advisor_planner_saved_orders(struct advisor_planner *planner);
void advisor_planner_free_orders(struct advisor_planner *planner);

const char *advisor_order_state_name(uint32_t state);

#endif /* ADVISOR_ORDER_ORDER_LEDGER_H */
