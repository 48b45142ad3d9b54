#include <inttypes.h>

#include "base/text/json.h"
#include "gateway/admin/admin_internal.h"

static void
append_last(struct kvt_buffer *out, const struct gateway_packer_state *state)
{
    const struct g4_compaction_report *last = &state->last;

    kvt_buffer_printf(out,
                      ",\"last\":{\"ended_ms\":%" PRIu64 ",\"took_ms\":%" PRIu64
                      ",\"reason\":\"%s\",\"error\":",
                      state->last_ms, state->last_took_ms, state->last_reason);
    kvt_buffer_json_string(out, state->last_error);
    kvt_buffer_printf(out,
                      ",\"packed\":%" PRIu64 ",\"forwarded\":%" PRIu64 ",\"dropped\":%" PRIu64
                      ",\"removed\":%" PRIu64 ",\"copied_bytes\":%" PRIu64 ",\"bad\":%" PRIu64,
                      last->packed, last->forwarded, last->dropped, last->removed,
                      last->copied_bytes, last->bad);
    kvt_buffer_printf(
        out, ",\"plain_blocks\":%" PRIu64 ",\"plain_bytes\":%" PRIu64 ",\"full\":%s,\"more\":%s}}",
        last->plain_blocks, last->plain_bytes, last->full ? "true" : "false",
        last->more ? "true" : "false");
}

static void
append_outlook(struct kvt_buffer *out, const struct gateway_packer_state *state)
{
    const struct g4_compaction_outlook *outlook = &state->outlook;

    kvt_buffer_printf(out,
                      ",\"answered\":%" PRIu64 ",\"outlook\":{\"plain_blocks\":%" PRIu64
                      ",\"plain_bytes\":%" PRIu64 ",\"pack_blocks\":%" PRIu64
                      ",\"pack_bytes\":%" PRIu64 ",\"forward_segments\":%" PRIu64
                      ",\"forward_bytes\":%" PRIu64 ",\"full\":%s,\"error\":",
                      state->answered, outlook->plain_blocks, outlook->plain_bytes,
                      outlook->pack_blocks, outlook->pack_bytes, outlook->forward_segments,
                      outlook->forward_bytes, outlook->full ? "true" : "false");
    kvt_buffer_json_string(out, state->outlook_error);
    kvt_buffer_printf(out, "}");
}

static void
append_space(struct kvt_buffer *out, const struct gateway_packer_state *state)
{
    kvt_buffer_printf(out, "{\"namespace\":");
    kvt_buffer_json_string(out, state->namespace_);
    kvt_buffer_printf(out,
                      ",\"manifest\":%" PRIu64 ",\"segments\":%" PRIu64 ",\"blocks\":%" PRIu64
                      ",\"pending\":%" PRIu64 ",\"live_bytes\":%" PRIu64
                      ",\"segment_bytes\":%" PRIu64 ",\"runs\":%" PRIu64,
                      state->totals.number, state->totals.segments, state->totals.blocks,
                      state->totals.pending, state->totals.live_bytes, state->totals.segment_bytes,
                      state->runs);
    append_outlook(out, state);
    append_last(out, state);
}

void
gateway_admin_packing_status(struct gateway_packer *packer, struct kvt_buffer *out)
{
    struct gateway_packer_state state;

    kvt_buffer_printf(out, "\"packing\":[");
    for (size_t i = 0; i < gateway_packer_count(packer); i++) {
        gateway_packer_state(packer, i, &state);
        kvt_buffer_printf(out, i > 0 ? "," : "");
        append_space(out, &state);
    }
    kvt_buffer_printf(out, "],");
}

void
gateway_admin_packing_ask(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    struct json_object *question = NULL;
    struct kvt_error err = {0};
    const char *name = NULL;
    bool only_look = false;
    bool unclear = false;
    uint64_t ticket;

    if (kvt_json_parse(&question, (const char *)request->body, request->body_size, "body", &err) ==
        KVT_OK) {
        name = kvt_json_string(question, "namespace");
        unclear =
            !kvt_json_bool(question, "dry_run", &only_look) && kvt_json_has(question, "dry_run");
    }
    if (unclear) {
        kvt_http_fail(response, 400, KVT_INVALID, "dry_run: want true or false; nothing was done");
    } else if (name == NULL) {
        kvt_http_fail(response, 400, KVT_INVALID, "send {\"namespace\": \"...\"}");
    } else if (gateway_packer_ask(admin->context->packer, name, only_look, &ticket) != KVT_OK) {
        kvt_http_fail(response, 404, KVT_NOTFOUND, "it is not among packed.namespaces");
    } else {
        kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"asked\":true,\"namespace\":");
        kvt_buffer_json_string(&response->body, name);
        kvt_buffer_printf(&response->body, ",\"ticket\":%" PRIu64 "}\n", ticket);
    }
    (void)json_object_put(question);
}
