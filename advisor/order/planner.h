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
 * Threads:   the engine's thread, except where it says any.
 * Limits:    ADVISOR_TIERS_MAX tiers, ADVISOR_GATEWAYS_MAX gateways; for each tier and verb one set
 *            of orders is outstanding, of at most KVT_ORDER_ITEMS_MAX blocks together;
 *            ADVISOR_ORDERS_KEPT finished orders are remembered.
 */
#ifndef ADVISOR_ORDER_PLANNER_H
#define ADVISOR_ORDER_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/choice/ranking.h"
#include "advisor/index/advisor_counters.h"
#include "advisor/index/change_group.h"
#include "advisor/index/departed_blocks.h"
#include "advisor/order/traffic.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/name_table.h"
#include "kvtier/order.h"
#include "kvtier/ordering.h"
#include "kvtier/report.h"

#define ADVISOR_TIERS_MAX    256
#define ADVISOR_GATEWAYS_MAX 128
#define ADVISOR_ORDERS_KEPT  1000
#define ADVISOR_TICK_MS      100 /* of the orderings */
#define ADVISOR_QUOTAS_MAX   1024

enum advisor_mode { ADVISOR_MODE_OFF, ADVISOR_MODE_OBSERVE, ADVISOR_MODE_ENFORCE };

struct advisor_planner;
struct advisor_rulebook;

struct advisor_planner_options {
    const struct kvt_ordering *ordering; /* where a policy names none, or none known here */
    struct kvt_ordering_options ordering_options; /* in ticks of ADVISOR_TICK_MS */
    const struct advisor_counters *counters;
    struct advisor_rulebook *rulebook; /* whose policy is followed; NULL: none */
    struct index *index;               /* whose blocks have how many children */
    struct advisor_traffic *tally;     /* NULL: nobody looks */
    enum advisor_mode mode;
    bool can_enforce;       /* there is a key to sign orders with */
    uint32_t hot_start_ppm; /* of the settings, to be shown; the rulebook has them as a policy */
    uint32_t hot_stop_ppm;
    uint32_t cold_start_ppm;
    uint32_t cold_stop_ppm;
    uint64_t promote_after; /* cold hits that count as the second; 0 = none does */
    uint64_t expiry_ms;
    uint64_t interval_ms; /* between two looks, at most; 0: less than a few seconds */
    uint64_t bytes_max;   /* memory of each tier's roster */
    /* Milliseconds by which a look is ended that takes long; NULL: kvt_clock_mono_ms().  What is
     * ordered when depends on it, so that who compares orders lets it stand still. */
    uint64_t (*slice_clock)(void);
};

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

/** A report; false when it was seen before (its results count all the same).  Its accesses are the
 *  engine's business. */
bool advisor_planner_report(struct advisor_planner *planner, const struct kvt_report *report,
                            uint64_t now_ms);

/** Pins that such a report tells of, which are of namespace `ns`. */
void advisor_planner_take_pins(struct advisor_planner *planner, const struct kvt_report *report,
                               uint32_t ns, uint64_t now_ms);

/** Number of a gateway, for advisor_op.reporter of its accesses. */
uint32_t advisor_planner_gateway(const struct advisor_planner *planner, const char *name);

/** Is `key` the hot volume of that gateway? */
bool advisor_planner_hot_of(const struct advisor_planner *planner, uint32_t gateway,
                            const struct index_holder *key);

/** Look at every tier; expire orders. */
void advisor_planner_tick(struct advisor_planner *planner, uint64_t now_ms);

/** An order that is durable and not yet on its way; false = none.  `order` borrows its items until
 *  the next call of anything here. */
bool advisor_planner_next(struct advisor_planner *planner, struct kvt_order *order,
                          uint64_t now_ms);
/** It could not be sent: try again later. */
void advisor_planner_unsent(struct advisor_planner *planner, uint64_t id, uint64_t now_ms);

/* ---- any thread ---- */

struct advisor_tier_view {
    struct kvt_report_tier tier;
    uint64_t limit_bytes; /* of which watermarks are shares: the policy's capacity, or its own where
                           * that is less or there is none; 0: no cap */
    uint32_t start_ppm;   /* 0: this tier is not drained */
    uint32_t stop_ppm;
    uint64_t refused_blocks; /* not chosen now: its gateway did not let them go */
    uint64_t passed_blocks;  /* the same: no rule that drains the tier has them */
    bool stuck;              /* it has to be drained, and they are all that is left */
    bool draining;
    enum advisor_tier_kind rung;
    struct advisor_orders orders; /* by which its blocks leave now, its own first */
    bool reranking;               /* it gets others: */
    uint64_t ranked;              /* rows of the store that were read for them */
    uint64_t to_rank;             /* that there are */
    char gateway[KVT_NAME_MAX];   /* who reported it last */
    uint64_t last_report_ms;      /* by our clock */
};

/* Of a rule of the policy in force, since the program started. */
struct advisor_rule_view {
    char id[64];
    bool running;      /* it drains a tier, or its pass goes on */
    const char *why;   /* it does not act now; "" */
    uint64_t until_ms; /* of that; 0: until the next look */
    uint64_t ordered;  /* blocks */
    uint64_t moved;    /* done */
    uint64_t refused;
    uint64_t bytes;   /* ordered */
    uint64_t last_ms; /* when it ordered last; 0: never */
};

enum advisor_quota_over { ADVISOR_QUOTA_WITHIN, ADVISOR_QUOTA_SOFT, ADVISOR_QUOTA_HARD };

/* Of a quota of the policy in force. */
struct advisor_quota_view {
    char tenant[256];
    char tier[64]; /* of the policy; "": all together */
    uint64_t soft; /* bytes beyond which blocks leave */
    uint64_t hard;
    uint64_t used;
    enum advisor_quota_over over;
    bool stuck; /* nothing of the tenant's may leave */
};

struct advisor_gateway_view {
    char name[KVT_NAME_MAX];
    bool healthy;
    uint64_t last_report_ms;
    char tiers[ADVISOR_TIER_KIND_COUNT][KVT_NAME_MAX]; /* its holders by rung; "": it has none */
};

size_t advisor_planner_tiers(struct advisor_planner *planner, struct advisor_tier_view *views,
                             size_t capacity);
/** Of the policy that is followed, in its order. */
size_t advisor_planner_rules(struct advisor_planner *planner, struct advisor_rule_view *views,
                             size_t capacity);
size_t advisor_planner_quotas(struct advisor_planner *planner, struct advisor_quota_view *views,
                              size_t capacity);
size_t advisor_planner_gateways(struct advisor_planner *planner, struct advisor_gateway_view *views,
                                size_t capacity);
enum advisor_mode advisor_planner_mode(struct advisor_planner *planner);
/** Is the block of that namespace pinned, as far as gateways told?  `until_ms` as
 *  advisor_pins_has(). */
bool advisor_planner_pinned(struct advisor_planner *planner, uint32_t ns, uint64_t hash,
                            uint64_t now_ms, uint64_t *until_ms);
/** KVT_PRECONDITION: enforce without a key. */
KVT_NODISCARD enum kvt_err advisor_planner_set_mode(struct advisor_planner *planner,
                                                    enum advisor_mode mode);
/** The stop switch: while it is on, no order leaves, whoever gave it.  Durable, as the mode is. */
bool advisor_planner_paused(struct advisor_planner *planner);
void advisor_planner_set_paused(struct advisor_planner *planner, bool paused);
const struct advisor_planner_options *
advisor_planner_settings(const struct advisor_planner *planner);

const char *advisor_mode_name(enum advisor_mode mode);
bool advisor_mode_parse(const char *text, enum advisor_mode *mode);
/** "within", "soft" or "hard". */
const char *advisor_quota_word(enum advisor_quota_over over);
const char *advisor_order_state_name(uint32_t state);

#endif /* ADVISOR_ORDER_PLANNER_H */
