/*
 * index/memory/record_pool.h -- records that keep their number and their place.
 *
 * Why: tables and lists point to records by a 32-bit number, half of a pointer, and a walk by
 * number sees every record that stays, whatever the tables do meanwhile.
 * Ownership: the index. Memory of freed records is used again, and returned when the pool is.
 * Threads:   under the index's lock.
 * Limits:    INDEX_RECORD_POOL_RECORDS_MAX records, and the memory's ceiling.
 */
#ifndef INDEX_MEMORY_RECORD_POOL_H
#define INDEX_MEMORY_RECORD_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/memory/memory.h"

#define INDEX_NONE                    UINT32_MAX
#define INDEX_RECORD_POOL_CHUNK       512 /* records allocated at a time */
#define INDEX_RECORD_POOL_RECORDS_MAX (UINT32_MAX - INDEX_RECORD_POOL_CHUNK)

struct index_record_pool {
    struct index_memory *memory;
    size_t record_size; /* at least 4: a free record holds the number of the next free one */
    void **chunks;
    uint32_t chunk_count;
    uint32_t chunk_capacity;
    uint32_t free_head;
    uint32_t used; /* records in use */
    uint32_t end;  /* records ever used have a number below this */
};

void index_record_pool_init(struct index_record_pool *pool, struct index_memory *memory,
                            size_t record_size);
void index_record_pool_release(struct index_record_pool *pool);

/** Make sure that the next index_record_pool_take() has a record; false when memory is out. */
bool index_record_pool_reserve(struct index_record_pool *pool);

/** Number of a zeroed record; only after a reserve that gave true. */
uint32_t index_record_pool_take(struct index_record_pool *pool);
void index_record_pool_give(struct index_record_pool *pool, uint32_t number);

static inline void *
index_record_pool_at(const struct index_record_pool *pool, uint32_t number)
{
    return (char *)pool->chunks[number / INDEX_RECORD_POOL_CHUNK] +
           (size_t)(number % INDEX_RECORD_POOL_CHUNK) * pool->record_size;
}

#endif /* INDEX_MEMORY_RECORD_POOL_H */
