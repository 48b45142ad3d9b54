/*
 * g4/s3/latency.h -- how long answers usually take.
 *
 * Why: "unusually long" must mean something for a store next door and for one across an ocean.
 *
 * Ownership: plain data; zeroed is empty.
 * Threads:   none; one owner.
 * Limits:    the last G4_LATENCY_SAMPLES answers; none is known before G4_LATENCY_LEAST of them.
 */
#ifndef G4_S3_LATENCY_H
#define G4_S3_LATENCY_H

#include <stdint.h>

#define G4_LATENCY_SAMPLES 128
#define G4_LATENCY_LEAST   20

struct g4_latency {
    uint32_t samples[G4_LATENCY_SAMPLES]; /* milliseconds */
    uint64_t count;                       /* ever */
    uint32_t p95_ms;                      /* as of the last sorting */
};

void g4_latency_add(struct g4_latency *latency, uint64_t took_ms);

/** 19 in 20 took no longer; UINT32_MAX when too few are known. */
uint32_t g4_latency_p95_ms(const struct g4_latency *latency);

#endif /* G4_S3_LATENCY_H */
