/*
 * bench/gateway_common.h -- arguments and the loop of pairs that both gateway benches share.
 *
 * Why: a ratio is taken from pairs that ran right after each other, ours and floor in turn.
 * Ownership: arguments point into argv.
 * Threads:   main only.
 * Limits:    as bench/load.h.
 */
#ifndef BENCH_GATEWAY_COMMON_H
#define BENCH_GATEWAY_COMMON_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/load.h"

struct gateway_bench {
    uint16_t port; /* of the gateway under test */
    const char *bucket;
    const char *access_key;
    const char *secret_key;
    const char *folder; /* for the floor's files */
    size_t body_size;
    unsigned objects;
    unsigned pairs;
    unsigned connections;
};

/** argv: port bucket access secret folder body_size objects pairs connections.  False: wrong. */
bool gateway_bench_parse(struct gateway_bench *bench, int argc, char **argv);

/** Options for one run against `port` with keys of their own. */
void gateway_bench_options(const struct gateway_bench *bench, const char *method, uint16_t port,
                           const char *prefix, struct load_options *options);

/** Run and give bytes a second; 0 after saying on stderr what failed. */
double gateway_bench_rate(const struct load_options *options);

#endif /* BENCH_GATEWAY_COMMON_H */
