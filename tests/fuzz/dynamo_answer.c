/*
 * Property: any bytes as an answer or a dump are refused and leave an empty batch, or keep raw.h's
 * promises; and taken in parts they come to the same events as in one.
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

static void
try_answer(const uint8_t *bytes, size_t size)
{
    struct wire_raw_batch *batch = raw_batch();
    struct wire_dynamo_part part = {.more = false};
    struct kvt_error err = {.text = ""};
    enum wire_dynamo_answer what;
    uint64_t newest;
    uint64_t events = 0;
    uint32_t whole;
    enum kvt_err rc = wire_dynamo_decode_answer(bytes, size, &what, &newest, batch, &err);
    enum kvt_err again;

    check(rc, batch, &err);
    whole = batch->event_count;
    do {
        again = wire_dynamo_decode_answer_part(bytes, size, &part, batch, &err);
        check(again, batch, &err);
        assert(again != KVT_OK || !part.more || batch->event_count > 0);
        events += batch->event_count;
    } while (again == KVT_OK && part.more);
    if (rc == KVT_OK) {
        assert(again == KVT_OK && events == whole);
        assert(part.what == what && part.newest == newest);
    }
}

static void
try_dump(const uint8_t *bytes, size_t size)
{
    struct wire_raw_batch *batch = raw_batch();
    struct wire_dynamo_part part = {.more = false};
    struct kvt_error err = {.text = ""};
    enum kvt_err rc = wire_dynamo_decode_dump(bytes, size, batch, &err);
    const uint32_t whole = batch->event_count;
    uint64_t events = 0;
    size_t parts = 0;
    enum kvt_err again;

    check(rc, batch, &err);
    do {
        again = wire_dynamo_decode_dump_part(bytes, size, &part, batch, &err);
        if (again == KVT_OK)
            raw_assert_good(batch);
        else
            check(again, batch, &err);
        events += batch->event_count;
        parts++;
        /* A group takes a few bytes at least, and so does an event. */
        assert(parts <= size + 1);
    } while (again == KVT_OK && part.more);
    if (rc == KVT_OK && again == KVT_OK)
        assert(events == whole);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    try_answer(bytes, size);
    try_dump(bytes, size);
    return 0;
}
