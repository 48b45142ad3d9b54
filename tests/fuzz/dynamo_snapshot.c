/*
 * Property: any bytes as a router's snapshot are refused with a reason, or each chain becomes
 * events that the decoder of the stream reads as stores of just those blocks.
 */
#include "wire/dialect/dynamo_snapshot.h"

#include "wire/dialect/dialect.h"

#include "tests/fuzz/raw.h"
#include "tests/fuzz/target.h"

enum { PIECE = 3, BUFFER = 64 << 10 };

static void
check_piece(const struct wire_dynamo_kept *kept, uint64_t first, uint64_t count)
{
    struct wire_raw_batch *batch = raw_batch();
    struct kvt_buffer out;

    kvt_buffer_init(&out, BUFFER);
    wire_dynamo_snapshot_write(kept, first, count, &out);
    assert(kvt_buffer_ok(&out));
    assert(wire_dialect_decode(WIRE_DIALECT_DYNAMO, out.data, out.size, batch, NULL) == KVT_OK);
    raw_assert_good(batch);
    assert(batch->event_count == 1 && batch->block_count == count);
    /* An external tier is none of a worker's. */
    assert(batch->events[0].kind == WIRE_RAW_STORE || batch->events[0].kind == WIRE_RAW_SKIP);
    assert(batch->events[0].worker == kept->worker && batch->events[0].dp_rank == kept->dp_rank);
    assert(batch->events[0].kind == WIRE_RAW_SKIP ||
           batch->events[0].has_parent == (first > 0 || kept->has_parent));
    kvt_buffer_release(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct wire_dynamo_snapshot snapshot = {.bytes = bytes, .size = size};
    struct kvt_error err = {.text = ""};
    struct wire_dynamo_kept kept;
    uint64_t chains;
    uint64_t blocks;
    uint64_t met = 0;
    const enum kvt_err rc = wire_dynamo_snapshot_check(bytes, size, &chains, &blocks, &err);
    enum kvt_err next;

    assert(rc == KVT_OK || (rc == KVT_INVALID && err.text[0] != '\0'));
    while ((next = wire_dynamo_snapshot_next(&snapshot, &kept, &err)) == KVT_OK) {
        met++;
        if (rc != KVT_OK)
            continue;
        for (uint64_t first = 0; first < kept.count; first += PIECE)
            check_piece(&kept, first, kept.count - first < PIECE ? kept.count - first : PIECE);
    }
    assert(met == chains && (rc == KVT_OK) == (next == KVT_NOTFOUND));
    return 0;
}
