/*
 * gateway/s3/client_buckets.h -- the buckets that clients made, as the store has them.
 *
 * Why: every gateway on the store must see the same buckets.  Each is a marker object there, put
 * with If-None-Match: * so that one creator wins.  A marker is removed in two steps, because a
 * writer may put an object while somebody finds the bucket empty: the remover marks it as closing,
 * looks, then removes it or opens it again; a writer looks at the marker after it wrote.  Either
 * the remover sees the object, or the writer sees the mark.
 *
 * Ownership: owns what it remembers of the markers.
 * Threads:   any; one leaf lock.  All but _new and _free ask the store.
 * Limits:    `max` buckets; GATEWAY_CLIENT_BUCKETS_CACHED remembered for
 *            GATEWAY_CLIENT_BUCKETS_FRESH_MS; a mark that its maker did not take back for
 *            GATEWAY_CLIENT_BUCKETS_CLOSING_MS counts for nothing.
 */
#ifndef GATEWAY_S3_CLIENT_BUCKETS_H
#define GATEWAY_S3_CLIENT_BUCKETS_H

#include "gateway/http/client_bucket.h"
#include "gateway/tier/gateway_context.h"

#define GATEWAY_CLIENT_BUCKETS_MAX        1000
#define GATEWAY_CLIENT_BUCKETS_CACHED     512
#define GATEWAY_CLIENT_BUCKETS_FRESH_MS   1000
#define GATEWAY_CLIENT_BUCKETS_CLOSING_MS 60000

struct gateway_client_buckets;

/**
 * @param configured  the name of the gateway's own bucket, which has no marker
 * @param owner       whose it is, as listings say
 * @param made_ms     since when it is there, Unix
 * @param max         at most GATEWAY_CLIENT_BUCKETS_MAX; 0: clients make none
 */
KVT_NODISCARD enum kvt_err gateway_client_buckets_new(struct gateway_client_buckets **out,
                                                      const char *configured, const char *owner,
                                                      uint64_t made_ms, size_t max);

/** NULL is allowed. */
void gateway_client_buckets_free(struct gateway_client_buckets *buckets);

/** The bucket of that name.  KVT_NOTFOUND, or as the store.  `sure`: ask the store, whatever is
 *  remembered. */
KVT_NODISCARD enum kvt_err gateway_client_buckets_find(struct gateway_client_buckets *buckets,
                                                       struct gateway_context *context,
                                                       const char *name, bool sure,
                                                       struct gateway_client_bucket *bucket);

/** Make one.  KVT_EXISTS: `bucket` is the one that is there; KVT_FULL: there are too many. */
KVT_NODISCARD enum kvt_err gateway_client_buckets_make(struct gateway_client_buckets *buckets,
                                                       struct gateway_context *context,
                                                       const char *name, const char *owner,
                                                       struct gateway_client_bucket *bucket);

/** All of them but the configured one, by name, behind `after`; room for
 * GATEWAY_CLIENT_BUCKETS_MAX. */
KVT_NODISCARD enum kvt_err
gateway_client_buckets_list(struct gateway_client_buckets *buckets, struct gateway_context *context,
                            const char *after, struct gateway_client_bucket *rows, size_t *count);

/** Remove it.  KVT_BUSY: there are objects in it; KVT_AGAIN: somebody else removes it just now. */
KVT_NODISCARD enum kvt_err
gateway_client_buckets_remove(struct gateway_client_buckets *buckets,
                              struct gateway_context *context,
                              const struct gateway_client_bucket *bucket);

/** After a write into it: is it still there?  KVT_NOTFOUND: no, what was written is nobody's;
 *  KVT_AGAIN: it could not be told in time. */
KVT_NODISCARD enum kvt_err
gateway_client_buckets_settle(struct gateway_client_buckets *buckets,
                              struct gateway_context *context,
                              const struct gateway_client_bucket *bucket);

#endif /* GATEWAY_S3_CLIENT_BUCKETS_H */
