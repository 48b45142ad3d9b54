/*
 * bench/route/busy.h -- what runs on the workers while they are chosen among.
 *
 * Why: a whole decision projects what each worker does.  bench/peers/src/select.rs runs the same
 * requests; the sum of all that is projected shows that it does.
 *
 * Ownership: owns its table; borrows the requests.
 * Threads:   one.
 * Limits:    those of router/request_table.h.
 */
#ifndef BENCH_ROUTE_BUSY_H
#define BENCH_ROUTE_BUSY_H

#include <stdint.h>

#include "bench/route/ready.h"

struct busy;

/** `running` requests on each worker, of READY_BLOCKS blocks on average; a fourth of them have the
 *  beginning of one that is asked about. */
KVT_NODISCARD enum kvt_err busy_new(struct busy **out, const struct ready *ready, uint64_t seed,
                                    uint32_t running);
void busy_free(struct busy *busy);

/** The candidates of a request as they are now; good until the next call. */
struct router_candidates busy_candidates(struct busy *busy, uint32_t request);

/** The sum of all that is projected, for each request. */
uint64_t busy_sum(struct busy *busy);

#endif /* BENCH_ROUTE_BUSY_H */
