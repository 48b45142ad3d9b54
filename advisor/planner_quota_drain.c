#include <stdlib.h>
#include <string.h>

#include "advisor/planner_quotas.h"
#include "advisor/planner_tick.h"
#include "base/alloc.h"
#include "base/log.h"

/* Blocks of a tenant that has too much leave.  An ordering says which block of its tier goes first,
 * whoever it belongs to, so a tier's blocks are gone through instead, a part each tick. */

/* ---- going through a tier ---- */

static bool
goes_before(const struct advisor_quota_pick *a, const struct advisor_quota_pick *b)
{
    if (a->tick != b->tick)
        return a->tick < b->tick;
    if (a->position != b->position)
        return a->position > b->position;
    return a->hash != b->hash ? a->hash < b->hash : a->ns < b->ns;
}

/* A heap with the one on top that goes last: another that goes before it takes its place. */
static void
sift_down(struct advisor_quota_pass *pass)
{
    const struct advisor_quota_pick moved = pass->picks[0];
    uint32_t at = 0;

    for (uint32_t child = 1; child < pass->count; child = 2 * at + 1) {
        if (child + 1 < pass->count && goes_before(&pass->picks[child], &pass->picks[child + 1]))
            child++;
        if (!goes_before(&moved, &pass->picks[child]))
            break;
        pass->picks[at] = pass->picks[child];
        at = child;
    }
    pass->picks[at] = moved;
}

static void
sift_up(struct advisor_quota_pass *pass)
{
    uint32_t at = pass->count - 1;
    const struct advisor_quota_pick moved = pass->picks[at];

    while (at > 0 && goes_before(&pass->picks[(at - 1) / 2], &moved)) {
        pass->picks[at] = pass->picks[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    pass->picks[at] = moved;
}

static void
consider(void *arg, const struct policy_block *block, uint64_t tick)
{
    struct advisor_quota_pass *pass = arg;
    const struct advisor_quota_pick pick = {
        .hash = block->hash, .tick = tick, .ns = block->ns, .position = block->position};

    if ((pass->wanted[block->ns / 64] >> (block->ns % 64) & 1) == 0)
        return;
    if (pass->count < ADVISOR_QUOTA_PICKS) {
        pass->picks[pass->count++] = pick;
        sift_up(pass);
    } else if (goes_before(&pick, &pass->picks[0])) {
        pass->picks[0] = pick;
        sift_down(pass);
    }
}

static int
in_order(const void *left, const void *right)
{
    return goes_before(left, right) ? -1 : 1;
}

static void
go_through(struct advisor_quota_pass *pass, const struct policy_roster *roster)
{
    if (policy_roster_scan(roster, &pass->seat, ADVISOR_QUOTA_SEATS, consider, pass))
        return;
    qsort(pass->picks, pass->count, sizeof(*pass->picks), in_order);
    pass->ready = true;
}

/* ---- which quota ---- */

/* Blocks of its tier were ordered away, and are there still. */
static uint64_t
leaving(const struct advisor_planner *planner, int32_t quota)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < planner->order_count; i++) {
        const struct advisor_order *order = planner->orders[i];
        uint64_t blocks = 0;

        if (order->quota != (uint32_t)quota + 1 ||
            order->rules_version != planner->rules->version || order->row.items == 0 ||
            order->from == ADVISOR_NONE)
            continue;
        for (uint32_t k = 0; k < order->row.items; k++)
            blocks += policy_roster_is_taken(planner->tiers[order->from].roster, order->ns,
                                             order->items[k].block.hash);
        bytes += order->row.bytes / order->row.items * blocks;
    }
    return bytes;
}

/* What the quota counts without that. */
static uint64_t
left_of(const struct advisor_planner *planner, int32_t quota)
{
    const uint64_t used = planner->quotas->states[quota].used;
    const uint64_t bytes = leaving(planner, quota);

    return used > bytes ? used - bytes : 0;
}

static uint64_t
soft_of(const struct advisor_tick *plan, int32_t quota)
{
    return advisor_quota_soft(policy_quota_at(plan->policy, (size_t)quota));
}

static bool
can_drain(struct advisor_tick *plan, uint32_t number)
{
    struct advisor_tier *tier = &plan->planner->tiers[number];

    return !advisor_planner_is_stale(tier->report_ms, plan->now_ms) && tier->leaving == 0 &&
           !advisor_tick_waits(plan, tier);
}

/* The next tier of the quota; false: none can be drained now. */
static bool
next_tier(struct advisor_tick *plan, int32_t quota, uint32_t *number)
{
    struct advisor_planner *planner = plan->planner;
    struct advisor_quota_state *state = &planner->quotas->states[quota];
    const int32_t place = policy_quota_at(plan->policy, (size_t)quota)->tier.index;

    *number = ADVISOR_NONE;
    for (uint32_t n = 0; n < planner->tier_count; n++) {
        const uint32_t at = (state->turn + n) % planner->tier_count;
        const struct advisor_tier *tier = &planner->tiers[at];

        if (tier->place >= 0 && (place < 0 || place == tier->place) && can_drain(plan, at)) {
            *number = at;
            return true;
        }
    }
    return false;
}

/* Those beyond their hard quota first, each in its turn. */
static bool
next_quota(struct advisor_tick *plan, enum advisor_quota_over over, int32_t *quota,
           uint32_t *number)
{
    struct advisor_planner_quotas *quotas = plan->planner->quotas;

    for (uint32_t n = 0; n < quotas->count; n++) {
        struct advisor_quota_state *state;

        *quota = (int32_t)(((uint32_t)quotas->turn + n) % quotas->count);
        state = &quotas->states[*quota];
        if (advisor_quota_over(policy_quota_at(plan->policy, (size_t)*quota), state->used) !=
            over) {
            if (over == ADVISOR_QUOTA_SOFT &&
                state->used <= advisor_quota_soft(policy_quota_at(plan->policy, (size_t)*quota)))
                state->stuck = false;
            continue;
        }
        if (plan->now_ms >= state->rest_ms &&
            left_of(plan->planner, *quota) > soft_of(plan, *quota) &&
            next_tier(plan, *quota, number))
            return true;
    }
    return false;
}

static void
want_namespaces(struct advisor_quota_pass *pass, const struct advisor_planner *planner)
{
    const struct advisor_planner_quotas *quotas = planner->quotas;
    const struct advisor_ledger_row *sums = advisor_ledger_rows(quotas->ledger, &(size_t){0});

    memset(pass->wanted, 0, sizeof(pass->wanted));
    for (size_t i = 0; i < quotas->row_count; i++)
        if (sums[i].place == pass->tier && sums[i].bytes > 0 &&
            (quotas->rows[i].quotas[0] == pass->quota || quotas->rows[i].quotas[1] == pass->quota))
            pass->wanted[sums[i].ns / 64] |= UINT64_C(1) << (sums[i].ns % 64);
}

static bool
begin(struct advisor_tick *plan)
{
    struct advisor_planner_quotas *quotas = plan->planner->quotas;
    struct advisor_quota_pass *pass = &quotas->pass;
    int32_t quota;
    uint32_t tier;

    if (!next_quota(plan, ADVISOR_QUOTA_HARD, &quota, &tier) &&
        !next_quota(plan, ADVISOR_QUOTA_SOFT, &quota, &tier))
        return false;
    if (pass->picks == NULL)
        pass->picks = kvt_calloc(ADVISOR_QUOTA_PICKS, sizeof(*pass->picks));
    if (pass->picks == NULL)
        return false;
    quotas->turn = (int32_t)(((uint32_t)quota + 1) % quotas->count);
    pass->active = true;
    pass->ready = pass->ordered = false;
    pass->quota = quota;
    pass->tier = tier;
    pass->seat = pass->count = pass->next = 0;
    want_namespaces(pass, plan->planner);
    return true;
}

/* It was gone through; a quota of which no tier let anything go rests. */
static void
end(struct advisor_tick *plan)
{
    struct advisor_planner *planner = plan->planner;
    struct advisor_quota_pass *pass = &planner->quotas->pass;
    struct advisor_quota_state *state = &planner->quotas->states[pass->quota];
    const struct policy_quota *quota = policy_quota_at(plan->policy, (size_t)pass->quota);

    pass->active = false;
    state->turn = pass->tier + 1;
    state->idle = pass->ordered ? 0 : state->idle + 1;
    if (pass->ordered)
        state->stuck = false;
    if (state->idle == 0 || (quota->tier.index < 0 && state->idle < planner->tier_count))
        return;
    state->idle = 0;
    state->rest_ms = plan->now_ms + ADVISOR_QUOTA_REST_MS;
    if (!state->stuck)
        kvt_log_warn("advisor.planner", "quota",
                     "%s is beyond its quota%s%s, and nothing of it may leave: its blocks are "
                     "pinned, or of no rule that lets them go",
                     quota->tenant, quota->tier.text[0] == '\0' ? "" : " of ", quota->tier.text);
    state->stuck = true;
}

/* ---- which blocks ---- */

int32_t
advisor_quota_expirer(const struct policy *policy, int32_t place)
{
    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);

        if (rule->verb == POLICY_EXPIRE && policy_rule_tier(rule) == place)
            return (int32_t)i;
    }
    return -1;
}

/* How a block leaves: by a rule, or by the quota itself (-1), which demotes. */
struct way {
    int32_t rule;
    struct advisor_edge edge;
};

/* Is there a gateway that would do that, and room where the block goes? */
static bool
is_open(struct advisor_tick *plan, const struct policy_block *block, const struct policy_rule *rule,
        struct advisor_edge *edge, bool *exists)
{
    const struct advisor_planner *planner = plan->planner;
    const uint32_t tier = planner->quotas->pass.tier;

    *exists =
        advisor_edge_of(planner, planner->rules, rule, tier, ADVISOR_NONE, plan->now_ms, edge);
    return *exists && (edge->to == ADVISOR_NONE ||
                       policy_roster_has(planner->tiers[edge->to].roster, block->ns, block->hash) ||
                       advisor_edge_has_room(planner, planner->rules, edge->to,
                                             plan->used[edge->to], advisor_planner_bytes(block)));
}

/* Nothing that moves it down or deletes it has the block. */
static bool
own_way(struct advisor_tick *plan, const struct policy_block *block, bool hard, struct way *way)
{
    const struct advisor_tier *tier = &plan->planner->tiers[plan->planner->quotas->pass.tier];
    const struct policy_rule down = {
        .verb = POLICY_DEMOTE,
        .to = {.index = policy_tier_below(plan->policy, (size_t)tier->place)}};
    bool exists = false;

    way->rule = -1;
    if (!hard && plan->asker.facts.facts.last_access_ms < plan->policy->defaults.protect_recent)
        return false;
    if (down.to.index >= 0 && is_open(plan, block, &down, &way->edge, &exists))
        return true;
    if (exists || !hard)
        return false;
    way->rule = advisor_quota_expirer(plan->policy, tier->place);
    return way->rule >= 0 && is_open(plan, block, policy_rule_at(plan->policy, (size_t)way->rule),
                                     &way->edge, &exists);
}

/* False: it stays. */
static bool
find_way(struct advisor_tick *plan, const struct policy_block *block, bool hard, struct way *way)
{
    const uint32_t tier = plan->planner->quotas->pass.tier;
    const struct policy_rule *row;
    bool exists;

    way->rule = advisor_asker_rule(&plan->asker, tier, block, POLICY_ON_NOTHING);
    if (plan->asker.facts.facts.pinned ||
        !(plan->observed || policy_is_enforced(plan->policy, block->hash)))
        return false;
    if (way->rule < 0)
        return own_way(plan, block, hard, way);
    row = policy_rule_at(plan->policy, (size_t)way->rule);
    switch ((enum policy_verb)row->verb) {
    case POLICY_PIN:
    case POLICY_EXCLUDE: return false;
    case POLICY_DEMOTE:
    case POLICY_EXPIRE: return is_open(plan, block, row, &way->edge, &exists);
    case POLICY_PROMOTE:
    case POLICY_COMPACT: break;
    }
    return own_way(plan, block, hard, way);
}

/* False: the rule is at its rate, and the pass waits. */
static bool
take(struct advisor_tick *plan, const struct advisor_quota_pick *pick, uint64_t *left)
{
    struct advisor_quota_pass *pass = &plan->planner->quotas->pass;
    const bool hard = *left > policy_quota_at(plan->policy, (size_t)pass->quota)->hard;
    struct advisor_ranking *ranking = &plan->planner->tiers[pass->tier].ranking;
    struct policy_standing standing;
    enum advisor_rule_stop stop = ADVISOR_RULE_ACTS;
    struct way way;
    uint64_t bytes;

    if (policy_roster_standing(ranking->rosters[0], pick->ns, pick->hash,
                               plan->now_ms / ADVISOR_TICK_MS, 1, &standing) != KVT_OK ||
        !standing.in_tier || standing.tick != pick->tick ||
        !find_way(plan, &standing.block, hard, &way))
        return true; /* it went, was read meanwhile, or stays */
    if (way.rule >= 0)
        stop = advisor_planner_may(plan->planner, way.rule, plan->now_ms);
    if (stop == ADVISOR_RULE_RATE)
        return false;
    if (stop != ADVISOR_RULE_ACTS || !advisor_ranking_claim(ranking, pick->ns, pick->hash))
        return true;
    advisor_tick_add(plan, &way.edge, &standing.block, way.rule);
    bytes = advisor_planner_bytes(&standing.block);
    *left -= bytes < *left ? bytes : *left;
    return true;
}

static void
order(struct advisor_tick *plan)
{
    struct advisor_quota_pass *pass = &plan->planner->quotas->pass;
    const uint64_t soft = soft_of(plan, pass->quota);
    uint64_t left = left_of(plan->planner, pass->quota);
    uint32_t looks = 0;

    advisor_tick_begin_set(plan, false);
    plan->set->quota = (uint32_t)pass->quota + 1;
    while (pass->next < pass->count && left > soft && plan->set->count < KVT_ORDER_ITEMS_MAX &&
           looks++ < ADVISOR_QUOTA_LOOKS && !advisor_tick_is_over(plan) &&
           take(plan, &pass->picks[pass->next], &left))
        pass->next++;
    pass->ordered = pass->ordered || plan->set->count > 0;
    advisor_tick_order(plan, false);
    if (pass->next == pass->count || left <= soft)
        end(plan);
}

void
advisor_planner_restart_quota(struct advisor_planner *planner, uint32_t tier)
{
    struct advisor_quota_pass *pass = &planner->quotas->pass;

    if (pass->active && pass->tier == tier && !pass->ready)
        pass->seat = pass->count = 0;
}

void
advisor_planner_drain_quotas(struct advisor_tick *plan)
{
    struct advisor_planner_quotas *quotas = plan->planner->quotas;
    struct advisor_quota_pass *pass = &quotas->pass;

    if (!pass->active && !begin(plan))
        return;
    if (!pass->ready)
        go_through(pass, plan->planner->tiers[pass->tier].roster);
    if (pass->ready && can_drain(plan, pass->tier))
        order(plan);
}
