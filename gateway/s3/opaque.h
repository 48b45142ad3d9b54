/*
 * gateway/s3/opaque.h -- reading objects that are no blocks.
 *
 * Why: opaque objects are mutable and others may write them too, so the bucket is asked each time,
 * and what is told of an object is what came with its bytes.
 *
 * Ownership: the struct is the caller's.
 * Limits:    as gateway/http/attributes.h.
 */
#ifndef GATEWAY_S3_OPAQUE_H
#define GATEWAY_S3_OPAQUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/tier/gateway_context.h"

struct gateway_opaque {
    const char *key;
    uint64_t length;
    uint64_t modified_ms;         /* Unix */
    char etag[G4_ETAG_MAX];       /* as clients see it, unquoted */
    char store_etag[G4_ETAG_MAX]; /* as the store's conditions want it */
    struct g4_meta meta;
    char attributes[G4_ATTRIBUTES_MAX];
};

/** HEAD: all but the body.  KVT_OK, KVT_NOTFOUND, or why it could not be told. */
KVT_NODISCARD enum kvt_err gateway_opaque_find(struct gateway_context *context,
                                               struct gateway_opaque *object);

/** What the catalog remembers of its length, without asking the bucket; false: nothing. */
bool gateway_opaque_hint(struct gateway_context *context, struct gateway_opaque *object);

/** GET: all of it, `length` bytes into `buffer`.  KVT_RANGE: it is larger than `capacity`; KVT_IO
 *  also when it fails its own checksum. */
KVT_NODISCARD enum kvt_err gateway_opaque_read(struct gateway_context *context,
                                               struct gateway_opaque *object, void *buffer,
                                               size_t capacity);

/** GET of `size` bytes (not 0) from `from` on, of exactly the object that was looked at.
 *  KVT_PRECONDITION: there is another by now. */
KVT_NODISCARD enum kvt_err gateway_opaque_read_span(struct gateway_context *context,
                                                    const struct gateway_opaque *object,
                                                    uint64_t from, void *buffer, size_t size);

#endif /* GATEWAY_S3_OPAQUE_H */
