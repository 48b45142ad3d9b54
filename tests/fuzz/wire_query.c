/*
 * Property: no question and no answer, whatever its bytes, makes a decoder read or write outside.
 */
#include <assert.h>

#include "wire/message/query.h"

#include "tests/fuzz/target.h"

enum { ROWS = 64 };

static void
decode_questions(const uint8_t *bytes, size_t size)
{
    uint64_t hashes[ROWS];
    struct wire_query query = {.hashes = hashes};
    struct wire_query_dump dump;
    struct wire_query_range range;
    struct kvt_error err;

    if (wire_query_decode(bytes, size, &query, ROWS, &err) == KVT_OK)
        assert(query.hash_count <= ROWS);
    else
        assert(query.hash_count == 0);
    if (wire_query_decode_dump(bytes, size, &dump, &err) != KVT_OK)
        assert(err.text[0] != '\0');
    if (wire_query_decode_range(bytes, size, &range, &err) != KVT_OK)
        assert(err.text[0] != '\0');
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct wire_query_holder holders[ROWS];
    uint8_t masks[ROWS];
    struct kvt_error err;
    enum kvt_err status;
    const void *batch;
    uint64_t cursor;
    size_t count;

    decode_questions(bytes, size);
    if (wire_query_decode_holders(bytes, size, holders, ROWS, &count, &err) != KVT_OK)
        assert(count == 0);
    assert(count <= ROWS);
    for (size_t i = 0; i < count; i++)
        assert(holders[i].tier >= KVT_TIER_G1 && holders[i].tier <= KVT_TIER_G4);
    if (wire_query_decode_masks(bytes, size, masks, ROWS, &count, &err) != KVT_OK)
        assert(count == 0);
    assert(count <= ROWS);
    if (wire_query_decode_page(bytes, size, &status, &cursor, &batch, &count, &err) != KVT_OK)
        assert(batch == NULL && count == 0);
    /* A page points into the message. */
    assert(count <= size);
    return 0;
}
