/*
 * advisor/index/index_image.h -- all the store says at one instant, in an index of our own.
 *
 * Why: the store keeps the places of workers as a log.  Who wants to walk, count or compare all of
 * them without the advisor reads it once, as the advisor does when it starts.
 *
 * Ownership: an image owns its index and names; the transaction it is made in is the caller's and
 *            may end before it.
 * Threads:   one makes it; then as index/index.h.
 * Limits:    the machine's memory; making it takes as long as a start of the advisor, and so long
 *            does the transaction pin old pages of a running advisor's file.
 */
#ifndef ADVISOR_INDEX_INDEX_IMAGE_H
#define ADVISOR_INDEX_INDEX_IMAGE_H

#include "advisor/index/ram_index.h"
#include "advisor/store/durable_store.h"

struct advisor_index_image;

/** KVT_OK, KVT_NOMEM (it does not fit), KVT_CORRUPT, or what the store says. */
KVT_NODISCARD enum kvt_err advisor_index_image_new(struct advisor_index_image **out,
                                                   const struct advisor_txn *txn,
                                                   struct kvt_error *err);
void advisor_index_image_free(struct advisor_index_image *image);

/** It is whole.  Valid until the image is freed. */
struct advisor_ram_index *advisor_index_image_memory(struct advisor_index_image *image);

#endif /* ADVISOR_INDEX_INDEX_IMAGE_H */
