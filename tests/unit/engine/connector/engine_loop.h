/*
 * tests/unit/engine/connector/engine_loop.h -- an inference engine without a model.
 *
 * Why: what a connector promises is only worth something around a real schedule: continuous
 * batching, prefill in chunks, decoding, a prefix cache of the engine's own, preemption, aborts,
 * several ranks.  There is no attention, but its reads: what lies in G1 of a token's prefix, by
 * layer and rank, is a function of its tokens (tests/unit/engine/support/content.h), and every
 * pass of every rank compares all that it would read.  A transfer that breaks a gate is wrong
 * bytes there, or an assertion of the fake worker's; so is a block that was registered before its
 * time, later.
 *
 * What a pass reads wrongly is forgiven when the connector says invalid() of a block at or before
 * it; the request then goes back, as engines do.  What is computed on wrong bytes is wrong itself.
 *
 * Ownership: loop_run() makes and unmakes all of it.
 * Threads:   the scheduler's is the test's; one for each rank.
 * Limits:    the names in loop_internal.h.
 */
#ifndef TESTS_UNIT_ENGINE_CONNECTOR_ENGINE_LOOP_H
#define TESTS_UNIT_ENGINE_CONNECTOR_ENGINE_LOOP_H

#include "engine/connector/connector.h"
#include "engine/connector/forward_hook.h"
#include "tests/unit/engine/support/fake_worker.h"

struct loop_options {
    uint64_t seed;
    uint32_t ranks;
    uint32_t requests;               /* in all */
    bool async;                      /* loads between iterations */
    bool cache;                      /* the engine has a prefix cache of its own */
    bool tight;                      /* G2 has less than what runs needs at once */
    bool objects;                    /* there is an object tier, and no G3 */
    bool hurried;                    /* saves are not waited for, and loads not for long */
    uint32_t lag;                    /* iterations until what ranks say is heard */
    uint32_t abort_ppm, preempt_ppm; /* of an iteration */
    struct fake_faults faults;
};

struct loop_result {
    uint64_t iterations, preemptions, aborts, invalid, returned;
    uint64_t hits;   /* tokens of the engine's own cache */
    uint64_t wrong;  /* reads of wrong bytes, all of them forgiven */
    uint64_t passes; /* of a request, at all ranks */
    struct engine_connector_stats connector;
    struct engine_leader_stats leader;
};

/** Run until every request is over; asserts that no byte was wrong, that everything is let go of,
 *  and that nothing is left. */
void loop_run(const struct loop_options *options, struct loop_result *result);

#endif /* TESTS_UNIT_ENGINE_CONNECTOR_ENGINE_LOOP_H */
