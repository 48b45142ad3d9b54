#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/selection/active_rules.h"
#include "base/core/alloc.h"
#include "base/text/json.h"
#include "base/text/parse.h"

/* The policy in force over HTTP: seen, put, rolled back. */

/* ---- seen ---- */

/* The watermarks of the rule that drains the first tier of a level; none: it is not drained. */
static void
add_watermarks(struct kvt_buffer *out, const char *key, const struct policy *policy,
               enum policy_level level)
{
    uint64_t start_ppm = 0;
    uint64_t stop_ppm = 0;

    for (size_t i = 0; i < policy->rules.count && start_ppm == 0; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);
        const int32_t tier = policy_rule_tier(rule);

        if ((rule->verb != POLICY_DEMOTE && rule->verb != POLICY_EXPIRE) || tier < 0 ||
            rule->trigger.head.place.line == 0 ||
            policy_tier_at(policy, (size_t)tier)->level != level)
            continue;
        start_ppm = rule->trigger.start;
        stop_ppm = rule->trigger.stop;
    }
    kvt_buffer_printf(out, "\"%s\":{\"start_ppm\":%" PRIu64 ",\"stop_ppm\":%" PRIu64 "},", key,
                      start_ppm, stop_ppm);
}

static bool
brings_back(const struct policy *policy)
{
    for (size_t i = 0; i < policy->rules.count; i++)
        if (policy_rule_at(policy, i)->verb == POLICY_PROMOTE &&
            (policy_rule_at(policy, i)->on & POLICY_ON_SECOND_COLD_HIT) != 0)
            return true;
    return false;
}

/* What the planner did by it, if it took the policy up already. */
static void
add_state(struct kvt_buffer *out, const struct advisor_rule_view *views, size_t count,
          const char *id)
{
    for (size_t i = 0; i < count; i++) {
        const struct advisor_rule_view *view = &views[i];

        if (strcmp(view->id, id) != 0)
            continue;
        kvt_buffer_printf(out,
                          ",\"running\":%s,\"ordered\":%" PRIu64 ",\"moved\":%" PRIu64
                          ",\"refused\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"last_ms\":%" PRIu64 ",",
                          view->running ? "true" : "false", view->ordered, view->moved,
                          view->refused, view->bytes, view->last_ms);
        advisor_admin_text(out, "waits", view->why);
        kvt_buffer_printf(out, ",\"until_ms\":%" PRIu64, view->why[0] == '\0' ? 0 : view->until_ms);
        return;
    }
}

static void
add_rules(const struct advisor_admin *http, struct kvt_buffer *out, const struct policy *policy)
{
    struct advisor_rule_view *views = kvt_calloc(policy->rules.count + 1, sizeof(*views));
    const size_t count =
        views == NULL ? 0 : advisor_planner_rules(http->planner, views, policy->rules.count);

    kvt_buffer_puts(out, ",\"rules\":[");
    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);

        kvt_buffer_puts(out, i == 0 ? "{" : ",{");
        advisor_admin_text(out, "id", rule->id);
        kvt_buffer_printf(out, ",\"do\":\"%s\"", policy_verb_text((enum policy_verb)rule->verb));
        add_state(out, views, count, rule->id);
        kvt_buffer_puts(out, "}");
    }
    kvt_buffer_puts(out, "]");
    kvt_free(views);
}

static void
add_ordering(const struct advisor_admin *http, struct kvt_buffer *out,
             const struct advisor_rules *rules)
{
    struct advisor_admin_ordering ordering;

    advisor_admin_find_ordering(http, rules, &ordering);
    advisor_admin_text(out, "ordering", ordering.now);
    kvt_buffer_puts(out, ",");
    advisor_admin_text(out, "next_ordering", ordering.next);
    kvt_buffer_printf(out,
                      ",\"reranking_tiers\":%u,\"ranked\":%" PRIu64 ",\"to_rank\":%" PRIu64 ",",
                      ordering.waiting, ordering.ranked, ordering.to_rank);
}

void
advisor_admin_policy(void *arg, const struct kvt_http_request *request,
                     struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    const struct advisor_planner_options *settings = advisor_planner_settings(http->planner);
    const enum advisor_mode mode = advisor_planner_mode(http->planner);
    const struct advisor_rules *rules = advisor_rulebook_take(http->rulebook);
    struct kvt_buffer *out = &response->body;

    kvt_buffer_printf(out, "{\"schema_version\":1,\"mode\":\"%s\",", advisor_mode_name(mode));
    kvt_buffer_printf(
        out, "\"configured_mode\":\"%s\",\"policy_mode\":\"%s\",\"effective_mode\":\"%s\",",
        advisor_mode_name(settings->mode),
        advisor_mode_name((enum advisor_mode)rules->policy->modes.mode),
        advisor_mode_name(advisor_rules_mode(rules, mode)));
    add_ordering(http, out, rules);
    add_watermarks(out, "hot", rules->policy, POLICY_G3);
    add_watermarks(out, "cold", rules->policy, POLICY_G4);
    kvt_buffer_printf(
        out,
        "\"promote_after_cold_hits\":%" PRIu64 ",\"version\":%" PRIu64 ",\"since_ms\":%" PRIu64 ",",
        brings_back(rules->policy) ? settings->promote_after : 0, rules->version, rules->since_ms);
    advisor_admin_text(out, "source", rules->source);
    kvt_buffer_puts(out, ",");
    advisor_admin_text(out, "digest", rules->digest);
    add_rules(http, out, rules->policy);
    if (kvt_http_query(request, "text") != NULL) {
        kvt_buffer_puts(out, ",");
        advisor_admin_text(out, "text", rules->text);
    }
    kvt_buffer_puts(out, "}");
    advisor_rulebook_give(http->rulebook, rules);
}

/* ---- put ---- */

static void
fail(struct kvt_http_response *response, enum kvt_err rc, const struct kvt_error *err)
{
    const unsigned status = rc == KVT_INVALID        ? 400
                            : rc == KVT_NOTFOUND     ? 404
                            : rc == KVT_PRECONDITION ? 412
                            : rc == KVT_RANGE        ? 413
                                                     : 503;

    kvt_http_fail(response, status, rc, "%s", err->text);
}

/* All that is wrong, by place; the first is the error's text. */
static void
fail_problems(struct kvt_http_response *response, const struct policy_problems *problems,
              const struct kvt_error *err)
{
    struct kvt_buffer *out = &response->body;

    response->status = 400;
    kvt_buffer_clear(out);
    kvt_buffer_puts(out, "{\"error\":{\"code\":\"INVALID\",");
    advisor_admin_text(out, "message", err->text);
    kvt_buffer_puts(out, "},\"problems\":[");
    for (size_t i = 0; i < problems->count; i++) {
        kvt_buffer_printf(out, "%s{\"line\":%zu,\"column\":%zu,", i == 0 ? "" : ",",
                          problems->list[i].mark.line, problems->list[i].mark.column);
        advisor_admin_text(out, "text", problems->list[i].text);
        kvt_buffer_puts(out, "}");
    }
    kvt_buffer_printf(out, "],\"left_out\":%zu}\n", problems->left_out);
}

/* If-Match: "3", or 3; false: answered. */
static bool
read_expected(const struct kvt_http_request *request, struct kvt_http_response *response,
              uint64_t *expected)
{
    const char *text = kvt_http_header(request, "If-Match");
    const size_t size = text == NULL ? 0 : strlen(text);
    char number[32];

    *expected = 0;
    if (text == NULL || strcmp(text, "*") == 0)
        return true;
    if (size >= 2 && text[0] == '"' && text[size - 1] == '"')
        (void)snprintf(number, sizeof(number), "%.*s", (int)(size - 2), text + 1);
    else
        (void)snprintf(number, sizeof(number), "%s", text);
    if (kvt_parse_u64(number, expected) == KVT_OK && *expected > 0)
        return true;
    kvt_http_fail(response, 400, KVT_INVALID, "If-Match: want the number of a version");
    return false;
}

void
advisor_admin_install(void *arg, const struct kvt_http_request *request,
                      struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct advisor_rulebook_change change = {
        .text = request->body == NULL ? "" : (const char *)request->body,
        .size = request->body_size,
        .source = "api",
    };
    struct policy_problems *problems;
    struct kvt_error err = {.text = ""};
    uint64_t version;
    enum kvt_err rc;

    if (!read_expected(request, response, &change.expected))
        return;
    problems = kvt_calloc(1, sizeof(*problems));
    rc = problems == NULL
             ? kvt_error_set(&err, KVT_NOMEM, "out of memory")
             : advisor_rulebook_install(http->rulebook, advisor_round_writer_calls(http->round),
                                        &change, problems, &version, &err);
    if (rc == KVT_OK)
        advisor_admin_policy(arg, request, response);
    else if (rc == KVT_INVALID && problems != NULL && problems->count > 0)
        fail_problems(response, problems, &err);
    else
        fail(response, rc, &err);
    kvt_free(problems);
}

/* {} or {"version": N}; false: answered. */
static bool
read_version(const struct kvt_http_request *request, struct kvt_http_response *response,
             uint64_t *version)
{
    struct json_object *json = NULL;
    struct kvt_error err;
    bool good;

    *version = 0;
    if (request->body_size == 0)
        return true;
    if (kvt_json_parse(&json, (const char *)request->body, request->body_size, "body", &err) !=
        KVT_OK) {
        kvt_http_fail(response, 400, KVT_INVALID, "%s", err.text);
        return false;
    }
    good = json_object_is_type(json, json_type_object) &&
           (kvt_json_member(json, "version") == NULL ||
            (kvt_json_u64(json, "version", version) && *version > 0));
    json_object_put(json);
    if (!good)
        kvt_http_fail(response, 400, KVT_INVALID,
                      "body: want {\"version\": number}, or {} for the version before this one");
    return good;
}

void
advisor_admin_rollback(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_error err = {.text = ""};
    uint64_t expected;
    uint64_t version;
    uint64_t to;
    enum kvt_err rc;

    if (!read_expected(request, response, &expected) || !read_version(request, response, &to))
        return;
    rc = advisor_rulebook_rollback(http->rulebook, advisor_round_writer_calls(http->round), to,
                                   expected, &version, &err);
    if (rc == KVT_OK)
        advisor_admin_policy(arg, request, response);
    else
        fail(response, rc, &err);
}

/* ---- those that were ---- */

static enum kvt_err
add_version(void *arg, const struct advisor_policy_row *row)
{
    struct kvt_buffer *out = arg;

    kvt_buffer_printf(
        out, "%s{\"version\":%" PRIu64 ",\"since_ms\":%" PRIu64 ",\"size\":%" PRIu64 ",",
        out->data[out->size - 1] == '[' ? "" : ",", row->version, row->since_ms, row->size);
    advisor_admin_text(out, "source", row->source);
    kvt_buffer_puts(out, ",");
    advisor_admin_text(out, "digest", row->digest);
    kvt_buffer_puts(out, "}");
    return kvt_buffer_ok(out) ? KVT_OK : KVT_NOMEM;
}

void
advisor_admin_policies(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(http->store, &txn, NULL);

    (void)request;
    if (rc == KVT_OK) {
        kvt_buffer_puts(&response->body, "{\"schema_version\":1,\"versions\":[");
        rc = advisor_store_policies(&txn, add_version, &response->body);
        advisor_store_end(&txn);
    }
    if (rc == KVT_OK)
        kvt_buffer_puts(&response->body, "]}");
    else
        kvt_http_fail(response, 503, rc, "%s", kvt_err_text(rc));
}
