/*
 * advisor/job/jobs_private.h -- what the files jobs*.c share.
 *
 * Why: taking requests, running jobs and keeping them are each a page of their own.
 * Ownership: as advisor/job/jobs.h.
 * Threads:   `shared` is guarded by its lock; all else belongs to the writer's thread.
 * Limits:    as advisor/job/jobs.h.
 */
#ifndef ADVISOR_JOB_JOBS_PRIVATE_H
#define ADVISOR_JOB_JOBS_PRIVATE_H

#include <pthread.h>

#include "advisor/job/jobs.h"
#include "advisor/order/order_ledger.h"
#include "advisor/selection/planner_tables.h"

/* Jobs that have orders at once: the policy's own orders wait behind theirs at a gateway. */
#define ADVISOR_JOBS_RUNNING_MAX 4

/* A batch that is not in the store yet. */
struct advisor_job_fresh {
    struct advisor_job_batch batch;
    struct kvt_order_item *items; /* NULL: none */
};

enum advisor_job_slot_state {
    ADVISOR_SLOT_FREE,
    ADVISOR_SLOT_ORDERED,
    ADVISOR_SLOT_WAITING, /* to be ordered again at `at_ms` */
    ADVISOR_SLOT_FINISHED /* its result is to be written */
};

/* A batch that is under way. */
struct advisor_job_slot {
    enum advisor_job_slot_state state;
    uint32_t n;
    uint64_t order; /* its number */
    uint64_t at_ms;
    uint32_t former_done; /* of a round before, which is counted already */
    uint32_t former_failed;
    uint32_t counted; /* the most of its blocks that were done in an attempt */
    struct advisor_job_batch batch;
};

#define ADVISOR_JOB_HOT 1U
#define ADVISOR_JOB_ALL 2U

struct advisor_job {
    struct advisor_job_row row;
    uint64_t progress_ms;                   /* a part came, it began, or blocks were done */
    bool everywhere;                        /* moves at gateways that were not known */
    uint8_t places[ADVISOR_GATEWAYS_MAX];   /* tiers of its moves: ADVISOR_JOB_HOT and _ALL */
    uint64_t tiers[ADVISOR_TIERS_MAX / 64]; /* those that its moves name, by their numbers */
    bool dirty;
    bool unwritten;                  /* some of it is not in the store yet */
    uint32_t next;                   /* batches before it were looked at in this round */
    struct advisor_job_fresh *fresh; /* the last of its batches */
    size_t fresh_count;
    struct advisor_job_slot slots[ADVISOR_JOB_ORDERS_MAX];
};

enum advisor_job_asked { ADVISOR_ASKED_SUBMIT, ADVISOR_ASKED_COMMAND, ADVISOR_ASKED_STOP };

/* Of some thread to the writer's. */
struct advisor_job_ask {
    enum advisor_job_asked what;
    enum advisor_job_command command;
    bool paused;
    bool more;
    uint32_t part;
    struct advisor_job_row row; /* asked: the new job, or the id; answered: the job */
    struct advisor_job_fresh *fresh;
    size_t fresh_count;
    enum kvt_err rc;
    struct kvt_error err;
    /* Guarded by the lock. */
    struct advisor_job_ask *next;
    bool queued;
    bool answered;
    bool abandoned; /* its thread waits no more: the writer frees it */
};

struct advisor_jobs {
    struct advisor_jobs_options options;
    struct advisor_job *list[ADVISOR_JOBS_KEPT]; /* by id */
    size_t count;
    uint64_t next_id;
    bool next_dirty;
    struct advisor_job *gone[ADVISOR_JOBS_KEPT]; /* to be deleted with the next save */
    size_t gone_count;
    struct advisor_job_ask *taken; /* answered when they are durable */

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        pthread_cond_t answered;
        struct advisor_job_ask *first;
        struct advisor_job_ask *last;
    } shared;
};

/* jobs.c */
void advisor_job_free(struct advisor_job *job);
void advisor_job_free_fresh(struct advisor_job_fresh *fresh, size_t count);
struct advisor_job *advisor_jobs_find(const struct advisor_jobs *jobs, uint64_t id);

/* jobs_requests.c */
/** Take what was asked; it is answered when it is durable, or at once where it was refused. */
void advisor_jobs_take(struct advisor_jobs *jobs, uint64_t now_ms);
/** Those whose rest does not come any more make room for others. */
void advisor_jobs_age(struct advisor_jobs *jobs, uint64_t now_ms);

/* jobs_tiers.c */
/** Its moves are of these tiers. */
void advisor_job_note_places(struct advisor_job *job, struct advisor_planner *planner,
                             const struct advisor_job_batch *batch);
/** The same from the store, of plans that are open. */
void advisor_jobs_load_places(struct advisor_jobs *jobs, const struct advisor_txn *txn);
/** The tiers that the order empties or fills. */
void advisor_jobs_place_order(struct advisor_planner *planner, struct advisor_order *order);
/** Tell the planner which tiers it leaves to open plans. */
void advisor_jobs_hold(struct advisor_jobs *jobs, uint64_t now_ms);

/* jobs_run.c */
/** Results of orders. */
void advisor_jobs_follow(struct advisor_jobs *jobs, uint64_t now_ms);
/** New orders, where they may leave. */
void advisor_jobs_order(struct advisor_jobs *jobs, uint64_t now_ms);

#endif /* ADVISOR_JOB_JOBS_PRIVATE_H */
