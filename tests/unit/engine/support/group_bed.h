/*
 * tests/unit/engine/support/group_bed.h -- ranks to make groups of, and jobs that say how they
 * ended.
 *
 * Why: groups and replicas are asked the same questions.
 * Ownership: the ranks are the bed's until a group has them; jobs are the caller's.
 * Threads:   the test's main thread; jobs end on any.
 * Limits:    BED_RANKS ranks, BED_ITEMS items a job.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_GROUP_BED_H
#define TESTS_UNIT_ENGINE_SUPPORT_GROUP_BED_H

#include <pthread.h>

#include "engine/rank/worker.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/fake_worker.h"

enum { BED_RANKS = 4, BED_ITEMS = 8, BED_BLOCKS = 64, BED_LAYERS = 4 };

struct group_bed {
    struct fake_objects *objects;
    struct engine_worker *ranks[BED_RANKS];
};

/** The layout of a rank; tp_size 1 has every head, and blocks of KVBM_STORAGE_ALIGN bytes. */
struct kvbm_layout group_bed_layout(uint32_t tp_size, uint32_t tp_rank);

/** Four ranks of one group, or (tp_size 1) four that hold the same. */
void group_bed_open(struct group_bed *bed, uint32_t tp_size, enum fake_ending ending,
                    struct fake_objects *objects);

/* A job and what became of it. */
struct bed_job {
    struct engine_job job;
    struct engine_item items[BED_ITEMS];
    struct engine_outcome outcome;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    unsigned ends;
};

/** Blocks [source, source + count) to [target, ...), names number + i. */
void group_bed_job_set(struct bed_job *job, enum engine_verb verb, enum kvt_tier from,
                       enum kvt_tier to, uint64_t number, uint32_t source, uint32_t target,
                       size_t count);
void group_bed_job_free(struct bed_job *job);

/** How often it has ended. */
unsigned group_bed_job_ends(struct bed_job *job);

/** Wait up to 20 s for its end: it must come, and once. */
void group_bed_job_wait(struct bed_job *job);

/** Start it and wait. */
enum kvt_err group_bed_job_run(struct bed_job *job, struct engine_worker *worker);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_GROUP_BED_H */
