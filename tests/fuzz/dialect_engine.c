/*
 * Property: any bytes are refused and leave an empty batch, or are a batch that keeps raw.h's
 * promises, also after the filter of cache groups.
 */
#include "wire/dialect/dialect.h"
#include "wire/dialect/engine.h"

#include "tests/fuzz/raw.h"
#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct wire_raw_batch *batch = raw_batch();
    struct wire_engine_groups groups = {.full = 0};
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    rc = wire_dialect_decode(WIRE_DIALECT_ENGINE, bytes, size, batch, &err);
    raw_assert_answer(rc, &err, batch);
    if (rc != KVT_OK)
        return 0;
    wire_engine_groups_filter(&groups, batch);
    raw_assert_good(batch);
    return 0;
}
