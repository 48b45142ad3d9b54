/*
 * bench/route/fleet.h -- workers that are given the requests of an hour, one way or another.
 *
 * Why: the ways to choose a worker are compared by what they do to the whole: how much is found in
 * caches, how evenly work is spread, how long requests wait.
 *
 * The model.  A worker computes prompts one after another, `prefill_rate` tokens a second of what
 * it has not; blocks that only G4 has are loaded at `load_rate` in the same queue.  Blocks are
 * there for the next once the prompt is computed.  Then it decodes, `decode_us` a token, any number
 * of requests side by side, and the request holds its blocks till the end.  A cache has `capacity`
 * blocks, least recently used out first.  G4 has every block once it was computed.  The router
 * knows all of it at once.
 *
 * Ownership: borrows the hour.
 * Threads:   one.
 * Limits:    FLEET_WORKERS_MAX.
 */
#ifndef BENCH_ROUTE_FLEET_H
#define BENCH_ROUTE_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "bench/route/hour.h"

#define FLEET_WORKERS_MAX 256

enum fleet_way { FLEET_COST, FLEET_ROUND_ROBIN, FLEET_LOAD };

struct fleet_options {
    enum fleet_way way;
    double temperature; /* of FLEET_COST */
    uint32_t workers;
    uint32_t capacity; /* blocks a worker */
    bool g4;
    bool blind;          /* FLEET_COST does not count what G4 has */
    double prefill_rate; /* tokens a second */
    double load_rate;    /* tokens a second, from G4 */
    uint64_t decode_us;  /* a token */
    uint64_t seed;       /* of draws between equals and by temperature */
};

struct fleet_result {
    uint64_t blocks;    /* of all requests */
    uint64_t found;     /* of them on the worker chosen, when it begins with the prompt */
    uint64_t loaded;    /* ... beyond those, in G4 */
    uint64_t computed;  /* tokens */
    double tokens_most; /* tokens computed: of the worker that computes most, in means */
    double tokens_cv;   /* standard deviation, in means */
    double requests_most;
    double requests_cv;
    double wait_mean_s; /* from arrival until its prompt is begun with */
    double wait_p99_s;
    double first_mean_s; /* ... until it is computed: time to the first token */
    double first_p99_s;
};

KVT_NODISCARD enum kvt_err fleet_run(const struct hour *hour, const struct fleet_options *options,
                                     struct fleet_result *result);

#endif /* BENCH_ROUTE_FLEET_H */
