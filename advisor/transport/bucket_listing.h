/*
 * advisor/transport/bucket_listing.h -- what an S3 bucket holds, by listing it.
 *
 * Why: notifications that were lost are lost; the bucket itself still says what is there.  The
 * advisor reads names and sizes and nothing else, so a request signed for that is all it needs.
 *
 * Ownership: options are borrowed; the keys belong to the caller's buffer.
 * Threads:   any; each listing has a connection of its own.
 * Limits:    the buffer's; ADVISOR_BUCKET_LISTING_PAGE_MAX bytes a page, which may take
 *            ADVISOR_BUCKET_LISTING_PAGE_WAIT_MS.
 */
#ifndef ADVISOR_TRANSPORT_BUCKET_LISTING_H
#define ADVISOR_TRANSPORT_BUCKET_LISTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define ADVISOR_BUCKET_LISTING_PAGE_MAX     (8u << 20)
#define ADVISOR_BUCKET_LISTING_PAGE_WAIT_MS 10000
#define ADVISOR_BUCKET_LISTING_KEY_MAX      (3 * 1024) /* as it is listed: every byte as %XX */
#define ADVISOR_BUCKET_LISTING_REQUEST_MAX  8192
#define ADVISOR_BUCKET_LISTING_NAME_MAX     64
#define ADVISOR_BUCKET_LISTING_SECRET_MAX   4096

struct advisor_bucket_listing {
    const char *url;              /* http[s]://host[:port]/bucket */
    const char *region;           /* "": us-east-1 */
    const char *credentials_file; /* access:secret[:token], for the owner's eyes only */
};

/** Its name; "" when the URL has none. */
void advisor_bucket_listing_name(const struct advisor_bucket_listing *bucket,
                                 char name[ADVISOR_BUCKET_LISTING_NAME_MAX]);

/** KVT_OK, or KVT_INVALID: the URL is none, said in a word. */
KVT_NODISCARD enum kvt_err advisor_bucket_listing_check(const struct advisor_bucket_listing *bucket,
                                                        struct kvt_error *err);

/**
 * Append every object: its size as LE64, then its key, escaped as in a URL, with a NUL.
 *
 * @return KVT_OK; KVT_CANCELLED (`stopping`); KVT_RANGE (more than the buffer may hold);
 *         KVT_DENIED, KVT_NOTFOUND, KVT_UNAVAILABLE, KVT_TIMEOUT, KVT_INVALID (no listing) or
 *         KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err advisor_bucket_listing_list(const struct advisor_bucket_listing *bucket,
                                                       const _Atomic bool *stopping,
                                                       struct kvt_buffer *keys,
                                                       struct kvt_error *err);

/* ---- the parts, for tests ---- */

struct advisor_bucket_listing_request {
    char url[ADVISOR_BUCKET_LISTING_REQUEST_MAX];
    char headers[5][ADVISOR_BUCKET_LISTING_SECRET_MAX]; /* "Name: value"; unused ones are "" */
};

/** The request for the page behind `token` ("": the first), signed for `date`
 *  ("20130524T000000Z") with `credentials` ("access:secret[:token]").  KVT_OK, KVT_INVALID,
 *  KVT_RANGE. */
KVT_NODISCARD enum kvt_err
advisor_bucket_listing_sign(const struct advisor_bucket_listing *bucket, const char *credentials,
                            const char *date, const char *token,
                            struct advisor_bucket_listing_request *request, struct kvt_error *err);

/** A page's XML: keys appended as above; `token` is that of the next page, "" behind the last.
 *  KVT_OK, KVT_INVALID, KVT_RANGE, KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_bucket_listing_read(const char *xml, size_t size,
                                                       struct kvt_buffer *keys,
                                                       char token[ADVISOR_BUCKET_LISTING_KEY_MAX],
                                                       struct kvt_error *err);

#endif /* ADVISOR_TRANSPORT_BUCKET_LISTING_H */
