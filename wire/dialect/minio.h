/*
 * wire/dialect/minio.h -- decoders that dialect.h reaches by wire_dialect_decode() only.
 *
 * Why: one table of dialects, one file a dialect.
 * Ownership: as raw.h.
 * Threads:   as raw.h.
 * Limits:    as raw.h.
 */
#ifndef WIRE_DIALECT_MINIO_H
#define WIRE_DIALECT_MINIO_H

#include <stddef.h>

#include "kvtier/error.h"
#include "wire/dialect/raw_batch.h"

/* The batch is empty at first, and after a failure nothing of it may be used. */

KVT_NODISCARD enum kvt_err wire_minio_decode(const void *bytes, size_t size,
                                             struct wire_raw_batch *batch, struct kvt_error *err);

#endif /* WIRE_DIALECT_MINIO_H */
