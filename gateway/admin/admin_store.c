#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/json.h"
#include "base/text/parse.h"
#include "gateway/admin/admin_internal.h"
#include "gateway/care/inspect.h"
#include "gateway/tier/gateway_tiers.h"

/* ---- listings ---- */

size_t
gateway_admin_limit(const struct kvt_http_request *request, size_t fallback, size_t max)
{
    const char *text = kvt_http_query(request, "limit");
    uint64_t limit;

    if (text == NULL || kvt_parse_u64(text, &limit) != KVT_OK || limit == 0)
        return fallback;
    return limit < max ? (size_t)limit : max;
}

static void
append_listed(struct kvt_buffer *out, const struct g4_listed *row)
{
    kvt_buffer_printf(out, "{\"key\":");
    kvt_buffer_json_string(out, row->key);
    kvt_buffer_printf(out,
                      ",\"length\":%" PRIu64 ",\"modified_ms\":%" PRIu64 ",\"etag\":", row->size,
                      row->modified_ms);
    kvt_buffer_json_string(out, row->etag);
    kvt_buffer_printf(out, "}\n");
}

static void
append_page(struct kvt_http_response *response, const struct g4_request *page)
{
    response->content_type = "application/x-ndjson";
    for (size_t i = 0; i < page->listed_count; i++)
        append_listed(&response->body, &page->listed[i]);
    kvt_buffer_printf(&response->body, "{\"next_cursor\":");
    kvt_buffer_json_string(&response->body, page->token);
    kvt_buffer_printf(&response->body, "}\n");
}

void
gateway_admin_store_list(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    static const char *const names[GATEWAY_TIERS] = {"the hot volume", "the bucket",
                                                     "the warm volume", "the far bucket"};
    const char *tier = kvt_http_query(request, "tier");
    const char *cursor = kvt_http_query(request, "cursor");
    const char *prefix = kvt_http_query(request, "prefix");
    struct g4_request page = {.verb = G4_LIST,
                              .key = prefix == NULL ? "" : prefix,
                              .after = kvt_http_query(request, "after")};
    enum gateway_tier number = GATEWAY_TIER_HOT;
    struct g4_store *store;

    if (tier == NULL || !gateway_tier_find(tier, &number) ||
        !gateway_tier_exists(&admin->context->tiers, number)) {
        kvt_http_fail(
            response, 400, KVT_INVALID, "tier is hot or cold%s%s",
            gateway_tier_exists(&admin->context->tiers, GATEWAY_TIER_WARM) ? " or warm" : "",
            gateway_tier_exists(&admin->context->tiers, GATEWAY_TIER_FAR) ? " or far" : "");
        return;
    }
    store = gateway_tier_store(&admin->context->tiers, 1u << number);
    if (strlen(page.key) >= KVT_KEY_MAX ||
        (page.after != NULL && strlen(page.after) >= KVT_KEY_MAX) ||
        (cursor != NULL && strlen(cursor) >= G4_TOKEN_MAX)) {
        kvt_http_fail(response, 400, KVT_INVALID, "prefix, after or cursor is too long");
        return;
    }
    (void)snprintf(page.token, sizeof(page.token), "%s", cursor == NULL ? "" : cursor);
    if (store == NULL) { /* no hot volume: there is nothing on it */
        page.token[0] = '\0';
        append_page(response, &page);
        return;
    }
    page.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*page.listed));
    if (page.listed == NULL)
        kvt_http_fail(response, 503, KVT_NOMEM, "out of memory");
    else if (g4_store_perform(store, &page) != KVT_OK)
        kvt_http_fail(response, 503, KVT_UNAVAILABLE, "%s could not be listed%s%.160s",
                      names[number], strncmp(page.error.text, ": ", 2) == 0 ? "" : ": ",
                      page.error.text);
    else
        append_page(response, &page);
    kvt_free(page.listed);
}

/* ---- one key ---- */

static void
append_seen(struct kvt_buffer *out, const char *key, const struct gateway_inspection *seen)
{
    kvt_buffer_printf(out, "{\"schema_version\":1,\"key\":");
    kvt_buffer_json_string(out, key);
    kvt_buffer_printf(out, ",\"finding\":\"%s\",\"tier\":\"%s\",\"age_ms\":%" PRIu64 ",\"text\":",
                      gateway_finding_word(seen->finding), gateway_tier_name(seen->tier),
                      seen->age_ms);
    kvt_buffer_json_string(out, seen->text);
    kvt_buffer_printf(out, ",\"remedy\":\"%s\"", gateway_finding_remedy(seen->finding));
}

void
gateway_admin_store_inspect(void *arg, const struct kvt_http_request *request,
                            struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    struct gateway_inspection seen;
    struct kvt_error err = {0};

    if (request->tail[0] == '\0' || strlen(request->tail) >= KVT_KEY_MAX) {
        kvt_http_fail(response, 400, KVT_INVALID, "not a key");
    } else if (gateway_inspect(admin->context, request->tail, &seen, &err) != KVT_OK) {
        kvt_http_fail(response, 503, KVT_UNAVAILABLE, "the key could not be looked at: %.180s",
                      err.text);
    } else {
        append_seen(&response->body, request->tail, &seen);
        kvt_buffer_printf(&response->body, "}\n");
    }
}

void
gateway_admin_store_repair(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    struct json_object *question = NULL;
    struct gateway_remedy remedy = {.alone = false};
    struct gateway_inspection seen;
    struct kvt_error err = {0};
    const char *key;
    enum kvt_err rc;

    rc = kvt_json_parse(&question, (const char *)request->body, request->body_size, "body", &err);
    key = rc == KVT_OK ? kvt_json_string(question, "key") : NULL;
    if (key == NULL || key[0] == '\0' || strlen(key) >= KVT_KEY_MAX) {
        kvt_http_fail(response, 400, KVT_INVALID, "send {\"key\": \"...\"}");
    } else {
        (void)kvt_json_u64(question, "older_ms", &remedy.older_ms);
        (void)kvt_json_bool(question, "alone", &remedy.alone);
        rc = gateway_inspect_repair(admin->context, key, &remedy, &seen, &err);
        append_seen(&response->body, key, &seen);
        kvt_buffer_printf(&response->body, ",\"done\":%s,\"code\":\"%s\",\"why_not\":",
                          rc == KVT_OK ? "true" : "false", kvt_err_name(rc));
        kvt_buffer_json_string(&response->body, rc == KVT_OK ? "" : err.text);
        kvt_buffer_printf(&response->body, "}\n");
    }
    (void)json_object_put(question);
}
