/*
 * kvbm/offload/manager_internal.h -- what the files of the offload manager share; nobody else
 * includes it.
 *
 * Why: passes and threads (manager.c), when a tier is lowered (manager_edge.c), a batch on its way
 * (manager_job.c) and what is asked for from above (manager_onboard.c) are four things.
 *
 *     job, down:  [copy] ─► [put]                  to a pool: copy; to G4: put, after a copy where
 *                                                  the source has no address
 *     job, up:    [get] ─► [copy] ─► room ─► copy  from G4: get, and a copy where the target has
 *                                                  no address; a second hop through G2
 *
 * Ownership: the manager owns edges, jobs and the onboards it was given, until they are finished.
 * Threads:   `shared` is behind its lock, a leaf; counters are atomic; the rest is the stepping
 *            thread's, but for what a job's copies and items belong to until their ticket is
 *            finished.
 * Limits:    as kvtier/offload.h.
 */
#ifndef KVBM_OFFLOAD_MANAGER_INTERNAL_H
#define KVBM_OFFLOAD_MANAGER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvbm/offload/manager.h"
#include "kvbm/transfer/queue_ticket.h"

#define KVBM_MANAGER_TIERS (KVT_TIER_G4 + 1) /* by enum kvt_tier */

enum kvbm_job_state {
    KVBM_JOB_FREE,
    KVBM_JOB_ROOM, /* for the next hop up */
    KVBM_JOB_COPY,
    KVBM_JOB_PUT,
    KVBM_JOB_GET,
};

enum kvbm_job_why { KVBM_JOB_PUSHED, KVBM_JOB_LOWERED, KVBM_JOB_IDLE, KVBM_JOB_ONBOARD };

/* One block of a batch. */
struct kvbm_job_block {
    struct kvt_handle source; /* held; none when it comes from G4 */
    struct kvt_handle target; /* held; none when it goes to G4 */
    struct kvbm_label label;
    enum kvt_err status;
};

struct kvbm_job {
    struct kvbm_manager *manager;
    struct kvbm_edge_down *edge;  /* NULL: up */
    struct kvbm_onboard *onboard; /* NULL: down, or nobody waits for it any more */
    enum kvbm_job_state state;
    enum kvbm_job_why why;
    bool prefetch;
    enum kvt_tier from; /* of this hop */
    enum kvt_tier to;
    enum kvt_tier last;   /* of all hops */
    enum kvt_tier origin; /* where the blocks were found */
    uint32_t first;       /* of the onboard's blocks */
    uint64_t room_ms;     /* since when it waits for room; 0: it does not */
    struct kvbm_storage *staging;
    uint32_t staging_first;
    bool staged; /* the copy is into, or out of, `staging` */
    kvbm_onboard_check_fn *check;
    void *check_arg;
    size_t count;
    struct kvbm_job_block entries[KVT_OFFLOAD_BATCH];
    /* Of the request under way: */
    struct kvt_ticket *ticket;
    _Atomic bool answered; /* its ticket is finished, or just about to be */
    size_t moving;
    size_t owner[KVT_OFFLOAD_BATCH]; /* block of a copy or item */
    struct kvt_copy copies[KVT_OFFLOAD_BATCH];
    struct kvt_volume_item items[KVT_OFFLOAD_BATCH];
    uint64_t bytes; /* told to the cost */
    uint64_t ahead;
    uint64_t began_ns;
};

/* What leaves one tier downwards. */
struct kvbm_edge_down {
    struct kvbm_manager *manager;
    enum kvt_tier from;
    enum kvt_tier to;
    bool present;
    bool lowering; /* between the watermarks, on the way down */
    bool dry;      /* it should have moved something, and nothing may go */
    bool waits;    /* for room in the tier below, as of the last look */
    bool rests;    /* the last look found nothing to do */
    size_t batch_max;
    uint32_t demand;              /* blocks somebody wants free */
    uint32_t idle_at;             /* where the look for idle blocks goes on */
    uint64_t pause_ms;            /* until when it does not try */
    uint64_t room_ms;             /* since when it waits for the tier below */
    _Atomic bool stalled;         /* it made no progress, or somebody waited for it in vain */
    struct kvbm_storage *staging; /* for G4, where the source has no address */
    struct kvbm_job jobs[KVT_OFFLOAD_JOBS];
    struct {
        _Atomic uint64_t blocks;
        _Atomic uint64_t bytes;
        _Atomic uint64_t present;
        _Atomic uint64_t filtered;
        _Atomic uint64_t failed;
        _Atomic uint64_t full;
        _Atomic uint64_t corrupt;
        _Atomic uint64_t pushed;
        _Atomic uint64_t lowered;
        _Atomic uint64_t idle;
        _Atomic uint64_t moving;
    } counts;
};

#define KVBM_ONBOARD_NONE UINT32_MAX

struct kvbm_onboard {
    struct kvbm_manager *manager;
    struct kvbm_onboard *next;
    struct kvbm_label *labels;
    struct kvt_handle *handles; /* of the target; none: has not arrived */
    uint8_t *origins;           /* tier each block was found in */
    uint32_t count;
    enum kvt_tier target;
    bool prefetch;
    uint64_t until_ms; /* 0: no deadline */
    kvt_onboard_done_fn *done;
    void *arg;
    kvbm_onboard_check_fn *check;
    void *check_arg;
    uint32_t at;        /* blocks before it have arrived or are on their way */
    uint32_t end;       /* what is behind it will not come, ... */
    enum kvt_err why;   /* ... for this */
    uint32_t failed_at; /* the first that was on its way and did not arrive, or NONE */
    uint32_t not_in_g4; /* G4 said so of this one */
    uint32_t running;   /* jobs */
    uint32_t retries;
    uint64_t room_ms; /* since when it waits for room; 0: it does not */
    /* What is next, held: or making room for it would push it out. */
    struct kvt_handle sources[KVT_OFFLOAD_BATCH]; /* none, from G4 */
    enum kvt_tier source_tier;
    uint32_t source_count;

    struct { /* behind the manager's lock */
        bool cancelled;
        bool finished;
        bool released;
        bool taken;
        struct kvt_onboard_result result;
    } shared;
};

struct kvbm_onboard_counts {
    _Atomic uint64_t onboards;
    _Atomic uint64_t blocks;
    _Atomic uint64_t from[KVBM_MANAGER_TIERS];
    _Atomic uint64_t missing;
    _Atomic uint64_t late;
    _Atomic uint64_t dearer;
    _Atomic uint64_t no_room;
    _Atomic uint64_t given_up;
    _Atomic uint64_t cancelled;
    _Atomic uint64_t failed;
    _Atomic uint64_t corrupt;
};

struct kvbm_manager {
    struct kvbm_manager_options options;
    enum kvt_tier top;
    bool closing;
    uint32_t iteration;
    struct kvbm_edge_down edges[KVT_TIER_G4]; /* by enum kvt_tier */
    struct kvbm_job ups[KVT_OFFLOAD_JOBS];
    struct kvbm_storage *up_staging;  /* from G4, where the target has no address */
    struct kvbm_onboard *onboards[2]; /* by need, and prefetches; oldest first */
    struct kvbm_onboard_counts counts[2];

    pthread_t thread;
    bool started;
    bool locks_made;
    struct {
        pthread_mutex_t lock; /* guards this struct, and `shared` of onboards; a leaf */
        pthread_cond_t wake;  /* the thread */
        pthread_cond_t moved; /* room in the ring, or an onboard is finished */
        struct kvt_handle *ring;
        size_t ring_first;
        size_t ring_count;
        struct kvbm_onboard *fresh; /* newest first */
        uint32_t onboards;          /* not released, or not finished */
        uint32_t waiting[2];        /* not finished */
        uint32_t demand[KVBM_MANAGER_TIERS];
        uint64_t rests; /* passes that found nothing to do */
        bool kicked;
        bool stop;
    } shared;
};

/** The next tier that is there below this one; 0: none. */
enum kvt_tier kvbm_manager_below(const struct kvbm_manager *manager, enum kvt_tier tier);

/** Wake the thread, if there is one. */
void kvbm_manager_kick(struct kvbm_manager *manager);

/* ---- manager_edge.c ---- */

/** Begin what should leave the tier. */
void kvbm_edge_step(struct kvbm_edge_down *edge, uint64_t now_ms);

/** May `count` blocks of the tier be taken now?  False: its edge is asked for room, and that is
 *  worth waiting for; `since_ms` is the caller's. */
bool kvbm_edge_room(struct kvbm_manager *manager, enum kvt_tier tier, uint32_t count,
                    uint64_t *since_ms, uint64_t now_ms);

/** Take blocks for a prefetch: what is free, below the watermark.  KVT_OK or KVT_AGAIN. */
KVT_NODISCARD enum kvt_err kvbm_edge_spare(struct kvbm_manager *manager, enum kvt_tier tier,
                                           uint32_t count, struct kvt_handle *handles);

/** What became of a block that was to go down, and with it of the hold on its source.  True: it is
 *  safe below. */
bool kvbm_edge_settle(struct kvbm_edge_down *edge, enum kvbm_job_why why, struct kvt_handle source,
                      enum kvt_err status);

/* ---- manager_job.c ---- */

/** A free one of `count`, or NULL. */
struct kvbm_job *kvbm_job_free(struct kvbm_job *jobs, size_t count);

/** Its blocks are held, and targets for them where they go to a pool: send them. */
void kvbm_job_begin(struct kvbm_job *job);

/** See what has arrived, and go on. */
void kvbm_job_poll(struct kvbm_job *job, uint64_t now_ms);

/** Have it end soon. */
void kvbm_job_cancel(struct kvbm_job *job);

/* ---- manager_onboard.c ---- */

/** Go on with what is asked for. */
void kvbm_onboards_step(struct kvbm_manager *manager, uint64_t now_ms);

/** A job of it has ended; each block says how. */
void kvbm_onboard_arrive(struct kvbm_job *job);

#endif /* KVBM_OFFLOAD_MANAGER_INTERNAL_H */
