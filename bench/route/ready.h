/*
 * bench/route/ready.h -- requests whose workers' caches and loads are known, as columns.
 *
 * Why: our choice and the published one must be timed on the same questions.
 * bench/peers/src/select.rs makes the same; the sum of all figures shows that it does.
 *
 * Ownership: owns its columns.
 * Threads:   reading one is free to all.
 * Limits:    ROUTER_WORKERS_MAX workers, READY_REQUESTS_MAX requests.
 */
#ifndef BENCH_ROUTE_READY_H
#define BENCH_ROUTE_READY_H

#include <stdint.h>

#include "router/cost.h"

#define READY_REQUESTS_MAX 64
#define READY_BLOCK_TOKENS 64
#define READY_BLOCKS       125
#define READY_ISL_TOKENS   (READY_BLOCK_TOKENS * READY_BLOCKS - 17)

struct ready_columns {
    uint64_t *active_prefill_tokens;
    uint64_t *decode_blocks;
    uint32_t *active_requests;
    uint32_t *cached[ROUTER_TIERS];
};

struct ready {
    uint32_t workers;
    uint32_t requests;
    struct ready_columns columns[READY_REQUESTS_MAX];
    uint64_t sum;
};

/** The `at`th number below `bound` that follows from a draw. */
uint32_t ready_part(uint64_t draw, uint64_t at, uint32_t bound);

/** KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err ready_new(struct ready *ready, uint32_t workers, uint32_t requests,
                                     uint64_t seed);
/** Also of one that was never made (all bytes 0). */
void ready_release(struct ready *ready);

/** The candidates of a request. */
struct router_candidates ready_candidates(const struct ready *ready, uint32_t request);

#endif /* BENCH_ROUTE_READY_H */
