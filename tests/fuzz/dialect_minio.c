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
    static struct wire_raw_batch *batch;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    if (batch == NULL) {
        rc = wire_raw_batch_new(&batch);
        assert(rc == KVT_OK);
    }
    rc = wire_dialect_decode(WIRE_DIALECT_MINIO, bytes, size, batch, &err);
    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID || rc == KVT_RANGE);
        assert(err.text[0] != '\0');
        raw_assert_empty(batch);
        return 0;
    }
    raw_assert_good(batch);
    return 0;
}
