/*
 * bench/route/story.h -- choices for requests of a file.
 *
 * Why: each choice and each cost of ours is compared with the published selector's
 * (tests/scenario/choices.py, which says what a line is).
 *
 * Ownership: borrows its arguments.
 * Threads:   one.
 * Limits:    STORY_WORKERS_MAX workers a request.
 */
#ifndef BENCH_ROUTE_STORY_H
#define BENCH_ROUTE_STORY_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define STORY_WORKERS_MAX 4096

/** Of each request the worker chosen with the bits of its cost, then every worker's. */
KVT_NODISCARD enum kvt_err story_tell(const char *path, const char *answers, uint64_t seed,
                                      size_t *choices, struct kvt_error *err);

#endif /* BENCH_ROUTE_STORY_H */
