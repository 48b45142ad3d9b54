#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/plan/prefix_moves.h"
#include "advisor/selection/tier_kind.h"
#include "base/core/alloc.h"
#include "base/text/json.h"

enum { TITLE_MAX = 128 };

/* What one may do with a prefix, and what gateways call it. */
static bool
read_verb(const char *text, enum kvt_order_verb *verb)
{
    static const enum kvt_order_verb verbs[] = {KVT_ORDER_PIN, KVT_ORDER_UNPIN, KVT_ORDER_WARM,
                                                KVT_ORDER_DELETE};

    for (size_t i = 0; text != NULL && i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcmp(kvt_order_verb_name(verbs[i]), text) == 0) {
            *verb = verbs[i];
            return true;
        }
    *verb = KVT_ORDER_NONE;
    return false;
}

/* The tier to warm into; nothing lies below the last one. */
static bool
read_to(struct json_object *json, struct advisor_prefix_moves_options *options)
{
    const char *text = kvt_json_string(json, "to");

    options->to = ADVISOR_TIER_KIND_HOT;
    if (!kvt_json_has(json, "to"))
        return true;
    return options->verb == KVT_ORDER_WARM && text != NULL &&
           advisor_tier_kind_parse(text, &options->to) && options->to < ADVISOR_TIER_KIND_FAR;
}

static void
answer_dry(struct kvt_http_response *response, const struct advisor_prefix_moves *selection,
           enum advisor_tier_kind to)
{
    struct kvt_buffer *out = &response->body;

    kvt_buffer_printf(out,
                      "{\"schema_version\":1,\"dry_run\":true,\"prefix_blocks\":%" PRIu64
                      ",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"elsewhere\":%" PRIu64
                      ",\"gateways\":[",
                      selection->blocks, selection->chosen, selection->bytes, selection->elsewhere);
    for (size_t i = 0; i < selection->part_count; i++) {
        const struct advisor_prefix_moves_part *part = &selection->parts[i];

        kvt_buffer_printf(out, "%s{", i == 0 ? "" : ",");
        advisor_admin_text(out, "gateway", part->gateway);
        if (part->from != ADVISOR_TIER_KIND_GONE)
            kvt_buffer_printf(out, ",\"from\":\"%s\",\"to\":\"%s\"",
                              advisor_tier_kind_name(part->from), advisor_tier_kind_name(to));
        kvt_buffer_printf(out, ",\"blocks\":%zu,\"bytes\":%" PRIu64 "}", part->count, part->bytes);
    }
    kvt_buffer_printf(out, "]}");
}

/* The same checks either way. */
static void
submit(const struct advisor_admin *http, const struct advisor_prefix_moves *selection,
       const struct advisor_prefix_moves_options *options, uint64_t until_ms, bool dry,
       struct kvt_http_response *response)
{
    struct advisor_job_moves *moves = kvt_calloc(selection->part_count + 1, sizeof(*moves));
    struct advisor_job_request request = {
        .kind = "prefix", .moves = moves, .move_count = selection->part_count};
    struct advisor_job_row row = {.id = 0};
    struct kvt_error err = {.text = ""};
    char title[TITLE_MAX];
    char hash[KVT_HASH_TEXT_MAX];
    enum kvt_err rc = KVT_OK;

    request.title = title;
    kvt_hash_format(options->hash, hash);
    (void)snprintf(title, sizeof(title), "%s %s of \"%.60s\"%s%s",
                   kvt_order_verb_name(options->verb), hash, options->namespace_,
                   options->to == ADVISOR_TIER_KIND_HOT ? "" : " to ",
                   options->to == ADVISOR_TIER_KIND_HOT ? "" : advisor_tier_kind_name(options->to));
    for (size_t i = 0; moves != NULL && i < selection->part_count; i++)
        moves[i] = (struct advisor_job_moves){.verb = options->verb,
                                              .gateway = selection->parts[i].gateway,
                                              .namespace_ = options->namespace_,
                                              .until_ms = until_ms,
                                              .from = selection->parts[i].from_holder,
                                              .to = selection->parts[i].to_holder,
                                              .bytes = selection->parts[i].bytes,
                                              .items = selection->parts[i].items,
                                              .count = selection->parts[i].count};
    if (moves == NULL)
        rc = kvt_error_set(&err, KVT_NOMEM, "job");
    else if (dry)
        rc = advisor_jobs_check(http->jobs, &request, &err);
    else
        rc = advisor_jobs_submit(http->jobs, &request, &row, &err);
    if (rc == KVT_OK && dry)
        answer_dry(response, selection, options->to);
    else
        advisor_admin_taken(response, rc, &row, &err);
    kvt_free(moves);
}

void
advisor_admin_select(const struct advisor_admin *http, struct json_object *json,
                     struct kvt_http_response *response)
{
    struct advisor_prefix_moves_options options = {.finder = &http->finder,
                                                   .planner = http->planner,
                                                   .namespace_ =
                                                       kvt_json_string(json, "namespace")};
    struct advisor_prefix_moves selection = {.parts = NULL};
    struct kvt_error err = {.text = ""};
    uint64_t until_ms = 0;
    bool dry;
    enum kvt_err rc = advisor_admin_dry(json, &dry, &err);

    if (rc != KVT_OK) {
        kvt_http_fail(response, 400, rc, "%s", err.text);
        return;
    }
    if (kvt_json_has(json, "moves") || kvt_json_has(json, "key")) {
        kvt_http_fail(response, 400, KVT_INVALID,
                      "\"hash\" names a prefix: want no \"moves\" or \"key\" beside it");
        return;
    }
    if (!read_verb(kvt_json_string(json, "verb"), &options.verb) ||
        !kvt_json_hash(json, "hash", &options.hash) ||
        (kvt_json_has(json, "namespace") && options.namespace_ == NULL) ||
        (kvt_json_member(json, "until_ms") != NULL && !kvt_json_u64(json, "until_ms", &until_ms))) {
        kvt_http_fail(response, 400, KVT_INVALID,
                      "a prefix: want {verb: pin, unpin, warm or delete, hash, namespace}");
        return;
    }
    if (!read_to(json, &options)) {
        kvt_http_fail(response, 400, KVT_INVALID, "to: want hot, warm or cold, and verb warm");
        return;
    }
    if (options.namespace_ == NULL)
        options.namespace_ = "";
    rc = advisor_prefix_moves_make(&selection, &options, &err);
    if (rc == KVT_NOTFOUND)
        kvt_http_fail(response, 404, rc, "%s", err.text);
    else if (rc != KVT_OK)
        kvt_http_fail(response, rc == KVT_RANGE ? 413 : 503, rc, "%s", err.text);
    else if (selection.chosen == 0)
        answer_dry(response, &selection, options.to);
    else
        submit(http, &selection, &options, options.verb == KVT_ORDER_PIN ? until_ms : 0, dry,
               response);
    advisor_prefix_moves_release(&selection);
}
