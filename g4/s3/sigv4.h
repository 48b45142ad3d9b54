/*
 * g4/s3/sigv4.h -- AWS Signature Version 4, both sides.
 *
 * Why: the client signs, the gateway verifies, and both must canonicalize alike (AWS S3 API
 * reference, "Authenticating Requests: Using the Authorization Header").
 *
 * Ownership: the caller owns all text.
 * Threads:   any; no shared state.
 * Limits:    G4_SIGV4_HEADERS_MAX signed headers; texts of the sizes below.
 */
#ifndef G4_S3_SIGV4_H
#define G4_S3_SIGV4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define G4_SIGV4_HEADERS_MAX   64
#define G4_SIGV4_SIGNATURE_MAX 65
#define G4_SIGV4_DATE_MAX      17 /* 20130524T000000Z */
#define G4_SIGV4_KEY_BYTES     32
#define G4_SIGV4_UNSIGNED      "UNSIGNED-PAYLOAD"

struct g4_sigv4_header {
    const char *name; /* any case */
    const char *value;
};

struct g4_sigv4_request {
    const char *method;
    const char *path;                      /* decoded, starting with '/' */
    const char *query;                     /* raw, without '?'; "" = none */
    const struct g4_sigv4_header *headers; /* those to be signed; host must be among them */
    size_t header_count;
    const char *payload_hash; /* hex SHA-256, or G4_SIGV4_UNSIGNED */
    const char *date;         /* x-amz-date */
    const char *region;
    const char *service; /* "s3" */
};

/** Hex signature of the request under `secret_key`.  KVT_OK, KVT_INVALID (no header, no date, a
 * path without '/'), KVT_RANGE (longer than any S3 request) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err g4_sigv4_sign(const struct g4_sigv4_request *request,
                                         const char *secret_key,
                                         char signature[G4_SIGV4_SIGNATURE_MAX]);

/** Append the Authorization header's value. */
KVT_NODISCARD enum kvt_err g4_sigv4_authorization(const struct g4_sigv4_request *request,
                                                  const char *access_key, const char *secret_key,
                                                  struct kvt_buffer *out);

struct g4_sigv4_claim {
    char access_key[128];
    char date[9]; /* of the credential scope */
    char region[64];
    char service[16];
    char signature[G4_SIGV4_SIGNATURE_MAX];
    char signed_headers[1024]; /* "host;x-amz-date", lower case */
};

/** Take an Authorization header apart; KVT_INVALID with the reason when it is not SigV4. */
KVT_NODISCARD enum kvt_err g4_sigv4_parse(const char *authorization, struct g4_sigv4_claim *claim,
                                          struct kvt_error *err);

/* What signs the pieces of a body that is sent as aws-chunked. */
struct g4_sigv4_signer {
    uint8_t key[G4_SIGV4_KEY_BYTES]; /* wipe it after use */
    char date[G4_SIGV4_DATE_MAX];
    char scope[128]; /* "20130524/us-east-1/s3/aws4_request" */
};

/** KVT_OK, KVT_INVALID (a date of another form, a secret or region too long) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err g4_sigv4_signer_init(struct g4_sigv4_signer *signer,
                                                const char *secret_key, const char *date,
                                                const char *region, const char *service);

/** Signature of one chunk; `previous` is that of the chunk before, or of the request's header;
 * `hash` the hex SHA-256 of its bytes. */
void g4_sigv4_sign_chunk(const struct g4_sigv4_signer *signer, const char *previous,
                         const char *hash, char signature[G4_SIGV4_SIGNATURE_MAX]);

/** Signature of the trailing headers; `hash` is of their "name:value\n" lines. */
void g4_sigv4_sign_trailer(const struct g4_sigv4_signer *signer, const char *previous,
                           const char *hash, char signature[G4_SIGV4_SIGNATURE_MAX]);

/** Append `text` percent-encoded as SigV4 wants it; `keep_slash` for paths. */
void g4_sigv4_encode(struct kvt_buffer *out, const char *text, bool keep_slash);

#endif /* G4_S3_SIGV4_H */
