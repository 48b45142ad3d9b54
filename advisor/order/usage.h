/*
 * advisor/order/usage.h -- what each namespace has, tier by tier, and how much of it was read.
 *
 * Why: tenants are namespaces ("tenant/model"); who pays, who is over a quota, and whether a purge
 * left anything in the index are sums over all places, which no client has to fetch one by one.
 * Ownership: the caller owns a usage (init/release).
 * Threads:   any; read transactions and the RAM index.
 * Limits:    ADVISOR_USAGE_PAGE rows a page, so that none holds a reader's slot for long.
 */
#ifndef ADVISOR_ORDER_USAGE_H
#define ADVISOR_ORDER_USAGE_H

#include <stddef.h>
#include <stdint.h>

#include "advisor/answer/finder.h"
#include "advisor/selection/tier_kind.h"
#include "kvtier/block.h"
#include "kvtier/error.h"

#define ADVISOR_USAGE_PAGE 20000

/* X(name): where a place may be. */
#define ADVISOR_USAGE_TIERS(X) X(g1) X(g2) X(g3) X(hot) X(warm) X(cold) X(far)

enum {
#define X(name) ADVISOR_USAGE_##name,
    ADVISOR_USAGE_TIERS(X)
#undef X
        ADVISOR_USAGE_TIER_COUNT
};

struct advisor_number_map;
struct advisor_planner;

struct advisor_usage_row {
    char namespace_[KVT_NAMESPACE_MAX];
    uint64_t places[ADVISOR_USAGE_TIER_COUNT];
    uint64_t bytes[ADVISOR_USAGE_TIER_COUNT];
    uint64_t blocks; /* known to be in a volume or bucket of gateways, each once */
    uint64_t reads;  /* of these */
    uint64_t cold_reads;
};

struct advisor_usage {
    const char *below; /* only this namespace and those below it; NULL or "": all */
    struct advisor_tier_kinds kinds;
    struct advisor_usage_row *rows;
    size_t count;
    size_t capacity;
    struct advisor_number_map *slots;
    bool failed; /* there was no memory for a row */
};

/** `planner`: whose gateways tell which buckets are far.  KVT_OK or KVT_NOMEM; release it in any
 *  case. */
KVT_NODISCARD enum kvt_err advisor_usage_init(struct advisor_usage *usage,
                                              struct advisor_planner *planner, const char *below);
void advisor_usage_release(struct advisor_usage *usage);

/* Where a walk is: first all places, then the rows of blocks. */
struct advisor_usage_cursor {
    bool blocks;
    uint64_t at;
    bool done;
};

/** Add one page.  KVT_AGAIN: the index is being read into memory; KVT_NOMEM; KVT_IO. */
KVT_NODISCARD enum kvt_err advisor_usage_page(const struct advisor_finder *finder,
                                              struct advisor_usage_cursor *cursor,
                                              struct advisor_usage *usage);

#endif /* ADVISOR_ORDER_USAGE_H */
