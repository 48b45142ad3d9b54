#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "gateway/admin/admin_internal.h"
#include "gateway/care/purge.h"

static void
append_report(struct kvt_buffer *out, const char *cursor, const struct gateway_purge_report *report)
{
    const char *comma = "";

    kvt_buffer_printf(out, "\"cursor\":");
    kvt_buffer_json_string(out, cursor);
    kvt_buffer_printf(out, ",\"found\":{");
#define X(name)                                                                                    \
    kvt_buffer_printf(out, "%s\"" #name "\":%" PRIu64, comma, report->name);                       \
    comma = ",";
    GATEWAY_PURGE_COUNTS(X)
#undef X
    kvt_buffer_printf(out,
                      "},\"removed\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"text\":", report->removed,
                      report->failed);
    kvt_buffer_json_string(out, report->text);
    kvt_buffer_printf(out, ",\"uploads_by\":\"%s\",\"versions\":%s}\n", report->uploads_by,
                      report->versions ? "true" : "false");
}

void
gateway_admin_purge(void *arg, const struct kvt_http_request *request,
                    struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    char cursor[GATEWAY_PURGE_CURSOR_MAX] = "";
    struct gateway_purge_report report;
    struct json_object *question = NULL;
    struct kvt_error err = {0};
    const char *name = NULL;
    const char *from = NULL;
    bool act = false;
    enum kvt_err rc;

    if (kvt_json_parse(&question, (const char *)request->body, request->body_size, "body", &err) ==
        KVT_OK) {
        name = kvt_json_string(question, "namespace");
        from = kvt_json_string(question, "cursor");
        (void)kvt_json_bool(question, "act", &act);
    }
    if (name == NULL || !gateway_purge_namespace_ok(name) ||
        (from != NULL && strlen(from) >= sizeof(cursor))) {
        kvt_http_fail(response, 400, KVT_INVALID,
                      "send {\"namespace\": \"tenant\" or \"tenant/model\", \"act\": true}; a "
                      "namespace is not empty, and no part of it is a number");
        goto done;
    }
    (void)snprintf(cursor, sizeof(cursor), "%s", from == NULL ? "" : from);
    rc = gateway_purge_step(admin->context, name, act, cursor, &report, &err);
    if (rc == KVT_INVALID) {
        kvt_http_fail(response, 400, rc, "cursor: want what the step before gave");
    } else if (rc != KVT_OK) {
        kvt_http_fail(response, 503, rc, "%.180s", err.text);
    } else {
        kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"gateway\":");
        kvt_buffer_json_string(&response->body, admin->context->identity.name);
        kvt_buffer_printf(&response->body, ",\"namespace\":");
        kvt_buffer_json_string(&response->body, name);
        kvt_buffer_printf(&response->body, ",");
        append_report(&response->body, cursor, &report);
    }
done:
    (void)json_object_put(question);
}
