/*
 * kvtier/kvbm.h -- a block manager: states of blocks, sequences of tokens, geometry.
 *
 * Why: a block's bytes mean nothing without the shape they were written in.  An engine, its workers
 * and whoever reads a block back must agree on one description of that shape, or refuse each other.
 *
 * Ownership: plain values; what allocates says so, and how it ends.
 * Threads:   no shared state.
 * Limits:    the names below; kvbm/layout.h checks those of a geometry.
 */
#ifndef KVTIER_KVBM_H
#define KVTIER_KVBM_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

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

/* Which of a pool's blocks that nobody holds goes first when room is needed. */
enum kvt_pool_order {
    KVT_POOL_ORDER_LRU,      /* least recently used */
    KVT_POOL_ORDER_PRIORITY, /* the lowest priority, and in it least recently used */
    KVT_POOL_ORDER_LINEAGE,  /* least recently used that nothing in the pool continues */
    KVT_POOL_ORDER_ORDERING, /* what a kvtier/ordering.h says */
};

#define KVT_PRIORITY_MAX     15 /* of a block; 0 goes first */
#define KVT_BLOCK_TOKENS_MAX 65536

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

/*
 * A sequence of tokens, cut into blocks; every full block has its name (kvtier/token.h).
 *
 * Ownership: kvt_sequence_new() to kvt_sequence_free().  Tokens are copied.
 * Threads:   none; one thread at a time.
 * Limits:    block_tokens 1 .. KVT_BLOCK_TOKENS_MAX; KVT_SEQUENCE_TOKENS_MAX tokens.
 */
#define KVT_SEQUENCE_TOKENS_MAX (UINT32_C(1) << 26)

struct kvt_sequence;

/**
 * @param block_tokens  tokens in a block
 * @param seed          of the tokens' hashes: kvt_token_seed() of adapter and salt
 * @return KVT_OK; KVT_INVALID or KVT_NOMEM with *out NULL
 */
KVT_NODISCARD enum kvt_err kvt_sequence_new(struct kvt_sequence **out, uint32_t block_tokens,
                                            uint64_t seed, struct kvt_error *err);

/** NULL is allowed. */
void kvt_sequence_free(struct kvt_sequence *sequence);

/** All `count` tokens or none.  KVT_OK, KVT_RANGE (longer than the limit) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err kvt_sequence_append(struct kvt_sequence *sequence,
                                               const uint32_t *tokens, size_t count,
                                               struct kvt_error *err);

/** Keep the first `count` tokens.  KVT_OK, or KVT_RANGE (there are fewer). */
KVT_NODISCARD enum kvt_err kvt_sequence_truncate(struct kvt_sequence *sequence, size_t count,
                                                 struct kvt_error *err);

/** Take the last `count` tokens away.  KVT_OK, or KVT_RANGE (there are fewer). */
KVT_NODISCARD enum kvt_err kvt_sequence_unwind(struct kvt_sequence *sequence, size_t count,
                                               struct kvt_error *err);

/** All tokens, and how many; valid until the sequence changes. */
const uint32_t *kvt_sequence_tokens(const struct kvt_sequence *sequence, size_t *count);

/** The sequence hashes of all full blocks, and how many; valid until the sequence changes. */
const uint64_t *kvt_sequence_hashes(const struct kvt_sequence *sequence, size_t *count);

/** Who full block number `position` is; `tokens_hash` (may be NULL) is the hash of its own tokens.
 *  KVT_OK, or KVT_NOTFOUND with both zero. */
KVT_NODISCARD enum kvt_err kvt_sequence_block(const struct kvt_sequence *sequence, size_t position,
                                              struct kvt_block_id *id, uint64_t *tokens_hash);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_KVBM_H */
