/*
 * g4/s3/exchange.h -- one request of the S3 store as HTTP, there and back.
 *
 * Why: making the request, taking the answer apart and deciding what it means are the same whoever
 * drives the transfer: an I/O thread with many at once, or a single call.
 *
 * Ownership: an exchange owns its libcurl handle for its life; the g4_request is borrowed from
 *            begin to finish.
 * Threads:   none; one owner.
 * Limits:    error bodies are kept up to G4_EXCHANGE_ERROR_MAX bytes.
 */
#ifndef G4_S3_EXCHANGE_H
#define G4_S3_EXCHANGE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/object/g4_store.h"
#include "g4/s3/endpoint.h"
#include "g4/s3/s3_xml.h"
#include "kvtier/error.h"

#define G4_EXCHANGE_ERROR_MAX 4096

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

struct g4_exchange {
    CURL *easy;
    struct g4_endpoint *endpoint;
    struct g4_request *request;
    struct g4_endpoint_signed prepared;
    struct g4_s3_xml *listing;
    size_t sent;       /* PUT: bytes of body handed out */
    bool own_buffer;   /* GET: the caller gave none */
    bool length_known; /* Content-Length was there */
    bool meta_length;  /* x-amz-meta-kvt-length and -crc32c were */
    bool meta_crc;
    bool other_key;    /* x-amz-meta-kvt-key is that of another one */
    bool keys_refused; /* another attempt needs other credentials than `prepared` has */
    uint64_t length;
    uint64_t range_at; /* Content-Range, of a part */
    bool range_known;
    enum kvt_err refused; /* why the write callback stopped the transfer */
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
