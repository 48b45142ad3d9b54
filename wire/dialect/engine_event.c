/*
 * The events of vLLM, SGLang and the KVBM consolidator: by positions or by names.
 *
 * Names come in any order, and what follows from a member may stand before it (tokens before the
 * size of a block), so members that cannot be read at once are remembered by where they stand.
 */
#include "wire/dialect/engine.h"
#include "wire/dialect/raw_builder.h"

#define NO_ROOM     "no more events, blocks, tokens and objects than a batch holds"
#define SALT_PREFIX "dynamo-cache-salt:"

enum {
    MEDIA_DIGITS = 16,
    MEDIA_TEXT = 64,
    HASH_BYTES = 8,
    SALT_PREFIX_SIZE = sizeof(SALT_PREFIX) - 1,
};

struct reading {
    struct wire_raw_batch *batch;
    struct wire_raw_event *event;
    struct wire_raw_builder_mark mark;
    enum wire_raw_kind kind;
    enum wire_raw_why why; /* of a kind that is SKIP by itself */
    struct wire_cursor_text adapter;
    struct wire_cursor_text salt;
    const uint8_t *pairs;       /* tokens in pairs; NULL: none */
    const uint8_t *extra_keys;  /* NULL: none */
    const uint8_t *block_media; /* NULL: none */
    uint32_t pair_count;
    uint32_t block_size;
    bool has_kind;
    bool has_hashes;
    bool has_tokens;
    bool foreign;
    bool unknown_tier;
    bool malformed;
};

static void
no_room(struct wire_cursor *pack)
{
    wire_cursor_fail(pack, pack->at, KVT_RANGE, NO_ROOM);
}

/* ---- members ---- */

static void
read_tag(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_cursor_text tag;

    if (!wire_cursor_str(pack, &tag)) {
        reading->malformed = true;
        return;
    }
    /* A second tag would make it two events. */
    reading->malformed |= reading->has_kind;
    reading->has_kind = true;
    if (WIRE_CURSOR_IS(tag, "BlockStored"))
        reading->kind = WIRE_RAW_STORE;
    else if (WIRE_CURSOR_IS(tag, "BlockRemoved"))
        reading->kind = WIRE_RAW_REMOVE;
    else if (WIRE_CURSOR_IS(tag, "AllBlocksCleared"))
        reading->kind = WIRE_RAW_CLEAR;
    else if (!WIRE_CURSOR_IS(tag, "Ignored"))
        reading->why = WIRE_RAW_UNKNOWN_KIND;
}

/* A number, signed or not, by its bits; bytes by their last eight, as the engine itself shortens
 * them. */
static bool
read_hash(struct wire_cursor *pack, uint64_t *hash)
{
    const uint8_t *bytes;
    size_t size;

    *hash = 0;
    if (wire_cursor_kind(pack) != WIRE_CURSOR_BIN)
        return wire_cursor_bits64(pack, hash);
    if (!wire_cursor_bin(pack, &bytes, &size) || size == 0)
        return false;
    for (size_t i = size < HASH_BYTES ? 0 : size - HASH_BYTES; i < size; i++)
        *hash = *hash << 8 | bytes[i];
    return true;
}

static void
read_hashes(struct wire_cursor *pack, struct reading *reading)
{
    uint32_t count;

    if (reading->has_hashes || !wire_cursor_array(pack, &count)) {
        if (reading->has_hashes)
            wire_cursor_skip(pack);
        reading->malformed = true;
        return;
    }
    reading->has_hashes = true;
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++) {
        struct wire_raw_block *block = wire_raw_builder_block(reading->batch, reading->event);

        if (block == NULL) {
            no_room(pack);
            return;
        }
        if (wire_cursor_left(pack) >= 9 && *pack->at == 0xcf) {
            block->hash = kvt_msgpack_be64(pack->at + 1);
            pack->at += 9;
        } else {
            reading->malformed |= !read_hash(pack, &block->hash);
        }
    }
}

static void
read_parent(struct wire_cursor *pack, struct reading *reading)
{
    reading->event->has_parent = !wire_cursor_nil(pack);
    if (reading->event->has_parent)
        reading->malformed |= !read_hash(pack, &reading->event->parent);
}

/* Most tokens are of two bytes or four. */
static inline bool
read_token(struct wire_cursor *pack, uint32_t *token)
{
    const size_t left = wire_cursor_left(pack);

    if (left >= 3 && *pack->at == 0xcd) {
        *token = (uint32_t)pack->at[1] << 8 | pack->at[2];
        pack->at += 3;
        return true;
    }
    if (left >= 5 && *pack->at == 0xce) {
        memcpy(token, pack->at + 1, sizeof(*token));
        *token = __builtin_bswap32(*token);
        pack->at += 5;
        return true;
    }
    return wire_cursor_u32(pack, token);
}

static void
read_tokens(struct wire_cursor *pack, struct reading *reading)
{
    const uint8_t *start = pack->at;
    uint32_t count;
    uint32_t token;

    if (wire_cursor_nil(pack))
        return;
    if (reading->has_tokens || !wire_cursor_array(pack, &count)) {
        if (reading->has_tokens)
            wire_cursor_skip(pack);
        reading->malformed = true;
        return;
    }
    reading->has_tokens = true;
    if (count > 0 && wire_cursor_kind(pack) == WIRE_CURSOR_ARRAY) {
        pack->at = start;
        reading->pairs = start;
        reading->pair_count = count;
        wire_cursor_skip(pack);
        return;
    }
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++) {
        reading->malformed |= !read_token(pack, &token);
        if (!wire_raw_builder_token(reading->batch, token))
            no_room(pack);
    }
}

/* What stands here is read once the whole event is known. */
static void
note(struct wire_cursor *pack, const uint8_t **where)
{
    if (wire_cursor_nil(pack))
        return;
    *where = pack->at;
    wire_cursor_skip(pack);
}

static void
read_block_size(struct wire_cursor *pack, struct reading *reading)
{
    reading->malformed |= !wire_cursor_u32(pack, &reading->block_size);
}

/* A text, or nil; anything else makes the event malformed. */
static struct wire_cursor_text
read_text(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_cursor_text text = {"", 0};

    if (!wire_cursor_nil(pack) && !wire_cursor_str(pack, &text))
        reading->malformed = true;
    return text;
}

static void
read_medium(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_raw_event *event = reading->event;
    const struct wire_cursor_text medium = read_text(pack, reading);

    switch (medium.size) {
    case 0: event->tier = KVT_TIER_G1; return;
    case 3:
        if (WIRE_CURSOR_IS(medium, "GPU"))
            event->tier = KVT_TIER_G1;
        else if (WIRE_CURSOR_IS(medium, "CPU"))
            event->tier = KVT_TIER_G2;
        else
            reading->unknown_tier = true;
        return;
    default: break;
    }
    if (WIRE_CURSOR_IS(medium, "DEVICE"))
        event->tier = KVT_TIER_G1;
    else if (WIRE_CURSOR_IS(medium, "CPU_PINNED") || WIRE_CURSOR_IS(medium, "CPU_TIER1"))
        event->tier = KVT_TIER_G2;
    else if (WIRE_CURSOR_IS(medium, "CPU_TIER2") || WIRE_CURSOR_IS(medium, "DISK") ||
             WIRE_CURSOR_IS(medium, "NVME") || WIRE_CURSOR_IS(medium, "STORAGE"))
        event->tier = KVT_TIER_G3;
    else if (WIRE_CURSOR_IS(medium, "EXTERNAL") || WIRE_CURSOR_IS(medium, "NETWORK") ||
             WIRE_CURSOR_IS(medium, "REMOTE") || WIRE_CURSOR_IS(medium, "SHARED"))
        event->tier = KVT_TIER_G4;
    else
        reading->unknown_tier = true;
}

static void
read_locality(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_cursor_text text;

    if (!wire_cursor_nil(pack))
        reading->foreign |= !wire_cursor_str(pack, &text) || !WIRE_CURSOR_IS(text, "LOCAL");
}

static void
read_ownership(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_cursor_text text;

    if (!wire_cursor_nil(pack))
        reading->foreign |= !wire_cursor_str(pack, &text) || !WIRE_CURSOR_IS(text, "framework");
}

static void
read_group(struct wire_cursor *pack, struct reading *reading)
{
    if (!wire_cursor_nil(pack))
        reading->malformed |= !wire_cursor_u32(pack, &reading->event->group);
}

static void
read_group_kind(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_cursor_text kind;

    if (wire_cursor_nil(pack))
        return;
    if (wire_cursor_str(pack, &kind) &&
        (WIRE_CURSOR_IS(kind, "full_attention") || WIRE_CURSOR_IS(kind, "mla_attention") ||
         WIRE_CURSOR_IS(kind, "sink_full_attention")))
        reading->event->group_kind = WIRE_RAW_GROUP_FULL;
    else
        reading->event->group_kind = WIRE_RAW_GROUP_PARTIAL;
}

/* A window by itself says that its group is one of windows. */
static void
read_window(struct wire_cursor *pack, struct reading *reading)
{
    if (wire_cursor_nil(pack))
        return;
    wire_cursor_skip(pack);
    if (reading->event->group_kind == WIRE_RAW_GROUP_UNSAID)
        reading->event->group_kind = WIRE_RAW_GROUP_PARTIAL;
}

/* {"cache_salt": text} */
static void
read_metadata(struct wire_cursor *pack, struct reading *reading)
{
    uint32_t members;

    if (wire_cursor_nil(pack) || !wire_cursor_map(pack, &members))
        return;
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_cursor_text key = wire_cursor_key(pack);

        if (WIRE_CURSOR_IS(key, "cache_salt"))
            reading->salt = read_text(pack, reading);
        else
            wire_cursor_skip(pack);
    }
}

/* ---- what is read when all members are known ---- */

static void
skip_all(struct wire_cursor *pack, uint32_t count)
{
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++)
        wire_cursor_skip(pack);
}

/* 16 hex digits and 48 zeros name a multimodal object; anything else among the extra keys is the
 * engine's own affair. */
static bool
parse_media(const struct wire_cursor_text *text, uint64_t *hash)
{
    *hash = 0;
    if (text->size != MEDIA_TEXT)
        return false;
    for (size_t i = 0; i < MEDIA_TEXT; i++) {
        const char c = text->bytes[i];
        const char low = (char)(c | 0x20);
        unsigned digit;

        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if (low >= 'a' && low <= 'f')
            digit = (unsigned)(low - 'a') + 10;
        else
            return false;
        if (i < MEDIA_DIGITS)
            *hash = *hash << 4 | digit;
        else if (digit != 0)
            return false;
    }
    return true;
}

/* One extra key: a text, or a text with its offset.  `block` is NULL when objects are not asked
 * for. */
static void
read_extra_key(struct wire_cursor *pack, struct reading *reading, struct wire_raw_block *block,
               bool may_salt)
{
    struct wire_cursor_text text = {"", 0};
    uint32_t members = 0;
    uint64_t hash;

    switch (wire_cursor_kind(pack)) {
    case WIRE_CURSOR_STR: (void)wire_cursor_str(pack, &text); break;
    case WIRE_CURSOR_ARRAY:
        if (wire_cursor_array(pack, &members) && members > 0 &&
            wire_cursor_kind(pack) == WIRE_CURSOR_STR) {
            (void)wire_cursor_str(pack, &text);
            members--;
        }
        skip_all(pack, members);
        break;
    default: wire_cursor_skip(pack); return;
    }
    if (block != NULL && parse_media(&text, &hash)) {
        if (!wire_raw_builder_media(reading->batch, block, hash))
            no_room(pack);
    } else if (may_salt && reading->salt.size == 0 && text.size > SALT_PREFIX_SIZE &&
               memcmp(text.bytes, SALT_PREFIX, SALT_PREFIX_SIZE) == 0) {
        reading->salt =
            (struct wire_cursor_text){text.bytes + SALT_PREFIX_SIZE, text.size - SALT_PREFIX_SIZE};
    }
}

/* Block by block: objects, and the salt, which stands with the first. */
static void
read_extra_keys(struct wire_cursor *pack, struct reading *reading)
{
    const bool objects = reading->block_media == NULL;
    uint32_t keys;
    uint32_t count;

    pack->at = reading->extra_keys;
    if (!wire_cursor_array(pack, &count)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < count && i < reading->event->count && pack->code == KVT_OK; i++) {
        struct wire_raw_block *block = &reading->batch->blocks[reading->event->first + i];

        if (wire_cursor_nil(pack) || !wire_cursor_array(pack, &keys))
            continue;
        for (uint32_t j = 0; j < keys && pack->code == KVT_OK; j++)
            read_extra_key(pack, reading, objects ? block : NULL, i == 0);
    }
}

/* {"mm_hash", ...} */
static void
read_object(struct wire_cursor *pack, struct reading *reading, struct wire_raw_block *block)
{
    uint32_t members;
    uint64_t hash;

    if (!wire_cursor_map(pack, &members)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_cursor_text key = wire_cursor_key(pack);

        if (!WIRE_CURSOR_IS(key, "mm_hash"))
            wire_cursor_skip(pack);
        else if (!wire_cursor_u64(pack, &hash))
            reading->malformed = true;
        else if (!wire_raw_builder_media(reading->batch, block, hash))
            no_room(pack);
    }
}

/* {"mm_objects": [object, ...]} of `block` */
static void
read_objects(struct wire_cursor *pack, struct reading *reading, struct wire_raw_block *block)
{
    uint32_t members;
    uint32_t objects;

    if (wire_cursor_nil(pack))
        return;
    if (!wire_cursor_map(pack, &members)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++) {
        const struct wire_cursor_text key = wire_cursor_key(pack);

        if (!WIRE_CURSOR_IS(key, "mm_objects")) {
            wire_cursor_skip(pack);
            continue;
        }
        if (!wire_cursor_array(pack, &objects))
            reading->malformed = true;
        for (uint32_t j = 0; j < objects && pack->code == KVT_OK; j++)
            read_object(pack, reading, block);
    }
}

static void
read_block_media(struct wire_cursor *pack, struct reading *reading)
{
    uint32_t count;

    pack->at = reading->block_media;
    if (!wire_cursor_array(pack, &count)) {
        reading->malformed = true;
        return;
    }
    for (uint32_t i = 0; i < count && i < reading->event->count && pack->code == KVT_OK; i++)
        read_objects(pack, reading, &reading->batch->blocks[reading->event->first + i]);
}

/* Pairs (t0, t1), (t1, t2), ...: a block of n pairs speaks of n + 1 tokens, the last of which is
 * the first of the next block. */
static void
read_pairs(struct wire_cursor *pack, struct reading *reading)
{
    uint32_t count = 0;
    uint32_t members;

    pack->at = reading->pairs;
    (void)wire_cursor_array(pack, &count);
    for (uint32_t i = 0; i < count && pack->code == KVT_OK; i++) {
        uint32_t first = 0;
        uint32_t second = 0;

        if (!wire_cursor_array(pack, &members) || members != 2) {
            reading->malformed = true;
            break;
        }
        reading->malformed |= !read_token(pack, &first);
        reading->malformed |= !read_token(pack, &second);
        if (!wire_raw_builder_token(reading->batch, first) ||
            ((i + 1) % reading->block_size == 0 && !wire_raw_builder_token(reading->batch, second)))
            no_room(pack);
    }
}

/* A store's tokens must be its blocks', all of them. */
static void
settle_tokens(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_raw_event *event = reading->event;
    const uint64_t wanted = (uint64_t)event->count * reading->block_size;
    const uint32_t count = reading->batch->token_count - event->tokens;

    if (reading->pairs != NULL) {
        if (reading->block_size == 0 || reading->pair_count != wanted) {
            reading->malformed = true;
            return;
        }
        read_pairs(pack, reading);
        event->block_tokens = reading->block_size;
        event->pairs = true;
    } else if (count > 0) {
        if (count != wanted)
            reading->malformed = true;
        event->block_tokens = reading->block_size;
    }
}

static void
settle_store(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_raw_event *event = reading->event;
    const uint8_t *resume = pack->at;

    settle_tokens(pack, reading);
    if (reading->block_media != NULL && pack->code == KVT_OK)
        read_block_media(pack, reading);
    if (reading->extra_keys != NULL && pack->code == KVT_OK)
        read_extra_keys(pack, reading);
    if (pack->code == KVT_OK)
        pack->at = resume;
    event->seed = kvt_token_seed(reading->adapter.bytes, reading->adapter.size, reading->salt.bytes,
                                 reading->salt.size);
    event->salted = reading->salt.size > 0;
    if (!event->has_parent)
        event->position = 0;
}

static void
settle(struct wire_cursor *pack, struct reading *reading)
{
    struct wire_raw_event *event = reading->event;
    enum wire_raw_why why = WIRE_RAW_FINE;

    if (event->tier == WIRE_RAW_TIER_ALL && !reading->unknown_tier)
        event->tier = KVT_TIER_G1;
    if (!reading->has_kind ||
        (reading->kind != WIRE_RAW_SKIP && reading->kind != WIRE_RAW_CLEAR && !reading->has_hashes))
        reading->malformed = true;
    if (reading->why == WIRE_RAW_UNKNOWN_KIND)
        why = WIRE_RAW_UNKNOWN_KIND;
    else if (reading->foreign)
        why = WIRE_RAW_FOREIGN_DOMAIN;
    else if (event->group_kind == WIRE_RAW_GROUP_PARTIAL && reading->kind != WIRE_RAW_CLEAR)
        why = WIRE_RAW_FILTERED_GROUP;
    else if (reading->unknown_tier)
        why = WIRE_RAW_UNKNOWN_TIER;
    else if (reading->malformed)
        why = WIRE_RAW_MALFORMED;
    if (why == WIRE_RAW_FINE && reading->kind == WIRE_RAW_STORE) {
        settle_store(pack, reading);
        if (reading->malformed)
            why = WIRE_RAW_MALFORMED;
    }
    if (why != WIRE_RAW_FINE || reading->kind == WIRE_RAW_SKIP || reading->kind == WIRE_RAW_CLEAR)
        wire_raw_builder_skip(reading->batch, event, &reading->mark, why);
    if (why == WIRE_RAW_FINE)
        event->kind = reading->kind;
    /* A clear is of all tiers. */
    if (event->kind == WIRE_RAW_CLEAR)
        event->tier = WIRE_RAW_TIER_ALL;
}

/* ---- by names and by positions ---- */

enum member {
    MEMBER_NONE,
    MEMBER_TYPE,
    MEMBER_BLOCK_HASHES,
    MEMBER_PARENT,
    MEMBER_TOKEN_IDS,
    MEMBER_BLOCK_SIZE,
    MEMBER_MEDIUM,
    MEMBER_ADAPTER,
    MEMBER_EXTRA_KEYS,
    MEMBER_GROUP,
    MEMBER_GROUP_KIND,
    MEMBER_WINDOW,
    MEMBER_LOCALITY,
    MEMBER_OWNERSHIP,
    MEMBER_SALT,
    MEMBER_METADATA,
    MEMBER_BLOCK_MEDIA,
};

static enum member
member_named(struct wire_cursor_text key)
{
    switch (key.size) {
    case 4: return WIRE_CURSOR_IS(key, "type") ? MEMBER_TYPE : MEMBER_NONE;
    case 6: return WIRE_CURSOR_IS(key, "medium") ? MEMBER_MEDIUM : MEMBER_NONE;
    case 8:
        return WIRE_CURSOR_IS(key, "locality")   ? MEMBER_LOCALITY
               : WIRE_CURSOR_IS(key, "metadata") ? MEMBER_METADATA
                                                 : MEMBER_NONE;
    case 9:
        return WIRE_CURSOR_IS(key, "token_ids")   ? MEMBER_TOKEN_IDS
               : WIRE_CURSOR_IS(key, "lora_name") ? MEMBER_ADAPTER
               : WIRE_CURSOR_IS(key, "group_idx") ? MEMBER_GROUP
               : WIRE_CURSOR_IS(key, "ownership") ? MEMBER_OWNERSHIP
                                                  : MEMBER_NONE;
    case 10:
        return WIRE_CURSOR_IS(key, "block_size")   ? MEMBER_BLOCK_SIZE
               : WIRE_CURSOR_IS(key, "extra_keys") ? MEMBER_EXTRA_KEYS
               : WIRE_CURSOR_IS(key, "cache_salt") ? MEMBER_SALT
                                                   : MEMBER_NONE;
    case 12: return WIRE_CURSOR_IS(key, "block_hashes") ? MEMBER_BLOCK_HASHES : MEMBER_NONE;
    case 14: return WIRE_CURSOR_IS(key, "block_mm_infos") ? MEMBER_BLOCK_MEDIA : MEMBER_NONE;
    case 17: return WIRE_CURSOR_IS(key, "parent_block_hash") ? MEMBER_PARENT : MEMBER_NONE;
    case 18: return WIRE_CURSOR_IS(key, "kv_cache_spec_kind") ? MEMBER_GROUP_KIND : MEMBER_NONE;
    case 28:
        return WIRE_CURSOR_IS(key, "kv_cache_spec_sliding_window") ? MEMBER_WINDOW : MEMBER_NONE;
    default: return MEMBER_NONE;
    }
}

static void
read_member(struct wire_cursor *pack, struct reading *reading, enum member member)
{
    switch (member) {
    case MEMBER_NONE: wire_cursor_skip(pack); break;
    case MEMBER_TYPE: read_tag(pack, reading); break;
    case MEMBER_BLOCK_HASHES: read_hashes(pack, reading); break;
    case MEMBER_PARENT: read_parent(pack, reading); break;
    case MEMBER_TOKEN_IDS: read_tokens(pack, reading); break;
    case MEMBER_BLOCK_SIZE: read_block_size(pack, reading); break;
    case MEMBER_MEDIUM: read_medium(pack, reading); break;
    case MEMBER_ADAPTER: reading->adapter = read_text(pack, reading); break;
    case MEMBER_EXTRA_KEYS: note(pack, &reading->extra_keys); break;
    case MEMBER_GROUP: read_group(pack, reading); break;
    case MEMBER_GROUP_KIND: read_group_kind(pack, reading); break;
    case MEMBER_WINDOW: read_window(pack, reading); break;
    case MEMBER_LOCALITY: read_locality(pack, reading); break;
    case MEMBER_OWNERSHIP: read_ownership(pack, reading); break;
    case MEMBER_SALT: reading->salt = read_text(pack, reading); break;
    case MEMBER_METADATA: read_metadata(pack, reading); break;
    case MEMBER_BLOCK_MEDIA: note(pack, &reading->block_media); break;
    }
}

/* Where things stand when they have no names: what every version added, it added at the end. */
static const enum member stored_slots[] = {
    MEMBER_TYPE,       MEMBER_BLOCK_HASHES, MEMBER_PARENT,   MEMBER_TOKEN_IDS,  MEMBER_BLOCK_SIZE,
    MEMBER_NONE,       MEMBER_MEDIUM,       MEMBER_ADAPTER,  MEMBER_EXTRA_KEYS, MEMBER_GROUP,
    MEMBER_GROUP_KIND, MEMBER_WINDOW,       MEMBER_LOCALITY, MEMBER_OWNERSHIP,
};
static const enum member removed_slots[] = {
    MEMBER_TYPE,  MEMBER_BLOCK_HASHES, MEMBER_MEDIUM,
    MEMBER_GROUP, MEMBER_LOCALITY,     MEMBER_OWNERSHIP,
};
/* Behind the tag stands whose blocks are cleared; nobody has put anything else there. */
static const enum member cleared_slots[] = {MEMBER_TYPE, MEMBER_OWNERSHIP};

enum { STORED_LEAST = 5, REMOVED_LEAST = 2, STORED_TAIL = 9, REMOVED_TAIL = 3 };

/* In the tail, versions disagree on what stands where; there the value itself says what it is. */
static enum member
member_by_value(const struct wire_cursor *pack, const struct reading *reading, enum member slot)
{
    const bool number = slot == MEMBER_GROUP || slot == MEMBER_WINDOW;
    struct wire_cursor ahead = *pack;
    struct wire_cursor_text text;

    switch (wire_cursor_kind(pack)) {
    case WIRE_CURSOR_ARRAY: return MEMBER_BLOCK_MEDIA;
    case WIRE_CURSOR_INT:
        if (number)
            return slot;
        return reading->event->group == 0 ? MEMBER_GROUP : MEMBER_WINDOW;
    case WIRE_CURSOR_STR:
        if (slot == MEMBER_GROUP_KIND || slot == MEMBER_OWNERSHIP)
            return slot;
        /* Localities are written in capitals, kinds are not. */
        if (wire_cursor_str(&ahead, &text) && text.size > 0 && text.bytes[0] >= 'a')
            return MEMBER_GROUP_KIND;
        return MEMBER_LOCALITY;
    default: return slot;
    }
}

static void
read_list(struct wire_cursor *pack, struct reading *reading, uint32_t members)
{
    const enum member *slots = removed_slots;
    uint32_t known = 1;
    uint32_t least = 1;
    uint32_t tail = UINT32_MAX;

    read_tag(pack, reading);
    if (reading->kind == WIRE_RAW_STORE) {
        slots = stored_slots;
        known = sizeof(stored_slots) / sizeof(*stored_slots);
        least = STORED_LEAST;
        tail = STORED_TAIL;
    } else if (reading->kind == WIRE_RAW_REMOVE) {
        known = sizeof(removed_slots) / sizeof(*removed_slots);
        least = REMOVED_LEAST;
        tail = REMOVED_TAIL;
    } else if (reading->kind == WIRE_RAW_CLEAR) {
        slots = cleared_slots;
        known = sizeof(cleared_slots) / sizeof(*cleared_slots);
    }
    if (members < least)
        reading->malformed = true;
    for (uint32_t i = 1; i < members && pack->code == KVT_OK; i++) {
        enum member member = i < known ? slots[i] : MEMBER_NONE;

        if (member != MEMBER_NONE && i >= tail)
            member = member_by_value(pack, reading, member);
        else if (member == MEMBER_ADAPTER && wire_cursor_kind(pack) == WIRE_CURSOR_MAP)
            member = MEMBER_METADATA;
        read_member(pack, reading, member);
    }
}

void
wire_engine_event(struct wire_cursor *pack, struct wire_raw_batch *batch)
{
    struct reading reading = {.batch = batch, .kind = WIRE_RAW_SKIP};
    uint32_t members;

    reading.mark = wire_raw_builder_mark(batch);
    reading.event = wire_raw_builder_event(batch);
    if (reading.event == NULL) {
        no_room(pack);
        return;
    }
    if (wire_cursor_kind(pack) == WIRE_CURSOR_MAP) {
        (void)wire_cursor_map(pack, &members);
        for (uint32_t i = 0; i < members && pack->code == KVT_OK; i++)
            read_member(pack, &reading, member_named(wire_cursor_key(pack)));
    } else if (wire_cursor_array(pack, &members) && members > 0) {
        read_list(pack, &reading, members);
    }
    if (pack->code == KVT_OK)
        settle(pack, &reading);
}
