/*
 * advisor/selection/tenant_quotas.h -- what tenants have, beside what the policy lets them have.
 *
 * Why: a quota is about the blocks of one tenant in one tier, or in all together; no report says
 * how many bytes those are.  The sums follow each committed group and are made of the rows at a
 * start, so that they are what the rows come to at every moment.
 *
 * Beyond `soft` the tenant's blocks leave the tier, those first that were not used for longest, and
 * of a chain its end; beyond `hard` nothing of the tenant's is promoted, and a tier's blocks leave
 * whether or not a rule's condition is true of them.  What a rule (pin, exclude) or a person keeps
 * stays.
 *
 * Ownership: the planner owns it.
 * Threads:   the writer's; views are copied under the planner's lock.
 * Limits:    ADVISOR_QUOTAS_MAX quotas, as a policy has at most; one tier of one quota is gone
 *            through at a time, ADVISOR_QUOTA_SEATS of its blocks in a tick, and of those
 *            ADVISOR_QUOTA_PICKS are remembered.
 */
#ifndef ADVISOR_SELECTION_TENANT_QUOTAS_H
#define ADVISOR_SELECTION_TENANT_QUOTAS_H

#include "advisor/index/byte_sums.h"
#include "advisor/selection/planner_types.h"
#include "index/index.h"

#include "policy/file/policy_file.h"

#define ADVISOR_QUOTA_SEATS   (1u << 21)
#define ADVISOR_QUOTA_PICKS   16384
#define ADVISOR_QUOTA_LOOKS   2048            /* at picks in a tick: draining has its time too */
#define ADVISOR_QUOTA_REST_MS UINT64_C(60000) /* of one of which nothing may leave */

struct advisor_rules;
struct advisor_planner;

/* Of one quota of a policy. */
struct advisor_quota_state {
    uint64_t used;
    uint64_t coming;  /* what promotions that are under way bring */
    uint64_t rest_ms; /* nothing of it may leave: it is looked at again then */
    uint32_t turn;    /* the tier that is looked at next */
    uint32_t idle;    /* tiers in turn of which nothing left */
    bool stuck;
};

/* Quotas that count a row of the ledger: its tier's, and the one of all tiers; -1: none. */
struct advisor_quota_row {
    int32_t quotas[2];
    uint64_t gone; /* bytes that went since it was packed, or the start (bucket_packing.c) */
    uint64_t compacted_ms; /* when that was ordered last; 0: never */
};

/* A block of the tenant's, in the order in which they leave. */
struct advisor_quota_pick {
    uint64_t hash;
    uint64_t tick; /* of the last use */
    uint32_t ns;
    uint32_t position;
};

/* Going through the blocks of one tier for one quota. */
struct advisor_quota_pass {
    bool active;
    bool ready; /* all were looked at: `picks` are in their order */
    int32_t quota;
    uint32_t tier;
    uint32_t seat;
    uint32_t count;
    uint32_t next;
    bool ordered;                               /* something of it left */
    struct advisor_quota_pick *picks;           /* ADVISOR_QUOTA_PICKS; NULL: none yet */
    uint64_t wanted[INDEX_NAMESPACES_MAX / 64]; /* namespaces of the tenant's */
};

/* How far the quotas of one policy are drained. */
struct advisor_quota_drain {
    struct advisor_quota_state states[ADVISOR_QUOTAS_MAX];
    uint32_t count;
    int32_t turn; /* the quota that is looked at next */
    struct advisor_quota_pass pass;
};

struct advisor_planner_quotas {
    struct advisor_byte_sums *ledger; /* by namespace and tier of the planner's */
    struct advisor_quota_row *rows;   /* of the ledger's rows */
    size_t row_count;
    size_t row_capacity;
    bool lost; /* there was no memory for a row: the sums are too low */
    struct advisor_quota_drain drain;
};

KVT_NODISCARD enum kvt_err advisor_planner_quotas_new(struct advisor_planner_quotas **out);
/** NULL is allowed. */
void advisor_planner_quotas_free(struct advisor_planner_quotas *quotas);

/** Another version of the policy is followed: all is added up anew. */
void advisor_planner_follow_quotas(struct advisor_planner *planner);
/** A namespace has so many bytes more, or less, in a tier. */
void advisor_planner_count_bytes(struct advisor_planner *planner, uint32_t ns, uint32_t tier,
                                 int64_t bytes);
/** At the begin of a tick: count what is on its way into tiers. */
void advisor_planner_expect(struct advisor_planner *planner);

/** The quotas of a policy, in force or not, that count a namespace in a tier: the tier's, and the
 *  one of all tiers; -1: none. */
void advisor_quotas_of(const struct advisor_planner *planner, const struct advisor_rules *rules,
                       uint32_t ns, uint32_t tier, int32_t quotas[2]);
/** Is the namespace one of the tenant's? */
bool advisor_quota_is_of(const char *namespace_, const char *tenant);

/** May so many bytes more of a namespace come into a tier?  If so, they are expected. */
bool advisor_planner_admits(struct advisor_planner *planner, uint32_t ns, uint32_t tier,
                            uint64_t bytes);

/** Bytes beyond which blocks leave; the hard quota where no soft one is given. */
uint64_t advisor_quota_soft(const struct policy_quota *quota);
enum advisor_quota_over advisor_quota_over(const struct policy_quota *quota, uint64_t used);

/** The quota that a block there counts towards and that is nearest to its end, or beyond it; false:
 *  none counts it. */
bool advisor_planner_quota_of(const struct advisor_planner *planner, uint32_t ns, uint32_t tier,
                              struct advisor_quota_view *view);

/** Of so many bytes more in a tier, of a policy in force or not: the quota that keeps them out; -1:
 *  none does. */
int32_t advisor_quota_refuses(const struct advisor_planner *planner,
                              const struct advisor_rules *rules,
                              const struct advisor_quota_drain *drain, uint32_t ns, uint32_t tier,
                              uint64_t bytes);

/** Why a block leaves, for people: the quota, and the rule by which it is met (NULL: none). */
void advisor_quota_reason(const struct policy_quota *quota, const struct policy_rule *rule,
                          char *text, size_t size);

/** The rule that deletes from a tier of the policy; -1: none.  Beyond the hard quota it is what is
 *  left where nothing lies below. */
int32_t advisor_quota_expirer(const struct policy *policy, int32_t place);

/** The seats of the tier are others: whoever goes through them begins anew. */
void advisor_planner_restart_quota(struct advisor_planner *planner, uint32_t tier);

/** For those who look; under the lock of what is shared. */
void advisor_planner_show_quotas(struct advisor_planner *planner);
/** Of the policy that is followed, in its order.  Any thread. */
size_t advisor_planner_quotas(struct advisor_planner *planner, struct advisor_quota_view *views,
                              size_t capacity);
/** "within", "soft" or "hard". */
const char *advisor_quota_word(enum advisor_quota_over over);

#endif /* ADVISOR_SELECTION_TENANT_QUOTAS_H */
