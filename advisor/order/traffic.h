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
 * Threads:   the writer's thread counts; advisor_traffic_look() any, under a leaf lock.
 * Limits:    ADVISOR_TRAFFIC_SLOTS slots; the hottest of about a thousand blocks, whose counts are
 *            halved every ADVISOR_HOT_BLOCKS_HALVE_MS.
 */
#ifndef ADVISOR_ORDER_TRAFFIC_H
#define ADVISOR_ORDER_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/selection/tier_kind.h"
#include "base/core/metrics.h"
#include "kvtier/error.h"
#include "kvtier/order.h"
#include "kvtier/report.h"

#define ADVISOR_HOT_BLOCKS_HALVE_MS 600000
#define ADVISOR_TRAFFIC_SLOTS       60
#define ADVISOR_TRAFFIC_SLOT_MS     60000
#define ADVISOR_TRAFFIC_VERBS       (KVT_ORDER_VERB_LAST + 1)
#define ADVISOR_TRAFFIC_AGES        13
#define ADVISOR_TRAFFIC_TIERS       3 /* hot, cold, warm */
#define ADVISOR_TRAFFIC_FLOWS       19

struct advisor_traffic;

/* Of orders with a result. */
struct advisor_traffic_moves {
    uint64_t blocks; /* whose effect holds */
    uint64_t failed;
    uint64_t bytes;  /* of those blocks */
    uint64_t copied; /* bytes that were read and written for it */
};

/* Orders move blocks along these edges; the first few are shown where nothing moved, too. */
struct advisor_traffic_flow {
    enum kvt_order_verb verb;
    enum advisor_tier_kind from;
    enum advisor_tier_kind to;
    bool always;
};

extern const struct advisor_traffic_flow advisor_traffic_flows[ADVISOR_TRAFFIC_FLOWS];

/* A block that is read much. */
struct advisor_hot_block {
    uint64_t hash;
    uint64_t parent;
    uint64_t reads;
    uint64_t uncertain; /* of `reads`, so many may have been of others */
    uint64_t bytes;     /* of one shard */
    uint32_t ns;        /* by the store's numbers, as pins are */
    uint32_t index_ns;  /* by those of the RAM index */
    uint32_t position;
};

struct advisor_traffic_slot {
    uint64_t number; /* unix_ms / ADVISOR_TRAFFIC_SLOT_MS */
    uint64_t reads[KVT_READ_RESULTS];
    uint64_t read_bytes[ADVISOR_TRAFFIC_TIERS];
    struct advisor_traffic_moves flows[ADVISOR_TRAFFIC_FLOWS];
};

struct advisor_traffic_view {
    uint64_t reads[KVT_READ_RESULTS];
    uint64_t read_bytes[ADVISOR_TRAFFIC_TIERS];
    struct advisor_traffic_moves moves[ADVISOR_TRAFFIC_VERBS];
    struct advisor_traffic_moves flows[ADVISOR_TRAFFIC_FLOWS];
    uint64_t ages[ADVISOR_TRAFFIC_AGES + 1]; /* reads up to each bound, and beyond the last */
    struct advisor_traffic_slot slots[ADVISOR_TRAFFIC_SLOTS]; /* oldest first; the last is now */
};

/** The bounds of the ages, in seconds. */
extern const uint64_t advisor_traffic_bounds[ADVISOR_TRAFFIC_AGES];

KVT_NODISCARD enum kvt_err advisor_traffic_new(struct advisor_traffic **out,
                                               struct kvt_metrics *metrics);
void advisor_traffic_free(struct advisor_traffic *traffic);

/* ---- the writer's thread; nothing happens without a traffic ---- */

/** A gateway's totals went up by so much. */
void advisor_traffic_reads(struct advisor_traffic *traffic, const uint64_t reads[KVT_READ_RESULTS],
                           uint64_t now_ms);
/** Bytes that a gateway read from a tier (0 hot, 1 cold, 2 warm). */
void advisor_traffic_bytes(struct advisor_traffic *traffic, unsigned tier, uint64_t bytes,
                           uint64_t now_ms);
/** A block was read, `age_ms` after its use before. */
void advisor_traffic_block(struct advisor_traffic *traffic, const struct advisor_hot_block *block,
                           uint64_t age_ms, uint64_t now_ms);
/** An order has its result; what is no move between two of these counts by its verb only. */
void advisor_traffic_moved(struct advisor_traffic *traffic, const struct advisor_traffic_flow *flow,
                           const struct advisor_traffic_moves *moves, uint64_t now_ms);

/* ---- any thread ---- */

void advisor_traffic_look(struct advisor_traffic *traffic, uint64_t now_ms,
                          struct advisor_traffic_view *view);
/** At most `capacity`, most reads first; ties go to the block nearer to the root.  Blocks without a
 *  certain read are left out.  Returns how many. */
size_t advisor_traffic_hottest(struct advisor_traffic *traffic, struct advisor_hot_block *out,
                               size_t capacity);

#endif /* ADVISOR_ORDER_TRAFFIC_H */
