#include "gateway/tier/body_cache.h"

#include <pthread.h>

#include "base/core/alloc.h"

/* Blocks of one size, the one used last on top: it may still be in the processor's cache. */
struct row {
    unsigned count;
    unsigned least; /* so many were there all the time since the last look */
    void *blocks[GATEWAY_BODY_CACHE_DEPTH];
};

struct gateway_body_cache {
    size_t max;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        size_t kept;
        uint64_t look_ms;
        struct row rows[GATEWAY_BODY_CACHE_SIZES];
    } shared;
};

_Static_assert(GATEWAY_BODY_CACHE_MIN << (GATEWAY_BODY_CACHE_SIZES - 1) == GATEWAY_BODY_CACHE_MAX,
               "a row for each power of two");

enum kvt_err
gateway_body_cache_new(struct gateway_body_cache **out, size_t max)
{
    struct gateway_body_cache *cache = kvt_calloc(1, sizeof(*cache));

    *out = NULL;
    if (cache == NULL || pthread_mutex_init(&cache->shared.lock, NULL) != 0) {
        kvt_free(cache);
        return KVT_NOMEM;
    }
    cache->max = max;
    *out = cache;
    return KVT_OK;
}

void
gateway_body_cache_free(struct gateway_body_cache *cache)
{
    if (cache == NULL)
        return;
    for (unsigned i = 0; i < GATEWAY_BODY_CACHE_SIZES; i++)
        while (cache->shared.rows[i].count > 0)
            kvt_free(cache->shared.rows[i].blocks[--cache->shared.rows[i].count]);
    (void)pthread_mutex_destroy(&cache->shared.lock);
    kvt_free(cache);
}

static size_t
size_of(unsigned row)
{
    return GATEWAY_BODY_CACHE_MIN << row;
}

/* The first row whose blocks are so large; GATEWAY_BODY_CACHE_SIZES: there is none. */
static unsigned
row_of(size_t size)
{
    unsigned row = 0;

    while (row < GATEWAY_BODY_CACHE_SIZES && size_of(row) < size)
        row++;
    return row;
}

static void *
take(struct gateway_body_cache *cache, unsigned number)
{
    struct row *row = &cache->shared.rows[number];
    void *block = NULL;

    (void)pthread_mutex_lock(&cache->shared.lock);
    if (row->count > 0) {
        block = row->blocks[--row->count];
        cache->shared.kept -= size_of(number);
        if (row->least > row->count)
            row->least = row->count;
    }
    (void)pthread_mutex_unlock(&cache->shared.lock);
    return block;
}

static bool
put(struct gateway_body_cache *cache, unsigned number, void *block)
{
    struct row *row = &cache->shared.rows[number];
    bool room;

    (void)pthread_mutex_lock(&cache->shared.lock);
    room =
        row->count < GATEWAY_BODY_CACHE_DEPTH && size_of(number) <= cache->max - cache->shared.kept;
    if (room) {
        row->blocks[row->count++] = block;
        cache->shared.kept += size_of(number);
    }
    (void)pthread_mutex_unlock(&cache->shared.lock);
    return room;
}

/* A byte more than is counted is in each block, as in each buffer: kvt_buffer_text() writes it. */
uint8_t *
gateway_body_cache_reserve(struct gateway_body_cache *cache, struct kvt_buffer *buffer, size_t size)
{
    const unsigned row = row_of(size);

    if (cache == NULL || buffer->data != NULL || size <= GATEWAY_BODY_CACHE_MIN / 2 ||
        row == GATEWAY_BODY_CACHE_SIZES || buffer->failed || size > buffer->limit)
        return kvt_buffer_reserve(buffer, size);
    buffer->data = take(cache, row);
    if (buffer->data == NULL)
        buffer->data = kvt_realloc(NULL, size_of(row) + 1, 1);
    buffer->capacity = buffer->data == NULL ? 0 : size_of(row);
    buffer->failed = buffer->data == NULL;
    return buffer->data;
}

/* However it came by its memory: what has the size of a row is as good as what was taken there. */
void
gateway_body_cache_release(struct gateway_body_cache *cache, struct kvt_buffer *buffer)
{
    const unsigned row = row_of(buffer->capacity);

    if (cache != NULL && buffer->data != NULL && row < GATEWAY_BODY_CACHE_SIZES &&
        size_of(row) == buffer->capacity && put(cache, row, buffer->data)) {
        buffer->data = NULL;
        buffer->size = buffer->capacity = 0;
    }
    kvt_buffer_release(buffer);
}

/* Take up to `max` blocks out of a row that nobody has touched; those at the bottom are the oldest,
 * but one block is as good as another once it is not in the cache. */
static unsigned
take_idle(struct gateway_body_cache *cache, unsigned number, void *blocks[GATEWAY_BODY_CACHE_DEPTH])
{
    struct row *row = &cache->shared.rows[number];
    unsigned count = 0;

    (void)pthread_mutex_lock(&cache->shared.lock);
    while (count < row->least)
        blocks[count++] = row->blocks[--row->count];
    cache->shared.kept -= count * size_of(number);
    row->least = row->count;
    (void)pthread_mutex_unlock(&cache->shared.lock);
    return count;
}

void
gateway_body_cache_expire(struct gateway_body_cache *cache, uint64_t now_ms)
{
    bool due;

    if (cache == NULL)
        return;
    (void)pthread_mutex_lock(&cache->shared.lock);
    due = now_ms >= cache->shared.look_ms;
    if (due)
        cache->shared.look_ms = now_ms + GATEWAY_BODY_CACHE_REST_MS;
    (void)pthread_mutex_unlock(&cache->shared.lock);
    for (unsigned i = 0; due && i < GATEWAY_BODY_CACHE_SIZES; i++) {
        void *blocks[GATEWAY_BODY_CACHE_DEPTH];
        unsigned count = take_idle(cache, i, blocks);

        while (count > 0)
            kvt_free(blocks[--count]);
    }
}
