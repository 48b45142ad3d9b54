/*
 * Property: any bytes are refused and leave an empty batch, or are a batch that keeps raw.h's
 * promises.
 */
#include "wire/dialect/dialect.h"

#include "tests/fuzz/raw.h"
#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct wire_raw_batch *batch = raw_batch();
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    rc = wire_dialect_decode(WIRE_DIALECT_MINIO, bytes, size, batch, &err);
    raw_assert_answer(rc, &err, batch);
    return 0;
}
