#include "policy/simulate/policy_simulation_private.h"

/* What a rule may move now: as advisor/selection/active_rules.c. */

#define REST_MS UINT64_C(60000) /* after a run that a limit ended */

void
policy_simulation_begin_limits(struct policy_simulation *simulation)
{
    for (size_t i = 0; i < simulation->policy->rules.count; i++)
        simulation->limits[i].rate = policy_rate_full(
            policy_rule_at(simulation->policy, i)->limits.rate, POLICY_RATE_BURST_MS, 0);
}

bool
policy_simulation_in_canary(struct policy_simulation *simulation, uint32_t block)
{
    if (policy_is_enforced(simulation->policy, (uint64_t)block + 1))
        return true;
    simulation->result.observed++;
    return false;
}

/* ---- one rule ---- */

static enum policy_simulation_stop
stop(struct policy_simulation *simulation, struct policy_simulation_limit *limit,
     enum policy_simulation_stop why)
{
    limit->resume_ms = simulation->now_ms + REST_MS;
    limit->stop = why;
    limit->figures.stops[why]++;
    return why;
}

enum policy_simulation_stop
policy_simulation_may(struct policy_simulation *simulation, int32_t rule)
{
    const struct policy_rule *row = policy_rule_at(simulation->policy, (size_t)rule);
    const uint64_t max_delete = simulation->policy->modes.max_delete;
    struct policy_simulation_limit *limit = &simulation->limits[rule];

    if (simulation->now_ms < limit->resume_ms)
        return limit->stop;
    if (limit->resume_ms != 0) {
        limit->resume_ms = 0;
        limit->run_blocks = 0;
    }
    if (row->limits.per_run > 0 && limit->run_blocks >= row->limits.per_run)
        return stop(simulation, limit, POLICY_SIMULATION_PER_RUN);
    if (row->verb == POLICY_EXPIRE && max_delete > 0 && limit->run_blocks >= max_delete)
        return stop(simulation, limit, POLICY_SIMULATION_MAX_DELETE);
    return row->limits.rate == 0 || policy_rate_may(&limit->rate, row->limits.rate,
                                                    POLICY_RATE_BURST_MS, simulation->now_ms)
               ? POLICY_SIMULATION_ACTS
               : POLICY_SIMULATION_RATE;
}

bool
policy_simulation_may_or_waits(struct policy_simulation *simulation, int32_t rule, bool wants)
{
    const enum policy_simulation_stop why = policy_simulation_may(simulation, rule);

    simulation->limits[rule].waits_for = wants ? why : POLICY_SIMULATION_ACTS;
    return why == POLICY_SIMULATION_ACTS;
}

void
policy_simulation_did(struct policy_simulation *simulation, int32_t rule)
{
    struct policy_simulation_limit *limit = &simulation->limits[rule];

    limit->figures.blocks++;
    limit->run_blocks++;
    if (policy_rule_at(simulation->policy, (size_t)rule)->limits.rate > 0)
        policy_rate_use(&limit->rate, simulation->bytes);
}

void
policy_simulation_end_run(struct policy_simulation *simulation, int32_t rule)
{
    simulation->limits[rule].run_blocks = 0;
}

/* ---- waiting ---- */

/* The advisor looks at rules once a tick: the first one from `at` on that is still to come. */
static uint64_t
in_tick(const struct policy_simulation *simulation, uint64_t at)
{
    const uint64_t tick_ms = simulation->options.tick_ms;

    if (at <= simulation->now_ms)
        at = simulation->now_ms + 1;
    return (at + tick_ms - 1) / tick_ms * tick_ms;
}

/* When the rule is asked again. */
static uint64_t
lifts_at(const struct policy_simulation *simulation, size_t rule)
{
    const struct policy_simulation_limit *limit = &simulation->limits[rule];
    const uint64_t rate = policy_rule_at(simulation->policy, rule)->limits.rate;
    uint64_t at = limit->resume_ms;

    if (limit->waits_for == POLICY_SIMULATION_RATE)
        at = simulation->now_ms + policy_rate_wait_ms(&limit->rate, rate);
    return in_tick(simulation, at);
}

uint64_t
policy_simulation_next_ms(const struct policy_simulation *simulation)
{
    uint64_t next_ms = UINT64_MAX;

    for (size_t i = 0; i < simulation->policy->rules.count; i++) {
        const uint64_t at = simulation->limits[i].waits_for == POLICY_SIMULATION_ACTS
                                ? UINT64_MAX
                                : lifts_at(simulation, i);

        next_ms = at < next_ms ? at : next_ms;
    }
    for (uint32_t i = 0; i < simulation->count; i++)
        if (simulation->tiers[i].stage_waits && simulation->tiers[i].staged_ms < next_ms)
            next_ms = in_tick(simulation, simulation->tiers[i].staged_ms);
    for (uint32_t i = 0; i < simulation->count; i++)
        if (simulation->tiers[i].due_ms != 0 && simulation->tiers[i].due_ms < next_ms)
            next_ms = in_tick(simulation, simulation->tiers[i].due_ms);
    return next_ms;
}

void
policy_simulation_count_waits(struct policy_simulation *simulation, uint64_t until_ms)
{
    for (size_t i = 0; i < simulation->policy->rules.count; i++)
        if (simulation->limits[i].waits_for != POLICY_SIMULATION_ACTS)
            simulation->limits[i].figures.waited_ms[simulation->limits[i].waits_for] +=
                until_ms - simulation->now_ms;
}

void
policy_simulation_begin_round(struct policy_simulation *simulation)
{
    for (size_t i = 0; i < simulation->policy->rules.count; i++)
        simulation->limits[i].waits_for = POLICY_SIMULATION_ACTS;
    for (uint32_t i = 0; i < simulation->count; i++) {
        simulation->tiers[i].stage_waits = false;
        simulation->tiers[i].due_ms = 0;
    }
}

struct policy_simulation_figures
policy_simulation_figures(const struct policy_simulation *simulation, size_t rule)
{
    return simulation->limits[rule].figures;
}
