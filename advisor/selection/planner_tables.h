/*
 * advisor/selection/planner_tables.h -- the planner's tiers, gateways, candidates and orders.
 *
 * Why: what chooses blocks, what orders them and what plans without ordering work on one set of
 * tables, and stand above each other.
 *
 * Ownership: the planner owns everything here (advisor/order/planner.h makes and frees it).
 * Threads:   `shared` is guarded by its lock; all else belongs to the writer's thread.
 * Limits:    those below and in advisor/selection/planner_types.h.
 */
#ifndef ADVISOR_SELECTION_PLANNER_TABLES_H
#define ADVISOR_SELECTION_PLANNER_TABLES_H

#include <pthread.h>

#include "advisor/selection/planner_types.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/rule_set.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/name_table.h"
#include "kvtier/order.h"

#include "policy/decide/tier_blocks.h"

#define ADVISOR_CANDIDATES_MAX         KVT_ORDER_ITEMS_MAX
#define ADVISOR_LOOKS_MAX              8192  /* blocks of a tier that are looked at in a tick */
#define ADVISOR_NEWS_MAX               16384 /* new blocks to be asked about; more are left out */
#define ADVISOR_DEPARTED_BLOCKS_A_LOOK 4096  /* blocks of workers that left, looked at in a round */
#define ADVISOR_RESUME_MAX             65536 /* set-aside blocks that return in a tick */
#define ADVISOR_NONE                   UINT32_MAX

/* Reports older than this say nothing about now. */
#define ADVISOR_REPORT_STALE_MS  15000
/* A gateway that did not report for this long no longer keeps a former life out. */
#define ADVISOR_REPORT_SILENT_MS 5000
/* So long a tier waits for jobs that are no plans; then its rules act beside them. */
#define ADVISOR_JOBS_YIELD_MS    60000
/* What no rule took when nothing else was left to choose is looked at again after this. */
#define ADVISOR_PASS_MS          60000
#define ADVISOR_PASS_LEAST_MS    1000 /* where rules protect what is recent for less than that */
/* Items of a finished order come back into the ordering after this: their events are on the way. */
#define ADVISOR_SETTLE_MS        3000
/* Reads are reported, and stores flushed, so many ticks after each other. */
#define ADVISOR_REQUEST_TICKS    20

struct advisor_departed_blocks;
struct advisor_number_map;
struct advisor_pins;
struct advisor_planner_quotas;
struct advisor_refusals;
struct advisor_rerank;

struct advisor_tier {
    char name[KVT_NAME_MAX];
    bool volume;                          /* else a bucket */
    int32_t place;                        /* tier of the policy; -1: none */
    struct advisor_rule_set draining;     /* rules that began to, and are not at their stop */
    bool resuming;                        /* what was set aside comes back first */
    uint64_t kept[ADVISOR_RULES_MAX];     /* bytes that rules pinned, as of the last pass */
    uint64_t counting[ADVISOR_RULES_MAX]; /* the same, in the pass that goes on */
    uint64_t exhausted_ms;                /* since when nothing else is left to choose; 0: it is */
    bool truncated;                       /* some of its blocks did not fit into the roster */
    struct advisor_ranking ranking;
    struct policy_tier_blocks *roster; /* its first: who is there, and how it stands */
    struct kvt_report_tier report;
    uint64_t report_ms;     /* 0: never */
    uint32_t gateway;       /* who reported it last */
    uint32_t leaving;       /* demote or delete orders outstanding */
    uint32_t coming;        /* promote orders outstanding */
    uint64_t incoming;      /* bytes that all outstanding orders bring to it */
    uint32_t job_leaving;   /* orders of jobs that empty it: outstanding, or events on the way */
    uint64_t jobs_since_ms; /* since when it waits for them; 0: it does not */
    bool held;              /* an open plan moves its blocks */
    bool stuck;             /* it drains, and what is left to be chosen was refused */
    uint64_t staged_ms;     /* all that should have a copy below had one then */
    uint64_t return_ms;     /* 0: all refusals are remembered; else all blocks come back then */
};

/* Something happened to a block in a tier, and rules are to be asked what that means. */
struct advisor_news {
    uint64_t hash;
    uint32_t ns;
    uint32_t tier;
    enum policy_event event;
    bool moved; /* an order of ours brought it: it is not to go back for that */
};

/* A pass over the rows of the store, for rules without watermarks. */
struct advisor_sweep {
    struct advisor_rule_set rules; /* that act in it; none: there is no pass */
    uint64_t from;                 /* hash where it goes on */
    bool within;                   /* in the row of `ns`, at the place of `holder`: */
    uint32_t ns;
    uint32_t holder; /* what comes before it there was seen to; ADVISOR_NONE: nothing */
};

/* Read from a bucket often enough to be asked about. */
struct advisor_candidate {
    struct policy_block block;
    uint32_t tier;  /* the bucket */
    uint32_t reads; /* from it, since the block was last in a hot volume */
};

struct advisor_gateway {
    struct advisor_gateway_row row;
    bool dirty;
    bool healthy;
    uint64_t report_ms;                   /* its clock */
    uint64_t heard_ms;                    /* our clock */
    uint64_t reads[KVT_READ_RESULTS];     /* as reported last */
    bool reads_known;                     /* it reported since the start; with a key: it signs */
    uint32_t tiers[KVT_REPORT_TIERS_MAX]; /* as it reported them last */
    uint32_t tier_count;
    uint32_t hot;  /* the first volume and bucket of them, or ADVISOR_NONE: what an order that */
    uint32_t cold; /* names no tiers is between */
    struct advisor_candidate *candidates; /* ADVISOR_CANDIDATES_MAX */
    uint32_t candidate_count;
};

struct advisor_order {
    struct advisor_order_row row;
    struct kvt_order_item *items;  /* NULL: of an earlier start */
    uint64_t until_ms;             /* of a pin */
    struct kvt_delete_cause cause; /* of a deletion */
    uint32_t ns;
    uint32_t from;     /* the tier that it relieves; ADVISOR_NONE: none, or of an earlier start */
    uint32_t to;       /* the tier that it fills; the same */
    uint64_t bringing; /* bytes that `to` did not have when it was made */
    uint32_t also[KVT_REPORT_TIERS_MAX]; /* of_job: further tiers that it empties */
    uint32_t also_count;
    uint32_t rule;  /* that ordered it, plus 1; 0: none did */
    uint32_t quota; /* that it was ordered for, plus 1; 0: none */
    uint64_t rules_version;
    bool of_job;      /* its blocks are in the rosters as before, and its tiers wait for it */
    uint32_t counted; /* blocks that an earlier attempt at the same moved */
    bool swept;       /* by a pass over the rows: its blocks may be another order's too */
    bool dirty;
    bool unsent;
    bool finished;          /* result or expiry seen */
    uint64_t retry_at_ms;   /* not sent again before */
    uint64_t release_at_ms; /* finished: forgotten then */
};

struct advisor_order_key {
    uint64_t epoch;
    uint64_t id;
};

/* What an ordering that a tier has no more had learned of it, until that is written. */
struct advisor_parting {
    struct advisor_parting *next;
    const struct kvt_ordering *ordering;
    char tier[KVT_NAME_MAX];
    size_t size;
    uint8_t bytes[];
};

/* An order that a plan asks for, and no tier has. */
enum advisor_plan_order {
    ADVISOR_PLAN_NONE,
    ADVISOR_PLAN_MADE,  /* by a thread */
    ADVISOR_PLAN_TAKEN, /* the plan goes by it */
    ADVISOR_PLAN_ENDS,  /* on its thread */
};

/* One tier gets another order. */
struct advisor_reranking {
    struct advisor_rerank *rerank; /* NULL: none does */
    bool hears;                    /* else it is given up, or through, and ends by itself */
    uint32_t tier;
    struct advisor_orders wanted; /* when it is through */
    struct advisor_orders made;
    uint64_t again_ms; /* not before */
    struct advisor_parting *parting;

    enum advisor_plan_order plan;
    struct advisor_rerank *planning; /* of the plan's order; NULL: NONE */
    uint32_t plan_tier;
    struct advisor_ranking planned; /* TAKEN: what it goes by */
    bool awaited;                   /* a plan waits until `rerank` is through */
};

/* Something that looks at the tiers between ticks, and chooses as the planner does. */
struct advisor_planner_guest {
    /** At each tick: end it if it is too old. */
    void (*end_if_late)(void *arg);
    /** Has it taken blocks out, so that none may be chosen beside it? */
    bool (*chooses)(const void *arg);
    void *arg;
};

struct advisor_planner {
    struct advisor_planner_options options;
    struct advisor_counters counters;
    const struct advisor_name_table *names;
    struct advisor_refusals *refusals;
    struct advisor_store *store;
    const struct advisor_rules *rules; /* that are followed; taken */
    bool asks_rows;
    bool asks_fanout;
    bool edges_changed; /* a gateway has other tiers than it had, or the rules are others */
    bool by_price;      /* some rule promotes by price: every read from a bucket is asked about */
    struct advisor_rule_state rule_states[ADVISOR_RULES_MAX];
    struct advisor_rule_state former_rules[ADVISOR_RULES_MAX]; /* while a version is taken up */
    uint32_t rule_count;
    struct advisor_planner_quotas *quotas;
    struct advisor_pins *pins;
    struct advisor_reranking reranking;
    struct advisor_sweep sweep;
    struct advisor_rule_set compacting; /* whose time has come, in this pass over namespaces */
    size_t compact_at;                  /* row of the ledger where the pass goes on */
    bool hears_stored;                  /* some rule is asked when a block is stored, */
    bool hears_lost;                    /* when no worker has it any more, */
    bool hears_ends;                    /* or when nobody can go on from it */
    struct advisor_departed_blocks *departed; /* NULL: none yet */
    struct advisor_number_map *departed_told; /* of them, until they are through; NULL: nothing */
    size_t departed_rest;                     /* that there were after the last look */
    struct advisor_news *news;                /* ADVISOR_NEWS_MAX; NULL: none yet */
    uint32_t news_count;
    uint32_t sweeping;                   /* its orders that are outstanding */
    struct advisor_planner_guest *guest; /* a dry run that goes on; NULL: none */
    uint64_t now_ms;                     /* of the last tick */
    struct advisor_tier tiers[ADVISOR_TIERS_MAX];
    uint32_t tier_count;
    uint32_t turn;     /* the tier that a tick begins with */
    uint32_t *tier_of; /* by holder number */
    uint32_t tier_of_count;
    struct advisor_gateway gateways[ADVISOR_GATEWAYS_MAX];
    uint32_t gateway_count;

    struct advisor_order **orders; /* unfinished, and finished ones that settle */
    size_t order_count;
    size_t order_capacity;
    struct advisor_order_key *kept; /* all in the store, oldest first */
    size_t kept_count;
    size_t kept_capacity;
    size_t forget_count; /* the first of `kept` that are to be deleted with the next save */
    uint64_t epoch;
    uint64_t next_id;
    uint64_t reports_signed; /* ADVISOR_META_REPORTS_SIGNED of the last start */
    bool epoch_dirty;
    bool learned_dirty;
    uint64_t learned_ms;            /* when it became so last */
    enum advisor_mode written_mode; /* with the last save */
    bool written_paused;            /* the same */

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        enum advisor_mode mode;
        bool mode_dirty;
        bool paused;
        bool paused_dirty;
        struct advisor_tier_view tiers[ADVISOR_TIERS_MAX];
        size_t tier_count;
        struct advisor_gateway_view gateways[ADVISOR_GATEWAYS_MAX];
        size_t gateway_count;
        struct advisor_rule_view rules[ADVISOR_RULES_MAX];
        size_t rule_count;
        struct advisor_quota_view quotas[ADVISOR_QUOTAS_MAX];
        size_t quota_count;
    } shared;
};

/** Bytes of the shards that are in its tier. */
static inline uint64_t
advisor_planner_bytes(const struct policy_block *block)
{
    return block->size * (uint64_t)__builtin_popcount(block->ranks);
}

/** The shards of a row's block in one tier. */
static inline struct policy_block
advisor_planner_block_of(const struct advisor_store_block *row, uint32_t ranks)
{
    return (struct policy_block){.hash = row->hash,
                                 .parent = row->parent,
                                 .ns = row->ns,
                                 .position = row->position,
                                 .ranks = ranks,
                                 .size = row->size < UINT32_MAX ? (uint32_t)row->size : UINT32_MAX};
}

static inline bool
advisor_planner_is_stale(uint64_t report_ms, uint64_t now_ms)
{
    return report_ms == 0 || now_ms > report_ms + ADVISOR_REPORT_STALE_MS;
}

/** The tier behind a holder's number, if it was met before; else ADVISOR_NONE. */
static inline uint32_t
advisor_planner_known_tier(const struct advisor_planner *planner, uint32_t holder)
{
    return holder < planner->tier_of_count ? planner->tier_of[holder] : ADVISOR_NONE;
}

/** The tier of a policy, in force or not, that a live tier belongs to; -1: none. */
static inline int32_t
advisor_planner_place(const struct advisor_planner *planner, const struct advisor_rules *rules,
                      uint32_t tier)
{
    return rules == planner->rules ? planner->tiers[tier].place
                                   : advisor_rules_tier(rules, planner->tiers[tier].name);
}

/** The gateway of that name, made on first use; NULL when there are too many. */
struct advisor_gateway *advisor_planner_find_gateway(struct advisor_planner *planner,
                                                     const char *name);
/** Its number, if it is known; else ADVISOR_NONE. */
uint32_t advisor_gateway_number(const struct advisor_planner *planner, const char *name);
/** The tier of that name, made on first use; ADVISOR_NONE when it is none or there are too many. */
uint32_t advisor_planner_tier(struct advisor_planner *planner, const char *name);
/** The tier behind a holder's number; ADVISOR_NONE as above. */
uint32_t advisor_planner_tier_of(struct advisor_planner *planner, uint32_t holder);
/** Of any tier's; without an ordering. */
struct policy_tier_blocks_options
advisor_planner_roster_options(const struct advisor_planner *planner);
/** Some of its blocks are not considered. */
void advisor_planner_say_truncated(struct advisor_tier *tier);
/** The first `capacity` of some views, whose number is `count`; on any thread. */
size_t advisor_planner_copy_views(struct advisor_planner *planner, const size_t *count,
                                  const void *from, size_t size, void *views, size_t capacity);
/** Is the block on its way out of the tier?  One that its gateway did not let go is not. */
bool advisor_planner_is_leaving(const struct advisor_planner *planner, uint32_t tier,
                                const struct policy_block *block);

#endif /* ADVISOR_SELECTION_PLANNER_TABLES_H */
