/*
 * g4/s3/exchange.h -- one request of the S3 store as HTTP, there and back.
 *
 * Why: making the request, taking the answer apart and deciding what it means are the same whoever
 * drives the transfer: an I/O thread with many at once, or a single call.
 *
 * Ownership: an exchange owns its libcurl handle for its life; the g4_request is borrowed from
 *            begin to finish.
 * Threads:   none; one owner.
 * Limits:    G4_ENDPOINT_ANSWER_HEADERS_MAX bytes of headers, interim answers and trailers
 *            included; G4_EXCHANGE_ERROR_MAX bytes of an error body are kept, and after
 *            G4_EXCHANGE_UNWANTED_MAX of a body that nobody asked for the connection is closed; a
 *            GET takes as many bytes as its memory has room for.
 */
#ifndef G4_S3_EXCHANGE_H
#define G4_S3_EXCHANGE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/object/g4_store.h"
#include "g4/object/receive_buffer.h"
#include "g4/s3/endpoint.h"
#include "g4/s3/s3_xml.h"
#include "kvtier/error.h"

#define G4_EXCHANGE_ERROR_MAX    4096
#define G4_EXCHANGE_UNWANTED_MAX (64 * 1024)

/* A request that is a step of an upload: what g4_request has no words for.  It hangs on
 * request->store_private. */
struct g4_exchange_step {
    const char *method;
    const char *query;         /* raw */
    bool creates;              /* metadata and attributes, but no body */
    bool bare;                 /* the body is no object's: no checksum */
    struct kvt_buffer *answer; /* NULL = not wanted */
    unsigned attempts;         /* out: how often it was sent */
};

/* What the header lines of one answer say.  An interim answer (1xx) is not the answer: each status
 * line begins anew.  What comes after the empty line is a trailer and says nothing. */
struct g4_exchange_said {
    bool interim;      /* a 1xx, after which another answer comes */
    bool over;         /* the empty line was there */
    bool length_known; /* Content-Length was there */
    bool chunked;
    bool meta_length; /* x-amz-meta-kvt-length and -crc32c were */
    bool meta_crc;
    bool other_key; /* x-amz-meta-kvt-key is that of another one */
    bool range_known;
    uint64_t length;
    uint64_t range_at;    /* Content-Range: the first byte, */
    uint64_t range_end;   /* ... the one behind the last, */
    uint64_t range_whole; /* ... and the size of the object */
    unsigned attribute_lines;
    char etag[G4_ETAG_MAX];
};

struct g4_exchange {
    CURL *easy;
    struct g4_endpoint *endpoint;
    struct g4_request *request;
    struct g4_endpoint_signed prepared;
    struct g4_s3_xml *listing;
    size_t sent; /* PUT: bytes of body handed out */
    struct g4_exchange_said said;
    struct g4_receive_buffer body; /* GET */
    bool keys_refused;             /* another attempt needs other credentials than `prepared` has */
    bool enough;                   /* an error body that is too long was cut off */
    size_t unwanted;               /* bytes of a body that is not read */
    enum kvt_err refused;          /* why a callback stopped the transfer */
    char trouble[G4_EXCHANGE_ERROR_MAX];
    size_t trouble_size;
};

/** Make it with a handle of its own; release in any case. */
KVT_NODISCARD enum kvt_err g4_exchange_init(struct g4_exchange *exchange);
void g4_exchange_release(struct g4_exchange *exchange);

/** Ready for one attempt at `request`, which may take `timeout_ms`.  An empty key means the bucket
 *  itself. */
KVT_NODISCARD enum kvt_err g4_exchange_begin(struct g4_exchange *exchange,
                                             struct g4_endpoint *endpoint,
                                             struct g4_request *request, uint64_t timeout_ms);

/**
 * The attempt is over: fill request->status and the other results.
 *
 * @return true when another attempt may end better
 */
bool g4_exchange_finish(struct g4_exchange *exchange, CURLcode code);

/** Instead of finish: nobody needs the answer.  The transfer is over or was never started. */
void g4_exchange_abandon(struct g4_exchange *exchange);

#endif /* G4_S3_EXCHANGE_H */
