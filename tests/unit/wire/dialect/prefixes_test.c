/*
 * What is tested: the decoders of wire/dialect/ on every capture of a released producer
 * (tests/fixtures/producers/), cut at every byte: no prefix is a message, and none leaves anything.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/text/json.h"
#include "wire/dialect/dialect.h"

#include "tests/fuzz/raw.h"
#include "tests/support/seed.h"

enum { FILE_MAX = 8 << 20, FOLDER_TEXT = 1024, PATH_TEXT = 2048, PAYLOAD_MAX = 1500 };

static uint64_t
number_at(struct json_object *array, size_t at)
{
    uint64_t number;

    assert_true(kvt_json_to_u64(json_object_array_get_idx(array, at), &number));
    return number;
}

/* In memory that ends where the prefix does. */
static void
refuse_prefixes(struct wire_raw_batch *batch, enum wire_dialect dialect, const char *bytes,
                size_t size)
{
    for (size_t cut = 0; cut < size; cut++) {
        char *copy = kvt_calloc(cut > 0 ? cut : 1, 1);
        struct kvt_error err = {.text = ""};

        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        assert_int_equal(wire_dialect_decode(dialect, copy, cut, batch, &err), KVT_INVALID);
        assert_true(err.text[0] != '\0');
        raw_assert_empty(batch);
        kvt_free(copy);
    }
}

/* The last frame of a message that is not too large and no answer; with ZMQ's head of Dynamo left
 * off. */
static bool
payload_of(struct json_object *message, const char *bytes, size_t total, const char **payload,
           size_t *size)
{
    struct json_object *frames = kvt_json_array(message, "frames");
    const size_t count = json_object_array_length(frames);
    struct json_object *frame = json_object_array_get_idx(frames, count - 1);
    const uint64_t offset = number_at(frame, 0);

    *size = number_at(frame, 1);
    assert_true(offset <= total && *size <= total - offset);
    *payload = bytes + offset;
    if (count == 4 && *size > 5) {
        *payload += 5;
        *size -= 5;
    }
    return kvt_json_member(message, "answer") == NULL && *size <= PAYLOAD_MAX;
}

static unsigned
try_producer(struct wire_raw_batch *batch, const char *folder)
{
    struct json_object *messages;
    struct json_object *index;
    struct kvt_error err;
    enum wire_dialect dialect;
    const char *payload;
    char path[PATH_TEXT];
    unsigned tried = 0;
    char *bytes;
    char *text;
    size_t total;
    size_t size;

    (void)snprintf(path, sizeof(path), "%s/index.json", folder);
    assert_int_equal(kvt_file_read(&text, &size, path, FILE_MAX, &err), KVT_OK);
    assert_int_equal(kvt_json_parse(&index, text, size, path, &err), KVT_OK);
    messages = kvt_json_array(index, "messages");
    assert_non_null(messages);
    for (size_t i = 0; i < json_object_array_length(messages); i++) {
        struct json_object *message = json_object_array_get_idx(messages, i);

        (void)snprintf(path, sizeof(path), "%s/%s", folder, kvt_json_string(message, "file"));
        assert_int_equal(kvt_file_read(&bytes, &total, path, FILE_MAX, &err), KVT_OK);
        assert_true(wire_dialect_parse(kvt_json_string(message, "dialect"), &dialect));
        if (payload_of(message, bytes, total, &payload, &size)) {
            refuse_prefixes(batch, dialect, payload, size);
            tried++;
        }
        kvt_free(bytes);
    }
    (void)json_object_put(index);
    kvt_free(text);
    return tried;
}

static void
no_prefix_of_a_capture_is_a_message(void **state)
{
    DIR *folder = opendir(KVT_FIXTURES);
    struct wire_raw_batch *batch;
    char path[FOLDER_TEXT];
    unsigned tried = 0;

    (void)state;
    assert_non_null(folder);
    assert_int_equal(wire_raw_batch_new(&batch), KVT_OK);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.' || strchr(entry->d_name, '-') == NULL)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", KVT_FIXTURES, entry->d_name);
        tried += try_producer(batch, path);
    }
    (void)closedir(folder);
    wire_raw_batch_free(batch);
    print_message("%u messages\n", tried);
    assert_true(tried >= 300);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_prefix_of_a_capture_is_a_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
