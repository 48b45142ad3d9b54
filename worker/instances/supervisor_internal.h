/*
 * worker/instances/supervisor_internal.h -- what the files of the front share.
 *
 * Why: front.c reads the trace and gives requests away, front_life.c looks after the instances,
 * front_reasons.c says what is amiss, front_admin.c shows what they do.
 * Ownership: as worker/instances/supervisor.h.
 * Threads:   `shown` is behind its lock, a leaf; `answers` is a queue; a slot that is away, and a
 *            word that is being told, are rpc's until they come back.  The rest is the main
 *            thread's.
 * Limits:    as worker/instances/supervisor.h.
 */
#ifndef WORKER_INSTANCES_SUPERVISOR_INTERNAL_H
#define WORKER_INSTANCES_SUPERVISOR_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/http/http.h"
#include "base/thread/queue.h"
#include "wire/message/trace.h"

#include "engine/replica/broadcast.h"
#include "engine/rpc/rpc.h"
#include "worker/instances/instance_processes.h"
#include "worker/instances/instance_stats.h"
#include "worker/instances/supervisor.h"

struct kvbm_front;
struct kvbm_front_metrics;

enum kvbm_slot_state { KVBM_SLOT_FREE, KVBM_SLOT_WAITS, KVBM_SLOT_AWAY };

/* A request of the trace. */
struct kvbm_front_slot {
    struct kvbm_front *front;
    enum kvbm_slot_state state;
    uint32_t instance; /* whose it is */
    uint64_t life;     /* to which it was given */
    uint64_t *ids;
    size_t count;
    enum kvt_err status; /* as it came back */
    uint32_t failures;   /* one after the other */
    uint64_t rests_ms;   /* until when it is not given again */
    struct kvbm_figures figures;
};

/* One instance is told that another one lives. */
struct kvbm_front_word {
    uint64_t life;          /* that is being told */
    _Atomic uint64_t known; /* that was told; 0: none */
    _Atomic bool away;
    uint64_t told_ms; /* the same is not said again at once */
};

/* How blocks go from rank 0 to those that hold the same, as its leader said last. */
struct kvbm_front_broadcast {
    bool known; /* there are such ranks, and it has been asked */
    enum engine_way way;
    char why[ENGINE_WHY_MAX];
};

struct kvbm_front_instance {
    struct kvbm_life life;
    struct engine_rpc_client *client;
    bool up;
    bool was_up;        /* in any life */
    uint64_t silent_ms; /* when its leader was first found silent; 0: it is not */
    uint32_t busy;      /* requests with it */
    uint32_t starts;    /* since it served a request */
    uint64_t lives;
    struct kvbm_figures figures;                      /* of this life */
    struct kvbm_figures past;                         /* of those that are over */
    struct kvbm_front_broadcast broadcast;            /* of this life */
    struct kvbm_front_word peers[KVBM_INSTANCES_MAX]; /* that it was told of */
};

/* What is not as it should be, and what that means. */
struct kvbm_front_reasons {
    bool ready; /* all the same: requests are served */
    size_t count;
    char lines[KVBM_INSTANCES_MAX + 2][160];
};

struct kvbm_front {
    const struct kvbm_plan *plan;
    struct kvbm_front_instance instances[KVBM_INSTANCES_MAX];
    struct wire_trace *trace;
    struct kvt_queue *answers; /* slots that came back */
    struct kvbm_front_slot *slots;
    size_t slot_count;
    uint64_t read, fed, served, again, bad_lines;
    bool ended; /* the trace */
    bool finished;
    enum kvt_err rc; /* of reading it */
    struct kvt_error err;
    uint64_t asked_ms; /* when figures were asked for last */
    struct kvt_http *http;

    struct kvt_metrics *registry;
    struct kvbm_front_metrics *metrics;
    uint64_t started_ms;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        bool open;
        struct kvt_buffer text;
        struct kvbm_front_reasons reasons;
    } shown;
};

/** Start what is not there, notice what is gone, make instances known to each other. */
KVT_NODISCARD enum kvt_err kvbm_front_look_after(struct kvbm_front *front, struct kvt_error *err);

/** How long a request rests that has failed so many times in a row; at least once. */
uint64_t kvbm_front_rest_ms(uint32_t failures);

/** End instance `number` at once; what was with it comes back as answers. */
void kvbm_front_stop(struct kvbm_front *front, uint32_t number);

/** Of one instance, in all its lives. */
struct kvbm_figures kvbm_front_figures(const struct kvbm_front *front, uint32_t number);
/** Of all instances. */
struct kvbm_figures kvbm_front_sum(const struct kvbm_front *front);

/** As instances said last. */
void kvbm_front_reasons(const struct kvbm_front *front, struct kvbm_front_reasons *reasons);

/** Append the status object (docs/api.md). */
void kvbm_front_format(const struct kvbm_front *front, struct kvt_buffer *out);

KVT_NODISCARD enum kvt_err kvbm_front_open_admin(struct kvbm_front *front, struct kvt_error *err);
void kvbm_front_close_admin(struct kvbm_front *front);
/** Bring what the admin port shows up to now. */
void kvbm_front_show(struct kvbm_front *front);

#endif /* WORKER_INSTANCES_SUPERVISOR_INTERNAL_H */
