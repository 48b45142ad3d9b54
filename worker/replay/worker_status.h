/*
 * worker/replay/worker_status.h -- what the worker tells people and programs about itself.
 *
 * Why: the admin port, the metrics and the final report show the same facts (docs/api.md, "Worker
 * admin").
 *
 * Ownership: a status borrows everything it shows.
 * Threads:   any, once everything it borrows is set; sampling is for one thread.
 * Limits:    KVT_HTTP_RESPONSE_MAX bytes an answer.
 */
#ifndef WORKER_REPLAY_WORKER_STATUS_H
#define WORKER_REPLAY_WORKER_STATUS_H

#include "base/core/buffer.h"
#include "base/core/metrics.h"
#include "base/http/http.h"

#include "worker/replay/attached_engines.h"
#include "worker/replay/replay.h"
#include "worker/replay/tier_stack.h"

#define WORKER_STATUS_ROUTES 2

struct worker_metrics;

struct worker_status {
    const struct worker_shared *shared;
    struct worker_stack *const *stacks;
    uint32_t stack_count;
    struct worker_replay *replay;
    struct worker_engines *engines; /* NULL: none attach */
    uint64_t started_ms;            /* monotonic */
    struct worker_metrics *metrics;
};

/** Append the status object. */
void worker_status_format(const struct worker_status *status, struct kvt_buffer *out);

/** Where blocks were found, in all logical workers. */
struct worker_found {
    uint64_t tier[4]; /* G1 to G4 */
    uint64_t computed;
    uint64_t checked; /* blocks whose bytes were compared */
};
void worker_status_found(const struct worker_status *status, struct worker_found *out);

/** Sums over all logical workers that decide the exit. */
uint64_t worker_status_wrong_bytes(const struct worker_status *status);

/** GET /v1/status and GET /v1/index/dump; their `arg` is the status. */
extern const struct kvt_http_route worker_status_routes[WORKER_STATUS_ROUTES];

KVT_NODISCARD enum kvt_err worker_metrics_new(struct worker_metrics **out,
                                              struct kvt_metrics *registry);
void worker_metrics_free(struct worker_metrics *metrics);

/** Bring the metrics up to now. */
void worker_status_sample(const struct worker_status *status);

#endif /* WORKER_REPLAY_WORKER_STATUS_H */
