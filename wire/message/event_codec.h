/*
 * wire/message/event_codec.h -- the canonical event batch, byte for byte (docs/formats.md,
 * "Events").
 *
 * Why: one codec, a pure function both ways; the decoder never reads past its input and allocates
 * nothing per event.
 * Ownership: the decoder fills the caller's batch, whose `events` array, with room for `capacity`,
 *            the caller provides.
 * Limits:    WIRE_EVENT_BATCH_MAX encoded bytes; KVT_EVENTS_PER_BATCH_MAX events.
 */
#ifndef WIRE_MESSAGE_EVENT_CODEC_H
#define WIRE_MESSAGE_EVENT_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"
#include "kvtier/event.h"

#define WIRE_EVENT_BATCH_MAX (512u << 10)

/* What a decoded location's tier is when the sender names one that this version does not know. */
#define WIRE_EVENT_TIER_UNKNOWN ((enum kvt_tier)0)

/** Append the encoded batch to `out`.  KVT_OK, KVT_RANGE (too many, too large) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err wire_event_encode(const struct kvt_event_batch *batch,
                                             struct kvt_buffer *out);

/**
 * Decode one message.  Unknown trailing array members are ignored (newer minor formats); unknown
 * event types and tiers are skipped and counted; anything malformed is KVT_INVALID with the byte
 * offset and what was expected there in `err`, and nothing of the batch may be used.
 *
 * @param[in,out] batch     `events` points to room for `capacity` events
 * @param[out]    skipped   events that were understood as events but have unknown values.  They
 *                          have numbers too: the batch covers the sequences from first_seq to
 *                          first_seq + event_count + *skipped - 1, and with any skipped the events
 *                          that are left cannot be numbered one by one
 * @return KVT_OK, KVT_INVALID or KVT_RANGE
 */
KVT_NODISCARD enum kvt_err wire_event_decode(const void *bytes, size_t size,
                                             struct kvt_event_batch *batch, size_t capacity,
                                             uint32_t *skipped, struct kvt_error *err);

#endif /* WIRE_MESSAGE_EVENT_CODEC_H */
