/*
 * Property: any bytes as an answer or a dump are refused and leave an empty batch, or keep raw.h's
 * promises, part by part; and the parts end.
 */
#include "wire/dialect/dynamo_answer.h"

#include "wire/dialect/dialect.h"

#include "tests/fuzz/raw.h"
#include "tests/fuzz/target.h"

static void
check(enum kvt_err rc, const struct wire_raw_batch *batch, const struct kvt_error *err)
{
    if (rc == KVT_OK) {
        raw_assert_good(batch);
        return;
    }
    assert(rc == KVT_INVALID || rc == KVT_RANGE || rc == KVT_UNAVAILABLE);
    assert(err->text[0] != '\0');
    raw_assert_empty(batch);
}

typedef enum kvt_err (*decode_part)(const void *bytes, size_t size, struct wire_dynamo_part *part,
                                    struct wire_raw_batch *batch, struct kvt_error *err);

static void
try_parts(const uint8_t *bytes, size_t size, decode_part decode)
{
    struct wire_raw_batch *batch = raw_batch();
    struct wire_dynamo_part part = {.more = false};
    struct kvt_error err = {.text = ""};
    size_t parts = 0;
    enum kvt_err rc;

    do {
        rc = decode(bytes, size, &part, batch, &err);
        check(rc, batch, &err);
        assert(rc == KVT_OK || !part.more);
        assert(decode != wire_dynamo_decode_answer_part || !part.more || batch->event_count > 0);
        parts++;
        /* A group takes a few bytes at least, and so does an event. */
        assert(parts <= size + 1);
    } while (part.more);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    try_parts(bytes, size, wire_dynamo_decode_answer_part);
    try_parts(bytes, size, wire_dynamo_decode_dump_part);
    return 0;
}
