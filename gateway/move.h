/*
 * gateway/move.h -- between the hot volume and the bucket.
 *
 * Why: copy, verify, publish, then drop the source: at every instant, and after a crash at any of
 * them, at least one readable copy exists, and doing it again changes nothing.
 *
 * Ownership: borrowed for the call.
 * Threads:   any; the key is held for the call.
 * Limits:    one object in memory at a time, of at most the vault's object_max.
 */
#ifndef GATEWAY_MOVE_H
#define GATEWAY_MOVE_H

#include "gateway/vault.h"

/** Make sure the bucket's copy is whole (write or repair it from the hot one), then drop the hot
 * one. KVT_OK also when there was none.  `bytes` gets what was freed in the hot volume. */
KVT_NODISCARD enum kvt_err gateway_move_demote(struct gateway_vault *vault, const char *key,
                                               uint64_t *bytes);

/** Copy to the hot volume.  KVT_OK also when it is there; NOTFOUND, FULL, UNAVAILABLE, CORRUPT. */
KVT_NODISCARD enum kvt_err gateway_move_promote(struct gateway_vault *vault, const char *key,
                                                uint64_t *bytes);

#endif /* GATEWAY_MOVE_H */
