/*
 * gateway/s3/batch_request.h -- the batch API: many keys in one request (docs/formats.md).
 *
 * Why: a worker asks for hundreds of blocks at once; parsing is a pure function so that it can be
 * tested on every truncation.
 *
 * Ownership: parsed items point into the request's bytes (keys are copied: they need their NUL).
 * Limits:    GATEWAY_BATCH_REQUEST_KEYS_MAX keys; the answer's buffer limit: bodies that do not
 *            fit are answered KVT_AGAIN, and the client asks again for those.
 */
#ifndef GATEWAY_S3_BATCH_REQUEST_H
#define GATEWAY_S3_BATCH_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/object/object_name.h"
#include "gateway/block/get.h"
#include "gateway/block/put.h"
#include "gateway/tier/budget.h"
#include "gateway/tier/gateway_context.h"

enum gateway_batch_request_verb {
    GATEWAY_BATCH_REQUEST_HAS,
    GATEWAY_BATCH_REQUEST_GET,
    GATEWAY_BATCH_REQUEST_PUT
};

struct gateway_batch_request {
    size_t count;
    char *names;                   /* every key of the client's with its NUL */
    struct g4_object_name *stored; /* names in the store that are not their key, while it runs */
    struct gateway_item *items;    /* has, get */
    struct gateway_put_item *puts; /* put */
};

/** KVT_OK, or KVT_INVALID naming the byte offset, KVT_RANGE (too many keys), KVT_NOMEM. */
KVT_NODISCARD enum kvt_err gateway_batch_request_parse(struct gateway_batch_request *batch,
                                                       enum gateway_batch_request_verb verb,
                                                       const void *bytes, size_t size,
                                                       struct kvt_error *err);
void gateway_batch_request_release(struct gateway_batch_request *batch);

/** Do it and append the answer.  Has and get of a block whose layout is told, and is not that of
 *  `fingerprint`, find nothing: its bytes may be as many as those that are meant.  0: of any
 *  layout.  `taken` gets the bytes reserved from `budget` for the answer's
 *  bodies: the caller gives them back when the answer is gone. */
KVT_NODISCARD enum kvt_err
gateway_batch_request_run(struct gateway_context *context, enum gateway_batch_request_verb verb,
                          const void *bytes, size_t size, uint64_t fingerprint,
                          struct gateway_budget *budget, uint64_t *taken, struct kvt_buffer *answer,
                          struct kvt_error *err);

#endif /* GATEWAY_S3_BATCH_REQUEST_H */
