#include "tests/unit/wire/dialect/dialect_bytes.h"

#include <msgpack.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "base/text/json.h"

#include "tests/fuzz/raw.h"
#include "tests/support/seed.h"

enum { CHANGES = 3000 };

int
dialect_bytes_set_up(void **state)
{
    struct wire_raw_batch *batch;

    if (wire_raw_batch_new(&batch) != KVT_OK)
        return 1;
    *state = batch;
    return 0;
}

int
dialect_bytes_tear_down(void **state)
{
    wire_raw_batch_free(*state);
    return 0;
}

static size_t
unhex(const char *hex, uint8_t *out, size_t room)
{
    const size_t size = strlen(hex) / 2;

    assert_true(size <= room);
    for (size_t i = 0; i < size; i++) {
        unsigned byte;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return size;
}

void
dialect_bytes_hex(struct dialect_bytes *out, const char *hex)
{
    out->size = unhex(hex, out->bytes, sizeof(out->bytes));
}

void
dialect_bytes_json(struct dialect_bytes *out, const char *text)
{
    out->size = strlen(text);
    assert_true(out->size <= sizeof(out->bytes));
    for (size_t i = 0; i < out->size; i++)
        out->bytes[i] = (uint8_t)(text[i] == '\'' ? '"' : text[i]);
}

static void
put_str(msgpack_packer *packer, const char *text)
{
    (void)msgpack_pack_str_with_body(packer, text, strlen(text));
}

static void pack_value(msgpack_packer *packer, struct json_object *value);

static void
pack_object(msgpack_packer *packer, struct json_object *value)
{
    struct json_object_iterator at = json_object_iter_begin(value);
    const struct json_object_iterator end = json_object_iter_end(value);

    (void)msgpack_pack_map(packer, (size_t)json_object_object_length(value));
    for (; !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
        put_str(packer, json_object_iter_peek_name(&at));
        pack_value(packer, json_object_iter_peek_value(&at));
    }
}

static void
pack_text(msgpack_packer *packer, const char *text)
{
    uint8_t bytes[256];

    if (strncmp(text, "bin:", 4) == 0)
        (void)msgpack_pack_bin_with_body(packer, bytes, unhex(text + 4, bytes, sizeof(bytes)));
    else
        put_str(packer, text);
}

/* Recursion is fine here: the texts are the tests' own. */
static void
pack_value(msgpack_packer *packer, struct json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null: (void)msgpack_pack_nil(packer); break;
    case json_type_boolean:
        (void)(json_object_get_boolean(value) ? msgpack_pack_true(packer)
                                              : msgpack_pack_false(packer));
        break;
    case json_type_double: (void)msgpack_pack_double(packer, json_object_get_double(value)); break;
    case json_type_int:
        if (json_object_get_int64(value) < 0)
            (void)msgpack_pack_int64(packer, json_object_get_int64(value));
        else
            (void)msgpack_pack_uint64(packer, json_object_get_uint64(value));
        break;
    case json_type_string: pack_text(packer, json_object_get_string(value)); break;
    case json_type_array:
        (void)msgpack_pack_array(packer, json_object_array_length(value));
        for (size_t i = 0; i < json_object_array_length(value); i++)
            pack_value(packer, json_object_array_get_idx(value, i));
        break;
    case json_type_object: pack_object(packer, value); break;
    }
}

void
dialect_bytes_pack(struct dialect_bytes *out, const char *text)
{
    struct json_object *value;
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    struct kvt_error err;

    dialect_bytes_json(out, text);
    if (kvt_json_parse(&value, (const char *)out->bytes, out->size, "test", &err) != KVT_OK)
        fail_msg("%s", err.text);
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    pack_value(&packer, value);
    assert_true(buffer.size <= sizeof(out->bytes));
    memcpy(out->bytes, buffer.data, buffer.size);
    out->size = buffer.size;
    msgpack_sbuffer_destroy(&buffer);
    (void)json_object_put(value);
}

void
dialect_bytes_decode(enum wire_dialect dialect, const struct dialect_bytes *message,
                     struct wire_raw_batch *batch)
{
    struct kvt_error err = {.text = ""};

    if (wire_dialect_decode(dialect, message->bytes, message->size, batch, &err) != KVT_OK)
        fail_msg("%s", err.text);
    raw_assert_good(batch);
}

void
dialect_bytes_refuse(enum wire_dialect dialect, const struct dialect_bytes *message,
                     struct wire_raw_batch *batch, enum kvt_err code)
{
    struct kvt_error err = {.text = ""};

    assert_int_equal(wire_dialect_decode(dialect, message->bytes, message->size, batch, &err),
                     code);
    assert_true(err.text[0] != '\0');
    raw_assert_empty(batch);
}

/* In memory of exactly its size, so that a sanitizer sees what is read behind it. */
static enum kvt_err
decode_exact(enum wire_dialect dialect, const uint8_t *bytes, size_t size,
             struct wire_raw_batch *batch)
{
    uint8_t *copy = kvt_calloc(size > 0 ? size : 1, 1);
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    rc = wire_dialect_decode(dialect, copy, size, batch, &err);
    kvt_free(copy);
    raw_assert_answer(rc, &err, batch);
    return rc;
}

void
dialect_bytes_hurt(enum wire_dialect dialect, const struct dialect_bytes *message,
                   struct wire_raw_batch *batch)
{
    struct dialect_bytes *changed = kvt_calloc(1, sizeof(*changed));
    uint64_t random = test_seed();

    assert_non_null(changed);
    for (size_t size = 0; size < message->size; size++)
        assert_int_equal(decode_exact(dialect, message->bytes, size, batch), KVT_INVALID);
    for (int i = 0; i < CHANGES; i++) {
        const uint64_t places = 1 + kvt_random_below(&random, 4);

        *changed = *message;
        for (uint64_t j = 0; j < places; j++)
            changed->bytes[kvt_random_below(&random, changed->size)] =
                (uint8_t)kvt_random_next(&random);
        (void)decode_exact(dialect, changed->bytes, changed->size, batch);
    }
    kvt_free(changed);
}
