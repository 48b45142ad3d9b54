/*
 * Property: the end of any object is refused, or is an index whose blocks are in order and lie
 * within the object; and what was read can be found.  Crcs are set right first: a mutation that
 * breaks only them would go no deeper.
 */
#include "g4/packed/segment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "g4/object/little_endian.h"

#include "tests/fuzz/target.h"

enum { AT_CRC = 12, CHECKED = 16, AT_COUNT = 32, AT_INDEX_CRC = 36 };

static void
set_crcs(uint8_t *bytes, size_t size)
{
    uint8_t *trailer = bytes + size - G4_SEGMENT_TRAILER_SIZE;
    const uint64_t rows = g4_little_endian_get(trailer + AT_COUNT, 4) * G4_SEGMENT_ENTRY_SIZE;

    if (rows <= size - G4_SEGMENT_TRAILER_SIZE)
        g4_little_endian_put(trailer + AT_INDEX_CRC, g4_check_crc32c(trailer - rows, rows), 4);
    g4_little_endian_put(trailer + AT_CRC,
                         g4_check_crc32c(trailer + CHECKED, G4_SEGMENT_TRAILER_SIZE - CHECKED), 4);
}

static int
compare(const void *a, const void *b)
{
    return g4_segment_entry_compare(a, b);
}

static void
open_one(const uint8_t *bytes, size_t size, uint64_t whole)
{
    struct g4_segment segment;
    struct kvt_error err = {.code = KVT_OK};
    size_t need;
    const enum kvt_err rc = g4_segment_open(&segment, bytes, size, whole, &need, &err);

    assert(rc == KVT_OK || rc == KVT_CORRUPT || rc == KVT_AGAIN);
    assert((rc == KVT_AGAIN) == (need != 0));
    if (rc != KVT_OK) {
        assert(segment.entries == NULL && segment.count == 0 && err.text[0] != '\0');
        assert(need == 0 || (need > size && need <= whole));
        return;
    }
    for (size_t i = 0; i < segment.count; i++) {
        const struct g4_segment_entry *entry = &segment.entries[i];
        char key[KVT_KEY_MAX];

        assert(entry->offset >= G4_SEGMENT_HEADER_SIZE);
        assert((uint64_t)entry->offset + entry->length <= segment.bodies_end);
        assert(bsearch(entry, segment.entries, segment.count, sizeof(*entry), compare) == entry);
        assert(g4_segment_entry_key(key, "n", entry) == KVT_OK);
    }
    if (size == whole)
        assert(g4_segment_check(&segment, bytes, size, NULL) != KVT_NOMEM);
    g4_segment_release(&segment);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *copy;

    open_one(bytes, size, size);
    if (size < G4_SEGMENT_TRAILER_SIZE)
        return 0;
    copy = kvt_calloc(size, 1);
    if (copy == NULL)
        abort();
    memcpy(copy, bytes, size);
    set_crcs(copy, size);
    open_one(copy, size, size);
    open_one(copy + size - G4_SEGMENT_TRAILER_SIZE, G4_SEGMENT_TRAILER_SIZE, size);
    kvt_free(copy);
    return 0;
}
