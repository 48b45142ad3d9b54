#include "advisor/publisher/seen_events.h"

#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"

/* What an event says, without padding. */
struct said {
    uint64_t sequence_hash;
    uint64_t parent;
    uint64_t tokens_hash;
    uint64_t block_size;
    uint32_t position;
    uint32_t ranks;
    uint32_t type;
    uint32_t tier;
    uint32_t dp_rank;
    uint32_t unused;
};

_Static_assert(sizeof(struct said) == 56, "no padding is hashed");
_Static_assert(ADVISOR_SEEN_CHUNKS <= 32, "`dirty` has a bit for each");

void
advisor_seen_events_release(struct advisor_seen_events *seen)
{
    for (uint32_t i = 0; i < ADVISOR_SEEN_CHUNKS; i++) {
        kvt_free(seen->chunks[i]);
        seen->chunks[i] = NULL;
    }
    seen->dirty = 0;
}

/* 0 stands for "not known" in a row. */
static uint32_t
short_digest(uint64_t digest)
{
    const uint32_t low = (uint32_t)digest;

    return low == 0 ? 1 : low;
}

static uint64_t
digest_event(const struct advisor_seen_events *seen, const struct kvt_event_batch *batch,
             const struct kvt_event *event)
{
    const struct kvt_location *location = &batch->locations[event->location];
    const struct said said = {
        .sequence_hash = event->sequence_hash,
        .parent = event->parent,
        .tokens_hash = event->tokens_hash,
        .block_size = event->block_size,
        .position = event->position,
        .ranks = event->ranks,
        .type = event->type,
        .tier = (uint32_t)location->tier,
        .dp_rank = location->dp_rank,
    };
    uint64_t digest = XXH3_64bits_withSeed(&said, sizeof(said), seen->key);

    if (location->tier == KVT_TIER_G4) /* elsewhere the name is free text */
        digest = XXH3_64bits_withSeed(location->name, strlen(location->name), digest);
    return digest;
}

/* Which of the numbers the decoder left out is not known: each stands for the whole batch. */
static uint64_t
digest_all(const struct advisor_seen_events *seen, const struct kvt_event_batch *batch,
           uint32_t unknown)
{
    uint64_t digest = seen->key ^ unknown ^ batch->first_seq;

    for (uint32_t i = 0; i < batch->event_count; i++) {
        const uint64_t event = digest_event(seen, batch, &batch->events[i]);

        digest = XXH3_64bits_withSeed(&event, sizeof(event), digest);
    }
    return digest;
}

static uint32_t
slot_of(uint64_t number)
{
    return (uint32_t)(number / ADVISOR_SEEN_CHUNK_EVENTS % ADVISOR_SEEN_CHUNKS);
}

static uint64_t
base_of(uint64_t number)
{
    return number - number % ADVISOR_SEEN_CHUNK_EVENTS;
}

/* The chunk of a slot, to be changed; NULL without memory. */
static struct advisor_seen_row *
open_chunk(struct advisor_seen_events *seen, uint32_t slot)
{
    if (seen->chunks[slot] == NULL)
        seen->chunks[slot] = kvt_calloc(1, sizeof(*seen->chunks[slot]));
    if (seen->chunks[slot] == NULL)
        return NULL;
    seen->chunks[slot]->slot = slot;
    seen->dirty |= 1u << slot;
    return seen->chunks[slot];
}

void
advisor_seen_events_vouch(struct advisor_seen_events *seen, uint64_t number)
{
    seen->vouched = number;
    (void)open_chunk(seen, 0); /* without memory a restart asks again */
}

void
advisor_seen_events_count(struct advisor_seen_events *seen, uint64_t conflicts)
{
    seen->conflicts += conflicts;
    (void)open_chunk(seen, 0);
}

void
advisor_seen_events_add_digest(struct advisor_seen_events *seen, uint64_t number, uint64_t digest)
{
    const uint32_t slot = slot_of(number);
    struct advisor_seen_row *chunk = open_chunk(seen, slot);

    if (chunk == NULL)
        return;
    if (chunk->base != base_of(number))
        *chunk = (struct advisor_seen_row){.slot = slot, .base = base_of(number)};
    chunk->digests[number % ADVISOR_SEEN_CHUNK_EVENTS] = short_digest(digest);
}

enum advisor_seen
advisor_seen_events_compare_digest(const struct advisor_seen_events *seen, uint64_t number,
                                   uint64_t digest)
{
    const struct advisor_seen_row *chunk = seen->chunks[slot_of(number)];
    const uint32_t known = chunk == NULL || chunk->base != base_of(number)
                               ? 0
                               : chunk->digests[number % ADVISOR_SEEN_CHUNK_EVENTS];

    if (known == 0)
        return ADVISOR_SEEN_UNKNOWN;
    return known == short_digest(digest) ? ADVISOR_SEEN_SAME : ADVISOR_SEEN_OTHER;
}

void
advisor_seen_events_add(struct advisor_seen_events *seen, const struct kvt_event_batch *batch,
                        uint32_t unknown, uint64_t from)
{
    const uint64_t count = (uint64_t)batch->event_count + unknown;
    const uint64_t all = unknown == 0 ? 0 : digest_all(seen, batch, unknown);
    uint64_t at = from > batch->first_seq ? from - batch->first_seq : 0;

    if (count > ADVISOR_SEEN_EVENTS_MAX && at < count - ADVISOR_SEEN_EVENTS_MAX)
        at = count - ADVISOR_SEEN_EVENTS_MAX;
    for (; at < count; at++)
        advisor_seen_events_add_digest(seen, batch->first_seq + at,
                                       unknown == 0 ? digest_event(seen, batch, &batch->events[at])
                                                    : all);
}

enum advisor_seen
advisor_seen_events_compare(const struct advisor_seen_events *seen,
                            const struct kvt_event_batch *batch, uint32_t unknown, uint64_t above,
                            uint64_t to)
{
    const uint64_t count = (uint64_t)batch->event_count + unknown;
    const uint64_t all = unknown == 0 ? 0 : digest_all(seen, batch, unknown);
    enum advisor_seen worst = ADVISOR_SEEN_SAME;

    for (uint64_t at = 0; at < count && worst != ADVISOR_SEEN_OTHER; at++) {
        const uint64_t number = batch->first_seq + at;
        enum advisor_seen is;

        if (number <= above || number > to)
            continue;
        is = advisor_seen_events_compare_digest(
            seen, number, unknown == 0 ? digest_event(seen, batch, &batch->events[at]) : all);
        if (is != ADVISOR_SEEN_SAME)
            worst = is;
    }
    return worst;
}

enum kvt_err
advisor_seen_events_load(struct advisor_seen_events *seen, const struct advisor_seen_row *row)
{
    struct advisor_seen_row *chunk;

    if (row->slot >= ADVISOR_SEEN_CHUNKS || row->base % ADVISOR_SEEN_CHUNK_EVENTS != 0 ||
        slot_of(row->base) != row->slot || seen->chunks[row->slot] != NULL)
        return KVT_CORRUPT;
    chunk = kvt_calloc(1, sizeof(*chunk));
    if (chunk == NULL)
        return KVT_NOMEM;
    *chunk = *row;
    seen->chunks[row->slot] = chunk;
    if (row->slot == 0) {
        seen->vouched = row->vouched;
        seen->conflicts = row->conflicts;
    }
    return KVT_OK;
}

enum kvt_err
advisor_seen_events_save(const struct advisor_seen_events *seen, const struct advisor_txn *txn,
                         uint32_t number)
{
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < ADVISOR_SEEN_CHUNKS && rc == KVT_OK; i++) {
        if ((seen->dirty & 1u << i) == 0)
            continue;
        seen->chunks[i]->publisher = number;
        seen->chunks[i]->vouched = i == 0 ? seen->vouched : 0;
        seen->chunks[i]->conflicts = i == 0 ? seen->conflicts : 0;
        rc = advisor_store_put(txn, ADVISOR_ROW_SEEN, seen->chunks[i]);
    }
    return rc;
}
