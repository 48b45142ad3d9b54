/*
 * engine/replica/broadcast_internal.h -- for those who write a kind of broadcast.
 *
 * Why: queue, thread, deadlines and cancels are the same for all; a kind is a function that does
 * one job, on the broadcast's thread, and may wait.
 *
 * Ownership: a kind's struct begins with the head, which engine_broadcast_open() makes and
 *            `close` frees with the rest.
 * Threads:   `run` and `close` are never called at once.
 * Limits:    as engine/replica/broadcast.h.
 */
#ifndef ENGINE_REPLICA_BROADCAST_INTERNAL_H
#define ENGINE_REPLICA_BROADCAST_INTERNAL_H

#include <pthread.h>

#include "engine/replica/broadcast.h"

/* Blocks on their way at once; between two steps a kind looks whether its job is still wanted. */
#define ENGINE_BROADCAST_STEP 64

/* A job being done. */
struct engine_broadcast_job {
    struct engine_broadcast *broadcast;
    struct engine_job *job;
    uint64_t deadline; /* monotonic ms */
    struct engine_outcome outcome;
};

struct engine_broadcast_ops {
    enum engine_way way;
    const char *why; /* it is that, until engine_broadcast_goes() says otherwise */
    /** Do it: what is wrong is said by engine_broadcast_job_item(). */
    void (*run)(struct engine_broadcast *broadcast, struct engine_broadcast_job *task);
    /** The thread has ended; free everything. */
    void (*close)(struct engine_broadcast *broadcast);
};

struct engine_broadcast_entry {
    struct engine_job *job;
    uint64_t deadline;
    bool cancelled;
};

struct engine_broadcast {
    const struct engine_broadcast_ops *ops;
    uint32_t ranks;
    uint32_t staged;
    pthread_t thread;
    struct {
        pthread_mutex_t lock; /* guards this struct; a leaf */
        pthread_cond_t work;
        struct engine_broadcast_entry waiting[ENGINE_JOBS_MAX]; /* in the order they came */
        size_t count;
        struct engine_job *current;
        bool cancelled; /* it is */
        bool stop;
        struct engine_broadcast_state state;
    } shared;
};

/** Begin its thread; the last step of opening a kind.  KVT_OK, or KVT_NOMEM with nothing left. */
KVT_NODISCARD enum kvt_err engine_broadcast_open(struct engine_broadcast *broadcast,
                                                 struct kvt_error *err);

/** By what the job that is being done goes, and those behind it, and why. */
void engine_broadcast_goes(struct engine_broadcast *broadcast, enum engine_way way, const char *why,
                           ...) __attribute__((format(printf, 3, 4)));

/** KVT_OK, or KVT_INVALID in words. */
KVT_NODISCARD enum kvt_err engine_broadcast_check(const struct engine_broadcast_options *options,
                                                  struct kvt_error *err);

/** Milliseconds until its deadline; UINT64_MAX: it has none. */
uint64_t engine_broadcast_job_left(const struct engine_broadcast_job *task);

/**
 * The next items to bring, from `*at` on.
 *
 * @param items  filled with up to `room` places of items that are KVT_OK
 * @return how many; 0: no more, or the job is cancelled or late, which all items left are told
 */
size_t engine_broadcast_job_next(struct engine_broadcast_job *task, size_t *at, size_t *items,
                                 size_t room);

/** Item `at` did not come to that rank, or not from it. */
void engine_broadcast_job_item(struct engine_broadcast_job *task, uint32_t rank, size_t at,
                               enum kvt_err status);

/** None of these came to any rank. */
void engine_broadcast_job_lost(struct engine_broadcast_job *task, const size_t *items, size_t count,
                               enum kvt_err status);

/* Transfers from storage 0 to the others. */
struct engine_broadcast_copies {
    struct kvbm_transfer *transfer;
    struct kvbm_storage *storages[KVT_RANKS_MAX];
    const struct kvbm_layout *layout;
    /* Of the step that is on its way. */
    size_t items[ENGINE_BROADCAST_STEP];
    struct kvt_copy copies[KVT_RANKS_MAX][ENGINE_BROADCAST_STEP];
    struct kvt_ticket *tickets[KVT_RANKS_MAX];
};

void engine_broadcast_copies_set(struct engine_broadcast_copies *copies,
                                 const struct engine_broadcast_options *options);
void engine_broadcast_copies_run(struct engine_broadcast_copies *copies,
                                 struct engine_broadcast_job *task);

#endif /* ENGINE_REPLICA_BROADCAST_INTERNAL_H */
