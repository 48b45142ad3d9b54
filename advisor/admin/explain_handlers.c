#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/admin/command_hint.h"
#include "advisor/order/block_standing.h"
#include "advisor/rule/block_facts.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/tenant_quotas.h"
#include "advisor/selection/wanted_orderings.h"
#include "advisor/selection/watermark.h"
#include "advisor/store/writer_calls.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "policy/decide/decision.h"
#include "policy/file/policy_keys.h"

enum { CHANGE_MAX = 1024, TEXT_MAX_BYTES = 512, SECOND_MS = 1000, FILL_PPM = 100 };

/* GET /v1/explain/HASH: what every rule makes of a block, tier by tier. */

struct question {
    const struct advisor_admin *http;
    const char *namespace_;
    uint64_t hash;
    uint64_t now_ms;
    enum policy_event event;
    const struct advisor_rules *rules;
    struct policy_decision *decision;
    struct advisor_block_facts facts;
    struct advisor_block_standing look;
    /* Of the place that is written: */
    int32_t kept_rule; /* that pins a copy in another, -1: none does; nothing there expires then */
    const char *kept_in; /* holder of that copy */
    bool kept;           /* and a rule would expire it */
};

static enum kvt_err
look(void *arg, struct kvt_error *err)
{
    struct question *question = arg;
    const enum kvt_err rc =
        advisor_planner_look(question->http->planner, question->http->store, question->namespace_,
                             question->hash, question->now_ms, &question->look);

    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "%s", kvt_err_text(rc));
}

/* ---- facts ---- */

static void
add_facts(struct kvt_buffer *out, const struct policy_facts *facts)
{
    char text[POLICY_VALUE_TEXT_MAX];

    kvt_buffer_puts(out, "\"facts\":{");
    for (int i = 0; i < POLICY_FACT_COUNT; i++) {
        const struct policy_fact_row *row = &policy_fact_rows[i];
        const enum policy_fact fact = (enum policy_fact)i;

        kvt_buffer_printf(out, "%s", i == 0 ? "" : ",");
        if (row->type == POLICY_TYPE_TEXT) {
            advisor_admin_text(out, row->name, policy_facts_text(facts, fact));
        } else if (row->type == POLICY_TYPE_BOOL) {
            kvt_buffer_printf(out, "\"%s\":%s", row->name,
                              policy_facts_flag(facts, fact) ? "true" : "false");
        } else if (row->type == POLICY_TYPE_COUNT) {
            kvt_buffer_printf(out, "\"%s\":%" PRIu64, row->name, policy_facts_number(facts, fact));
        } else {
            policy_value_format(row->type, policy_facts_number(facts, fact), text);
            advisor_admin_text(out, row->name, text);
        }
    }
    kvt_buffer_puts(out, "}");
}

/* To whole seconds and hundredths of a percent, as people write them: the facts are of a moment
 * that is over anyway. */
static void
round_off(struct policy_facts *facts)
{
    if (facts->last_access_ms >= SECOND_MS)
        facts->last_access_ms -= facts->last_access_ms % SECOND_MS;
    if (facts->age_ms >= SECOND_MS)
        facts->age_ms -= facts->age_ms % SECOND_MS;
    facts->fill_ppm -= facts->fill_ppm % FILL_PPM;
}

/* ---- rules ---- */

static void
add_clause(struct kvt_buffer *out, bool *any, const char *text, bool is, const char *change)
{
    kvt_buffer_puts(out, *any ? ",{" : "{");
    advisor_admin_text(out, "clause", text);
    kvt_buffer_printf(out, ",\"is\":%s,", is ? "true" : "false");
    advisor_admin_text(out, "change", change);
    kvt_buffer_puts(out, "}");
    *any = true;
}

/* Where the rule looks. */
static void
format_tier(const struct policy *policy, const struct policy_rule *rule, char *text, size_t size)
{
    const int32_t tier = rule->verb == POLICY_PIN ? -1 : policy_rule_tier(rule);
    size_t used = 0;

    if (tier >= 0)
        (void)snprintf(text, size, "in %s", policy_tier_at(policy, (size_t)tier)->name);
    else if (rule->verb != POLICY_PIN || rule->pin.tiers.count == 0)
        (void)snprintf(text, size, "in any tier");
    else
        for (uint32_t i = 0; i < rule->pin.tiers.count && used < size; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "in " : " or ",
                                     rule->pin.tiers.list[i].text);
}

/* Deleting takes all copies, and a rule pins one of them. */
static bool
is_kept(const struct question *question, const struct policy_rule *rule)
{
    return rule->verb == POLICY_EXPIRE && question->kept_rule >= 0;
}

/* What must hold beside the condition (policy/decide/decision.h). */
static void
add_demands(struct kvt_buffer *out, bool *any, const struct question *question,
            const struct policy_rule *rule, uint32_t refusals)
{
    const bool drains = rule->verb == POLICY_DEMOTE || rule->verb == POLICY_EXPIRE;
    char change[CHANGE_MAX] = "";
    char text[TEXT_MAX_BYTES];
    char value[POLICY_VALUE_TEXT_MAX];
    char limit[POLICY_VALUE_TEXT_MAX];
    size_t at;

    format_tier(question->rules->policy, rule, text, sizeof(text));
    add_clause(out, any, text, (refusals & POLICY_REFUSES_TIER) == 0, "");
    if (rule->on != 0) {
        struct kvt_buffer words;

        kvt_buffer_init(&words, sizeof(change));
        policy_key_format(policy_key_find(POLICY_SECTION_RULE, "on", &at), rule, &words);
        (void)snprintf(text, sizeof(text), "on %.400s", kvt_buffer_text(&words));
        kvt_buffer_release(&words);
        add_clause(out, any, text, (refusals & POLICY_REFUSES_EVENT) == 0, "");
    }
    if (drains)
        add_clause(out, any, "not pinned", (refusals & POLICY_REFUSES_PINNED) == 0,
                   (refusals & POLICY_REFUSES_PINNED) == 0 ? "" : "pinned true -> false");
    policy_value_format(POLICY_TYPE_DURATION, question->facts.facts.last_access_ms, value);
    if (is_kept(question, rule)) {
        (void)snprintf(text, sizeof(text), "no copy that a rule pins (%s does in %s)",
                       policy_rule_at(question->rules->policy, (size_t)question->kept_rule)->id,
                       question->kept_in);
        add_clause(out, any, text, false, "");
    }
    if (rule->verb == POLICY_PIN && rule->pin.ttl > 0) {
        policy_value_format(POLICY_TYPE_DURATION, rule->pin.ttl, limit);
        (void)snprintf(text, sizeof(text), "pin.ttl %s", limit);
        if ((refusals & POLICY_REFUSES_TTL) != 0)
            (void)snprintf(change, sizeof(change), "last_access %s -> %s", value, limit);
        add_clause(out, any, text, (refusals & POLICY_REFUSES_TTL) == 0, change);
    }
    if (!drains || rule->protect_recent == 0)
        return;
    policy_value_format(POLICY_TYPE_DURATION, rule->protect_recent, limit);
    (void)snprintf(text, sizeof(text), "protect_recent %s", limit);
    if ((refusals & POLICY_REFUSES_RECENT) != 0)
        (void)snprintf(change, sizeof(change), "last_access %s -> %s", value, limit);
    add_clause(out, any, text, (refusals & POLICY_REFUSES_RECENT) == 0, change);
}

/* The clauses of a condition; of one that is false, what would do.  One below a not is told with
 * it, so that true is good throughout. */
static void
add_condition(struct kvt_buffer *out, bool *any, const struct question *question,
              const struct policy_expression *when, const bool *trace, bool is)
{
    struct policy_clause clause;

    for (size_t i = 0; policy_expression_clause(when, i, &clause); i++) {
        const bool helps = trace[clause.node] != clause.negated;
        char text[POLICY_EXPRESSION_MAX + sizeof("not ")];
        char change[CHANGE_MAX] = "";

        if (!is && !helps)
            policy_expression_change(when, clause.node, &question->facts.facts, change,
                                     sizeof(change));
        (void)snprintf(text, sizeof(text), "%s%.*s", clause.negated ? "not " : "", (int)clause.size,
                       clause.text);
        add_clause(out, any, text, helps, change);
    }
}

static void
add_rule(struct kvt_buffer *out, const struct question *question, size_t at)
{
    const struct policy_rule *rule = policy_rule_at(question->rules->policy, at);
    const struct policy_verdict *verdict = &question->decision->verdicts[at];
    bool any = false;

    kvt_buffer_puts(out, at == 0 ? "{" : ",{");
    advisor_admin_text(out, "id", rule->id);
    kvt_buffer_printf(out, ",\"line\":%u,\"do\":\"%s\",\"matches\":%s,\"wins\":%s,\"clauses\":[",
                      rule->head.place.line, policy_verb_text((enum policy_verb)rule->verb),
                      verdict->refusals == 0 && !is_kept(question, rule) ? "true" : "false",
                      question->decision->rule == (int32_t)at ? "true" : "false");
    add_demands(out, &any, question, rule, verdict->refusals);
    if (rule->when != NULL)
        add_condition(out, &any, question, rule->when, verdict->trace,
                      (verdict->refusals & POLICY_REFUSES_WHEN) == 0);
    kvt_buffer_puts(out, "]}");
}

/* What class() of the rules stands for. */
static void
add_classes(struct kvt_buffer *out, const struct question *question)
{
    const struct policy *policy = question->rules->policy;

    kvt_buffer_puts(out, ",\"classes\":[");
    for (size_t i = 0; i < policy->classes.count; i++) {
        const struct policy_class *class_ = policy_class_at(policy, i);
        bool trace[POLICY_EXPRESSION_NODES_MAX];
        const bool is = policy_expression_evaluate(class_->when, &question->facts.facts,
                                                   question->decision->classes, trace);
        bool any = false;

        kvt_buffer_puts(out, i == 0 ? "{" : ",{");
        advisor_admin_text(out, "name", class_->name);
        kvt_buffer_printf(out, ",\"is\":%s,\"clauses\":[", is ? "true" : "false");
        add_condition(out, &any, question, class_->when, trace, is);
        kvt_buffer_puts(out, "]}");
    }
    kvt_buffer_puts(out, "]");
}

/* ---- one tier ---- */

/* Zero has no sign for people. */
static double
unsigned_zero(double value)
{
    return value == 0 ? 0 : value;
}

/* The ordering by which the rule that has the block takes it, of some. */
static uint32_t
order_of(const struct question *question, const struct advisor_orders *orders)
{
    const int32_t rule = question->decision->rule;

    if (rule < 0)
        return 0;
    return advisor_wanted_order_of(advisor_planner_settings(question->http->planner)->ordering,
                                   orders, policy_rule_at(question->rules->policy, (size_t)rule));
}

/* Which decides, and which is to. */
static void
add_orderings(struct kvt_buffer *out, const struct question *question,
              const struct advisor_block_standing_place *place)
{
    struct advisor_orders next = {.count = 0};
    const char *by = "";
    const char *to_be = "";

    if (place->orders.count > 0) {
        by = place->orders.list[order_of(question, &place->orders)]->name;
        (void)advisor_admin_next_orders(question->http, question->rules, place->holder,
                                        &place->orders, &next);
    }
    if (next.count > 0)
        to_be = next.list[order_of(question, &next)]->name;
    advisor_admin_text(out, "by", by);
    kvt_buffer_puts(out, ",");
    advisor_admin_text(out, "next", strcmp(by, to_be) == 0 ? "" : to_be);
    if (place->reranking)
        kvt_buffer_printf(out, ",\"ranked\":%" PRIu64 ",\"to_rank\":%" PRIu64, place->ranked,
                          place->to_rank);
}

static void
add_order(struct kvt_buffer *out, const struct question *question,
          const struct advisor_block_standing_place *place)
{
    const struct advisor_block_standing_order *order =
        &place->by[order_of(question, &place->orders)];
    const struct policy_standing *standing = &order->standing;

    kvt_buffer_puts(out, ",\"order\":{");
    add_orderings(out, question, place);
    kvt_buffer_printf(out, ",\"known\":%s", order->known ? "true" : "false");
    if (order->known)
        kvt_buffer_printf(out,
                          ",\"value\":%.9g,\"uses\":%u,\"last_use_ms\":%" PRIu64
                          ",\"leaving\":%s,\"blocks\":%u,\"before\":%u",
                          unsigned_zero(standing->value), standing->uses, order->last_use_ms,
                          standing->taken ? "true" : "false", order->counts.in_tier, order->before);
    if (order->known && standing->chance >= 0)
        kvt_buffer_printf(out, ",\"chance_1h\":%.6f", unsigned_zero(standing->chance));
    kvt_buffer_puts(out, "}");
}

/* Why the rule that has the block does not act now; "": it may. */
static const char *
stopped(const struct question *question, const struct advisor_block_standing_place *place)
{
    const struct policy *policy = question->rules->policy;

    if (question->look.version == question->rules->version &&
        advisor_rule_set_has(&place->no_edge, question->decision->rule))
        return advisor_rule_stop_text(ADVISOR_RULE_NO_EDGE);
    if (question->look.version == question->rules->version &&
        question->look.stops[question->decision->rule] != ADVISOR_RULE_ACTS)
        return advisor_rule_stop_text(question->look.stops[question->decision->rule]);
    return policy_is_enforced(policy, question->hash)
               ? ""
               : "the block is not in the share that modes.canary enforces";
}

/* What the quota of its tenant makes of it, behind what a rule does. */
static void
append_quota(const struct advisor_block_standing_place *place, char *text, size_t size)
{
    const struct advisor_quota_view *quota = &place->quota;
    const bool hard = quota->over == ADVISOR_QUOTA_HARD;
    const size_t used = strlen(text);
    char is[POLICY_VALUE_TEXT_MAX];
    char most[POLICY_VALUE_TEXT_MAX];

    if (!place->has_quota || quota->over == ADVISOR_QUOTA_WITHIN || used >= size)
        return;
    policy_value_format(POLICY_TYPE_SIZE, quota->used, is);
    policy_value_format(POLICY_TYPE_SIZE, hard ? quota->hard : quota->soft, most);
    (void)snprintf(text + used, size - used,
                   "; %.64s has %s%s%s and its %s quota is %s: its blocks go first", quota->tenant,
                   is, quota->tier[0] == '\0' ? "" : " in ", quota->tier, hard ? "hard" : "soft",
                   most);
}

/* Does a block that no rule has leave for its quota all the same? */
static bool
leaves_for_quota(const struct question *question, const struct advisor_block_standing_place *place)
{
    const struct policy *policy = question->rules->policy;
    const int32_t tier = advisor_rules_tier(question->rules, place->holder);

    if (!place->has_quota || tier < 0 || place->quota.over == ADVISOR_QUOTA_WITHIN)
        return false;
    if (policy_tier_below(policy, (size_t)tier) >= 0)
        return true;
    return place->quota.over == ADVISOR_QUOTA_HARD && question->kept_rule < 0 &&
           advisor_quota_expirer(policy, tier) >= 0;
}

static void
add_quota(struct kvt_buffer *out, const struct advisor_block_standing_place *place)
{
    if (!place->has_quota)
        return;
    kvt_buffer_puts(out, ",\"quota\":{");
    advisor_admin_text(out, "tier", place->quota.tier);
    kvt_buffer_printf(out,
                      ",\"soft_bytes\":%" PRIu64 ",\"hard_bytes\":%" PRIu64
                      ",\"used_bytes\":%" PRIu64 ",\"above\":\"%s\"}",
                      place->quota.soft, place->quota.hard, place->quota.used,
                      advisor_quota_word(place->quota.over));
}

/* What the rule waits for.  A share of no cap is never reached. */
static void
append_watermark(const struct question *question, const struct advisor_block_standing_place *place,
                 const struct policy_rule *rule, char *text, size_t size)
{
    const struct policy *policy = question->rules->policy;
    const int32_t tier = advisor_rules_tier(question->rules, place->holder);
    const size_t used = strlen(text);
    char start[POLICY_VALUE_TEXT_MAX];
    char fill[POLICY_VALUE_TEXT_MAX];

    policy_value_format(POLICY_TYPE_RATIO, question->facts.facts.fill_ppm, fill);
    policy_value_format(POLICY_TYPE_RATIO, rule->trigger.start, start);
    if (!place->reported)
        (void)snprintf(text + used, size - used, ", but waits: no gateway told how full %s is",
                       place->holder);
    else if (tier >= 0 && advisor_watermark_capacity(policy, tier, place->capacity_bytes) == 0)
        (void)snprintf(text + used, size - used,
                       ", but never starts: %s has no cap (tiers.%s.capacity)", place->holder,
                       policy_tier_at(policy, (size_t)tier)->name);
    else
        (void)snprintf(text + used, size - used,
                       ", but waits: %s is %s full, and the rule starts at %s", place->holder, fill,
                       start);
}

/* What it comes to, in a sentence. */
static void
add_sum(struct kvt_buffer *out, const struct question *question,
        const struct advisor_block_standing_place *place)
{
    const struct policy_decision *decision = question->decision;
    const struct policy_rule *rule =
        decision->rule < 0 ? NULL : policy_rule_at(question->rules->policy, (size_t)decision->rule);
    char text[TEXT_MAX_BYTES];
    size_t used;

    if (rule == NULL && question->look.pinned) {
        advisor_admin_text(out, "sum", "it is pinned: it stays");
        return;
    }
    if (rule == NULL || rule->verb == POLICY_PIN || rule->verb == POLICY_EXCLUDE) {
        const bool leaves = rule == NULL && leaves_for_quota(question, place);

        if (question->kept)
            (void)snprintf(text, sizeof(text), "%s pins its copy in %s: it stays", rule->id,
                           question->kept_in);
        else
            (void)snprintf(text, sizeof(text), "%s has it%s", rule == NULL ? "no rule" : rule->id,
                           leaves ? "" : ": it stays");
        if (leaves)
            append_quota(place, text, sizeof(text));
        advisor_admin_text(out, "sum", text);
        return;
    }
    used = (size_t)snprintf(text, sizeof(text), "%s has it: %s%s%s", rule->id,
                            policy_verb_text((enum policy_verb)rule->verb),
                            decision->to < 0 ? "" : " to ", decision->to < 0 ? "" : rule->to.text);
    if (decision->waits && !place->draining)
        append_watermark(question, place, rule, text, sizeof(text));
    else if (stopped(question, place)[0] != '\0')
        (void)snprintf(text + used, sizeof(text) - used, ", but not now: %s",
                       stopped(question, place));
    else if (place->by[order_of(question, &place->orders)].known &&
             place->by[order_of(question, &place->orders)].standing.taken)
        (void)snprintf(text + used, sizeof(text) - used, "; it is chosen, or was refused lately");
    else if (rule->trigger.head.place.line != 0)
        (void)snprintf(text + used, sizeof(text) - used,
                       " when its turn comes: of the blocks in %s the lowest value first",
                       place->holder);
    append_quota(place, text, sizeof(text));
    advisor_admin_text(out, "sum", text);
}

static size_t
shown_places(const struct question *question)
{
    return question->look.place_count < ADVISOR_BLOCK_STANDING_PLACES_MAX
               ? question->look.place_count
               : ADVISOR_BLOCK_STANDING_PLACES_MAX;
}

/* Of the block there. */
static void
take_facts(struct question *question, const struct advisor_block_standing_place *place)
{
    const struct policy *policy = question->rules->policy;
    const int32_t tier = advisor_rules_tier(question->rules, place->holder);
    const struct advisor_block_facts_source source = {
        .block = &question->look.row,
        .rules = question->rules,
        .namespace_ = question->namespace_,
        .tier = tier < 0 ? "" : policy_tier_at(policy, (size_t)tier)->name,
        .ranks = place->ranks,
        .fill_ppm = advisor_block_facts_fill(
            place->used_bytes, advisor_watermark_capacity(policy, tier, place->capacity_bytes)),
        .index = question->http->finder.memory->index,
        .index_ns = question->look.index_ns,
        .pinned = question->look.pinned,
        .now_ms = question->now_ms,
    };

    advisor_block_facts_of(&question->facts, &source);
    round_off(&question->facts.facts);
}

/* The rule that keeps what another would delete in this place, for it pins a copy in another: as
 * the planner sees it. */
static void
find_keeper(struct question *question, const struct advisor_block_standing_place *place)
{
    const struct policy *policy = question->rules->policy;

    question->kept_rule = -1;
    for (size_t i = 0; i < shown_places(question) && question->kept_rule < 0; i++) {
        const struct advisor_block_standing_place *other = &question->look.places[i];
        int32_t rule;

        if (other == place || other->ranks == 0)
            continue;
        take_facts(question, other);
        rule = policy_match(policy, &question->facts.facts, POLICY_ON_NOTHING);
        if (rule >= 0 && policy_rule_at(policy, (size_t)rule)->verb == POLICY_PIN) {
            question->kept_rule = rule;
            question->kept_in = other->holder;
        }
    }
}

static void
decide(struct question *question, const struct advisor_block_standing_place *place)
{
    struct policy_decision *decision = question->decision;

    find_keeper(question, place);
    take_facts(question, place);
    policy_decide(question->rules->policy, &question->facts.facts, question->event, decision);
    if (decision->rule < 0 ||
        !is_kept(question, policy_rule_at(question->rules->policy, (size_t)decision->rule))) {
        question->kept = false;
        return;
    }
    question->kept = true;
    decision->rule = question->kept_rule;
    decision->to = -1;
    decision->waits = false;
}

static void
add_place(struct kvt_buffer *out, struct question *question,
          const struct advisor_block_standing_place *place)
{
    const struct policy *policy = question->rules->policy;
    const int32_t tier = advisor_rules_tier(question->rules, place->holder);
    const struct policy_decision *decision = question->decision;

    decide(question, place);
    advisor_admin_text(out, "holder", place->holder);
    kvt_buffer_puts(out, ",");
    advisor_admin_text(out, "tier", tier < 0 ? "" : policy_tier_at(policy, (size_t)tier)->name);
    kvt_buffer_puts(out, ",");
    add_facts(out, &question->facts.facts);
    kvt_buffer_puts(out, ",");
    advisor_admin_text(
        out, "rule", decision->rule < 0 ? "" : policy_rule_at(policy, (size_t)decision->rule)->id);
    kvt_buffer_printf(out, ",\"waits\":%s,", decision->waits ? "true" : "false");
    if (question->kept) {
        advisor_admin_text(out, "kept_in", question->kept_in);
        kvt_buffer_puts(out, ",");
    }
    add_sum(out, question, place);
    add_order(out, question, place);
    add_quota(out, place);
    kvt_buffer_puts(out, ",\"rules\":[");
    for (size_t i = 0; i < policy->rules.count; i++)
        add_rule(out, question, i);
    kvt_buffer_puts(out, "]");
    add_classes(out, question);
}

/* ---- the answer ---- */

static void
answer(struct question *question, struct kvt_http_response *response)
{
    struct kvt_buffer *out = &response->body;
    const enum advisor_mode mode = advisor_planner_mode(question->http->planner);
    const size_t shown = shown_places(question);

    kvt_buffer_puts(out, "{\"schema_version\":1,");
    advisor_admin_hash(out, "hash", question->hash);
    kvt_buffer_puts(out, ",");
    advisor_admin_text(out, "namespace", question->namespace_);
    if (question->look.pinned)
        kvt_buffer_printf(out, ",\"pinned_until_ms\":%" PRIu64, question->look.pinned_until_ms);
    kvt_buffer_printf(out, ",\"version\":%" PRIu64 ",", question->rules->version);
    advisor_admin_text(out, "source", question->rules->source);
    kvt_buffer_printf(out, ",\"effective_mode\":\"%s\",\"place_count\":%zu,\"tiers\":[",
                      advisor_mode_name(advisor_rules_mode(question->rules, mode)),
                      question->look.place_count);
    for (size_t i = 0; i < shown; i++) {
        kvt_buffer_puts(out, i == 0 ? "{" : ",{");
        add_place(out, question, &question->look.places[i]);
        kvt_buffer_puts(out, "}");
    }
    kvt_buffer_puts(out, "]}");
}

/* "?on=WORD": what if that happened; false: answered. */
static bool
read_event(const struct kvt_http_request *request, struct kvt_http_response *response,
           enum policy_event *event)
{
    const char *word = kvt_http_query(request, "on");
    const struct policy_key *key;
    char known[POLICY_NAME_MAX];
    size_t at;

    *event = POLICY_ON_NOTHING;
    if (word == NULL)
        return true;
    key = policy_key_find(POLICY_SECTION_RULE, "on", &at);
    for (size_t i = 0; policy_word(key->max, i, known); i++)
        if (strcmp(known, word) == 0) {
            *event = (enum policy_event)(UINT32_C(1) << i);
            return true;
        }
    kvt_http_fail(response, 400, KVT_INVALID, "on: want one of %s", key->max);
    return false;
}

void
advisor_admin_explain(void *arg, const struct kvt_http_request *request,
                      struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    const char *namespace_ = kvt_http_query(request, "namespace");
    struct question *question = kvt_calloc(1, sizeof(*question));
    struct kvt_error err = {.text = "out of memory"};
    char hint[ADVISOR_HINT_MAX];
    enum kvt_err rc = KVT_NOMEM;

    if (!advisor_admin_loaded(http, response)) {
        kvt_free(question);
        return;
    }
    if (question == NULL) {
        kvt_http_fail(response, 503, KVT_NOMEM, "%s", err.text);
        return;
    }
    question->http = http;
    question->namespace_ = namespace_ == NULL ? "" : namespace_;
    advisor_admin_hint(hint, "show", request->tail, question->namespace_);
    question->now_ms = kvt_clock_unix_ms();
    question->rules = advisor_rulebook_take(http->rulebook);
    if (!kvt_hash_parse(request->tail, &question->hash)) {
        kvt_http_fail(response, 400, KVT_INVALID, "\"%s\" is no hash", request->tail);
        goto done;
    }
    if (!read_event(request, response, &question->event))
        goto done;
    rc = policy_decision_new(&question->decision, question->rules->policy);
    if (rc == KVT_OK)
        rc = advisor_writer_calls_do(advisor_round_writer_calls(http->round), look, question,
                                     ADVISOR_WRITER_CALLS_WAIT_MS, &err);
    if (rc == KVT_OK)
        answer(question, response);
    else if (rc == KVT_NOTFOUND)
        kvt_http_fail(response, 404, rc,
                      "%s in namespace \"%s\" is in no volume and no bucket: policies are about "
                      "those; who holds it: %s%s",
                      request->tail, question->namespace_, hint,
                      advisor_admin_hint_unknown(question->namespace_));
    else
        kvt_http_fail(response, 503, rc, "%s", err.text);

done:
    policy_decision_free(question->decision);
    advisor_rulebook_give(http->rulebook, question->rules);
    advisor_block_standing_release(&question->look);
    kvt_free(question);
}
