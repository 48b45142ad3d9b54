/*
 * gateway/cold.h -- the bucket, and whether it can be relied on right now.
 *
 * Why: a bucket that is away, full, closed to us, or that ignores conditions must be a clear state
 * that every PUT looks at first, not a hang in every request.
 *
 * Ownership: owns its store.
 * Threads:   any thread submits to the store and asks for the state; one thread probes.
 * Limits:    as the store's.
 */
#ifndef GATEWAY_COLD_H
#define GATEWAY_COLD_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/foreign.h"
#include "g4/s3.h"
#include "g4/selftest.h"
#include "g4/store.h"
#include "kvtier/error.h"

/* For small requests of the gateway's own threads: nobody else is served while they wait. */
#define GATEWAY_COLD_LOOK_MS 5000

struct gateway_cold;

/* As the setting cold.kind numbers them. */
enum gateway_cold_kind { GATEWAY_COLD_DIRECTORY, GATEWAY_COLD_S3, GATEWAY_COLD_DRIVER };

struct gateway_cold_options {
    enum gateway_cold_kind kind;
    const char *folder;                     /* directory */
    struct g4_s3_options s3;                /* s3 */
    struct g4_foreign_store_options driver; /* driver */
    unsigned threads;                       /* directory */
};

/** "directory", "s3", "driver". */
const char *gateway_cold_kind_name(enum gateway_cold_kind kind);

KVT_NODISCARD enum kvt_err gateway_cold_open(struct gateway_cold **out,
                                             const struct gateway_cold_options *options,
                                             struct kvt_error *err);
void gateway_cold_close(struct gateway_cold *cold);

/** Tests: take over a store made elsewhere; it counts as healthy after the first probe. */
KVT_NODISCARD enum kvt_err gateway_cold_adopt(struct gateway_cold **out, struct g4_store *store);

/** Pack these namespaces ("a,b/c"): from now on the store is a g4/packed_store.h on top of the
 *  bucket's own.  Before anybody uses it.  `instance` goes into locks and segments. */
KVT_NODISCARD enum kvt_err gateway_cold_pack(struct gateway_cold *cold, const char *namespaces,
                                             const char *instance, struct kvt_error *err);

struct g4_store *gateway_cold_store(struct gateway_cold *cold);

/** Is the store a g4/packed_store.h? */
bool gateway_cold_packs(const struct gateway_cold *cold);

/** Is it a loaded driver's?  Nobody can ask that for more than objects. */
bool gateway_cold_is_driven(const struct gateway_cold *cold);

/** Where the bucket is, for g4/bucket.h; NULL when it is not at an S3 server. */
const struct g4_endpoint *gateway_cold_endpoint(const struct gateway_cold *cold);

/** Ask the store how it is; the first time it answers, also run the self-test of conditions. */
void gateway_cold_probe(struct gateway_cold *cold);

/** A request just failed because nobody answered: do not wait for the next probe to say so. */
void gateway_cold_suspect(struct gateway_cold *cold);

/** Is there really no such object?  Asked by GET, because the "404" to a HEAD has no body to say
 *  that it is the whole bucket that is missing; then nothing may be forgotten. */
bool gateway_cold_absent(struct gateway_cold *cold, const char *key);

bool gateway_cold_healthy(struct gateway_cold *cold);

/** A request ended with `status`: one that says that nobody answered (UNAVAILABLE, TIMEOUT: a
 *  bucket that hangs is as good as away) makes the bucket suspect.  Returns `status`. */
enum kvt_err gateway_cold_ended(struct gateway_cold *cold, enum kvt_err status);

/** May blocks be put?  Healthy, and conditions are known to hold. */
bool gateway_cold_writable(struct gateway_cold *cold);

/** Were its conditions seen to hold, in this life of the gateway?  Blocks may then be owed to it.
 */
bool gateway_cold_proven(struct gateway_cold *cold);

struct gateway_cold_state {
    bool healthy;
    bool tested;
    struct g4_selftest selftest;
    uint64_t latency_ms;
    int64_t skew_ms;
    char reason[KVT_ERROR_TEXT_MAX]; /* why not healthy or not writable; "" */
};

void gateway_cold_state(struct gateway_cold *cold, struct gateway_cold_state *state);

#endif /* GATEWAY_COLD_H */
