/*
 * worker/instances/rank_set.h -- the ranks of an instance as its scheduler sees them.
 *
 * Why: an iteration is run by all ranks at the same time, and has ended when the last has.
 *
 * Ownership: a crew owns its connections.
 * Threads:   steps are one thread's, and so is kvbm_crew_look(); what it found is for any.
 * Limits:    KVBM_CREW_STEP_MS for a step: who has not answered by then counts as dead.
 */
#ifndef WORKER_INSTANCES_RANK_SET_H
#define WORKER_INSTANCES_RANK_SET_H

#include "base/core/buffer.h"

#include "worker/instances/instance_plan.h"

#define KVBM_CREW_STEP_MS 180000
#define KVBM_CREW_LOOK_MS 500

struct kvbm_crew;

KVT_NODISCARD enum kvt_err kvbm_crew_open(struct kvbm_crew **out, const struct kvbm_plan *plan,
                                          struct kvt_error *err);
/** NULL is allowed. */
void kvbm_crew_close(struct kvbm_crew *crew);

/** Ask all ranks the same; `answers[r]` is set to what rank r said.  The first status that is not
 *  KVT_OK, with words. */
KVT_NODISCARD enum kvt_err kvbm_crew_step(struct kvbm_crew *crew, const struct kvt_buffer *question,
                                          struct kvt_buffer *answers, struct kvt_error *err);

/** Ask all ranks, beside their steps and without waiting, how they are; who was asked less than
 *  KVBM_CREW_LOOK_MS ago is not. */
void kvbm_crew_look(struct kvbm_crew *crew);

/** How many said last that the object tier does not answer them. */
uint32_t kvbm_crew_away(struct kvbm_crew *crew);

/** How many said last that their G1 is on a device. */
uint32_t kvbm_crew_devices(struct kvbm_crew *crew);

#endif /* WORKER_INSTANCES_RANK_SET_H */
