#include <string.h>

#include "advisor/job/jobs_private.h"
#include "advisor/selection/planner_tables.h"

/* Which tiers jobs empty and fill, and what the rules in force leave to them. */

/* Of moves that name no tiers. */
static unsigned
places_of(uint32_t verb)
{
    switch ((enum kvt_order_verb)verb) {
    case KVT_ORDER_DELETE: return ADVISOR_JOB_ALL;
    case KVT_ORDER_DEMOTE:
    case KVT_ORDER_PROMOTE:
    case KVT_ORDER_WARM: return ADVISOR_JOB_HOT;
    case KVT_ORDER_NONE:
    case KVT_ORDER_COMPACT:
    case KVT_ORDER_PIN:
    case KVT_ORDER_UNPIN: break;
    }
    return 0;
}

/* The tier that rules leave to moves between named ones: where a demotion leaves, and where
 * anything else comes to. */
static const char *
named_of(uint32_t verb, const char *from, const char *to)
{
    return verb == KVT_ORDER_DEMOTE ? from : to;
}

/* Of what it brings, the part that is not there. */
static uint64_t
bringing(const struct advisor_planner *planner, const struct advisor_order *order)
{
    uint64_t missing = 0;

    if (order->to == ADVISOR_NONE || order->row.items == 0)
        return 0;
    for (uint32_t i = 0; i < order->row.items; i++)
        missing += policy_tier_blocks_has(planner->tiers[order->to].roster, order->ns,
                                          order->items[i].block.hash)
                       ? 0
                       : 1;
    return order->row.bytes / order->row.items * missing;
}

static void
place_ends(struct advisor_planner *planner, const struct advisor_gateway *gateway,
           struct advisor_order *order)
{
    const bool up = order->row.verb == KVT_ORDER_PROMOTE || order->row.verb == KVT_ORDER_WARM;

    if (order->row.from[0] != '\0') {
        order->from = advisor_planner_tier(planner, order->row.from);
        order->to = advisor_planner_tier(planner, order->row.to);
    } else {
        order->from = up ? gateway->cold : gateway->hot;
        order->to = up ? gateway->hot : gateway->cold;
    }
}

void
advisor_jobs_place_order(struct advisor_planner *planner, struct advisor_order *order)
{
    const uint32_t number = advisor_planner_gateway(planner, order->row.gateway);
    const struct advisor_gateway *gateway;

    order->of_job = true;
    order->from = order->to = ADVISOR_NONE;
    if (number == ADVISOR_NONE)
        return;
    gateway = &planner->gateways[number];
    order->ns = advisor_name_table_find_namespace(planner->names, order->row.namespace_);
    if (kvt_order_verb_moves((enum kvt_order_verb)order->row.verb))
        place_ends(planner, gateway, order);
    for (uint32_t i = 0; i < gateway->tier_count && order->row.verb == KVT_ORDER_DELETE; i++)
        order->also[order->also_count++] = gateway->tiers[i];
    order->bringing = bringing(planner, order);
}

void
advisor_job_note_places(struct advisor_job *job, struct advisor_planner *planner,
                        const struct advisor_job_batch *batch)
{
    const uint32_t gateway = advisor_planner_gateway(planner, batch->gateway);
    uint32_t tier = ADVISOR_NONE;

    if (batch->from[0] != '\0')
        tier = advisor_planner_tier(planner, named_of(batch->verb, batch->from, batch->to));
    if (gateway == ADVISOR_NONE || (batch->from[0] != '\0' && tier == ADVISOR_NONE))
        job->everywhere = true;
    else if (tier != ADVISOR_NONE)
        job->tiers[tier / 64] |= UINT64_C(1) << tier % 64;
    else
        job->places[gateway] |= (uint8_t)places_of(batch->verb);
}

static bool
is_plan(const struct advisor_job *job)
{
    return strcmp(job->row.kind, "plan") == 0;
}

void
advisor_jobs_load_places(struct advisor_jobs *jobs, const struct advisor_txn *txn)
{
    for (size_t i = 0; i < jobs->count; i++) {
        struct advisor_job *job = jobs->list[i];

        for (uint32_t n = 0; n < job->row.batches && is_plan(job) &&
                             !advisor_job_has_ended(job->row.state) && !job->everywhere;
             n++) {
            struct advisor_job_batch batch;

            /* What cannot be read fails the job when it is to be ordered, and not the start. */
            if (advisor_store_batch(txn, job->row.id, n, &batch, NULL) == KVT_OK)
                advisor_job_note_places(job, jobs->options.planner, &batch);
            else
                job->everywhere = true;
        }
    }
}

static void
hold_tier(struct advisor_planner *planner, uint32_t tier)
{
    if (tier != ADVISOR_NONE)
        planner->tiers[tier].held = true;
}

/* How full its tiers are was told since the job's end. */
static bool
told_since(const struct advisor_planner *planner, uint32_t gateway, const struct advisor_job *job)
{
    return advisor_job_has_ended(job->row.state) && gateway != ADVISOR_NONE &&
           planner->gateways[gateway].heard_ms > job->row.finished_ms;
}

static void
hold_for(struct advisor_planner *planner, const struct advisor_job *job)
{
    for (uint32_t i = 0; i < planner->gateway_count; i++) {
        const struct advisor_gateway *gateway = &planner->gateways[i];

        if (told_since(planner, i, job))
            continue;
        if ((job->places[i] & ADVISOR_JOB_HOT) != 0)
            hold_tier(planner, gateway->hot);
        for (uint32_t n = 0; n < gateway->tier_count; n++)
            if (job->everywhere || (job->places[i] & ADVISOR_JOB_ALL) != 0)
                hold_tier(planner, gateway->tiers[n]);
    }
    for (uint32_t i = 0; i < planner->tier_count; i++)
        if ((job->tiers[i / 64] >> i % 64 & 1) != 0 &&
            !told_since(planner, planner->tiers[i].gateway, job))
            hold_tier(planner, i);
}

void
advisor_jobs_hold(struct advisor_jobs *jobs, uint64_t now_ms)
{
    struct advisor_planner *planner = jobs->options.planner;
    const bool stopped = advisor_planner_paused(planner);

    for (uint32_t i = 0; i < planner->tier_count; i++)
        planner->tiers[i].held = false;
    for (size_t i = 0; i < jobs->count; i++) {
        struct advisor_job *job = jobs->list[i];
        const bool ended = advisor_job_has_ended(job->row.state);

        if (!is_plan(job))
            continue;
        /* No time passes while nothing may leave, or nobody was here. */
        if (!ended && (stopped || job->progress_ms == 0))
            job->progress_ms = now_ms;
        if (now_ms < (ended ? job->row.finished_ms : job->progress_ms) + ADVISOR_JOB_HOLD_MS)
            hold_for(planner, job);
    }
}
