/*
 * Property: any bytes are refused, or describe a block set whose shape is refused or is within its
 * own bounds, and describing that again gives the same bytes.  Every input is tried as it is and
 * with the checksum it should have, so that mutations get past it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kvbm/layout/checksum.h"
#include "kvbm/storage/tier_storage.h"

#include "engine/memory/blockset_shape.h"
#include "engine/memory/blockset_wire.h"
#include "tests/fuzz/target.h"

static void
check_shape(const struct engine_blockset_facts *facts)
{
    struct engine_blockset_shape shape;
    const enum kvt_err rc = engine_blockset_shape(&shape, &facts->layout, facts->blocks, NULL);

    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID || rc == KVT_RANGE || rc == KVT_UNSUPPORTED);
        return;
    }
    assert(facts->blocks > 0 && facts->blocks <= KVBM_STORAGE_BLOCKS_MAX);
    assert(shape.grain > 0 && shape.grain * shape.grains == facts->layout.block_size);
    assert(shape.entry_size >= sizeof(struct engine_blockset_entry) + 4 * (size_t)shape.grains);
    assert(engine_blockset_entry_at(&shape, facts->blocks - 1) + shape.entry_size <= shape.data);
    assert(engine_blockset_data_at(&shape, facts->blocks - 1) + facts->layout.block_size <=
           shape.size);
}

static void
check(const uint8_t *bytes, size_t size)
{
    uint8_t again[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    struct engine_blockset_facts facts;
    const enum kvt_err rc = engine_blockset_unpack(&facts, bytes, size, NULL);

    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID || rc == KVT_RANGE || rc == KVT_CORRUPT || rc == KVT_UNSUPPORTED);
        return;
    }
    assert(facts.region >= bytes && facts.region + facts.region_size == bytes + size);
    assert(facts.nonce != 0 && engine_blockset_pack(again, &facts) == size);
    assert(memcmp(again + 16, bytes + 16, 12) == 0);
    check_shape(&facts);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *mended;
    uint32_t word;

    check(bytes, size);
    if (size < 32)
        return 0;
    mended = malloc(size);
    assert(mended != NULL);
    memcpy(mended, bytes, size);
    word = (uint32_t)size;
    memcpy(mended + 8, &word, sizeof(word));
    word = kvbm_crc32c(kvbm_crc32c(0, mended, 12), mended + 16, size - 16);
    memcpy(mended + 12, &word, sizeof(word));
    check(mended, size);
    free(mended);
    return 0;
}
