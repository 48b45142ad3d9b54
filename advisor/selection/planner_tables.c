#include "advisor/selection/planner_tables.h"

#include <stdio.h>
#include <string.h>

#include "advisor/selection/ranking.h"
#include "advisor/selection/refusals.h"
#include "advisor/selection/wanted_orderings.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

struct policy_tier_blocks_options
advisor_planner_roster_options(const struct advisor_planner *planner)
{
    return (struct policy_tier_blocks_options){.ordering_options =
                                                   planner->options.ordering_options,
                                               .bytes_max = planner->options.bytes_max,
                                               .request_ticks = ADVISOR_REQUEST_TICKS};
}

uint32_t
advisor_planner_tier(struct advisor_planner *planner, const char *name)
{
    const struct policy_tier_blocks_options roster = advisor_planner_roster_options(planner);
    struct advisor_orders orders;
    struct index_holder key = {.tier = KVT_TIER_G4};
    struct advisor_tier *tier;

    for (uint32_t i = 0; i < planner->tier_count; i++)
        if (strcmp(planner->tiers[i].name, name) == 0)
            return i;
    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    if (!advisor_holder_is_hot(&key) && !advisor_holder_is_warm(&key) &&
        !advisor_holder_is_cold(&key))
        return ADVISOR_NONE;
    if (planner->tier_count == ADVISOR_TIERS_MAX) {
        kvt_log_warn("advisor.planner", "tiers", "more than %d tiers: %s is not planned for",
                     ADVISOR_TIERS_MAX, name);
        return ADVISOR_NONE;
    }
    tier = &planner->tiers[planner->tier_count];
    *tier = (struct advisor_tier){
        .volume = !advisor_holder_is_cold(&key),
        .gateway = ADVISOR_NONE,
        .place = planner->rules == NULL ? -1 : advisor_rules_tier(planner->rules, name)};
    memcpy(tier->name, key.name, sizeof(tier->name));
    advisor_wanted_orderings(planner->options.ordering, planner->rules, tier->place, &orders);
    if (advisor_ranking_init(&tier->ranking, &orders, &roster) != KVT_OK)
        return ADVISOR_NONE;
    tier->roster = tier->ranking.rosters[0];
    return planner->tier_count++;
}

/* The tier behind a holder's number, remembered: every committed event asks. */
uint32_t
advisor_planner_tier_of(struct advisor_planner *planner, uint32_t holder)
{
    const struct index_holder *key = advisor_name_table_holder_key(planner->names, holder);

    if (key->tier != KVT_TIER_G4)
        return ADVISOR_NONE;
    if (holder >= planner->tier_of_count) {
        const uint32_t count = advisor_name_table_holder_count(planner->names);
        uint32_t *more = kvt_realloc(planner->tier_of, count, sizeof(*more));

        if (more == NULL)
            return ADVISOR_NONE;
        for (uint32_t i = planner->tier_of_count; i < count; i++)
            more[i] = ADVISOR_NONE;
        planner->tier_of = more;
        planner->tier_of_count = count;
    }
    if (advisor_planner_known_tier(planner, holder) == ADVISOR_NONE)
        planner->tier_of[holder] = advisor_planner_tier(planner, key->name);
    return planner->tier_of[holder];
}

struct advisor_gateway *
advisor_planner_find_gateway(struct advisor_planner *planner, const char *name)
{
    struct advisor_gateway *gateway;

    for (uint32_t i = 0; i < planner->gateway_count; i++)
        if (strcmp(planner->gateways[i].row.name, name) == 0)
            return &planner->gateways[i];
    if (planner->gateway_count == ADVISOR_GATEWAYS_MAX || name[0] == '\0')
        return NULL;
    gateway = &planner->gateways[planner->gateway_count];
    *gateway = (struct advisor_gateway){.hot = ADVISOR_NONE, .cold = ADVISOR_NONE};
    (void)snprintf(gateway->row.name, sizeof(gateway->row.name), "%s", name);
    gateway->candidates = kvt_calloc(ADVISOR_CANDIDATES_MAX, sizeof(*gateway->candidates));
    if (gateway->candidates == NULL)
        return NULL;
    planner->gateway_count++;
    return gateway;
}

uint32_t
advisor_gateway_number(const struct advisor_planner *planner, const char *name)
{
    for (uint32_t i = 0; i < planner->gateway_count; i++)
        if (strcmp(planner->gateways[i].row.name, name) == 0)
            return i;
    return ADVISOR_NONE;
}

void
advisor_planner_say_truncated(struct advisor_tier *tier)
{
    if (tier->truncated)
        return;
    tier->truncated = true;
    kvt_log_warn("advisor.planner", "truncated",
                 "%s has more blocks than the ordering has memory for: some are not considered; "
                 "raise index.max",
                 tier->name);
}

bool
advisor_planner_is_leaving(const struct advisor_planner *planner, uint32_t tier,
                           const struct policy_block *block)
{
    const struct advisor_refused refused = {.hash = block->hash, .ns = block->ns, .tier = tier};

    return policy_tier_blocks_is_leaving(planner->tiers[tier].roster, block->ns, block->hash) &&
           !advisor_refusals_has(planner->refusals, &refused);
}

size_t
advisor_planner_copy_views(struct advisor_planner *planner, const size_t *count, const void *from,
                           size_t size, void *views, size_t capacity)
{
    size_t copied;

    (void)pthread_mutex_lock(&planner->shared.lock);
    copied = *count < capacity ? *count : capacity;
    memcpy(views, from, copied * size);
    (void)pthread_mutex_unlock(&planner->shared.lock);
    return copied;
}
