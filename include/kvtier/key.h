/*
 * kvtier/key.h -- names of objects: rank-prefixed block keys, byte-compatible with KVBM
 * (docs/formats.md).
 *
 * Why: KVBM and KVTier must find each other's blocks, a bucket's notifications must be read as the
 * blocks they speak of, and a key that is not a block's must never be taken for one.
 * Ownership: the caller gives the buffers.
 * Limits:    KVT_KEY_MAX bytes with the NUL; ranks below KVT_RANKS_MAX, positions up to
 *            KVT_POSITION_MAX: beyond them nothing is a block's key.
 */
#ifndef KVTIER_KEY_H
#define KVTIER_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_KEY_MAX 512

enum kvt_key_revision { KVT_KEY_KVBM_A, KVT_KEY_KVBM_B, KVT_KEY_KVBM_C };

struct kvt_key {
    char namespace_[KVT_NAMESPACE_MAX];
    uint32_t rank;
    uint32_t position;
    uint64_t hash;            /* as it stands in the key: a fragment in revision A */
    uint64_t parent_fragment; /* 0 at position 0 */
};

/** Build "[<namespace>/]<rank>/<pos>:<b58>[:<b58>]".  KVT_OK, KVT_RANGE or KVT_INVALID. */
KVT_NODISCARD enum kvt_err kvt_key_format(char *out, size_t size, enum kvt_key_revision revision,
                                          const char *namespace_, uint32_t rank,
                                          const struct kvt_block_id *block);

/** Take a key apart.  KVT_INVALID: not a block's key (it is opaque, or a .lock/.meta). */
KVT_NODISCARD enum kvt_err kvt_key_parse(const char *key, struct kvt_key *out);

/** The parent fragment that `parent` has at `position` in this revision. */
uint64_t kvt_key_parent_fragment(enum kvt_key_revision revision, uint32_t position,
                                 uint64_t parent);

#define KVT_KEY_BASE58_MAX 12

/** Base58 of eight big-endian bytes, and back (KVT_INVALID on another alphabet or on overflow). */
void kvt_key_base58(uint64_t value, char out[KVT_KEY_BASE58_MAX]);
KVT_NODISCARD enum kvt_err kvt_key_base58_parse(const char *text, size_t size, uint64_t *value);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_KEY_H */
