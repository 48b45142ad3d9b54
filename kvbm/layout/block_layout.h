/*
 * kvbm/layout/block_layout.h -- where in memory a block's parts lie, and a portable description of
 * that.
 *
 * Why: whoever reads a block back must know the shape it was written in.  The description travels
 * with the block's metadata as a fingerprint and between workers as bytes; a mismatch is an error
 * and never misread data.
 *
 * Shapes, with row = head_dim * dtype_bytes, region = page_size * heads * row (one layer, one outer
 * part, all heads of this rank):
 *   contiguous  block [layer][outer][region], block_stride = align_up(block_size, alignment);
 *   layered     one allocation a layer, [block][outer][region] in each, block_stride =
 *               align_up(outer * region, alignment) within it;
 *   universal   block [head][layer][outer][page][dim], block_stride as contiguous.  All that
 *               belongs to neighbouring heads is one run, and with it a slice of a TP group.
 * A region is [page][head][dim] (NHD) or [head][page][dim] (HND).  The packed bytes of a block
 * (object body, disk) are its parts in that order without padding between blocks: layered packs as
 * contiguous does.  kvbm/layout/layout_walk.h moves blocks between any two of these.
 *
 * Descriptor: version 2 is KVBM_LAYOUT_BYTES long.  Version 1 knew neither heads nor universal
 * layouts; it is still read, as a layout that does not tell heads apart, and such a layout keeps
 * version 1's fingerprint, so that objects written then are still recognised.
 *
 * Threads:   no shared state.
 * Limits:    as kvtier/kvbm.h; KVBM_LAYOUT_BYTES bytes serialized.
 */
#ifndef KVBM_LAYOUT_BLOCK_LAYOUT_H
#define KVBM_LAYOUT_BLOCK_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/kvbm.h"

#define KVBM_LAYOUT_BYTES    64
#define KVBM_LAYOUT_BYTES_V1 56

/* Bytes from one to the next along each axis of one block. */
struct kvbm_layout_step {
    uint64_t layer; /* 0 when layered: the next layer is in the next allocation */
    uint64_t outer;
    uint64_t head;
    uint64_t token;
};

struct kvbm_layout {
    struct kvt_geometry geometry;
    struct kvbm_layout_step step;
    uint64_t row;          /* bytes of one token's one head: the shortest run there is */
    uint64_t region_size;  /* bytes of one (layer, outer) part */
    uint64_t layer_stride; /* bytes of one layer of one block */
    uint64_t block_stride; /* from one block to the next, in its allocation */
    uint64_t block_size;   /* packed bytes of a block */
    uint64_t fingerprint;  /* of the geometry without tp_rank; never 0 */
    uint32_t heads;        /* of this rank; 1 where they are not told apart */
};

/** Check the geometry and work out the strides.  KVT_INVALID or KVT_RANGE say which member. */
KVT_NODISCARD enum kvt_err kvbm_layout_make(struct kvbm_layout *out,
                                            const struct kvt_geometry *geometry,
                                            struct kvt_error *err);

/** The same but for the fingerprint, which stays 0: for layouts that never leave the process. */
KVT_NODISCARD enum kvt_err kvbm_layout_shape(struct kvbm_layout *out,
                                             const struct kvt_geometry *geometry,
                                             struct kvt_error *err);

/** How many allocations hold the blocks: 1, or one a layer. */
uint32_t kvbm_layout_parts(const struct kvbm_layout *layout);

/** Offset of (block, layer, outer) in the allocation that holds it: layer `layer`'s when layered,
 *  else the only one; of its first head when universal.  Indices must be within the geometry
 *  (asserted). */
uint64_t kvbm_layout_offset(const struct kvbm_layout *layout, uint32_t block, uint32_t layer,
                            uint32_t outer);

/** Offset of (layer, outer) in a block's packed bytes; of its first head when universal. */
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

/** May blocks be exchanged between the two as they are?  KVT_PRECONDITION names the first member
 *  that differs. */
KVT_NODISCARD enum kvt_err kvbm_layout_compatible(const struct kvbm_layout *ours,
                                                  const struct kvbm_layout *theirs,
                                                  struct kvt_error *err);

#endif /* KVBM_LAYOUT_BLOCK_LAYOUT_H */
