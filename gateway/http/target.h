/*
 * gateway/http/target.h -- the request target: path, bucket, key, query.
 *
 * Why: signatures are made over the target as the client meant it, so it is taken raw and decoded
 * once, here, with every odd spelling refused instead of guessed at.
 * Ownership: `query` points into the raw target, which must outlive it.
 * Threads:   any; a pure function.
 * Limits:    GATEWAY_PATH_MAX decoded bytes.
 */
#ifndef GATEWAY_HTTP_TARGET_H
#define GATEWAY_HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define GATEWAY_PATH_MAX 4096

struct gateway_target {
    char path[GATEWAY_PATH_MAX]; /* decoded, starting with '/' */
    char bucket[64];             /* first segment, cut where it is longer; "" for "/" */
    bool bucket_long;            /* it was: no bucket can be called that */
    const char *key;             /* what follows it, inside `path`; "" for the bucket itself */
    const char *query;           /* raw, without '?'; "" */
};

/** "/bucket/key?query", also as "http://host/bucket/key?query".  KVT_INVALID or KVT_RANGE. */
KVT_NODISCARD enum kvt_err gateway_target_parse(const char *raw, struct gateway_target *target,
                                                struct kvt_error *err);

/** Virtual-hosted addressing: where `host` is "<bucket>.<one of the domains>[:port]", the bucket is
 * taken from there and the whole path is the key.  `domains`: "s3.local,other", "" for none. */
void gateway_target_host(struct gateway_target *target, const char *host, const char *domains);

/** A query argument that is a decimal number; `*value` stays where there is none of that name.
 *  false: it is no number. */
bool gateway_target_number(const struct gateway_target *target, const char *name, uint64_t *value);

/** The decoded value of a query argument.  KVT_NOTFOUND, KVT_RANGE (longer than `size`), INVALID.
 */
KVT_NODISCARD enum kvt_err gateway_target_query(const struct gateway_target *target,
                                                const char *name, char *value, size_t size);

/** Is the argument there, with or without a value? */
bool gateway_target_has(const struct gateway_target *target, const char *name);

/** Is any argument there that is not one of the `count` in `known`?  Its name goes to `name`. */
bool gateway_target_unknown(const struct gateway_target *target, const char *const *known,
                            size_t count, char *name, size_t size);

#endif /* GATEWAY_HTTP_TARGET_H */
