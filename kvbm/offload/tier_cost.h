/*
 * kvbm/offload/tier_cost.h -- is it worth waiting for blocks, or are they computed sooner?
 *
 * Why: a hit on a slow tier can take longer than the prefill it saves, and a hit that comes late
 * holds up a request that could have gone on.  What a tier takes is measured where blocks are
 * taken; what computing takes, its user says.
 *
 * A tier's time for some bytes is latency + bytes / bandwidth.  Both follow what is measured (a
 * normalised least-mean-squares step a measurement, which cannot move them far), within bounds, and
 * go back to what they began with while nothing is measured: a tier that was given up is tried
 * again.  Bytes that others wait for at the tier are added to one's own.
 *
 * Ownership: the caller owns the struct; init and release.
 * Threads:   any; one leaf lock.  No clock of its own: times are given, so that tests repeat.
 * Limits:    KVBM_COST_RUNS_MAX runs are looked at in one question; the rest is taken as it comes.
 */
#ifndef KVBM_OFFLOAD_TIER_COST_H
#define KVBM_OFFLOAD_TIER_COST_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define KVBM_COST_RUNS_MAX     1024
#define KVBM_COST_HALF_LIFE_MS 60000 /* of what was measured, while nothing new is */
#define KVBM_COST_LATENCY_MAX  30000.0
#define KVBM_COST_BYTES_MIN    1e3 /* a millisecond: 1 MB/s */
#define KVBM_COST_BYTES_MAX    1e9 /* 1 TB/s */
#define KVBM_COST_SURPRISE_MAX                                                                     \
    8.0 /* one measurement counts as at most so many times the estimate */

enum kvbm_cost_reason {
    KVBM_COST_TAKEN,  /* all of them are worth it */
    KVBM_COST_DEARER, /* computing the rest takes less */
    KVBM_COST_LATE,   /* the rest would come after the deadline */
};

struct kvbm_cost_options {
    double prefill_rate; /* tokens a second; 0: nobody knows, so nothing is dearer */
    uint64_t block_bytes;
    uint32_t block_tokens;
};

/* What is known of a tier. */
struct kvbm_cost_path {
    double latency_ms;
    double bytes_per_ms;
    double first_latency_ms; /* what it goes back to */
    double first_bytes_per_ms;
    uint64_t measured_ms; /* when; 0: never */
    uint64_t ahead;       /* bytes under way */
};

struct kvbm_cost {
    struct kvbm_cost_options options;
    pthread_mutex_t lock; /* guards the paths */
    struct kvbm_cost_path paths[KVT_TIER_G4 + 1];
};

/* Blocks in a row that are in one tier. */
struct kvbm_cost_run {
    enum kvt_tier tier;
    uint32_t blocks;
};

KVT_NODISCARD enum kvt_err kvbm_cost_init(struct kvbm_cost *cost,
                                          const struct kvbm_cost_options *options);
void kvbm_cost_release(struct kvbm_cost *cost);

/** How long `bytes` out of a tier (G2: into G1; G3, G4: into G2) take from now on. */
double kvbm_cost_estimate(struct kvbm_cost *cost, enum kvt_tier tier, uint64_t bytes,
                          uint64_t now_ms);

/**
 * How many blocks, from the first on, to take: as many as save most time, and come in time.
 *
 * @param      left_ms  until the deadline; INFINITY: none
 * @param[out] reason   why not all
 */
uint32_t kvbm_cost_choose(struct kvbm_cost *cost, const struct kvbm_cost_run *runs, size_t count,
                          double left_ms, uint64_t now_ms, enum kvbm_cost_reason *reason);

/** Bytes are asked for: what is ahead of them, to be given to kvbm_cost_end(). */
uint64_t kvbm_cost_begin(struct kvbm_cost *cost, enum kvt_tier tier, uint64_t bytes);

/** They came after `elapsed_ms`, or (`good` false) did not: then nothing is learnt. */
void kvbm_cost_end(struct kvbm_cost *cost, enum kvt_tier tier, uint64_t bytes, uint64_t ahead,
                   double elapsed_ms, bool good, uint64_t now_ms);

#endif /* KVBM_OFFLOAD_TIER_COST_H */
