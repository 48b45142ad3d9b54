/*
 * gateway/move/recover.h -- finishing what a crash, or a bucket that was away, left unfinished.
 *
 * Why: an intent without outcome is settled by looking into the bucket; a retiring row is removed;
 * a hot file that no row knows is dropped.  None of it can lose what was acknowledged.
 *
 * Ownership: borrowed for the call.
 * Threads:   one; keys others hold are left for the next round.
 * Limits:    GATEWAY_RECOVER_ROUND rows that something is done about, GATEWAY_RECOVER_SKIPS that
 *            wait for the far bucket, and GATEWAY_RECOVER_MS a call; the next one goes on behind
 *            them, so that none keeps the others waiting.
 */
#ifndef GATEWAY_MOVE_RECOVER_H
#define GATEWAY_MOVE_RECOVER_H

#include <stdbool.h>

#include "gateway/tier/gateway_context.h"

#define GATEWAY_RECOVER_ROUND 1024
#define GATEWAY_RECOVER_SKIPS 16384
#define GATEWAY_RECOVER_MS    2000 /* and the row that is under way then */

/** One round over rows that are to be settled, while the bucket answers: from where the last one
 *  ended to the end, and on from the beginning.  Returns how many were. */
size_t gateway_recover_pending(struct gateway_context *context);

/** One page of the volume of GATEWAY_HOT or GATEWAY_WARM; `token` "" starts and is "" again at the
 *  end.  KVT_OK, or why not.
 */
KVT_NODISCARD enum kvt_err gateway_recover_orphans(struct gateway_context *context, unsigned tier,
                                                   char token[G4_TOKEN_MAX]);

#endif /* GATEWAY_MOVE_RECOVER_H */
