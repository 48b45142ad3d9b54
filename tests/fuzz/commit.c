/*
 * Property: any bytes are refused or read; what was read can be written, and reads the same again.
 */
#include "g4/object/commit.h"

#include <assert.h>
#include <string.h>

#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct g4_commit record;
    struct g4_commit again;
    struct kvt_buffer body;
    struct kvt_error err;
    const enum kvt_err rc = g4_commit_parse(&record, (const char *)bytes, size, &err);

    assert(rc == KVT_OK || rc == KVT_INVALID || rc == KVT_RANGE || rc == KVT_UNSUPPORTED);
    if (rc != KVT_OK || size == 0) {
        assert(record.ranks == 0 && record.writer[0] == '\0');
        return 0;
    }
    assert(record.ranks > 0 && record.ranks <= KVT_RANKS_MAX);
    assert(memchr(record.writer, 0, sizeof(record.writer)) != NULL);
    kvt_buffer_init(&body, G4_COMMIT_BODY_MAX);
    g4_commit_format(&record, &body);
    assert(kvt_buffer_ok(&body));
    assert(g4_commit_parse(&again, kvt_buffer_text(&body), body.size, NULL) == KVT_OK);
    assert(strcmp(again.writer, record.writer) == 0 && g4_commit_same(&again, &record));
    kvt_buffer_release(&body);
    return 0;
}
