/*
 * bench/gateway/listing.h -- read a whole listing, page by page.
 *
 * Why: keys a second of the same keys at the gateway and at the store behind it.
 * Ownership: options are borrowed for the call.
 * Threads:   one.
 * Limits:    pages of LISTING_PAGE_MAX bytes.
 */
#ifndef BENCH_GATEWAY_LISTING_H
#define BENCH_GATEWAY_LISTING_H

#include <stdint.h>

#include "kvtier/error.h"

#include "bench/gateway/connection.h"

#define LISTING_PAGE_MAX (4u << 20)

struct listing_result {
    uint64_t keys;
    uint64_t sum; /* of all keys' texts in their order: equal for equal listings */
    double keys_per_s;
};

/** List (V2) all below `prefix`. */
KVT_NODISCARD enum kvt_err listing_run(const struct target *target, const char *prefix,
                                       struct listing_result *result, struct kvt_error *err);

#endif /* BENCH_GATEWAY_LISTING_H */
