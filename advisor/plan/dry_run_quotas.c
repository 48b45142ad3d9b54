#include <string.h>

#include "advisor/plan/dry_run_private.h"
#include "advisor/selection/planned_moves.h"
#include "advisor/selection/quota_drain.h"
#include "advisor/selection/tenant_quotas.h"
#include "base/core/alloc.h"

/* What a plan moves for quotas: chosen as the planner chooses it, of sums as these quotas count
 * them, and as if each set were obeyed at once. */

enum {
    ROWS_A_LOOK = 256,    /* of the ledger, each for all quotas */
    SEATS_A_LOOK = 65536, /* of a tier */
};

enum phase {
    BEGIN,
    SUMS,  /* are being added up */
    DRAIN, /* goes on */
    REST,  /* nothing more leaves for now */
};

struct advisor_dry_run_quotas {
    enum phase phase;
    size_t row;                       /* of the ledger, that is added next */
    size_t moves;                     /* of the plan, when quotas had their turn last */
    bool enough;                      /* no more moves are wanted */
    bool looked_back;                 /* after the tiers */
    int64_t shift[ADVISOR_TIERS_MAX]; /* bytes that quotas brought to each tier, less what left */
    struct advisor_planned_moves *moved;
    struct advisor_dry_run_quota list[ADVISOR_QUOTAS_MAX]; /* `after` is the drain's to say */
    struct advisor_quota_drain drain;
};

enum kvt_err
advisor_dry_run_quotas_new(struct advisor_dry_run *run)
{
    const size_t count = run->rules->policy->quotas.count;
    struct advisor_dry_run_quotas *quotas;

    if (count == 0)
        return KVT_OK;
    quotas = kvt_calloc(1, sizeof(*quotas));
    if (quotas == NULL)
        return KVT_NOMEM;
    run->quotas = quotas;
    quotas->drain.count = (uint32_t)(count < ADVISOR_QUOTAS_MAX ? count : ADVISOR_QUOTAS_MAX);
    if (advisor_planned_moves_new(&quotas->moved) == KVT_OK)
        return KVT_OK;
    advisor_dry_run_quotas_free(run);
    return KVT_NOMEM;
}

void
advisor_dry_run_quotas_free(struct advisor_dry_run *run)
{
    struct advisor_dry_run_quotas *quotas = run->quotas;

    if (quotas == NULL)
        return;
    advisor_planned_moves_free(quotas->moved);
    kvt_free(quotas->drain.pass.picks);
    kvt_free(quotas);
    run->quotas = NULL;
}

const struct advisor_planned_moves *
advisor_dry_run_moved(const struct advisor_dry_run *run)
{
    return run->quotas == NULL ? NULL : run->quotas->moved;
}

uint64_t
advisor_dry_run_used(const struct advisor_dry_run *run, uint32_t tier)
{
    const uint64_t used = run->planner->tiers[tier].report.used_bytes;
    const int64_t shift = run->quotas == NULL ? 0 : run->quotas->shift[tier];

    return shift < 0 && (uint64_t)-shift > used ? 0 : used + (uint64_t)shift;
}

/* ---- sums ---- */

static void
add(struct advisor_dry_run *run, uint32_t ns, uint32_t tier, int64_t bytes)
{
    struct advisor_quota_state *states = run->quotas->drain.states;
    int32_t quotas[2];

    advisor_quotas_of(run->planner, run->rules, ns, tier, quotas);
    for (int i = 0; i < 2; i++)
        if (quotas[i] >= 0)
            states[quotas[i]].used += (uint64_t)bytes; /* it may be less than 0 */
}

/* Those of the policy in force go on where the planner is. */
static void
start(struct advisor_dry_run *run)
{
    const struct advisor_quota_drain *live = &run->planner->quotas->drain;
    struct advisor_quota_drain *drain = &run->quotas->drain;

    run->quotas->phase = SUMS;
    if (run->rules != run->planner->rules)
        return;
    drain->turn = live->pass.active ? live->pass.quota : live->turn;
    for (uint32_t i = 0; i < drain->count; i++)
        drain->states[i].turn = live->states[i].turn;
    if (live->pass.active)
        drain->states[live->pass.quota].turn = live->pass.tier;
}

/* What was ordered before the plan counts as done. */
static void
add_ordered(struct advisor_dry_run *run)
{
    const struct advisor_planner *planner = run->planner;

    for (size_t i = 0; i < planner->order_count; i++) {
        const struct advisor_order *order = planner->orders[i];
        const bool leaves = (order->row.verb == KVT_ORDER_DEMOTE && order->row.keep == 0) ||
                            order->row.verb == KVT_ORDER_DELETE;

        if (!leaves || order->of_job || order->items == NULL || order->row.items == 0 ||
            order->from == ADVISOR_NONE)
            continue;
        for (uint32_t k = 0; k < order->row.items; k++) {
            const uint64_t hash = order->items[k].block.hash;
            const int64_t bytes = (int64_t)(order->row.bytes / order->row.items);

            if (!policy_tier_blocks_is_leaving(planner->tiers[order->from].roster, order->ns, hash))
                continue;
            add(run, order->ns, order->from, -bytes);
            if (order->to != ADVISOR_NONE &&
                !policy_tier_blocks_has(planner->tiers[order->to].roster, order->ns, hash))
                add(run, order->ns, order->to, bytes);
        }
    }
}

/* Some rows; in the end all sums are there. */
static void
add_up(struct advisor_dry_run *run)
{
    struct advisor_dry_run_quotas *quotas = run->quotas;
    size_t count;
    const struct advisor_byte_sums_row *sums =
        advisor_byte_sums_rows(run->planner->quotas->ledger, &count);

    for (int looks = 0; looks < ROWS_A_LOOK && quotas->row < count; looks++, quotas->row++)
        add(run, sums[quotas->row].ns, sums[quotas->row].place, sums[quotas->row].bytes);
    if (quotas->row < count)
        return;
    for (uint32_t i = 0; i < quotas->drain.count; i++)
        quotas->list[i].before = quotas->drain.states[i].used;
    add_ordered(run);
    quotas->phase = DRAIN;
}

/* A copy is there no more. */
static void
lose(struct advisor_dry_run *run, const struct advisor_copy *copy, uint64_t bytes, bool shifts)
{
    struct advisor_dry_run_quotas *quotas = run->quotas;
    const enum kvt_err rc = advisor_planned_moves_add(quotas->moved, copy, ADVISOR_COPY_GONE);

    run->cut = run->cut || rc == KVT_FULL;
    run->rc = rc == KVT_NOMEM ? rc : run->rc;
    add(run, copy->ns, copy->tier, -(int64_t)bytes);
    quotas->shift[copy->tier] -= shifts ? (int64_t)bytes : 0;
}

static void
gain(struct advisor_dry_run *run, const struct advisor_copy *copy, uint64_t bytes, bool shifts)
{
    struct advisor_dry_run_quotas *quotas = run->quotas;
    enum kvt_err rc;

    if (advisor_quota_is_there(run->planner, quotas->moved, copy))
        return;
    rc = advisor_planned_moves_add(quotas->moved, copy, ADVISOR_COPY_CAME);
    if (rc == KVT_OK && shifts) /* that is a use */
        rc = advisor_planned_moves_add(
            quotas->moved,
            &(struct advisor_copy){copy->hash, copy->ns, ADVISOR_PLANNED_MOVES_ANYWHERE},
            ADVISOR_COPY_CAME);
    run->cut = run->cut || rc == KVT_FULL;
    run->rc = rc == KVT_NOMEM ? rc : run->rc;
    add(run, copy->ns, copy->tier, (int64_t)bytes);
    quotas->shift[copy->tier] += shifts ? (int64_t)bytes : 0;
}

/* Deleting takes all copies. */
static void
lose_others(struct advisor_dry_run *run, const struct advisor_copy *copy, bool shifts)
{
    const struct advisor_planner *planner = run->planner;

    for (uint32_t i = 0; i < planner->tier_count; i++) {
        const struct advisor_copy other = {copy->hash, copy->ns, i};
        struct policy_standing standing;
        uint64_t bytes;

        if (i == copy->tier || !advisor_quota_is_there(planner, run->quotas->moved, &other) ||
            policy_tier_blocks_standing(planner->tiers[i].roster, copy->ns, copy->hash,
                                        planner->now_ms / ADVISOR_TICK_MS, 1, &standing) != KVT_OK)
            continue;
        bytes = advisor_planner_bytes(&standing.block);
        run->used[i] -= bytes < run->used[i] ? bytes : run->used[i];
        lose(run, &other, bytes, shifts);
    }
}

/* Promoting out of a bucket leaves the copy there. */
static bool
stays(const struct advisor_planner *planner, const struct advisor_edge *edge,
      enum kvt_order_verb verb)
{
    return verb == KVT_ORDER_PROMOTE && planner->tiers[edge->to].volume &&
           !planner->tiers[edge->from].volume;
}

void
advisor_dry_run_quotas_count(struct advisor_dry_run *run, const struct advisor_edge *edge,
                             const struct policy_block *block, enum kvt_order_verb verb,
                             int32_t quota)
{
    const uint64_t bytes = advisor_planner_bytes(block);
    const struct advisor_copy from = {block->hash, block->ns, edge->from};
    const struct advisor_copy to = {block->hash, block->ns, edge->to};

    if (run->quotas == NULL)
        return;
    if (edge->to != ADVISOR_NONE)
        gain(run, &to, bytes, quota >= 0);
    if (!stays(run->planner, edge, verb))
        lose(run, &from, bytes, quota >= 0);
    if (verb == KVT_ORDER_DELETE)
        lose_others(run, &from, quota >= 0);
    if (quota < 0)
        return;
    run->quotas->list[quota].blocks++;
    run->quotas->list[quota].bytes += bytes;
}

bool
advisor_dry_run_quotas_admit(struct advisor_dry_run *run, uint32_t ns, uint32_t tier,
                             uint64_t bytes)
{
    struct advisor_dry_run_quotas *quotas = run->quotas;
    const int32_t quota = quotas == NULL ? -1
                                         : advisor_quota_refuses(run->planner, run->rules,
                                                                 &quotas->drain, ns, tier, bytes);

    if (quota < 0)
        return true;
    quotas->list[quota].refused_blocks++;
    quotas->list[quota].refused_bytes += bytes;
    return false;
}

struct advisor_dry_run_quota
advisor_dry_run_quota(const struct advisor_dry_run *run, int32_t quota)
{
    struct advisor_dry_run_quota row = run->quotas->list[quota];

    row.after = run->quotas->drain.states[quota].used;
    return row;
}

/* ---- what leaves ---- */

static bool
can_drain(void *arg, uint32_t tier)
{
    const struct advisor_dry_run *run = arg;

    return run->planner->tiers[tier].report_ms != 0;
}

/* All that was chosen left. */
static uint64_t
leaving(void *arg, int32_t quota)
{
    (void)arg;
    (void)quota;
    return 0;
}

/* A set is chosen whole, whatever the clock says: the same blocks give the same plan. */
static bool
is_over(void *arg)
{
    const struct advisor_dry_run *run = arg;

    return run->quotas->enough;
}

static enum advisor_quota_answer
take(void *arg, const struct policy_block *block, const struct advisor_quota_way *way)
{
    struct advisor_dry_run *run = arg;

    /* It was ordered since the tier was gone through. */
    if (policy_tier_blocks_is_leaving(run->planner->tiers[way->edge.from].roster, block->ns,
                                      block->hash))
        return ADVISOR_QUOTA_STAYS;
    run->quotas->enough = !advisor_dry_run_tell(run, &way->edge, block, way->rule, way->quota);
    return ADVISOR_QUOTA_TAKEN;
}

static const struct advisor_quota_hands hands = {
    .can_drain = can_drain, .leaving = leaving, .is_over = is_over, .take = take};

/* A step of it. */
static void
drain(struct advisor_dry_run *run)
{
    struct advisor_dry_run_quotas *quotas = run->quotas;
    const uint64_t clock_ms = run->planner->now_ms;
    struct advisor_quota_drainer drainer = {
        .planner = run->planner,
        .rules = run->rules,
        .asker = run->asker,
        .drain = &quotas->drain,
        .hands = &hands,
        .arg = run,
        .used = run->used,
        .moved = quotas->moved,
        .now_ms = run->now_ms,
        /* A roster never goes back in time. */
        .tick = (run->now_ms < clock_ms ? run->now_ms : clock_ms) / ADVISOR_TICK_MS};
    enum kvt_err rc = KVT_OK;

    if (!quotas->drain.pass.active)
        rc = advisor_quota_begin(&drainer);
    else if (!quotas->drain.pass.ready)
        advisor_quota_go_through(&drainer, SEATS_A_LOOK);
    else
        advisor_quota_choose(&drainer);
    if (rc == KVT_NOTFOUND) {
        quotas->phase = REST;
        quotas->moves = run->moves;
        if (!quotas->looked_back)
            advisor_dry_run_look_again(run);
    } else if (rc != KVT_OK) {
        run->rc = rc;
    }
    if (quotas->enough || run->rc != KVT_OK)
        run->choosing = false;
}

bool
advisor_dry_run_quotas_go_on(struct advisor_dry_run *run)
{
    struct advisor_dry_run_quotas *quotas = run->quotas;

    if (quotas == NULL || quotas->phase == REST)
        return false;
    if (quotas->phase == BEGIN)
        start(run);
    else if (quotas->phase == SUMS)
        add_up(run);
    else
        drain(run);
    return true;
}

void
advisor_dry_run_quotas_again(struct advisor_dry_run *run)
{
    struct advisor_dry_run_quotas *quotas = run->quotas;

    if (quotas == NULL || quotas->phase != REST || quotas->looked_back)
        return; /* they have not had their turn, or had it twice */
    quotas->looked_back = true;
    if (run->moves == quotas->moves)
        return;
    for (uint32_t i = 0; i < quotas->drain.count; i++) {
        quotas->drain.states[i].idle = 0;
        quotas->drain.states[i].rest_ms = 0;
    }
    quotas->phase = DRAIN;
}
