/*
 * wire/message/signed_order.h -- orders and their signature, byte for byte (docs/formats.md,
 * "Orders").
 *
 * Why: whoever can publish on the bus must not be able to delete blocks: the order's bytes carry an
 * HMAC-SHA256 under a key that the advisor derived for that gateway.
 * Ownership: decoding copies into the caller's order and item array.
 * Limits:    KVT_ORDER_ITEMS_MAX items; WIRE_ORDER_MAX encoded bytes.
 */
#ifndef WIRE_MESSAGE_SIGNED_ORDER_H
#define WIRE_MESSAGE_SIGNED_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"
#include "kvtier/order.h"
#include "wire/message/key_ring.h"

#define WIRE_ORDER_MAX (128u << 10)
/**
 * @param shared  sign with the shared key itself, for gateways of former versions
 * @return KVT_NOTFOUND: the first key is not one for that gateway
 */
KVT_NODISCARD enum kvt_err wire_order_encode(const struct kvt_order *order,
                                             const struct wire_key_ring *keys, bool shared,
                                             struct kvt_buffer *out);

/** `gateway`: whose keys may have signed it, whatever the order says.  KVT_DENIED: the signature
 *  does not fit.  KVT_INVALID: malformed (offset in `err`). */
KVT_NODISCARD enum kvt_err wire_order_decode(const void *bytes, size_t size,
                                             const struct wire_key_ring *keys, const char *gateway,
                                             struct kvt_order *order, size_t capacity,
                                             struct kvt_error *err);

#endif /* WIRE_MESSAGE_SIGNED_ORDER_H */
