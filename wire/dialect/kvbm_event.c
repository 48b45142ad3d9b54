/*
 * kvbm.events: [events, instance], events = {"Create": [hash...]} | {"Remove": [hash...]} |
 * "Shutdown".  A hash is a positional lineage hash of 128 bits.
 */
#include "wire/dialect/kvbm_event.h"

#include <inttypes.h>
#include <stdio.h>

#include "wire/dialect/msgpack_cursor.h"
#include "wire/dialect/raw_builder.h"

#define NO_ROOM "no more events and blocks than a batch holds"

enum { MODE_BITS = 2, MODES = 3, WIDE_BYTES = 16 };

/* These events name no tier: a block is somewhere in its instance.  Host memory stands for that:
 * nobody is promised the GPU. */
#define TIER KVT_TIER_G2

struct wide {
    uint64_t high;
    uint64_t low;
};

/* A lineage hash taken apart. */
struct lineage {
    uint64_t hash;
    uint64_t parent; /* its low bits, as many as the position leaves room for */
    uint32_t position;
};

static const unsigned position_bits[MODES] = {8, 16, 24};

static uint64_t
low_bits(uint64_t value, unsigned bits)
{
    return bits >= 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

/* `value` moved down by `shift`, the lowest 64 bits of it. */
static uint64_t
shifted(const struct wide *value, unsigned shift)
{
    if (shift == 0)
        return value->low;
    if (shift >= 64)
        return value->high >> (shift - 64);
    return value->low >> shift | value->high << (64 - shift);
}

/* Revision B: mode, position, hash, parent; A: mode, position, parent, hash; both of 128 bits, from
 * the top.  False for a mode that does not exist. */
static bool
take_apart(enum kvt_key_revision revision, const struct wide *value, struct lineage *lineage)
{
    const unsigned mode = (unsigned)(value->high >> (64 - MODE_BITS));
    unsigned rest;

    *lineage = (struct lineage){.hash = 0};
    if (mode >= MODES)
        return false;
    rest = 128 - MODE_BITS - position_bits[mode];
    lineage->position = (uint32_t)low_bits(shifted(value, rest), position_bits[mode]);
    if (revision == KVT_KEY_KVBM_B) {
        lineage->hash = shifted(value, rest - 64);
        lineage->parent = low_bits(value->low, rest - 64);
    } else {
        lineage->parent = low_bits(shifted(value, rest / 2), rest / 2);
        lineage->hash = low_bits(value->low, rest / 2);
    }
    return true;
}

/* 16 bytes, or a number. */
static bool
read_wide(struct wire_cursor *pack, struct wide *value)
{
    const uint8_t *bytes;
    size_t size;

    *value = (struct wide){.high = 0};
    if (wire_cursor_kind(pack) != WIRE_CURSOR_BIN)
        return wire_cursor_u64(pack, &value->low);
    if (!wire_cursor_bin(pack, &bytes, &size) || size != WIDE_BYTES)
        return false;
    value->high = kvt_msgpack_be64(bytes);
    value->low = kvt_msgpack_be64(bytes + 8);
    return true;
}

struct reading {
    enum kvt_key_revision revision;
    struct wire_raw_batch *batch;
    struct wire_raw_event *event; /* that the next hash may be added to; NULL: none */
    struct lineage last;          /* hash of that event */
};

static struct wire_raw_event *
begin_event(struct wire_cursor *pack, struct reading *reading, enum wire_raw_kind kind)
{
    reading->event = wire_raw_builder_event(reading->batch);
    if (reading->event == NULL) {
        wire_cursor_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
        return NULL;
    }
    reading->event->kind = kind;
    reading->event->tier = TIER;
    return reading->event;
}

static void
add_block(struct wire_cursor *pack, struct reading *reading, const struct lineage *lineage)
{
    struct wire_raw_block *block = wire_raw_builder_block(reading->batch, reading->event);

    if (block == NULL)
        wire_cursor_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
    else
        block->hash = lineage->hash;
    reading->last = *lineage;
}

/* The blocks of one message need not be a chain: the default policy publishes only a few positions.
 * Those that are one become one event. */
static void
add_created(struct wire_cursor *pack, struct reading *reading, const struct lineage *lineage)
{
    const bool follows =
        reading->event != NULL && lineage->position == reading->last.position + 1 &&
        lineage->parent ==
            kvt_key_parent_fragment(reading->revision, lineage->position, reading->last.hash);

    if (!follows) {
        struct wire_raw_event *event = begin_event(pack, reading, WIRE_RAW_STORE);

        if (event == NULL)
            return;
        event->position = lineage->position;
        event->parent = lineage->parent;
    }
    add_block(pack, reading, lineage);
}

/* A hash that cannot be read is an event of its own, and parts those around it. */
static void
add_malformed(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_raw_event *event = begin_event(pack, reading, WIRE_RAW_SKIP);

    if (event != NULL)
        event->why = WIRE_RAW_MALFORMED;
    reading->event = NULL;
}

static void
read_hashes(struct wire_cursor *pack, struct reading *reading, enum wire_raw_kind kind)
{
    const uint8_t *start = pack->at;
    struct lineage lineage;
    struct wide value;
    uint32_t count;

    if (!wire_cursor_array(pack, &count)) {
        wire_cursor_fail(pack, start, KVT_INVALID, "an array of hashes");
        return;
    }
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++) {
        if (!read_wide(pack, &value) || !take_apart(reading->revision, &value, &lineage)) {
            if (pack->code == KVT_OK)
                add_malformed(pack, reading);
        } else if (kind == WIRE_RAW_STORE) {
            add_created(pack, reading, &lineage);
        } else if (reading->event != NULL || begin_event(pack, reading, kind) != NULL) {
            add_block(pack, reading, &lineage);
        }
    }
}

static void
add_unknown(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_raw_event *event = begin_event(pack, reading, WIRE_RAW_SKIP);

    if (event != NULL)
        event->why = WIRE_RAW_UNKNOWN_KIND;
}

static void
read_events(struct wire_cursor *pack, struct reading *reading)
{
    const uint8_t *start = pack->at;
    struct wire_cursor_text variant;
    uint32_t members;

    if (wire_cursor_kind(pack) == WIRE_CURSOR_STR) {
        (void)wire_cursor_str(pack, &variant);
        if (WIRE_CURSOR_IS(variant, "Shutdown"))
            (void)begin_event(pack, reading, WIRE_RAW_BYE);
        else
            add_unknown(pack, reading);
        return;
    }
    if (!wire_cursor_map(pack, &members) || members != 1) {
        wire_cursor_fail(pack, start, KVT_INVALID, "one kind of events");
        return;
    }
    variant = wire_cursor_key(pack);
    if (WIRE_CURSOR_IS(variant, "Create")) {
        read_hashes(pack, reading, WIRE_RAW_STORE);
    } else if (WIRE_CURSOR_IS(variant, "Remove")) {
        read_hashes(pack, reading, WIRE_RAW_REMOVE);
    } else {
        wire_cursor_skip(pack);
        add_unknown(pack, reading);
    }
}

static void
read_instance(struct wire_cursor *pack, struct wire_raw_batch *batch)
{
    const uint8_t *start = pack->at;
    struct wide instance;

    if (!read_wide(pack, &instance)) {
        wire_cursor_fail(pack, start, KVT_INVALID, "an instance of 16 bytes");
        return;
    }
    (void)snprintf(batch->worker, sizeof(batch->worker), "%016" PRIx64 "%016" PRIx64, instance.high,
                   instance.low);
}

static void
read_named(struct wire_cursor *pack, struct reading *reading)
{
    const uint8_t *start = pack->at;
    unsigned events = 0;
    unsigned instances = 0;
    uint32_t members;

    (void)wire_cursor_map(pack, &members);
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_cursor_text key = wire_cursor_key(pack);

        if (WIRE_CURSOR_IS(key, "events") && events++ == 0) {
            read_events(pack, reading);
        } else if (WIRE_CURSOR_IS(key, "instance_id")) {
            instances++;
            read_instance(pack, reading->batch);
        } else {
            wire_cursor_skip(pack);
        }
    }
    if (events != 1 || instances != 1)
        wire_cursor_fail(pack, start, KVT_INVALID, "events and instance_id, once each");
}

enum kvt_err
wire_kvbm_decode(enum kvt_key_revision revision, const void *bytes, size_t size,
                 struct wire_raw_batch *batch, struct kvt_error *err)
{
    struct reading reading = {.revision = revision, .batch = batch};
    struct wire_cursor pack;
    uint32_t members;
    enum kvt_err rc;

    wire_raw_batch_clear(batch);
    if (revision != KVT_KEY_KVBM_A && revision != KVT_KEY_KVBM_B)
        return kvt_error_set(err, KVT_UNSUPPORTED, "kvbm events: of revision A or B only");
    wire_cursor_init(&pack, bytes, size);
    if (wire_cursor_kind(&pack) == WIRE_CURSOR_MAP) {
        read_named(&pack, &reading);
    } else if (wire_cursor_array(&pack, &members) && members >= 2) {
        read_events(&pack, &reading);
        read_instance(&pack, batch);
        for (uint32_t i = 2; i < members && pack.code == KVT_OK; i++)
            wire_cursor_skip(&pack);
    } else {
        wire_cursor_fail(&pack, pack.start, KVT_INVALID, "[events, instance]");
    }
    rc = wire_cursor_end(&pack, "kvbm events", err);
    if (rc != KVT_OK)
        wire_raw_batch_clear(batch);
    return rc;
}
