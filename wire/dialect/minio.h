/*
 * wire/dialect/minio.h -- bucket notifications of MinIO, JSON.
 *
 * Why: a bucket that others write to says so by these.
 */
#ifndef WIRE_DIALECT_MINIO_H
#define WIRE_DIALECT_MINIO_H

#include <stdbool.h>
#include <stddef.h>

#include "kvtier/error.h"
#include "wire/dialect/raw_batch.h"

/* The batch is empty at first, and after a failure nothing of it may be used. */

KVT_NODISCARD enum kvt_err wire_minio_decode(const void *bytes, size_t size,
                                             struct wire_raw_batch *batch, struct kvt_error *err);

/** Undo, in place, how MinIO escapes a key: %XX and '+'.  False for half an escape or a NUL: no key
 *  has those. */
bool wire_minio_unescape(char *text);

#endif /* WIRE_DIALECT_MINIO_H */
