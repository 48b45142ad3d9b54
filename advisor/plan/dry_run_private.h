/*
 * advisor/plan/dry_run_private.h -- what the files of a dry run share.
 *
 * Why: what leaves for quotas, by watermarks and in a pass over the rows is chosen in ways of their
 * own, and told in one.
 * Ownership: as advisor/plan/dry_run.h.
 * Threads:   the writer's.
 * Limits:    as there.
 */
#ifndef ADVISOR_PLAN_DRY_RUN_PRIVATE_H
#define ADVISOR_PLAN_DRY_RUN_PRIVATE_H

#include "advisor/plan/dry_run.h"
#include "advisor/selection/chooser.h"
#include "advisor/selection/planned_moves.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/quota_drain.h"

struct advisor_dry_run_quotas;

struct advisor_dry_run {
    struct advisor_planner *planner;
    struct advisor_planner_guest guest; /* that it is of the planner */
    const struct advisor_rules *rules;
    uint64_t now_ms;
    uint64_t since_ms; /* the planner's clock, when it looked at a block first; before, when
                          somebody asked for a slice last */
    uint32_t tier;     /* that is looked at */
    uint32_t step;     /* tiers that are done */
    uint32_t order[ADVISOR_TIERS_MAX]; /* of tiers, the coldest first */
    uint32_t tier_count;
    uint64_t used[ADVISOR_TIERS_MAX]; /* bytes, as if all so far were done */
    struct advisor_ranking *ranking;  /* of it, by which it is chosen; NULL: not yet there */
    bool waits;                       /* until that is made */
    struct advisor_dry_run_miss miss; /* the first that could not be made: the tier's own decided */
    bool chooses;                     /* it has looked at blocks: none may leave meanwhile */
    bool resumed;                     /* all of it that was set aside before is back */
    bool begun;                       /* with it */
    struct advisor_chooser chooser;
    uint64_t kept[ADVISOR_RULES_MAX]; /* of the tier that is looked at */
    uint64_t row;                     /* of the store, that is asked about next */
    bool sweeps;                      /* there are rules without a watermark */
    struct advisor_dry_run_pins pins[ADVISOR_RULES_MAX];
    bool classes[POLICY_CLASSES_MAX]; /* of the block that was chosen last */
    size_t moves;
    struct advisor_dry_run_quotas *quotas; /* NULL: the policy has none */
    bool choosing;
    bool cut;   /* what moved could not all be noted */
    bool ended; /* the planner knows nothing of it any more */
    enum kvt_err rc;
    /* Of the call that goes on: */
    struct advisor_asker *asker;
    advisor_dry_run_fn *callback;
    void *arg;
};

/** By the rule and for the quota (of either -1: none) the block moves along the edge; it is the one
 *  that the asker was asked about last.  False: no more moves are wanted. */
bool advisor_dry_run_tell(struct advisor_dry_run *run, const struct advisor_edge *edge,
                          const struct policy_block *block, int32_t rule, int32_t quota);

/** Quotas moved what they move: a colder tier that was not drained may have to be now. */
void advisor_dry_run_look_again(struct advisor_dry_run *run);

/* ---- dry_run_quotas.c; nothing happens where the policy has none ---- */

/** KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_dry_run_quotas_new(struct advisor_dry_run *run);
void advisor_dry_run_quotas_free(struct advisor_dry_run *run);

/** Choose some of what leaves for quotas.  False: that was all, and other rules have their turn. */
bool advisor_dry_run_quotas_go_on(struct advisor_dry_run *run);
/** Rules made room, or filled a tier: look at quotas once more, if they did. */
void advisor_dry_run_quotas_again(struct advisor_dry_run *run);

/** It was told. */
void advisor_dry_run_quotas_count(struct advisor_dry_run *run, const struct advisor_edge *edge,
                                  const struct policy_block *block, enum kvt_order_verb verb,
                                  int32_t quota);
/** May so many bytes more come into a tier?  If not, they are counted as kept out. */
bool advisor_dry_run_quotas_admit(struct advisor_dry_run *run, uint32_t ns, uint32_t tier,
                                  uint64_t bytes);

/** What the plan moved so far; NULL: nothing is noted. */
const struct advisor_planned_moves *advisor_dry_run_moved(const struct advisor_dry_run *run);
/** Bytes that its tier has, with what quotas moved. */
uint64_t advisor_dry_run_used(const struct advisor_dry_run *run, uint32_t tier);

#endif /* ADVISOR_PLAN_DRY_RUN_PRIVATE_H */
