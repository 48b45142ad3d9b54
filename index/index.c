#include "index/index.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "index/old_state.h"

enum kvt_err
index_new(struct index **out, uint64_t bytes_max)
{
    struct index *index;
    pthread_rwlockattr_t attributes;

    assert(out != NULL);
    *out = NULL;
    index = kvt_calloc(1, sizeof(*index));
    if (index == NULL)
        return KVT_NOMEM;
    /* Readers come all the time; the one writer must not wait for a moment without any. */
    (void)pthread_rwlockattr_init(&attributes);
    (void)pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(&index->lock, &attributes);
    (void)pthread_rwlockattr_destroy(&attributes);
    index->memory = (struct index_memory){.used = sizeof(*index), .max = bytes_max};
    index_pool_init(&index->blocks, &index->memory, sizeof(struct index_block_record));
    index_pool_init(&index->places, &index->memory, sizeof(struct index_place_record));
    index_pool_init(&index->holders, &index->memory, sizeof(struct index_holder_record));
    index_pool_init(&index->namespaces, &index->memory, sizeof(struct index_namespace_record));
    index_slots_init(&index->block_table, &index->memory);
    index_slots_init(&index->place_table, &index->memory);
    index_slots_init(&index->child_table, &index->memory);
    index_slots_init(&index->holder_table, &index->memory);
    index_slots_init(&index->namespace_table, &index->memory);
    *out = index;
    return KVT_OK;
}

void
index_free(struct index *index)
{
    if (index == NULL)
        return;
    index_slots_release(&index->namespace_table);
    index_slots_release(&index->holder_table);
    index_slots_release(&index->child_table);
    index_slots_release(&index->place_table);
    index_slots_release(&index->block_table);
    index_pool_release(&index->namespaces);
    index_pool_release(&index->holders);
    index_pool_release(&index->places);
    index_pool_release(&index->blocks);
    assert(index->memory.used == sizeof(*index)); /* what was counted was given back */
    (void)pthread_rwlock_destroy(&index->lock);
    kvt_free(index);
}

static uint32_t
find_namespace(struct index *index, const char *name, uint64_t hash)
{
    struct index_slots_probe probe;
    uint32_t number = index_slots_first(&index->namespace_table, hash, &probe);

    while (number != INDEX_NONE) {
        const struct index_namespace_record *record = index_pool_at(&index->namespaces, number);

        if (strcmp(record->name, name) == 0)
            break;
        number = index_slots_next(&probe);
    }
    return number;
}

enum kvt_err
index_namespace_find(struct index *index, const char *name, uint32_t *ns)
{
    assert(index != NULL && name != NULL && ns != NULL);
    (void)pthread_rwlock_rdlock(&index->lock);
    *ns = find_namespace(index, name, XXH3_64bits(name, strlen(name)));
    (void)pthread_rwlock_unlock(&index->lock);
    return *ns != INDEX_NONE ? KVT_OK : KVT_NOTFOUND;
}

static enum kvt_err
add_namespace(struct index *index, const char *name, uint64_t hash, uint32_t *ns)
{
    struct index_namespace_record *record;

    if (index->namespaces.used >= INDEX_NAMESPACES_MAX || !index_pool_reserve(&index->namespaces) ||
        !index_slots_reserve(&index->namespace_table, hash))
        return KVT_FULL;
    *ns = index_pool_take(&index->namespaces);
    record = index_pool_at(&index->namespaces, *ns);
    memcpy(record->name, name, strlen(name) + 1);
    index_slots_add(&index->namespace_table, hash, *ns);
    return KVT_OK;
}

enum kvt_err
index_namespace(struct index *index, const char *name, uint32_t *ns)
{
    const size_t length = strlen(name);
    const uint64_t hash = XXH3_64bits(name, length);
    enum kvt_err rc = KVT_OK;

    assert(index != NULL && ns != NULL);
    *ns = INDEX_NONE;
    if (length >= KVT_NAMESPACE_MAX)
        return KVT_RANGE;
    (void)pthread_rwlock_wrlock(&index->lock);
    *ns = find_namespace(index, name, hash);
    if (*ns == INDEX_NONE)
        rc = add_namespace(index, name, hash, ns);
    (void)pthread_rwlock_unlock(&index->lock);
    return rc;
}

void
index_namespace_name(struct index *index, uint32_t ns, char out[KVT_NAMESPACE_MAX])
{
    const struct index_namespace_record *record;

    (void)pthread_rwlock_rdlock(&index->lock);
    assert(ns < index->namespaces.used);
    record = index_pool_at(&index->namespaces, ns);
    memcpy(out, record->name, KVT_NAMESPACE_MAX);
    (void)pthread_rwlock_unlock(&index->lock);
}

void
index_stats(struct index *index, struct index_stats *stats)
{
    assert(index != NULL && stats != NULL);
    (void)pthread_rwlock_rdlock(&index->lock);
    *stats = (struct index_stats){
        .blocks = index->blocks.used,
        .places = index->places.used,
        .holders = index->holders.used,
        .namespaces = index->namespaces.used,
        .bytes = index->memory.used,
        .bytes_max = index->memory.max,
        .collisions = index->collisions,
    };
    (void)pthread_rwlock_unlock(&index->lock);
}
