/*
 * kvbm/layout/layout_walk.h -- blocks from one layout to another: views, runs, conversion, TP
 * reshapes.
 *
 * Why: a block's content is the same whatever its layout, so one walk over (head, layer, outer,
 * token) finds, for any two layouts, the longest runs of bytes that lie together on both sides.
 * Host memory copies those runs, a device batches them, and neither knows about layouts.
 *
 * A TP group splits heads evenly by rank: rank r of size n has heads [r * H / n, (r + 1) * H / n)
 * of the model's H.  A rank map says, for one target rank, which heads of which source ranks are
 * its own; every pair of sizes works, in both directions, as long as both divide H.
 *
 * Ownership: memory is borrowed.  Addresses are numbers, since a device's cannot be pointers here.
 * Threads:   no shared state.
 * Limits:    blocks and slices must lie within their layouts (asserted).  Source and target must
 *            not overlap.
 */
#ifndef KVBM_LAYOUT_LAYOUT_WALK_H
#define KVBM_LAYOUT_LAYOUT_WALK_H

#include <stdbool.h>

#include "kvbm/layout/block_layout.h"
#include "kvtier/block.h"

/* Blocks in memory: one address a part (kvbm_layout_parts()). */
struct kvbm_layout_memory {
    const struct kvbm_layout *layout;
    const uint64_t *parts;
    uint32_t blocks;
};

/* A part of every block.  Heads are counted on each side by itself; the rest is common. */
struct kvbm_layout_slice {
    uint32_t layer;
    uint32_t layers;
    uint32_t outer;
    uint32_t outers;
    uint32_t source_head;
    uint32_t target_head;
    uint32_t heads;
};

/* `count` runs of `size` bytes, `stride` bytes apart: one part of one block in place. */
struct kvbm_layout_view {
    uint64_t address;
    uint64_t size;
    uint64_t stride;
    uint32_t count;
};

struct kvbm_layout_run {
    uint64_t target;
    uint64_t source;
    uint64_t size;
};

/* One axis of a walk that could not be merged into the runs. */
struct kvbm_layout_axis {
    uint64_t target_step;
    uint64_t source_step;
    uint32_t count;
    uint32_t at;
};

struct kvbm_layout_walk {
    const struct kvbm_layout_memory *target;
    const struct kvbm_layout_memory *source;
    uint64_t target_offset;
    uint64_t source_offset;
    uint64_t run;
    uint32_t layer; /* from here on layers are counted by `layers` when they are no axis */
    uint32_t layers;
    uint32_t layer_at;
    struct kvbm_layout_axis axes[4];
    uint32_t axis_count;
    bool split; /* some side has one allocation a layer */
    bool more;
};

/* For one target rank: `heads` heads of source rank `rank`, and where they go. */
struct kvbm_rank_part {
    uint32_t rank;
    uint32_t source_head;
    uint32_t target_head;
    uint32_t heads;
};

struct kvbm_rank_map {
    uint32_t count;
    struct kvbm_rank_part parts[KVT_RANKS_MAX];
};

/** Everything of a block. */
struct kvbm_layout_slice kvbm_layout_whole(const struct kvbm_layout *layout);

/** Layers [layer, layer + layers) of a block, whole. */
struct kvbm_layout_slice kvbm_layout_layers(const struct kvbm_layout *layout, uint32_t layer,
                                            uint32_t layers);

/** Where (block, layer) lies, all outer parts; where only `outer` of it. */
struct kvbm_layout_view kvbm_layout_view_layer(const struct kvbm_layout_memory *memory,
                                               uint32_t block, uint32_t layer);
struct kvbm_layout_view kvbm_layout_view_outer(const struct kvbm_layout_memory *memory,
                                               uint32_t block, uint32_t layer, uint32_t outer);

/** Where a whole block lies.  KVT_UNSUPPORTED: it is in several allocations. */
KVT_NODISCARD enum kvt_err kvbm_layout_view_block(const struct kvbm_layout_memory *memory,
                                                  uint32_t block, struct kvbm_layout_view *view);

/** Do the two hold the same content, in whatever layout?  KVT_PRECONDITION names what differs. */
KVT_NODISCARD enum kvt_err kvbm_layout_convertible(const struct kvbm_layout *target,
                                                   const struct kvbm_layout *source,
                                                   struct kvt_error *err);

/** Begin a walk over one block's slice; kvbm_layout_next() gives its runs. */
void kvbm_layout_walk(struct kvbm_layout_walk *walk, const struct kvbm_layout_memory *target,
                      uint32_t target_block, const struct kvbm_layout_memory *source,
                      uint32_t source_block, const struct kvbm_layout_slice *slice);
bool kvbm_layout_next(struct kvbm_layout_walk *walk, struct kvbm_layout_run *run);

/** Copy one block's slice, both sides in host memory. */
void kvbm_layout_copy(const struct kvbm_layout_memory *target, uint32_t target_block,
                      const struct kvbm_layout_memory *source, uint32_t source_block,
                      const struct kvbm_layout_slice *slice);

/**
 * Who gives target rank `rank` of `target` its heads, when the blocks come from a group shaped as
 * `source` (whose own rank does not matter).
 *
 * @return KVT_OK, or KVT_PRECONDITION naming what differs: all but TP size, rank, kind, order and
 *         alignment must be one model's
 */
KVT_NODISCARD enum kvt_err kvbm_rank_map_make(struct kvbm_rank_map *map,
                                              const struct kvbm_layout *target,
                                              const struct kvbm_layout *source,
                                              struct kvt_error *err);

/** Put a target rank's block together; `sources[r]` is source rank r's memory, of which only the
 *  map's are looked at.  Host memory. */
void kvbm_rank_map_copy(const struct kvbm_rank_map *map, const struct kvbm_layout_memory *target,
                        uint32_t target_block, const struct kvbm_layout_memory *const *sources,
                        uint32_t source_block);

/** crc32c of a block's content, the same in every layout of it.  Host memory. */
uint32_t kvbm_layout_checksum(const struct kvbm_layout_memory *memory, uint32_t block);

#endif /* KVBM_LAYOUT_LAYOUT_WALK_H */
