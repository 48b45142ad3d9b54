/*
 * advisor/order/traffic.h -- what was read, and what was moved: for /metrics, the page and `kvtier
 * top`.
 *
 * Why: all three must say the same.  Totals since the start are series of the registry; the last
 * hour by minutes and the hottest blocks are kept here.
 *
 * Reads by result are what gateways count and report; bytes, ages and blocks come from the rows of
 * their reports, of which a gateway may drop some.  The age of a read is the time since the block
 * was read or stored before.
 *
 * Ownership: series belong to the registry.
 * Threads:   the engine's thread counts; advisor_tally_look() any, under a leaf lock.
 * Limits:    ADVISOR_TALLY_SLOTS slots; advisor/order/hot_blocks.h.
 */
#ifndef ADVISOR_ORDER_TRAFFIC_H
#define ADVISOR_ORDER_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/choice/tier_kind.h"
#include "advisor/order/hot_blocks.h"
#include "base/core/metrics.h"
#include "kvtier/error.h"
#include "kvtier/order.h"
#include "kvtier/report.h"

#define ADVISOR_TALLY_SLOTS   60
#define ADVISOR_TALLY_SLOT_MS 60000
#define ADVISOR_TALLY_VERBS   (KVT_ORDER_VERB_LAST + 1)
#define ADVISOR_TALLY_AGES    13
#define ADVISOR_TALLY_TIERS   3 /* hot, cold, warm */
#define ADVISOR_TALLY_FLOWS   19

struct advisor_tally;

/* Of orders with a result. */
struct advisor_tally_moves {
    uint64_t blocks; /* whose effect holds */
    uint64_t failed;
    uint64_t bytes;  /* of those blocks */
    uint64_t copied; /* bytes that were read and written for it */
};

/* Orders move blocks along these edges; the first few are shown where nothing moved, too. */
struct advisor_tally_flow {
    enum kvt_order_verb verb;
    enum advisor_rung from;
    enum advisor_rung to;
    bool always;
};

extern const struct advisor_tally_flow advisor_tally_flows[ADVISOR_TALLY_FLOWS];

struct advisor_tally_slot {
    uint64_t number; /* unix_ms / ADVISOR_TALLY_SLOT_MS */
    uint64_t reads[KVT_READ_RESULTS];
    uint64_t read_bytes[ADVISOR_TALLY_TIERS];
    struct advisor_tally_moves flows[ADVISOR_TALLY_FLOWS];
};

struct advisor_tally_view {
    uint64_t reads[KVT_READ_RESULTS];
    uint64_t read_bytes[ADVISOR_TALLY_TIERS];
    struct advisor_tally_moves moves[ADVISOR_TALLY_VERBS];
    struct advisor_tally_moves flows[ADVISOR_TALLY_FLOWS];
    uint64_t ages[ADVISOR_TALLY_AGES + 1]; /* reads up to each bound, and beyond the last */
    struct advisor_tally_slot slots[ADVISOR_TALLY_SLOTS]; /* oldest first; the last is now */
};

/** The bounds of the ages, in seconds. */
extern const uint64_t advisor_tally_bounds[ADVISOR_TALLY_AGES];

KVT_NODISCARD enum kvt_err advisor_tally_new(struct advisor_tally **out,
                                             struct kvt_metrics *metrics);
void advisor_tally_free(struct advisor_tally *tally);

/* ---- the engine's thread; nothing happens without a tally ---- */

/** A gateway's totals went up by so much. */
void advisor_tally_reads(struct advisor_tally *tally, const uint64_t reads[KVT_READ_RESULTS],
                         uint64_t now_ms);
/** Bytes that a gateway read from a tier (0 hot, 1 cold, 2 warm). */
void advisor_tally_bytes(struct advisor_tally *tally, unsigned tier, uint64_t bytes,
                         uint64_t now_ms);
/** A block was read, `age_ms` after its use before. */
void advisor_tally_block(struct advisor_tally *tally, const struct advisor_hot_block *block,
                         uint64_t age_ms, uint64_t now_ms);
/** An order has its result; what is no move between two of these counts by its verb only. */
void advisor_tally_moved(struct advisor_tally *tally, const struct advisor_tally_flow *flow,
                         const struct advisor_tally_moves *moves, uint64_t now_ms);

/* ---- any thread ---- */

void advisor_tally_look(struct advisor_tally *tally, uint64_t now_ms,
                        struct advisor_tally_view *view);
/** As advisor_hottest_top(). */
size_t advisor_tally_hottest(struct advisor_tally *tally, struct advisor_hot_block *out,
                             size_t capacity);

#endif /* ADVISOR_ORDER_TRAFFIC_H */
