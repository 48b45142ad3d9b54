/*
 * wire/dialect/dynamo_internal.h -- what the msgpack and the JSON reader of RouterEvents share.
 *
 * Why: one event has two spellings, and both must come to the same verdict on what they say.
 */
#ifndef WIRE_DIALECT_DYNAMO_INTERNAL_H
#define WIRE_DIALECT_DYNAMO_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/json_pull.h"
#include "wire/dialect/dynamo.h"
#include "wire/dialect/msgpack_cursor.h"
#include "wire/dialect/raw_batch.h"
#include "wire/dialect/raw_builder.h"

/* Members that may be seen once only: a second one makes the event malformed. */
enum wire_dynamo_member {
    WIRE_DYNAMO_WORKER_ID = 1 << 0,
    WIRE_DYNAMO_STORAGE_TIER = 1 << 1,
    WIRE_DYNAMO_RESIDENCY_DOMAIN = 1 << 2,
    WIRE_DYNAMO_EVENT = 1 << 3,
    WIRE_DYNAMO_EVENT_ID = 1 << 4,
    WIRE_DYNAMO_DATA = 1 << 5,
    WIRE_DYNAMO_DP_RANK = 1 << 6,
    WIRE_DYNAMO_PARENT_HASH = 1 << 7,
    WIRE_DYNAMO_START_POSITION = 1 << 8,
    WIRE_DYNAMO_BLOCKS = 1 << 9,
    WIRE_DYNAMO_BLOCK_HASHES = 1 << 10,
    /* within one block */
    WIRE_DYNAMO_BLOCK_HASH = 1 << 11,
    WIRE_DYNAMO_TOKENS_HASH = 1 << 12,
    WIRE_DYNAMO_MM_EXTRA_INFO = 1 << 13,
    WIRE_DYNAMO_MM_OBJECTS = 1 << 14,
    WIRE_DYNAMO_MM_HASH = 1 << 15,
};

/* An event being read. */
struct wire_dynamo_reading {
    struct wire_raw_batch *batch;
    struct wire_raw_event *event;
    struct wire_raw_builder_mark mark;
    unsigned seen;           /* of the members above */
    enum wire_raw_kind kind; /* SKIP until `data` says more */
    bool numbered_worker;
    bool numbered_id;
    bool foreign;
    bool unknown_kind;
    bool unknown_tier;
    bool malformed;
};

/** Begin the batch's next event; false when there is no room. */
static inline bool
wire_dynamo_begin(struct wire_dynamo_reading *reading, struct wire_raw_batch *batch)
{
    *reading = (struct wire_dynamo_reading){.batch = batch, .kind = WIRE_RAW_SKIP};
    reading->mark = wire_raw_builder_mark(batch);
    reading->event = wire_raw_builder_event(batch);
    return reading->event != NULL;
}

static inline void
wire_dynamo_once(struct wire_dynamo_reading *reading, unsigned *seen,
                 enum wire_dynamo_member member)
{
    if ((*seen & (unsigned)member) != 0)
        reading->malformed = true;
    *seen |= (unsigned)member;
}

/** What was read becomes an event, or a SKIP with its reason. */
void wire_dynamo_settle(struct wire_dynamo_reading *reading);

/** "device", "host_pinned", "disk", "external"; anything else is an unknown tier. */
void wire_dynamo_tier(struct wire_dynamo_reading *reading, const char *text, size_t size);

/** Read the RouterEvent that is next, whatever stands there.  A batch that is full is KVT_RANGE in
 * the cursor. */
void wire_dynamo_pack_event(struct wire_cursor *pack, struct wire_raw_batch *batch);
void wire_dynamo_json_event(struct kvt_json_pull *pull, struct wire_raw_batch *batch);

#endif /* WIRE_DIALECT_DYNAMO_INTERNAL_H */
