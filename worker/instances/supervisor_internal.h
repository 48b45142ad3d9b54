/*
 * worker/instances/supervisor_internal.h -- what the files of the supervisor share.
 *
 * Why: supervisor.c reads the trace and gives requests away, supervisor_restart.c looks after
 * the instances, supervisor_health.c says what is amiss, supervisor_admin.c shows what they do.
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

struct worker_supervisor;
struct worker_supervisor_metrics;

enum worker_supervisor_slot_state {
    WORKER_SUPERVISOR_SLOT_FREE,
    WORKER_SUPERVISOR_SLOT_WAITS,
    WORKER_SUPERVISOR_SLOT_AWAY
};

/* A request of the trace. */
struct worker_supervisor_slot {
    struct worker_supervisor *supervisor;
    enum worker_supervisor_slot_state state;
    uint32_t instance; /* whose it is */
    uint64_t life;     /* to which it was given */
    uint64_t *ids;
    size_t count;
    enum kvt_err status; /* as it came back */
    uint32_t failures;   /* one after the other */
    uint64_t rests_ms;   /* until when it is not given again */
    struct worker_instance_stats stats;
};

/* One instance is told that another one lives. */
struct worker_supervisor_word {
    uint64_t life;          /* that is being told */
    _Atomic uint64_t known; /* that was told; 0: none */
    _Atomic bool away;
    uint64_t told_ms; /* the same is not said again at once */
};

/* How blocks go from rank 0 to those that hold the same, as its leader said last. */
struct worker_supervisor_broadcast {
    bool known; /* there are such ranks, and it has been asked */
    enum engine_way way;
    char why[ENGINE_WHY_MAX];
};

struct worker_supervisor_instance {
    struct worker_processes life;
    struct engine_rpc_client *client;
    bool up;
    bool was_up;        /* in any life */
    uint64_t silent_ms; /* when its leader was first found silent; 0: it is not */
    uint32_t busy;      /* requests with it */
    uint32_t starts;    /* since it served a request */
    uint64_t lives;
    struct worker_instance_stats stats;                        /* of this life */
    struct worker_instance_stats past;                         /* of those that are over */
    struct worker_supervisor_broadcast broadcast;              /* of this life */
    struct worker_supervisor_word peers[WORKER_INSTANCES_MAX]; /* that it was told of */
};

/* What is not as it should be, and what that means. */
struct worker_supervisor_reasons {
    bool ready; /* all the same: requests are served */
    size_t count;
    char lines[WORKER_INSTANCES_MAX + 2][160];
};

struct worker_supervisor {
    const struct worker_instance_plan *plan;
    struct worker_supervisor_instance instances[WORKER_INSTANCES_MAX];
    struct wire_trace *trace;
    struct kvt_queue *answers; /* slots that came back */
    struct worker_supervisor_slot *slots;
    size_t slot_count;
    uint64_t read, fed, served, again, bad_lines;
    bool ended; /* the trace */
    bool finished;
    enum kvt_err rc; /* of reading it */
    struct kvt_error err;
    uint64_t asked_ms; /* when figures were asked for last */
    struct kvt_http *http;

    struct kvt_metrics *registry;
    struct worker_supervisor_metrics *metrics;
    uint64_t started_ms;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        bool open;
        struct kvt_buffer text;
        struct worker_supervisor_reasons reasons;
    } shown;
};

/** Start what is not there, notice what is gone, make instances known to each other. */
KVT_NODISCARD enum kvt_err worker_supervisor_look_after(struct worker_supervisor *supervisor,
                                                        struct kvt_error *err);

/** How long a request rests that has failed so many times in a row; at least once. */
uint64_t worker_supervisor_rest_ms(uint32_t failures);

/** End instance `number` at once; what was with it comes back as answers. */
void worker_supervisor_stop(struct worker_supervisor *supervisor, uint32_t number);

/** Of one instance, in all its lives. */
struct worker_instance_stats worker_supervisor_stats_of(const struct worker_supervisor *supervisor,
                                                        uint32_t number);
/** Of all instances. */
struct worker_instance_stats worker_supervisor_sum(const struct worker_supervisor *supervisor);

/** As instances said last. */
void worker_supervisor_reasons(const struct worker_supervisor *supervisor,
                               struct worker_supervisor_reasons *reasons);

/** Append the status object (docs/api.md). */
void worker_supervisor_format(const struct worker_supervisor *supervisor, struct kvt_buffer *out);

KVT_NODISCARD enum kvt_err worker_supervisor_open_admin(struct worker_supervisor *supervisor,
                                                        struct kvt_error *err);
void worker_supervisor_close_admin(struct worker_supervisor *supervisor);
/** Bring what the admin port shows up to now. */
void worker_supervisor_show(struct worker_supervisor *supervisor);

#endif /* WORKER_INSTANCES_SUPERVISOR_INTERNAL_H */
