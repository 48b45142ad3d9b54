/*
 * advisor/order/block_standing.h -- one block as the planner has it.
 *
 * Why: who explains what the policy makes of a block needs its row, how full its tiers are and
 * where it stands in their orderings, all of one moment; the planner's thread has them.
 *
 * Ownership: the look is the caller's; advisor_block_standing_release() ends it.
 * Threads:   advisor_planner_look() on the writer's thread (advisor/store/writer_calls.h).
 * Limits:    ADVISOR_BLOCK_STANDING_PLACES_MAX places in G4; more are counted.
 */
#ifndef ADVISOR_ORDER_BLOCK_STANDING_H
#define ADVISOR_ORDER_BLOCK_STANDING_H

#include "advisor/order/planner.h"
#include "advisor/selection/active_rules.h"
#include "advisor/store/durable_store.h"

#include "policy/decide/tier_blocks.h"

#define ADVISOR_BLOCK_STANDING_PLACES_MAX 16
#define ADVISOR_BLOCK_STANDING_WINDOW_MS  UINT64_C(3600000) /* for the chance of a use */

/* How the block stands by an ordering. */
struct advisor_block_standing_order {
    bool known; /* to it; else what follows means nothing */
    struct policy_standing standing;
    uint64_t last_use_ms;
    struct policy_tier_blocks_counts counts;
    uint32_t before; /* about so many blocks leave before it */
};

struct advisor_block_standing_place {
    char holder[KVT_NAME_MAX];
    uint32_t ranks;
    bool reported; /* by a gateway, since the start: else what follows is not known */
    uint64_t used_bytes;
    uint64_t capacity_bytes; /* 0: no cap */
    bool draining;
    struct advisor_rule_set no_edge; /* rules that would move it, and no gateway has both ends */
    struct advisor_orders orders;    /* of the tier: none, where it is not known */
    struct advisor_block_standing_order by[ADVISOR_RANKINGS_MAX]; /* in each of them */
    bool reranking;                                               /* others are made */
    uint64_t ranked;                                              /* as in advisor_tier_view */
    uint64_t to_rank;
    bool has_quota;
    struct advisor_quota_view quota; /* of its tenant */
};

struct advisor_block_standing {
    struct advisor_store_block row;
    uint32_t index_ns;
    bool pinned;
    uint64_t pinned_until_ms; /* 0: until it is taken off */
    uint64_t version;         /* of the policy that the planner follows; `stops` are its rules' */
    enum advisor_rule_stop stops[ADVISOR_RULES_MAX];
    size_t place_count; /* may be more than are given */
    struct advisor_block_standing_place places[ADVISOR_BLOCK_STANDING_PLACES_MAX];
};

/** KVT_OK, KVT_NOTFOUND (it is in no G4 tier), or what the store says. */
KVT_NODISCARD enum kvt_err advisor_planner_look(struct advisor_planner *planner,
                                                struct advisor_store *store, const char *namespace_,
                                                uint64_t hash, uint64_t now_ms,
                                                struct advisor_block_standing *look);
void advisor_block_standing_release(struct advisor_block_standing *look);

#endif /* ADVISOR_ORDER_BLOCK_STANDING_H */
