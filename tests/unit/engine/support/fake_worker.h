/*
 * tests/unit/engine/support/fake_worker.h -- a worker of one rank that is as good, or as bad, as a
 * test wants.
 *
 * Why: who stands on workers must be tested with ones that end at once, much later, twice as slow,
 * never, or halfway.  Bytes really move here, so that what goes wrong above is seen, and the
 * contract of engine/rank/worker.h is asserted, so that who breaks it is.
 *
 * Asserted of who uses it: no job over a block (by layers) that another one writes, or that it
 * writes and another reads; no two items of a job with one target; COPY and STORE only of what
 * was written, SHOW of what was in part; no worker closed while a job goes on.
 *
 * Ownership: a worker of its own; objects are borrowed, and outlive the workers.
 * Limits:    layouts in one allocation (not layered); FAKE_PEERS_MAX peers.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_FAKE_WORKER_H
#define TESTS_UNIT_ENGINE_SUPPORT_FAKE_WORKER_H

#include "engine/rank/worker.h"

#define FAKE_PEERS_MAX 16

enum fake_ending {
    FAKE_AT_ONCE,   /* before start returns */
    FAKE_LATER,     /* on a thread of its own, after up to `delay_us`, not in their order */
    FAKE_WHEN_TOLD, /* fake_worker_step() */
};

/* What goes wrong, of a million, drawn by the seed. */
struct fake_faults {
    uint32_t refuse; /* starts: KVT_AGAIN */
    uint32_t fail;   /* items: KVT_IO, with rubbish at the target */
    uint32_t stall;  /* jobs: nothing is heard of them until wait_ms is over: KVT_TIMEOUT */
};

/* An object tier that ranks and instances share. */
struct fake_objects;
struct fake_objects *fake_objects_open(void);
void fake_objects_close(struct fake_objects *objects);
size_t fake_objects_count(struct fake_objects *objects);
bool fake_objects_has(struct fake_objects *objects, uint32_t rank, const struct kvt_block_id *id);
void fake_objects_remove(struct fake_objects *objects, uint32_t rank,
                         const struct kvt_block_id *id);

struct fake_options {
    struct kvbm_layout layout;
    uint32_t blocks[KVT_TIER_G4 + 1]; /* by tier; 0: no such tier */
    struct fake_objects *objects;     /* NULL: no object tier */
    enum fake_ending ending;
    uint32_t delay_us; /* LATER */
    uint64_t seed;
    struct fake_faults faults;
};

/** NULL without memory. */
struct engine_worker *fake_worker_open(const struct fake_options *options);

void fake_worker_faults(struct engine_worker *worker, const struct fake_faults *faults);

/** The `nth` job from now (1: the next) of this verb (0: any) ends with every item as `status`;
 *  what it writes is rubbish.  KVT_TIMEOUT: it stalls. */
void fake_worker_fail(struct engine_worker *worker, enum engine_verb verb, uint32_t nth,
                      enum kvt_err status);

/** WHEN_TOLD: end the job that was started first.  False: there is none. */
bool fake_worker_step(struct engine_worker *worker);
/** Jobs that go on. */
size_t fake_worker_waiting(struct engine_worker *worker);
/** Jobs of a verb that were started so far. */
uint64_t fake_worker_jobs(struct engine_worker *worker, enum engine_verb verb);
/** ... and the items of these. */
uint64_t fake_worker_items(struct engine_worker *worker, enum engine_verb verb);

/** The process dies: what goes on ends as KVT_UNAVAILABLE, and so does whatever is asked. */
void fake_worker_kill(struct engine_worker *worker);
/** Another one takes its place: G1 and G2 are rubbish, nothing is shown, nobody connected. */
void fake_worker_revive(struct engine_worker *worker);

/** What an engine does: content `number` (tests/unit/engine/support/content.h) into a block, by
 * layers
 *  (layers 0: all).  A block of G2 is hidden. */
void fake_worker_write(struct engine_worker *worker, enum kvt_tier tier, uint32_t block,
                       uint64_t number, uint32_t layer, uint32_t layers);
bool fake_worker_is(struct engine_worker *worker, enum kvt_tier tier, uint32_t block,
                    uint64_t number);
bool fake_worker_is_shown(struct engine_worker *worker, uint32_t block);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_FAKE_WORKER_H */
