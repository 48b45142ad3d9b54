/*
 * worker/object/object_tier.h -- the object tier (G4) as a worker sees it.
 *
 * Why: blocks go to and come from a gateway in batches under their object keys.  A gateway that is
 * away must cost one patient wait and then next to nothing: after a question was not answered
 * within the retry time, everything is a miss at once, but for one quick question a second.  One
 * that only does not answer within what a request can wait is asked on behalf of requests once a
 * second; what is stored and fetched goes on.
 *
 * Where the settings name an S3 service it is asked itself, without a gateway: its bucket
 * (worker/object/bucket_volume.h) then is what "the gateway" stands for here.
 *
 * Ownership: one remote a process, shared by its workers; ids and buffers are borrowed for the
 *            call.
 * Threads:   any.
 * Limits:    KVBM_REMOTE_BATCH keys a call; larger ones are split here.
 */
#ifndef WORKER_OBJECT_OBJECT_TIER_H
#define WORKER_OBJECT_OBJECT_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvbm/volume/volume_set.h"
#include "kvtier/block.h"
#include "kvtier/error.h"

#include "worker/settings/worker_settings.h"

#define KVBM_REMOTE_BATCH 256

struct kvbm_remote;

struct kvbm_remote_stats {
    bool away; /* nobody answers, or not in the time that requests have */
    uint64_t has_keys;
    uint64_t get_keys;
    uint64_t put_keys;
    uint64_t acked;   /* puts the gateway acknowledged */
    uint64_t refused; /* puts it answered otherwise */
    uint64_t failed;  /* calls that were not answered */
};

/** `out` is NULL, and KVT_OK returned, when the settings name neither gateway nor S3 service. */
KVT_NODISCARD enum kvt_err kvbm_remote_open(struct kvbm_remote **out,
                                            const struct kvbm_settings *settings,
                                            struct kvt_error *err);
void kvbm_remote_close(struct kvbm_remote *remote);

/** Any thread: the program ends, and no call waits for an absent gateway any more.  NULL is
 *  allowed. */
void kvbm_remote_stop(struct kvbm_remote *remote);

/** Which of the blocks are there?  No answer is "none", and false.  Asked for a request: it ends
 *  within half of the deadline that the settings give one, so that what is here has the rest. */
bool kvbm_remote_has(struct kvbm_remote *remote, const struct kvt_block_id *ids, size_t count,
                     bool *present);

/** Fetch blocks, at most KVT_VOLUME_SLICE; each gets its status. */
void kvbm_remote_get(struct kvbm_remote *remote, struct kvt_volume_item *items, size_t count);

/** Store blocks, at most KVT_VOLUME_SLICE; each gets its status, KVT_EXISTS when it was there. */
void kvbm_remote_put(struct kvbm_remote *remote, struct kvt_volume_item *items, size_t count);

/** So that `away` is true and ends also when nobody asks anything: one quick question, a second
 *  long at most, where nobody has had an answer for five seconds, or it is away and nobody has
 *  asked for one.  Otherwise nothing.  NULL is allowed. */
void kvbm_remote_look(struct kvbm_remote *remote);

void kvbm_remote_stats(struct kvbm_remote *remote, struct kvbm_remote_stats *stats);

#endif /* WORKER_OBJECT_OBJECT_TIER_H */
