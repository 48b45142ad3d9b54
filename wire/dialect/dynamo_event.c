/*
 * RouterEvents in msgpack, and the verdict on both spellings.
 */
#include "wire/dialect/dynamo.h"

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
        wire_build_skip(reading->batch, event, &reading->mark, why);
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
    const struct wire_pack_text name = {text, size};

    if (WIRE_PACK_IS(name, "device"))
        reading->event->tier = KVT_TIER_G1;
    else if (WIRE_PACK_IS(name, "host_pinned"))
        reading->event->tier = KVT_TIER_G2;
    else if (WIRE_PACK_IS(name, "disk"))
        reading->event->tier = KVT_TIER_G3;
    else if (WIRE_PACK_IS(name, "external"))
        reading->event->tier = KVT_TIER_G4;
    else
        reading->unknown_tier = true;
}

/* ---- msgpack ---- */

static void
read_mm_object(struct wire_pack *pack, struct wire_dynamo_reading *reading,
               struct wire_raw_block *block)
{
    unsigned seen = 0;
    uint64_t hash = 0;
    uint32_t members;

    if (!wire_pack_map(pack, &members)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_pack_text key = wire_pack_key(pack);

        if (WIRE_PACK_IS(key, "mm_hash")) {
            wire_dynamo_once(reading, &seen, WIRE_DYNAMO_MM_HASH);
            reading->malformed |= !wire_pack_u64(pack, &hash);
        } else {
            wire_pack_skip(pack);
        }
    }
    if ((seen & WIRE_DYNAMO_MM_HASH) == 0)
        reading->malformed = true;
    else if (!reading->malformed && !wire_build_media(reading->batch, block, hash))
        wire_pack_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
}

/* {"mm_objects": [{"mm_hash", "offsets"}, ...]} */
static void
read_mm_info(struct wire_pack *pack, struct wire_dynamo_reading *reading,
             struct wire_raw_block *block)
{
    unsigned seen = 0;
    uint32_t members;
    uint32_t objects;

    if (wire_pack_nil(pack))
        return;
    if (!wire_pack_map(pack, &members)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_pack_text key = wire_pack_key(pack);

        if (!WIRE_PACK_IS(key, "mm_objects")) {
            wire_pack_skip(pack);
            continue;
        }
        wire_dynamo_once(reading, &seen, WIRE_DYNAMO_MM_OBJECTS);
        if (!wire_pack_array(pack, &objects)) {
            reading->malformed = true;
            continue;
        }
        for (uint32_t j = 0; j < objects && pack->code == KVT_OK; j++)
            read_mm_object(pack, reading, block);
    }
}

/* A block as every release since 1.0.2 writes those of text: its bytes are known but for the two
 * numbers.  False, with nothing read, when it is written in another way. */
static inline bool
read_plain_block(struct wire_pack *pack, struct wire_raw_block *block)
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

    if (wire_pack_left(pack) < HEAD + MIDDLE + TAIL + NUMBERS || memcmp(start, head, HEAD) != 0)
        return false;
    pack->at += HEAD;
    if (wire_pack_u64(pack, &block->hash) && wire_pack_left(pack) >= MIDDLE + TAIL + NUMBERS / 2 &&
        memcmp(pack->at, middle, MIDDLE) == 0) {
        pack->at += MIDDLE;
        if (wire_pack_u64(pack, &block->tokens_hash) && wire_pack_left(pack) >= TAIL &&
            memcmp(pack->at, tail, TAIL) == 0) {
            pack->at += TAIL;
            return true;
        }
    }
    if (pack->code == KVT_OK)
        pack->at = start;
    return false;
}

static void
read_block(struct wire_pack *pack, struct wire_dynamo_reading *reading,
           struct wire_raw_block *block)
{
    unsigned seen = 0;
    uint32_t members;

    if (!wire_pack_map(pack, &members)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_pack_text key = wire_pack_key(pack);

        if (WIRE_PACK_IS(key, "block_hash")) {
            wire_dynamo_once(reading, &seen, WIRE_DYNAMO_BLOCK_HASH);
            reading->malformed |= !wire_pack_u64(pack, &block->hash);
        } else if (WIRE_PACK_IS(key, "tokens_hash")) {
            wire_dynamo_once(reading, &seen, WIRE_DYNAMO_TOKENS_HASH);
            reading->malformed |= !wire_pack_u64(pack, &block->tokens_hash);
        } else if (WIRE_PACK_IS(key, "mm_extra_info")) {
            wire_dynamo_once(reading, &seen, WIRE_DYNAMO_MM_EXTRA_INFO);
            read_mm_info(pack, reading, block);
        } else {
            wire_pack_skip(pack);
        }
    }
    if ((seen & WIRE_DYNAMO_BLOCK_HASH) == 0 || (seen & WIRE_DYNAMO_TOKENS_HASH) == 0)
        reading->malformed = true;
}

static void
read_blocks(struct wire_pack *pack, struct wire_dynamo_reading *reading)
{
    uint32_t count;

    if (!wire_pack_array(pack, &count)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++) {
        struct wire_raw_block *block = wire_build_block(reading->batch, reading->event);

        if (block == NULL) {
            wire_pack_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
            return;
        }
        if (!read_plain_block(pack, block) && pack->code == KVT_OK)
            read_block(pack, reading, block);
    }
}

static void
read_stored(struct wire_pack *pack, struct wire_dynamo_reading *reading)
{
    struct wire_raw_event *event = reading->event;
    uint32_t members;

    if (!wire_pack_map(pack, &members)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_pack_text key = wire_pack_key(pack);

        if (WIRE_PACK_IS(key, "parent_hash")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_PARENT_HASH);
            event->has_parent = !wire_pack_nil(pack);
            if (event->has_parent)
                reading->malformed |= !wire_pack_u64(pack, &event->parent);
        } else if (WIRE_PACK_IS(key, "start_position")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_START_POSITION);
            if (!wire_pack_nil(pack))
                reading->malformed |= !wire_pack_u32(pack, &event->position);
        } else if (WIRE_PACK_IS(key, "blocks")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_BLOCKS);
            read_blocks(pack, reading);
        } else {
            wire_pack_skip(pack);
        }
    }
    reading->kind = WIRE_RAW_STORE;
    if ((reading->seen & WIRE_DYNAMO_BLOCKS) == 0)
        reading->malformed = true;
}

static void
read_hashes(struct wire_pack *pack, struct wire_dynamo_reading *reading)
{
    uint32_t count;

    if (!wire_pack_array(pack, &count)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++) {
        struct wire_raw_block *block = wire_build_block(reading->batch, reading->event);

        if (block == NULL)
            wire_pack_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
        else
            reading->malformed |= !wire_pack_u64(pack, &block->hash);
    }
}

static void
read_removed(struct wire_pack *pack, struct wire_dynamo_reading *reading)
{
    uint32_t members;

    if (!wire_pack_map(pack, &members)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_pack_text key = wire_pack_key(pack);

        if (WIRE_PACK_IS(key, "block_hashes")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_BLOCK_HASHES);
            read_hashes(pack, reading);
        } else {
            wire_pack_skip(pack);
        }
    }
    reading->kind = WIRE_RAW_REMOVE;
    if ((reading->seen & WIRE_DYNAMO_BLOCK_HASHES) == 0)
        reading->malformed = true;
}

/* {"stored": ...}, {"removed": ...}, "cleared" or {"cleared": nil} */
static void
read_data(struct wire_pack *pack, struct wire_dynamo_reading *reading)
{
    struct wire_pack_text variant;
    uint32_t members;

    if (wire_pack_kind(pack) == WIRE_PACK_STR) {
        (void)wire_pack_str(pack, &variant);
        if (WIRE_PACK_IS(variant, "cleared"))
            reading->kind = WIRE_RAW_CLEAR;
        else
            reading->unknown_kind = true;
        return;
    }
    if (!wire_pack_map(pack, &members) || members != 1) {
        reading->malformed = true;
        for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
            wire_pack_skip(pack);
            wire_pack_skip(pack);
        }
        return;
    }
    variant = wire_pack_key(pack);
    if (WIRE_PACK_IS(variant, "stored")) {
        read_stored(pack, reading);
    } else if (WIRE_PACK_IS(variant, "removed")) {
        read_removed(pack, reading);
    } else if (WIRE_PACK_IS(variant, "cleared") && wire_pack_nil(pack)) {
        reading->kind = WIRE_RAW_CLEAR;
    } else {
        reading->unknown_kind = true;
        wire_pack_skip(pack);
    }
}

/* {"event_id", "data", "dp_rank"} */
static void
read_event(struct wire_pack *pack, struct wire_dynamo_reading *reading)
{
    struct wire_raw_event *event = reading->event;
    uint32_t members;

    if (!wire_pack_map(pack, &members)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_pack_text key = wire_pack_key(pack);

        if (WIRE_PACK_IS(key, "event_id")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_EVENT_ID);
            reading->numbered_id = wire_pack_u64(pack, &event->id);
        } else if (WIRE_PACK_IS(key, "data")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_DATA);
            read_data(pack, reading);
        } else if (WIRE_PACK_IS(key, "dp_rank")) {
            wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_DP_RANK);
            reading->malformed |= !wire_pack_u32(pack, &event->dp_rank);
        } else {
            wire_pack_skip(pack);
        }
    }
}

static void
read_member(struct wire_pack *pack, struct wire_dynamo_reading *reading)
{
    const struct wire_pack_text key = wire_pack_key(pack);
    struct wire_pack_text text;

    if (WIRE_PACK_IS(key, "worker_id")) {
        wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_WORKER_ID);
        reading->numbered_worker = wire_pack_u64(pack, &reading->event->worker);
    } else if (WIRE_PACK_IS(key, "storage_tier")) {
        wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_STORAGE_TIER);
        if (wire_pack_str(pack, &text))
            wire_dynamo_tier(reading, text.bytes, text.size);
        else
            reading->unknown_tier = true;
    } else if (WIRE_PACK_IS(key, "residency_domain")) {
        wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_RESIDENCY_DOMAIN);
        reading->foreign |= !wire_pack_str(pack, &text) || !WIRE_PACK_IS(text, "worker");
    } else if (WIRE_PACK_IS(key, "event")) {
        wire_dynamo_once(reading, &reading->seen, WIRE_DYNAMO_EVENT);
        read_event(pack, reading);
    } else {
        wire_pack_skip(pack);
    }
}

void
wire_dynamo_pack_event(struct wire_pack *pack, struct wire_raw_batch *batch)
{
    struct wire_dynamo_reading reading;
    uint32_t members;

    if (!wire_dynamo_begin(&reading, batch)) {
        wire_pack_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
        return;
    }
    if (wire_pack_map(pack, &members))
        for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++)
            read_member(pack, &reading);
    wire_dynamo_settle(&reading);
}
