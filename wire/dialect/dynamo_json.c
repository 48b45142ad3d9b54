/*
 * RouterEvents and their envelope in JSON (JetStream, HTTP dumps, releases before msgpack).
 */
#include <string.h>

#include "wire/dialect/dynamo_internal.h"

#define NO_ROOM "no more events, blocks and objects than a batch holds"

static void
no_room(struct kvt_json_pull *pull)
{
    kvt_json_pull_fail(pull, pull->at, KVT_RANGE, NO_ROOM);
}

/* Go into what must be an object or an array; anything else makes the event malformed. */
static bool
enter_object(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    const bool is = kvt_json_pull_object(pull);

    reading->malformed |= !is;
    return is;
}

static bool
enter_array(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    const bool is = kvt_json_pull_array(pull);

    reading->malformed |= !is;
    return is;
}

/* Is this the member `name`?  A second one makes the event malformed. */
static inline bool
is_member(struct wire_dynamo_reading *reading, unsigned *seen, const struct kvt_json_slice *key,
          const char *name, enum wire_dynamo_member member)
{
    if (!kvt_json_slice_is(key, name))
        return false;
    wire_dynamo_once(reading, seen, member);
    return true;
}

static void
read_u64(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading, uint64_t *number)
{
    reading->malformed |= !kvt_json_pull_u64(pull, number);
}

static void
read_u32(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading, uint32_t *number)
{
    uint64_t wide;

    reading->malformed |= !kvt_json_pull_u64(pull, &wide) || wide > UINT32_MAX;
    *number = (uint32_t)wide;
}

static void
read_mm_object(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading,
               struct wire_raw_block *block)
{
    struct kvt_json_slice key;
    unsigned seen = 0;
    uint64_t hash = 0;

    if (!enter_object(pull, reading))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (is_member(reading, &seen, &key, "mm_hash", WIRE_DYNAMO_MM_HASH)) {
            read_u64(pull, reading, &hash);
        } else {
            kvt_json_pull_skip(pull);
        }
    }
    if ((seen & WIRE_DYNAMO_MM_HASH) == 0)
        reading->malformed = true;
    else if (!reading->malformed && !wire_raw_builder_media(reading->batch, block, hash))
        no_room(pull);
}

static void
read_mm_info(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading,
             struct wire_raw_block *block)
{
    struct kvt_json_slice key;
    unsigned seen = 0;

    if (kvt_json_pull_null(pull))
        return;
    if (!enter_object(pull, reading))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (!is_member(reading, &seen, &key, "mm_objects", WIRE_DYNAMO_MM_OBJECTS))
            kvt_json_pull_skip(pull);
        else if (enter_array(pull, reading))
            while (kvt_json_pull_element(pull))
                read_mm_object(pull, reading, block);
    }
}

static void
read_block(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    struct wire_raw_block *block = wire_raw_builder_block(reading->batch, reading->event);
    struct kvt_json_slice key;
    unsigned seen = 0;

    if (block == NULL) {
        no_room(pull);
        return;
    }
    if (!enter_object(pull, reading))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (is_member(reading, &seen, &key, "block_hash", WIRE_DYNAMO_BLOCK_HASH)) {
            read_u64(pull, reading, &block->hash);
        } else if (is_member(reading, &seen, &key, "tokens_hash", WIRE_DYNAMO_TOKENS_HASH)) {
            read_u64(pull, reading, &block->tokens_hash);
        } else if (is_member(reading, &seen, &key, "mm_extra_info", WIRE_DYNAMO_MM_EXTRA_INFO)) {
            read_mm_info(pull, reading, block);
        } else {
            kvt_json_pull_skip(pull);
        }
    }
    if ((seen & WIRE_DYNAMO_BLOCK_HASH) == 0 || (seen & WIRE_DYNAMO_TOKENS_HASH) == 0)
        reading->malformed = true;
}

static void
read_blocks(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    if (!enter_array(pull, reading))
        return;
    while (kvt_json_pull_element(pull))
        read_block(pull, reading);
}

static void
read_stored(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    struct wire_raw_event *event = reading->event;
    struct kvt_json_slice key;

    if (!enter_object(pull, reading))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (is_member(reading, &reading->seen, &key, "parent_hash", WIRE_DYNAMO_PARENT_HASH)) {
            event->has_parent = !kvt_json_pull_null(pull);
            if (event->has_parent)
                read_u64(pull, reading, &event->parent);
        } else if (is_member(reading, &reading->seen, &key, "start_position",
                             WIRE_DYNAMO_START_POSITION)) {
            if (!kvt_json_pull_null(pull))
                read_u32(pull, reading, &event->position);
        } else if (is_member(reading, &reading->seen, &key, "blocks", WIRE_DYNAMO_BLOCKS)) {
            read_blocks(pull, reading);
        } else {
            kvt_json_pull_skip(pull);
        }
    }
    reading->kind = WIRE_RAW_STORE;
    if ((reading->seen & WIRE_DYNAMO_BLOCKS) == 0)
        reading->malformed = true;
}

static void
read_hashes(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    if (!enter_array(pull, reading))
        return;
    while (kvt_json_pull_element(pull)) {
        struct wire_raw_block *block = wire_raw_builder_block(reading->batch, reading->event);

        if (block == NULL)
            no_room(pull);
        else
            read_u64(pull, reading, &block->hash);
    }
}

static void
read_removed(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    struct kvt_json_slice key;

    if (!enter_object(pull, reading))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (is_member(reading, &reading->seen, &key, "block_hashes", WIRE_DYNAMO_BLOCK_HASHES)) {
            read_hashes(pull, reading);
        } else {
            kvt_json_pull_skip(pull);
        }
    }
    reading->kind = WIRE_RAW_REMOVE;
    if ((reading->seen & WIRE_DYNAMO_BLOCK_HASHES) == 0)
        reading->malformed = true;
}

static void
read_data(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    struct kvt_json_slice variant;
    unsigned members = 0;

    if (kvt_json_pull_peek(pull) == KVT_JSON_STRING) {
        (void)kvt_json_pull_string(pull, &variant);
        if (kvt_json_slice_is(&variant, "cleared"))
            reading->kind = WIRE_RAW_CLEAR;
        else
            reading->unknown_kind = true;
        return;
    }
    if (!enter_object(pull, reading))
        return;
    for (; kvt_json_pull_member(pull, &variant); members++) {
        if (members > 0) {
            kvt_json_pull_skip(pull);
        } else if (kvt_json_slice_is(&variant, "stored")) {
            read_stored(pull, reading);
        } else if (kvt_json_slice_is(&variant, "removed")) {
            read_removed(pull, reading);
        } else if (kvt_json_slice_is(&variant, "cleared") && kvt_json_pull_null(pull)) {
            reading->kind = WIRE_RAW_CLEAR;
        } else {
            reading->unknown_kind = true;
            kvt_json_pull_skip(pull);
        }
    }
    reading->malformed |= members != 1;
}

static void
read_event(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    struct wire_raw_event *event = reading->event;
    struct kvt_json_slice key;

    if (!enter_object(pull, reading))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (is_member(reading, &reading->seen, &key, "event_id", WIRE_DYNAMO_EVENT_ID)) {
            reading->numbered_id = kvt_json_pull_u64(pull, &event->id);
        } else if (is_member(reading, &reading->seen, &key, "data", WIRE_DYNAMO_DATA)) {
            read_data(pull, reading);
        } else if (is_member(reading, &reading->seen, &key, "dp_rank", WIRE_DYNAMO_DP_RANK)) {
            read_u32(pull, reading, &event->dp_rank);
        } else {
            kvt_json_pull_skip(pull);
        }
    }
}

/* A text that is too long or has odd bytes is none of ours, and reads as "". */
static void
copy_name(const struct kvt_json_slice *slice, char out[32])
{
    (void)kvt_json_slice_copy(slice, out, 32, NULL);
}

void
wire_dynamo_json_event(struct kvt_json_pull *pull, struct wire_raw_batch *batch)
{
    struct wire_dynamo_reading reading;
    struct kvt_json_slice key;
    struct kvt_json_slice text;
    char name[32];

    if (!wire_dynamo_begin(&reading, batch)) {
        no_room(pull);
        return;
    }
    if (kvt_json_pull_object(pull)) {
        while (kvt_json_pull_member(pull, &key)) {
            if (is_member(&reading, &reading.seen, &key, "worker_id", WIRE_DYNAMO_WORKER_ID)) {
                reading.numbered_worker = kvt_json_pull_u64(pull, &reading.event->worker);
            } else if (is_member(&reading, &reading.seen, &key, "storage_tier",
                                 WIRE_DYNAMO_STORAGE_TIER)) {
                (void)kvt_json_pull_string(pull, &text);
                copy_name(&text, name);
                wire_dynamo_tier(&reading, name, strlen(name));
            } else if (is_member(&reading, &reading.seen, &key, "residency_domain",
                                 WIRE_DYNAMO_RESIDENCY_DOMAIN)) {
                (void)kvt_json_pull_string(pull, &text);
                reading.foreign |= !kvt_json_slice_is(&text, "worker");
            } else if (is_member(&reading, &reading.seen, &key, "event", WIRE_DYNAMO_EVENT)) {
                read_event(pull, &reading);
            } else {
                kvt_json_pull_skip(pull);
            }
        }
    }
    wire_dynamo_settle(&reading);
}

/* ---- the envelope ---- */

enum {
    PUBLISHER_ID = 1 << 0,
    SEQUENCE = 1 << 1,
    PAYLOAD = 1 << 2,
};

struct envelope {
    unsigned seen;
    bool bare; /* no envelope, but an event by itself */
    bool foreign_topic;
    size_t payload_size; /* bytes of it, in the batch's scratch space */
};

/* [1, 2, ...]: bytes, collected where a batch has its tokens, of which RouterEvents have none. */
static void
read_payload(struct kvt_json_pull *pull, struct wire_raw_batch *batch, struct envelope *envelope)
{
    uint8_t *scratch = (uint8_t *)batch->token_ids;
    const size_t room = WIRE_RAW_TOKENS_MAX * sizeof(*batch->token_ids);
    uint64_t byte;

    if (!kvt_json_pull_array(pull)) {
        kvt_json_pull_fail(pull, pull->at, KVT_INVALID, "an array of bytes before this byte");
        return;
    }
    envelope->payload_size = 0;
    while (kvt_json_pull_element(pull)) {
        if (!kvt_json_pull_u64(pull, &byte) || byte > UINT8_MAX)
            kvt_json_pull_fail(pull, pull->at, KVT_INVALID, "bytes before this byte");
        else if (envelope->payload_size == room)
            kvt_json_pull_fail(pull, pull->at, KVT_RANGE, "a shorter payload");
        else
            scratch[envelope->payload_size++] = (uint8_t)byte;
    }
}

static void
read_number(struct kvt_json_pull *pull, uint64_t *number)
{
    if (!kvt_json_pull_u64(pull, number))
        kvt_json_pull_fail(pull, pull->at, KVT_INVALID, "a number of 64 bits before this byte");
}

static void
read_envelope(struct kvt_json_pull *pull, struct wire_raw_batch *batch, struct envelope *envelope)
{
    struct kvt_json_slice key;
    struct kvt_json_slice text;
    char topic[32];

    if (!kvt_json_pull_object(pull))
        kvt_json_pull_fail(pull, 0, KVT_INVALID, "an object");
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "publisher_id")) {
            envelope->seen |= PUBLISHER_ID;
            read_number(pull, &batch->publisher);
        } else if (kvt_json_slice_is(&key, "sequence")) {
            envelope->seen |= SEQUENCE;
            read_number(pull, &batch->sequence);
        } else if (kvt_json_slice_is(&key, "published_at")) {
            read_number(pull, &batch->time_ms);
        } else if (kvt_json_slice_is(&key, "topic")) {
            (void)kvt_json_pull_string(pull, &text);
            copy_name(&text, topic);
            envelope->foreign_topic = !wire_dynamo_is_topic(topic, strlen(topic));
        } else if (kvt_json_slice_is(&key, "payload")) {
            envelope->seen |= PAYLOAD;
            read_payload(pull, batch, envelope);
        } else if (kvt_json_slice_is(&key, "worker_id") || kvt_json_slice_is(&key, "event")) {
            envelope->bare = true;
            return;
        } else {
            kvt_json_pull_skip(pull);
        }
    }
}

enum kvt_err
wire_dynamo_decode_json(const char *text, size_t size, struct wire_raw_batch *batch,
                        struct kvt_error *err)
{
    struct envelope envelope = {.seen = 0};
    struct kvt_json_pull pull;
    enum kvt_err rc;

    kvt_json_pull_init(&pull, text, size);
    if (kvt_json_pull_peek(&pull) == KVT_JSON_ARRAY)
        return wire_dynamo_decode_events(text, size, batch, err);
    read_envelope(&pull, batch, &envelope);
    if (envelope.bare) {
        batch->publisher = batch->sequence = batch->time_ms = 0;
        return wire_dynamo_decode_events(text, size, batch, err);
    }
    if (envelope.seen != (PUBLISHER_ID | SEQUENCE | PAYLOAD))
        kvt_json_pull_fail(&pull, 0, KVT_INVALID,
                           "an envelope with publisher_id, sequence and payload");
    rc = kvt_json_pull_end(&pull, "dynamo envelope", err);
    if (rc != KVT_OK)
        return rc;
    if (envelope.foreign_topic) {
        batch->publisher = batch->sequence = batch->time_ms = 0;
        return KVT_OK;
    }
    batch->has_sequence = true;
    return wire_dynamo_decode_events(batch->token_ids, envelope.payload_size, batch, err);
}
