/*
 * Property: any bytes are refused, or are a batch that keeps its promises, and encoding that batch
 * and decoding it again gives the same batch.
 */
#include <assert.h>
#include <string.h>

#include "wire/message/event_codec.h"

#include "tests/fuzz/target.h"

static void
assert_same(const struct kvt_event_batch *a, const struct kvt_event_batch *b)
{
    assert(strcmp(a->namespace_, b->namespace_) == 0);
    assert(strcmp(a->worker, b->worker) == 0);
    assert(a->incarnation == b->incarnation && a->first_seq == b->first_seq);
    assert(a->time_ms == b->time_ms);
    assert(a->location_count == b->location_count && a->event_count == b->event_count);
    for (uint32_t i = 0; i < a->location_count; i++) {
        assert(a->locations[i].tier == b->locations[i].tier);
        assert(a->locations[i].dp_rank == b->locations[i].dp_rank);
        assert(strcmp(a->locations[i].name, b->locations[i].name) == 0);
    }
    for (uint32_t i = 0; i < a->event_count; i++) {
        assert(a->events[i].type == b->events[i].type);
        assert(a->events[i].location == b->events[i].location);
        assert(a->events[i].sequence_hash == b->events[i].sequence_hash);
        assert(a->events[i].prefix_hash == b->events[i].prefix_hash);
        assert(a->events[i].block_size == b->events[i].block_size);
        assert(a->events[i].parent == b->events[i].parent);
        assert(a->events[i].position == b->events[i].position);
        assert(a->events[i].ranks == b->events[i].ranks);
        assert(a->events[i].tokens_hash == b->events[i].tokens_hash);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct kvt_event events[KVT_EVENTS_PER_BATCH_MAX];
    static struct kvt_event again_events[KVT_EVENTS_PER_BATCH_MAX];
    struct kvt_event_batch batch = {.events = events};
    struct kvt_event_batch again = {.events = again_events};
    struct kvt_buffer out;
    struct kvt_error err;
    enum kvt_err rc;
    uint32_t skipped;

    rc = wire_event_decode(bytes, size, &batch, KVT_EVENTS_PER_BATCH_MAX, &skipped, &err);
    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID || rc == KVT_RANGE);
        assert(batch.event_count == 0 && batch.location_count == 0 && err.text[0] != '\0');
        return 0;
    }
    for (uint32_t i = 0; i < batch.event_count; i++) {
        assert(events[i].location < batch.location_count);
        assert(events[i].type >= KVT_EVENT_STORE && events[i].type <= KVT_EVENT_BYE);
        assert(events[i].position <= KVT_POSITION_MAX);
    }
    kvt_buffer_init(&out, WIRE_EVENT_BATCH_MAX);
    rc = wire_event_encode(&batch, &out);
    assert(rc == KVT_OK);
    rc = wire_event_decode(out.data, out.size, &again, KVT_EVENTS_PER_BATCH_MAX, &skipped, &err);
    assert(rc == KVT_OK && skipped == 0);
    assert_same(&batch, &again);
    kvt_buffer_release(&out);
    return 0;
}
