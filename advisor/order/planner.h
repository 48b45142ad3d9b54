/*
 * advisor/order/planner.h -- when a tier is too full or a block too far, what is to be ordered.
 *
 * Why: the policy orders blocks, the gateways say how full they are; the planner turns both into
 * orders and follows each to its result.  A hot volume is drained from its start watermark down to
 * its stop watermark, a capped bucket likewise; a block read from the bucket often enough goes to
 * the hot volume of the gateway that read it.  What a gateway refused to let go (it is pinned, or
 * could not be moved) is not chosen again before a pause that grows.
 *
 * Ownership: the planner owns its tiers, orders and gateways; names are borrowed.
 * Threads:   the writer's thread, except where it says any.
 * Limits:    ADVISOR_TIERS_MAX tiers, ADVISOR_GATEWAYS_MAX gateways; for each tier and verb one set
 *            of orders is outstanding, of at most KVT_ORDER_ITEMS_MAX blocks together;
 *            ADVISOR_ORDERS_KEPT finished orders are remembered.
 */
#ifndef ADVISOR_ORDER_PLANNER_H
#define ADVISOR_ORDER_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/index/change_group.h"
#include "advisor/index/departed_blocks.h"
#include "advisor/order/order_ledger.h"
#include "advisor/order/planner_pause.h"
#include "advisor/order/traffic.h"
#include "advisor/selection/planner_types.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/name_table.h"
#include "kvtier/order.h"
#include "kvtier/report.h"

struct advisor_planner;

KVT_NODISCARD enum kvt_err advisor_planner_new(struct advisor_planner **out,
                                               const struct advisor_planner_options *options);
void advisor_planner_free(struct advisor_planner *planner);

/* ---- durable, as the other tables ---- */

/** Take up a new epoch and the orders that were pending. */
KVT_NODISCARD enum kvt_err advisor_planner_load(struct advisor_planner *planner,
                                                const struct advisor_txn *txn,
                                                const struct advisor_name_table *names,
                                                uint64_t now_ms);
/** Then the blocks of the G4 tiers, which takes a while where there are many.  `cancel` may be set
 *  by anybody meanwhile: then KVT_CANCELLED, and the planner is of no use. */
KVT_NODISCARD enum kvt_err advisor_planner_load_blocks(struct advisor_planner *planner,
                                                       const struct advisor_txn *txn,
                                                       const _Atomic bool *cancel);
bool advisor_planner_dirty(struct advisor_planner *planner);
KVT_NODISCARD enum kvt_err advisor_planner_save(struct advisor_planner *planner,
                                                const struct advisor_txn *txn);
void advisor_planner_saved(struct advisor_planner *planner);

/* ---- what happens ---- */

/** What was committed. */
void advisor_planner_apply(struct advisor_planner *planner, const struct advisor_effect *effects,
                           size_t count);

/** What workers let go of, which the index has followed: is that the end of a block? */
void advisor_planner_lose(struct advisor_planner *planner, const struct advisor_event_log *log);
/** Where to put what goes with a holder as a whole; NULL: no rule asks for that, or no memory. */
struct advisor_departed_blocks *advisor_planner_departed(struct advisor_planner *planner);
/** The same question for some of that, of holders that are settled; the index has followed all that
 *  was told of them. */
void advisor_planner_depart(struct advisor_planner *planner,
                            advisor_departed_blocks_settled_fn *settled, void *arg);
/** By how many bytes that changed what namespaces have at holders. */
void advisor_planner_count(struct advisor_planner *planner,
                           const struct advisor_byte_sums_row *sums, size_t count);

/** Did it sign a report since the start? */
bool advisor_planner_is_verified(const struct advisor_planner *planner, const char *gateway);

/** A report, verified where there is a key; false when it was seen before (its results count all
 *  the same).  Its accesses are the round's business. */
bool advisor_planner_report(struct advisor_planner *planner, const struct kvt_report *report,
                            uint64_t now_ms);

/** Pins that such a report tells of, which are of namespace `ns`. */
void advisor_planner_take_pins(struct advisor_planner *planner, const struct kvt_report *report,
                               uint32_t ns, uint64_t now_ms);

/** Number of a gateway, for advisor_op.reporter of its accesses. */
uint32_t advisor_planner_gateway(const struct advisor_planner *planner, const char *name);

/** Does a gateway report a tier of this name? */
bool advisor_planner_reported(const struct advisor_planner *planner, const char *name);
/** Is `key` the hot volume of that gateway? */
bool advisor_planner_hot_of(const struct advisor_planner *planner, uint32_t gateway,
                            const struct index_holder *key);

/** A namespace's number is another's: quotas are of other tenants. */
void advisor_planner_follow_names(struct advisor_planner *planner);

/** Look at every tier; expire orders. */
void advisor_planner_tick(struct advisor_planner *planner, uint64_t now_ms);

/* ---- any thread ---- */

size_t advisor_planner_tiers(struct advisor_planner *planner, struct advisor_tier_view *views,
                             size_t capacity);
size_t advisor_planner_gateways(struct advisor_planner *planner, struct advisor_gateway_view *views,
                                size_t capacity);
/** Which buckets are far, as gateways reported last.  KVT_OK or KVT_NOMEM; release it in any
 *  case. */
KVT_NODISCARD enum kvt_err advisor_planner_tier_kinds(struct advisor_planner *planner,
                                                      struct advisor_tier_kinds *kinds);
enum advisor_mode advisor_planner_mode(struct advisor_planner *planner);
/** Is the block of that namespace pinned, as far as gateways told?  `until_ms` as
 *  advisor_pins_has(). */
bool advisor_planner_pinned(struct advisor_planner *planner, uint32_t ns, uint64_t hash,
                            uint64_t now_ms, uint64_t *until_ms);
/** KVT_PRECONDITION: enforce without a key. */
KVT_NODISCARD enum kvt_err advisor_planner_set_mode(struct advisor_planner *planner,
                                                    enum advisor_mode mode);
const struct advisor_planner_options *
advisor_planner_settings(const struct advisor_planner *planner);

#endif /* ADVISOR_ORDER_PLANNER_H */
