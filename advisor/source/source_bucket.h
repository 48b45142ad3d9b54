/*
 * advisor/source/source_bucket.h -- a bucket's notifications, and its listing where some were lost.
 *
 * Why: a store tells what happens in a bucket, without numbers and only to those who listen; what
 * was lost would never be found.  The bucket itself says what is there.
 * Ownership: as advisor/source/source.h.
 * Threads:   open and close on the engine's; one own thread watches and lists.
 * Limits:    ADVISOR_SOURCE_LISTING_MAX bytes of keys; what is heard while it is listed, as for a
 *            source.
 */
#ifndef ADVISOR_SOURCE_SOURCE_BUCKET_H
#define ADVISOR_SOURCE_SOURCE_BUCKET_H

#include "advisor/source/source_private.h"

#define ADVISOR_SOURCE_LISTING_MAX (256u << 20)

KVT_NODISCARD enum kvt_err advisor_source_bucket_open(struct advisor_source *source);
void advisor_source_bucket_close(struct advisor_source *source);

#endif /* ADVISOR_SOURCE_SOURCE_BUCKET_H */
