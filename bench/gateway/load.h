/*
 * bench/gateway/load.h -- PUTs and GETs by threads, one connection each, one request at a time.
 *
 * Why: rates and waiting times of the same requests at the gateway, at the store behind it, at a
 * proxy that does nothing and at a socket that sends files.  Every body read is checked: a mark of
 * object and place in each 4 KiB while the clock runs, or each byte (`thorough`).
 *
 * Ownership: options are borrowed for the call.
 * Threads:   makes `connections` threads and joins them.
 * Limits:    LOAD_CONNECTIONS_MAX; bodies of LOAD_BODY_MAX bytes; LOAD_OBJECTS_MAX objects.
 */
#ifndef BENCH_GATEWAY_LOAD_H
#define BENCH_GATEWAY_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "bench/gateway/connection.h"

#define LOAD_CONNECTIONS_MAX 64
#define LOAD_BODY_MAX        (16u << 20)
#define LOAD_OBJECTS_MAX     1000000
#define LOAD_PAGE            4096

enum load_kind { LOAD_PUT, LOAD_GET, LOAD_RAW };

struct load_options {
    enum load_kind kind; /* LOAD_RAW: GETs from bench/gateway/raw.h */
    struct target target;
    const char *prefix; /* of every key */
    unsigned connections;
    size_t body_size; /* of one object */
    /* GETs of parts instead: objects of `whole` bytes have parts of body_size bytes, one behind the
     * other from `offset` on, and `objects` counts parts.  0: no parts. */
    size_t whole;
    size_t offset;
    unsigned objects;
    unsigned requests; /* more than `objects`: some again */
    bool thorough;     /* compare every byte */
};

struct load_result {
    double bytes_per_s; /* from the first request to the last answer */
    double p50_us;      /* of one request */
    double p99_us;
};

/** Fill `body` with object `object`'s bytes; all pages differ, in all objects. */
void load_fill(uint8_t *body, size_t size, unsigned object);

/** KVT_OK only when every answer was 200 with the right bytes; otherwise what went wrong first. */
KVT_NODISCARD enum kvt_err load_run(const struct load_options *options, struct load_result *result,
                                    struct kvt_error *err);

#endif /* BENCH_GATEWAY_LOAD_H */
