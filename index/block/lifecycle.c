#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "index/block/block_size.h"
#include "index/block/history.h"
#include "index/block/holder_usage.h"
#include "index/block/run_allocator.h"
#include "index/block/state.h"
#include "index/index.h"

enum { CACHE_LINE = 64 };

static void
release_names(struct index *index)
{
    const uint32_t namespaces = atomic_load(&index->namespace_count);

    for (uint32_t i = 0; i < namespaces; i++)
        index_table_release(&index_state_namespace(index, i)->table, &index->memory);
    for (uint32_t i = 0; i < INDEX_NAMESPACES_MAX / INDEX_NAMESPACES_CHUNK; i++)
        index_memory_give(&index->memory, atomic_load(&index->namespaces[i]),
                          INDEX_NAMESPACES_CHUNK, sizeof(struct index_namespace));
    for (uint32_t i = 0; i < INDEX_HOLDERS_MAX / INDEX_HOLDERS_CHUNK; i++)
        index_memory_give(&index->memory, atomic_load(&index->holders[i]), INDEX_HOLDERS_CHUNK,
                          sizeof(struct index_holder_record));
    index_hash_map_release(&index->namespace_names);
    index_hash_map_release(&index->holder_names);
}

/* Holdings of all runs. */
static void
release_holdings(struct index *index)
{
    const struct index_run_holders_context context = index_state_holders(index);
    const uint32_t end = atomic_load(&index->allocator.end);

    for (uint32_t page = 1; page < end; page++) {
        const uintptr_t entry = atomic_load(&index->allocator.runs[page]);

        if (entry == 0)
            continue;
        for (uint32_t at = 0; at < index->allocator.pages[page].fresh; at++)
            index_run_holders_clear(&((struct index_run *)(entry & ~(uintptr_t)63))[at].holders,
                                    &context);
    }
}

enum kvt_err
index_new(struct index **out, uint64_t bytes_max)
{
    struct index *index;

    assert(out != NULL);
    *out = NULL;
    index = kvt_aligned(CACHE_LINE, sizeof(*index));
    if (index == NULL)
        return KVT_NOMEM;
    memset(index, 0, sizeof(*index));
    index->memory = (struct index_memory){.used = sizeof(*index), .max = bytes_max};
    index_epoch_init(&index->epoch, &index->memory);
    (void)pthread_mutex_init(&index->lock, NULL);
    (void)pthread_mutex_init(&index->names_lock, NULL);
    index_hash_map_init(&index->orphans, &index->memory);
    index_block_size_init(index);
    index_holder_usage_init(index);
    index_hash_map_init(&index->namespace_names, &index->memory);
    index_hash_map_init(&index->holder_names, &index->memory);
    kvt_random_system(index->seed, sizeof(index->seed));
    index->seed[1] |= 1;
    if (index_arena_open(&index->arena, bytes_max) != KVT_OK) {
        index_free(index);
        return KVT_NOMEM;
    }
    index->memory.arena = &index->arena;
    if (index_run_allocator_open(index) != KVT_OK ||
        index_shards_new(&index->shards, &index->memory) != KVT_OK) {
        index_free(index);
        return KVT_NOMEM;
    }
    *out = index;
    return KVT_OK;
}

void
index_free(struct index *index)
{
    if (index == NULL)
        return;
    if (index->allocator.seq != NULL)
        release_holdings(index);
    index_epoch_release(&index->epoch);
    if (index->allocator.seq != NULL)
        index_run_allocator_close(index);
    release_names(index);
    index_block_size_release(index);
    index_holder_usage_release(index);
    index_history_release(index);
    index_hash_map_release(&index->orphans);
    index_shards_free(index->shards, &index->memory);
    index_epoch_release(&index->epoch);
    assert(index->memory.used == sizeof(*index)); /* what was counted was given back */
    index_arena_close(&index->arena);
    (void)pthread_mutex_destroy(&index->names_lock);
    (void)pthread_mutex_destroy(&index->lock);
    kvt_free(index);
}

void
index_limit(struct index *index, uint64_t bytes_max)
{
    (void)pthread_mutex_lock(&index->lock);
    index->memory.max = bytes_max;
    (void)pthread_mutex_unlock(&index->lock);
}

void
index_stats(struct index *index, struct index_stats *stats)
{
    assert(index != NULL && stats != NULL);
    (void)pthread_mutex_lock(&index->lock);
    *stats = (struct index_stats){
        .blocks = index->blocks,
        .places = index->places,
        .holders = atomic_load_explicit(&index->holder_count, memory_order_relaxed),
        .namespaces = atomic_load_explicit(&index->namespace_count, memory_order_relaxed),
        .bytes = index->memory.used,
        .bytes_max = index->memory.max,
        .collisions = index->collisions,
        .orphans = index->orphan_count,
    };
    (void)pthread_mutex_unlock(&index->lock);
}

void
index_expect(struct index *index, uint32_t ns, uint64_t blocks)
{
    const struct index_table_context context = {.memory = &index->memory,
                                                .epoch = &index->epoch,
                                                .seq = index->allocator.seq,
                                                .seed = index->seed};

    assert(ns < atomic_load(&index->namespace_count));
    (void)pthread_mutex_lock(&index->lock);
    index_table_expect(&index_state_namespace(index, ns)->table, &context, blocks);
    (void)pthread_mutex_unlock(&index->lock);
}
