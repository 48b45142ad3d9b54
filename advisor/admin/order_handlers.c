#include <inttypes.h>

#include "advisor/admin/advisor_admin.h"
#include "base/text/json.h"

/* ---- orders ---- */

struct orders {
    struct kvt_buffer *out;
    uint64_t left;
    bool any;
};

static enum kvt_err
add_order(void *arg, const void *data)
{
    const struct advisor_order_row *row = data;
    struct orders *orders = arg;
    struct kvt_buffer *out = orders->out;

    if (orders->left-- == 0)
        return KVT_CANCELLED;
    kvt_buffer_printf(out, "%s{\"epoch\":%" PRIu64 ",\"id\":%" PRIu64 ",", orders->any ? "," : "",
                      row->epoch, row->id);
    orders->any = true;
    advisor_admin_text(out, "gateway", row->gateway);
    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "namespace", row->namespace_);
    kvt_buffer_printf(out, ",\"verb\":\"%s\",",
                      kvt_order_verb_name((enum kvt_order_verb)row->verb));
    advisor_admin_text(out, "from", row->from);
    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "to", row->to);
    kvt_buffer_printf(out, ",\"keep\":%s,", row->keep != 0 ? "true" : "false");
    advisor_admin_text(out, "reason", row->reason);
    kvt_buffer_printf(out,
                      ",\"items\":%u,\"bytes\":%" PRIu64 ",\"issued_ms\":%" PRIu64
                      ",\"expires_ms\":%" PRIu64 ",\"state\":\"%s\",\"done\":%u,\"failed\":%u,"
                      "\"bytes_moved\":%" PRIu64 ",",
                      row->items, row->bytes, row->issued_ms, row->expires_ms,
                      advisor_order_state_name(row->state), row->done, row->failed,
                      row->bytes_moved);
    advisor_admin_text(out, "text", row->text);
    kvt_buffer_printf(out, "}");
    return KVT_OK;
}

void
advisor_admin_orders(void *arg, const struct kvt_http_request *request,
                     struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct orders orders = {.out = &response->body};
    struct advisor_txn txn;
    enum kvt_err rc;

    if (!advisor_admin_number(request, response, "limit", 100, ADVISOR_ADMIN_ROWS_MAX,
                              &orders.left))
        return;
    rc = advisor_store_read(http->store, &txn, NULL);
    if (rc != KVT_OK) {
        kvt_http_fail(response, 503, rc, "%s", kvt_err_text(rc));
        return;
    }
    kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"orders\":[");
    rc = advisor_store_walk(&txn, ADVISOR_ROW_ORDER, add_order, &orders);
    advisor_store_end(&txn);
    if (rc != KVT_OK && rc != KVT_CANCELLED) {
        kvt_buffer_clear(&response->body);
        kvt_http_fail(response, 503, rc, "%s", kvt_err_text(rc));
        return;
    }
    kvt_buffer_printf(&response->body, "]}");
}

/* ---- policy ---- */

void
advisor_admin_set_mode(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct json_object *json;
    struct kvt_error err;
    enum advisor_mode mode;
    const char *text;
    enum kvt_err rc =
        kvt_json_parse(&json, (const char *)request->body, request->body_size, "body", &err);

    if (rc != KVT_OK) {
        kvt_http_fail(response, 400, rc, "%s", err.text);
        return;
    }
    text = kvt_json_string(json, "mode");
    if (text == NULL || !advisor_mode_parse(text, &mode)) {
        kvt_http_fail(response, 400, KVT_INVALID,
                      "body: want {\"mode\": \"off\" or \"observe\" or \"enforce\"}");
        json_object_put(json);
        return;
    }
    json_object_put(json);
    rc = advisor_planner_set_mode(http->planner, mode);
    if (rc != KVT_OK)
        kvt_http_fail(response, 409, rc, "enforce needs orders.key_file to sign orders with");
    else
        advisor_admin_policy(arg, request, response);
}
