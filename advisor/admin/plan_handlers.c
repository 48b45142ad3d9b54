#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/answer/finder.h"
#include "advisor/plan/dry_run.h"
#include "advisor/plan/plan_document.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/tenant_quotas.h"
#include "advisor/store/writer_calls.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/text/json.h"

/* Plans: what a policy would do now, and how much of it is still so. */

enum {
    WARNINGS_MAX = 8,
    WARNING_MAX = 160,
    RATE_WARNING_S = 10, /* that a rule takes, and nobody expects */
    LOOK_MS = 20,        /* between two looks whether an order is made */
    ENDS_MAX = 24,       /* times a call is tried that gives back what was taken */
};

/* ---- planning ---- */

struct planning {
    const struct advisor_admin *http;
    const struct kvt_http_request *request;
    const struct advisor_rules *rules;
    struct advisor_dry_run *preview;
    struct advisor_plan *plan;
    uint64_t now_ms;
    uint64_t deletes;
    struct advisor_plan_sum classes[POLICY_CLASSES_MAX];
    struct advisor_plan_sum pins[ADVISOR_RULES_MAX];
    struct advisor_plan_quota *quotas; /* of the policy */
    uint64_t bytes[ADVISOR_RULES_MAX]; /* that each rule moves */
    bool cut;
    bool waits;                       /* an order is being made */
    struct advisor_dry_run_miss miss; /* one that could not be */
    enum kvt_err rc;
};

static void
count_move(struct planning *planning, const struct advisor_dry_run_move *move)
{
    const struct policy *policy = planning->rules->policy;

    if (move->rule >= 0)
        planning->bytes[move->rule] += move->bytes;
    for (size_t i = 0; i < policy->classes.count; i++)
        if (move->classes[i]) {
            planning->classes[i].blocks++;
            planning->classes[i].bytes += move->bytes;
        }
}

static bool
take_move(void *arg, const struct advisor_dry_run_move *move)
{
    struct planning *planning = arg;
    const struct policy *policy = planning->rules->policy;
    const struct policy_rule *rule =
        move->rule < 0 ? NULL : policy_rule_at(policy, (size_t)move->rule);
    char reason[KVT_NAME_MAX];
    const struct advisor_plan_move to = {
        .verb = move->verb,
        .gateway = move->gateway,
        .tier = move->tier,
        .goes = move->plain ? "" : move->to,
        .namespace_ = move->namespace_,
        .rule = move->quota < 0 ? rule->id : reason,
        .item = {.block = {.hash = move->block.hash,
                           .parent = move->block.parent,
                           .position = move->block.position},
                 .ranks = move->block.ranks},
        .size = move->block.size,
        .from = advisor_rules_tier(planning->rules, move->tier),
        .to = move->to[0] == '\0' ? -1 : advisor_rules_tier(planning->rules, move->to),
    };
    enum kvt_err rc;

    if (move->quota >= 0)
        advisor_quota_reason(policy_quota_at(policy, (size_t)move->quota), rule, reason,
                             sizeof(reason));
    rc = advisor_plan_append(planning->plan, &to);
    if (rc == KVT_OK) {
        planning->deletes += move->verb == KVT_ORDER_DELETE ? 1 : 0;
        count_move(planning, move);
        return true;
    }
    planning->cut |= rc == KVT_FULL;
    if (rc != KVT_FULL)
        planning->rc = rc;
    return false;
}

static void
note_pins(struct planning *planning)
{
    const struct policy *policy = planning->rules->policy;

    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct advisor_dry_run_pins pins =
            advisor_dry_run_pinned(planning->preview, (int32_t)i);

        planning->pins[i] = (struct advisor_plan_sum){
            .name = policy_rule_at(policy, i)->id, .blocks = pins.blocks, .bytes = pins.bytes};
    }
}

static void
note_quotas(struct planning *planning)
{
    const struct policy *policy = planning->rules->policy;

    for (size_t i = 0; i < policy->quotas.count; i++) {
        const struct policy_quota *quota = policy_quota_at(policy, i);
        const struct advisor_dry_run_quota row =
            advisor_dry_run_quota(planning->preview, (int32_t)i);

        planning->quotas[i] = (struct advisor_plan_quota){.tenant = quota->tenant,
                                                          .tier = quota->tier.text,
                                                          .soft = advisor_quota_soft(quota),
                                                          .hard = quota->hard,
                                                          .before = row.before,
                                                          .after = row.after,
                                                          .blocks = row.blocks,
                                                          .bytes = row.bytes,
                                                          .refused_blocks = row.refused_blocks,
                                                          .refused_bytes = row.refused_bytes};
    }
}

/* A slice, on the writer's thread. */
static enum kvt_err
plan_slice(void *arg, struct kvt_error *err)
{
    struct planning *planning = arg;
    enum kvt_err rc = KVT_OK;

    (void)err;
    if (planning->preview == NULL)
        rc = advisor_dry_run_new(&planning->preview, planning->http->planner, planning->rules,
                                 planning->now_ms);
    if (rc == KVT_BUSY) {
        planning->rc = rc;
        return KVT_OK;
    }
    if (rc == KVT_OK)
        rc = advisor_dry_run_step(planning->preview, take_move, planning);
    planning->waits = rc == KVT_AGAIN && advisor_dry_run_waits(planning->preview);
    if (rc != KVT_AGAIN && planning->preview != NULL) {
        planning->cut |= advisor_dry_run_is_cut(planning->preview);
        planning->miss = advisor_dry_run_missed(planning->preview);
        note_pins(planning);
        note_quotas(planning);
    }
    planning->rc = planning->rc == KVT_OK && rc != KVT_AGAIN ? rc : planning->rc;
    return rc == KVT_AGAIN ? KVT_BUSY : KVT_OK; /* apart from what the call answers themselves */
}

static enum kvt_err
plan_end(void *arg, struct kvt_error *err)
{
    struct planning *planning = arg;

    (void)err;
    advisor_dry_run_free(planning->preview);
    planning->preview = NULL;
    return KVT_OK;
}

static const char *
reason(enum kvt_err rc)
{
    switch (rc) {
    case KVT_BUSY: return "another one is being made; ask again when it is done";
    case KVT_TIMEOUT: return "it took too long, and was ended";
    default: return kvt_err_text(rc);
    }
}

/* Nobody would have the plan. */
static const char *
given_up(const struct planning *planning)
{
    if (atomic_load(&planning->http->stopping))
        return "the advisor ends";
    return kvt_http_is_left(planning->request) ? "whoever asked for it left" : NULL;
}

static enum kvt_err
preview(struct planning *planning, struct kvt_error *err)
{
    struct advisor_writer_calls *calls = advisor_round_writer_calls(planning->http->round);
    const char *why;
    enum kvt_err rc;

    do {
        if (planning->waits)
            kvt_clock_sleep_ms(LOOK_MS);
        why = given_up(planning);
        rc = why != NULL ? kvt_error_set(err, KVT_CANCELLED, "plan: %s", why)
                         : advisor_writer_calls_do(calls, plan_slice, planning,
                                                   ADVISOR_WRITER_CALLS_WAIT_MS, err);
    } while (rc == KVT_BUSY);
    if (rc == KVT_OK && planning->rc != KVT_OK)
        rc = kvt_error_set(err, planning->rc, "plan: %s", reason(planning->rc));
    for (int i = 0; planning->preview != NULL && i < ENDS_MAX; i++)
        if (advisor_writer_calls_do(calls, plan_end, planning, ADVISOR_WRITER_CALLS_WAIT_MS,
                                    NULL) != KVT_OK)
            kvt_log_warn("advisor.plan", "waits", "a plan waits to give back what it looked at");
    if (planning->preview != NULL)
        kvt_log_error("advisor.plan", "stuck", "the engine does nothing any more: a plan was left");
    return rc;
}

/* ---- what is said with it ---- */

struct speed {
    uint64_t bytes;
    uint64_t ms;
};

static enum kvt_err
add_speed(void *arg, const void *data)
{
    const struct advisor_job_row *row = data;
    struct speed *speed = arg;

    if (row->finished_ms > row->created_ms && row->bytes_moved > 0) {
        speed->bytes += row->bytes_moved;
        speed->ms += row->finished_ms - row->created_ms;
    }
    return KVT_OK;
}

/* As earlier jobs went. */
static uint64_t
measured(const struct advisor_admin *http)
{
    struct speed speed = {.ms = 0};
    struct advisor_txn txn;

    if (advisor_store_read(http->store, &txn, NULL) != KVT_OK)
        return 0;
    if (advisor_store_walk(&txn, ADVISOR_ROW_JOB, add_speed, &speed) != KVT_OK)
        speed.ms = 0;
    advisor_store_end(&txn);
    return speed.ms == 0 ? 0 : speed.bytes * 1000 / speed.ms;
}

struct warnings {
    char texts[WARNINGS_MAX][WARNING_MAX];
    const char *list[WARNINGS_MAX];
    size_t count;
};

static void KVT_PRINTF(2, 3) warn(struct warnings *warnings, const char *format, ...)
{
    va_list values;

    if (warnings->count == WARNINGS_MAX)
        return;
    va_start(values, format);
    (void)vsnprintf(warnings->texts[warnings->count], WARNING_MAX, format, values);
    va_end(values);
    warnings->list[warnings->count] = warnings->texts[warnings->count];
    warnings->count++;
}

/* A plan is applied as fast as the gateways go; what the policy does by itself keeps to its
 * limits. */
static void
warn_of_rates(const struct planning *planning, struct warnings *warnings)
{
    const struct policy *policy = planning->rules->policy;

    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);
        const uint64_t seconds =
            rule->limits.rate == 0 ? 0 : planning->bytes[i] / rule->limits.rate;

        if (seconds >= RATE_WARNING_S)
            warn(warnings, "rule %s would take %" PRIu64 " s by itself, at its rate", rule->id,
                 seconds);
    }
}

static void
warn_of_quotas(const struct planning *planning, struct warnings *warnings)
{
    for (size_t i = 0; i < planning->rules->policy->quotas.count && !planning->cut; i++) {
        const struct advisor_plan_quota *quota = &planning->quotas[i];

        if (quota->after > quota->soft)
            warn(warnings, "%s stays beyond its quota%s%s: nothing more of it may leave",
                 quota->tenant, quota->tier[0] == '\0' ? "" : " of ", quota->tier);
    }
}

static void
collect_warnings(const struct planning *planning, struct warnings *warnings)
{
    struct advisor_planner *planner = planning->http->planner;
    size_t count;
    struct advisor_gateway_view *views = advisor_admin_gateways(planning->http, &count);

    if (planning->deletes > 0)
        warn(warnings, "%" PRIu64 " blocks will be deleted", planning->deletes);
    if (planning->cut)
        warn(warnings, "there is more than a plan holds: apply it, and plan again");
    if (advisor_planner_paused(planner))
        warn(warnings, "all orders are paused: nothing moves before kvtier migrate resume");
    if (advisor_planner_mode(planner) == ADVISOR_MODE_OFF)
        warn(warnings, "the mode is off: nothing moves before kvtier policy mode observe");
    if (planning->miss.wanted != NULL)
        warn(warnings, "blocks of %s are in the order of %s: that of %s could not be made",
             planning->miss.tier, planning->miss.now, planning->miss.wanted);
    warn_of_rates(planning, warnings);
    warn_of_quotas(planning, warnings);
    for (size_t i = 0; i < count; i++)
        if (!views[i].healthy)
            warn(warnings, "gateway %s says that its bucket is away", views[i].name);
    kvt_free(views);
}

static void
write_plan(struct planning *planning, const struct advisor_rules *base,
           struct kvt_http_response *response)
{
    const struct policy *policy = planning->rules->policy;
    struct warnings warnings = {.count = 0};
    struct advisor_plan_frame frame = {.rules = planning->rules,
                                       .base_version = base->version,
                                       .base_digest = base->digest,
                                       .created_ms = planning->now_ms,
                                       .bytes_per_s = measured(planning->http),
                                       .cut = planning->cut,
                                       .classes = planning->classes,
                                       .class_count = policy->classes.count,
                                       .pins = planning->pins,
                                       .pin_count = policy->rules.count,
                                       .quotas = planning->quotas,
                                       .quota_count = policy->quotas.count,
                                       .warnings = warnings.list};
    enum kvt_err rc;

    for (size_t i = 0; i < policy->classes.count; i++)
        planning->classes[i].name = policy_class_at(policy, i)->name;
    collect_warnings(planning, &warnings);
    frame.warning_count = warnings.count;
    rc = advisor_plan_write(planning->plan, &frame, &response->body);
    if (rc == KVT_OK)
        return;
    kvt_buffer_clear(&response->body);
    kvt_http_fail(response, 503, rc, "plan: %s", kvt_err_text(rc));
}

/* ---- the question ---- */

static void
fail_policy(struct kvt_http_response *response, enum kvt_err rc,
            const struct policy_problems *problems, const struct kvt_error *err)
{
    if (rc == KVT_INVALID && problems->count > 0)
        kvt_http_fail(response, 400, rc,
                      "policy:%zu:%zu: %.200s (%zu in all: kvtier policy validate)",
                      problems->list[0].mark.line, problems->list[0].mark.column,
                      problems->list[0].text, problems->count + problems->left_out);
    else
        kvt_http_fail(response, rc == KVT_NOMEM ? 503 : 400, rc, "%s", err->text);
}

/* Under the policy of that text, or the one in force. */
static enum kvt_err
plan_under(struct planning *planning, const struct advisor_rules *base, const char *text,
           struct kvt_http_response *response)
{
    struct policy_problems *problems = NULL;
    struct advisor_rules *own = NULL;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc = KVT_OK;

    planning->rules = base;
    if (text != NULL) {
        problems = kvt_calloc(1, sizeof(*problems));
        rc = problems == NULL ? KVT_NOMEM
                              : advisor_rules_new(&own, text, strlen(text), problems, &err);
        if (rc != KVT_OK) {
            fail_policy(response, rc, problems, &err);
            kvt_free(problems);
            return rc;
        }
        planning->rules = own;
    }
    planning->quotas =
        kvt_calloc(planning->rules->policy->quotas.count + 1, sizeof(*planning->quotas));
    rc = planning->quotas == NULL ? KVT_NOMEM : advisor_plan_new(&planning->plan);
    if (rc == KVT_OK)
        rc = preview(planning, &err);
    if (rc == KVT_OK)
        write_plan(planning, base, response);
    else
        kvt_http_fail(response, 503, rc, "%s", err.text[0] == '\0' ? kvt_err_text(rc) : err.text);
    if (planning->preview == NULL) /* else it still looks at them */
        advisor_rules_free(own);
    kvt_free(planning->quotas);
    kvt_free(problems);
    return rc;
}

void
advisor_admin_plan(void *arg, const struct kvt_http_request *request,
                   struct kvt_http_response *response)
{
    const uint64_t clock_ms = kvt_clock_unix_ms();
    struct planning planning = {.http = arg, .request = request, .now_ms = clock_ms};
    struct json_object *json = NULL;
    const struct advisor_rules *base;
    struct kvt_error err = {.text = ""};
    const char *text = NULL;
    enum kvt_err rc = KVT_OK;

    if (!advisor_admin_loaded(planning.http, response))
        return;
    if (request->body_size > 0)
        rc = kvt_json_parse(&json, (const char *)request->body, request->body_size, "body", &err);
    if (rc == KVT_OK && kvt_json_member(json, "policy") != NULL) {
        text = kvt_json_string(json, "policy");
        rc = text == NULL ? kvt_error_set(&err, KVT_INVALID, "policy: want its text") : KVT_OK;
    }
    if (rc == KVT_OK && kvt_json_member(json, "now_ms") != NULL &&
        !kvt_json_u64(json, "now_ms", &planning.now_ms))
        rc = kvt_error_set(&err, KVT_INVALID, "now_ms: want Unix milliseconds");
    if (rc == KVT_OK && planning.now_ms > clock_ms)
        rc = kvt_error_set(&err, KVT_INVALID, "now_ms: that is in the future; it is %" PRIu64,
                           clock_ms);
    if (rc != KVT_OK) {
        kvt_http_fail(response, 400, rc, "%s", err.text);
        json_object_put(json);
        return;
    }
    base = advisor_rulebook_take(planning.http->rulebook);
    (void)plan_under(&planning, base, text, response);
    if (planning.preview == NULL)
        advisor_rulebook_give(planning.http->rulebook, base);
    advisor_plan_free(planning.plan);
    json_object_put(json);
}

/* ---- is it still so? ---- */

struct checking {
    const struct advisor_admin *http;
    struct advisor_store_block row;
    uint64_t blocks;
    uint64_t moved;
};

/* Is any of these shards in the tier? */
static enum kvt_err
is_there(const struct advisor_txn *txn, const struct advisor_store_block *row, const char *tier,
         uint32_t ranks, bool *there)
{
    *there = false;
    for (uint32_t i = 0; i < row->place_count; i++) {
        struct index_holder holder;
        const enum kvt_err rc = advisor_store_holder(txn, row->places[i].holder, &holder);

        if (rc != KVT_OK)
            return rc;
        if (strcmp(holder.name, tier) == 0 && (row->places[i].ranks & ranks) != 0)
            *there = true;
    }
    return KVT_OK;
}

static enum kvt_err
check_block(struct checking *checking, const struct advisor_txn *txn, uint32_t ns, const char *tier,
            const char *text, struct kvt_error *err)
{
    struct kvt_order_item item;
    bool there = false;
    uint64_t size;
    enum kvt_err rc;

    if (text == NULL || !advisor_plan_block_parse(text, &item, &size))
        return kvt_error_set(err, KVT_INVALID,
                             "a block as a plan has it: hash parent position "
                             "ranks size");
    checking->blocks++;
    if (txn->handle == NULL) { /* nobody ever named the namespace */
        checking->moved++;
        return KVT_OK;
    }
    rc = advisor_store_get_block(txn, ns, item.block.hash, &checking->row);
    if (rc == KVT_OK)
        rc = is_there(txn, &checking->row, tier, item.ranks, &there);
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return kvt_error_set(err, rc, "%s", kvt_err_text(rc));
    checking->moved += there ? 0 : 1;
    return KVT_OK;
}

static enum kvt_err
check_moves(struct checking *checking, struct json_object *moves, struct kvt_error *err)
{
    const char *namespace_ = kvt_json_string(moves, "namespace");
    const char *tier = kvt_json_string(moves, "tier");
    struct json_object *blocks = kvt_json_array(moves, "blocks");
    struct advisor_txn txn = {.handle = NULL};
    enum kvt_err rc;
    uint32_t ns = 0;

    if (namespace_ == NULL || tier == NULL || blocks == NULL)
        return kvt_error_set(err, KVT_INVALID, "moves: want namespace, tier and blocks");
    rc = advisor_finder_begin(checking->http->store, namespace_, &txn, &ns);
    if (rc == KVT_NOTFOUND)
        rc = KVT_OK;
    else if (rc != KVT_OK)
        return kvt_error_set(err, rc, "%s", kvt_err_text(rc));
    for (size_t i = 0; i < json_object_array_length(blocks) && rc == KVT_OK; i++) {
        const char *block = kvt_json_to_string(json_object_array_get_idx(blocks, i));

        rc = check_block(checking, &txn, ns, tier, block, err);
    }
    advisor_store_end(&txn);
    return rc;
}

void
advisor_admin_plan_check(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response)
{
    struct checking checking = {.http = arg};
    struct json_object *json;
    struct json_object *moves;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc =
        kvt_json_parse(&json, (const char *)request->body, request->body_size, "body", &err);

    moves = kvt_json_array(json, "moves");
    if (rc == KVT_OK && moves == NULL)
        rc = kvt_error_set(&err, KVT_INVALID, "body: want {moves}");
    for (size_t i = 0; rc == KVT_OK && i < json_object_array_length(moves); i++)
        rc = check_moves(&checking, json_object_array_get_idx(moves, i), &err);
    if (rc != KVT_OK)
        kvt_http_fail(response, rc == KVT_INVALID ? 400 : 503, rc, "%s", err.text);
    else
        kvt_buffer_printf(&response->body,
                          "{\"schema_version\":1,\"blocks\":%" PRIu64 ",\"moved\":%" PRIu64 "}",
                          checking.blocks, checking.moved);
    advisor_store_block_release(&checking.row);
    json_object_put(json);
}
