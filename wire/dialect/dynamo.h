/*
 * wire/dialect/dynamo.h -- RouterEvents of Dynamo, msgpack or JSON.
 *
 * Why: streams, answers and dumps all carry them.
 */
#ifndef WIRE_DIALECT_DYNAMO_H
#define WIRE_DIALECT_DYNAMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "wire/dialect/raw_batch.h"

/** One RouterEvent or an array of them, msgpack or JSON, into the batch behind what it has. */
KVT_NODISCARD enum kvt_err wire_dynamo_decode_events(const void *bytes, size_t size,
                                                     struct wire_raw_batch *batch,
                                                     struct kvt_error *err);

/** Is it JSON?  By its first byte that is no blank. */
bool wire_dynamo_is_json(const void *bytes, size_t size);

/** A whole message.  The batch is empty at first, and after a failure. */
KVT_NODISCARD enum kvt_err wire_dynamo_decode(const void *bytes, size_t size,
                                              struct wire_raw_batch *batch, struct kvt_error *err);
KVT_NODISCARD enum kvt_err wire_dynamo_decode_json(const char *text, size_t size,
                                                   struct wire_raw_batch *batch,
                                                   struct kvt_error *err);

/** Is this topic's message about blocks? */
bool wire_dynamo_is_topic(const char *topic, size_t size);

/* ---- the ZMQ event plane of Dynamo: four frames ---- */

struct wire_dynamo_frames {
    uint64_t publisher;
    uint64_t sequence;
    const void *envelope; /* into the last frame */
    size_t envelope_size;
};

/** Frames 1, 2 and 3 (the topic is the caller's).  KVT_OK or KVT_INVALID. */
KVT_NODISCARD enum kvt_err wire_dynamo_frames(const void *publisher, size_t publisher_size,
                                              const void *sequence, size_t sequence_size,
                                              const void *body, size_t body_size,
                                              struct wire_dynamo_frames *frames,
                                              struct kvt_error *err);

#endif /* WIRE_DIALECT_DYNAMO_H */
