/*
 * The batches of vLLM, SGLang and the KVBM consolidator: what is around the events.
 */
#include "wire/dialect/engine.h"

enum { MEMBERS_MIN = 2, MEMBERS_MAX = 4, GROUPS = 64 };

#define TIME_MAX 1e13 /* seconds; what is beyond is no time */

static void
read_time(struct wire_cursor *pack, struct wire_raw_batch *batch)
{
    const uint8_t *start = pack->at;
    double seconds;

    if (!wire_cursor_number(pack, &seconds))
        wire_cursor_fail(pack, start, KVT_INVALID, "a time in seconds");
    else if (seconds > 0 && seconds < TIME_MAX)
        batch->time_ms = (uint64_t)(seconds * 1000.0);
}

static void
read_events(struct wire_cursor *pack, struct wire_raw_batch *batch)
{
    const uint8_t *start = pack->at;
    uint32_t count;

    if (batch->event_count > 0 || !wire_cursor_array(pack, &count)) {
        wire_cursor_fail(pack, start, KVT_INVALID, "an array of events, once");
        return;
    }
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++)
        wire_engine_event(pack, batch);
}

static void
read_rank(struct wire_cursor *pack, uint32_t *dp_rank)
{
    const uint8_t *start = pack->at;

    if (!wire_cursor_nil(pack) && !wire_cursor_u32(pack, dp_rank))
        wire_cursor_fail(pack, start, KVT_INVALID, "a rank, or nil");
}

static void
read_list(struct wire_cursor *pack, struct wire_raw_batch *batch, uint32_t *dp_rank)
{
    const uint8_t *start = pack->at;
    uint32_t members;

    if (!wire_cursor_array(pack, &members) || members < MEMBERS_MIN || members > MEMBERS_MAX) {
        wire_cursor_fail(pack, start, KVT_INVALID, "a batch: [time, events, rank]");
        return;
    }
    read_time(pack, batch);
    read_events(pack, batch);
    if (members > MEMBERS_MIN)
        read_rank(pack, dp_rank);
    if (members > MEMBERS_MIN + 1)
        wire_cursor_skip(pack);
}

static void
read_map(struct wire_cursor *pack, struct wire_raw_batch *batch, uint32_t *dp_rank)
{
    const uint8_t *start = pack->at;
    bool has_events = false;
    uint32_t members;

    (void)wire_cursor_map(pack, &members);
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_cursor_text key = wire_cursor_key(pack);

        if (WIRE_CURSOR_IS(key, "ts")) {
            read_time(pack, batch);
        } else if (WIRE_CURSOR_IS(key, "events")) {
            has_events = true;
            read_events(pack, batch);
        } else if (WIRE_CURSOR_IS(key, "data_parallel_rank")) {
            read_rank(pack, dp_rank);
        } else {
            wire_cursor_skip(pack);
        }
    }
    if (!has_events)
        wire_cursor_fail(pack, start, KVT_INVALID, "a batch with events");
}

enum kvt_err
wire_engine_decode(const void *bytes, size_t size, struct wire_raw_batch *batch,
                   struct kvt_error *err)
{
    struct wire_cursor pack;
    uint32_t dp_rank = 0;

    wire_cursor_init(&pack, bytes, size);
    if (wire_cursor_kind(&pack) == WIRE_CURSOR_MAP)
        read_map(&pack, batch, &dp_rank);
    else
        read_list(&pack, batch, &dp_rank);
    if (dp_rank != 0)
        for (uint32_t i = 0; i < batch->event_count; i++)
            batch->events[i].dp_rank = dp_rank;
    batch->sequence_numbers_events = true;
    return wire_cursor_end(&pack, "engine batch", err);
}

/* ---- cache groups ---- */

static bool
is_foreign_group(struct wire_engine_groups *groups, const struct wire_raw_event *event)
{
    const uint64_t bit = event->group < GROUPS ? UINT64_C(1) << event->group : 0;

    switch (event->group_kind) {
    case WIRE_RAW_GROUP_FULL:
        groups->full |= bit;
        groups->partial &= ~bit;
        return false;
    case WIRE_RAW_GROUP_PARTIAL:
        groups->partial |= bit;
        groups->full &= ~bit;
        return true;
    case WIRE_RAW_GROUP_UNSAID: break;
    }
    if ((groups->partial & bit) != 0)
        return true;
    return event->group != 0 && (groups->full & bit) == 0;
}

void
wire_engine_groups_filter(struct wire_engine_groups *groups, struct wire_raw_batch *batch)
{
    for (uint32_t i = 0; i < batch->event_count; i++) {
        struct wire_raw_event *event = &batch->events[i];
        const bool about_blocks = event->kind == WIRE_RAW_STORE || event->kind == WIRE_RAW_REMOVE;
        const bool was_filtered =
            event->kind == WIRE_RAW_SKIP && event->why == WIRE_RAW_FILTERED_GROUP;

        if ((about_blocks || was_filtered) && is_foreign_group(groups, event)) {
            event->kind = WIRE_RAW_SKIP;
            event->why = WIRE_RAW_FILTERED_GROUP;
            event->count = 0;
            event->block_tokens = 0;
            event->pairs = false;
        }
    }
}
