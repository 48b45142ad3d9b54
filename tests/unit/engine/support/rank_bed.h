/*
 * tests/unit/engine/support/rank_bed.h -- a real rank: G1 and G2 in memory, G3 a file, volumes as
 * its object tier.
 *
 * Why: what stands on ranks is tested on the fake (tests/unit/engine/support/fake_worker.h), and
 * once more on these.
 *
 * Ownership: see each call.
 * Threads:   one.
 * Limits:    RANK_BED_BLOCKS blocks of each tier.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_RANK_BED_H
#define TESTS_UNIT_ENGINE_SUPPORT_RANK_BED_H

#include "engine/rank/rank.h"
#include "tests/unit/engine/support/worker_suite.h"

#define RANK_BED_BLOCKS 16

struct rank_bed {
    struct engine_worker *worker;
    struct engine_rank_options options;
    char folder[256];
};

/** A universal layout of 4 heads, 4 layers and 16 tokens, of rank `tp_rank` of `tp_size`. */
struct kvbm_layout rank_bed_layout(uint32_t tp_size, uint32_t tp_rank);

/**
 * @param fabric   borrowed
 * @param volumes  borrowed: number `tp_rank` is made there unless it is there; NULL: no object tier
 * @return KVT_OK, or why the rank did not open, and nothing is left
 */
enum kvt_err rank_bed_open(struct rank_bed *bed, const struct kvbm_layout *layout,
                           struct engine_fabric *fabric, struct kvbm_volumes *volumes);
/** The rank, and all that is below it. */
void rank_bed_close(struct rank_bed *bed);

/* A side of a suite: so many beds behind one worker. */
struct rank_bed_side {
    struct rank_bed *beds;
    uint32_t count;
};

struct suite_side rank_bed_side(struct engine_worker *worker, struct rank_bed_side *side);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_RANK_BED_H */
