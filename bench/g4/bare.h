/*
 * bench/g4/bare.h -- the same work as work.h's with nothing but sockets, files and a crc32c.
 *
 * Why: what no client can be below on this machine, whatever it is written in: one copy from or to
 * the kernel for the network, one for the file, and one look at each byte.  No If-None-Match, no
 * metadata, no retry, no deadline.
 *
 * Ownership: options are borrowed for the call.
 * Threads:   the caller's; one connection, one request in the air.
 * Limits:    as work.h; a server on 127.0.0.1.
 */
#ifndef BENCH_G4_BARE_H
#define BENCH_G4_BARE_H

#include <stdint.h>

#include "bench/g4/work.h"

KVT_NODISCARD enum kvt_err bare_run(const struct work_options *options, uint16_t port,
                                    struct work_result *result, struct kvt_error *err);

#endif /* BENCH_G4_BARE_H */
