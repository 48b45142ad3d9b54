/*
 * What RouterEvents come in: an envelope, a ZMQ frame, or nothing.
 */
#include "wire/dialect/dynamo.h"

#include "wire/dialect/dynamo_internal.h"

enum { FRAME_VERSION = 1, FRAME_HEAD = 5, NUMBER_SIZE = 8 };

bool
wire_dynamo_is_topic(const char *topic, size_t size)
{
    const struct wire_cursor_text text = {topic, size};

    return WIRE_CURSOR_IS(text, "kv-events") || WIRE_CURSOR_IS(text, "kv_events");
}

bool
wire_dynamo_is_json(const void *bytes, size_t size)
{
    const char *text = bytes;

    for (size_t i = 0; i < size; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r' && text[i] != '\n')
            return text[i] == '{' || text[i] == '[';
    return false;
}

/* ---- one event or an array of them ---- */

static enum kvt_err
decode_json_events(const char *text, size_t size, struct wire_raw_batch *batch,
                   struct kvt_error *err)
{
    struct kvt_json_pull pull;

    kvt_json_pull_init(&pull, text, size);
    if (kvt_json_pull_peek(&pull) != KVT_JSON_ARRAY) {
        wire_dynamo_json_event(&pull, batch);
    } else if (kvt_json_pull_array(&pull)) {
        while (kvt_json_pull_element(&pull))
            wire_dynamo_json_event(&pull, batch);
    }
    return kvt_json_pull_end(&pull, "dynamo events", err);
}

enum kvt_err
wire_dynamo_decode_events(const void *bytes, size_t size, struct wire_raw_batch *batch,
                          struct kvt_error *err)
{
    struct wire_cursor pack;
    uint32_t count;

    if (wire_dynamo_is_json(bytes, size))
        return decode_json_events(bytes, size, batch, err);
    wire_cursor_init(&pack, bytes, size);
    if (wire_cursor_kind(&pack) == WIRE_CURSOR_MAP) {
        wire_dynamo_pack_event(&pack, batch);
    } else if (wire_cursor_kind(&pack) == WIRE_CURSOR_ARRAY && wire_cursor_array(&pack, &count)) {
        /* An event by positions says not which release's positions those are. */
        if (count > 0 && wire_cursor_kind(&pack) == WIRE_CURSOR_INT)
            wire_cursor_fail(&pack, pack.at, KVT_INVALID, "an event with names, not by positions");
        for (uint32_t i = 0; i < count && pack.code == KVT_OK; i++)
            wire_dynamo_pack_event(&pack, batch);
    } else {
        wire_cursor_fail(&pack, pack.at, KVT_INVALID, "an event or an array of them");
    }
    return wire_cursor_end(&pack, "dynamo events", err);
}

/* ---- the envelope ---- */

enum { PUBLISHER_ID = 1 << 0, SEQUENCE = 1 << 1, PAYLOAD = 1 << 2 };

struct envelope {
    unsigned seen;
    bool bare; /* no envelope, but an event by itself */
    bool foreign_topic;
    const uint8_t *payload;
    size_t payload_size;
};

/* An array of numbers: bytes, collected where a batch has its tokens, of which RouterEvents have
 * none. */
static void
read_payload_list(struct wire_cursor *pack, struct wire_raw_batch *batch, struct envelope *envelope)
{
    uint8_t *scratch = (uint8_t *)batch->token_ids;
    uint32_t count;
    uint64_t byte;

    (void)wire_cursor_array(pack, &count);
    if (count > WIRE_RAW_TOKENS_MAX * sizeof(*batch->token_ids))
        wire_cursor_fail(pack, pack->at, KVT_RANGE, "a shorter payload");
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++) {
        if (!wire_cursor_u64(pack, &byte) || byte > UINT8_MAX)
            wire_cursor_fail(pack, pack->at, KVT_INVALID, "bytes before this byte");
        scratch[i] = (uint8_t)byte;
    }
    envelope->payload = scratch;
    envelope->payload_size = count;
}

static void
read_payload(struct wire_cursor *pack, struct wire_raw_batch *batch, struct envelope *envelope)
{
    const uint8_t *start = pack->at;

    switch (wire_cursor_kind(pack)) {
    case WIRE_CURSOR_BIN:
        (void)wire_cursor_bin(pack, &envelope->payload, &envelope->payload_size);
        break;
    case WIRE_CURSOR_ARRAY: read_payload_list(pack, batch, envelope); break;
    default: wire_cursor_fail(pack, start, KVT_INVALID, "a payload of bytes"); break;
    }
}

static void
read_number(struct wire_cursor *pack, uint64_t *number)
{
    const uint8_t *start = pack->at;

    if (!wire_cursor_u64(pack, number))
        wire_cursor_fail(pack, start, KVT_INVALID, "a number of 64 bits");
}

static void
read_envelope(struct wire_cursor *pack, struct wire_raw_batch *batch, struct envelope *envelope)
{
    struct wire_cursor_text topic;
    uint32_t members;

    (void)wire_cursor_map(pack, &members);
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_cursor_text key = wire_cursor_key(pack);

        if (WIRE_CURSOR_IS(key, "publisher_id")) {
            envelope->seen |= PUBLISHER_ID;
            read_number(pack, &batch->publisher);
        } else if (WIRE_CURSOR_IS(key, "sequence")) {
            envelope->seen |= SEQUENCE;
            read_number(pack, &batch->sequence);
        } else if (WIRE_CURSOR_IS(key, "published_at")) {
            read_number(pack, &batch->time_ms);
        } else if (WIRE_CURSOR_IS(key, "topic")) {
            envelope->foreign_topic =
                !wire_cursor_str(pack, &topic) || !wire_dynamo_is_topic(topic.bytes, topic.size);
        } else if (WIRE_CURSOR_IS(key, "payload")) {
            envelope->seen |= PAYLOAD;
            read_payload(pack, batch, envelope);
        } else if (WIRE_CURSOR_IS(key, "worker_id") || WIRE_CURSOR_IS(key, "event")) {
            envelope->bare = true;
            return;
        } else {
            wire_cursor_skip(pack);
        }
    }
}

static enum kvt_err
decode_pack(const void *bytes, size_t size, struct wire_raw_batch *batch, struct kvt_error *err)
{
    struct envelope envelope = {.seen = 0};
    struct wire_cursor pack;
    enum kvt_err rc;

    wire_cursor_init(&pack, bytes, size);
    if (wire_cursor_kind(&pack) != WIRE_CURSOR_MAP)
        return wire_dynamo_decode_events(bytes, size, batch, err);
    read_envelope(&pack, batch, &envelope);
    if (envelope.bare) {
        batch->publisher = batch->sequence = batch->time_ms = 0;
        return wire_dynamo_decode_events(bytes, size, batch, err);
    }
    if (pack.code == KVT_OK && envelope.seen != (PUBLISHER_ID | SEQUENCE | PAYLOAD))
        wire_cursor_fail(&pack, pack.start, KVT_INVALID,
                         "an envelope with publisher_id, sequence and payload");
    rc = wire_cursor_end(&pack, "dynamo envelope", err);
    if (rc != KVT_OK)
        return rc;
    if (envelope.foreign_topic) {
        batch->publisher = batch->sequence = batch->time_ms = 0;
        return KVT_OK;
    }
    batch->has_sequence = true;
    return wire_dynamo_decode_events(envelope.payload, envelope.payload_size, batch, err);
}

enum kvt_err
wire_dynamo_decode(const void *bytes, size_t size, struct wire_raw_batch *batch,
                   struct kvt_error *err)
{
    if (wire_dynamo_is_json(bytes, size))
        return wire_dynamo_decode_json(bytes, size, batch, err);
    return decode_pack(bytes, size, batch, err);
}

/* ---- ZMQ ---- */

enum kvt_err
wire_dynamo_frames(const void *publisher, size_t publisher_size, const void *sequence,
                   size_t sequence_size, const void *body, size_t body_size,
                   struct wire_dynamo_frames *frames, struct kvt_error *err)
{
    const uint8_t *head = body;
    uint32_t length;

    *frames = (struct wire_dynamo_frames){.publisher = 0};
    if (publisher_size != NUMBER_SIZE || sequence_size != NUMBER_SIZE)
        return kvt_error_set(err, KVT_INVALID,
                             "dynamo frames: publisher of %zu and sequence of %zu bytes, not 8",
                             publisher_size, sequence_size);
    if (body_size < FRAME_HEAD)
        return kvt_error_set(err, KVT_INVALID, "dynamo frames: body of %zu bytes, at least %d",
                             body_size, FRAME_HEAD);
    if (head[0] != FRAME_VERSION)
        return kvt_error_set(err, KVT_INVALID, "dynamo frames: version %u, expected %d", head[0],
                             FRAME_VERSION);
    memcpy(&length, head + 1, sizeof(length));
    length = __builtin_bswap32(length);
    if (length != body_size - FRAME_HEAD)
        return kvt_error_set(err, KVT_INVALID, "dynamo frames: %u bytes announced, %zu bytes there",
                             length, body_size - FRAME_HEAD);
    *frames = (struct wire_dynamo_frames){kvt_msgpack_be64(publisher), kvt_msgpack_be64(sequence),
                                          head + FRAME_HEAD, length};
    return KVT_OK;
}
