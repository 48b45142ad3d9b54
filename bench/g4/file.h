/*
 * bench/g4/file.h -- files as bodies, and the process's CPU time.
 *
 * Why: libg4's side and the bare loop it is held against must do the same beside the network.
 * Ownership: the caller's memory.
 * Limits:    files of WORK_BODY_MAX bytes.
 */
#ifndef BENCH_G4_FILE_H
#define BENCH_G4_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

/** The whole file into `body` (WORK_BODY_MAX bytes of room). */
KVT_NODISCARD enum kvt_err work_read_file(const char *path, uint8_t *body, size_t *size,
                                          struct kvt_error *err);
KVT_NODISCARD enum kvt_err work_write_file(const char *path, const uint8_t *body, size_t size,
                                           struct kvt_error *err);

/** User and system, of all threads. */
double work_cpu_s(void);

#endif /* BENCH_G4_FILE_H */
