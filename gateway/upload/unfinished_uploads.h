/*
 * gateway/upload/unfinished_uploads.h -- uploads that this gateway began in its buckets, and that
 * may be left there.
 *
 * Why: the store notes each upload before the bucket hears of it (g4/s3/upload_notes.h).  A note
 * that stays is of one that a crash or a lost answer left behind: nobody else knows its key, and it
 * holds bytes until somebody gives it up.
 *
 * Ownership: borrows the context.
 * Limits:    GATEWAY_UNFINISHED_UPLOADS_ROUND notes of each bucket a round.
 */
#ifndef GATEWAY_UPLOAD_UNFINISHED_UPLOADS_H
#define GATEWAY_UPLOAD_UNFINISHED_UPLOADS_H

#include <stdint.h>

#include "gateway/tier/gateway_context.h"

#define GATEWAY_UNFINISHED_UPLOADS_LATE_MS UINT64_C(60000) /* the bucket may hear of it so late */
#define GATEWAY_UNFINISHED_UPLOADS_AGE_MS                                                          \
    (UINT64_C(60) * 60 * 1000) /* nobody works on it for so long */
#define GATEWAY_UNFINISHED_UPLOADS_ROUND 256

/** Give up uploads that were noted, and begun, GATEWAY_UNFINISHED_UPLOADS_AGE_MS ago, in either
 * bucket; their
 *  notes go when no upload to their key is left.  What fails is tried again the next time. */
void gateway_unfinished_uploads_settle(struct gateway_context *context, uint64_t now_ms);

#endif /* GATEWAY_UPLOAD_UNFINISHED_UPLOADS_H */
