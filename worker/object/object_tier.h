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
 * Limits:    WORKER_OBJECT_TIER_BATCH keys a call; larger ones are split here.
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

#define WORKER_OBJECT_TIER_BATCH 256

struct worker_object_tier;

struct worker_object_tier_stats {
    bool away; /* nobody answers, or not in the time that requests have */
    uint64_t has_keys;
    uint64_t get_keys;
    uint64_t put_keys;
    uint64_t acked;   /* puts the gateway acknowledged */
    uint64_t refused; /* puts it answered otherwise */
    uint64_t failed;  /* calls that were not answered */
};

/** `out` is NULL, and KVT_OK returned, when the settings name neither gateway nor S3 service. */
KVT_NODISCARD enum kvt_err worker_object_tier_open(struct worker_object_tier **out,
                                                   const struct worker_settings *settings,
                                                   struct kvt_error *err);
void worker_object_tier_close(struct worker_object_tier *remote);

/** Any thread: the program ends, and no call waits for an absent gateway any more.  NULL is
 *  allowed. */
void worker_object_tier_stop(struct worker_object_tier *remote);

/** Which of the blocks are there?  No answer is "none", and false.  Asked for a request: it ends
 *  within half of the deadline that the settings give one, so that what is here has the rest. */
bool worker_object_tier_has(struct worker_object_tier *remote, const struct kvt_block_id *ids,
                            size_t count, bool *present);

/** Fetch blocks, at most KVT_VOLUME_SLICE; each gets its status. */
void worker_object_tier_get(struct worker_object_tier *remote, struct kvt_volume_item *items,
                            size_t count);

/** Store blocks, at most KVT_VOLUME_SLICE; each gets its status, KVT_EXISTS when it was there. */
void worker_object_tier_put(struct worker_object_tier *remote, struct kvt_volume_item *items,
                            size_t count);

/** So that `away` is true and ends also when nobody asks anything: one quick question, a second
 *  long at most, where nobody has had an answer for five seconds, or it is away and nobody has
 *  asked for one.  Otherwise nothing.  NULL is allowed. */
void worker_object_tier_look(struct worker_object_tier *remote);

void worker_object_tier_stats(struct worker_object_tier *remote,
                              struct worker_object_tier_stats *stats);

#endif /* WORKER_OBJECT_OBJECT_TIER_H */
