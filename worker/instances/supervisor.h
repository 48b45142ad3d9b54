/*
 * worker/instances/supervisor.h -- who starts the processes of all instances, and gives them
 * requests.
 *
 * Why: instances are many processes; one of them, the one that the user started, reads the trace,
 * gives request number k to instance k mod n (with split roles: first to a prefill instance, then
 * to a decode instance beside it, which then finds the prefix there), and looks after the others.
 * One that dies takes its instance with it, which is started again; requests that were with it are
 * given to it again.
 *
 * Ownership: everything lives within worker_supervisor_run().
 * Threads:   one, beside those of engine/rpc/rpc.h.
 * Limits:    WORKER_SUPERVISOR_WINDOW requests with an instance at a time; an instance is started
 *            WORKER_SUPERVISOR_STARTS times at most without a request served in between, and not
 *            again when it failed before it was ever there.  A leader that was there and is silent
 *            for WORKER_SUPERVISOR_SILENCE_MS counts as dead.  A request that was answered with an
 *            error rests for WORKER_SUPERVISOR_REST_MIN_MS before it is given again, each time
 *            twice as long, up to WORKER_SUPERVISOR_REST_MAX_MS.  Processes have
 *            WORKER_SUPERVISOR_END_MS to end, all of them together, and are killed then.
 */
#ifndef WORKER_INSTANCES_SUPERVISOR_H
#define WORKER_INSTANCES_SUPERVISOR_H

#include "worker/instances/instance_plan.h"

#define WORKER_SUPERVISOR_WINDOW      8
#define WORKER_SUPERVISOR_STARTS      10
#define WORKER_SUPERVISOR_SILENCE_MS  5000
#define WORKER_SUPERVISOR_REST_MIN_MS 20
#define WORKER_SUPERVISOR_REST_MAX_MS 1000
#define WORKER_SUPERVISOR_END_MS      5000

/** Non-OK: an instance cannot be kept running, the trace had bad lines, or a byte was wrong. */
KVT_NODISCARD enum kvt_err worker_supervisor_run(const struct worker_instance_plan *plan,
                                                 struct kvt_error *err);

#endif /* WORKER_INSTANCES_SUPERVISOR_H */
