/*
 * tests/support/hostile_store_internal.h -- an answer before it is sent: the truth, and a lie about
 * it.
 *
 * Why: what is said and how bytes get onto the wire are read apart from each other.
 */
#ifndef TESTS_SUPPORT_HOSTILE_STORE_INTERNAL_H
#define TESTS_SUPPORT_HOSTILE_STORE_INTERNAL_H

#include <stdbool.h>

#include "base/core/buffer.h"

#include "tests/support/hostile_store.h"

enum face { GET, HEAD, LIST, PUT, BEGIN, MAKE, DELETE, UPLOADS, BATCH };

enum endless { ENDS, HEADERS, HEADER_LINE, INTERIM, BODY, CHUNKS };

/* One answer, to be lied about. */
struct told {
    struct hostile_store *store;
    const char *url;
    uint64_t random;
    enum face face;
    const char *head;
    const uint8_t *request;
    size_t request_size;
    uint64_t range_at;
    uint64_t range_end; /* 0: the whole */
    unsigned page;      /* of a listing */
    char status[64];
    struct kvt_buffer before; /* interim answers */
    struct kvt_buffer headers;
    struct kvt_buffer body;
    struct kvt_buffer after; /* behind the body, trailers */
    char length[64];         /* Content-Length; "" = none */
    bool chunked;
    enum endless endless;
    size_t cut_at;   /* SIZE_MAX: nowhere */
    size_t stall_at; /* SIZE_MAX: nowhere */
    bool drip;
    bool keep;
};

uint64_t hostile_store_below(struct told *told, uint64_t limit);

/** Fill the answer as a store would. */
void hostile_store_tell_truth(struct told *told);

/** Change it as the lie wants. */
void hostile_store_tell_lie(struct told *told, unsigned lie);

#endif /* TESTS_SUPPORT_HOSTILE_STORE_INTERNAL_H */
