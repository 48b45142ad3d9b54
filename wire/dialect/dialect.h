/*
 * wire/dialect/dialect.h -- one decoder for each way the field writes KV events.
 *
 * Why: an advisor must be pointable at any running cluster.  Every decoder is a pure function from
 * bytes to a raw batch (raw_batch.h): it never reads past its input, allocates nothing, and refuses
 * only what it must -- unknown members are passed over, an event with unknown values becomes SKIP
 * with its number, and one bad event does not take its neighbours along.
 *
 * Sources: docs/formats.md, "Foreign dialects", which states for each the releases it was checked
 * against.
 */
#ifndef WIRE_DIALECT_DIALECT_H
#define WIRE_DIALECT_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "wire/dialect/raw_batch.h"

enum wire_dialect {
    WIRE_DIALECT_KVTIER, /* the canonical format (wire/message/event_codec.h); has no raw decoder */
    WIRE_DIALECT_DYNAMO, /* RouterEvents: NATS core and ZMQ envelope (msgpack), one or an array;
                           * JSON as on JetStream: told apart by the first byte */
    WIRE_DIALECT_ENGINE, /* vLLM, SGLang and the KVBM consolidator: payload of their ZMQ stream */
    WIRE_DIALECT_KVBM,   /* kvbm.events: [events, instance] */
    WIRE_DIALECT_MINIO,  /* bucket notifications, JSON */
    WIRE_DIALECT_COUNT,
};

/** "kvtier", "dynamo", "engine", "kvbm", "minio". */
const char *wire_dialect_name(enum wire_dialect dialect);
bool wire_dialect_parse(const char *text, enum wire_dialect *dialect);

/**
 * Decode one message.  For ENGINE the sequence is a frame of its own and not set here; the caller
 * fills batch->sequence.
 *
 * @return KVT_OK, KVT_INVALID (offset and what was expected in `err`) or KVT_RANGE
 */
KVT_NODISCARD enum kvt_err wire_dialect_decode(enum wire_dialect dialect, const void *bytes,
                                               size_t size, struct wire_raw_batch *batch,
                                               struct kvt_error *err);

#endif /* WIRE_DIALECT_DIALECT_H */
