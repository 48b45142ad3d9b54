/*
 * g4/key.h -- names of objects: rank-prefixed block keys, byte-compatible with KVBM
 * (docs/formats.md).
 *
 * Why: KVBM and KVTier must find each other's blocks, and a key that is not a block's must never be
 * taken for one.
 * Ownership: the caller gives the buffers.
 * Threads:   any.
 * Limits:    G4_KEY_MAX bytes with the NUL; ranks below KVT_RANKS_MAX, positions up to
 *            KVT_POSITION_MAX: beyond them nothing is a block's key.
 */
#ifndef G4_KEY_H
#define G4_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define G4_KEY_MAX 512

enum g4_key_revision { G4_KEY_KVBM_A, G4_KEY_KVBM_B, G4_KEY_KVBM_C };

struct g4_key {
    char namespace_[KVT_NAMESPACE_MAX];
    uint32_t rank;
    uint32_t position;
    uint64_t hash;            /* as it stands in the key: a fragment in revision A */
    uint64_t parent_fragment; /* 0 at position 0 */
};

/** Build "[<namespace>/]<rank>/<pos>:<b58>[:<b58>]".  KVT_OK, KVT_RANGE or KVT_INVALID. */
KVT_NODISCARD enum kvt_err g4_key_format(char *out, size_t size, enum g4_key_revision revision,
                                         const char *namespace_, uint32_t rank,
                                         const struct kvt_block_id *block);

/** Take a key apart.  KVT_INVALID: not a block's key (it is opaque, or a .lock/.meta). */
KVT_NODISCARD enum kvt_err g4_key_parse(const char *key, struct g4_key *out);

/** The parent fragment that `parent` has at `position` in this revision. */
uint64_t g4_key_parent_fragment(enum g4_key_revision revision, uint32_t position, uint64_t parent);

#define G4_BASE58_MAX 12

/** Base58 of eight big-endian bytes, and back (KVT_INVALID on another alphabet or on overflow). */
void g4_key_base58(uint64_t value, char out[G4_BASE58_MAX]);
KVT_NODISCARD enum kvt_err g4_key_base58_parse(const char *text, size_t size, uint64_t *value);

#endif /* G4_KEY_H */
