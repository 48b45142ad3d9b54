/*
 * What is tested: the decoders of wire/dialect/ on bytes that released producers sent, against what
 * those producers had been told to publish (tests/fixtures/producers/: an index.json a producer).
 */
#include <dirent.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/text/json.h"
#include "kvtier/token.h"
#include "wire/dialect/dialect.h"
#include "wire/dialect/dynamo.h"
#include "wire/dialect/dynamo_answer.h"
#include "wire/dialect/engine.h"

#include "tests/support/seed.h"

enum { FILE_MAX = 8 << 20, FOLDER_TEXT = 1024, PATH_TEXT = 2048, NAME_TEXT = 256 };

struct capture {
    struct wire_raw_batch *batch;
    struct wire_engine_groups groups; /* of the publisher whose file it is */
    unsigned messages;
    unsigned events;
    unsigned producers;
};

static const char *
why_name(enum wire_raw_why why)
{
    static const char *const names[WIRE_RAW_WHY_COUNT] = {
        "fine",           "unknown_kind", "unknown_tier", "foreign_domain",
        "filtered_group", "malformed",    "not_a_block",
    };

    return names[why];
}

static const char *
tier_name(enum kvt_tier tier)
{
    static const char *const names[] = {"all", "g1", "g2", "g3", "g4"};

    return names[tier];
}

static const char *
kind_name(enum wire_raw_kind kind)
{
    static const char *const names[] = {"store", "remove", "clear", "bye", "skip"};

    return names[kind];
}

static void
assert_number(struct json_object *told, const char *key, uint64_t number, uint64_t otherwise)
{
    uint64_t expected = otherwise;

    if (kvt_json_member(told, key) != NULL)
        assert_true(kvt_json_u64(told, key, &expected));
    assert_int_equal(number, expected);
}

static uint64_t
number_at(struct json_object *array, size_t at)
{
    uint64_t number;

    assert_true(kvt_json_to_u64(json_object_array_get_idx(array, at), &number));
    return number;
}

static void
assert_blocks(const struct wire_raw_batch *batch, const struct wire_raw_event *event,
              struct json_object *told)
{
    struct json_object *hashes = kvt_json_array(told, "hashes");
    struct json_object *tokens_hashes = kvt_json_array(told, "tokens_hashes");
    struct json_object *media = kvt_json_array(told, "media");

    assert_int_equal(event->count, hashes == NULL ? 0 : json_object_array_length(hashes));
    for (uint32_t i = 0; i < event->count; i++) {
        const struct wire_raw_block *block = &batch->blocks[event->first + i];

        assert_int_equal(block->hash, number_at(hashes, i));
        if (tokens_hashes != NULL)
            assert_int_equal(block->tokens_hash, number_at(tokens_hashes, i));
        if (media != NULL && event->kind == WIRE_RAW_STORE) {
            struct json_object *objects = json_object_array_get_idx(media, i);

            assert_int_equal(block->media_count, json_object_array_length(objects));
            for (uint32_t j = 0; j < block->media_count; j++)
                assert_int_equal(batch->media[block->media + j], number_at(objects, j));
        }
    }
}

static void
assert_tokens(const struct wire_raw_batch *batch, const struct wire_raw_event *event,
              struct json_object *told)
{
    struct json_object *tokens = kvt_json_array(told, "tokens");

    assert_number(told, "block_tokens", event->block_tokens, 0);
    if (tokens == NULL)
        return;
    assert_int_equal(wire_raw_window(event) * event->count, json_object_array_length(tokens));
    for (uint32_t i = 0; i < wire_raw_window(event) * event->count; i++)
        assert_int_equal(batch->token_ids[event->tokens + i], number_at(tokens, i));
}

static void
assert_event(const struct wire_raw_batch *batch, const struct wire_raw_event *event,
             struct json_object *told)
{
    bool salted;

    assert_string_equal(kind_name(event->kind), kvt_json_string(told, "kind"));
    if (event->kind == WIRE_RAW_SKIP) {
        assert_string_equal(why_name(event->why), kvt_json_string(told, "why"));
        return;
    }
    assert_string_equal(tier_name(event->tier), kvt_json_string(told, "tier"));
    assert_number(told, "worker", event->worker, 0);
    assert_number(told, "id", event->id, 0);
    assert_number(told, "dp_rank", event->dp_rank, 0);
    if (kvt_json_member(told, "holder") != NULL) {
        assert_string_equal(batch->holder, kvt_json_string(told, "holder"));
        assert_string_equal(batch->namespace_, kvt_json_string(told, "namespace"));
        assert_int_equal(event->ranks, 1u << json_object_get_int(kvt_json_member(told, "rank")));
    }
    assert_blocks(batch, event, told);
    if (event->kind != WIRE_RAW_STORE)
        return;
    assert_int_equal(event->has_parent, kvt_json_member(told, "parent") != NULL);
    assert_number(told, event->has_parent ? "parent" : "fragment", event->parent, 0);
    assert_number(told, "position", event->position,
                  event->has_parent ? WIRE_RAW_POSITION_UNKNOWN : 0);
    assert_number(told, "size", event->size, 0);
    assert_number(told, "seed", event->seed, KVT_TOKEN_SEED);
    (void)kvt_json_bool(told, "salted", &salted);
    assert_int_equal(event->salted, salted);
    assert_tokens(batch, event, told);
}

/* The part of `bytes` that frame `number` is. */
static const void *
frame_of(struct json_object *frames, size_t number, const char *bytes, size_t total, size_t *size)
{
    struct json_object *frame = json_object_array_get_idx(frames, number);
    const uint64_t offset = number_at(frame, 0);

    *size = number_at(frame, 1);
    assert_true(offset <= total && *size <= total - offset);
    return bytes + offset;
}

static uint64_t
big_endian(const uint8_t *bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* The payload: the last frame, out of its frame where that has one. */
static const void *
payload_of(struct json_object *message, const char *bytes, size_t total, enum wire_dialect dialect,
           size_t *size)
{
    struct json_object *frames = kvt_json_array(message, "frames");
    const size_t count = json_object_array_length(frames);
    const void *payload = frame_of(frames, count - 1, bytes, total, size);
    struct wire_dynamo_frames parts;
    struct kvt_error err;
    size_t publisher_size;
    size_t sequence_size;

    if (dialect == WIRE_DIALECT_DYNAMO && count == 4) {
        const void *publisher = frame_of(frames, 1, bytes, total, &publisher_size);
        const void *sequence = frame_of(frames, 2, bytes, total, &sequence_size);

        assert_int_equal(wire_dynamo_frames(publisher, publisher_size, sequence, sequence_size,
                                            payload, *size, &parts, &err),
                         KVT_OK);
        assert_number(message, "publisher", parts.publisher, 0);
        assert_number(message, "sequence", parts.sequence, 0);
        *size = parts.envelope_size;
        return parts.envelope;
    }
    if (dialect == WIRE_DIALECT_ENGINE && kvt_json_member(message, "sequence") != NULL) {
        const uint8_t *sequence = frame_of(frames, count - 2, bytes, total, &sequence_size);

        assert_int_equal(sequence_size, 8);
        assert_number(message, "sequence", big_endian(sequence), 0);
    }
    return payload;
}

/* An answer of a worker: a dump, or the events from a number on. */
static void
decode_answer(struct json_object *message, const void *payload, size_t size,
              struct wire_raw_batch *batch)
{
    const char *kind = kvt_json_string(message, "answer");
    struct kvt_error err = {.code = KVT_OK};
    struct wire_dynamo_part part = {.more = false};

    if (wire_dynamo_decode_answer_part(payload, size, &part, batch, &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_false(part.more);
    assert_int_equal(part.what, strcmp(kind, "dump") == 0 ? WIRE_DYNAMO_DUMP : WIRE_DYNAMO_EVENTS);
    if (kvt_json_member(message, "newest") != NULL)
        assert_number(message, "newest", part.newest, 0);
}

static void
check_message(struct capture *capture, struct json_object *message, const char *bytes, size_t total)
{
    struct wire_raw_batch *batch = capture->batch;
    struct json_object *events = kvt_json_array(message, "events");
    struct kvt_error err = {.code = KVT_OK};
    enum wire_dialect dialect;
    const void *payload;
    size_t size;

    assert_true(wire_dialect_parse(kvt_json_string(message, "dialect"), &dialect));
    payload = payload_of(message, bytes, total, dialect, &size);
    if (strcmp(kvt_json_string(message, "transport"), "zmq-replay-end") == 0) {
        assert_int_equal(size, 0);
        return;
    }
    if (kvt_json_member(message, "answer") != NULL)
        decode_answer(message, payload, size, batch);
    else if (wire_dialect_decode(dialect, payload, size, batch, &err) != KVT_OK)
        fail_msg("%s", err.text);
    if (dialect == WIRE_DIALECT_ENGINE)
        wire_engine_groups_filter(&capture->groups, batch);
    if (dialect == WIRE_DIALECT_DYNAMO && kvt_json_member(message, "publisher") != NULL) {
        assert_true(batch->has_sequence);
        assert_number(message, "publisher", batch->publisher, 0);
        assert_number(message, "sequence", batch->sequence, 0);
        assert_true(batch->time_ms > 0);
    }
    assert_int_equal(batch->event_count, json_object_array_length(events));
    for (uint32_t i = 0; i < batch->event_count; i++)
        assert_event(batch, &batch->events[i], json_object_array_get_idx(events, i));
    capture->messages++;
    capture->events += batch->event_count;
}

static void
check_producer(struct capture *capture, const char *folder)
{
    char path[PATH_TEXT];
    char name[NAME_TEXT] = "";
    struct json_object *index;
    struct json_object *messages;
    struct kvt_error err;
    char *text;
    char *bytes = NULL;
    size_t size;
    size_t total = 0;

    (void)snprintf(path, sizeof(path), "%s/index.json", folder);
    assert_int_equal(kvt_file_read(&text, &size, path, FILE_MAX, &err), KVT_OK);
    assert_int_equal(kvt_json_parse(&index, text, size, path, &err), KVT_OK);
    messages = kvt_json_array(index, "messages");
    assert_non_null(messages);
    for (size_t i = 0; i < json_object_array_length(messages); i++) {
        struct json_object *message = json_object_array_get_idx(messages, i);
        const char *file = kvt_json_string(message, "file");

        if (strcmp(file, name) != 0) {
            (void)snprintf(name, sizeof(name), "%s", file);
            capture->groups = (struct wire_engine_groups){.full = 0};
            (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
            kvt_free(bytes);
            assert_int_equal(kvt_file_read(&bytes, &total, path, FILE_MAX, &err), KVT_OK);
        }
        print_message("%s %s message %zu\n", folder + sizeof(KVT_FIXTURES) - 1, file, i);
        check_message(capture, message, bytes, total);
    }
    kvt_free(bytes);
    (void)json_object_put(index);
    kvt_free(text);
    capture->producers++;
}

static void
every_capture_decodes_to_what_was_told(void **state)
{
    struct capture capture = {.messages = 0};
    DIR *folder = opendir(KVT_FIXTURES);
    char path[FOLDER_TEXT];

    (void)state;
    assert_non_null(folder);
    assert_int_equal(wire_raw_batch_new(&capture.batch), KVT_OK);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.' || strchr(entry->d_name, '-') == NULL)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", KVT_FIXTURES, entry->d_name);
        check_producer(&capture, path);
    }
    (void)closedir(folder);
    wire_raw_batch_free(capture.batch);
    print_message("%u producers, %u messages, %u events\n", capture.producers, capture.messages,
                  capture.events);
    assert_true(capture.producers >= 13 && capture.messages >= 790 && capture.events >= 1300);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_capture_decodes_to_what_was_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
