/*
 * tests/unit/engine/support/worker_suite.h -- what every worker does, whatever is behind it.
 *
 * Why: a rank, one in another process, a group and a replica stand behind one table
 * (engine/rank/worker.h); here is what whoever starts a job may rely on, as a random run against a
 * model that knows which content lies where.  Each kind brings a *world* and runs the same suite.
 *
 * Ownership: the world is the caller's.
 * Threads:   the caller's, beside those of the workers.
 * Limits:    SUITE_BLOCKS blocks of each tier are used, and must be there.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_WORKER_SUITE_H
#define TESTS_UNIT_ENGINE_SUPPORT_WORKER_SUITE_H

#include "engine/rank/worker.h"

#define SUITE_BLOCKS 8

/* A worker, and a way around it to its bytes, of all its ranks. */
struct suite_side {
    struct engine_worker *worker;
    void *arg;
    /** Content `number` (tests/unit/engine/support/content.h) into a block of G1 or G2; one of G2
     * is hidden
     *  already. */
    void (*write)(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number);
    /** Is it that, with every rank? */
    bool (*is)(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number);
};

struct suite_world {
    struct suite_side own;
    struct suite_side peer; /* whose G2 is pulled from; worker NULL: no peers */
    uint64_t peer_number;   /* as `own` is connected to it */
    uint64_t seed;
    unsigned steps;
    bool faults; /* jobs may fail, be late, or be refused: then they must say so */
};

/** `own` and `peer` are connected; tiers with no blocks are left out. */
void worker_suite_run(const struct suite_world *world);

/** What the suite calls content `number`. */
struct kvbm_label suite_label(uint64_t number);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_WORKER_SUITE_H */
