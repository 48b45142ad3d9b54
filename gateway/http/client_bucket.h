/*
 * gateway/http/client_bucket.h -- a bucket that clients see, and where its objects are in the
 * store.
 *
 * Why: the gateway's store is one bucket; clients want several.  Each has an id, which is in the
 * names of its objects (g4/object/object_name.h).  A bucket whose name is used again gets another
 * id, so what a slow writer leaves in the former one is in no bucket.
 *
 * Threads:   any; pure functions.
 * Limits:    names of 3 to 63 bytes; keys of G4_CLIENT_KEY_MAX - 1.
 */
#ifndef GATEWAY_HTTP_CLIENT_BUCKET_H
#define GATEWAY_HTTP_CLIENT_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "g4/object/object_name.h"
#include "gateway/http/client_credentials.h"
#include "kvtier/error.h"

#define GATEWAY_CLIENT_BUCKET_NAME 64
#define GATEWAY_CLIENT_BUCKET_ID   G4_OBJECT_BUCKET_MAX

#define GATEWAY_CLIENT_BUCKET_MARKERS                                                              \
    ".kvtier-bucket/" /* and a name: who owns it, what its id is */

/* Where older versions had the objects of buckets: an id, '/' and the key as it came. */
#define GATEWAY_CLIENT_BUCKET_OLD ".kvtier-object/"

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

/** Where the object of a client's key is in the store.  KVT_RANGE: the key is too long;
 *  KVT_INVALID: it is empty, or no UTF-8. */
KVT_NODISCARD enum kvt_err gateway_client_bucket_key(const struct gateway_client_bucket *bucket,
                                                     const char *key, struct g4_object_name *name);

#endif /* GATEWAY_HTTP_CLIENT_BUCKET_H */
