/*
 * Property: any bytes are refused and leave an empty batch, or are a batch that keeps raw.h's
 * promises.
 */
#include "wire/dialect/dialect.h"
#include "wire/dialect/dynamo.h"

#include "tests/fuzz/raw.h"
#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct wire_raw_batch *batch = raw_batch();
    struct wire_dynamo_frames frames;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    /* The same bytes as the frames of a ZMQ message. */
    if (size >= 16 &&
        wire_dynamo_frames(bytes, 8, bytes + 8, 8, bytes + 16, size - 16, &frames, &err) == KVT_OK)
        assert(frames.envelope_size <= size - 16);
    rc = wire_dialect_decode(WIRE_DIALECT_DYNAMO, bytes, size, batch, &err);
    raw_assert_answer(rc, &err, batch);
    return 0;
}
