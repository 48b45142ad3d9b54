/*
 * advisor/selection/quota_drain.h -- which blocks leave for quotas, and in which order.
 *
 * Why: what is ordered and what a plan shows must be the same, so both choose here.  An ordering
 * says which block of its tier goes first, whoever it belongs to, so a tier's blocks are gone
 * through instead, for one quota at a time; then those that were used longest ago are looked at, a
 * set of them at a time.  Whoever drains says what becomes of each.
 *
 * Ownership: a drainer borrows everything; who has its advisor_quota_drain frees the picks of it.
 * Threads:   the writer's.
 * Limits:    ADVISOR_QUOTA_PICKS blocks of a pass; KVT_ORDER_ITEMS_MAX blocks of a set, for which
 *            ADVISOR_QUOTA_LOOKS are looked at.
 */
#ifndef ADVISOR_SELECTION_QUOTA_DRAIN_H
#define ADVISOR_SELECTION_QUOTA_DRAIN_H

#include "advisor/selection/active_rules.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planned_moves.h"
#include "advisor/selection/tenant_quotas.h"

/* How a block leaves: by a rule, or by the quota itself (-1), which demotes. */
struct advisor_quota_way {
    int32_t quota;
    int32_t rule;
    struct advisor_edge edge;
};

enum advisor_quota_answer {
    ADVISOR_QUOTA_TAKEN,
    ADVISOR_QUOTA_STAYS,
    ADVISOR_QUOTA_WAITS, /* as all behind it */
};

/* What whoever drains says and does. */
struct advisor_quota_hands {
    /** May anything leave the tier now? */
    bool (*can_drain)(void *arg, uint32_t tier);
    /** Bytes that the quota counts, and that are on their way out. */
    uint64_t (*leaving)(void *arg, int32_t quota);
    /** Is there no time for another look? */
    bool (*is_over)(void *arg);
    /** The block may leave that way. */
    enum advisor_quota_answer (*take)(void *arg, const struct policy_block *block,
                                      const struct advisor_quota_way *way);
};

struct advisor_quota_drainer {
    struct advisor_planner *planner;
    const struct advisor_rules *rules;
    struct advisor_asker *asker; /* under these rules */
    struct advisor_quota_drain *drain;
    const struct advisor_quota_hands *hands;
    void *arg;
    const uint64_t *used;                      /* bytes of each tier, with what was chosen for it */
    const struct advisor_planned_moves *moved; /* what was chosen before; NULL: the rosters know */
    uint64_t now_ms;
    uint64_t tick;  /* of the rosters */
    bool everybody; /* the canary share does not count */
};

/** Set the pass on the next quota and tier: those beyond hard first, each in its turn.  KVT_OK,
 *  KVT_NOTFOUND (nothing is to leave now) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_quota_begin(struct advisor_quota_drainer *drainer);
/** Go through so many seats more of the tier, until the pass is ready. */
void advisor_quota_go_through(struct advisor_quota_drainer *drainer, uint32_t seats);
/** Choose a set, of a pass that is ready.  The pass ends with the last of its blocks, or when the
 *  quota has enough; one of which no tier let anything go rests then. */
void advisor_quota_choose(struct advisor_quota_drainer *drainer);

/** Is the copy in its tier, as if what was chosen so far had moved? */
bool advisor_quota_is_there(const struct advisor_planner *planner,
                            const struct advisor_planned_moves *moved,
                            const struct advisor_copy *copy);

#endif /* ADVISOR_SELECTION_QUOTA_DRAIN_H */
