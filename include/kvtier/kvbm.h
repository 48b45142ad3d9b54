/*
 * kvtier/kvbm.h -- what a block manager and those who talk to it share: states and geometry.
 *
 * Why: a block's bytes mean nothing without the shape they were written in.  An engine, its workers
 * and whoever reads a block back must agree on one description of that shape, or refuse each other.
 *
 * Ownership: plain values; nothing here allocates.
 * Threads:   no shared state.
 * Limits:    the names below; kvbm/layout.h checks them.
 */
#ifndef KVTIER_KVBM_H
#define KVTIER_KVBM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The life of one block in one pool.  Which moves are legal: kvbm/state.h. */
enum kvt_block_state {
    KVT_BLOCK_RESET,      /* no content, no name */
    KVT_BLOCK_PARTIAL,    /* being written */
    KVT_BLOCK_COMPLETE,   /* fully written and named, not yet to be found */
    KVT_BLOCK_REGISTERED, /* found by its sequence hash; read-only */
    KVT_BLOCK_STATE_COUNT
};

#define KVT_LAYERS_MAX     1024
#define KVT_PAGE_SIZE_MAX  65536
#define KVT_INNER_DIM_MAX  (1u << 20)
#define KVT_BLOCK_SIZE_MAX (UINT64_C(1) << 30) /* bytes of one block */

enum kvt_layout_kind {
    KVT_LAYOUT_CONTIGUOUS = 1, /* [block][layer][outer][page][inner], one allocation */
    KVT_LAYOUT_LAYERED = 2,    /* one allocation a layer: [block][outer][page][inner] in each */
    KVT_LAYOUT_UNIVERSAL =
        3, /* [block][head][layer][outer][page][dim]: heads of a rank are one run */
};

/* How a page's tokens (N) and heads (H) are nested in one layer and outer part; D is the head's. */
enum kvt_layout_order {
    KVT_LAYOUT_NHD = 0, /* [page][head][dim], what most attention kernels write */
    KVT_LAYOUT_HND = 1, /* [head][page][dim] */
};

/* The shape of a block's bytes.  Two parties may exchange blocks only when all of it is equal but
 * for `tp_rank`: ranks of one size hold different shards in the same shape. */
struct kvt_geometry {
    enum kvt_layout_kind kind;
    uint32_t layers;      /* 1 .. KVT_LAYERS_MAX */
    uint32_t outer;       /* 2 = keys and values, 1 = fused */
    uint32_t page_size;   /* tokens in a block */
    uint32_t inner_dim;   /* elements a token has in one layer and outer part */
    uint32_t dtype_bytes; /* 1, 2, 4 or 8 */
    uint32_t alignment;   /* of every block or layer region; a power of two */
    uint32_t tp_size;     /* 1 .. KVT_RANKS_MAX */
    uint32_t tp_rank;     /* below tp_size */
    uint32_t heads;       /* of this rank, a divisor of inner_dim; 0: heads are not told apart */
    enum kvt_layout_order order; /* NHD where heads are not told apart, and when universal */
};

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_KVBM_H */
