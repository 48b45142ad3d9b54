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

static void
read_mm_object(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading,
               struct wire_raw_block *block)
{
    struct kvt_json_slice key;
    unsigned seen = 0;
    uint64_t hash = 0;

    if (!kvt_json_pull_object(pull)) {
        reading->malformed = true;
        return;
    }
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "mm_hash")) {
            wire_dynamo_once(reading, &seen, WIRE_DYNAMO_MM_HASH);
            reading->malformed |= !kvt_json_pull_u64(pull, &hash);
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
    if (!kvt_json_pull_object(pull)) {
        reading->malformed = true;
        return;
    }
    while (kvt_json_pull_member(pull, &key)) {
        if (!kvt_json_slice_is(&key, "mm_objects")) {
            kvt_json_pull_skip(pull);
            continue;
        }
        wire_dynamo_once(reading, &seen, WIRE_DYNAMO_MM_OBJECTS);
        if (!kvt_json_pull_array(pull)) {
            reading->malformed = true;
            continue;
        }
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
    if (!kvt_json_pull_object(pull)) {
        reading->malformed = true;
        return;
    }
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "block_hash")) {
            wire_dynamo_once(reading, &seen, WIRE_DYNAMO_BLOCK_HASH);
            reading->malformed |= !kvt_json_pull_u64(pull, &block->hash);
        } else if (kvt_json_slice_is(&key, "tokens_hash")) {
            wire_dynamo_once(reading, &seen, WIRE_DYNAMO_TOKENS_HASH);
            reading->malformed |= !kvt_json_pull_u64(pull, &block->tokens_hash);
        } else if (kvt_json_slice_is(&key, "mm_extra_info")) {
            wire_dynamo_once(reading, &seen, WIRE_DYNAMO_MM_EXTRA_INFO);
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
    if (!kvt_json_pull_array(pull)) {
        reading->malformed = true;
        return;
    }
    while (kvt_json_pull_element(pull))
        read_block(pull, reading);
}

static void
read_stored(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    struct wire_raw_event *event = reading->event;
    struct kvt_json_slice key;
    uint64_t number;

    if (!kvt_json_pull_object(pull)) {
        reading->malformed = true;
        return;
    }
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "parent_hash")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_PARENT_HASH);
            event->has_parent = !kvt_json_pull_null(pull);
            if (event->has_parent)
                reading->malformed |= !kvt_json_pull_u64(pull, &event->parent);
        } else if (kvt_json_slice_is(&key, "start_position")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_START_POSITION);
            if (kvt_json_pull_null(pull))
                continue;
            reading->malformed |= !kvt_json_pull_u64(pull, &number) || number > UINT32_MAX;
            event->position = (uint32_t)number;
        } else if (kvt_json_slice_is(&key, "blocks")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_BLOCKS);
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
    if (!kvt_json_pull_array(pull)) {
        reading->malformed = true;
        return;
    }
    while (kvt_json_pull_element(pull)) {
        struct wire_raw_block *block = wire_raw_builder_block(reading->batch, reading->event);

        if (block == NULL)
            no_room(pull);
        else
            reading->malformed |= !kvt_json_pull_u64(pull, &block->hash);
    }
}

static void
read_removed(struct kvt_json_pull *pull, struct wire_dynamo_reading *reading)
{
    struct kvt_json_slice key;

    if (!kvt_json_pull_object(pull)) {
        reading->malformed = true;
        return;
    }
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "block_hashes")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_BLOCK_HASHES);
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
    if (!kvt_json_pull_object(pull)) {
        reading->malformed = true;
        return;
    }
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
    uint64_t number;

    if (!kvt_json_pull_object(pull)) {
        reading->malformed = true;
        return;
    }
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "event_id")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_EVENT_ID);
            reading->numbered_id = kvt_json_pull_u64(pull, &event->id);
        } else if (kvt_json_slice_is(&key, "data")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_DATA);
            read_data(pull, reading);
        } else if (kvt_json_slice_is(&key, "dp_rank")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_DP_RANK);
            reading->malformed |= !kvt_json_pull_u64(pull, &number) || number > UINT32_MAX;
            event->dp_rank = (uint32_t)number;
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
            if (kvt_json_slice_is(&key, "worker_id")) {
                wire_dynamo_once(&reading, &reading.seen, WIRE_DYNAMO_WORKER_ID);
                reading.numbered_worker = kvt_json_pull_u64(pull, &reading.event->worker);
            } else if (kvt_json_slice_is(&key, "storage_tier")) {
                wire_dynamo_once(&reading, &reading.seen, WIRE_DYNAMO_STORAGE_TIER);
                (void)kvt_json_pull_string(pull, &text);
                copy_name(&text, name);
                wire_dynamo_tier(&reading, name, strlen(name));
            } else if (kvt_json_slice_is(&key, "residency_domain")) {
                wire_dynamo_once(&reading, &reading.seen, WIRE_DYNAMO_RESIDENCY_DOMAIN);
                (void)kvt_json_pull_string(pull, &text);
                reading.foreign |= !kvt_json_slice_is(&text, "worker");
            } else if (kvt_json_slice_is(&key, "event")) {
                wire_dynamo_once(&reading, &reading.seen, WIRE_DYNAMO_EVENT);
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
