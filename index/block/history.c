#include "index/block/history.h"

#include <string.h>

#include "index/block/state.h"

enum {
    CAPACITY_FIRST = 1024,
    HOLDER_SHIFT = 16,
    NAMESPACE_SHIFT = 4,
    KIND_MASK = 1,
};

#define NAMESPACE_MASK (~(uint32_t)0 << NAMESPACE_SHIFT & 0xffff)

_Static_assert(INDEX_HOLDERS_MAX <= 1 << 16 && INDEX_NAMESPACES_MAX <= 1 << 12, "a word says it");

void
index_history_release(struct index *index)
{
    struct index_history_ring *ring = &index->history;

    index_memory_give(&index->memory, ring->records, ring->capacity, sizeof(*ring->records));
    *ring = (struct index_history_ring){.records = NULL};
}

/* Twice the ring, before it goes round for the first time; without memory it stays as it is. */
static void
grow(struct index *index)
{
    struct index_history_ring *ring = &index->history;
    const uint32_t capacity = ring->capacity == 0 ? CAPACITY_FIRST : ring->capacity * 2;
    struct index_past_record *records;

    /* A sixteenth of the memory at most. */
    if (ring->count > ring->capacity || capacity > INDEX_HISTORY_CHANGES ||
        capacity * sizeof(*records) > index->memory.max / 16)
        return;
    records = index_memory_take_lines(&index->memory, capacity, sizeof(*records));
    if (records == NULL)
        return;
    if (ring->capacity > 0)
        memcpy(records, ring->records, ring->capacity * sizeof(*records));
    index_memory_give(&index->memory, ring->records, ring->capacity, sizeof(*records));
    ring->records = records;
    ring->capacity = capacity;
}

static uint32_t
what_of(uint32_t ns, uint32_t holder, enum index_change_kind kind)
{
    return holder << HOLDER_SHIFT | ns << NAMESPACE_SHIFT | (kind == INDEX_REMOVE);
}

void
index_history_note(struct index *index, uint32_t ns, uint32_t holder, enum index_change_kind kind,
                   uint32_t first_number, uint32_t count, uint32_t time_s)
{
    struct index_history_ring *ring = &index->history;
    const uint32_t what = what_of(ns, holder, kind);

    if (time_s == INDEX_HISTORY_NOT)
        return;
    /* When it is full for the first time it may grow. */
    if (count == 1 && ring->count != ring->capacity) {
        ring->records[ring->count++ & (ring->capacity - 1)] = (struct index_past_record){
            .hash = index_state_seq(index, first_number), .time_s = time_s, .what = what};
        return;
    }
    for (uint32_t i = 0; i < count;) {
        struct index_past_record *record;
        uint32_t at;
        uint32_t most;

        if (ring->count >= ring->capacity)
            grow(index);
        if (ring->capacity == 0)
            return;
        at = (uint32_t)(ring->count & (ring->capacity - 1));
        most = ring->capacity - at < count - i ? ring->capacity - at : count - i;
        record = &ring->records[at];
        for (const uint32_t end = i + most; i < end; i++)
            *record++ = (struct index_past_record){
                .hash = index_state_seq(index, first_number + i), .time_s = time_s, .what = what};
        ring->count += most;
    }
}

size_t
index_history(struct index *index, uint32_t ns, uint64_t hash, struct index_past *past,
              size_t capacity)
{
    const struct index_history_ring *ring = &index->history;
    const uint32_t in_namespace = ns << NAMESPACE_SHIFT;
    size_t found = 0;
    uint64_t remembered;

    assert(index != NULL && (past != NULL || capacity == 0));
    (void)pthread_mutex_lock(&index->lock);
    remembered = ring->count < ring->capacity ? ring->count : ring->capacity;
    for (uint64_t i = 1; i <= remembered && found < capacity; i++) {
        const struct index_past_record *record =
            &ring->records[(ring->count - i) & (ring->capacity - 1)];

        if (record->hash != hash || (record->what & NAMESPACE_MASK) != in_namespace)
            continue;
        past[found++] = (struct index_past){
            .time_ms = (uint64_t)record->time_s * 1000,
            .holder = record->what >> HOLDER_SHIFT,
            .kind = (record->what & KIND_MASK) != 0 ? INDEX_REMOVE : INDEX_STORE,
        };
    }
    (void)pthread_mutex_unlock(&index->lock);
    return found;
}
