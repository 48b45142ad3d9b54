/*
 * kvbm/layout.h -- where in memory a block's parts lie, and a portable description of that.
 *
 * Why: whoever reads a block back must know the shape it was written in.  The description travels
 * with the block's metadata as a fingerprint and between workers as bytes; a mismatch is an error
 * and never misread data.
 *
 * Strides: region = page_size * inner_dim * dtype_bytes (one layer, one outer part);
 *          layer_stride = outer * region;
 *          contiguous: block_stride = align_up(layers * layer_stride, alignment);
 *          layered:    block_stride = align_up(layer_stride, alignment) within each layer.
 * The packed bytes of a block (object body, disk) are its regions in (layer, outer) order without
 * padding, the same for both kinds.
 *
 * Ownership: plain values.
 * Threads:   no shared state.
 * Limits:    as kvtier/kvbm.h; KVBM_LAYOUT_BYTES bytes serialized.
 */
#ifndef KVBM_LAYOUT_H
#define KVBM_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/kvbm.h"

#define KVBM_LAYOUT_BYTES 56

struct kvbm_layout {
    struct kvt_geometry geometry;
    uint64_t region_size;  /* bytes of one (layer, outer) part */
    uint64_t layer_stride; /* bytes of one layer of one block */
    uint64_t block_stride; /* from one block to the next, in its allocation */
    uint64_t block_size;   /* packed bytes of a block */
    uint64_t fingerprint;  /* of the geometry without tp_rank; never 0 */
};

/** Check the geometry and work out the strides.  KVT_INVALID or KVT_RANGE say which member. */
KVT_NODISCARD enum kvt_err kvbm_layout_make(struct kvbm_layout *out,
                                            const struct kvt_geometry *geometry,
                                            struct kvt_error *err);

/** Offset of (block, layer, outer) in the allocation that holds it: the only one when contiguous,
 *  layer `layer`'s when layered.  Indices must be within the geometry (asserted). */
uint64_t kvbm_layout_offset(const struct kvbm_layout *layout, uint32_t block, uint32_t layer,
                            uint32_t outer);

/** Offset of (layer, outer) in a block's packed bytes. */
uint64_t kvbm_layout_packed_offset(const struct kvbm_layout *layout, uint32_t layer,
                                   uint32_t outer);

/** Bytes of one allocation that holds `blocks` blocks (one of `layers` when layered). */
uint64_t kvbm_layout_allocation(const struct kvbm_layout *layout, uint32_t blocks);

/** The portable descriptor: magic, version, the geometry, fingerprint and a checksum. */
void kvbm_layout_serialize(const struct kvbm_layout *layout, uint8_t out[KVBM_LAYOUT_BYTES]);

/** KVT_INVALID (not a descriptor, other version), KVT_CORRUPT (checksum or fingerprint do not fit),
 *  or what kvbm_layout_make() says of the geometry.  `out` is zero on failure. */
KVT_NODISCARD enum kvt_err kvbm_layout_deserialize(struct kvbm_layout *out, const uint8_t *bytes,
                                                   size_t size, struct kvt_error *err);

/** May blocks be exchanged between the two?  KVT_PRECONDITION names the first member that differs.
 */
KVT_NODISCARD enum kvt_err kvbm_layout_compatible(const struct kvbm_layout *ours,
                                                  const struct kvbm_layout *theirs,
                                                  struct kvt_error *err);

#endif /* KVBM_LAYOUT_H */
