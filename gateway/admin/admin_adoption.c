#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "gateway/admin/admin_internal.h"
#include "gateway/care/adoption.h"

static void
append_count(struct kvt_buffer *out, const char *name, uint64_t count)
{
    kvt_buffer_printf(out, ",\"%s\":%" PRIu64, name, count);
}

void
gateway_admin_adoption_append(const struct gateway_admin *admin, struct kvt_buffer *out)
{
    struct gateway_adoption_view view;
    const struct gateway_adoption_mark *mark = &view.mark;

    gateway_adoption_view(admin->adoption, &view);
    kvt_buffer_printf(
        out, "{\"state\":\"%s\",\"capped\":%s,\"waiting\":%s,\"why\":\"%s\"",
        gateway_adoption_state_name(mark->state), gateway_adoption_capped(mark) ? "true" : "false",
        view.waiting ? "true" : "false", mark->why == KVT_OK ? "" : kvt_err_name(mark->why));
    append_count(out, "rate", mark->rate);
    append_count(out, "began_ms", mark->began_ms);
    append_count(out, "ended_ms", mark->ended_ms);
    append_count(out, "listed", mark->listed);
    append_count(out, "known", mark->known);
    append_count(out, "adopted", mark->adopted);
    append_count(out, "adopted_bytes", mark->adopted_bytes);
    append_count(out, "adopted_foreign", mark->adopted_foreign);
    append_count(out, "adopted_opaque", mark->adopted_opaque);
    append_count(out, "passed", mark->passed);
    append_count(out, "damaged", mark->damaged);
    append_count(out, "refused", mark->refused);
    kvt_buffer_printf(out, ",\"after\":");
    kvt_buffer_json_string(out, mark->after);
    kvt_buffer_printf(out, "}");
}

bool
gateway_admin_adoption_reason(const struct gateway_admin *admin, char *text, size_t size)
{
    struct gateway_adoption_view view;
    const char *state = "are not counted: run kvtier g4 adopt";

    gateway_adoption_view(admin->adoption, &view);
    if (gateway_adoption_capped(&view.mark))
        return false;
    if (view.mark.state == GATEWAY_ADOPTION_RUNNING)
        state = "are being taken up (kvtier g4 adopt shows how far)";
    else if (view.mark.state == GATEWAY_ADOPTION_STOPPED)
        state =
            view.mark.why == KVT_FULL
                ? "are not counted: the catalog is full; raise catalog.max, then kvtier g4 adopt"
                : "are not counted: their adoption was stopped, kvtier g4 adopt goes on with it";
    (void)snprintf(text, size, "the bucket has objects that %s%s", state,
                   admin->context->tiers.capacity[GATEWAY_TIER_COLD] == 0
                       ? ""
                       : "; until then cold.capacity is not kept");
    return true;
}

static void
answer(const struct gateway_admin *admin, struct kvt_http_response *response)
{
    kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"adoption\":");
    gateway_admin_adoption_append(admin, &response->body);
    kvt_buffer_printf(&response->body, "}\n");
}

void
gateway_admin_adoption_get(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response)
{
    (void)request;
    answer(arg, response);
}

void
gateway_admin_adoption_post(void *arg, const struct kvt_http_request *request,
                            struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    struct json_object *question = NULL;
    uint64_t rate = GATEWAY_ADOPTION_RATE;
    struct kvt_error err = {0};
    const char *action = NULL;

    if (kvt_json_parse(&question, (const char *)request->body, request->body_size, "body", &err) ==
        KVT_OK) {
        action = kvt_json_string(question, "action");
        (void)kvt_json_u64(question, "rate", &rate);
    }
    if (action == NULL || (strcmp(action, "start") != 0 && strcmp(action, "stop") != 0))
        kvt_http_fail(response, 400, KVT_INVALID, "send {\"action\": \"start\" or \"stop\"}");
    else if (rate < 1 || rate > GATEWAY_ADOPTION_RATE_MAX)
        kvt_http_fail(response, 400, KVT_INVALID, "rate is 1 to %d objects a second",
                      GATEWAY_ADOPTION_RATE_MAX);
    else if (strcmp(action, "start") == 0)
        gateway_adoption_start(admin->adoption, rate);
    else
        gateway_adoption_stop(admin->adoption);
    (void)json_object_put(question);
    if (response->status < 400)
        answer(admin, response);
}
