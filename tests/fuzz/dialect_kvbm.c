/*
 * Property: any bytes are refused and leave an empty batch, or are a batch that keeps raw.h's
 * promises, whichever revision their hashes are taken for.
 */
#include "wire/dialect/dialect.h"
#include "wire/dialect/kvbm_event.h"

#include "tests/fuzz/raw.h"
#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const enum kvt_key_revision revisions[] = {KVT_KEY_KVBM_A, KVT_KEY_KVBM_B};
    struct wire_raw_batch *batch = raw_batch();
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    for (size_t i = 0; i < 2; i++) {
        rc = wire_kvbm_decode(revisions[i], bytes, size, batch, &err);
        raw_assert_answer(rc, &err, batch);
        assert(rc != KVT_OK || batch->worker[0] != '\0');
    }
    return 0;
}
