/*
 * gateway/tier/bucket_tier.h -- the bucket, or two of them, and whether it can be relied on right
 * now.
 *
 * Why: a bucket that is away, full, closed to us, or that ignores conditions must be a clear state
 * that every PUT looks at first, not a hang in every request.
 *
 * Ownership: owns its store.
 * Threads:   any thread submits to the store and asks for the state; one thread probes.
 * Limits:    as the store's.
 */
#ifndef GATEWAY_TIER_BUCKET_TIER_H
#define GATEWAY_TIER_BUCKET_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/driver/driver_store.h"
#include "g4/lock/selftest.h"
#include "g4/object/g4_store.h"
#include "g4/s3/s3.h"
#include "kvtier/error.h"

/* For small requests of the gateway's own threads: nobody else is served while they wait. */
#define GATEWAY_BUCKET_TIER_LOOK_MS 5000

struct gateway_bucket_tier;

/* As the setting cold.kind numbers them. */
enum gateway_bucket_tier_kind {
    GATEWAY_BUCKET_TIER_DIRECTORY,
    GATEWAY_BUCKET_TIER_S3,
    GATEWAY_BUCKET_TIER_DRIVER
};

struct gateway_bucket_tier_options {
    enum gateway_bucket_tier_kind kind;
    const char *folder;                    /* directory */
    struct g4_s3_options s3;               /* s3 */
    struct g4_driver_store_options driver; /* driver */
    unsigned threads;                      /* directory */
};

/* A second bucket, further down (g4/pair/bucket_pair.h). */
enum gateway_far_kind { GATEWAY_FAR_NONE, GATEWAY_FAR_DIRECTORY, GATEWAY_FAR_S3 };

struct gateway_far_options {
    enum gateway_far_kind kind;
    const char *folder;      /* directory */
    struct g4_s3_options s3; /* s3 */
    unsigned threads;        /* directory */
};

/** "directory", "s3", "driver". */
const char *gateway_bucket_tier_kind_name(enum gateway_bucket_tier_kind kind);

KVT_NODISCARD enum kvt_err
gateway_bucket_tier_open(struct gateway_bucket_tier **out,
                         const struct gateway_bucket_tier_options *options, struct kvt_error *err);
void gateway_bucket_tier_close(struct gateway_bucket_tier *buckets);

/** Tests: take over a store made elsewhere; it counts as healthy after the first probe. */
KVT_NODISCARD enum kvt_err gateway_bucket_tier_adopt(struct gateway_bucket_tier **out,
                                                     struct g4_store *store);

/** Put a second bucket below: from now on the store is a g4/pair/bucket_pair.h.  Before anybody
 * uses it, and
 *  not where namespaces are packed. */
KVT_NODISCARD enum kvt_err gateway_bucket_tier_extend(struct gateway_bucket_tier *buckets,
                                                      const struct gateway_far_options *options,
                                                      struct kvt_error *err);

/** Tests: the same with a store made elsewhere, which is taken over on success. */
KVT_NODISCARD enum kvt_err gateway_bucket_tier_extend_by(struct gateway_bucket_tier *buckets,
                                                         struct g4_store *far);

/** Pack these namespaces ("a,b/c"): from now on the store is a g4/packed/packed_store.h on top of
 * the
 *  bucket's own.  Before anybody uses it.  `instance` goes into locks and segments. */
KVT_NODISCARD enum kvt_err gateway_bucket_tier_pack(struct gateway_bucket_tier *buckets,
                                                    const char *namespaces, const char *instance,
                                                    struct kvt_error *err);

struct g4_store *gateway_bucket_tier_store(struct gateway_bucket_tier *buckets);

/** The bucket of GATEWAY_COLD or GATEWAY_FAR alone, for who moves a block; NULL: there is no such
 *  bucket.  Without a second one it is the store. */
struct g4_store *gateway_bucket_tier_bucket(struct gateway_bucket_tier *buckets, unsigned tier);

/** Is the store a g4/packed/packed_store.h? */
bool gateway_bucket_tier_packs(const struct gateway_bucket_tier *buckets);

/** Is it a loaded driver's?  Nobody can ask that for more than objects. */
bool gateway_bucket_tier_is_driven(const struct gateway_bucket_tier *buckets);

/** Where the bucket is, for g4/s3/bucket.h; NULL when it is not at an S3 server. */
const struct g4_endpoint *gateway_bucket_tier_endpoint(const struct gateway_bucket_tier *buckets);

/** The same of the second bucket. */
const struct g4_endpoint *
gateway_bucket_tier_far_endpoint(const struct gateway_bucket_tier *buckets);

/** Ask the stores how they are; the first time one answers, also run its self-test of conditions.
 */
void gateway_bucket_tier_probe(struct gateway_bucket_tier *buckets);

/** Is there really no such object?  Asked by GET, because the "404" to a HEAD has no body to say
 *  that it is the whole bucket that is missing; then nothing may be forgotten. */
bool gateway_bucket_tier_absent(struct gateway_bucket_tier *buckets, const char *key);
/** The same of the far bucket alone. */
bool gateway_bucket_tier_absent_far(struct gateway_bucket_tier *buckets, const char *key);

bool gateway_bucket_tier_healthy(struct gateway_bucket_tier *buckets);

/** A request ended with `status`: one that says that nobody answered (UNAVAILABLE, TIMEOUT: a
 *  bucket that hangs is as good as away) makes the bucket suspect.  Returns `status`. */
enum kvt_err gateway_bucket_tier_ended(struct gateway_bucket_tier *buckets, enum kvt_err status);

/** May blocks be put?  Healthy, and conditions are known to hold. */
bool gateway_bucket_tier_writable(struct gateway_bucket_tier *buckets);

/** Were its conditions seen to hold, in this life of the gateway?  Blocks may then be owed to it.
 */
bool gateway_bucket_tier_proven(struct gateway_bucket_tier *buckets);

struct gateway_bucket_tier_state {
    bool healthy;
    bool tested;
    struct g4_selftest selftest;
    uint64_t latency_ms;
    int64_t skew_ms;
    char reason[KVT_ERROR_TEXT_MAX]; /* why not healthy or not writable; "" */
};

/** Of both buckets `selftest.delete_if_match` says what both heed. */
void gateway_bucket_tier_state(struct gateway_bucket_tier *buckets,
                               struct gateway_bucket_tier_state *state);

/** The same of the second bucket alone; false: there is none. */
bool gateway_bucket_tier_far_state(struct gateway_bucket_tier *buckets,
                                   struct gateway_bucket_tier_state *state);

/** Does the bucket of GATEWAY_COLD or GATEWAY_FAR heed If-Match on DELETE, as its own self-test
 *  says? */
bool gateway_bucket_tier_heeds(struct gateway_bucket_tier *buckets, unsigned tier);

/** Can a block be deleted: do both buckets answer?  With one there is, does it? */
bool gateway_bucket_tier_deletes(struct gateway_bucket_tier *buckets);

/** Does the bucket of GATEWAY_COLD or GATEWAY_FAR take blocks? */
bool gateway_bucket_tier_takes(struct gateway_bucket_tier *buckets, unsigned tier);

/** What a bucket said: UNAVAILABLE and TIMEOUT of the first one make it suspect.  Returns `rc`. */
enum kvt_err gateway_bucket_tier_ended_of(struct gateway_bucket_tier *buckets, unsigned tier,
                                          enum kvt_err rc);

/** Perform a request in the store, or in the bucket of one tier; its status counts as above. */
KVT_NODISCARD enum kvt_err gateway_bucket_tier_perform(struct gateway_bucket_tier *buckets,
                                                       struct g4_request *request);
KVT_NODISCARD enum kvt_err gateway_bucket_tier_perform_in(struct gateway_bucket_tier *buckets,
                                                          unsigned tier,
                                                          struct g4_request *request);

/** HEAD in the store, within GATEWAY_BUCKET_TIER_LOOK_MS; its status counts as above. */
KVT_NODISCARD enum kvt_err gateway_bucket_tier_look(struct gateway_bucket_tier *buckets,
                                                    const char *key, struct g4_request *request);

/** HEAD in one bucket, within GATEWAY_BUCKET_TIER_LOOK_MS; its status counts as above. */
KVT_NODISCARD enum kvt_err gateway_bucket_tier_head(struct gateway_bucket_tier *buckets,
                                                    const char *key, unsigned tier,
                                                    struct g4_request *request);

#endif /* GATEWAY_TIER_BUCKET_TIER_H */
