/*
 * wire/dialect/engine.h -- events of the engines' own streams, between the files that read them.
 *
 * Why: the batch around the events and the events themselves change at different times.
 */
#ifndef WIRE_DIALECT_ENGINE_H
#define WIRE_DIALECT_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "wire/dialect/msgpack_cursor.h"
#include "wire/dialect/raw_batch.h"

/** Read the event that is next, whatever stands there.  A batch that is full is KVT_RANGE in the
 * cursor. */
void wire_engine_event(struct wire_cursor *pack, struct wire_raw_batch *batch);

/** A whole payload.  The batch is empty at first, and after a failure. */
KVT_NODISCARD enum kvt_err wire_engine_decode(const void *bytes, size_t size,
                                              struct wire_raw_batch *batch, struct kvt_error *err);

/* ---- cache groups of vLLM: the only thing about its stream that needs a memory ---- */

/*
 * A model with several kinds of attention keeps the same block once in each cache group, and only
 * full attention can be had back by prefix.  A store says what kind its group is; a remove does
 * not.  One of these a publisher, all zero at first.
 */
struct wire_engine_groups {
    uint64_t full;    /* bit g: group g was said to be full attention */
    uint64_t partial; /* bit g: group g was said to be something else */
};

/** Learn from `batch` in its order, and turn what concerns other groups into SKIP (FILTERED_GROUP):
 * groups known to be partial, and groups but 0 of which nothing is known. */
void wire_engine_groups_filter(struct wire_engine_groups *groups, struct wire_raw_batch *batch);

#endif /* WIRE_DIALECT_ENGINE_H */
