/*
 * g4/s3/s3.h -- an S3 bucket as a store: libcurl multi, own SigV4.
 *
 * Why: libcurl carries the bytes; signing is ours because the installed libcurls sign keys with ':'
 * differently (AWS "Signature Version 4", Create a signed request).  ETags go unquoted in
 * conditions.
 *
 * Ownership: options are copied; `placement` and `notes` are borrowed while the store is open,
 *            `notes` a little longer: they are closed behind it.
 * Threads:   `threads` I/O threads, each with its own multi handle.
 * Limits:    `queue_max` requests waiting, `connections_max` at once a thread, each with up to
 *            320 KiB of buffers beside its body; see g4/s3/s3_internal.h for retries and hedges.
 */
#ifndef G4_S3_S3_H
#define G4_S3_S3_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

struct g4_credentials;
struct g4_endpoint;
struct g4_placement;
struct g4_upload_notes;

struct g4_s3_options {
    const char *endpoint; /* http(s)://host[:port] */
    const char *bucket;
    const char *region; /* "" = us-east-1 */
    const char *access_key;
    const char *secret_key;
    const char *session_token; /* "" = none */
    bool find_credentials;     /* without an access key: g4/s3/credentials.h */
    const char *ca_file;       /* "" = the system's */
    bool path_style;
    unsigned threads;         /* 0 = 1 */
    unsigned connections_max; /* per thread; 0 = 32 */
    unsigned queue_max;       /* 0 = 4096 */
    unsigned attempts_max;    /* tries of one request: 500, 503, SlowDown, connection lost; 0 = 4 */
    uint64_t timeout_ms;      /* default deadline of a request; 0 = 30 s */
    uint64_t part_size;       /* larger objects travel in parts (g4/s3/s3_internal.h); 0 = 16 MiB */
    uint64_t hedge_ms;        /* ask a second time when a GET takes longer; 0 = never */
    bool hedge_p95;           /* longer than 19 in 20 do, but at least hedge_ms */
    uint32_t hedge_share_ppm; /* most GETs that are asked twice; 0 = 5 % */
    const struct g4_placement
        *placement;                /* how objects are kept there; NULL = as the bucket says */
    struct g4_upload_notes *notes; /* of uploads it begins; NULL = it writes none */
};

KVT_NODISCARD enum kvt_err g4_s3_open(struct g4_store **out, const struct g4_s3_options *options,
                                      struct kvt_error *err);

/** Does the bucket answer?  KVT_OK, KVT_NOTFOUND (no bucket), KVT_DENIED, KVT_UNAVAILABLE ...
 *  `skew_ms`: server clock minus ours, from the Date header; may be NULL. */
KVT_NODISCARD enum kvt_err g4_s3_probe(struct g4_store *store, int64_t *skew_ms,
                                       struct kvt_error *err);

struct g4_s3_counts {
    uint64_t retries;
    uint64_t unretried; /* failures that were final for want of budget */
    uint64_t hedges;
    uint64_t hedges_won;
};

/** What happened since it was opened; zeroes when it is not an S3 store. */
void g4_s3_count(const struct g4_store *store, struct g4_s3_counts *counts);

/** Where it is, for g4/s3/bucket.h; NULL when it is not an S3 store. */
const struct g4_endpoint *g4_s3_endpoint(const struct g4_store *store);

/** Create the bucket (KVT_EXISTS when it is there and ours). */
KVT_NODISCARD enum kvt_err g4_s3_create_bucket(const struct g4_s3_options *options,
                                               struct kvt_error *err);

#endif /* G4_S3_S3_H */
