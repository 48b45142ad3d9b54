/*
 * bench/gateway/raw.h -- the floor under reads: a socket that sends files, and nothing else.
 *
 * Why: "how fast is a hot GET" means nothing without "how fast do bytes of a file get through
 * loopback TCP here and now".  A request is eight bytes, an answer the bytes: no HTTP, no
 * signature, no catalog, no check.  Files stay open and in the page cache.
 *
 * Ownership: makes its files in a folder of the caller's and leaves them there.
 * Threads:   raw_serve() takes the calling thread and one more a connection; it ends the program's
 *            usefulness for anything else.
 * Limits:    RAW_FILES_MAX files.
 */
#ifndef BENCH_GATEWAY_RAW_H
#define BENCH_GATEWAY_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define RAW_FILES_MAX 4096

struct raw_request {
    uint32_t object;
    uint32_t size; /* bytes wanted, from the beginning */
};

/**
 * Make `count` files of `size` bytes (load_fill()) and send them to whoever asks, until killed.
 * Prints "port <N>" once it listens.
 */
KVT_NODISCARD enum kvt_err raw_serve(const char *folder, size_t size, unsigned count,
                                     struct kvt_error *err);

#endif /* BENCH_GATEWAY_RAW_H */
