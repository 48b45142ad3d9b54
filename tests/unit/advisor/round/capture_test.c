/*
 * What is tested: advisor/round/round.h on the bytes of released producers
 * (tests/fixtures/producers/). How: what a mock engine published must leave the index at what the
 * engine itself says it holds, heard from the start, or from the middle on and asked.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/text/json.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum { FILE_BYTES_MAX = 8 << 20, PATH_TEXT = 512, BLOCKS_MAX = 8192, DEADLINE_MS = 20000 };

/* A place the engine says it has, and whether the index has it too. */
struct place {
    uint64_t name;
    uint64_t called; /* by the engine */
    uint32_t rank;
    enum kvt_tier tier;
    bool found;
};

struct capture {
    char folder[PATH_TEXT];
    struct json_object *messages;
    struct place places[BLOCKS_MAX];
    size_t place_count;
    size_t strange; /* places of the index that the engine does not have */
};

/* Answers of the captured workers, by rank: what the fake source gives. */
static const struct capture *answering;

static uint64_t
number(struct json_object *object, const char *key)
{
    struct json_object *member = json_object_object_get(object, key);

    return member == NULL ? 0 : json_object_get_uint64(member);
}

static const char *
text(struct json_object *object, const char *key)
{
    struct json_object *member = json_object_object_get(object, key);

    return member == NULL ? "" : json_object_get_string(member);
}

/* The bytes of a message's last frame. */
static void
read_bytes(const struct capture *capture, struct json_object *message, struct kvt_buffer *out)
{
    struct json_object *frames = json_object_object_get(message, "frames");
    struct json_object *frame =
        json_object_array_get_idx(frames, json_object_array_length(frames) - 1);
    const size_t offset = (size_t)json_object_get_uint64(json_object_array_get_idx(frame, 0));
    const size_t size = (size_t)json_object_get_uint64(json_object_array_get_idx(frame, 1));
    char path[2 * PATH_TEXT];
    struct kvt_error err;
    char *bytes;
    size_t total;

    (void)snprintf(path, sizeof(path), "%s/%s", capture->folder, text(message, "file"));
    assert_int_equal(kvt_file_read(&bytes, &total, path, FILE_BYTES_MAX, &err), KVT_OK);
    assert_true(offset + size <= total);
    kvt_buffer_append(out, bytes + offset, size);
    kvt_free(bytes);
}

static void
open_capture(struct capture *capture, const char *name)
{
    char path[2 * PATH_TEXT];
    struct json_object *root;
    struct kvt_error err;
    char *bytes;
    size_t size;

    memset(capture, 0, sizeof(*capture));
    (void)snprintf(capture->folder, sizeof(capture->folder), "%s/%s", KVT_FIXTURES, name);
    (void)snprintf(path, sizeof(path), "%s/index.json", capture->folder);
    assert_int_equal(kvt_file_read(&bytes, &size, path, FILE_BYTES_MAX, &err), KVT_OK);
    assert_int_equal(kvt_json_parse(&root, bytes, size, path, &err), KVT_OK);
    kvt_free(bytes);
    capture->messages = json_object_get(json_object_object_get(root, "messages"));
    json_object_put(root);
}

static void
close_capture(struct capture *capture)
{
    json_object_put(capture->messages);
}

static struct json_object *
message_at(const struct capture *capture, size_t at)
{
    return json_object_array_get_idx(capture->messages, at);
}

/* ---- what the engine says it holds ---- */

static uint64_t
name_of(const struct capture *capture, uint32_t rank, uint64_t called)
{
    for (size_t i = 0; i < capture->place_count; i++)
        if (capture->places[i].called == called && capture->places[i].rank == rank)
            return capture->places[i].name;
    fail_msg("a dump names a parent that it does not have");
    return 0;
}

static void
add_store(struct capture *capture, struct json_object *event)
{
    struct json_object *hashes = json_object_object_get(event, "hashes");
    struct json_object *locals = json_object_object_get(event, "tokens_hashes");
    const uint32_t rank = (uint32_t)number(event, "dp_rank");
    const size_t count = json_object_array_length(hashes);
    bool first = json_object_object_get(event, "parent") == NULL;
    uint64_t name = first ? 0 : name_of(capture, rank, number(event, "parent"));

    for (size_t i = 0; i < count; i++) {
        struct place *place = &capture->places[capture->place_count++];
        const uint64_t local = json_object_get_uint64(json_object_array_get_idx(locals, i));

        assert_true(capture->place_count < BLOCKS_MAX);
        name = first ? local : kvt_token_chain(name, local);
        first = false;
        *place = (struct place){
            .name = name,
            .called = json_object_get_uint64(json_object_array_get_idx(hashes, i)),
            .rank = rank,
            .tier = strcmp(text(event, "tier"), "g2") == 0 ? KVT_TIER_G2 : KVT_TIER_G1};
    }
}

static bool
is_dump(struct json_object *message)
{
    return strcmp(text(message, "transport"), "query") == 0 &&
           strcmp(text(message, "answer"), "dump") == 0;
}

static void
read_dumps(struct capture *capture)
{
    for (size_t i = 0; i < json_object_array_length(capture->messages); i++) {
        struct json_object *message = message_at(capture, i);
        struct json_object *events = json_object_object_get(message, "events");

        if (!is_dump(message))
            continue;
        for (size_t e = 0; e < json_object_array_length(events); e++)
            add_store(capture, json_object_array_get_idx(events, e));
    }
    assert_true(capture->place_count > 0);
}

static void
check_row(void *arg, const struct advisor_finder_row *row)
{
    struct capture *capture = arg;
    bool found = false;

    for (size_t i = 0; i < capture->place_count; i++) {
        struct place *place = &capture->places[i];

        if (place->name == row->block.id.hash && place->rank == row->holder.dp_rank &&
            place->tier == row->holder.tier) {
            place->found = true;
            found = true;
        }
    }
    capture->strange += found ? 0 : 1;
}

/* The index is the engine's own dump: nothing is missing, and nothing is there besides. */
static void
assert_held(struct capture *capture, const struct test_rig *rig)
{
    size_t missing = 0;
    uint64_t cursor = 0;

    capture->strange = 0;
    do
        assert_int_equal(
            advisor_finder_rows(&rig->finder, cursor, 1000, &cursor, check_row, capture), KVT_OK);
    while (cursor != 0);
    for (size_t i = 0; i < capture->place_count; i++)
        missing += capture->places[i].found ? 0 : 1;
    if (missing > 0 || capture->strange > 0)
        fail_msg("%s: of %zu places %zu are missing, %zu are strange", capture->folder,
                 capture->place_count, missing, capture->strange);
}

/* ---- sources ---- */

static enum kvt_err
ask(struct advisor_source *source, const struct advisor_ask *question,
    enum advisor_answer_kind *kind, struct kvt_buffer *answer, struct kvt_error *err)
{
    (void)source;
    *kind = ADVISOR_ANSWER_QUERY;
    for (size_t i = 0; i < json_object_array_length(answering->messages); i++) {
        struct json_object *message = message_at(answering, i);
        struct json_object *events = json_object_object_get(message, "events");

        if (!is_dump(message) ||
            number(json_object_array_get_idx(events, 0), "dp_rank") != question->dp_rank)
            continue;
        read_bytes(answering, message, answer);
        return KVT_OK;
    }
    return kvt_error_set(err, KVT_UNAVAILABLE, "no such worker");
}

static const struct advisor_source_ops dynamo = {.name = "dynamo-capture",
                                                 .dialect = WIRE_DIALECT_DYNAMO,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close,
                                                 .ask = ask};
static const struct advisor_source_ops engine = {.name = "engine-capture",
                                                 .dialect = WIRE_DIALECT_ENGINE,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close};
static const struct advisor_source_ops bucket = {.name = "bucket-capture",
                                                 .dialect = WIRE_DIALECT_MINIO,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close};

/* Hand over what came by `transport`, but for the first `skip`. */
static void
feed(struct test_rig *rig, const struct capture *capture, const char *transport, size_t skip)
{
    struct kvt_buffer bytes;
    size_t seen = 0;

    kvt_buffer_init(&bytes, FILE_BYTES_MAX);
    for (size_t i = 0; i < json_object_array_length(capture->messages); i++) {
        struct json_object *message = message_at(capture, i);
        struct advisor_inbox_item *item;

        if (strcmp(text(message, "transport"), transport) != 0 || seen++ < skip)
            continue;
        kvt_buffer_clear(&bytes);
        read_bytes(capture, message, &bytes);
        /* A file is one publisher's. */
        assert_int_equal(advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_MESSAGE,
                                                text(message, "file"), bytes.data, bytes.size),
                         KVT_OK);
        item->has_sequence = strcmp(text(message, "dialect"), "engine") == 0;
        item->sequence = number(message, "sequence");
        test_rig_foreign_item(rig, item);
    }
    assert_true(seen > skip);
    kvt_buffer_release(&bytes);
    test_rig_run(rig);
}

static void
open_rig(struct test_rig *rig, char folder[256], const struct advisor_source_ops *ops)
{
    const struct test_rig_options options = {.mode = ADVISOR_MODE_OFF,
                                             .foreign = ops,
                                             .give_up_after_ms = DEADLINE_MS,
                                             .path = test_folder_make(folder, 256)};

    test_rig_open(rig, &options);
}

/* ---- tests ---- */

static const char *const mockers[] = {"ai-dynamo-mocker-1.0.2", "ai-dynamo-mocker-1.3.1",
                                      "ai-dynamo-mocker-1.6.1"};

static void
index_is_the_engines_own_dump(void **state)
{
    static struct capture capture;
    struct test_rig rig;
    char folder[256];

    (void)state;
    for (size_t i = 0; i < sizeof(mockers) / sizeof(mockers[0]); i++) {
        open_capture(&capture, mockers[i]);
        answering = &capture;
        open_rig(&rig, folder, &dynamo);
        read_dumps(&capture);
        feed(&rig, &capture, "nats", 0);
        assert_int_equal(test_rig_view(&rig).counts.malformed, 0);
        assert_int_equal(test_rig_view(&rig).counts.gaps, 0);
        assert_int_equal(test_rig_view(&rig).uncertain, 0);
        assert_held(&capture, &rig);
        test_rig_close(&rig);
        test_folder_remove(folder);
        close_capture(&capture);
    }
}

static void
late_and_asked(void **state)
{
    static struct capture capture;
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct test_rig rig;
    char folder[256];

    (void)state;
    for (size_t i = 0; i < sizeof(mockers) / sizeof(mockers[0]); i++) {
        open_capture(&capture, mockers[i]);
        answering = &capture;
        open_rig(&rig, folder, &dynamo);
        read_dumps(&capture);
        feed(&rig, &capture, "nats", 30);
        while (test_rig_view(&rig).uncertain > 0) {
            test_rig_run(&rig);
            assert_true(kvt_clock_mono_ms() < deadline_ms);
        }
        test_rig_run(&rig);
        assert_held(&capture, &rig);
        test_rig_close(&rig);
        test_folder_remove(folder);
        close_capture(&capture);
    }
}

/* Each engine's stream is read whole, and leaves its publisher certain. */
static void
engines_are_followed(void **state)
{
    static const char *const names[] = {"kvbm-1.6.1",  "sglang-0.5.10", "sglang-0.5.23",
                                        "vllm-0.11.0", "vllm-0.20.2",   "vllm-0.33.0"};
    static struct capture capture;
    struct test_rig rig;
    char folder[256];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        open_capture(&capture, names[i]);
        open_rig(&rig, folder, &engine);
        feed(&rig, &capture, "zmq", 0);
        assert_int_equal(test_rig_view(&rig).counts.malformed, 0);
        assert_int_equal(test_rig_view(&rig).uncertain, 0);
        assert_int_equal(test_rig_view(&rig).counts.gaps, 0);
        assert_true(test_rig_view(&rig).counts.events > 10);
        test_rig_close(&rig);
        test_folder_remove(folder);
        close_capture(&capture);
    }
}

static void
bucket_is_followed(void **state)
{
    static struct capture capture;
    struct test_rig rig;
    char folder[256];

    (void)state;
    open_capture(&capture, "minio-20260212");
    open_rig(&rig, folder, &bucket);
    feed(&rig, &capture, "bucket", 0);
    assert_int_equal(test_rig_view(&rig).counts.malformed, 0);
    assert_true(test_rig_view(&rig).counts.events > 5);
    assert_true(test_rig_view(&rig).counts.skipped[WIRE_RAW_NOT_A_BLOCK] > 0);
    test_rig_close(&rig);
    test_folder_remove(folder);
    close_capture(&capture);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_is_the_engines_own_dump),
        cmocka_unit_test(late_and_asked),
        cmocka_unit_test(engines_are_followed),
        cmocka_unit_test(bucket_is_followed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
