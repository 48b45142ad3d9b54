/*
 * kvtier/layout.h -- the shape of a block's bytes: where they lie, who may read them, and how they
 * become another shape.
 *
 * Why: a block's bytes mean nothing without the shape they were written in.  An engine, its workers
 * and whoever reads a block back must agree on one description of that shape, or refuse each other.
 *
 * With row = inner_dim / heads * dtype_bytes bytes, and region = page_size * heads * row bytes (one
 * layer, one outer part, all heads of the rank):
 *
 *   contiguous  [block][layer][outer][region]; a block begins every align_up(block, alignment)
 *   layered     one allocation a layer: [block][outer][region] in each; a block's part of a layer
 *               begins every align_up(outer * region, alignment)
 *   universal   [block][head][layer][outer][page][dim]; as contiguous.  What belongs to
 *               neighbouring heads is one run, and with it a slice of a TP group
 *
 * A region is [page][head][dim] (NHD) or [head][page][dim] (HND).  The packed bytes of a block (in
 * a storage, on a disk, in an object) are its parts in that order, without padding between blocks;
 * layered packs as contiguous does.
 *
 * Ownership: a layout from kvt_layout_new() or kvt_layout_deserialize() to kvt_layout_free(), after
 *            everything it was given to.  Memory is borrowed for the call.
 * Threads:   a layout never changes; any thread may use it.
 * Limits:    the names below.  Functions that move bytes are for host memory; source and target
 *            must not overlap.
 */
#ifndef KVTIER_LAYOUT_H
#define KVTIER_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_LAYERS_MAX     1024
#define KVT_PAGE_SIZE_MAX  65536
#define KVT_INNER_DIM_MAX  (1u << 20)
#define KVT_BLOCK_SIZE_MAX (UINT64_C(1) << 30) /* bytes of one block */
#define KVT_LAYOUT_BYTES   64                  /* of a descriptor */
#define KVT_LAYOUT_ALL     UINT32_MAX          /* every layer, every outer part */

enum kvt_layout_kind {
    KVT_LAYOUT_CONTIGUOUS = 1, /* [block][layer][outer][page][inner], one allocation */
    KVT_LAYOUT_LAYERED = 2,    /* one allocation a layer: [block][outer][page][inner] in each */
    KVT_LAYOUT_UNIVERSAL = 3,  /* [block][head][layer][outer][page][dim]: heads are one run */
};

/* How a page's tokens (N) and heads (H) are nested in one layer and outer part; D is the head's. */
enum kvt_layout_order {
    KVT_LAYOUT_NHD = 0, /* [page][head][dim], what most attention kernels write */
    KVT_LAYOUT_HND = 1, /* [head][page][dim] */
};

/* The shape of a block's bytes.  Two parties may exchange blocks as they are only when all of it is
 * equal but for `tp_rank`: ranks of one size hold different shards in the same shape. */
struct kvt_geometry {
    size_t size; /* of this structure */
    enum kvt_layout_kind kind;
    uint32_t layers;      /* 1 .. KVT_LAYERS_MAX */
    uint32_t outer;       /* 2 = keys and values, 1 = fused */
    uint32_t page_size;   /* tokens in a block; a power of two */
    uint32_t inner_dim;   /* elements a token has in one layer and outer part */
    uint32_t dtype_bytes; /* 1, 2, 4 or 8 */
    uint32_t alignment;   /* bytes; of every block or layer region; a power of two */
    uint32_t tp_size;     /* 1 .. KVT_RANKS_MAX */
    uint32_t tp_rank;     /* below tp_size */
    uint32_t heads;       /* of this rank, a divisor of inner_dim; 0: heads are not told apart */
    enum kvt_layout_order order; /* NHD where heads are not told apart, and when universal */
    uint32_t reserved;           /* 0 */
};

struct kvt_layout;

/* What a geometry means, in bytes. */
struct kvt_layout_info {
    size_t size;           /* of this structure, in */
    uint64_t block_size;   /* packed bytes of a block */
    uint64_t block_stride; /* from one block to the next, in its allocation */
    uint64_t layer_size;   /* of one layer of a block */
    uint64_t region_size;  /* of one layer and outer part */
    uint64_t row;          /* of one token's one head: the shortest run there is */
    uint64_t fingerprint;  /* of the geometry without tp_rank; never 0 */
    uint32_t parts;        /* allocations that hold the blocks: 1, or one a layer */
    uint32_t heads;        /* of this rank; 1 where they are not told apart */
};

/** @return KVT_OK; KVT_INVALID or KVT_RANGE (`err` says which member), KVT_UNSUPPORTED (members
 *          this library does not know) or KVT_NOMEM, with *out NULL */
KVT_NODISCARD enum kvt_err
kvt_layout_new(struct kvt_layout **out, const struct kvt_geometry *geometry, struct kvt_error *err);

/** NULL is allowed. */
void kvt_layout_free(struct kvt_layout *layout);

/** What it was made of, and what that means; `size` is in. */
void kvt_layout_geometry(const struct kvt_layout *layout, struct kvt_geometry *geometry);
void kvt_layout_info(const struct kvt_layout *layout, struct kvt_layout_info *info);

/** Bytes of one allocation that holds `blocks` blocks; a layered one needs `parts` of them. */
uint64_t kvt_layout_allocation(const struct kvt_layout *layout, uint32_t blocks);

/** The portable descriptor, KVT_LAYOUT_BYTES bytes: geometry with TP size and rank, fingerprint and
 *  checksum. */
void kvt_layout_serialize(const struct kvt_layout *layout, uint8_t *bytes);

/** @return KVT_OK; KVT_INVALID (no descriptor, or of another version), KVT_CORRUPT (checksum or
 *          fingerprint do not fit), what kvt_layout_new() says of the geometry, or KVT_NOMEM */
KVT_NODISCARD enum kvt_err kvt_layout_deserialize(struct kvt_layout **out, const uint8_t *bytes,
                                                  size_t size, struct kvt_error *err);

/** May blocks be exchanged as they are?  KVT_OK, or KVT_PRECONDITION naming the first member that
 *  differs. */
KVT_NODISCARD enum kvt_err kvt_layout_compatible(const struct kvt_layout *ours,
                                                 const struct kvt_layout *theirs,
                                                 struct kvt_error *err);

/** Do both hold the same content, in whatever shape?  KVT_OK, or KVT_PRECONDITION naming what
 *  differs. */
KVT_NODISCARD enum kvt_err kvt_layout_convertible(const struct kvt_layout *target,
                                                  const struct kvt_layout *source,
                                                  struct kvt_error *err);

/* ---- blocks in memory ---- */

/* So many blocks of one layout.  Addresses are numbers, since a device's cannot be pointers here.
   */
struct kvt_memory {
    size_t size; /* of this structure */
    const struct kvt_layout *layout;
    const uint64_t *parts; /* an address for each allocation: `part_count` of them */
    uint32_t part_count;   /* of kvt_layout_info */
    uint32_t blocks;
};

/* `count` runs of `bytes` bytes, `stride` bytes apart: one part of one block in place. */
struct kvt_view {
    uint64_t address;
    uint64_t bytes;
    uint64_t stride;
    uint32_t count;
};

/**
 * Where a block lies, or a part of it.
 *
 * @param layer  or KVT_LAYOUT_ALL
 * @param outer  or KVT_LAYOUT_ALL
 * @return KVT_OK; KVT_RANGE (no such block, layer or outer part), KVT_UNSUPPORTED (it is in several
 *         allocations, or one outer part of all layers), KVT_INVALID (the memory cannot be), with
 *         *view zero
 */
KVT_NODISCARD enum kvt_err kvt_memory_view(const struct kvt_memory *memory, uint32_t block,
                                           uint32_t layer, uint32_t outer, struct kvt_view *view,
                                           struct kvt_error *err);

/**
 * Copy layers [layer, layer + layers) of one block from one layout to another.
 *
 * @param layer  or KVT_LAYOUT_ALL: all of them, whatever `layers` is
 * @return KVT_OK; KVT_RANGE, KVT_PRECONDITION (kvt_layout_convertible()) or KVT_INVALID, and
 *         nothing was copied
 */
KVT_NODISCARD enum kvt_err kvt_memory_copy(const struct kvt_memory *target, uint32_t target_block,
                                           const struct kvt_memory *source, uint32_t source_block,
                                           uint32_t layer, uint32_t layers, struct kvt_error *err);

/** crc32c of a block's content, the same in every layout of it.  KVT_OK, KVT_RANGE or KVT_INVALID,
 *  with *crc 0. */
KVT_NODISCARD enum kvt_err kvt_memory_checksum(const struct kvt_memory *memory, uint32_t block,
                                               uint32_t *crc, struct kvt_error *err);

/* ---- between TP sizes ---- */

/* `heads` heads of source rank `rank`, and where they go in a target rank's block. */
struct kvt_rank_part {
    uint32_t rank;
    uint32_t source_head;
    uint32_t target_head;
    uint32_t heads;
};

/**
 * Which ranks of a group shaped as `source` (its own rank does not matter) give the target's rank
 * its heads: rank r of n has heads [r * H / n, (r + 1) * H / n) of the model's H.
 *
 * @param parts  room for `capacity`; KVT_RANKS_MAX are always enough
 * @return KVT_OK; KVT_PRECONDITION naming what differs (all but TP size, rank, kind, order and
 *         alignment must be one model's) or KVT_RANGE (`capacity` is too small), with *count 0
 */
KVT_NODISCARD enum kvt_err kvt_layout_ranks(const struct kvt_layout *target,
                                            const struct kvt_layout *source,
                                            struct kvt_rank_part *parts, size_t capacity,
                                            size_t *count, struct kvt_error *err);

/**
 * Put a block of the target's rank together out of those of a group of another TP size.
 *
 * @param sources  by rank, as many as their TP size; those that give nothing may be NULL
 * @return KVT_OK; KVT_PRECONDITION, KVT_RANGE or KVT_INVALID, and nothing was copied
 */
KVT_NODISCARD enum kvt_err kvt_memory_reshape(const struct kvt_memory *target,
                                              uint32_t target_block,
                                              const struct kvt_memory *const *sources,
                                              size_t source_count, uint32_t source_block,
                                              struct kvt_error *err);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_LAYOUT_H */
