/*
 * advisor/job/jobs.h -- work that somebody asked for: moves of many blocks, followed to their end.
 *
 * Why: a purge of a tenant or a plan that was approved is millions of moves over hours.  It must go
 * on where it was after a crash at any instant, must not take the gateways for itself, and must
 * stop by itself when much of it fails.  So its batches are written before any of them is ordered;
 * each is ordered as the policy's moves are, and its result is in the transaction that takes the
 * order's.  What was under way at a crash is ordered again: orders may be executed twice.
 *
 * A job runs in the modes observe and enforce: observe is about what the advisor decides by itself,
 * and a job is a person's decision.  In the mode off, and while the planner is paused, nothing of
 * it is ordered; it waits.
 *
 * A plan was made for tiers as they were, and has a limit of deletions: while one is open (from its
 * first part to the first report after its end) the rules in force leave the tiers of its moves
 * alone, or both would empty them at once.  A plan without progress for ADVISOR_JOB_HOLD_MS, be it
 * stuck, paused or never given whole, keeps them out no longer.
 *
 * Ownership: the jobs own their batches; store and planner are borrowed.  Requests are copied.
 * Threads:   the writer's thread, except where it says any.
 * Limits:    those below.  A job whose rows would not leave a part of the store free is refused.
 */
#ifndef ADVISOR_JOB_JOBS_H
#define ADVISOR_JOB_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/order/planner.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/job_rows.h"
#include "kvtier/order.h"

#define ADVISOR_JOBS_KEPT           256      /* the oldest that ended make room */
#define ADVISOR_JOBS_OPEN_MAX       64       /* that did not end */
#define ADVISOR_JOB_BATCHES_MAX     16384    /* of a job */
#define ADVISOR_JOB_BLOCKS_MAX      4194304  /* of a job */
#define ADVISOR_JOB_PART_BLOCKS_MAX 1048576  /* that come at once */
#define ADVISOR_JOB_ORDERS_MAX      4        /* of a job that are outstanding */
#define ADVISOR_JOB_ATTEMPTS_MAX    5        /* at a batch */
#define ADVISOR_JOB_SUSPEND_PPM     100000   /* share of errors that pauses a job, unless it says */
#define ADVISOR_JOB_SUSPEND_MIN     16       /* errors before a share means something */
#define ADVISOR_JOB_FILLING_MS      86400000 /* that the rest of a job may take to come */
#define ADVISOR_JOB_HOLD_MS         600000   /* without progress: rules act beside an open plan */
#define ADVISOR_JOB_WAIT_MS         8000 /* for the writer to take a request and make it durable */

struct advisor_jobs;

struct advisor_jobs_options {
    struct advisor_store *store;
    struct advisor_planner *planner;
};

KVT_NODISCARD enum kvt_err advisor_jobs_new(struct advisor_jobs **out,
                                            const struct advisor_jobs_options *options);
/** NULL is allowed.  Nobody may be waiting in it. */
void advisor_jobs_free(struct advisor_jobs *jobs);

/* ---- any thread: handed to the writer and waited for; durable when they return KVT_OK ---- */

/* Blocks of one gateway, namespace and verb. */
struct advisor_job_moves {
    enum kvt_order_verb verb;
    const char *gateway;
    const char *namespace_;
    const char *from; /* moves only: as kvt_order's; NULL, both: between hot volume and bucket */
    const char *to;
    bool keep;         /* as kvt_order's: with both only */
    uint64_t until_ms; /* PIN; 0: until an unpin */
    uint64_t bytes;
    const struct kvt_order_item *items;
    size_t count; /* any; batches are made of them */
};

/** How many batches so many blocks of one gateway, namespace and verb become. */
size_t advisor_jobs_batches(uint64_t bytes, size_t blocks);

struct advisor_job_request {
    const char *kind;  /* "plan", "prefix", "tenant": for people */
    const char *title; /* for people */
    const char *key;   /* NULL: none.  A job with this key that is there already is added to, or
                          answered with: nothing is done twice. */
    uint64_t policy_version;
    uint32_t suspend_ppm; /* 0: ADVISOR_JOB_SUSPEND_PPM */
    uint32_t part;        /* with a key: number of this part, from 0 on */
    bool more;            /* with a key: other parts follow; nothing begins before the last */
    const struct advisor_job_moves *moves;
    size_t move_count;
};

/**
 * Take a job, or a part of one.
 *
 * @param[out] job  the job as it is now, all 0 on failure
 * @return KVT_OK (also: this part is there already); KVT_INVALID, KVT_RANGE (a part that does not
 * follow; above a limit), KVT_FULL (too many jobs, or no room in the store), KVT_PRECONDITION (no
 * key to sign orders with), KVT_UNAVAILABLE (the writer takes nothing now: nothing happened),
 * KVT_TIMEOUT (it may happen yet), KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err advisor_jobs_submit(struct advisor_jobs *jobs,
                                               const struct advisor_job_request *request,
                                               struct advisor_job_row *job, struct kvt_error *err);

/** All that advisor_jobs_submit() refuses before the writer has it; nothing is taken. */
KVT_NODISCARD enum kvt_err advisor_jobs_check(const struct advisor_jobs *jobs,
                                              const struct advisor_job_request *request,
                                              struct kvt_error *err);

enum advisor_job_command { ADVISOR_JOB_PAUSE, ADVISOR_JOB_RESUME, ADVISOR_JOB_CANCEL };

/** Resuming one that failed tries again what failed.  KVT_OK (also: it is so already),
 *  KVT_NOTFOUND, KVT_PRECONDITION (it ended otherwise), and as above. */
KVT_NODISCARD enum kvt_err advisor_jobs_command(struct advisor_jobs *jobs, uint64_t id,
                                                enum advisor_job_command command,
                                                struct advisor_job_row *job, struct kvt_error *err);

/** The stop switch: no order leaves, of the policy or of jobs, until it is taken off. */
KVT_NODISCARD enum kvt_err advisor_jobs_stop_all(struct advisor_jobs *jobs, bool paused,
                                                 struct kvt_error *err);

/** "filling", "queued", "running", "paused", "done", "failed", "cancelled". */
const char *advisor_job_state_name(uint32_t state);
bool advisor_job_has_ended(uint32_t state);

/* ---- the writer's thread ---- */

KVT_NODISCARD enum kvt_err advisor_jobs_load(struct advisor_jobs *jobs,
                                             const struct advisor_txn *txn);
/** Take requests, results of orders, and order what comes next.  Before the planner's tick. */
void advisor_jobs_tick(struct advisor_jobs *jobs, uint64_t now_ms);
bool advisor_jobs_dirty(struct advisor_jobs *jobs);
KVT_NODISCARD enum kvt_err advisor_jobs_save(struct advisor_jobs *jobs,
                                             const struct advisor_txn *txn);
void advisor_jobs_saved(struct advisor_jobs *jobs);
/** All that was saved survives a power cut: whoever waits for it may go on. */
void advisor_jobs_synced(struct advisor_jobs *jobs);

#endif /* ADVISOR_JOB_JOBS_H */
