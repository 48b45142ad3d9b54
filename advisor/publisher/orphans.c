#include "advisor/publisher/orphans.h"

#include <assert.h>
#include <string.h>

#include "advisor/store/number_map.h"
#include "base/core/alloc.h"
#include "base/core/buffer.h"

enum { BUCKETS = 4096, BLOCK_BUCKETS_MIN = 1024 };

#define ROW_MAX (16u << 20) /* a message is smaller */

struct gone {
    uint64_t serial;
    uint32_t publisher;
};

struct advisor_orphans {
    struct advisor_orphan *buckets[BUCKETS]; /* by publisher and parent */
    struct advisor_orphan_block **blocks; /* by publisher and hash; those that left are not there */
    size_t block_buckets;                 /* a power of two */
    size_t block_count;
    struct advisor_orphan *newest;
    struct advisor_number_map *waiting; /* publisher -> blocks that wait */
    size_t bytes;
    size_t count;
    uint64_t serial;   /* of the last one made */
    struct gone *gone; /* rows to delete; there is room for all that wait */
    size_t gone_count;
    size_t gone_capacity;
    struct kvt_buffer row; /* scratch */
    bool dirty;
};

enum kvt_err
advisor_orphans_new(struct advisor_orphans **out)
{
    struct advisor_orphans *orphans = kvt_calloc(1, sizeof(*orphans));

    *out = NULL;
    if (orphans == NULL)
        return KVT_NOMEM;
    orphans->block_buckets = BLOCK_BUCKETS_MIN;
    orphans->blocks = kvt_calloc(BLOCK_BUCKETS_MIN, sizeof(*orphans->blocks));
    if (orphans->blocks == NULL || advisor_number_map_new(&orphans->waiting) != KVT_OK) {
        kvt_free(orphans->blocks);
        kvt_free(orphans);
        return KVT_NOMEM;
    }
    kvt_buffer_init(&orphans->row, ROW_MAX);
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
    kvt_free(orphan->waits);
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
    advisor_number_map_free(orphans->waiting);
    kvt_buffer_release(&orphans->row);
    kvt_free(orphans->gone);
    kvt_free(orphans->blocks);
    kvt_free(orphans);
}

static uint64_t
mix(uint32_t publisher, uint64_t hash)
{
    return (hash ^ ((uint64_t)publisher << 40)) * UINT64_C(0x9E3779B97F4A7C15);
}

static size_t
bucket_of(uint32_t publisher, uint64_t parent)
{
    return (size_t)(mix(publisher, parent) >> 52);
}

/* ---- blocks that wait ---- */

static struct advisor_orphan_block **
block_bucket(const struct advisor_orphans *orphans, uint32_t publisher, uint64_t hash)
{
    return &orphans->blocks[(mix(publisher, hash) >> 32) & (orphans->block_buckets - 1)];
}

static void
link_block(struct advisor_orphans *orphans, struct advisor_orphan_block *block)
{
    struct advisor_orphan_block **bucket = block_bucket(
        orphans, block->orphan->publisher, block->orphan->batch.blocks[block->at].hash);

    block->next = *bucket;
    if (block->next != NULL)
        block->next->link = &block->next;
    block->link = bucket;
    *bucket = block;
}

static void
unlink_block(struct advisor_orphans *orphans, struct advisor_orphan_block *block)
{
    if (block->link == NULL)
        return;
    *block->link = block->next;
    if (block->next != NULL)
        block->next->link = block->link;
    block->link = NULL;
    orphans->block_count--;
}

/* Without memory the buckets stay as they are, and grow longer. */
static void
spread_blocks(struct advisor_orphans *orphans)
{
    struct advisor_orphan_block **former = orphans->blocks;
    const size_t count = orphans->block_buckets;
    struct advisor_orphan_block **more;

    if (orphans->block_count <= count)
        return;
    more = kvt_calloc(count * 2, sizeof(*more));
    if (more == NULL)
        return;
    orphans->blocks = more;
    orphans->block_buckets = count * 2;
    for (size_t i = 0; i < count; i++)
        while (former[i] != NULL) {
            struct advisor_orphan_block *block = former[i];

            former[i] = block->next;
            link_block(orphans, block);
        }
    kvt_free(former);
}

static void
link_blocks(struct advisor_orphans *orphans, struct advisor_orphan *orphan)
{
    for (uint32_t i = 0; i < orphan->event.count; i++) {
        orphan->waits[i] = (struct advisor_orphan_block){.orphan = orphan, .at = i};
        if (orphan->left[i])
            continue;
        link_block(orphans, &orphan->waits[i]);
        orphans->block_count++;
    }
    spread_blocks(orphans);
}

/* ---- what waits ---- */

uint32_t
advisor_orphans_waiting(const struct advisor_orphans *orphans, uint32_t publisher)
{
    uint32_t count;

    return advisor_number_map_get(orphans->waiting, &publisher, sizeof(publisher), &count) ? count
                                                                                           : 0;
}

static void
count_less(struct advisor_orphans *orphans, const struct advisor_orphan *orphan)
{
    const uint32_t waiting =
        advisor_orphans_waiting(orphans, orphan->publisher) - orphan->event.count;

    enum kvt_err rc = KVT_OK;

    if (waiting == 0)
        advisor_number_map_remove(orphans->waiting, &orphan->publisher, sizeof(orphan->publisher));
    else
        rc = advisor_number_map_put(orphans->waiting, &orphan->publisher, sizeof(orphan->publisher),
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
    for (uint32_t i = 0; i < orphan->event.count; i++)
        unlink_block(orphans, &orphan->waits[i]);
    if (orphan->newer != NULL)
        orphan->newer->older = orphan->older;
    else
        orphans->newest = orphan->older;
    if (orphan->older != NULL)
        orphan->older->newer = orphan->newer;
    count_less(orphans, orphan);
    orphans->count--;
    if (!orphan->stored)
        return;
    assert(orphans->gone_count < orphans->gone_capacity);
    orphans->gone[orphans->gone_count++] =
        (struct gone){.serial = orphan->serial, .publisher = orphan->publisher};
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

/* With room for what the event needs; NULL: no memory. */
static struct advisor_orphan *
make(const struct wire_raw_event *event, size_t media)
{
    const size_t tokens = (size_t)event->count * wire_raw_window(event);
    struct advisor_orphan *orphan = kvt_calloc(1, sizeof(*orphan));

    if (orphan == NULL)
        return NULL;
    orphan->batch.blocks = kvt_calloc(event->count, sizeof(*orphan->batch.blocks));
    orphan->batch.token_ids = kvt_calloc(tokens + 1, sizeof(*orphan->batch.token_ids));
    orphan->batch.media = kvt_calloc(media + 1, sizeof(*orphan->batch.media));
    orphan->left = kvt_calloc(event->count, sizeof(*orphan->left));
    orphan->waits = kvt_calloc(event->count, sizeof(*orphan->waits));
    if (orphan->batch.blocks == NULL || orphan->batch.token_ids == NULL ||
        orphan->batch.media == NULL || orphan->left == NULL || orphan->waits == NULL) {
        advisor_orphan_free(orphan);
        return NULL;
    }
    orphan->event = *event;
    orphan->event.first = 0;
    orphan->event.tokens = 0;
    orphan->media_count = media;
    orphan->bytes = sizeof(*orphan) +
                    event->count * (sizeof(struct wire_raw_block) + sizeof(*orphan->waits) + 1) +
                    tokens * sizeof(uint32_t) + media * sizeof(uint64_t);
    return orphan;
}

static struct advisor_orphan *
copy(const struct wire_raw_batch *batch, const struct wire_raw_event *event)
{
    const size_t tokens = (size_t)event->count * wire_raw_window(event);
    struct advisor_orphan *orphan;
    size_t media = 0;

    for (uint32_t i = 0; i < event->count; i++)
        media += batch->blocks[event->first + i].media_count;
    orphan = make(event, media);
    if (orphan == NULL)
        return NULL;
    orphan->batch.time_ms = batch->time_ms;
    memcpy(orphan->batch.blocks, batch->blocks + event->first,
           event->count * sizeof(*batch->blocks));
    if (tokens > 0)
        memcpy(orphan->batch.token_ids, batch->token_ids + event->tokens,
               tokens * sizeof(*batch->token_ids));
    copy_media(orphan, batch);
    return orphan;
}

/* So that taking one out cannot fail. */
static enum kvt_err
reserve_gone(struct advisor_orphans *orphans)
{
    void *more = kvt_grow(orphans->gone, &orphans->gone_capacity,
                          orphans->gone_count + orphans->count + 1, sizeof(*orphans->gone));

    if (more == NULL)
        return KVT_NOMEM;
    orphans->gone = more;
    return KVT_OK;
}

/* On failure the orphan is the caller's. */
static enum kvt_err
put_in(struct advisor_orphans *orphans, struct advisor_orphan *orphan)
{
    const uint32_t waiting = advisor_orphans_waiting(orphans, orphan->publisher);
    const size_t bucket = bucket_of(orphan->publisher, orphan->event.parent);
    enum kvt_err rc = reserve_gone(orphans);

    if (rc == KVT_OK)
        rc = advisor_number_map_put(orphans->waiting, &orphan->publisher, sizeof(orphan->publisher),
                                    waiting + orphan->event.count);
    if (rc != KVT_OK)
        return rc;
    orphan->next = orphans->buckets[bucket];
    orphans->buckets[bucket] = orphan;
    orphan->older = orphans->newest;
    if (orphan->older != NULL)
        orphan->older->newer = orphan;
    orphans->newest = orphan;
    link_blocks(orphans, orphan);
    orphans->bytes += orphan->bytes;
    orphans->count++;
    if (orphan->serial > orphans->serial)
        orphans->serial = orphan->serial;
    return KVT_OK;
}

enum kvt_err
advisor_orphans_add(struct advisor_orphans *orphans, uint32_t publisher,
                    const struct wire_raw_batch *batch, const struct wire_raw_event *event)
{
    struct advisor_orphan *orphan;
    enum kvt_err rc;

    if (event->count > ADVISOR_ORPHANS_EACH - advisor_orphans_waiting(orphans, publisher) ||
        orphans->bytes >= ADVISOR_ORPHANS_BYTES)
        return KVT_FULL;
    orphan = copy(batch, event);
    if (orphan == NULL)
        return KVT_NOMEM;
    orphan->publisher = publisher;
    orphan->serial = orphans->serial + 1;
    orphan->dirty = true;
    rc = put_in(orphans, orphan);
    if (rc != KVT_OK)
        advisor_orphan_free(orphan);
    else
        orphans->dirty = true;
    return rc;
}

/* ---- durable ---- */

/* A row: the event, how many objects its blocks have, the time; then the arrays. */
struct head {
    struct wire_raw_event event;
    uint64_t media_count;
    uint64_t time_ms;
};

static enum kvt_err
save_one(struct advisor_orphans *orphans, const struct advisor_txn *txn,
         const struct advisor_orphan *orphan)
{
    const struct wire_raw_event *event = &orphan->event;
    struct head head;

    memset(&head, 0, sizeof(head)); /* no byte of the padding may be chance */
    head.event = *event;
    head.media_count = orphan->media_count;
    head.time_ms = orphan->batch.time_ms;
    kvt_buffer_clear(&orphans->row);
    kvt_buffer_append(&orphans->row, &head, sizeof(head));
    kvt_buffer_append(&orphans->row, orphan->batch.blocks,
                      event->count * sizeof(*orphan->batch.blocks));
    kvt_buffer_append(&orphans->row, orphan->batch.token_ids,
                      (size_t)event->count * wire_raw_window(event) *
                          sizeof(*orphan->batch.token_ids));
    kvt_buffer_append(&orphans->row, orphan->batch.media,
                      orphan->media_count * sizeof(*orphan->batch.media));
    kvt_buffer_append(&orphans->row, orphan->left, event->count * sizeof(*orphan->left));
    if (!kvt_buffer_ok(&orphans->row))
        return KVT_NOMEM;
    return advisor_store_put_orphan(txn, orphan->publisher, orphan->serial, orphans->row.data,
                                    orphans->row.size);
}

enum kvt_err
advisor_orphans_save(struct advisor_orphans *orphans, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < orphans->gone_count && rc == KVT_OK; i++)
        rc = advisor_store_delete_orphan(txn, orphans->gone[i].publisher, orphans->gone[i].serial);
    if (!orphans->dirty)
        return rc;
    for (const struct advisor_orphan *orphan = orphans->newest; orphan != NULL && rc == KVT_OK;
         orphan = orphan->older)
        if (orphan->dirty)
            rc = save_one(orphans, txn, orphan);
    return rc;
}

void
advisor_orphans_saved(struct advisor_orphans *orphans)
{
    orphans->gone_count = 0;
    if (!orphans->dirty)
        return;
    for (struct advisor_orphan *orphan = orphans->newest; orphan != NULL; orphan = orphan->older) {
        orphan->stored = orphan->stored || orphan->dirty;
        orphan->dirty = false;
    }
    orphans->dirty = false;
}

bool
advisor_orphans_dirty(const struct advisor_orphans *orphans)
{
    return orphans->dirty || orphans->gone_count > 0;
}

static enum kvt_err
load_one(void *arg, uint32_t publisher, uint64_t serial, const void *bytes, size_t size)
{
    struct advisor_orphans *orphans = arg;
    struct advisor_orphan *orphan;
    const uint8_t *at = bytes;
    struct head head;
    size_t blocks;
    size_t tokens;
    size_t media;

    if (size < sizeof(head))
        return KVT_CORRUPT;
    memcpy(&head, at, sizeof(head));
    blocks = (size_t)head.event.count * sizeof(struct wire_raw_block);
    tokens = (size_t)head.event.count * wire_raw_window(&head.event) * sizeof(uint32_t);
    media = (size_t)head.media_count * sizeof(uint64_t);
    if (head.event.count > WIRE_RAW_BLOCKS_MAX || head.media_count > WIRE_RAW_MEDIA_MAX ||
        size != sizeof(head) + blocks + tokens + media + head.event.count * sizeof(bool))
        return KVT_CORRUPT;
    orphan = make(&head.event, (size_t)head.media_count);
    if (orphan == NULL)
        return KVT_NOMEM;
    orphan->publisher = publisher;
    orphan->serial = serial;
    orphan->stored = true;
    orphan->batch.time_ms = head.time_ms;
    at += sizeof(head);
    memcpy(orphan->batch.blocks, at, blocks);
    at += blocks;
    memcpy(orphan->batch.token_ids, at, tokens);
    at += tokens;
    memcpy(orphan->batch.media, at, media);
    at += media;
    for (uint32_t i = 0; i < head.event.count; i++)
        orphan->left[i] = at[i] != 0;
    if (put_in(orphans, orphan) == KVT_OK)
        return KVT_OK;
    advisor_orphan_free(orphan);
    return KVT_NOMEM;
}

enum kvt_err
advisor_orphans_load(struct advisor_orphans *orphans, const struct advisor_txn *txn)
{
    return advisor_store_orphans(txn, load_one, orphans);
}

/* ---- what comes of them ---- */

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
    struct advisor_orphan_block *next;
    bool found = false;

    for (struct advisor_orphan_block *block = *block_bucket(orphans, publisher, hash);
         block != NULL; block = next) {
        struct advisor_orphan *orphan = block->orphan;

        next = block->next;
        if (orphan->publisher != publisher || orphan->event.tier != tier ||
            orphan->batch.blocks[block->at].hash != hash)
            continue;
        unlink_block(orphans, block);
        orphan->left[block->at] = true;
        orphan->dirty = true;
        orphans->dirty = true;
        found = true;
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
