/*
 * Dynamo's worker query and HTTP dump: the question, and answers of any length.
 */
#include "wire/dialect/dynamo_answer.h"

#include <inttypes.h>

#include "base/text/msgpack.h"
#include "wire/dialect/dynamo_internal.h"

enum { QUERY_MEMBERS = 6, QUERY_MAX = 512, WRAPPERS_MAX = 4 };

/* ---- the question ---- */

enum kvt_err
wire_dynamo_encode_query(uint64_t worker, uint32_t dp_rank, uint64_t from, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_write(&writer, out, QUERY_MAX);
    kvt_msgpack_put_map(&writer, QUERY_MEMBERS);
    kvt_msgpack_put_str(&writer, "worker_id");
    kvt_msgpack_put_uint(&writer, worker);
    kvt_msgpack_put_str(&writer, "dp_rank");
    kvt_msgpack_put_uint(&writer, dp_rank);
    kvt_msgpack_put_str(&writer, "start_event_id");
    if (from > 0)
        kvt_msgpack_put_uint(&writer, from);
    else
        kvt_msgpack_put_nil(&writer);
    kvt_msgpack_put_str(&writer, "end_event_id");
    kvt_msgpack_put_nil(&writer);
    /* Without this a worker that cannot dump would answer with an empty tree. */
    kvt_msgpack_put_str(&writer, "supports_tree_dump_failed");
    kvt_msgpack_put_bool(&writer, true);
    kvt_msgpack_put_str(&writer, "kind");
    kvt_msgpack_put_str(&writer, "recovery");
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_dynamo_encode_query_json(uint64_t worker, uint32_t dp_rank, uint64_t from,
                              struct kvt_buffer *out)
{
    const size_t before = out->size;

    kvt_buffer_printf(out, "{\"worker_id\":%" PRIu64 ",\"dp_rank\":%u,\"start_event_id\":", worker,
                      dp_rank);
    if (from > 0)
        kvt_buffer_printf(out, "%" PRIu64, from);
    else
        kvt_buffer_printf(out, "null");
    kvt_buffer_printf(out, ",\"end_event_id\":null,\"supports_tree_dump_failed\":true,"
                           "\"kind\":\"recovery\"}");
    if (kvt_buffer_ok(out))
        return KVT_OK;
    out->size = before;
    return out->limit - before < QUERY_MAX ? KVT_RANGE : KVT_NOMEM;
}

/* ---- what an answer is ---- */

enum variant {
    VARIANT_NONE,
    VARIANT_EVENTS,
    VARIANT_DUMP,
    VARIANT_TOO_NEW,
    VARIANT_REFUSED,
    VARIANT_NESTED, /* its `response` is the answer */
};

static enum variant
variant_of(const char *name, size_t size)
{
    const struct wire_cursor_text text = {name, size};

    if (WIRE_CURSOR_IS(text, "Events"))
        return VARIANT_EVENTS;
    if (WIRE_CURSOR_IS(text, "TreeDump"))
        return VARIANT_DUMP;
    if (WIRE_CURSOR_IS(text, "TooNew"))
        return VARIANT_TOO_NEW;
    if (WIRE_CURSOR_IS(text, "StateAgentRecovery"))
        return VARIANT_NESTED;
    if (WIRE_CURSOR_IS(text, "TreeDumpFailed") || WIRE_CURSOR_IS(text, "InvalidRange") ||
        WIRE_CURSOR_IS(text, "Error") || WIRE_CURSOR_IS(text, "Status"))
        return VARIANT_REFUSED;
    return VARIANT_NONE;
}

/* An answer whose events have not been read yet. */
struct outline {
    enum variant variant;
    uint64_t newest;
    bool has_events;
    bool foreign; /* a dump of what is not the worker's */
    const uint8_t *events;
    struct kvt_json_pull json_events;
};

static enum kvt_err
outline_check(const struct outline *outline, struct wire_dynamo_part *part, struct kvt_error *err)
{
    part->newest = outline->newest;
    switch (outline->variant) {
    case VARIANT_EVENTS: part->what = WIRE_DYNAMO_EVENTS; break;
    case VARIANT_DUMP: part->what = WIRE_DYNAMO_DUMP; break;
    case VARIANT_TOO_NEW: part->what = WIRE_DYNAMO_TOO_NEW; return KVT_OK;
    case VARIANT_REFUSED: part->what = WIRE_DYNAMO_REFUSED; return KVT_OK;
    case VARIANT_NONE:
    case VARIANT_NESTED:
        return kvt_error_set(err, KVT_INVALID, "dynamo answer: of no kind that is known");
    }
    if (!outline->has_events)
        return kvt_error_set(err, KVT_INVALID, "dynamo answer: without events");
    /* To take it for all the worker has would void what it does not speak of. */
    if (outline->foreign)
        part->what = WIRE_DYNAMO_REFUSED;
    return KVT_OK;
}

/* ---- msgpack ---- */

/* "all" or {"domain": "worker"} speak of all we follow. */
static bool
pack_scope_is_ours(struct wire_cursor *pack)
{
    struct wire_cursor_text text;
    uint32_t members;
    bool ours = false;

    if (wire_cursor_kind(pack) == WIRE_CURSOR_STR)
        return wire_cursor_str(pack, &text) && WIRE_CURSOR_IS(text, "all");
    (void)wire_cursor_map(pack, &members);
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        text = wire_cursor_key(pack);
        if (WIRE_CURSOR_IS(text, "domain"))
            ours = wire_cursor_str(pack, &text) && WIRE_CURSOR_IS(text, "worker");
        else
            wire_cursor_skip(pack);
    }
    return ours;
}

static void
pack_variant(struct wire_cursor *pack, struct outline *outline, const uint8_t **nested)
{
    uint32_t members;

    if (wire_cursor_kind(pack) == WIRE_CURSOR_ARRAY) {
        /* Of releases that named no last event. */
        outline->has_events = true;
        outline->events = pack->at;
        wire_cursor_skip(pack);
        return;
    }
    (void)wire_cursor_map(pack, &members);
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_cursor_text key = wire_cursor_key(pack);

        if (WIRE_CURSOR_IS(key, "events")) {
            outline->has_events = wire_cursor_kind(pack) == WIRE_CURSOR_ARRAY;
            outline->events = pack->at;
            wire_cursor_skip(pack);
        } else if (WIRE_CURSOR_IS(key, "last_event_id") ||
                   WIRE_CURSOR_IS(key, "newest_available")) {
            (void)wire_cursor_u64(pack, &outline->newest);
        } else if (WIRE_CURSOR_IS(key, "reset_scope")) {
            outline->foreign = !pack_scope_is_ours(pack);
        } else {
            if (WIRE_CURSOR_IS(key, "response"))
                *nested = pack->at;
            wire_cursor_skip(pack);
        }
    }
}

/* One layer: {"data": answer, "complete_final"}, or {variant: content}.  Where the answer goes on
 * inside, or NULL. */
static const uint8_t *
pack_layer(struct wire_cursor *pack, struct outline *outline)
{
    const uint8_t *nested = NULL;
    uint32_t members;

    if (!wire_cursor_map(pack, &members))
        wire_cursor_fail(pack, pack->start, KVT_INVALID, "an answer: a map");
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_cursor_text key = wire_cursor_key(pack);
        const enum variant variant = variant_of(key.bytes, key.size);

        if (variant != VARIANT_NONE) {
            outline->variant = variant;
            pack_variant(pack, outline, &nested);
        } else {
            if (WIRE_CURSOR_IS(key, "data"))
                nested = pack->at;
            wire_cursor_skip(pack);
        }
    }
    return nested;
}

static enum kvt_err
pack_outline(const void *bytes, size_t size, struct outline *outline, struct kvt_error *err)
{
    const uint8_t *nested = bytes;
    struct wire_cursor pack;

    wire_cursor_init(&pack, bytes, size);
    for (int i = 0; i < WRAPPERS_MAX && nested != NULL && pack.code == KVT_OK; i++) {
        *outline = (struct outline){.variant = VARIANT_NONE};
        pack.at = nested;
        nested = pack_layer(&pack, outline);
    }
    return wire_cursor_end(&pack, "dynamo answer", err);
}

static enum kvt_err
pack_begin(const void *bytes, size_t size, struct wire_dynamo_part *part, struct kvt_error *err)
{
    struct outline outline = {.variant = VARIANT_NONE};
    struct wire_cursor pack;
    uint32_t count;
    enum kvt_err rc = pack_outline(bytes, size, &outline, err);

    if (rc == KVT_OK)
        rc = outline_check(&outline, part, err);
    if (rc != KVT_OK || !outline.has_events || part->what == WIRE_DYNAMO_REFUSED)
        return rc;
    wire_cursor_init(&pack, bytes, size);
    pack.at = outline.events;
    (void)wire_cursor_array(&pack, &count);
    part->at = (size_t)(pack.at - pack.start);
    part->left = count;
    return KVT_OK;
}

/* As many events as there is room for. */
static enum kvt_err
pack_part(const void *bytes, size_t size, struct wire_dynamo_part *part,
          struct wire_raw_batch *batch, struct kvt_error *err)
{
    struct wire_cursor pack;

    wire_cursor_init(&pack, bytes, size);
    pack.at += part->at;
    while (part->left > 0) {
        const struct wire_raw_builder_mark mark = wire_raw_builder_mark(batch);

        wire_dynamo_pack_event(&pack, batch);
        if (pack.code == KVT_RANGE && mark.events > 0) {
            wire_raw_builder_rewind(batch, &mark);
            break;
        }
        if (pack.code != KVT_OK)
            return wire_cursor_end(&pack, "dynamo answer", err);
        part->at = (size_t)(pack.at - pack.start);
        part->left--;
    }
    part->more = part->left > 0;
    return KVT_OK;
}

/* ---- JSON ---- */

static bool
json_scope_is_ours(struct kvt_json_pull *pull)
{
    struct kvt_json_slice text;
    bool ours = false;

    if (kvt_json_pull_peek(pull) == KVT_JSON_STRING)
        return kvt_json_pull_string(pull, &text) && kvt_json_slice_is(&text, "all");
    if (kvt_json_pull_object(pull)) {
        while (kvt_json_pull_member(pull, &text)) {
            if (kvt_json_slice_is(&text, "domain"))
                ours = kvt_json_pull_string(pull, &text) && kvt_json_slice_is(&text, "worker");
            else
                kvt_json_pull_skip(pull);
        }
    }
    return ours;
}

static void
json_note_events(struct kvt_json_pull *pull, struct outline *outline)
{
    outline->has_events = kvt_json_pull_peek(pull) == KVT_JSON_ARRAY;
    outline->json_events = *pull;
    kvt_json_pull_skip(pull);
}

static void
json_variant(struct kvt_json_pull *pull, struct outline *outline, struct kvt_json_pull *nested)
{
    struct kvt_json_slice key;

    if (kvt_json_pull_peek(pull) == KVT_JSON_ARRAY) {
        json_note_events(pull, outline);
        return;
    }
    if (!kvt_json_pull_object(pull))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "events")) {
            json_note_events(pull, outline);
        } else if (kvt_json_slice_is(&key, "last_event_id") ||
                   kvt_json_slice_is(&key, "newest_available")) {
            (void)kvt_json_pull_u64(pull, &outline->newest);
        } else if (kvt_json_slice_is(&key, "reset_scope")) {
            outline->foreign = !json_scope_is_ours(pull);
        } else {
            if (kvt_json_slice_is(&key, "response"))
                *nested = *pull;
            kvt_json_pull_skip(pull);
        }
    }
}

static void
json_layer(struct kvt_json_pull *pull, struct outline *outline, struct kvt_json_pull *nested)
{
    struct kvt_json_slice key;

    if (!kvt_json_pull_object(pull)) {
        kvt_json_pull_fail(pull, 0, KVT_INVALID, "an answer: an object");
        return;
    }
    while (kvt_json_pull_member(pull, &key)) {
        const enum variant variant = key.escaped ? VARIANT_NONE : variant_of(key.bytes, key.size);

        if (variant != VARIANT_NONE) {
            outline->variant = variant;
            json_variant(pull, outline, nested);
        } else {
            if (kvt_json_slice_is(&key, "data"))
                *nested = *pull;
            kvt_json_pull_skip(pull);
        }
    }
}

static enum kvt_err
json_begin(const char *text, size_t size, struct wire_dynamo_part *part, struct kvt_error *err)
{
    struct outline outline = {.variant = VARIANT_NONE};
    struct kvt_json_pull nested = {.text = NULL};
    struct kvt_json_pull pull;
    enum kvt_err rc;

    kvt_json_pull_init(&pull, text, size);
    json_layer(&pull, &outline, &nested);
    rc = kvt_json_pull_end(&pull, "dynamo answer", err);
    /* The text is known to be whole now; what is inside need not be looked at to its end. */
    for (int i = 1; i < WRAPPERS_MAX && nested.text != NULL && rc == KVT_OK; i++) {
        pull = nested;
        nested.text = NULL;
        outline = (struct outline){.variant = VARIANT_NONE};
        json_layer(&pull, &outline, &nested);
        if (pull.code != KVT_OK)
            rc =
                kvt_error_set(err, pull.code, "dynamo answer of %zu bytes: at byte %zu expected %s",
                              size, pull.failed_at, pull.wanted);
    }
    if (rc == KVT_OK)
        rc = outline_check(&outline, part, err);
    if (rc != KVT_OK || !outline.has_events || part->what == WIRE_DYNAMO_REFUSED)
        return rc;
    part->json = outline.json_events;
    if (kvt_json_pull_array(&part->json))
        part->left = 1;
    return KVT_OK;
}

/* Events of the array that the part is in, as many as there is room for; `left` is 0 when that was
 * the array's end. */
static enum kvt_err
json_part(struct wire_dynamo_part *part, struct wire_raw_batch *batch, struct kvt_error *err)
{
    struct kvt_json_pull *pull = &part->json;
    struct kvt_json_pull before = *pull;

    while (kvt_json_pull_element(pull)) {
        const struct wire_raw_builder_mark mark = wire_raw_builder_mark(batch);

        wire_dynamo_json_event(pull, batch);
        if (pull->code == KVT_RANGE && mark.events > 0) {
            wire_raw_builder_rewind(batch, &mark);
            *pull = before;
            return KVT_OK;
        }
        before = *pull;
    }
    part->left = 0;
    if (pull->code == KVT_OK)
        return KVT_OK;
    return kvt_error_set(err, pull->code, "dynamo answer of %zu bytes: at byte %zu expected %s",
                         pull->size, pull->failed_at, pull->wanted);
}

/* ---- answers ---- */

/* An answer of the releases that named no last event: the last that is there. */
static void
note_newest(struct wire_dynamo_part *part, const struct wire_raw_batch *batch)
{
    for (uint32_t i = 0; i < batch->event_count; i++)
        if (!batch->events[i].unnumbered && batch->events[i].id > part->newest)
            part->newest = batch->events[i].id;
}

enum kvt_err
wire_dynamo_decode_answer_part(const void *bytes, size_t size, struct wire_dynamo_part *part,
                               struct wire_raw_batch *batch, struct kvt_error *err)
{
    const bool json = wire_dynamo_is_json(bytes, size);
    enum kvt_err rc = KVT_OK;

    wire_raw_batch_clear(batch);
    part->more = false;
    if (!part->begun) {
        part->what = WIRE_DYNAMO_REFUSED;
        rc = json ? json_begin(bytes, size, part, err) : pack_begin(bytes, size, part, err);
        part->begun = true;
    }
    if (rc == KVT_OK && part->left > 0) {
        rc = json ? json_part(part, batch, err) : pack_part(bytes, size, part, batch, err);
        part->more = part->left > 0;
    }
    if (rc != KVT_OK) {
        wire_raw_batch_clear(batch);
        part->more = false;
        part->left = 0;
    } else if (part->what == WIRE_DYNAMO_EVENTS) {
        note_newest(part, batch);
    }
    return rc;
}

/* ---- the HTTP dump ---- */

static enum kvt_err
dump_fail(struct kvt_json_pull *pull, struct kvt_error *err)
{
    return kvt_error_set(err, pull->code, "dynamo dump of %zu bytes: at byte %zu expected %s",
                         pull->size, pull->failed_at, pull->wanted);
}

/* Go to the next group's events; `left` is 0 when there is none.  A group without events (its
 * indexer failed) is REFUSED, and no events are what it has. */
static void
dump_next_group(struct wire_dynamo_part *part)
{
    struct kvt_json_pull *pull = &part->json;
    struct kvt_json_slice key;

    part->left = 0;
    part->what = WIRE_DYNAMO_DUMP;
    if (!kvt_json_pull_member(pull, &part->group))
        return;
    part->left = 1;
    part->what = WIRE_DYNAMO_REFUSED;
    if (kvt_json_pull_peek(pull) == KVT_JSON_ARRAY) {
        /* The events themselves: releases before routing groups. */
        part->in_group = kvt_json_pull_array(pull);
    } else if (kvt_json_pull_object(pull)) {
        while (!part->in_group && kvt_json_pull_member(pull, &key)) {
            if (kvt_json_slice_is(&key, "events"))
                part->in_group = kvt_json_pull_array(pull);
            else
                kvt_json_pull_skip(pull);
        }
    }
    if (part->in_group)
        part->what = WIRE_DYNAMO_DUMP;
}

/* Leave a group whose events were all read. */
static void
dump_leave_group(struct wire_dynamo_part *part)
{
    struct kvt_json_slice key;

    part->in_group = false;
    if (part->json.depth > 1)
        while (kvt_json_pull_member(&part->json, &key))
            kvt_json_pull_skip(&part->json);
}

static enum kvt_err
dump_step(const void *bytes, size_t size, struct wire_dynamo_part *part,
          struct wire_raw_batch *batch, struct kvt_error *err)
{
    struct kvt_json_pull *pull = &part->json;
    struct kvt_json_pull ahead;
    enum kvt_err rc;

    part->more = false;
    if (!part->begun) {
        part->begun = true;
        kvt_json_pull_init(pull, bytes, size);
        if (!kvt_json_pull_object(pull))
            kvt_json_pull_fail(pull, 0, KVT_INVALID, "an object of groups");
    }
    if (!part->in_group)
        dump_next_group(part);
    if (part->in_group) {
        rc = json_part(part, batch, err);
        if (rc != KVT_OK)
            return rc;
        if (part->left > 0) {
            part->more = true;
            return KVT_OK;
        }
        dump_leave_group(part);
    }
    /* Is there another group?  Looked at in a copy: the next call is to read it. */
    ahead = *pull;
    if (pull->code == KVT_OK && pull->depth > 0) {
        struct kvt_json_slice key;

        part->more = kvt_json_pull_member(&ahead, &key);
        if (!part->more)
            *pull = ahead;
    }
    if (part->more)
        return KVT_OK;
    if (pull->code != KVT_OK)
        return dump_fail(pull, err);
    return kvt_json_pull_end(pull, "dynamo dump", err);
}

enum kvt_err
wire_dynamo_decode_dump_part(const void *bytes, size_t size, struct wire_dynamo_part *part,
                             struct wire_raw_batch *batch, struct kvt_error *err)
{
    enum kvt_err rc;

    wire_raw_batch_clear(batch);
    rc = dump_step(bytes, size, part, batch, err);
    if (rc == KVT_OK && part->group.bytes != NULL &&
        !kvt_json_slice_copy(&part->group, batch->namespace_, sizeof(batch->namespace_), NULL))
        rc = kvt_error_set(err, KVT_RANGE, "dynamo dump: a group's name is longer than %d bytes",
                           KVT_NAMESPACE_MAX - 1);
    if (rc != KVT_OK) {
        wire_raw_batch_clear(batch);
        part->more = false;
    }
    return rc;
}
