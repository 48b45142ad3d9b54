/*
 * bench/index/trace.h -- a recorded trace, made longer and copied, with what must be found.
 *
 * Why: real traffic shares prefixes in ways no generator has.  An exact model of who has what runs
 * beforehand, so that every lookup can be compared.
 *
 * Ownership: the trace owns all it read.
 * Threads:   reading one is free to all.
 * Limits:    TRACE_WORKERS_MAX workers; 2^32 - 1 different blocks.
 */
#ifndef BENCH_INDEX_TRACE_H
#define BENCH_INDEX_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define TRACE_WORKERS_MAX 64
#define TRACE_WINDOW      256 /* requests: first all their lookups, then all their stores */

struct trace_request {
    uint64_t scores; /* sum of the prefix lengths all workers have when it asks */
    uint32_t worker;
    uint32_t has; /* leading blocks its worker has when it stores */
};

struct trace_options {
    const char *path;
    uint32_t length; /* blocks an id becomes */
    uint32_t copies; /* of each request, with ids of their own */
    uint32_t workers;
    uint64_t seed;
};

struct trace {
    struct trace_options options;
    uint32_t *ids;    /* of all lines */
    uint32_t *starts; /* of each line in `ids`; one more than lines */
    size_t lines;
    uint32_t span; /* blocks of one copy */
    struct trace_request *requests;
    size_t count;
    uint32_t longest; /* blocks of a request */
};

KVT_NODISCARD enum kvt_err trace_read(struct trace *trace, const struct trace_options *options,
                                      struct kvt_error *err);
void trace_release(struct trace *trace);

/** Local hashes of a request (room for `longest`); returns how many. */
uint32_t trace_locals(const struct trace *trace, size_t request, uint64_t *locals);
/** Blocks that are stored, and the sum of every request's last sequence hash. */
KVT_NODISCARD enum kvt_err trace_checksum(const struct trace *trace, size_t *stored, uint64_t *sum);

#endif /* BENCH_INDEX_TRACE_H */
