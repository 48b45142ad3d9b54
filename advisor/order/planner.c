#include "advisor/order/planner.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/chooser.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/pins.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/ranking_change.h"
#include "advisor/selection/refusals.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/tenant_quotas.h"
#include "advisor/selection/watermark.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"

enum kvt_err
advisor_planner_new(struct advisor_planner **out, const struct advisor_planner_options *options)
{
    struct advisor_planner *planner = kvt_calloc(1, sizeof(*planner));

    *out = NULL;
    if (planner == NULL)
        return KVT_NOMEM;
    planner->options = *options;
    planner->counters = *options->counters;
    if (planner->options.slice_clock == NULL)
        planner->options.slice_clock = kvt_clock_mono_ms;
    planner->shared.mode = options->mode;
    if (advisor_planner_quotas_new(&planner->quotas) != KVT_OK ||
        advisor_pins_new(&planner->pins) != KVT_OK ||
        advisor_refusals_new(&planner->refusals) != KVT_OK ||
        pthread_mutex_init(&planner->shared.lock, NULL) != 0) {
        advisor_planner_quotas_free(planner->quotas);
        advisor_pins_free(planner->pins);
        advisor_refusals_free(planner->refusals);
        kvt_free(planner);
        return KVT_NOMEM;
    }
    advisor_planner_adopt(planner);
    *out = planner;
    return KVT_OK;
}

void
advisor_planner_free(struct advisor_planner *planner)
{
    if (planner == NULL)
        return;
    advisor_planner_free_reranking(planner);
    for (uint32_t i = 0; i < planner->tier_count; i++)
        advisor_ranking_release(&planner->tiers[i].ranking);
    for (uint32_t i = 0; i < planner->gateway_count; i++)
        kvt_free(planner->gateways[i].candidates);
    advisor_planner_free_orders(planner);
    advisor_rulebook_give(planner->options.rulebook, planner->rules);
    advisor_refusals_free(planner->refusals);
    advisor_planner_quotas_free(planner->quotas);
    advisor_pins_free(planner->pins);
    advisor_planner_free_departed(planner);
    kvt_free(planner->news);
    kvt_free(planner->tier_of);
    (void)pthread_mutex_destroy(&planner->shared.lock);
    kvt_free(planner);
}

/* ---- gateways ---- */

uint32_t
advisor_planner_gateway(const struct advisor_planner *planner, const char *name)
{
    return advisor_gateway_number(planner, name);
}

bool
advisor_planner_is_verified(const struct advisor_planner *planner, const char *gateway)
{
    const uint32_t number = advisor_gateway_number(planner, gateway);

    return planner->options.can_enforce && number != ADVISOR_NONE &&
           planner->gateways[number].reads_known;
}

bool
advisor_planner_reported(const struct advisor_planner *planner, const char *name)
{
    for (uint32_t i = 0; i < planner->tier_count; i++)
        if (planner->tiers[i].report_ms != 0 && strcmp(planner->tiers[i].name, name) == 0)
            return true;
    return false;
}

bool
advisor_planner_hot_of(const struct advisor_planner *planner, uint32_t gateway,
                       const struct index_holder *key)
{
    const uint32_t hot =
        gateway < planner->gateway_count ? planner->gateways[gateway].hot : ADVISOR_NONE;

    return hot != ADVISOR_NONE && key->tier == KVT_TIER_G4 &&
           strcmp(planner->tiers[hot].name, key->name) == 0;
}

void
advisor_planner_follow_names(struct advisor_planner *planner)
{
    advisor_planner_follow_quotas(planner);
}

/* Its totals go up while it lives.  What it counted before we began is not counted again. */
static void
take_reads(struct advisor_planner *planner, struct advisor_gateway *gateway,
           const struct kvt_report *report, uint64_t now_ms)
{
    const bool another = report->incarnation != gateway->row.incarnation;
    uint64_t more[KVT_READ_RESULTS];

    for (unsigned i = 0; i < KVT_READ_RESULTS; i++) {
        const uint64_t before = another ? 0 : gateway->reads[i];

        more[i] = report->reads[i] > before ? report->reads[i] - before : 0;
        gateway->reads[i] = report->reads[i];
    }
    if (gateway->reads_known)
        advisor_traffic_reads(planner->options.traffic, more, now_ms);
    gateway->reads_known = true;
}

/* A gateway reports every second: of one that says nothing for long, a former life (its clock
 * stepped back) is the one that lives. */
static bool
is_silent(const struct advisor_gateway *gateway, uint64_t now_ms)
{
    return now_ms < gateway->heard_ms || now_ms - gateway->heard_ms >= ADVISOR_REPORT_SILENT_MS;
}

bool
advisor_planner_report(struct advisor_planner *planner, const struct kvt_report *report,
                       uint64_t now_ms)
{
    struct advisor_gateway *gateway = advisor_planner_find_gateway(planner, report->gateway);

    if (gateway == NULL)
        return false;
    /* They name their order: said twice, or behind a report that overtook them, they mean the
     * same. */
    advisor_planner_take_results(planner, report, now_ms);
    if (report->incarnation == gateway->row.incarnation && report->seq <= gateway->row.seq)
        return false;
    /* Signed reports of an earlier life can be replayed by any client. */
    if (report->incarnation < gateway->row.incarnation &&
        (planner->options.can_enforce || !is_silent(gateway, now_ms)))
        return false;
    if (report->incarnation < gateway->row.incarnation)
        kvt_log_warn("advisor.planner", "former",
                     "%s reports with an older incarnation than it had: its clock stepped back",
                     report->gateway);
    gateway->heard_ms = now_ms;
    take_reads(planner, gateway, report, now_ms);
    gateway->row.incarnation = report->incarnation;
    gateway->row.seq = report->seq;
    gateway->dirty = true;
    gateway->healthy = report->healthy;
    /* Its own clock: a report that waited in the stream is as old as it is. */
    gateway->report_ms = report->time_ms < now_ms ? report->time_ms : now_ms;
    advisor_gateway_take_tiers(planner, gateway, report, gateway->report_ms);
    advisor_planner_show(planner);
    return true;
}

/* ---- durable ---- */

static enum kvt_err
load_gateway(void *arg, const void *data)
{
    const struct advisor_gateway_row *row = data;
    struct advisor_planner *planner = arg;
    struct advisor_gateway *gateway;

    if (memchr(row->name, '\0', sizeof(row->name)) == NULL)
        return KVT_CORRUPT;
    gateway = advisor_planner_find_gateway(planner, row->name);
    if (gateway == NULL)
        return KVT_NOMEM;
    gateway->row = *row;
    /* Whoever wrote these numbers, it was not proven. */
    if (planner->options.can_enforce && planner->reports_signed == 0) {
        gateway->row.incarnation = gateway->row.seq = 0;
        gateway->dirty = true;
    }
    return KVT_OK;
}

enum kvt_err
advisor_planner_load(struct advisor_planner *planner, const struct advisor_txn *txn,
                     const struct advisor_name_table *names, uint64_t now_ms)
{
    uint64_t mode = 0;
    uint64_t epoch = 0;
    enum kvt_err rc;

    planner->names = names;
    planner->store = txn->store;
    rc = advisor_store_number(txn, ADVISOR_META_REPORTS_SIGNED, &planner->reports_signed);
    if (rc == KVT_OK)
        rc = advisor_store_walk(txn, ADVISOR_ROW_GATEWAY, load_gateway, planner);
    if (rc == KVT_OK)
        rc = advisor_planner_load_orders(planner, txn);
    if (rc == KVT_OK)
        rc = advisor_planner_load_learned(planner, txn);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_MODE, &mode);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_EPOCH, &epoch);
    if (rc == KVT_OK)
        rc = advisor_planner_load_paused(planner, txn);
    if (rc == KVT_OK)
        rc = advisor_planner_load_pins(planner, txn, now_ms);
    if (rc != KVT_OK)
        return rc;
    if (mode > 0 && mode <= ADVISOR_MODE_ENFORCE + 1)
        planner->shared.mode = (enum advisor_mode)(mode - 1);
    /* Larger than any before, also when the state folder was lost: gateways refuse lower ones. */
    planner->epoch = epoch + 1 > now_ms / 1000 ? epoch + 1 : now_ms / 1000;
    planner->epoch_dirty = true;
    return KVT_OK;
}

bool
advisor_planner_dirty(struct advisor_planner *planner)
{
    bool mode_dirty;

    (void)pthread_mutex_lock(&planner->shared.lock);
    mode_dirty = planner->shared.mode_dirty;
    (void)pthread_mutex_unlock(&planner->shared.lock);
    if (mode_dirty || advisor_planner_paused_dirty(planner) || planner->epoch_dirty ||
        planner->learned_dirty || planner->forget_count > 0 || advisor_pins_dirty(planner->pins))
        return true;
    for (size_t i = 0; i < planner->order_count; i++)
        if (planner->orders[i]->dirty)
            return true;
    for (uint32_t i = 0; i < planner->gateway_count; i++)
        if (planner->gateways[i].dirty)
            return true;
    return false;
}

enum kvt_err
advisor_planner_save(struct advisor_planner *planner, const struct advisor_txn *txn)
{
    enum kvt_err rc = advisor_planner_save_orders(planner, txn);
    bool mode_dirty;

    for (uint32_t i = 0; i < planner->gateway_count && rc == KVT_OK; i++)
        if (planner->gateways[i].dirty)
            rc = advisor_store_put(txn, ADVISOR_ROW_GATEWAY, &planner->gateways[i].row);
    if (rc == KVT_OK)
        rc = advisor_planner_save_learned(planner, txn);
    if (rc == KVT_OK)
        rc = advisor_planner_save_paused(planner, txn);
    if (rc == KVT_OK)
        rc = advisor_planner_save_pins(planner, txn);
    if (rc == KVT_OK && planner->epoch_dirty)
        rc = advisor_store_put_number(txn, ADVISOR_META_EPOCH, planner->epoch);
    if (rc == KVT_OK && planner->epoch_dirty)
        rc = advisor_store_put_number(txn, ADVISOR_META_REPORTS_SIGNED,
                                      planner->options.can_enforce ? 1 : 0);
    (void)pthread_mutex_lock(&planner->shared.lock);
    planner->written_mode = planner->shared.mode;
    mode_dirty = planner->shared.mode_dirty;
    (void)pthread_mutex_unlock(&planner->shared.lock);
    if (rc == KVT_OK && mode_dirty)
        rc = advisor_store_put_number(txn, ADVISOR_META_MODE, (uint64_t)planner->written_mode + 1);
    return rc;
}

void
advisor_planner_saved(struct advisor_planner *planner)
{
    uint64_t bytes = 0;

    advisor_planner_saved_orders(planner);
    advisor_planner_saved_paused(planner);
    advisor_pins_saved(planner->pins);
    planner->epoch_dirty = false;
    advisor_planner_saved_learned(planner);
    (void)pthread_mutex_lock(&planner->shared.lock);
    if (planner->shared.mode == planner->written_mode) /* else it changed again meanwhile */
        planner->shared.mode_dirty = false;
    (void)pthread_mutex_unlock(&planner->shared.lock);
    for (uint32_t i = 0; i < planner->gateway_count; i++)
        planner->gateways[i].dirty = false;
    for (uint32_t i = 0; i < planner->tier_count; i++)
        bytes += advisor_ranking_bytes(&planner->tiers[i].ranking);
    kvt_metric_set(planner->counters.policy_bytes, (int64_t)bytes);
}

/* ---- any thread ---- */

/* The watermarks that a tier has at last, whichever rules it has besides. */
static void
show_marks(const struct advisor_planner *planner, const struct advisor_tier *tier,
           struct advisor_tier_view *view)
{
    const struct policy *policy = planner->rules->policy;
    const int32_t last = advisor_watermark_last(policy, tier->place);

    view->start_ppm = view->stop_ppm = 0;
    view->limit_bytes =
        advisor_watermark_capacity(policy, tier->place, tier->report.capacity_bytes);
    if (last < 0 || view->limit_bytes == 0)
        return;
    view->start_ppm = (uint32_t)policy_rule_at(policy, (size_t)last)->trigger.start;
    view->stop_ppm = (uint32_t)policy_rule_at(policy, (size_t)last)->trigger.stop;
}

static enum advisor_tier_kind
volume_kind(const char *name)
{
    return strncmp(name, "warm@", 5) == 0 ? ADVISOR_TIER_KIND_WARM : ADVISOR_TIER_KIND_HOT;
}

/* A bucket that is the first one of any gateway, or of which nobody tells any more, is cold. */
static enum advisor_tier_kind
kind_of(const struct advisor_planner *planner, uint32_t tier)
{
    bool is_far = false;

    if (planner->tiers[tier].volume)
        return volume_kind(planner->tiers[tier].name);
    for (uint32_t i = 0; i < planner->gateway_count; i++) {
        if (planner->gateways[i].cold == tier)
            return ADVISOR_TIER_KIND_COLD;
        is_far = is_far || advisor_gateway_has(&planner->gateways[i], tier);
    }
    return is_far ? ADVISOR_TIER_KIND_FAR : ADVISOR_TIER_KIND_COLD;
}

static void
show_kinds(const struct advisor_planner *planner, const struct advisor_gateway *gateway,
           struct advisor_gateway_view *view)
{
    memset(view->tiers, 0, sizeof(view->tiers));
    for (uint32_t i = 0; i < gateway->tier_count; i++) {
        const struct advisor_tier *tier = &planner->tiers[gateway->tiers[i]];
        enum advisor_tier_kind kind = ADVISOR_TIER_KIND_FAR;

        if (tier->volume)
            kind = volume_kind(tier->name);
        else if (gateway->tiers[i] == gateway->cold)
            kind = ADVISOR_TIER_KIND_COLD;
        if (view->tiers[kind][0] == '\0')
            memcpy(view->tiers[kind], tier->name, sizeof(view->tiers[kind]));
    }
}

void
advisor_planner_show(struct advisor_planner *planner)
{
    const struct advisor_counters *counters = &planner->counters;
    int64_t draining = 0;
    int64_t stuck = 0;
    int64_t refused = 0;
    int64_t unhealthy = 0;
    size_t count = 0;

    advisor_planner_find_edges(planner);
    (void)pthread_mutex_lock(&planner->shared.lock);
    for (uint32_t i = 0; i < planner->tier_count; i++) {
        const struct advisor_tier *tier = &planner->tiers[i];
        struct advisor_tier_view *view = &planner->shared.tiers[count];
        struct policy_tier_blocks_counts counts;

        if (tier->report_ms == 0)
            continue;
        count++;
        view->tier = tier->report;
        show_marks(planner, tier, view);
        view->refused_blocks = advisor_refusals_count(planner->refusals, i);
        policy_tier_blocks_counts(tier->roster, &counts);
        view->passed_blocks = counts.passed;
        view->stuck = tier->stuck;
        view->draining = advisor_rule_set_any(&tier->draining);
        view->kind = kind_of(planner, i);
        view->orders = tier->ranking.orders;
        advisor_planner_show_reranking(planner, i, view);
        memcpy(view->gateway, planner->gateways[tier->gateway].row.name, sizeof(view->gateway));
        view->last_report_ms = tier->report_ms;
        refused += (int64_t)view->refused_blocks;
        draining += view->draining ? 1 : 0;
        stuck += view->stuck ? 1 : 0;
    }
    planner->shared.tier_count = count;
    for (uint32_t i = 0; i < planner->gateway_count; i++) {
        const struct advisor_gateway *gateway = &planner->gateways[i];
        struct advisor_gateway_view *view = &planner->shared.gateways[i];

        memcpy(view->name, gateway->row.name, sizeof(view->name));
        view->healthy = gateway->healthy;
        view->last_report_ms = gateway->report_ms;
        show_kinds(planner, gateway, view);
        unhealthy += gateway->healthy ? 0 : 1;
    }
    advisor_planner_show_rules(planner);
    advisor_planner_show_quotas(planner);
    planner->shared.gateway_count = planner->gateway_count;
    kvt_metric_set(counters->mode, (int64_t)planner->shared.mode);
    (void)pthread_mutex_unlock(&planner->shared.lock);
    kvt_metric_set(counters->gateways, (int64_t)planner->gateway_count);
    kvt_metric_set(counters->unhealthy, unhealthy);
    kvt_metric_set(counters->draining, draining);
    kvt_metric_set(counters->stuck, stuck);
    kvt_metric_set(counters->refusals, refused);
    kvt_metric_set(counters->pins, (int64_t)advisor_pins_count(planner->pins));
    advisor_planner_count_reranking(planner);
}

size_t
advisor_planner_tiers(struct advisor_planner *planner, struct advisor_tier_view *views,
                      size_t capacity)
{
    return advisor_planner_copy_views(planner, &planner->shared.tier_count, planner->shared.tiers,
                                      sizeof(*views), views, capacity);
}

enum kvt_err
advisor_planner_tier_kinds(struct advisor_planner *planner, struct advisor_tier_kinds *kinds)
{
    struct advisor_tier_view *tiers = kvt_calloc(ADVISOR_TIERS_MAX, sizeof(*tiers));
    size_t count;

    *kinds = (struct advisor_tier_kinds){.far = kvt_calloc(ADVISOR_TIERS_MAX, sizeof(*kinds->far))};
    if (tiers == NULL || kinds->far == NULL) {
        kvt_free(tiers);
        return KVT_NOMEM;
    }
    count = advisor_planner_tiers(planner, tiers, ADVISOR_TIERS_MAX);
    for (size_t i = 0; i < count; i++)
        if (tiers[i].kind == ADVISOR_TIER_KIND_FAR)
            memcpy(kinds->far[kinds->far_count++], tiers[i].tier.name, KVT_NAME_MAX);
    kvt_free(tiers);
    return KVT_OK;
}

size_t
advisor_planner_gateways(struct advisor_planner *planner, struct advisor_gateway_view *views,
                         size_t capacity)
{
    return advisor_planner_copy_views(planner, &planner->shared.gateway_count,
                                      planner->shared.gateways, sizeof(*views), views, capacity);
}

enum advisor_mode
advisor_planner_mode(struct advisor_planner *planner)
{
    enum advisor_mode mode;

    (void)pthread_mutex_lock(&planner->shared.lock);
    mode = planner->shared.mode;
    (void)pthread_mutex_unlock(&planner->shared.lock);
    return mode;
}

enum kvt_err
advisor_planner_set_mode(struct advisor_planner *planner, enum advisor_mode mode)
{
    if (mode == ADVISOR_MODE_ENFORCE && !planner->options.can_enforce)
        return KVT_PRECONDITION;
    (void)pthread_mutex_lock(&planner->shared.lock);
    planner->shared.mode = mode;
    planner->shared.mode_dirty = true;
    (void)pthread_mutex_unlock(&planner->shared.lock);
    kvt_log_info("advisor.planner", "mode", "policy mode is now %s", advisor_mode_name(mode));
    return KVT_OK;
}

const struct advisor_planner_options *
advisor_planner_settings(const struct advisor_planner *planner)
{
    return &planner->options;
}
