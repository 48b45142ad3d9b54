/*
 * gateway/block/put.h -- storing objects so that an acknowledgement means something.
 *
 * Why: a block is acknowledged when the bucket says that it has it, also one that has a row here;
 * a crash at any moment before leaves a durable intent that says where to look.  The first writer
 * wins: a second PUT of the same bytes is success, of other bytes a refusal, and over a bad object
 * a repair.  In write-back it is acknowledged when its hot copy and a row that says what the bucket
 * is owed are durable.
 *
 * Ownership: items and bodies are borrowed for the call.
 * Threads:   any; the keys are held for the call.
 * Limits:    GATEWAY_BATCH_REQUEST_KEYS_MAX items a call; caps of gateway/catalog/catalog.h.
 */
#ifndef GATEWAY_BLOCK_PUT_H
#define GATEWAY_BLOCK_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/tier/gateway_context.h"

struct gateway_put_item {
    const char *key;
    const void *body;
    size_t size;
    uint32_t crc32c;                /* the client's: checked against the body first */
    const struct g4_pieces *pieces; /* computed from the body, which then is not read for its crc;
                                       NULL = they were not */
    uint64_t fingerprint;
    char *attributes;  /* opaque objects: kept beside it; NULL = none */
    const char *shown; /* opaque objects: the ETag that clients see; NULL = the store's */
    /* Opaque objects: the line of gateway/upload/completed_parts.h; NULL = none, or not known. */
    const char *parts;
    /* OK; CORRUPT (the body does not fit its crc), INVALID (not a block's key, empty), RANGE, FULL,
     * AGAIN (the outcome is not known yet, no room, or an earlier item of the call has the key),
     * UNAVAILABLE, PRECONDITION (other content)
     */
    enum kvt_err status;
    bool present; /* OK, and it was there before */
    char etag[G4_ETAG_MAX];
};

/** Store blocks: intents (one group), hot and bucket side by side, rows and events.  In write-back
 *  hot alone, as far as the backlog has room and the hot volume takes them; the others as ever. */
void gateway_put_blocks(struct gateway_context *context, struct gateway_put_item *items,
                        size_t count);

/** The row that says that this item is about to be stored. */
void gateway_put_intent(const struct gateway_context *context, const struct gateway_put_item *item,
                        struct gateway_record *record);

/** Store an opaque object in the bucket: plain S3 semantics, `etag` in for G4_IF_MATCH and out.
 *  KVT_EXISTS, KVT_PRECONDITION: what is there is another's, also when requests were repeated.
 *  KVT_INVALID also: a conditional PUT's attributes leave no room for its nonce. */
KVT_NODISCARD enum kvt_err gateway_put_opaque(struct gateway_context *context,
                                              struct gateway_put_item *item,
                                              enum g4_condition condition);

#endif /* GATEWAY_BLOCK_PUT_H */
