/*
 * advisor/index/shape_limits.h -- how many different bitmaps of shards and sizes of blocks a
 * namespace has.
 *
 * Why: the index keeps each bitmap and each size once, for as long as it lives, and has room for
 * a few thousand.  A namespace has few of both; a publisher that says others all the time must not
 * take that room from everybody else.  So what is new is counted before it is written.
 *
 * Ownership: the owner of the struct releases it.
 * Threads:   none; one owner.
 * Limits:    ADVISOR_SHAPE_LIMITS_RANKS and ADVISOR_SHAPE_LIMITS_SIZES a namespace, since the
 *            start.
 */
#ifndef ADVISOR_INDEX_SHAPE_LIMITS_H
#define ADVISOR_INDEX_SHAPE_LIMITS_H

#include <stdint.h>

#include "kvtier/error.h"

#define ADVISOR_SHAPE_LIMITS_RANKS 256
#define ADVISOR_SHAPE_LIMITS_SIZES 4096

/* Open addressing, at most half full; 0 is a free slot. */
struct advisor_shape_limits_set {
    uint64_t *slots;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t count;
};

struct advisor_shape_limits_space {
    struct advisor_shape_limits_set ranks;
    struct advisor_shape_limits_set sizes;
};

/* All 0: nothing was seen. */
struct advisor_shape_limits {
    struct advisor_shape_limits_space *spaces; /* by the store's number of the namespace */
    uint32_t count;
    uint32_t last_ns;    /* mostly it is as the time before */
    uint32_t last_ranks; /* 0: there was none */
    uint64_t last_size;
};

/** A block of `size` bytes a shard comes with these shards.  KVT_OK, KVT_RANGE (there are too many
 *  others; nothing is remembered then) or KVT_NOMEM.  A size of 0 is not known, and no other. */
KVT_NODISCARD enum kvt_err advisor_shape_limits_admit(struct advisor_shape_limits *variety,
                                                      uint32_t ns, uint32_t ranks, uint64_t size);
void advisor_shape_limits_release(struct advisor_shape_limits *variety);

#endif /* ADVISOR_INDEX_SHAPE_LIMITS_H */
