#include "advisor/orphans.h"

#include <assert.h>
#include <string.h>

#include "advisor/map.h"
#include "base/alloc.h"

enum { BUCKETS = 4096 };

struct advisor_orphans {
    struct advisor_orphan *buckets[BUCKETS]; /* by publisher and parent */
    struct advisor_orphan *newest;
    struct advisor_map *waiting; /* publisher -> blocks that wait */
    size_t bytes;
};

enum kvt_err
advisor_orphans_new(struct advisor_orphans **out)
{
    struct advisor_orphans *orphans = kvt_calloc(1, sizeof(*orphans));

    *out = NULL;
    if (orphans == NULL)
        return KVT_NOMEM;
    if (advisor_map_new(&orphans->waiting) != KVT_OK) {
        kvt_free(orphans);
        return KVT_NOMEM;
    }
    *out = orphans;
    return KVT_OK;
}

void
advisor_orphan_free(struct advisor_orphan *orphan)
{
    if (orphan == NULL)
        return;
    kvt_free(orphan->batch.blocks);
    kvt_free(orphan->batch.token_ids);
    kvt_free(orphan->batch.media);
    kvt_free(orphan->left);
    kvt_free(orphan);
}

void
advisor_orphans_free(struct advisor_orphans *orphans)
{
    if (orphans == NULL)
        return;
    while (orphans->newest != NULL) {
        struct advisor_orphan *orphan = orphans->newest;

        orphans->newest = orphan->older;
        advisor_orphan_free(orphan);
    }
    advisor_map_free(orphans->waiting);
    kvt_free(orphans);
}

static size_t
bucket_of(uint32_t publisher, uint64_t parent)
{
    return (size_t)(((parent ^ ((uint64_t)publisher << 40)) * UINT64_C(0x9E3779B97F4A7C15)) >> 52);
}

uint32_t
advisor_orphans_waiting(const struct advisor_orphans *orphans, uint32_t publisher)
{
    uint32_t count;

    return advisor_map_get(orphans->waiting, &publisher, sizeof(publisher), &count) ? count : 0;
}

static void
count_less(struct advisor_orphans *orphans, const struct advisor_orphan *orphan)
{
    const uint32_t waiting =
        advisor_orphans_waiting(orphans, orphan->publisher) - orphan->event.count;

    enum kvt_err rc = KVT_OK;

    if (waiting == 0)
        advisor_map_remove(orphans->waiting, &orphan->publisher, sizeof(orphan->publisher));
    else
        rc = advisor_map_put(orphans->waiting, &orphan->publisher, sizeof(orphan->publisher),
                             waiting);
    assert(rc == KVT_OK); /* a known key needs no memory */
    (void)rc;
    orphans->bytes -= orphan->bytes;
}

static void
take_out(struct advisor_orphans *orphans, struct advisor_orphan *orphan)
{
    struct advisor_orphan **link =
        &orphans->buckets[bucket_of(orphan->publisher, orphan->event.parent)];

    while (*link != orphan)
        link = &(*link)->next;
    *link = orphan->next;
    if (orphan->newer != NULL)
        orphan->newer->older = orphan->older;
    else
        orphans->newest = orphan->older;
    if (orphan->older != NULL)
        orphan->older->newer = orphan->newer;
    count_less(orphans, orphan);
}

/* The objects of its blocks, one behind the other. */
static void
copy_media(struct advisor_orphan *orphan, const struct wire_raw_batch *batch)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < orphan->event.count; i++) {
        struct wire_raw_block *block = &orphan->batch.blocks[i];

        if (block->media_count > 0)
            memcpy(orphan->batch.media + at, batch->media + block->media,
                   block->media_count * sizeof(*batch->media));
        block->media = at;
        at += block->media_count;
    }
}

static struct advisor_orphan *
copy(const struct wire_raw_batch *batch, const struct wire_raw_event *event)
{
    const size_t tokens = (size_t)event->count * event->block_tokens;
    struct advisor_orphan *orphan = kvt_calloc(1, sizeof(*orphan));
    size_t media = 0;

    if (orphan == NULL)
        return NULL;
    for (uint32_t i = 0; i < event->count; i++)
        media += batch->blocks[event->first + i].media_count;
    orphan->batch.blocks = kvt_calloc(event->count, sizeof(*orphan->batch.blocks));
    orphan->batch.token_ids = kvt_calloc(tokens + 1, sizeof(*orphan->batch.token_ids));
    orphan->batch.media = kvt_calloc(media + 1, sizeof(*orphan->batch.media));
    orphan->left = kvt_calloc(event->count, sizeof(*orphan->left));
    if (orphan->batch.blocks == NULL || orphan->batch.token_ids == NULL ||
        orphan->batch.media == NULL || orphan->left == NULL) {
        advisor_orphan_free(orphan);
        return NULL;
    }
    orphan->event = *event;
    orphan->event.first = 0;
    orphan->event.tokens = 0;
    orphan->time_ms = batch->time_ms;
    orphan->bytes = sizeof(*orphan) + event->count * (sizeof(struct wire_raw_block) + 1) +
                    tokens * sizeof(uint32_t) + media * sizeof(uint64_t);
    memcpy(orphan->batch.blocks, batch->blocks + event->first,
           event->count * sizeof(*batch->blocks));
    if (tokens > 0)
        memcpy(orphan->batch.token_ids, batch->token_ids + event->tokens,
               tokens * sizeof(*batch->token_ids));
    copy_media(orphan, batch);
    return orphan;
}

enum kvt_err
advisor_orphans_add(struct advisor_orphans *orphans, uint32_t publisher,
                    const struct wire_raw_batch *batch, const struct wire_raw_event *event)
{
    const uint32_t waiting = advisor_orphans_waiting(orphans, publisher);
    struct advisor_orphan *orphan;
    size_t bucket;

    if (event->count > ADVISOR_ORPHANS_EACH - waiting || orphans->bytes >= ADVISOR_ORPHANS_BYTES)
        return KVT_FULL;
    orphan = copy(batch, event);
    if (orphan == NULL)
        return KVT_NOMEM;
    if (advisor_map_put(orphans->waiting, &publisher, sizeof(publisher), waiting + event->count) !=
        KVT_OK) {
        advisor_orphan_free(orphan);
        return KVT_NOMEM;
    }
    orphan->publisher = publisher;
    bucket = bucket_of(publisher, event->parent);
    orphan->next = orphans->buckets[bucket];
    orphans->buckets[bucket] = orphan;
    orphan->older = orphans->newest;
    if (orphan->older != NULL)
        orphan->older->newer = orphan;
    orphans->newest = orphan;
    orphans->bytes += orphan->bytes;
    return KVT_OK;
}

struct advisor_orphan *
advisor_orphans_take(struct advisor_orphans *orphans, uint32_t publisher, uint64_t parent)
{
    struct advisor_orphan *orphan = orphans->buckets[bucket_of(publisher, parent)];

    while (orphan != NULL && (orphan->publisher != publisher || orphan->event.parent != parent))
        orphan = orphan->next;
    if (orphan != NULL)
        take_out(orphans, orphan);
    return orphan;
}

bool
advisor_orphans_remove(struct advisor_orphans *orphans, uint32_t publisher, enum kvt_tier tier,
                       uint64_t hash)
{
    bool found = false;

    if (advisor_orphans_waiting(orphans, publisher) == 0)
        return false;
    for (struct advisor_orphan *orphan = orphans->newest; orphan != NULL; orphan = orphan->older) {
        if (orphan->publisher != publisher || orphan->event.tier != tier)
            continue;
        for (uint32_t i = 0; i < orphan->event.count; i++)
            if (orphan->batch.blocks[i].hash == hash && !orphan->left[i]) {
                orphan->left[i] = true;
                found = true;
            }
    }
    return found;
}

uint32_t
advisor_orphans_drop(struct advisor_orphans *orphans, uint32_t publisher, enum kvt_tier tier)
{
    struct advisor_orphan *older;
    uint32_t dropped = 0;

    if (advisor_orphans_waiting(orphans, publisher) == 0)
        return 0;
    for (struct advisor_orphan *orphan = orphans->newest; orphan != NULL; orphan = older) {
        older = orphan->older;
        if (orphan->publisher != publisher ||
            (tier != WIRE_RAW_TIER_ALL && orphan->event.tier != tier))
            continue;
        take_out(orphans, orphan);
        advisor_orphan_free(orphan);
        dropped++;
    }
    return dropped;
}
