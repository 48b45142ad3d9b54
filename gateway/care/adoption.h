/*
 * gateway/care/adoption.h -- taking up what others put into the bucket: a row for each of its
 * objects.
 *
 * Why: caps, tiering, usage and the advisor's index see rows.  A bucket that was full before its
 * first gateway came has none, and a cap that is kept over a part of the objects removes the wrong
 * ones.  So the bucket is walked once, in the background; its cap holds from the end of that walk.
 *
 * What becomes of an object: a block with our metadata gets the row its writer's gateway has.  A
 * block without (KVBM's) gets a foreign one, which counts; so does one that a commit record has to
 * vouch for, as readers ask for that.  Any other key gets an opaque one.
 * Locks, commit records, tombstones and what is the gateway's own get none, and a block that is not
 * what was written is left to `kvtier g4 fsck`.
 *
 * A row is written while its key is held, from an answer that came under that hold: what a client
 * of this gateway changes or removes meanwhile leaves no false row.  The place of the walk is
 * written with the rows, so after any crash it goes on behind the last of them.
 *
 * Ownership: borrows the context; to be closed before it.
 * Threads:   one of its own; asking and viewing from any.
 * Limits:    GATEWAY_ADOPTION_BATCH objects in the air; `rate` objects a second.
 */
#ifndef GATEWAY_CARE_ADOPTION_H
#define GATEWAY_CARE_ADOPTION_H

#include "gateway/tier/gateway_context.h"

#define GATEWAY_ADOPTION_BATCH    64
#define GATEWAY_ADOPTION_RATE     1000
#define GATEWAY_ADOPTION_RATE_MAX 1000000

struct gateway_adoption;

/** Start the thread: it finds out whether there is anything to take up, and goes on with a walk
 *  that an earlier life began. */
KVT_NODISCARD enum kvt_err gateway_adoption_open(struct gateway_adoption **out,
                                                 struct gateway_context *context,
                                                 struct kvt_error *err);
void gateway_adoption_close(struct gateway_adoption *adoption);

/** Begin a walk, or go on with the one that was stopped.  One that runs takes the rate.
 *  @param rate  objects a second, 1 to GATEWAY_ADOPTION_RATE_MAX */
void gateway_adoption_start(struct gateway_adoption *adoption, uint64_t rate);

/** Stop the walk where it is; the next start goes on from there. */
void gateway_adoption_stop(struct gateway_adoption *adoption);

struct gateway_adoption_view {
    struct gateway_adoption_mark mark;
    bool waiting; /* RUNNING, and the bucket does not answer */
};

/** How far it is.  What was asked for shows at once. */
void gateway_adoption_view(struct gateway_adoption *adoption, struct gateway_adoption_view *view);

/** "unseen", "needed", "running", "stopped", "done". */
const char *gateway_adoption_state_name(enum gateway_adoption_state state);

#endif /* GATEWAY_CARE_ADOPTION_H */
