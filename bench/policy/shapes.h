/*
 * bench/policy/shapes.h -- workloads of quite different shapes.
 *
 * Why: an ordering that is only measured on the trace at hand is fitted to it.  These differ in
 * what matters to an ordering: how often things are read again, how soon, what is shared, how much
 * is read once, how long chains are, and whether any of it stays as it was.
 *
 * Ownership: the caller frees a workload.
 * Threads:   one.
 */
#ifndef BENCH_POLICY_SHAPES_H
#define BENCH_POLICY_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/simulate/workload.h"

struct shape {
    const char *name;
    const char *text;
    bool traced; /* it is made of the recorded trace */
};

const struct shape *shapes_all(size_t *count);

/** A whole workload, or an exit with what is wrong. */
struct policy_workload *shapes_make(const char *name, const char *trace, uint64_t seed);

#endif /* BENCH_POLICY_SHAPES_H */
