/*
 * advisor/selection/planner_types.h -- what the planner is set up with, and what it shows.
 *
 * Why: pins, quotas and rules show themselves in the planner's views, and stand below the planner.
 * Limits:    those below.
 */
#ifndef ADVISOR_SELECTION_PLANNER_TYPES_H
#define ADVISOR_SELECTION_PLANNER_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/index/advisor_counters.h"
#include "advisor/rule/rulebook.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/tier_kind.h"
#include "kvtier/ordering.h"
#include "kvtier/report.h"

#define ADVISOR_TIERS_MAX    256
#define ADVISOR_GATEWAYS_MAX 128
#define ADVISOR_ORDERS_KEPT  1000
#define ADVISOR_QUOTAS_MAX   1024

struct advisor_traffic;

struct advisor_planner_options {
    const struct kvt_ordering *ordering; /* where a policy names none, or none known here */
    struct kvt_ordering_options ordering_options; /* in ticks of ADVISOR_TICK_MS */
    const struct advisor_counters *counters;
    struct advisor_rulebook *rulebook; /* whose policy is followed; NULL: none */
    struct index *index;               /* whose blocks have how many children */
    struct advisor_traffic *traffic;   /* NULL: nobody looks */
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
    enum advisor_tier_kind kind;
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
    char tiers[ADVISOR_TIER_KIND_COUNT][KVT_NAME_MAX]; /* its holders by kind; "": it has none */
};

#endif /* ADVISOR_SELECTION_PLANNER_TYPES_H */
