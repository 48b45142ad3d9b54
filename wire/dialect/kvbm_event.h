/*
 * wire/dialect/kvbm_event.h -- kvbm.events: [events, instance].
 *
 * Why: the revision of the lineage hash is not in the message; the default is B.
 * Ownership: as raw_batch.h.
 * Limits:    as raw_batch.h.
 */
#ifndef WIRE_DIALECT_KVBM_EVENT_H
#define WIRE_DIALECT_KVBM_EVENT_H

#include <stddef.h>

#include "kvtier/error.h"
#include "kvtier/key.h"
#include "wire/dialect/raw_batch.h"

/** The batch is empty at first; after a failure nothing of it may be used. */
KVT_NODISCARD enum kvt_err wire_kvbm_decode(enum kvt_key_revision revision, const void *bytes,
                                            size_t size, struct wire_raw_batch *batch,
                                            struct kvt_error *err);

#endif /* WIRE_DIALECT_KVBM_EVENT_H */
