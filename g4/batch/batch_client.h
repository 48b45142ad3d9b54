/*
 * g4/batch/batch_client.h -- blocks through a gateway, in batches.
 *
 * Why: a worker asks for hundreds of blocks at once; one request per batch, one result per key in
 * the caller's order, and a body that does not fit its crc is a miss, not data.
 *
 * Ownership: options are copied; keys, bodies and buffers are borrowed for the call.
 * Threads:   any number of threads; each call uses a connection of a pool.
 * Limits:    G4_BATCH_CLIENT_BATCH_MAX keys a call (larger calls are split), `connections_max` at
 *            once: callers beyond wait.
 */
#ifndef G4_BATCH_BATCH_CLIENT_H
#define G4_BATCH_BATCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/batch/batch.h"
#include "kvtier/error.h"

struct g4_batch_client;

struct g4_batch_client_options {
    const char *endpoint; /* http://host:9480 */
    const char *bucket;
    const char *access_key;
    const char *secret_key;
    const char *region;       /* "" = us-east-1 */
    unsigned connections_max; /* 0 = 8 */
    uint64_t timeout_ms;      /* of one request; 0 = 30 s */
    uint64_t retry_ms;      /* keep retrying an absent or busy gateway this long; 0 = not at all */
    size_t batch_bytes_max; /* bodies in one request; 0 = 16 MiB */
    uint64_t fingerprint;   /* has, get: a block of another layout is not there; 0 = of any */
    /* After each request of a call, in the thread that called: `done` of `count` items have their
     * status.  False: the others are not asked, and carry KVT_CANCELLED.  NULL: nobody asks. */
    bool (*progress)(void *arg, size_t done, size_t count);
    void *progress_arg;
};

KVT_NODISCARD enum kvt_err g4_batch_client_open(struct g4_batch_client **out,
                                                const struct g4_batch_client_options *options,
                                                struct kvt_error *err);

/** Any thread, before the program ends: nothing is asked again any more, and a request gets a
 *  second to be answered in.  What was not answered carries the code of its last try. */
void g4_batch_client_stop(struct g4_batch_client *client);
void g4_batch_client_close(struct g4_batch_client *client);

/* Each sets every item's status; an item that the gateway is too busy for is asked again until
 * `retry_ms` have passed, then carries KVT_AGAIN.  KVT_OK: the batch was answered (items may
 * differ); otherwise the first request that failed, or KVT_CANCELLED; the items that were not asked
 * carry the same code. */
KVT_NODISCARD enum kvt_err g4_batch_client_has(struct g4_batch_client *client,
                                               struct g4_batch_client_item *items, size_t count,
                                               struct kvt_error *err);

/** As has, and it ends within `within_ms` (> 0), whatever it waits for: an answer, a connection, or
 *  the next try. */
KVT_NODISCARD enum kvt_err g4_batch_client_has_within(struct g4_batch_client *client,
                                                      struct g4_batch_client_item *items,
                                                      size_t count, uint64_t within_ms,
                                                      struct kvt_error *err);
KVT_NODISCARD enum kvt_err g4_batch_client_get(struct g4_batch_client *client,
                                               struct g4_batch_client_item *items, size_t count,
                                               struct kvt_error *err);
KVT_NODISCARD enum kvt_err g4_batch_client_put(struct g4_batch_client *client,
                                               struct g4_batch_client_item *items, size_t count,
                                               struct kvt_error *err);

#endif /* G4_BATCH_BATCH_CLIENT_H */
