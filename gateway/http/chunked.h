/*
 * gateway/http/chunked.h -- the aws-chunked framing of a body, taken away as the bytes come.
 *
 * Why: many clients send a body as "<hex size>[;chunk-signature=...]" CRLF bytes CRLF ..., signed
 * piece by piece or with a checksum behind it.  What is stored is the payload alone, and only when
 * every piece, the end and the announced length were right.
 *
 * Ownership: the decoder is the caller's; the payload goes to the caller's buffer.
 * Threads:   none; one owner.
 * Limits:    a payload of just `length` bytes; lines of GATEWAY_CHUNKED_LINE_MAX - 1 bytes;
 *            GATEWAY_CHUNKED_TRAILERS_MAX trailing headers.
 */
#ifndef GATEWAY_HTTP_CHUNKED_H
#define GATEWAY_HTTP_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/s3/sigv4.h"
#include "gateway/http/body_checksum.h"
#include "kvtier/error.h"

#define GATEWAY_CHUNKED_LINE_MAX     512
#define GATEWAY_CHUNKED_TRAILERS_MAX 8

struct gateway_chunked_options {
    bool is_signed;                    /* every chunk carries its signature */
    bool has_trailer;                  /* headers follow the last chunk */
    uint64_t length;                   /* of the payload, as announced */
    struct g4_sigv4_signer signer;     /* is_signed */
    char seed[G4_SIGV4_SIGNATURE_MAX]; /* is_signed: signature of the request's header */
};

struct gateway_chunked;

KVT_NODISCARD enum kvt_err gateway_chunked_new(struct gateway_chunked **out,
                                               const struct gateway_chunked_options *options);
/** Wipes the key.  NULL is allowed. */
void gateway_chunked_free(struct gateway_chunked *chunked);

/**
 * Take the next bytes; their payload is appended to `body`.
 *
 * @return KVT_OK; KVT_INVALID (not this framing), KVT_DENIED (a wrong signature), KVT_RANGE (more
 *         payload than announced), KVT_NOMEM; after a failure always the same again
 */
KVT_NODISCARD enum kvt_err gateway_chunked_take(struct gateway_chunked *chunked, const void *bytes,
                                                size_t size, struct kvt_buffer *body);

/** The body ended.  KVT_OK when it was whole; KVT_RANGE: cut, or shorter than announced. */
KVT_NODISCARD enum kvt_err gateway_chunked_end(const struct gateway_chunked *chunked);

/** Checksums that came behind the payload. */
const struct gateway_body_checksums *
gateway_chunked_checksums(const struct gateway_chunked *chunked);

#endif /* GATEWAY_HTTP_CHUNKED_H */
