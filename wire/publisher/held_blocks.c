#include "wire/publisher/held_blocks.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/core/alloc.h"

enum { SLOTS_FIRST = 1024 };

#define NONE UINT32_MAX

struct slot {
    struct kvt_event event; /* type 0: free */
    uint32_t next;          /* in its chain, or among the free */
};

struct wire_held_blocks {
    struct slot *slots;
    uint32_t *heads; /* of the chains; as many as there are slots, a power of two */
    uint32_t capacity;
    uint32_t used; /* slots that were ever used: the walk ends here */
    uint32_t free;
    uint32_t count;
    uint32_t blocks_max;
};

enum kvt_err
wire_held_blocks_new(struct wire_held_blocks **out, uint32_t blocks_max)
{
    assert(blocks_max > 0 && blocks_max <= WIRE_HELD_BLOCKS_BLOCKS_MAX);
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return KVT_NOMEM;
    (*out)->blocks_max = blocks_max;
    (*out)->free = NONE;
    return KVT_OK;
}

void
wire_held_blocks_free(struct wire_held_blocks *holding)
{
    if (holding == NULL)
        return;
    kvt_free(holding->slots);
    kvt_free(holding->heads);
    kvt_free(holding);
}

/* Hashes of engines may be anything, also small numbers: splitmix64's finish spreads them. */
static uint32_t *
head_of(const struct wire_held_blocks *holding, uint32_t location, uint64_t hash)
{
    uint64_t mixed = hash + location * UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    mixed ^= mixed >> 31;
    return &holding->heads[mixed & (holding->capacity - 1)];
}

static void
link_slot(struct wire_held_blocks *holding, uint32_t at)
{
    struct slot *slot = &holding->slots[at];
    uint32_t *head = head_of(holding, slot->event.location, slot->event.sequence_hash);

    slot->next = *head;
    *head = at;
}

static enum kvt_err
grow(struct wire_held_blocks *holding, uint32_t capacity)
{
    uint32_t *heads = kvt_calloc(capacity, sizeof(*heads));
    struct slot *slots;

    if (heads == NULL)
        return KVT_NOMEM;
    slots = kvt_realloc(holding->slots, capacity, sizeof(*slots));
    if (slots == NULL) {
        kvt_free(heads);
        return KVT_NOMEM;
    }
    kvt_free(holding->heads);
    holding->slots = slots;
    holding->heads = heads;
    holding->capacity = capacity;
    memset(heads, 0xff, capacity * sizeof(*heads));
    holding->free = NONE;
    for (uint32_t at = 0; at < holding->used; at++) {
        if (slots[at].event.type != 0) {
            link_slot(holding, at);
        } else {
            slots[at].next = holding->free;
            holding->free = at;
        }
    }
    return KVT_OK;
}

enum kvt_err
wire_held_blocks_reserve(struct wire_held_blocks *holding, size_t count)
{
    uint32_t capacity = holding->capacity == 0 ? SLOTS_FIRST : holding->capacity;

    if (count > holding->blocks_max - holding->count)
        return KVT_FULL;
    while (capacity < holding->count + count)
        capacity *= 2;
    return capacity == holding->capacity ? KVT_OK : grow(holding, capacity);
}

struct kvt_event *
wire_held_blocks_find(struct wire_held_blocks *holding, uint32_t location, uint64_t hash)
{
    uint32_t at;

    if (holding->count == 0)
        return NULL;
    for (at = *head_of(holding, location, hash); at != NONE; at = holding->slots[at].next) {
        struct kvt_event *event = &holding->slots[at].event;

        if (event->sequence_hash == hash && event->location == location)
            return event;
    }
    return NULL;
}

void
wire_held_blocks_put(struct wire_held_blocks *holding, const struct kvt_event *event)
{
    uint32_t at = holding->free;

    assert(holding->count < holding->capacity && event->type != 0);
    assert(wire_held_blocks_find(holding, event->location, event->sequence_hash) == NULL);
    if (at == NONE)
        at = holding->used++;
    else
        holding->free = holding->slots[at].next;
    holding->slots[at].event = *event;
    holding->count++;
    link_slot(holding, at);
}

void
wire_held_blocks_remove(struct wire_held_blocks *holding, uint32_t location, uint64_t hash)
{
    uint32_t *link;
    uint32_t at;

    assert(wire_held_blocks_find(holding, location, hash) != NULL);
    link = head_of(holding, location, hash);
    while (holding->slots[*link].event.sequence_hash != hash ||
           holding->slots[*link].event.location != location)
        link = &holding->slots[*link].next;
    at = *link;
    *link = holding->slots[at].next;
    holding->slots[at].event.type = 0;
    holding->slots[at].next = holding->free;
    holding->free = at;
    holding->count--;
}

void
wire_held_blocks_clear(struct wire_held_blocks *holding, uint32_t location)
{
    for (uint32_t at = 0; at < holding->used; at++) {
        const struct kvt_event *event = &holding->slots[at].event;

        if (event->type != 0 && event->location == location)
            wire_held_blocks_remove(holding, location, event->sequence_hash);
    }
}

uint64_t
wire_held_blocks_count(const struct wire_held_blocks *holding)
{
    return holding->count;
}

size_t
wire_held_blocks_walk(const struct wire_held_blocks *holding, uint64_t *cursor,
                      struct kvt_event *events, size_t capacity)
{
    uint64_t at = *cursor;
    size_t count = 0;

    for (; at < holding->used && count < capacity; at++)
        if (holding->slots[at].event.type != 0)
            events[count++] = holding->slots[at].event;
    /* 0 says that this page was the last. */
    *cursor = at < holding->used ? at : 0;
    return count;
}
