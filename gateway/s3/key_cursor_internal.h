/*
 * gateway/s3/key_cursor_internal.h -- the part of the cursor whose names are hashed
 * (gateway/s3/long_keys.c): its objects in the order of their keys.
 *
 * Why: the key of a hashed name is in a record beside it, and names with the same beginning are not
 * in the order of their keys.  So all names of one beginning are read before the first is given.
 *
 * Ownership: texts given at the start are borrowed; rows are its own until the next call.
 * Threads:   one.
 * Limits:    GATEWAY_LONG_KEYS_READS records read at once, GATEWAY_LONG_KEYS_MAX in a listing: more
 *            is KVT_UNSUPPORTED.  The `limit` smallest keys of a beginning are in memory.
 */
#ifndef GATEWAY_S3_KEY_CURSOR_INTERNAL_H
#define GATEWAY_S3_KEY_CURSOR_INTERNAL_H

#include "g4/object/g4_store.h"
#include "g4/object/object_name.h"

#define GATEWAY_LONG_KEYS_READS 64
#define GATEWAY_LONG_KEYS_MAX   200000

struct gateway_long_keys;

/** Those whose keys begin with `prefix` and are behind `after`.  KVT_NOMEM. */
KVT_NODISCARD enum kvt_err gateway_long_keys_new(struct gateway_long_keys **out,
                                                 struct g4_store *store, const char *bucket,
                                                 const char *prefix, const char *after,
                                                 size_t limit);
/** NULL is allowed. */
void gateway_long_keys_free(struct gateway_long_keys *keys);

/** The next one.  KVT_NOTFOUND: there is none; else what the store said. */
KVT_NODISCARD enum kvt_err gateway_long_keys_peek(struct gateway_long_keys *keys, const char **key,
                                                  const struct g4_listed **object);
/** It is done with. */
void gateway_long_keys_pass(struct gateway_long_keys *keys);

/** Keys that begin so are not wanted from here on. */
void gateway_long_keys_skip(struct gateway_long_keys *keys, const char *beginning);

#endif /* GATEWAY_S3_KEY_CURSOR_INTERNAL_H */
