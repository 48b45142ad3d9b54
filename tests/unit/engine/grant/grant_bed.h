/*
 * tests/unit/engine/grant/grant_bed.h -- an owner that grants blocks, and writers.
 *
 * Why: grants are tested in one process, where every moment can be chosen, and between processes.
 * The content of a block is its name (blocks.h).
 * Ownership: grant_bed_close() after grant_bed_open(), grant_hand_close() after grant_hand_open().
 * Threads:   the test's.
 * Limits:    GRANT_BED_BLOCKS blocks.
 */
#ifndef TESTS_UNIT_ENGINE_GRANT_GRANT_BED_H
#define TESTS_UNIT_ENGINE_GRANT_GRANT_BED_H

#include "engine/grant/grant_writer.h"
#include "engine/memory/blockset_shape.h"
#include "tests/support/seed.h"

#define GRANT_BED_BLOCKS 24
#define GRANT_BED_PLACES 12
#define GRANT_BED_HEADS  4
#define GRANT_BED_WAIT   20000 /* ms */

struct grant_bed {
    char folder[64];
    char endpoint[96];
    bool near;
    _Atomic bool alone; /* one commit at a time: a name the pool tells of is shown (asserted) */
    struct engine_fabric *fabric;
    struct engine_blockset *set;
    struct engine_blockset_shape shape;
    struct kvbm_pool *pool;
    struct engine_grants *grants;
    uint8_t description[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    size_t size;
};

/* Who writes. */
struct grant_hand {
    struct engine_fabric *fabric;
    struct engine_import *import;
    struct engine_writer *writer;
};

void grant_bed_open(struct grant_bed *bed, bool near, uint64_t hold_ms, uint64_t rest_ms);
void grant_bed_close(struct grant_bed *bed);

/** KVT_OK, or what did not work. */
enum kvt_err grant_hand_open(struct grant_hand *hand, bool near, const char *endpoint,
                             const uint8_t *description, size_t size);
void grant_hand_close(struct grant_hand *hand);

/** Acquire blocks of these names. */
enum kvt_err grant_hand_acquire(struct grant_hand *hand, const uint64_t *names, size_t count,
                                uint64_t hold_ms, struct engine_grant *grant);
/** Put those that were granted. */
enum kvt_err grant_hand_put(struct grant_hand *hand, struct engine_grant *grant);

/** Is every block of the pool either nobody's or of a name whose bytes it has?  How many names;
 *  asserts that it is so, in the owner's memory and as others read it. */
size_t grant_bed_names(struct grant_bed *bed, struct grant_hand *hand);
/** Nothing is granted and nothing held. */
bool grant_bed_is_idle(struct grant_bed *bed);
/** Waits for that. */
void grant_bed_wait_idle(struct grant_bed *bed);

#endif /* TESTS_UNIT_ENGINE_GRANT_GRANT_BED_H */
