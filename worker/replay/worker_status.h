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

#define KVBM_STATUS_ROUTES 2

struct kvbm_metrics;

struct kvbm_status {
    const struct kvbm_shared *shared;
    struct kvbm_stack *const *stacks;
    uint32_t stack_count;
    struct kvbm_replay *replay;
    struct kvbm_engines *engines; /* NULL: none attach */
    uint64_t started_ms;          /* monotonic */
    struct kvbm_metrics *metrics;
};

/** Append the status object. */
void kvbm_status_format(const struct kvbm_status *status, struct kvt_buffer *out);

/** Where blocks were found, in all logical workers. */
struct kvbm_found {
    uint64_t tier[4]; /* G1 to G4 */
    uint64_t computed;
    uint64_t checked; /* blocks whose bytes were compared */
};
void kvbm_status_found(const struct kvbm_status *status, struct kvbm_found *out);

/** Sums over all logical workers that decide the exit. */
uint64_t kvbm_status_wrong_bytes(const struct kvbm_status *status);

/** GET /v1/status and GET /v1/index/dump; their `arg` is the status. */
extern const struct kvt_http_route kvbm_status_routes[KVBM_STATUS_ROUTES];

KVT_NODISCARD enum kvt_err kvbm_metrics_new(struct kvbm_metrics **out,
                                            struct kvt_metrics *registry);
void kvbm_metrics_free(struct kvbm_metrics *metrics);

/** Bring the metrics up to now. */
void kvbm_status_sample(const struct kvbm_status *status);

#endif /* WORKER_REPLAY_WORKER_STATUS_H */
