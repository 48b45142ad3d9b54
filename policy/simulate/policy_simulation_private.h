/*
 * policy/simulate/policy_simulation_private.h -- what the files of policy_simulation share.
 *
 * Why: requests, rules and quotas are a page each.
 * Ownership: as policy/simulate/policy_simulation.h.
 * Limits:    as policy/simulate/policy_simulation.h.
 */
#ifndef POLICY_SIMULATE_POLICY_SIMULATION_PRIVATE_H
#define POLICY_SIMULATE_POLICY_SIMULATION_PRIVATE_H

#include "policy/decide/decision.h"
#include "policy/decide/rate.h"
#include "policy/decide/tier_blocks.h"
#include "policy/simulate/policy_simulation.h"

#define POLICY_SIMULATION_CANDIDATES_MAX 1024 /* read cold and waiting for room */
#define POLICY_SIMULATION_RULES_MAX      128
#define POLICY_SIMULATION_PASS_MS        60000 /* between two passes over all blocks, at least */

struct policy_simulation_block {
    uint64_t stored_ms;
    uint64_t used_ms;
    uint32_t parent; /* number, plus 1; 0: none */
    uint32_t position;
    uint32_t children;
    uint32_t hits;
    uint32_t cold_hits;
    uint32_t recent; /* cold reads since it came to where it is */
    uint16_t tenant;
    uint8_t where; /* bits: tiers that have it; 0: new, or expired */
    bool met;      /* it is known who it is */
    bool seen;     /* it was stored, ever */
    bool waits;    /* it is a candidate */
};

/* A tenant's blocks of a tier, those that leave first in front, as they were when it was made. */
struct policy_simulation_line {
    uint32_t *blocks;
    uint64_t *used_ms; /* of each then: one that was used since is no longer here */
    size_t count;
    size_t next;
    bool helped;      /* something of it left */
    uint64_t rest_ms; /* nothing did, and it is not looked at before */
};

struct policy_simulation_tier_state {
    struct policy_tier_blocks *roster;
    uint64_t capacity; /* bytes; 0: endless */
    uint64_t used;
    bool bucket;
    bool resuming;
    uint64_t staged_ms;    /* no copies are made ahead before */
    bool stage_waits;      /* until then */
    uint64_t due_ms;       /* when the first rule may begin that its schedule keeps back; 0: none */
    uint64_t exhausted_ms; /* since when nothing else is left to choose; 0: it is */
    bool draining[POLICY_SIMULATION_RULES_MAX];
    uint64_t kept[POLICY_SIMULATION_RULES_MAX]; /* bytes that rules pinned, as of the last pass */
    uint64_t counting[POLICY_SIMULATION_RULES_MAX]; /* the same, in this pass */
};

/* What a rule did in its run, and may do. */
struct policy_simulation_limit {
    uint64_t run_blocks;
    struct policy_rate rate;
    uint64_t resume_ms; /* it rests until then, for `stop`; 0: it does not */
    enum policy_simulation_stop stop;
    enum policy_simulation_stop waits_for; /* it wants something, and is kept back */
    struct policy_simulation_figures figures;
};

struct policy_simulation {
    struct policy_simulation_options options;
    const struct policy *policy;
    uint64_t bytes; /* of a block */
    uint64_t now_ms;
    uint64_t first_ms;
    struct policy_simulation_tier_state tiers[POLICY_SIMULATION_TIERS_MAX];
    uint32_t count; /* of them */
    uint32_t entry;
    int32_t through; /* the bucket that has all new blocks; -1: none */
    struct policy_simulation_block *blocks;
    uint32_t known; /* room in it */
    uint32_t candidates[POLICY_SIMULATION_CANDIDATES_MAX];
    uint32_t candidate_count;
    bool by_price; /* every read from below is asked about */
    bool passes;   /* some rule is asked about all blocks */
    uint64_t passed_ms;
    uint64_t passed_reads;
    uint64_t begun_ms[POLICY_SIMULATION_RULES_MAX]; /* last pass or run of a rule, plus 1 */
    bool due[POLICY_SIMULATION_RULES_MAX];          /* in the pass that goes on */
    bool passing;                                   /* one waits for a rule's rate */
    uint32_t pass_block;                            /* where it goes on */
    uint32_t pass_tier;
    struct policy_simulation_limit limits[POLICY_SIMULATION_RULES_MAX]; /* one a rule */
    uint64_t *used_by;                    /* bytes: tenant * count + tier */
    struct policy_simulation_line *lines; /* one a quota */
    struct policy_simulation_result result;
};

static inline bool
policy_simulation_is_in(const struct policy_simulation *simulation, uint32_t block, uint32_t tier)
{
    return (simulation->blocks[block].where >> tier & 1) != 0;
}

static inline uint64_t
policy_simulation_mark(uint64_t capacity, uint64_t ppm)
{
    return (uint64_t)((unsigned __int128)capacity * ppm / 1000000);
}

static inline bool
policy_simulation_drains(const struct policy_rule *rule)
{
    return rule->trigger.head.place.line != 0 &&
           (rule->verb == POLICY_DEMOTE || rule->verb == POLICY_EXPIRE);
}

/* policy_simulation.c */

/** Is there room for one more block, unless it has one there already? */
bool policy_simulation_has_room(const struct policy_simulation *simulation, uint32_t tier);
/** Bring the block to a tier.  KVT_OK, or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err policy_simulation_put(struct policy_simulation *simulation,
                                                 uint32_t block, uint32_t tier);
/** Demote, promote, or expire (`to` -1). */
KVT_NODISCARD enum kvt_err policy_simulation_move(struct policy_simulation *simulation,
                                                  uint32_t block, uint32_t from, int32_t to);

/* ladder_rules.c */
/** The rule that has the block, behind the rule `former` (-1: of all).  One that pins a copy in
 *  another tier has it before one that would expire it. */
int32_t policy_simulation_rule(const struct policy_simulation *simulation, uint32_t block,
                               uint32_t tier, enum policy_event event, int32_t former);
/** A rule that pins a copy of the block in another tier; -1: none does. */
int32_t policy_simulation_pin_elsewhere(const struct policy_simulation *simulation, uint32_t block,
                                        uint32_t tier);
/** Does the rule, which has the block, pin it in this tier, and not a copy elsewhere? */
bool policy_simulation_pins_here(const struct policy_simulation *simulation, uint32_t block,
                                 uint32_t tier, int32_t rule);
/** The rule with the highest watermarks that drains the tier; -1: none. */
int32_t policy_simulation_last(const struct policy_simulation *simulation, uint32_t tier);
int32_t policy_simulation_target(const struct policy_simulation *simulation,
                                 const struct policy_rule *rule, uint32_t tier);
/** Is the rule asked about all blocks, now and then? */
bool policy_simulation_is_swept(const struct policy_rule *rule);
/** May it go there: is there room, or its copy? */
bool policy_simulation_is_open(const struct policy_simulation *simulation, uint32_t block,
                               int32_t to);
/** Let rules and quotas act until nothing is left to be moved. */
KVT_NODISCARD enum kvt_err policy_simulation_act(struct policy_simulation *simulation);

/* ladder_drain.c */
/** Take blocks out of a tier down to its rules' stops, or until a limit keeps them back; `*moved`
 *  is set where one went. */
KVT_NODISCARD enum kvt_err policy_simulation_drain(struct policy_simulation *simulation,
                                                   uint32_t tier, bool *moved);
/** Make copies of what leaves next where rules say `prestage`; `*moved` is set where one was. */
KVT_NODISCARD enum kvt_err policy_simulation_stage(struct policy_simulation *simulation,
                                                   uint32_t tier, bool *moved);

/* ladder_limits.c */
void policy_simulation_begin_limits(struct policy_simulation *simulation);
/** Is it among the blocks for which the policy is enforced?  Counts those that are not. */
bool policy_simulation_in_canary(struct policy_simulation *simulation, uint32_t block);
/** May the rule move one more block now? */
enum policy_simulation_stop policy_simulation_may(struct policy_simulation *simulation,
                                                  int32_t rule);
/** The same of a rule that, when it `wants` more, is asked again once it may.  True: it may. */
bool policy_simulation_may_or_waits(struct policy_simulation *simulation, int32_t rule, bool wants);
/** It moved one. */
void policy_simulation_did(struct policy_simulation *simulation, int32_t rule);
/** Its run is over, or a new one begins. */
void policy_simulation_end_run(struct policy_simulation *simulation, int32_t rule);
/** No rule waits, as far as is known. */
void policy_simulation_begin_round(struct policy_simulation *simulation);
/** When a rule that waits, or one for whose copies it is too soon, is to be asked again.
 *  UINT64_MAX: never. */
uint64_t policy_simulation_next_ms(const struct policy_simulation *simulation);
/** Those that wait do until then. */
void policy_simulation_count_waits(struct policy_simulation *simulation, uint64_t until_ms);

/* ladder_quota.c */
/** Would the tenant's quotas take one more block there? */
bool policy_simulation_admits(const struct policy_simulation *simulation, uint32_t block,
                              uint32_t tier);
/** `*moved` is set where something moved. */
KVT_NODISCARD enum kvt_err policy_simulation_drain_quotas(struct policy_simulation *simulation,
                                                          bool *moved);

#endif /* POLICY_SIMULATE_POLICY_SIMULATION_PRIVATE_H */
