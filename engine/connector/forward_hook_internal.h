/*
 * engine/connector/forward_hook_internal.h -- blocks on their way, step by step; only hook*.c
 * include this.
 *
 * Why: loads, saves and what comes between iterations differ in where from, where to, and when a
 * step may begin; how a step becomes jobs and how they end is the same.
 *
 * A *stream* is pairs of blocks that go in steps: a layer each, or all layers at once.  A step has
 * a *place* while it is under way, and becomes jobs there of ENGINE_ITEMS_MAX blocks.  A pair that
 * failed in one step is left out of the next ones.
 *
 * Ownership: a stream is in its hook's list from engine_hook_stream_open() until _close(), which is
 *            only legal when it is over (asserted).
 * Threads:   hook->lock guards all of this.  Jobs are started without it, by one thread at a time
 *            (`pumping`): their `done` may come before start returns.
 * Limits:    as engine/connector/forward_hook.h.
 */
#ifndef ENGINE_CONNECTOR_FORWARD_HOOK_INTERNAL_H
#define ENGINE_CONNECTOR_FORWARD_HOOK_INTERNAL_H

#include <pthread.h>

#include "engine/connector/connector_meta.h"
#include "engine/connector/forward_hook.h"

struct engine_hook_place;

/* One job of a step. */
struct engine_hook_job {
    struct engine_job job;
    struct engine_hook_stream *stream;
    struct engine_hook_place *place;
    uint32_t first; /* of the place's items */
};

struct engine_hook_place {
    uint32_t count;            /* items of the step that has it */
    uint32_t given;            /* ... that are in jobs */
    uint32_t running;          /* jobs */
    bool busy;                 /* a step has it */
    struct engine_item *items; /* room for every pair */
    uint32_t *at;              /* the pair of each item */
    struct engine_hook_job *jobs;
};

struct engine_hook_stream {
    struct engine_hook *hook;
    struct engine_hook_stream *next;
    enum kvt_tier from, to;
    enum kvt_priority priority;
    uint32_t layers; /* of a step: 1, or 0 (all of them) */
    uint32_t steps;
    uint32_t allowed; /* steps below this one may begin */
    uint32_t begun;   /* ... have begun */
    uint32_t ended;   /* ... have ended */
    bool stopped;     /* no other step begins */
    enum kvt_err failed;
    struct engine_pair *pairs;
    enum kvt_err *status; /* of each pair: the first that was not well */
    uint32_t count;
    struct engine_meta_transfer *transfers; /* whose pairs these are, `first` among them */
    uint32_t transfer_count;
    struct engine_hook_place places[ENGINE_HOOK_AHEAD];
};

/* One iteration. */
struct engine_hook_slot {
    uint64_t iteration;
    struct engine_hook_stream *load, *save; /* NULL: none */
};

struct engine_hook {
    struct engine_worker *rank;
    uint64_t iteration; /* the last one */
    struct engine_hook_slot slots[ENGINE_HOOK_ITERATIONS];
    uint32_t slot_count;                 /* the oldest first, the last is the one that goes on */
    bool open;                           /* ... and has not ended */
    struct engine_hook_stream **fetches; /* in the order of their orders */
    size_t fetch_count, fetch_capacity;
    struct engine_meta_report told; /* what has ended and was not asked for */
    uint32_t *errors;               /* blocks of G1 that `told`, or what was asked for last, has */
    size_t error_count, error_capacity;
    bool errors_asked; /* they belong to what was asked for */

    pthread_mutex_t lock; /* guards the rest and every stream */
    pthread_cond_t changed;
    struct engine_hook_stream *streams;
    uint32_t inside; /* calls of `done` that have not returned */
    bool pumping;
    bool again;   /* there is something new for who pumps */
    bool stalled; /* the worker takes no more jobs now */
};

/** All transfers of `kind` as one stream (one == UINT32_MAX), or number `one`.  KVT_OK with NULL
 *  when there are none; KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_hook_stream_open(struct engine_hook *hook,
                                                   const struct engine_meta *meta,
                                                   enum engine_transfer kind, uint32_t one,
                                                   struct engine_hook_stream **out);
/** NULL is allowed. */
void engine_hook_stream_close(struct engine_hook_stream *stream);

/** Steps below `steps` may begin. */
void engine_hook_stream_allow(struct engine_hook_stream *stream, uint32_t steps);

/** Let no further step begin: pairs that have not gone all the way have failed. */
void engine_hook_stream_stop(struct engine_hook_stream *stream, enum kvt_err why);

/** Nothing of it is under way, nor will be.  NULL is over. */
bool engine_hook_stream_over(struct engine_hook_stream *stream);

/** Wait until `step` steps have ended, or it is over.  KVT_OK or KVT_TIMEOUT. */
enum kvt_err engine_hook_stream_wait(struct engine_hook_stream *stream, uint32_t step,
                                     uint64_t wait_ms);

/** Start what may be started. */
void engine_hook_pump(struct engine_hook *hook);

#endif /* ENGINE_CONNECTOR_FORWARD_HOOK_INTERNAL_H */
