/*
 * Property: no message, whatever its bytes, makes the decoder read or write outside, and what is
 * decoded is encoded to what decodes to the same.
 */
#include <assert.h>
#include <string.h>

#include "wire/message/route_sync.h"

#include "tests/fuzz/target.h"

static uint64_t hashes[WIRE_ROUTE_SYNC_HASHES_MAX];

/* The rows of a message, put again; how many. */
static uint32_t
put_rows(struct wire_route_sync *message, struct kvt_buffer *rows)
{
    struct wire_route_sync_row row;
    uint32_t count = 0;

    while (wire_route_sync_next(message, &row, hashes)) {
        assert(row.id[0] != '\0' && row.state >= 1 && row.state <= 3);
        assert(row.hash_count <= WIRE_ROUTE_SYNC_HASHES_MAX && row.hash_count <= row.blocks);
        if (wire_route_sync_put(&row, rows) != KVT_OK)
            break;
        count++;
    }
    return count;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct wire_route_sync message;
    struct wire_route_sync again;
    struct kvt_buffer rows;
    struct kvt_buffer first;
    struct kvt_buffer second;
    struct kvt_error err;

    if (wire_route_sync_decode(bytes, size, &message, &err) != KVT_OK) {
        assert(message.row_count == 0 && message.heard_count == 0);
        return 0;
    }
    assert(message.heard_count <= WIRE_ROUTE_SYNC_HEARD_MAX);
    kvt_buffer_init(&rows, WIRE_ROUTE_SYNC_MAX);
    kvt_buffer_init(&first, WIRE_ROUTE_SYNC_MAX);
    kvt_buffer_init(&second, WIRE_ROUTE_SYNC_MAX);
    message.row_count = put_rows(&message, &rows);
    assert(wire_route_sync_encode(&message, &rows, &first) == KVT_OK);
    assert(wire_route_sync_decode(first.data, first.size, &again, &err) == KVT_OK);
    assert(again.row_count == message.row_count);
    kvt_buffer_clear(&rows);
    again.row_count = put_rows(&again, &rows);
    assert(wire_route_sync_encode(&again, &rows, &second) == KVT_OK);
    assert(second.size == first.size && memcmp(second.data, first.data, first.size) == 0);
    kvt_buffer_release(&rows);
    kvt_buffer_release(&first);
    kvt_buffer_release(&second);
    return 0;
}
