/*
 * wire/message/signature.h -- a message with the proof of who made it: [payload, mac]
 * (docs/formats.md, "Keys and signatures").
 *
 * Why: any client of the bus can publish; only the holder of a key can sign.  Each kind of message
 * hashes a label of its own first, so that a message of one kind is none of another.
 * Ownership: an envelope borrows the bytes that were read.
 * Limits:    as the payload's.
 */
#ifndef WIRE_MESSAGE_SIGNATURE_H
#define WIRE_MESSAGE_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"
#include "wire/message/key_ring.h"

#define WIRE_MAC_SIZE     32
#define WIRE_ENVELOPE_MAX 64 /* more than the outer array, the two heads and the MAC take */

/* X(name, label, use): kinds of signed messages, and whose key signs them. */
#define WIRE_SIGNED_KINDS(X)                                                                       \
    X(ORDER, "kvtier-order-v1", WIRE_KEY_ORDERS)                                                   \
    X(REPORT, "kvtier-report-v1", WIRE_KEY_REPORTS)

enum wire_signed_kind {
#define X(name, label, use) WIRE_SIGNED_##name,
    WIRE_SIGNED_KINDS(X)
#undef X
        WIRE_SIGNED_KIND_COUNT
};

struct wire_envelope {
    const void *payload;
    size_t size;
    const uint8_t *mac;
};

/** Does a message begin as an envelope does, an array whose first member is bytes? */
bool wire_envelope_is(const void *bytes, size_t size);

/** KVT_INVALID: no envelope.  Nothing is verified. */
KVT_NODISCARD enum kvt_err wire_envelope_read(const void *bytes, size_t size,
                                              struct wire_envelope *envelope,
                                              struct kvt_error *err);

/** Append an envelope, signed as `name` with the first key.  KVT_NOTFOUND: it is not `name`'s. */
KVT_NODISCARD enum kvt_err wire_envelope_sign(const struct wire_key_ring *ring,
                                              enum wire_signed_kind kind, const char *name,
                                              const void *payload, size_t size,
                                              struct kvt_buffer *out);

/** Did the holder of one of the keys of `name` sign it? */
bool wire_envelope_verify(const struct wire_key_ring *ring, enum wire_signed_kind kind,
                          const char *name, const struct wire_envelope *envelope);

/* ---- orders of former versions: by the shared key itself, without a label ---- */

KVT_NODISCARD enum kvt_err wire_envelope_sign_shared(const struct wire_key_ring *ring,
                                                     const void *payload, size_t size,
                                                     struct kvt_buffer *out);
bool wire_envelope_verify_shared(const struct wire_key_ring *ring,
                                 const struct wire_envelope *envelope);

#endif /* WIRE_MESSAGE_SIGNATURE_H */
