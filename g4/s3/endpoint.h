/*
 * g4/s3/endpoint.h -- an S3 address and who signs for it; one libcurl request made ready.
 *
 * Why: the S3 store and the batch client speak to different paths of the same kind of server: same
 * signing, same transport settings, same meaning of a failed transfer.
 *
 * Ownership: options are copied; g4_endpoint_free() wipes the secrets.  Header lists go to the
 *            caller (curl_slist_free_all()).
 * Threads:   any once made.
 * Limits:    G4_ENDPOINT_HEADERS_MAX headers of the caller's.
 */
#ifndef G4_S3_ENDPOINT_H
#define G4_S3_ENDPOINT_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/s3/s3_answer.h"
#include "g4/s3/sigv4.h"
#include "kvtier/error.h"

#define G4_ENDPOINT_HEADERS_MAX 56
#define G4_ENDPOINT_URL_MAX     8192

/* Bytes of header lines that an answer may have, interim answers and trailers included: S3's own
 * are below 8 KiB, with 2 KiB of the user's among them. */
#define G4_ENDPOINT_ANSWER_HEADERS_MAX (64 * 1024)

struct g4_endpoint_options {
    const char *url; /* http(s)://host[:port] */
    const char *bucket;
    const char *region; /* "" or NULL = us-east-1 */
    const char *access_key;
    const char *secret_key;
    const char *session_token; /* "" or NULL = none */
    bool find_credentials;     /* without an access key: g4/s3/credentials.h */
    const char *ca_file;       /* "" or NULL = the system's */
    bool path_style;
    const struct g4_placement *placement; /* outlives the endpoint; NULL = none */
};

struct g4_credentials;
struct g4_placement;
struct g4_endpoint;

KVT_NODISCARD enum kvt_err g4_endpoint_new(struct g4_endpoint **out,
                                           const struct g4_endpoint_options *options,
                                           struct kvt_error *err);
void g4_endpoint_free(struct g4_endpoint *endpoint);

const char *g4_endpoint_bucket(const struct g4_endpoint *endpoint);
const char *g4_endpoint_region(const struct g4_endpoint *endpoint);
const struct g4_placement *g4_endpoint_placement(const struct g4_endpoint *endpoint);

/* A request that is signed. */
struct g4_endpoint_signed {
    struct curl_slist *headers; /* the list the handle uses; free it after the transfer */
    uint64_t keys;              /* which keys signed it */
    uint64_t moment_ms;         /* Unix, as the signature has it */
    size_t answer_headers;      /* bytes of header lines that came */
};

struct g4_endpoint_call {
    const char *method;
    const char *path;  /* decoded, with '/' in front; below the bucket if `in_bucket` */
    const char *query; /* raw; "" = none */
    bool in_bucket;
    const struct g4_sigv4_header *headers; /* signed beside host, date and payload */
    size_t header_count;
};

/**
 * Set the handle up for a call: URL, signed headers, timeouts, TLS, and a header callback that ends
 * the transfer at G4_ENDPOINT_ANSWER_HEADERS_MAX.  The caller adds what is done with the bodies;
 * one that sets a header callback of its own calls g4_endpoint_count_header() first.  `prepared`
 * stays where it is until the transfer is over.
 *
 * @return KVT_OK, KVT_DENIED (no keys, for the time being), KVT_RANGE or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err g4_endpoint_prepare(const struct g4_endpoint *endpoint, CURL *easy,
                                               const struct g4_endpoint_call *call,
                                               uint64_t timeout_ms,
                                               struct g4_endpoint_signed *prepared,
                                               struct kvt_error *err);

/** A header line of `size` bytes came; false: no more are taken. */
bool g4_endpoint_count_header(struct g4_endpoint_signed *prepared, size_t size);

/**
 * The server refused what was signed: look for other keys, or take its clock for ours, where that
 * is why.
 *
 * @param easy  the handle of the transfer, with its answer
 * @param http  its status
 * @return true when the request, signed anew, may end better
 */
bool g4_endpoint_refused(struct g4_endpoint *endpoint, CURL *easy,
                         const struct g4_endpoint_signed *prepared, int http,
                         enum g4_s3_answer_cause cause);

/** The keys that the next request is signed with, as `keys` of what is signed says them. */
uint64_t g4_endpoint_keys(const struct g4_endpoint *endpoint);

/** What a transfer that libcurl gave up means.  `again`: another attempt may do better. */
enum kvt_err g4_endpoint_failure(CURLcode code, bool *again);

#endif /* G4_S3_ENDPOINT_H */
