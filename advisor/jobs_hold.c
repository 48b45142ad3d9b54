#include <string.h>

#include "advisor/jobs_private.h"

/* Which tiers jobs empty and fill, and what the rules in force leave to them. */

static unsigned
places_of(uint32_t verb)
{
    switch ((enum kvt_order_verb)verb) {
    case KVT_ORDER_DELETE: return ADVISOR_JOB_HOT | ADVISOR_JOB_COLD;
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

void
advisor_jobs_place_order(const struct advisor_planner *planner, struct advisor_order *order)
{
    const uint32_t gateway = advisor_planner_gateway(planner, order->row.gateway);
    const unsigned places = places_of(order->row.verb);

    order->of_job = true;
    order->tier = ADVISOR_NONE;
    order->also = ADVISOR_NONE;
    if (gateway == ADVISOR_NONE)
        return;
    if ((places & ADVISOR_JOB_HOT) != 0)
        order->tier = planner->gateways[gateway].hot;
    if ((places & ADVISOR_JOB_COLD) != 0)
        order->also = planner->gateways[gateway].cold;
}

void
advisor_job_note_places(struct advisor_job *job, const struct advisor_planner *planner,
                        const struct advisor_job_batch *batch)
{
    const uint32_t gateway = advisor_planner_gateway(planner, batch->gateway);

    if (gateway == ADVISOR_NONE)
        job->everywhere = true;
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

static void
hold_for(struct advisor_planner *planner, const struct advisor_job *job)
{
    const bool ended = advisor_job_has_ended(job->row.state);

    for (uint32_t i = 0; i < planner->gateway_count; i++) {
        const struct advisor_gateway *gateway = &planner->gateways[i];

        /* How full its tiers are was told since. */
        if (ended && gateway->heard_ms > job->row.finished_ms)
            continue;
        if (job->everywhere || (job->places[i] & ADVISOR_JOB_HOT) != 0)
            hold_tier(planner, gateway->hot);
        if (job->everywhere || (job->places[i] & ADVISOR_JOB_COLD) != 0)
            hold_tier(planner, gateway->cold);
    }
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
