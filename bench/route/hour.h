/*
 * bench/route/hour.h -- a recorded trace, as a fleet is given it.
 *
 * Why: what a choice of workers does to caches and queues shows on real traffic only, whose
 * prompts share beginnings and come in bursts.
 *
 * Ownership: owns all it read.
 * Threads:   reading one is free to all.
 * Limits:    2^32 - 1 different blocks; requests in the order of their times.
 */
#ifndef BENCH_ROUTE_HOUR_H
#define BENCH_ROUTE_HOUR_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define HOUR_BLOCK_TOKENS 512 /* of the traces there are */

struct hour_request {
    uint64_t at_us;
    uint64_t input_tokens;
    uint64_t output_tokens;
    size_t first; /* of its blocks in `blocks` and `hashes` */
    uint32_t count;
};

struct hour {
    struct hour_request *requests;
    size_t count;
    uint32_t *blocks;  /* different ones have different numbers, from 0 on */
    uint64_t *hashes;  /* their sequence hashes */
    size_t accesses;   /* entries of both */
    uint32_t distinct; /* blocks */
};

KVT_NODISCARD enum kvt_err hour_read(struct hour *hour, const char *path, struct kvt_error *err);
/** Also of one that was never read (all bytes 0). */
void hour_release(struct hour *hour);

#endif /* BENCH_ROUTE_HOUR_H */
