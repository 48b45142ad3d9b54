#include <string.h>

#include "advisor/planner_choose.h"
#include "advisor/planner_tick.h"

/* What was read from a bucket comes to the hot volume of the gateway that read it. */

/* Of a volume, in bytes. */
struct room {
    uint64_t used; /* with what this set brings */
    uint64_t stop; /* below it there is room for anything */
    uint64_t limit;
    uint64_t capacity;
};

static struct room
room_of(const struct advisor_tick *plan, const struct advisor_tier *tier, int32_t last)
{
    const uint64_t capacity =
        advisor_chooser_capacity(plan->policy, tier->place, tier->report.capacity_bytes);
    struct room room = {
        .used = tier->report.used_bytes, .stop = capacity, .limit = capacity, .capacity = capacity};

    if (last >= 0) {
        const struct policy_trigger *trigger = &policy_rule_at(plan->policy, (size_t)last)->trigger;

        room.stop = advisor_chooser_mark(capacity, trigger->stop);
        room.limit = advisor_chooser_mark(capacity, trigger->start);
    }
    return room;
}

/* The rule that brings the block up to that volume; -1: none does. */
static int32_t
promoter(struct advisor_tick *plan, const struct advisor_candidate *candidate, uint32_t volume,
         const struct room *room)
{
    const struct policy_block *block = &candidate->block;
    const struct advisor_tier *tier = &plan->planner->tiers[volume];
    const int32_t rule =
        advisor_asker_rule(&plan->asker, candidate->tier, block, POLICY_ON_SECOND_COLD_HIT);
    const struct policy_rule *row = rule < 0 ? NULL : policy_rule_at(plan->policy, (size_t)rule);

    if (row == NULL || row->verb != POLICY_PROMOTE || row->to.index != tier->place ||
        tier->place < 0 || policy_roster_has(tier->roster, block->ns, block->hash) ||
        !(plan->observed || advisor_planner_in_canary(plan->policy, block->hash)))
        return -1;
    if (row->promote_by == POLICY_BY_READS &&
        candidate->reads < plan->planner->options.promote_after)
        return -1;
    if (row->promote_by == POLICY_BY_PRICE &&
        room->used + advisor_planner_bytes(block) > room->stop &&
        !policy_roster_pays(tier->roster, block->ns, block->hash, plan->now_ms / ADVISOR_TICK_MS))
        return -1;
    return advisor_planner_may(plan->planner, rule, plan->now_ms) == ADVISOR_RULE_ACTS ? rule : -1;
}

void
advisor_planner_promote(struct advisor_tick *plan, struct advisor_gateway *gateway)
{
    const struct advisor_tier *tier;
    uint32_t looked = 0;
    struct room room;
    int32_t last;

    if (gateway->candidate_count == 0)
        return;
    if (gateway->hot == ADVISOR_NONE || !gateway->healthy) {
        gateway->candidate_count = 0;
        return;
    }
    tier = &plan->planner->tiers[gateway->hot];
    last = advisor_chooser_last(plan->policy, tier->place);
    room = room_of(plan, tier, last);
    /* While it drains, what came in would push out something used more recently. */
    if (tier->coming > 0 || advisor_rule_set_has(&tier->draining, last) || room.used >= room.limit)
        return;
    plan->set->count = 0;
    for (; looked < gateway->candidate_count && !advisor_tick_is_over(plan); looked++) {
        const struct advisor_candidate *candidate = &gateway->candidates[looked];
        const uint64_t bytes = advisor_planner_bytes(&candidate->block);
        const int32_t rule = promoter(plan, candidate, gateway->hot, &room);

        if (rule < 0)
            continue;
        if (room.used >= room.limit || room.used + bytes > room.capacity)
            break;
        advisor_tick_add(plan, gateway->hot, &candidate->block, rule);
        room.used += bytes;
    }
    /* The rest comes when there is time, or the volume was drained for what came now. */
    gateway->candidate_count -= looked;
    memmove(gateway->candidates, gateway->candidates + looked,
            gateway->candidate_count * sizeof(*gateway->candidates));
    advisor_tick_order(plan, false); /* what could not be ordered is read again and comes again */
}
