/*
 * wire/dialect/engine.h -- events of the engines' own streams, between the files that read them.
 *
 * Why: the batch around the events and the events themselves change at different times.
 * Ownership: as raw.h.
 * Threads:   as raw.h.
 * Limits:    as raw.h.
 */
#ifndef WIRE_DIALECT_ENGINE_H
#define WIRE_DIALECT_ENGINE_H

#include <stddef.h>

#include "kvtier/error.h"
#include "wire/dialect/msgpack_cursor.h"
#include "wire/dialect/raw_batch.h"

/** Read the event that is next, whatever stands there.  A batch that is full is KVT_RANGE in the
 * cursor. */
void wire_engine_event(struct wire_cursor *pack, struct wire_raw_batch *batch);

/** A whole payload.  The batch is empty at first, and after a failure. */
KVT_NODISCARD enum kvt_err wire_engine_decode(const void *bytes, size_t size,
                                              struct wire_raw_batch *batch, struct kvt_error *err);

#endif /* WIRE_DIALECT_ENGINE_H */
