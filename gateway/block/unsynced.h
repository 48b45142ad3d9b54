/*
 * gateway/block/unsynced.h -- hot copies that a power cut may still take.
 *
 * Why: a block that is acknowledged because the bucket has it need not wait for a second disk.  So
 * its hot copy is written and not synced, with a note of it in the very transaction that publishes
 * its row; files are synced many at a time behind the answers, and then their notes go.  What is
 * noted when a life begins is read whole before anybody is served: a copy that is not sound goes,
 * and its block is served from the bucket.
 *
 * Ownership: borrows the context.
 * Threads:   gateway_unsynced_check() and gateway_unsynced_sync() one at a time; the others any.
 * Limits:    GATEWAY_UNSYNCED_MAX bytes and GATEWAY_UNSYNCED_BLOCKS blocks, and what is in flight
 *            when they are reached: whoever comes then syncs by itself.
 */
#ifndef GATEWAY_BLOCK_UNSYNCED_H
#define GATEWAY_BLOCK_UNSYNCED_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/tier/gateway_context.h"

/* A second or two of reading after a crash. */
#define GATEWAY_UNSYNCED_MAX    (UINT64_C(256) << 20)
#define GATEWAY_UNSYNCED_BLOCKS 8192

/** May so many hot copies, of so many bytes together, be left unsynced for now? */
bool gateway_unsynced_room(const struct gateway_catalog_stats *stats, uint64_t blocks,
                           uint64_t bytes);

/** Do so many wait that they should be synced soon? */
bool gateway_unsynced_many(const struct gateway_catalog_stats *stats);

/**
 * Sync what is noted, for `patience_ms` at most and the files that are under way then.  What the
 * disk failed to write leaves its row, or is written anew where the bucket does not have it.
 *
 * @param after  "" the first time; then as the last call left it, who goes on from there
 * @return KVT_OK also when time was up
 */
KVT_NODISCARD enum kvt_err gateway_unsynced_sync(struct gateway_context *context,
                                                 char after[KVT_KEY_MAX], uint64_t patience_ms);

/**
 * Make sure of a hot copy that may come to be all there is: read, checked, and written anew,
 * synced.  To sync the file that is there would not do: a disk that failed to write it says so
 * once.
 *
 * @param record what the copy should be; the caller holds the key
 * @return KVT_CORRUPT, KVT_NOTFOUND: there is no sound one.  All other errors say nothing of it.
 */
KVT_NODISCARD enum kvt_err gateway_unsynced_renew(struct gateway_context *context, const char *key,
                                                  const struct gateway_record *record);

/** At the start of a life: drop the noted copies that are not whole, and say how many. */
KVT_NODISCARD enum kvt_err gateway_unsynced_check(struct gateway_context *context,
                                                  uint64_t *dropped);

#endif /* GATEWAY_BLOCK_UNSYNCED_H */
