/*
 * bench/g4/work.h -- files into a bucket and back through libg4, and the CPU seconds that takes.
 *
 * Why: the same work as other clients do on the same files, so that CPU can be compared.  As a
 * worker does it: If-None-Match, crc32c both ways.
 *
 * Ownership: options are borrowed for the call.
 * Threads:   the caller's reads and writes files; the store has one thread.
 * Limits:    WORK_SLOTS_MAX requests in the air, files of WORK_BODY_MAX bytes.
 */
#ifndef BENCH_G4_WORK_H
#define BENCH_G4_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

#define WORK_SLOTS_MAX 64
#define WORK_BODY_MAX  (16u << 20)

struct work_options {
    const char *endpoint;
    const char *bucket;
    const char *access_key;
    const char *secret_key;
    const char *folder; /* files 000000, 000001, ... */
    const char *prefix; /* of keys: "<prefix>/000000" */
    unsigned count;
    unsigned slots; /* in the air at once */
    bool up;
};

struct work_result {
    uint64_t bytes;
    double cpu_s; /* user and system, of the whole process, without opening the store */
};

/** All files up, or all objects down into files. */
KVT_NODISCARD enum kvt_err work_run(const struct work_options *options, struct work_result *result,
                                    struct kvt_error *err);

struct work_waits {
    double conditional_p50_us;
    double plain_p50_us;
};

/** PUT `count` new objects of `size` bytes with If-None-Match and as many without, in turn. */
KVT_NODISCARD enum kvt_err work_conditional(const struct work_options *options, uint32_t size,
                                            struct work_waits *waits, struct kvt_error *err);

#endif /* BENCH_G4_WORK_H */
