/*
 * gateway/http/client_bucket.h -- a bucket that clients see, and where its objects are in the
 * store.
 *
 * Why: the gateway's store is one bucket; clients want several.  The configured bucket's keys are
 * the store's.  Objects of the others are below a reserved prefix that ends with the bucket's id: a
 * name that is used again gets another id, so what a slow writer leaves behind is nobody's.
 *
 * Threads:   any; pure functions.
 * Limits:    names of 3 to 63 bytes; a key has GATEWAY_CLIENT_BUCKET_KEY - 1 bytes less than the
 *            store's.
 */
#ifndef GATEWAY_HTTP_CLIENT_BUCKET_H
#define GATEWAY_HTTP_CLIENT_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "gateway/http/client_credentials.h"
#include "gateway/tier/object_key.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define GATEWAY_CLIENT_BUCKET_NAME 64
#define GATEWAY_CLIENT_BUCKET_ID   17

#define GATEWAY_CLIENT_BUCKET_MARKERS                                                              \
    ".kvtier-bucket/" /* and a name: who owns it, what its id is */
#define GATEWAY_CLIENT_BUCKET_KEY                                                                  \
    (sizeof(GATEWAY_OBJECT_KEY_BUCKET_OBJECTS) + GATEWAY_CLIENT_BUCKET_ID)

struct gateway_client_bucket {
    char name[GATEWAY_CLIENT_BUCKET_NAME];
    char owner[GATEWAY_OWNER_MAX];
    char id[GATEWAY_CLIENT_BUCKET_ID]; /* "": the configured bucket */
    uint64_t created_ms;               /* Unix */
    bool closing;                      /* somebody looks whether it is empty, to remove it */
    char etag[G4_ETAG_MAX];            /* of its marker */
};

/** May a bucket be called that?  S3's rules. */
bool gateway_client_bucket_name_valid(const char *name);

/** Blocks are in the configured bucket only; elsewhere every key is opaque. */
bool gateway_client_bucket_configured(const struct gateway_client_bucket *bucket);

/** The prefix of all its keys in the store; "" for the configured bucket. */
void gateway_client_bucket_prefix(const struct gateway_client_bucket *bucket,
                                  char out[GATEWAY_CLIENT_BUCKET_KEY]);

/** Where a client's key is in the store.  KVT_RANGE: too long; KVT_INVALID: not for clients. */
KVT_NODISCARD enum kvt_err gateway_client_bucket_key(const struct gateway_client_bucket *bucket,
                                                     const char *key, char out[KVT_KEY_MAX]);

/** The client's key of one of its keys in the store: the end of `stored`. */
const char *gateway_client_bucket_shown(const struct gateway_client_bucket *bucket,
                                        const char *stored);

#endif /* GATEWAY_HTTP_CLIENT_BUCKET_H */
