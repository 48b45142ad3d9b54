/*
 * bench/load.h -- an S3 client as thin as can be: threads, one connection each, one request at a
 * time.
 *
 * Why: the same client must measure the gateway and its floor, and must cost little beside either.
 *
 * Ownership: options are borrowed for the call.
 * Threads:   makes `connections` threads and joins them.
 * Limits:    LOAD_CONNECTIONS_MAX; bodies of LOAD_BODY_MAX bytes.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define LOAD_CONNECTIONS_MAX 64
#define LOAD_BODY_MAX        (16u << 20)

struct load_options {
    const char *method; /* "PUT" or "GET" */
    uint16_t port;      /* on 127.0.0.1 */
    const char *bucket;
    const char *access_key;
    const char *secret_key;
    const char *prefix; /* of every key: a run's own */
    unsigned connections;
    size_t body_size; /* of one object: sent by PUT, expected by GET */
    unsigned objects;
    unsigned requests; /* GET: more than `objects` reads some again */
};

/**
 * Run it: PUT each object once, or GET `requests` times round the objects.
 *
 * @param[out] elapsed_ns  from the first request to the last answer
 * @return KVT_OK only when every answer was 200 with the right length (GET: and the first and last
 *         bytes); otherwise what went wrong first
 */
KVT_NODISCARD enum kvt_err load_run(const struct load_options *options, uint64_t *elapsed_ns,
                                    struct kvt_error *err);

#endif /* BENCH_LOAD_H */
