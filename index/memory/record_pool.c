#include "index/memory/record_pool.h"

#include <assert.h>
#include <string.h>

enum { CHUNKS_FIRST = 16 };

void
index_record_pool_init(struct index_record_pool *pool, struct index_memory *memory,
                       size_t record_size)
{
    assert(record_size >= sizeof(uint32_t));
    *pool = (struct index_record_pool){
        .memory = memory, .record_size = record_size, .free_head = INDEX_NONE};
}

void
index_record_pool_release(struct index_record_pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        index_memory_give(pool->memory, pool->chunks[i], INDEX_RECORD_POOL_CHUNK,
                          pool->record_size);
    index_memory_give(pool->memory, pool->chunks, pool->chunk_capacity, sizeof(*pool->chunks));
    pool->chunks = NULL;
    pool->chunk_count = pool->chunk_capacity = 0;
}

static bool
grow_directory(struct index_record_pool *pool)
{
    const uint32_t capacity = pool->chunk_capacity == 0 ? CHUNKS_FIRST : pool->chunk_capacity * 2;
    void **chunks = index_memory_take(pool->memory, capacity, sizeof(*chunks));

    if (chunks == NULL)
        return false;
    if (pool->chunk_count > 0)
        memcpy(chunks, pool->chunks, pool->chunk_count * sizeof(*chunks));
    index_memory_give(pool->memory, pool->chunks, pool->chunk_capacity, sizeof(*chunks));
    pool->chunks = chunks;
    pool->chunk_capacity = capacity;
    return true;
}

bool
index_record_pool_reserve(struct index_record_pool *pool)
{
    void *chunk;

    if (pool->free_head != INDEX_NONE || pool->end < pool->chunk_count * INDEX_RECORD_POOL_CHUNK)
        return true;
    if (pool->end >= INDEX_RECORD_POOL_RECORDS_MAX)
        return false;
    if (pool->chunk_count == pool->chunk_capacity && !grow_directory(pool))
        return false;
    chunk = index_memory_take(pool->memory, INDEX_RECORD_POOL_CHUNK, pool->record_size);
    if (chunk == NULL)
        return false;
    pool->chunks[pool->chunk_count++] = chunk;
    return true;
}

uint32_t
index_record_pool_take(struct index_record_pool *pool)
{
    uint32_t number = pool->free_head;
    void *record;

    if (number == INDEX_NONE) {
        number = pool->end++;
        assert(number < pool->chunk_count * INDEX_RECORD_POOL_CHUNK);
        record = index_record_pool_at(pool, number);
    } else {
        record = index_record_pool_at(pool, number);
        memcpy(&pool->free_head, record, sizeof(pool->free_head));
    }
    memset(record, 0, pool->record_size);
    pool->used++;
    return number;
}

void
index_record_pool_give(struct index_record_pool *pool, uint32_t number)
{
    void *record = index_record_pool_at(pool, number);

    assert(number < pool->end && pool->used > 0);
    memset(record, 0, pool->record_size);
    memcpy(record, &pool->free_head, sizeof(pool->free_head));
    pool->free_head = number;
    pool->used--;
}
