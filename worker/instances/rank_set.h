/*
 * worker/instances/rank_set.h -- the ranks of an instance as its scheduler sees them.
 *
 * Why: an iteration is run by all ranks at the same time, and has ended when the last has.
 *
 * Ownership: a rank set owns its connections.
 * Threads:   steps are one thread's, and so is worker_rank_set_look(); what it found is for any.
 * Limits:    WORKER_RANK_SET_STEP_MS for a step: who has not answered by then counts as dead.
 */
#ifndef WORKER_INSTANCES_RANK_SET_H
#define WORKER_INSTANCES_RANK_SET_H

#include "base/core/buffer.h"

#include "worker/instances/instance_plan.h"

#define WORKER_RANK_SET_STEP_MS 180000
#define WORKER_RANK_SET_LOOK_MS 500

struct worker_rank_set;

KVT_NODISCARD enum kvt_err worker_rank_set_open(struct worker_rank_set **out,
                                                const struct worker_instance_plan *plan,
                                                struct kvt_error *err);
/** NULL is allowed. */
void worker_rank_set_close(struct worker_rank_set *rank_set);

/** Ask all ranks the same; `answers[r]` is set to what rank r said.  The first status that is not
 *  KVT_OK, with words. */
KVT_NODISCARD enum kvt_err worker_rank_set_step(struct worker_rank_set *rank_set,
                                                const struct kvt_buffer *question,
                                                struct kvt_buffer *answers, struct kvt_error *err);

/** Ask all ranks, beside their steps and without waiting, how they are; who was asked less than
 *  WORKER_RANK_SET_LOOK_MS ago is not. */
void worker_rank_set_look(struct worker_rank_set *rank_set);

/** How many said last that the object tier does not answer them. */
uint32_t worker_rank_set_away(struct worker_rank_set *rank_set);

/** How many said last that their G1 is on a device. */
uint32_t worker_rank_set_devices(struct worker_rank_set *rank_set);

#endif /* WORKER_INSTANCES_RANK_SET_H */
