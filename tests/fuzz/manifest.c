/*
 * Property: any bytes are refused, or are a manifest whose blocks are in order, lie within their
 * segments and can be found; encoded again it is the same bytes.  The crc is set right first: a
 * mutation that breaks only it would go no deeper.
 */
#include "g4/packed/manifest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "g4/object/little_endian.h"

#include "tests/fuzz/target.h"

enum { AT_CRC = 12, CHECKED = 16, AT_NUMBER = 16 };

static const char ns[] = "n";

static void
decode_one(const uint8_t *bytes, size_t size, uint64_t number)
{
    struct g4_manifest manifest;
    struct kvt_error err = {.code = KVT_OK};
    const enum kvt_err rc = g4_manifest_decode(&manifest, bytes, size, ns, number, &err);
    struct kvt_buffer again;

    assert(rc == KVT_OK || rc == KVT_CORRUPT);
    if (rc != KVT_OK) {
        assert(manifest.blocks == NULL && manifest.segments == NULL && err.text[0] != '\0');
        return;
    }
    for (size_t i = 0; i < manifest.block_count; i++) {
        const struct g4_manifest_block *block = &manifest.blocks[i];

        assert(block->segment < manifest.segment_count);
        assert((uint64_t)block->entry.offset + block->entry.length <=
               manifest.segments[block->segment].size);
        assert(g4_manifest_find(&manifest, &block->entry) == block);
    }
    kvt_buffer_init(&again, size);
    assert(g4_manifest_encode(&manifest, ns, &again) == KVT_OK);
    assert(again.size == size && memcmp(again.data, bytes, size) == 0);
    kvt_buffer_release(&again);
    g4_manifest_release(&manifest);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *copy;

    decode_one(bytes, size, 1);
    if (size < G4_MANIFEST_HEADER_SIZE)
        return 0;
    copy = kvt_calloc(size, 1);
    if (copy == NULL)
        abort();
    memcpy(copy, bytes, size);
    g4_little_endian_put(copy + AT_CRC, g4_check_crc32c(copy + CHECKED, size - CHECKED), 4);
    decode_one(copy, size, g4_little_endian_get(copy + AT_NUMBER, 8));
    kvt_free(copy);
    return 0;
}
