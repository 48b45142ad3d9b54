/*
 * advisor/plan/dry_run.h -- what a policy would order now, without ordering it.
 *
 * Why: a plan is shown, approved and applied before the policy may act by itself, so it must name
 * what the planner would have chosen, in that order: every tier that has reached a start watermark
 * is drained down to each rule's stop, as if each order were obeyed at once; what it only observed
 * is where it was, and is observed again afterwards.  What leaves for quotas comes first, chosen as
 * the planner chooses it (advisor/selection/quota_drain.h), of the sums that these quotas would
 * count.  Of the tiers the coldest comes first: it makes room for those above; where rules moved
 * anything quotas are looked at once more.  Then come the rules without a watermark, whatever their
 * schedule: each row of the store is asked about, once, and what they pin is counted, and what they
 * may not bring up for a quota.  A copy moves once: what comes to a tier stays there, though it is
 * counted.  Rates and limits of a run, which stretch that over time, do not count, nor do rules
 * that wait for an event.  A tier is looked at in the order that the policy asks for: one that it
 * has not is made first, as it would be for a policy that comes into force.
 *
 * Blocks are taken out of the orderings as the planner takes them and set aside; all come back
 * before the planner drains again, and from the first that is looked at it drains nothing.  So it
 * goes on while the first order is made, and waits while one of a further tier is.  One that is
 * read comes back at once.
 *
 * Ownership: planner and rules are borrowed until advisor_dry_run_free().
 * Threads:   the writer's.
 * Limits:    one at a time; ADVISOR_DRY_RUN_MOVES_MAX moves, under a policy with quotas what
 *            ADVISOR_PLANNED_MOVES_MAX changes hold; a call of advisor_dry_run_step() takes about
 *            ADVISOR_DRY_RUN_SLICE_MS.  One that looked at its first block so long as
 *            ADVISOR_DRY_RUN_MS_MAX ago, or that nobody went on with since, is ended, whoever still
 *            holds it.
 */
#ifndef ADVISOR_PLAN_DRY_RUN_H
#define ADVISOR_PLAN_DRY_RUN_H

#include "advisor/order/planner.h"
#include "advisor/rule/rulebook.h"

#include "policy/decide/tier_blocks.h"

#define ADVISOR_DRY_RUN_MOVES_MAX 4194304
#define ADVISOR_DRY_RUN_SLICE_MS  40
#define ADVISOR_DRY_RUN_MS_MAX    300000

struct advisor_dry_run;

struct advisor_dry_run_move {
    enum kvt_order_verb verb;
    int32_t rule;        /* of the policy; -1: the quota itself moves it down */
    int32_t quota;       /* of the policy, for which it leaves; -1: for none */
    const char *gateway; /* who would be told */
    const char *tier;    /* "hot@gw0": where it leaves */
    const char *to;      /* where it goes; "" of a deletion */
    bool plain;          /* between hot volume and bucket: orders need not say where */
    const char *namespace_;
    struct policy_block block; /* with the shards there, and the size of one */
    uint64_t bytes;            /* of them: that the tier gets back, but of a copy up */
    const bool *classes;       /* of the policy that the block is in, by number */
};

/* What a rule pins, of all tiers. */
struct advisor_dry_run_pins {
    uint64_t blocks; /* copies of them */
    uint64_t bytes;
};

/* A tier that is not looked at as the policy asks. */
struct advisor_dry_run_miss {
    char tier[KVT_NAME_MAX];
    const char *now;    /* the ordering that its blocks are in; a constant */
    const char *wanted; /* the one that could not be made; the same */
};

/* Of one quota; bytes are those that it counts. */
struct advisor_dry_run_quota {
    uint64_t before;
    uint64_t after;  /* all that the plan moves; may be beyond it: the rest may not leave */
    uint64_t blocks; /* that leave for it */
    uint64_t bytes;
    uint64_t refused_blocks; /* that it keeps from coming up */
    uint64_t refused_bytes;
};

/** Each move in its order; false: no more of them are wanted. */
typedef bool advisor_dry_run_fn(void *arg, const struct advisor_dry_run_move *move);

/** Of any version of a policy, in force or not.  `now_ms` is what facts are as of; the orderings
 *  stay at the planner's own time where that is earlier.  KVT_OK, KVT_NOMEM, or KVT_BUSY: another
 *  goes on. */
KVT_NODISCARD enum kvt_err advisor_dry_run_new(struct advisor_dry_run **out,
                                               struct advisor_planner *planner,
                                               const struct advisor_rules *rules, uint64_t now_ms);

/** Go on for a slice.  KVT_AGAIN: there is more to do; KVT_OK: that was all; KVT_TIMEOUT: it
 *  took too long, and moves are missing. */
KVT_NODISCARD enum kvt_err advisor_dry_run_step(struct advisor_dry_run *run,
                                                advisor_dry_run_fn *callback, void *arg);

/** Once it is done: what rule number `rule` pins. */
struct advisor_dry_run_pins advisor_dry_run_pinned(const struct advisor_dry_run *run, int32_t rule);

/** Once it is done: what quota number `quota` of the policy does. */
struct advisor_dry_run_quota advisor_dry_run_quota(const struct advisor_dry_run *run,
                                                   int32_t quota);

/** Did the last step end because the order that a tier would have is being made?  That may take a
 *  while, and is done by another thread. */
bool advisor_dry_run_waits(const struct advisor_dry_run *run);
/** Of the first tier that had to be looked at in the order that it has, for one that the policy
 *  asks for could not be made; `wanted` is NULL: there is none. */
struct advisor_dry_run_miss advisor_dry_run_missed(const struct advisor_dry_run *run);

/** Did it stop at one of these limits? */
bool advisor_dry_run_is_cut(const struct advisor_dry_run *run);

/** NULL is allowed; what was set aside comes back. */
void advisor_dry_run_free(struct advisor_dry_run *run);

#endif /* ADVISOR_PLAN_DRY_RUN_H */
