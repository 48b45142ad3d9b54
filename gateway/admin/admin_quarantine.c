#include <string.h>

#include "base/text/json.h"
#include "base/text/parse.h"
#include "gateway/admin/admin_internal.h"
#include "gateway/block/quarantine_restore.h"
#include "gateway/tier/quarantine.h"

enum { ROWS = 100, ID_DIGITS = 16 };

void
gateway_admin_quarantine_list(void *arg, const struct kvt_http_request *request,
                              struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;

    kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"entries\":");
    gateway_quarantine_list(admin->context->quarantine,
                            gateway_admin_limit(request, ROWS, GATEWAY_QUARANTINE_ENTRIES_MAX),
                            &response->body);
    kvt_buffer_printf(&response->body, "}\n");
}

static enum kvt_err
drop(struct gateway_context *context, uint64_t id, bool act, struct kvt_error *err)
{
    const enum kvt_err rc = act ? gateway_quarantine_drop(context->quarantine, id) : KVT_OK;

    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "%s", kvt_err_text(rc));
}

void
gateway_admin_quarantine_act(void *arg, const struct kvt_http_request *request,
                             struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    struct json_object *question = NULL;
    struct kvt_error err = {0};
    const char *action = NULL;
    const char *name = NULL;
    char key[KVT_KEY_MAX] = "";
    bool dry_run = false;
    bool unclear = false;
    enum kvt_err rc;
    uint64_t id;

    if (kvt_json_parse(&question, (const char *)request->body, request->body_size, "body", &err) ==
        KVT_OK) {
        action = kvt_json_string(question, "action");
        name = kvt_json_string(question, "id");
        unclear =
            !kvt_json_bool(question, "dry_run", &dry_run) && kvt_json_has(question, "dry_run");
    }
    if (unclear) { /* what was meant to be looked at is not dropped */
        kvt_http_fail(response, 400, KVT_INVALID, "dry_run: want true or false; nothing was done");
    } else if (action == NULL || (strcmp(action, "restore") != 0 && strcmp(action, "drop") != 0) ||
               name == NULL || strlen(name) != ID_DIGITS || !kvt_hash_parse(name, &id)) {
        kvt_http_fail(response, 400, KVT_INVALID,
                      "send {\"action\": \"restore\" or \"drop\", \"id\": sixteen hex digits}");
    } else {
        rc = strcmp(action, "restore") == 0
                 ? gateway_quarantine_restore(admin->context, id, !dry_run, key, &err)
                 : drop(admin->context, id, !dry_run, &err);
        kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"id\":\"%s\",\"done\":%s,", name,
                          rc == KVT_OK && !dry_run ? "true" : "false");
        kvt_buffer_printf(&response->body, "\"code\":\"%s\",\"why_not\":", kvt_err_name(rc));
        kvt_buffer_json_string(&response->body, rc == KVT_OK ? "" : err.text);
        kvt_buffer_printf(&response->body, "}\n");
    }
    (void)json_object_put(question);
}
