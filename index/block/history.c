#include "index/block/history.h"

#include <string.h>

#include "index/block/state.h"

enum { CAPACITY_FIRST = 1024 };

_Static_assert(INDEX_HOLDERS_MAX <= 1 << 16 && INDEX_NAMESPACES_MAX <= 1 << 16, "16 bits say it");
_Static_assert(sizeof(struct index_past_record) == 20, "a record has no padding");

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

static struct index_past_record
record_of(uint32_t ns, uint32_t holder, enum index_change_kind kind, uint32_t time_s)
{
    return (struct index_past_record){.time_s = time_s,
                                      .holder = (uint16_t)holder,
                                      .ns = (uint16_t)ns,
                                      .removed = kind == INDEX_REMOVE ? 1 : 0};
}

static void
set_hash(struct index_past_record *record, uint64_t hash)
{
    memcpy(record->hash, &hash, sizeof(hash));
}

void
index_history_note(struct index *index, uint32_t ns, uint32_t holder, enum index_change_kind kind,
                   uint32_t first_number, uint32_t count, uint32_t time_s)
{
    struct index_history_ring *ring = &index->history;
    const struct index_past_record one = record_of(ns, holder, kind, time_s);

    if (time_s == INDEX_HISTORY_NOT)
        return;
    /* When it is full for the first time it may grow. */
    if (count == 1 && ring->count != ring->capacity) {
        struct index_past_record *record = &ring->records[ring->count++ & (ring->capacity - 1)];

        *record = one;
        set_hash(record, index_state_seq(index, first_number));
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
        for (const uint32_t end = i + most; i < end; i++, record++) {
            *record = one;
            set_hash(record, index_state_seq(index, first_number + i));
        }
        ring->count += most;
    }
}

void
index_history_forget(struct index *index, uint32_t ns)
{
    const struct index_history_ring *ring = &index->history;
    const uint64_t remembered = ring->count < ring->capacity ? ring->count : ring->capacity;

    for (uint64_t i = 0; i < remembered; i++)
        if (ring->records[i].ns == ns)
            memset(ring->records[i].hash, 0, sizeof(ring->records[i].hash));
}

size_t
index_history(struct index *index, uint32_t ns, uint64_t hash, struct index_past *past,
              size_t capacity)
{
    const struct index_history_ring *ring = &index->history;
    size_t found = 0;
    uint64_t remembered;

    assert(index != NULL && (past != NULL || capacity == 0));
    (void)pthread_mutex_lock(&index->lock);
    remembered = ring->count < ring->capacity ? ring->count : ring->capacity;
    for (uint64_t i = 1; i <= remembered && found < capacity; i++) {
        const struct index_past_record *record =
            &ring->records[(ring->count - i) & (ring->capacity - 1)];

        if (memcmp(record->hash, &hash, sizeof(hash)) != 0 || record->ns != ns)
            continue;
        past[found++] = (struct index_past){
            .time_ms = (uint64_t)record->time_s * 1000,
            .holder = record->holder,
            .kind = record->removed != 0 ? INDEX_REMOVE : INDEX_STORE,
        };
    }
    (void)pthread_mutex_unlock(&index->lock);
    return found;
}
