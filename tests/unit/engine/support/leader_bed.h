/*
 * tests/unit/engine/support/leader_bed.h -- a leader on small pools and a worker in memory.
 *
 * Why: what a leader promises is said in names, holders and bytes; here names are numbers, block n
 * of chain c is c * BED_CHAIN + n + 1, its content is that number, and every event of a pool is
 * kept and compared.
 * Ownership: bed_close() takes all of it down, and asserts that nothing is held any more.
 * Threads:   any; bed_open and bed_close are the test's.
 * Limits:    names below BED_NAMES.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_LEADER_BED_H
#define TESTS_UNIT_ENGINE_SUPPORT_LEADER_BED_H

#include <pthread.h>

#include "engine/leader/leader.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/fake_worker.h"

#define BED_CHAIN   16
#define BED_NAMES   512
#define BED_WAIT_MS 10000

struct bed_options {
    uint32_t g2, g3; /* blocks; g3 0: none */
    bool objects;
    enum fake_ending ending;
    struct engine_leader_options leader; /* what is not the bed's */
};

struct bed_told {
    pthread_mutex_t lock; /* guards it */
    bool there[BED_NAMES];
};

struct bed {
    struct engine_leader *leader;
    struct engine_worker *worker;
    enum fake_ending ending;
    struct fake_objects *objects;
    struct kvbm_pool *pools[KVT_TIER_G4]; /* by enum kvt_tier */
    struct bed_told told[KVT_TIER_G4];
};

void bed_open(struct bed *bed, const struct bed_options *options);

/** Asserts that within some seconds nothing is held by anybody, that events are what is there, and
 *  that what is there are its bytes.  Jobs that end when they are told to are told: one that ends
 *  may begin another, as blocks that came are shown. */
void bed_close(struct bed *bed);

/** The same at once, whatever is held for other instances. */
void bed_end(struct bed *bed);

/** Names of blocks `first` on, the first of them at position `position`. */
void bed_labels(struct kvbm_label *labels, uint64_t first, uint32_t position, size_t count);

/** Write and register them.  False: there is no room. */
bool bed_make(struct bed *bed, enum kvt_tier tier, uint64_t first, uint32_t position, size_t count);

/** Blocks of G2 have the names first, first + 1, ... and their bytes; asserts. */
void bed_check(struct bed *bed, const struct kvt_handle *handles, uint64_t first, size_t count);

/** When nothing is held any more, all blocks of a tier are forgotten. */
void bed_forget(struct bed *bed, enum kvt_tier tier);

/** Wait until the match has this state; asserts that it comes. */
struct engine_match_view bed_until(struct engine_match *match, enum engine_state state);

/** The match holds `count` blocks, named 1 on, and their bytes; asserts. */
void bed_check_match(struct bed *bed, struct engine_match *match, size_t count);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_LEADER_BED_H */
