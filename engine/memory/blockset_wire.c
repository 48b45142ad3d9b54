#include "engine/memory/blockset_wire.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "kvbm/layout/checksum.h"

/* All numbers little-endian:
 *   0   8  magic, the last of it the version
 *   8   4  bytes of it all
 *  12   4  crc32c of all but these four
 *  16   8  nonce
 *  24   4  blocks
 *  28   4  0
 *  32  64  layout, with its fingerprint
 *  96      region
 */
static const char magic[8] = {'K', 'V', 'T', 'S', 'E', 'T', 0, 1};

enum { LAYOUT_AT = 32, REGION_AT = LAYOUT_AT + KVBM_LAYOUT_BYTES };

_Static_assert(REGION_AT + ENGINE_FABRIC_DESCRIPTION_MAX <= ENGINE_BLOCKSET_DESCRIPTION_MAX,
               "every description fits");

struct wire_head {
    char magic[8];
    uint32_t size;
    uint32_t crc;
    uint64_t nonce;
    uint32_t blocks;
    uint32_t reserved;
};

_Static_assert(sizeof(struct wire_head) == LAYOUT_AT, "as it is on the wire");

static uint32_t
checksum(const uint8_t *bytes, size_t size)
{
    return kvbm_crc32c(kvbm_crc32c(0, bytes, 12), bytes + 16, size - 16);
}

size_t
engine_blockset_pack(uint8_t out[ENGINE_BLOCKSET_DESCRIPTION_MAX],
                     const struct engine_blockset_facts *facts)
{
    const size_t size = REGION_AT + facts->region_size;
    struct wire_head head = {
        .size = htole32((uint32_t)size),
        .nonce = htole64(facts->nonce),
        .blocks = htole32(facts->blocks),
    };

    assert(facts->region_size <= ENGINE_FABRIC_DESCRIPTION_MAX);
    memcpy(head.magic, magic, sizeof(magic));
    memcpy(out, &head, sizeof(head));
    kvbm_layout_serialize(&facts->layout, out + LAYOUT_AT);
    memcpy(out + REGION_AT, facts->region, facts->region_size);
    head.crc = htole32(checksum(out, size));
    memcpy(out, &head, sizeof(head));
    return size;
}

enum kvt_err
engine_blockset_unpack(struct engine_blockset_facts *facts, const uint8_t *bytes, size_t size,
                       struct kvt_error *err)
{
    struct wire_head head;

    memset(facts, 0, sizeof(*facts));
    if (size <= REGION_AT || size > ENGINE_BLOCKSET_DESCRIPTION_MAX)
        return kvt_error_set(err, KVT_INVALID, "block set: %zu bytes are no description", size);
    memcpy(&head, bytes, sizeof(head));
    if (memcmp(head.magic, magic, sizeof(magic)) != 0 || le32toh(head.size) != size)
        return kvt_error_set(err, KVT_INVALID, "block set: no description, or of another version");
    if (le32toh(head.crc) != checksum(bytes, size))
        return kvt_error_set(err, KVT_CORRUPT, "block set: the description is damaged");
    facts->nonce = le64toh(head.nonce);
    facts->blocks = le32toh(head.blocks);
    facts->region = bytes + REGION_AT;
    facts->region_size = size - REGION_AT;
    if (facts->nonce == 0)
        return kvt_error_set(err, KVT_INVALID, "block set: a description of nothing");
    return kvbm_layout_deserialize(&facts->layout, bytes + LAYOUT_AT, KVBM_LAYOUT_BYTES, err);
}
