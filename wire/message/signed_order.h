/*
 * wire/message/signed_order.h -- orders and their signature, byte for byte (docs/formats.md,
 * "Orders").
 *
 * Why: whoever can publish on the bus must not be able to delete blocks: the order's bytes carry an
 * HMAC-SHA256 under a key that advisor and gateway share.
 * Ownership: decoding copies into the caller's order and item array.
 * Limits:    KVT_ORDER_ITEMS_MAX items; WIRE_ORDER_MAX encoded bytes; a key of 16..64 bytes.
 */
#ifndef WIRE_MESSAGE_SIGNED_ORDER_H
#define WIRE_MESSAGE_SIGNED_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"
#include "kvtier/order.h"

#define WIRE_ORDER_MAX     (128u << 10)
#define WIRE_ORDER_KEY_MIN 16
#define WIRE_ORDER_KEY_MAX 64

struct wire_order_key {
    uint8_t bytes[WIRE_ORDER_KEY_MAX];
    size_t size;
};

/**
 * Take a key as it stands in its file: hex digits that make 16..64 bytes, or 16..64 bytes of
 * anything else.
 *
 * @param[out] key  size 0 on failure
 * @return KVT_OK or KVT_INVALID
 */
KVT_NODISCARD enum kvt_err wire_order_key_parse(struct wire_order_key *key, const char *text,
                                                struct kvt_error *err);

KVT_NODISCARD enum kvt_err wire_order_encode(const struct kvt_order *order,
                                             const struct wire_order_key *key,
                                             struct kvt_buffer *out);

/** KVT_DENIED: the signature does not fit.  KVT_INVALID: malformed (offset in `err`). */
KVT_NODISCARD enum kvt_err wire_order_decode(const void *bytes, size_t size,
                                             const struct wire_order_key *key,
                                             struct kvt_order *order, size_t capacity,
                                             struct kvt_error *err);

#endif /* WIRE_MESSAGE_SIGNED_ORDER_H */
