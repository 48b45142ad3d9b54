#include "advisor/selection/quota_drain.h"

#include <stdlib.h>
#include <string.h>

#include "advisor/selection/active_rules.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planned_moves.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/tenant_quotas.h"
#include "base/core/alloc.h"

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
    const struct advisor_quota_drainer *drainer = arg;
    struct advisor_quota_pass *pass = &drainer->drain->pass;
    const struct advisor_copy copy = {.hash = block->hash, .ns = block->ns, .tier = pass->tier};
    const struct advisor_quota_pick pick = {
        .hash = block->hash, .tick = tick, .ns = block->ns, .position = block->position};

    if ((pass->wanted[block->ns / 64] >> (block->ns % 64) & 1) == 0 ||
        advisor_planned_moves_has(drainer->moved, &copy, ADVISOR_COPY_GONE))
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

void
advisor_quota_go_through(struct advisor_quota_drainer *drainer, uint32_t seats)
{
    struct advisor_quota_pass *pass = &drainer->drain->pass;

    if (policy_tier_blocks_scan(drainer->planner->tiers[pass->tier].roster, &pass->seat, seats,
                                consider, drainer))
        return;
    qsort(pass->picks, pass->count, sizeof(*pass->picks), in_order);
    pass->ready = true;
}

/* ---- which quota ---- */

static const struct policy_quota *
quota_at(const struct advisor_quota_drainer *drainer, int32_t quota)
{
    return policy_quota_at(drainer->rules->policy, (size_t)quota);
}

static uint64_t
soft_of(const struct advisor_quota_drainer *drainer, int32_t quota)
{
    return advisor_quota_soft(quota_at(drainer, quota));
}

/* What the quota counts without what is on its way out. */
static uint64_t
left_of(const struct advisor_quota_drainer *drainer, int32_t quota)
{
    const uint64_t used = drainer->drain->states[quota].used;
    const uint64_t bytes = drainer->hands->leaving(drainer->arg, quota);

    return used > bytes ? used - bytes : 0;
}

/* Does the quota count what is in the tier, and the policy name that? */
static bool
is_of(const struct advisor_quota_drainer *drainer, int32_t quota, uint32_t tier)
{
    const int32_t want = quota_at(drainer, quota)->tier.index;
    const int32_t place = advisor_planner_place(drainer->planner, drainer->rules, tier);

    return place >= 0 && (want < 0 || want == place);
}

/* The next tier of the quota; false: none can be drained now. */
static bool
next_tier(const struct advisor_quota_drainer *drainer, int32_t quota, uint32_t *number)
{
    const struct advisor_planner *planner = drainer->planner;

    *number = ADVISOR_NONE;
    for (uint32_t n = 0; n < planner->tier_count; n++) {
        const uint32_t at = (drainer->drain->states[quota].turn + n) % planner->tier_count;

        if (is_of(drainer, quota, at) && drainer->hands->can_drain(drainer->arg, at)) {
            *number = at;
            return true;
        }
    }
    return false;
}

/* Those beyond their hard quota first, each in its turn. */
static bool
next_quota(const struct advisor_quota_drainer *drainer, enum advisor_quota_over over,
           int32_t *quota, uint32_t *number)
{
    struct advisor_quota_drain *drain = drainer->drain;

    for (uint32_t n = 0; n < drain->count; n++) {
        struct advisor_quota_state *state;

        *quota = (int32_t)(((uint32_t)drain->turn + n) % drain->count);
        state = &drain->states[*quota];
        if (advisor_quota_over(quota_at(drainer, *quota), state->used) != over) {
            if (over == ADVISOR_QUOTA_SOFT && state->used <= soft_of(drainer, *quota))
                state->stuck = false;
            continue;
        }
        if (drainer->now_ms >= state->rest_ms &&
            left_of(drainer, *quota) > soft_of(drainer, *quota) &&
            next_tier(drainer, *quota, number))
            return true;
    }
    return false;
}

static void
want_namespaces(const struct advisor_quota_drainer *drainer, struct advisor_quota_pass *pass)
{
    const struct advisor_planner *planner = drainer->planner;
    const char *tenant = quota_at(drainer, pass->quota)->tenant;
    size_t count;
    const struct advisor_byte_sums_row *sums =
        advisor_byte_sums_rows(planner->quotas->ledger, &count);

    memset(pass->wanted, 0, sizeof(pass->wanted));
    for (size_t i = 0; i < count; i++)
        if (sums[i].place == pass->tier && sums[i].bytes > 0 &&
            advisor_quota_is_of(advisor_name_table_namespace_text(planner->names, sums[i].ns),
                                tenant))
            pass->wanted[sums[i].ns / 64] |= UINT64_C(1) << (sums[i].ns % 64);
}

enum kvt_err
advisor_quota_begin(struct advisor_quota_drainer *drainer)
{
    struct advisor_quota_drain *drain = drainer->drain;
    struct advisor_quota_pass *pass = &drain->pass;
    int32_t quota;
    uint32_t tier;

    if (!next_quota(drainer, ADVISOR_QUOTA_HARD, &quota, &tier) &&
        !next_quota(drainer, ADVISOR_QUOTA_SOFT, &quota, &tier))
        return KVT_NOTFOUND;
    if (pass->picks == NULL)
        pass->picks = kvt_calloc(ADVISOR_QUOTA_PICKS, sizeof(*pass->picks));
    if (pass->picks == NULL)
        return KVT_NOMEM;
    drain->turn = (int32_t)(((uint32_t)quota + 1) % drain->count);
    pass->active = true;
    pass->ready = pass->ordered = false;
    pass->quota = quota;
    pass->tier = tier;
    pass->seat = pass->count = pass->next = 0;
    want_namespaces(drainer, pass);
    return KVT_OK;
}

/* It was gone through; a quota of which no tier let anything go rests. */
static void
end(struct advisor_quota_drainer *drainer)
{
    struct advisor_quota_pass *pass = &drainer->drain->pass;
    struct advisor_quota_state *state = &drainer->drain->states[pass->quota];
    uint32_t tiers = 0;

    for (uint32_t i = 0; i < drainer->planner->tier_count; i++)
        tiers += is_of(drainer, pass->quota, i) ? 1 : 0;
    pass->active = false;
    state->turn = pass->tier + 1;
    state->idle = pass->ordered ? 0 : state->idle + 1;
    if (pass->ordered)
        state->stuck = false;
    if (state->idle == 0 || state->idle < tiers)
        return;
    state->idle = 0;
    state->rest_ms = drainer->now_ms + ADVISOR_QUOTA_REST_MS;
    state->stuck = true;
}

/* ---- which blocks ---- */

bool
advisor_quota_is_there(const struct advisor_planner *planner,
                       const struct advisor_planned_moves *moved, const struct advisor_copy *copy)
{
    return (policy_tier_blocks_has(planner->tiers[copy->tier].roster, copy->ns, copy->hash) &&
            !advisor_planned_moves_has(moved, copy, ADVISOR_COPY_GONE)) ||
           advisor_planned_moves_has(moved, copy, ADVISOR_COPY_CAME);
}

/* Is there a gateway that would do that, and room where the block goes? */
static bool
is_open(const struct advisor_quota_drainer *drainer, const struct policy_block *block,
        const struct policy_rule *rule, struct advisor_edge *edge, bool *exists)
{
    const struct advisor_planner *planner = drainer->planner;

    *exists = advisor_edge_of(planner, drainer->rules, rule, drainer->drain->pass.tier,
                              ADVISOR_NONE, planner->now_ms, edge);
    return *exists &&
           (edge->to == ADVISOR_NONE ||
            advisor_quota_is_there(planner, drainer->moved,
                                   &(struct advisor_copy){block->hash, block->ns, edge->to}) ||
            advisor_edge_has_room(planner, drainer->rules, edge->to, drainer->used[edge->to],
                                  advisor_planner_bytes(block)));
}

/* Nothing that moves it down or deletes it has the block. */
static bool
own_way(const struct advisor_quota_drainer *drainer, const struct policy_block *block, bool hard,
        struct advisor_quota_way *way)
{
    const struct policy *policy = drainer->rules->policy;
    const int32_t place =
        advisor_planner_place(drainer->planner, drainer->rules, drainer->drain->pass.tier);
    const struct policy_rule down = {.verb = POLICY_DEMOTE,
                                     .to = {.index = policy_tier_below(policy, (size_t)place)}};
    bool exists = false;

    way->rule = -1;
    if (!hard && drainer->asker->facts.facts.last_access_ms < policy->defaults.protect_recent)
        return false;
    if (down.to.index >= 0 && is_open(drainer, block, &down, &way->edge, &exists))
        return true;
    if (exists || !hard)
        return false;
    way->rule = advisor_quota_expirer(policy, place);
    return way->rule >= 0 &&
           !advisor_asker_pins_elsewhere(drainer->asker, drainer->drain->pass.tier, block) &&
           is_open(drainer, block, policy_rule_at(policy, (size_t)way->rule), &way->edge, &exists);
}

/* False: it stays. */
static bool
find_way(const struct advisor_quota_drainer *drainer, const struct policy_block *block, bool hard,
         struct advisor_quota_way *way)
{
    const struct policy *policy = drainer->rules->policy;
    const struct policy_rule *row;
    bool exists;

    way->rule =
        advisor_asker_rule(drainer->asker, drainer->drain->pass.tier, block, POLICY_ON_NOTHING);
    if (drainer->asker->unknown || drainer->asker->facts.facts.pinned ||
        !(drainer->everybody || policy_is_enforced(policy, block->hash)))
        return false;
    if (way->rule < 0)
        return own_way(drainer, block, hard, way);
    row = policy_rule_at(policy, (size_t)way->rule);
    switch ((enum policy_verb)row->verb) {
    case POLICY_PIN:
    case POLICY_EXCLUDE: return false;
    case POLICY_DEMOTE:
    case POLICY_EXPIRE: return is_open(drainer, block, row, &way->edge, &exists);
    case POLICY_PROMOTE:
    case POLICY_COMPACT: break;
    }
    return own_way(drainer, block, hard, way);
}

/* What becomes of one of the pass; the bytes of what leaves no longer count. */
static enum advisor_quota_answer
look_at(const struct advisor_quota_drainer *drainer, const struct advisor_quota_pick *pick,
        uint64_t *left)
{
    const struct advisor_quota_pass *pass = &drainer->drain->pass;
    const bool hard = *left > quota_at(drainer, pass->quota)->hard;
    struct advisor_quota_way way = {.quota = pass->quota};
    struct policy_standing standing;
    enum advisor_quota_answer answer;
    uint64_t bytes;

    if (policy_tier_blocks_standing(drainer->planner->tiers[pass->tier].roster, pick->ns,
                                    pick->hash, drainer->tick, 1, &standing) != KVT_OK ||
        !standing.in_tier || standing.tick != pick->tick ||
        advisor_planned_moves_has(drainer->moved,
                                  &(struct advisor_copy){pick->hash, pick->ns, pass->tier},
                                  ADVISOR_COPY_GONE) ||
        !find_way(drainer, &standing.block, hard, &way))
        return ADVISOR_QUOTA_STAYS; /* it went, or was read meanwhile */
    answer = drainer->hands->take(drainer->arg, &standing.block, &way);
    bytes = answer == ADVISOR_QUOTA_TAKEN ? advisor_planner_bytes(&standing.block) : 0;
    *left -= bytes < *left ? bytes : *left;
    return answer;
}

void
advisor_quota_choose(struct advisor_quota_drainer *drainer)
{
    struct advisor_quota_pass *pass = &drainer->drain->pass;
    const uint64_t soft = soft_of(drainer, pass->quota);
    uint64_t left = left_of(drainer, pass->quota);
    uint32_t taken = 0;
    uint32_t looks = 0;

    while (pass->next < pass->count && left > soft && taken < KVT_ORDER_ITEMS_MAX &&
           looks++ < ADVISOR_QUOTA_LOOKS && !drainer->hands->is_over(drainer->arg)) {
        const enum advisor_quota_answer answer = look_at(drainer, &pass->picks[pass->next], &left);

        if (answer == ADVISOR_QUOTA_WAITS)
            break;
        taken += answer == ADVISOR_QUOTA_TAKEN ? 1 : 0;
        pass->next++;
    }
    pass->ordered = pass->ordered || taken > 0;
    if (pass->next == pass->count || left <= soft)
        end(drainer);
}
