/*
 * RouterEvents in msgpack, and the verdict on both spellings.
 */
#include "wire/dialect/dynamo_internal.h"

#define NO_ROOM "no more events, blocks and objects than a batch holds"

void
wire_dynamo_settle(struct wire_dynamo_reading *reading)
{
    struct wire_raw_event *event = reading->event;
    enum wire_raw_why why = WIRE_RAW_FINE;

    if (!reading->numbered_worker || !reading->numbered_id) {
        event->unnumbered = true;
        why = WIRE_RAW_MALFORMED;
    } else if (reading->foreign) {
        why = WIRE_RAW_FOREIGN_DOMAIN;
    } else if (reading->unknown_kind) {
        why = WIRE_RAW_UNKNOWN_KIND;
    } else if (reading->unknown_tier && reading->kind != WIRE_RAW_CLEAR) {
        why = WIRE_RAW_UNKNOWN_TIER;
    } else if (reading->malformed || reading->kind == WIRE_RAW_SKIP) {
        why = WIRE_RAW_MALFORMED;
    }
    if ((reading->seen & WIRE_DYNAMO_STORAGE_TIER) == 0)
        event->tier = KVT_TIER_G1;
    if (why != WIRE_RAW_FINE) {
        wire_raw_builder_skip(reading->batch, event, &reading->mark, why);
        return;
    }
    event->kind = reading->kind;
    /* A clear is of all tiers, whatever tier it names, even one nobody told us of. */
    if (event->kind == WIRE_RAW_CLEAR)
        event->tier = WIRE_RAW_TIER_ALL;
    /* What has a parent is not at the root, even where the message says so; what has none and no
     * position is at the root. */
    if (event->has_parent && event->position == 0)
        event->position = WIRE_RAW_POSITION_UNKNOWN;
    if (event->kind == WIRE_RAW_STORE && !event->has_parent &&
        event->position == WIRE_RAW_POSITION_UNKNOWN)
        event->position = 0;
}

void
wire_dynamo_tier(struct wire_dynamo_reading *reading, const char *text, size_t size)
{
    const struct wire_cursor_text name = {text, size};

    if (WIRE_CURSOR_IS(name, "device"))
        reading->event->tier = KVT_TIER_G1;
    else if (WIRE_CURSOR_IS(name, "host_pinned"))
        reading->event->tier = KVT_TIER_G2;
    else if (WIRE_CURSOR_IS(name, "disk"))
        reading->event->tier = KVT_TIER_G3;
    else if (WIRE_CURSOR_IS(name, "external"))
        reading->event->tier = KVT_TIER_G4;
    else
        reading->unknown_tier = true;
}

/* ---- msgpack ---- */

/* What a member of a map may be read into. */
struct place {
    struct wire_dynamo_reading *reading;
    unsigned *seen; /* WIRE_DYNAMO_* of this map */
    struct wire_raw_block *block;
};

/* Read the value of a member that is known, and say so. */
typedef bool member_fn(struct wire_cursor *pack, const struct place *place,
                       struct wire_cursor_text key);

/* Every map there is: what is no map spoils its event, members nobody told us of are stepped over,
 * and those of `needed` must be there.  Inlined, so that `member` is no call by address. */
static inline __attribute__((always_inline)) void
read_map(struct wire_cursor *pack, const struct place *place, member_fn *member, unsigned needed)
{
    uint32_t members;

    if (!wire_cursor_map(pack, &members)) {
        place->reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++)
        if (!member(pack, place, wire_cursor_key(pack)))
            wire_cursor_skip(pack);
    if ((*place->seen & needed) != needed)
        place->reading->malformed = true;
}

static inline void
once(const struct place *place, enum wire_dynamo_member which)
{
    wire_dynamo_once(place->reading, place->seen, which);
}

static bool
mm_object_member(struct wire_cursor *pack, const struct place *place, struct wire_cursor_text key)
{
    struct wire_dynamo_reading *reading = place->reading;
    uint64_t hash;

    if (!WIRE_CURSOR_IS(key, "mm_hash"))
        return false;
    once(place, WIRE_DYNAMO_MM_HASH);
    reading->malformed |= !wire_cursor_u64(pack, &hash);
    if (!reading->malformed && !wire_raw_builder_media(reading->batch, place->block, hash))
        wire_cursor_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
    return true;
}

/* {"mm_objects": [{"mm_hash", "offsets"}, ...]} */
static bool
mm_info_member(struct wire_cursor *pack, const struct place *place, struct wire_cursor_text key)
{
    uint32_t objects;

    if (!WIRE_CURSOR_IS(key, "mm_objects"))
        return false;
    once(place, WIRE_DYNAMO_MM_OBJECTS);
    if (!wire_cursor_array(pack, &objects)) {
        place->reading->malformed = true;
        return true;
    }
    for (uint32_t i = 0; i < objects && pack->code == KVT_OK; i++) {
        unsigned seen = 0;

        read_map(pack, &(struct place){place->reading, &seen, place->block}, mm_object_member,
                 WIRE_DYNAMO_MM_HASH);
    }
    return true;
}

/* A block as every release since 1.0.2 writes those of text: its bytes are known but for the two
 * numbers.  False, with nothing read, when it is written in another way. */
static inline bool
read_plain_block(struct wire_cursor *pack, struct wire_raw_block *block)
{
    static const char head[] = "\x83\xaa"
                               "block_hash";
    static const char middle[] = "\xab"
                                 "tokens_hash";
    static const char tail[] = "\xad"
                               "mm_extra_info\xc0";
    enum {
        HEAD = sizeof(head) - 1,
        MIDDLE = sizeof(middle) - 1,
        TAIL = sizeof(tail) - 1,
        NUMBERS = 2 * 9,
    };
    const uint8_t *start = pack->at;

    if (wire_cursor_left(pack) < HEAD + MIDDLE + TAIL + NUMBERS || memcmp(start, head, HEAD) != 0)
        return false;
    pack->at += HEAD;
    if (wire_cursor_u64(pack, &block->hash) &&
        wire_cursor_left(pack) >= MIDDLE + TAIL + NUMBERS / 2 &&
        memcmp(pack->at, middle, MIDDLE) == 0) {
        pack->at += MIDDLE;
        if (wire_cursor_u64(pack, &block->tokens_hash) && wire_cursor_left(pack) >= TAIL &&
            memcmp(pack->at, tail, TAIL) == 0) {
            pack->at += TAIL;
            return true;
        }
    }
    if (pack->code == KVT_OK)
        pack->at = start;
    return false;
}

static bool
block_member(struct wire_cursor *pack, const struct place *place, struct wire_cursor_text key)
{
    struct wire_dynamo_reading *reading = place->reading;
    unsigned seen = 0;

    if (WIRE_CURSOR_IS(key, "block_hash")) {
        once(place, WIRE_DYNAMO_BLOCK_HASH);
        reading->malformed |= !wire_cursor_u64(pack, &place->block->hash);
    } else if (WIRE_CURSOR_IS(key, "tokens_hash")) {
        once(place, WIRE_DYNAMO_TOKENS_HASH);
        reading->malformed |= !wire_cursor_u64(pack, &place->block->tokens_hash);
    } else if (WIRE_CURSOR_IS(key, "mm_extra_info")) {
        once(place, WIRE_DYNAMO_MM_EXTRA_INFO);
        if (!wire_cursor_nil(pack))
            read_map(pack, &(struct place){reading, &seen, place->block}, mm_info_member, 0);
    } else {
        return false;
    }
    return true;
}

static void
read_block(struct wire_cursor *pack, struct wire_dynamo_reading *reading,
           struct wire_raw_block *block)
{
    unsigned seen = 0;

    read_map(pack, &(struct place){reading, &seen, block}, block_member,
             WIRE_DYNAMO_BLOCK_HASH | WIRE_DYNAMO_TOKENS_HASH);
}

static void
read_blocks(struct wire_cursor *pack, struct wire_dynamo_reading *reading)
{
    uint32_t count;

    if (!wire_cursor_array(pack, &count)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++) {
        struct wire_raw_block *block = wire_raw_builder_block(reading->batch, reading->event);

        if (block == NULL) {
            wire_cursor_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
            return;
        }
        if (!read_plain_block(pack, block) && pack->code == KVT_OK)
            read_block(pack, reading, block);
    }
}

static bool
stored_member(struct wire_cursor *pack, const struct place *place, struct wire_cursor_text key)
{
    struct wire_dynamo_reading *reading = place->reading;
    struct wire_raw_event *event = reading->event;

    if (WIRE_CURSOR_IS(key, "parent_hash")) {
        once(place, WIRE_DYNAMO_PARENT_HASH);
        event->has_parent = !wire_cursor_nil(pack);
        if (event->has_parent)
            reading->malformed |= !wire_cursor_u64(pack, &event->parent);
    } else if (WIRE_CURSOR_IS(key, "start_position")) {
        once(place, WIRE_DYNAMO_START_POSITION);
        if (!wire_cursor_nil(pack))
            reading->malformed |= !wire_cursor_u32(pack, &event->position);
    } else if (WIRE_CURSOR_IS(key, "blocks")) {
        once(place, WIRE_DYNAMO_BLOCKS);
        read_blocks(pack, reading);
    } else {
        return false;
    }
    return true;
}

static void
read_hashes(struct wire_cursor *pack, struct wire_dynamo_reading *reading)
{
    uint32_t count;

    if (!wire_cursor_array(pack, &count)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++) {
        struct wire_raw_block *block = wire_raw_builder_block(reading->batch, reading->event);

        if (block == NULL)
            wire_cursor_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
        else
            reading->malformed |= !wire_cursor_u64(pack, &block->hash);
    }
}

static bool
removed_member(struct wire_cursor *pack, const struct place *place, struct wire_cursor_text key)
{
    if (!WIRE_CURSOR_IS(key, "block_hashes"))
        return false;
    once(place, WIRE_DYNAMO_BLOCK_HASHES);
    read_hashes(pack, place->reading);
    return true;
}

/* {"stored": ...}, {"removed": ...}, "cleared" or {"cleared": nil} */
static void
read_data(struct wire_cursor *pack, const struct place *place)
{
    struct wire_dynamo_reading *reading = place->reading;
    struct wire_cursor_text variant;
    uint32_t members;

    if (wire_cursor_kind(pack) == WIRE_CURSOR_STR) {
        (void)wire_cursor_str(pack, &variant);
        if (WIRE_CURSOR_IS(variant, "cleared"))
            reading->kind = WIRE_RAW_CLEAR;
        else
            reading->unknown_kind = true;
        return;
    }
    if (!wire_cursor_map(pack, &members) || members != 1) {
        reading->malformed = true;
        for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
            wire_cursor_skip(pack);
            wire_cursor_skip(pack);
        }
        return;
    }
    variant = wire_cursor_key(pack);
    if (WIRE_CURSOR_IS(variant, "stored")) {
        read_map(pack, place, stored_member, WIRE_DYNAMO_BLOCKS);
        reading->kind = WIRE_RAW_STORE;
    } else if (WIRE_CURSOR_IS(variant, "removed")) {
        read_map(pack, place, removed_member, WIRE_DYNAMO_BLOCK_HASHES);
        reading->kind = WIRE_RAW_REMOVE;
    } else if (WIRE_CURSOR_IS(variant, "cleared") && wire_cursor_nil(pack)) {
        reading->kind = WIRE_RAW_CLEAR;
    } else {
        reading->unknown_kind = true;
        wire_cursor_skip(pack);
    }
}

/* {"event_id", "data", "dp_rank"} */
static bool
event_member(struct wire_cursor *pack, const struct place *place, struct wire_cursor_text key)
{
    struct wire_dynamo_reading *reading = place->reading;

    if (WIRE_CURSOR_IS(key, "event_id")) {
        once(place, WIRE_DYNAMO_EVENT_ID);
        reading->numbered_id = wire_cursor_u64(pack, &reading->event->id);
    } else if (WIRE_CURSOR_IS(key, "data")) {
        once(place, WIRE_DYNAMO_DATA);
        read_data(pack, place);
    } else if (WIRE_CURSOR_IS(key, "dp_rank")) {
        once(place, WIRE_DYNAMO_DP_RANK);
        reading->malformed |= !wire_cursor_u32(pack, &reading->event->dp_rank);
    } else {
        return false;
    }
    return true;
}

static bool
router_member(struct wire_cursor *pack, const struct place *place, struct wire_cursor_text key)
{
    struct wire_dynamo_reading *reading = place->reading;
    struct wire_cursor_text text;

    if (WIRE_CURSOR_IS(key, "worker_id")) {
        once(place, WIRE_DYNAMO_WORKER_ID);
        reading->numbered_worker = wire_cursor_u64(pack, &reading->event->worker);
    } else if (WIRE_CURSOR_IS(key, "storage_tier")) {
        once(place, WIRE_DYNAMO_STORAGE_TIER);
        if (wire_cursor_str(pack, &text))
            wire_dynamo_tier(reading, text.bytes, text.size);
        else
            reading->unknown_tier = true;
    } else if (WIRE_CURSOR_IS(key, "residency_domain")) {
        once(place, WIRE_DYNAMO_RESIDENCY_DOMAIN);
        reading->foreign |= !wire_cursor_str(pack, &text) || !WIRE_CURSOR_IS(text, "worker");
    } else if (WIRE_CURSOR_IS(key, "event")) {
        once(place, WIRE_DYNAMO_EVENT);
        read_map(pack, place, event_member, 0);
    } else {
        return false;
    }
    return true;
}

void
wire_dynamo_pack_event(struct wire_cursor *pack, struct wire_raw_batch *batch)
{
    struct wire_dynamo_reading reading;

    if (!wire_dynamo_begin(&reading, batch)) {
        wire_cursor_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
        return;
    }
    read_map(pack, &(struct place){&reading, &reading.seen, NULL}, router_member, 0);
    wire_dynamo_settle(&reading);
}
