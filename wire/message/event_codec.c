#include "wire/message/event_codec.h"

#include <assert.h>

#include "base/text/msgpack.h"

enum {
    HEADER_MEMBERS = 8,
    LOCATION_MEMBERS = 3,
    EVENT_MEMBERS_MIN = 5, /* the rest may be left out from the end */
    EVENT_MEMBERS = 9,
    RANKS_DEFAULT = 1,
};

static size_t
members_needed(const struct kvt_event *event)
{
    if (event->tokens_hash != 0)
        return EVENT_MEMBERS;
    if (event->ranks != RANKS_DEFAULT)
        return EVENT_MEMBERS - 1;
    if (event->position != 0)
        return EVENT_MEMBERS - 2;
    return event->parent != 0 ? EVENT_MEMBERS - 3 : EVENT_MEMBERS_MIN;
}

static void
put_event(struct kvt_msgpack_writer *writer, const struct kvt_event *event)
{
    const size_t members = members_needed(event);

    kvt_msgpack_put_array(writer, members);
    kvt_msgpack_put_uint(writer, event->type);
    kvt_msgpack_put_uint(writer, event->location);
    kvt_msgpack_put_uint(writer, event->sequence_hash);
    kvt_msgpack_put_uint(writer, event->prefix_hash);
    kvt_msgpack_put_uint(writer, event->block_size);
    if (members > 5)
        kvt_msgpack_put_uint(writer, event->parent);
    if (members > 6)
        kvt_msgpack_put_uint(writer, event->position);
    if (members > 7)
        kvt_msgpack_put_uint(writer, event->ranks);
    if (members > 8)
        kvt_msgpack_put_uint(writer, event->tokens_hash);
}

enum kvt_err
wire_event_encode(const struct kvt_event_batch *batch, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    assert(batch != NULL && out != NULL);
    if (batch->event_count > KVT_EVENTS_PER_BATCH_MAX || batch->location_count > KVT_LOCATIONS_MAX)
        return KVT_RANGE;

    kvt_msgpack_put_message(&writer, out, WIRE_EVENT_BATCH_MAX, HEADER_MEMBERS);
    kvt_msgpack_put_str(&writer, batch->namespace_);
    kvt_msgpack_put_str(&writer, batch->worker);
    kvt_msgpack_put_uint(&writer, batch->incarnation);
    kvt_msgpack_put_uint(&writer, batch->first_seq);
    kvt_msgpack_put_uint(&writer, batch->time_ms);
    kvt_msgpack_put_array(&writer, batch->location_count);
    for (uint32_t i = 0; i < batch->location_count; i++) {
        kvt_msgpack_put_array(&writer, LOCATION_MEMBERS);
        kvt_msgpack_put_uint(&writer, (uint64_t)batch->locations[i].tier);
        kvt_msgpack_put_uint(&writer, batch->locations[i].dp_rank);
        kvt_msgpack_put_str(&writer, batch->locations[i].name);
    }
    kvt_msgpack_put_array(&writer, batch->event_count);
    for (uint32_t i = 0; i < batch->event_count; i++)
        put_event(&writer, &batch->events[i]);
    return kvt_msgpack_done(&writer);
}

static void
read_locations(struct kvt_msgpack_reader *reader, struct kvt_event_batch *batch)
{
    const uint32_t count =
        kvt_msgpack_list(reader, KVT_LOCATIONS_MAX, "an array of at most 64 locations");

    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++) {
        struct kvt_location *location = &batch->locations[i];
        const uint32_t members =
            kvt_msgpack_array(reader, LOCATION_MEMBERS, "a location: [tier, dp_rank, name]");
        const uint64_t tier = kvt_msgpack_u64(reader, "a tier");

        /* A tier of a later version: its events are skipped, the others are not lost. */
        location->tier = tier <= KVT_TIER_G4 ? (enum kvt_tier)tier : WIRE_EVENT_TIER_UNKNOWN;
        location->dp_rank = kvt_msgpack_u32(reader, "a dp_rank");
        kvt_msgpack_str(reader, location->name, sizeof(location->name),
                        "a location name of at most 63 bytes");
        kvt_msgpack_rest(reader, members, LOCATION_MEMBERS);
    }
    batch->location_count = count;
}

/* One event into `event`; false when it has values we do not know. */
static bool
read_event(struct kvt_msgpack_reader *reader, const struct kvt_event_batch *batch,
           struct kvt_event *event)
{
    const uint32_t members =
        kvt_msgpack_array(reader, EVENT_MEMBERS_MIN, "an event: an array of 5 members or more");
    const uint64_t type = kvt_msgpack_u64(reader, "an event type");
    size_t offset = reader->at;
    const uint64_t location = kvt_msgpack_u64(reader, "a location index");
    bool known;

    if (reader->code != KVT_OK)
        return false;
    if (location >= batch->location_count) {
        kvt_msgpack_fail(reader, offset, KVT_INVALID, "a location index inside the table");
        return false;
    }
    known = type >= KVT_EVENT_STORE && type <= KVT_EVENT_BYE &&
            batch->locations[location].tier != WIRE_EVENT_TIER_UNKNOWN;
    *event = (struct kvt_event){
        .type = (uint8_t)type, .location = (uint16_t)location, .ranks = RANKS_DEFAULT};
    event->sequence_hash = kvt_msgpack_u64(reader, "a sequence_hash");
    event->prefix_hash = kvt_msgpack_u64(reader, "a prefix_hash");
    event->block_size = kvt_msgpack_u64(reader, "a block_size");
    if (members > 5)
        event->parent = kvt_msgpack_u64(reader, "a parent");
    if (members > 6)
        event->position =
            (uint32_t)kvt_msgpack_uint(reader, KVT_POSITION_MAX, "a position of at most 16777215");
    if (members > 7)
        event->ranks = kvt_msgpack_u32(reader, "a bitmap of ranks");
    if (members > 8)
        event->tokens_hash = kvt_msgpack_u64(reader, "a tokens_hash");
    kvt_msgpack_rest(reader, members, EVENT_MEMBERS);
    return known;
}

static void
read_events(struct kvt_msgpack_reader *reader, struct kvt_event_batch *batch, size_t capacity,
            uint32_t *skipped)
{
    const size_t most = capacity < KVT_EVENTS_PER_BATCH_MAX ? capacity : KVT_EVENTS_PER_BATCH_MAX;
    const size_t offset = reader->at;
    const uint32_t count =
        kvt_msgpack_list(reader, most, "an array of no more events than there is room for");

    if (batch->first_seq > UINT64_MAX - count) {
        kvt_msgpack_fail(reader, offset, KVT_INVALID, "sequences below 2^64");
        return;
    }
    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++) {
        if (read_event(reader, batch, &batch->events[batch->event_count]))
            batch->event_count++;
        else
            (*skipped)++;
    }
}

/* An empty batch.  Its table of locations is left alone: 5 KiB to clear for each message. */
static void
clear(struct kvt_event_batch *batch)
{
    batch->namespace_[0] = '\0';
    batch->worker[0] = '\0';
    batch->incarnation = 0;
    batch->first_seq = 0;
    batch->time_ms = 0;
    batch->location_count = 0;
    batch->event_count = 0;
}

enum kvt_err
wire_event_decode(const void *bytes, size_t size, struct kvt_event_batch *batch, size_t capacity,
                  uint32_t *skipped, struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    uint32_t members;
    enum kvt_err rc;

    assert(batch != NULL && skipped != NULL);
    assert(batch->events != NULL || capacity == 0);
    clear(batch);
    *skipped = 0;
    if (size > WIRE_EVENT_BATCH_MAX)
        return kvt_msgpack_refuse("event batch", size, WIRE_EVENT_BATCH_MAX, err);

    members = kvt_msgpack_message(&reader, bytes, size, HEADER_MEMBERS,
                                  "a batch: an array of 8 members or more");
    kvt_msgpack_str(&reader, batch->namespace_, sizeof(batch->namespace_),
                    "a namespace of at most 127 bytes");
    kvt_msgpack_str(&reader, batch->worker, sizeof(batch->worker),
                    "a worker name of at most 63 bytes");
    batch->incarnation = kvt_msgpack_u64(&reader, "an incarnation");
    batch->first_seq = kvt_msgpack_u64(&reader, "a first_seq");
    batch->time_ms = kvt_msgpack_u64(&reader, "a time in ms");
    read_locations(&reader, batch);
    read_events(&reader, batch, capacity, skipped);
    rc = kvt_msgpack_close(&reader, members, HEADER_MEMBERS, "event batch", err);
    if (rc != KVT_OK) {
        /* Half a batch must not look like a whole one. */
        clear(batch);
        *skipped = 0;
    }
    return rc;
}
