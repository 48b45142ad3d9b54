/*
 * Property: any bytes are refused or read; what was read can be written, and reads the same again.
 */
#include "g4/lock/lock_body.h"

#include <assert.h>
#include <string.h>

#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct g4_lock_body body;
    struct g4_lock_body again;
    char text[G4_LOCK_BODY_MAX];
    struct kvt_error err;
    const enum kvt_err rc = g4_lock_body_parse(&body, (const char *)bytes, size, &err);
    size_t text_size;

    assert(rc == KVT_OK || rc == KVT_INVALID || rc == KVT_RANGE);
    if (rc != KVT_OK) {
        assert(body.instance[0] == '\0' && body.nonce == 0 && body.epoch == 0 && !body.released);
        assert(body.acquired_ms == 0 && body.deadline_ms == 0);
        return 0;
    }
    assert(memchr(body.instance, 0, sizeof(body.instance)) != NULL);
    assert(body.epoch <= G4_LOCK_EPOCH_MAX);
    if (g4_lock_body_format(&body, text, &text_size) != KVT_OK)
        return 0; /* the last hours of 9999, west of Greenwich */
    assert(g4_lock_body_parse(&again, text, text_size, NULL) == KVT_OK);
    assert(strcmp(again.instance, body.instance) == 0);
    assert(again.acquired_ms == body.acquired_ms && again.deadline_ms == body.deadline_ms);
    assert(again.nonce == body.nonce && again.epoch == body.epoch);
    assert(again.writes == body.writes && again.released == body.released);
    return 0;
}
