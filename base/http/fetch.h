/*
 * base/http/fetch.h -- one HTTP request and its whole answer, for the CLI and for probes.
 *
 * Why: small control requests do not need the object client's machinery.
 * Ownership: the answer's body belongs to the caller's buffer.
 * Threads:   any; each call uses its own handle.
 * Limits:    the buffer's limit bounds the answer, KVT_FETCH_HEADERS_MAX what comes before it;
 *            `timeout_ms` bounds the wait.
 */
#ifndef BASE_HTTP_FETCH_H
#define BASE_HTTP_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define KVT_FETCH_HEADERS_MAX (64 * 1024) /* bytes of header lines, interim answers' included */

struct kvt_fetch {
    const char *method; /* NULL: GET */
    const char *url;
    const char *token;          /* bearer token, or NULL */
    const char *const *headers; /* more of them, "Name: value", up to a NULL; or NULL */
    const void *body;
    size_t body_size;
    const char *type;    /* of the body; NULL: application/json */
    bool direct;         /* never through a proxy: the peer is on this machine or its network */
    uint64_t timeout_ms; /* 0: 10 s */
};

/**
 * Perform it.  Any HTTP status is KVT_OK; look at `status`.
 *
 * @return KVT_OK, KVT_UNAVAILABLE (nobody there), KVT_TIMEOUT, KVT_RANGE, KVT_IO (who answered
 *         speaks no HTTP), KVT_INVALID or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err kvt_fetch(const struct kvt_fetch *fetch, unsigned *status,
                                     struct kvt_buffer *answer, struct kvt_error *err);

#endif /* BASE_HTTP_FETCH_H */
