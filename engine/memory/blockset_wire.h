/*
 * engine/memory/blockset_wire.h -- the bytes that describe a block set.
 *
 * Why: they come from another process, and are believed only when all of them fit.
 * Ownership: facts borrow the bytes they were read from.
 * Threads:   no shared state.
 * Limits:    ENGINE_BLOCKSET_DESCRIPTION_MAX bytes.
 */
#ifndef ENGINE_MEMORY_BLOCKSET_WIRE_H
#define ENGINE_MEMORY_BLOCKSET_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "kvbm/layout/block_layout.h"

#include "engine/memory/fabric.h"

#define ENGINE_BLOCKSET_DESCRIPTION_MAX (ENGINE_FABRIC_DESCRIPTION_MAX + 256) /* bytes */

struct engine_blockset_facts {
    struct kvbm_layout layout; /* with TP size and rank */
    uint32_t blocks;
    uint64_t nonce;
    const uint8_t *region; /* its description */
    size_t region_size;
};

/** How many bytes it is. */
size_t engine_blockset_pack(uint8_t out[ENGINE_BLOCKSET_DESCRIPTION_MAX],
                            const struct engine_blockset_facts *facts);

/** KVT_OK; KVT_INVALID (no description, or of another version); KVT_CORRUPT (its checksum);
 *  what kvbm_layout_deserialize() says. */
KVT_NODISCARD enum kvt_err engine_blockset_unpack(struct engine_blockset_facts *facts,
                                                  const uint8_t *bytes, size_t size,
                                                  struct kvt_error *err);

#endif /* ENGINE_MEMORY_BLOCKSET_WIRE_H */
