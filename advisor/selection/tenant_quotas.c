#include "advisor/selection/tenant_quotas.h"

#include <stdio.h>
#include <string.h>

#include "advisor/selection/planner_tables.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

/* Sums, and which quotas they count towards. */

enum kvt_err
advisor_planner_quotas_new(struct advisor_planner_quotas **out)
{
    struct advisor_planner_quotas *quotas = kvt_calloc(1, sizeof(*quotas));

    *out = NULL;
    if (quotas == NULL)
        return KVT_NOMEM;
    if (advisor_byte_sums_new(&quotas->ledger) != KVT_OK) {
        advisor_planner_quotas_free(quotas);
        return KVT_NOMEM;
    }
    *out = quotas;
    return KVT_OK;
}

void
advisor_planner_quotas_free(struct advisor_planner_quotas *quotas)
{
    if (quotas == NULL)
        return;
    advisor_byte_sums_free(quotas->ledger);
    kvt_free(quotas->rows);
    kvt_free(quotas->drain.pass.picks);
    kvt_free(quotas);
}

uint64_t
advisor_quota_soft(const struct policy_quota *quota)
{
    return quota->soft != 0 && quota->soft < quota->hard ? quota->soft : quota->hard;
}

enum advisor_quota_over
advisor_quota_over(const struct policy_quota *quota, uint64_t used)
{
    if (used > quota->hard)
        return ADVISOR_QUOTA_HARD;
    return used > advisor_quota_soft(quota) ? ADVISOR_QUOTA_SOFT : ADVISOR_QUOTA_WITHIN;
}

void
advisor_quota_reason(const struct policy_quota *quota, const struct policy_rule *rule, char *text,
                     size_t size)
{
    if (rule == NULL)
        (void)snprintf(text, size, "quota of %.48s", quota->tenant);
    else
        (void)snprintf(text, size, "%.24s: quota of %.24s", rule->id, quota->tenant);
}

const char *
advisor_quota_word(enum advisor_quota_over over)
{
    switch (over) {
    case ADVISOR_QUOTA_WITHIN: return "within";
    case ADVISOR_QUOTA_SOFT: return "soft";
    case ADVISOR_QUOTA_HARD: return "hard";
    }
    return "within";
}

/* ---- which quotas ---- */

bool
advisor_quota_is_of(const char *namespace_, const char *tenant)
{
    const size_t size = strcspn(namespace_, "/");

    return strlen(tenant) == size && strncmp(namespace_, tenant, size) == 0;
}

void
advisor_quotas_of(const struct advisor_planner *planner, const struct advisor_rules *rules,
                  uint32_t ns, uint32_t tier, int32_t quotas[2])
{
    const struct policy *policy = rules == NULL ? NULL : rules->policy;
    int32_t place;

    quotas[0] = quotas[1] = -1;
    if (policy == NULL || policy->quotas.count == 0)
        return;
    place = advisor_planner_place(planner, rules, tier);
    for (size_t i = 0; i < policy->quotas.count && i < ADVISOR_QUOTAS_MAX; i++) {
        const struct policy_quota *quota = policy_quota_at(policy, i);
        const bool all = quota->tier.index < 0;

        if ((all || quota->tier.index == place) &&
            advisor_quota_is_of(advisor_name_table_namespace_text(planner->names, ns),
                                quota->tenant))
            quotas[all ? 1 : 0] = (int32_t)i;
    }
}

/* Of the policy that is followed. */
static struct advisor_quota_row
quotas_of(const struct advisor_planner *planner, uint32_t ns, uint32_t tier)
{
    struct advisor_quota_row row = {.gone = 0};

    advisor_quotas_of(planner, planner->rules, ns, tier, row.quotas);
    return row;
}

static void
add(struct advisor_planner_quotas *quotas, const struct advisor_quota_row *row, int64_t bytes)
{
    for (int i = 0; i < 2; i++)
        if (row->quotas[i] >= 0)
            quotas->drain.states[row->quotas[i]].used +=
                (uint64_t)bytes; /* it may be less than 0 */
}

void
advisor_planner_follow_quotas(struct advisor_planner *planner)
{
    struct advisor_planner_quotas *quotas = planner->quotas;
    const size_t count = planner->rules == NULL ? 0 : planner->rules->policy->quotas.count;
    const struct advisor_byte_sums_row *sums = advisor_byte_sums_rows(quotas->ledger, &(size_t){0});

    memset(quotas->drain.states, 0, sizeof(quotas->drain.states));
    quotas->drain.count = (uint32_t)(count < ADVISOR_QUOTAS_MAX ? count : ADVISOR_QUOTAS_MAX);
    quotas->drain.turn = 0;
    quotas->drain.pass.active = false;
    for (size_t i = 0; i < quotas->row_count; i++) {
        const struct advisor_quota_row row = quotas_of(planner, sums[i].ns, sums[i].place);

        memcpy(quotas->rows[i].quotas, row.quotas, sizeof(row.quotas));
        add(quotas, &quotas->rows[i], sums[i].bytes);
    }
}

static void
lose(struct advisor_planner_quotas *quotas)
{
    if (!quotas->lost)
        kvt_log_error("advisor.planner", "quotas",
                      "no memory for what a tenant has in a tier: quotas count too little until a "
                      "restart");
    quotas->lost = true;
}

void
advisor_planner_count_bytes(struct advisor_planner *planner, uint32_t ns, uint32_t tier,
                            int64_t bytes)
{
    struct advisor_planner_quotas *quotas = planner->quotas;
    struct advisor_quota_row *rows =
        kvt_grow(quotas->rows, &quotas->row_capacity, quotas->row_count + 1, sizeof(*rows));
    size_t at;

    if (rows == NULL || advisor_byte_sums_add(quotas->ledger, ns, tier, bytes, &at) != KVT_OK) {
        lose(quotas);
        return;
    }
    quotas->rows = rows;
    if (at == quotas->row_count)
        quotas->rows[quotas->row_count++] = quotas_of(planner, ns, tier);
    quotas->rows[at].gone += bytes < 0 ? (uint64_t)-bytes : 0;
    add(quotas, &quotas->rows[at], bytes);
}

/* ---- what may come ---- */

void
advisor_planner_expect(struct advisor_planner *planner)
{
    struct advisor_planner_quotas *quotas = planner->quotas;

    for (uint32_t i = 0; i < quotas->drain.count; i++)
        quotas->drain.states[i].coming = 0;
    for (size_t i = 0; i < planner->order_count && quotas->drain.count > 0; i++) {
        const struct advisor_order *order = planner->orders[i];
        struct advisor_quota_row row;
        uint64_t blocks = 0;

        if (order->row.verb != KVT_ORDER_PROMOTE || order->items == NULL ||
            order->to == ADVISOR_NONE || order->row.items == 0)
            continue;
        for (uint32_t k = 0; k < order->row.items; k++)
            blocks += !policy_tier_blocks_has(planner->tiers[order->to].roster, order->ns,
                                              order->items[k].block.hash);
        row = quotas_of(planner, order->ns, order->to);
        for (int k = 0; k < 2; k++)
            if (row.quotas[k] >= 0)
                quotas->drain.states[row.quotas[k]].coming +=
                    order->row.bytes / order->row.items * blocks;
    }
}

int32_t
advisor_quota_refuses(const struct advisor_planner *planner, const struct advisor_rules *rules,
                      const struct advisor_quota_drain *drain, uint32_t ns, uint32_t tier,
                      uint64_t bytes)
{
    int32_t quotas[2];

    if (drain->count == 0)
        return -1;
    advisor_quotas_of(planner, rules, ns, tier, quotas);
    for (int i = 0; i < 2; i++) {
        const struct advisor_quota_state *state = quotas[i] < 0 ? NULL : &drain->states[quotas[i]];

        if (state != NULL && state->used + state->coming + bytes >
                                 policy_quota_at(rules->policy, (size_t)quotas[i])->hard)
            return quotas[i];
    }
    return -1;
}

bool
advisor_planner_admits(struct advisor_planner *planner, uint32_t ns, uint32_t tier, uint64_t bytes)
{
    struct advisor_quota_drain *drain = &planner->quotas->drain;
    int32_t quotas[2];

    if (advisor_quota_refuses(planner, planner->rules, drain, ns, tier, bytes) >= 0)
        return false;
    advisor_quotas_of(planner, planner->rules, ns, tier, quotas);
    for (int i = 0; i < 2; i++)
        if (quotas[i] >= 0)
            drain->states[quotas[i]].coming += bytes;
    return true;
}

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

void
advisor_planner_restart_quota(struct advisor_planner *planner, uint32_t tier)
{
    struct advisor_quota_pass *pass = &planner->quotas->drain.pass;

    if (pass->active && pass->tier == tier && !pass->ready)
        pass->seat = pass->count = 0;
}

/* ---- those who look ---- */

static struct advisor_quota_view
view_of(const struct advisor_planner *planner, int32_t at)
{
    const struct policy_quota *quota = policy_quota_at(planner->rules->policy, (size_t)at);
    const struct advisor_quota_state *state = &planner->quotas->drain.states[at];
    struct advisor_quota_view view = {.soft = advisor_quota_soft(quota),
                                      .hard = quota->hard,
                                      .used = state->used,
                                      .stuck = state->stuck,
                                      .over = advisor_quota_over(quota, state->used)};

    (void)snprintf(view.tenant, sizeof(view.tenant), "%s", quota->tenant);
    (void)snprintf(view.tier, sizeof(view.tier), "%s", quota->tier.text);
    return view;
}

bool
advisor_planner_quota_of(const struct advisor_planner *planner, uint32_t ns, uint32_t tier,
                         struct advisor_quota_view *view)
{
    const struct advisor_quota_row row = quotas_of(planner, ns, tier);
    bool any = false;

    *view = (struct advisor_quota_view){.tenant = ""};
    for (int i = 0; i < 2; i++)
        if (row.quotas[i] >= 0) {
            const struct advisor_quota_view one = view_of(planner, row.quotas[i]);

            if (!any || one.over > view->over)
                *view = one;
            any = true;
        }
    return any;
}

void
advisor_planner_show_quotas(struct advisor_planner *planner)
{
    const struct advisor_planner_quotas *quotas = planner->quotas;
    int64_t over[ADVISOR_QUOTA_HARD + 1] = {0};

    planner->shared.quota_count = quotas->drain.count;
    for (uint32_t i = 0; i < quotas->drain.count; i++) {
        struct advisor_quota_view *view = &planner->shared.quotas[i];

        *view = view_of(planner, (int32_t)i);
        over[view->over]++;
    }
    kvt_metric_set(planner->counters.quotas_soft, over[ADVISOR_QUOTA_SOFT]);
    kvt_metric_set(planner->counters.quotas_hard, over[ADVISOR_QUOTA_HARD]);
}

size_t
advisor_planner_quotas(struct advisor_planner *planner, struct advisor_quota_view *views,
                       size_t capacity)
{
    return advisor_planner_copy_views(planner, &planner->shared.quota_count, planner->shared.quotas,
                                      sizeof(*views), views, capacity);
}
