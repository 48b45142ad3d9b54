#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "index/block/history.h"
#include "index/block/state.h"

/* The hash of a name, spread for a table. */
static uint64_t
hash_holder(const struct index_holder *key)
{
    const uint64_t name = XXH3_64bits(key->name, strnlen(key->name, sizeof(key->name)));

    return XXH3_64bits_withSeed(&name, sizeof(name),
                                (uint64_t)key->dp_rank << 8 | (uint64_t)key->tier);
}

/* Number of the holder, or INDEX_NONE; the probe stands on its entry. */
static uint32_t
find_holder(struct index *index, const struct index_holder *key, struct index_hash_map_probe *probe)
{
    uint32_t number = index_hash_map_first(&index->holder_names, hash_holder(key), probe);

    while (number != INDEX_NONE) {
        const struct index_holder *other = &index_state_holder(index, number)->key;

        if (other->dp_rank == key->dp_rank && other->tier == key->tier &&
            strncmp(other->name, key->name, sizeof(key->name)) == 0)
            break;
        number = index_hash_map_next(probe);
    }
    return number;
}

static void
set_key(struct index_holder_record *record, const struct index_holder *key)
{
    memset(&record->key, 0, sizeof(record->key));
    record->key.dp_rank = key->dp_rank;
    record->key.tier = key->tier;
    memcpy(record->key.name, key->name, strnlen(key->name, sizeof(key->name) - 1));
    atomic_store_explicit(&record->tier, (uint8_t)key->tier, memory_order_relaxed);
}

static enum kvt_err
add_holder(struct index *index, const struct index_holder *key, uint32_t *holder)
{
    const uint32_t number = atomic_load_explicit(&index->holder_count, memory_order_relaxed);
    _Atomic(struct index_holder_record *) *chunk;
    struct index_holder_record *records;

    if (number == INDEX_HOLDERS_MAX ||
        !index_hash_map_reserve(&index->holder_names, hash_holder(key)))
        return KVT_FULL;
    chunk = &index->holders[number / INDEX_HOLDERS_CHUNK];
    if (atomic_load_explicit(chunk, memory_order_relaxed) == NULL) {
        records = index_memory_take(&index->memory, INDEX_HOLDERS_CHUNK, sizeof(*records));
        if (records == NULL)
            return KVT_FULL;
        atomic_store_explicit(chunk, records, memory_order_release);
    }
    set_key(index_state_holder(index, number), key);
    index_hash_map_add(&index->holder_names, hash_holder(key), number);
    atomic_store_explicit(&index->holder_count, number + 1, memory_order_release);
    *holder = number;
    return KVT_OK;
}

static void
assert_key(const struct index_holder *key)
{
    assert(key->tier >= KVT_TIER_G1 && key->tier <= KVT_TIER_G4);
    assert(memchr(key->name, '\0', sizeof(key->name)) != NULL);
}

enum kvt_err
index_holder(struct index *index, const struct index_holder *key, uint32_t *holder)
{
    struct index_hash_map_probe probe;
    enum kvt_err rc = KVT_OK;

    assert(index != NULL && holder != NULL);
    assert_key(key);
    (void)pthread_mutex_lock(&index->names_lock);
    *holder = find_holder(index, key, &probe);
    (void)pthread_mutex_unlock(&index->names_lock);
    if (*holder != INDEX_NONE)
        return KVT_OK;
    (void)pthread_mutex_lock(&index->lock);
    (void)pthread_mutex_lock(&index->names_lock);
    *holder = find_holder(index, key, &probe);
    if (*holder == INDEX_NONE)
        rc = add_holder(index, key, holder);
    (void)pthread_mutex_unlock(&index->names_lock);
    (void)pthread_mutex_unlock(&index->lock);
    return rc;
}

enum kvt_err
index_holder_rename(struct index *index, uint32_t holder, const struct index_holder *key)
{
    struct index_holder_record *record;
    struct index_hash_map_probe probe;
    enum kvt_err rc = KVT_OK;
    uint32_t found;

    assert_key(key);
    (void)pthread_mutex_lock(&index->lock);
    (void)pthread_mutex_lock(&index->names_lock);
    assert(holder < atomic_load(&index->holder_count));
    record = index_state_holder(index, holder);
    assert(atomic_load(&record->blocks) == 0);
    if (find_holder(index, key, &probe) != INDEX_NONE)
        rc = KVT_EXISTS;
    else if (!index_hash_map_reserve(&index->holder_names, hash_holder(key)))
        rc = KVT_FULL;
    if (rc == KVT_OK) {
        found = find_holder(index, &record->key, &probe);
        assert(found == holder);
        index_hash_map_remove(&probe);
        set_key(record, key);
        index_hash_map_add(&index->holder_names, hash_holder(key), holder);
        (void)atomic_fetch_add_explicit(&index->holder_renames, 1, memory_order_release);
    }
    (void)pthread_mutex_unlock(&index->names_lock);
    (void)pthread_mutex_unlock(&index->lock);
    return rc;
}

void
index_holder_info(struct index *index, uint32_t holder, struct index_holder *key, uint64_t *blocks,
                  uint64_t *bytes)
{
    const struct index_holder_record *record;

    assert(holder < atomic_load_explicit(&index->holder_count, memory_order_acquire));
    record = index_state_holder(index, holder);
    if (key != NULL) {
        (void)pthread_mutex_lock(&index->names_lock);
        *key = record->key;
        (void)pthread_mutex_unlock(&index->names_lock);
    }
    if (blocks != NULL)
        *blocks = atomic_load_explicit(&record->blocks, memory_order_relaxed);
    if (bytes != NULL)
        *bytes = atomic_load_explicit(&record->bytes, memory_order_relaxed);
}

uint64_t
index_holder_renames(struct index *index)
{
    return atomic_load_explicit(&index->holder_renames, memory_order_acquire);
}

uint32_t
index_holder_count(struct index *index)
{
    return atomic_load_explicit(&index->holder_count, memory_order_acquire);
}

static uint32_t
find_namespace(struct index *index, const char *name, uint64_t hash)
{
    struct index_hash_map_probe probe;
    uint32_t number = index_hash_map_first(&index->namespace_names, hash, &probe);

    while (number != INDEX_NONE && strcmp(index_state_namespace(index, number)->name, name) != 0)
        number = index_hash_map_next(&probe);
    return number;
}

enum kvt_err
index_namespace_find(struct index *index, const char *name, uint32_t *ns)
{
    assert(index != NULL && name != NULL && ns != NULL);
    (void)pthread_mutex_lock(&index->names_lock);
    *ns = find_namespace(index, name, XXH3_64bits(name, strlen(name)));
    (void)pthread_mutex_unlock(&index->names_lock);
    return *ns != INDEX_NONE ? KVT_OK : KVT_NOTFOUND;
}

static enum kvt_err
add_namespace(struct index *index, const char *name, uint64_t hash, uint32_t *ns)
{
    const uint32_t number = atomic_load_explicit(&index->namespace_count, memory_order_relaxed);
    _Atomic(struct index_namespace *) *chunk;
    struct index_namespace *records;

    if (number == INDEX_NAMESPACES_MAX || !index_hash_map_reserve(&index->namespace_names, hash))
        return KVT_FULL;
    chunk = &index->namespaces[number / INDEX_NAMESPACES_CHUNK];
    if (atomic_load_explicit(chunk, memory_order_relaxed) == NULL) {
        records = index_memory_take(&index->memory, INDEX_NAMESPACES_CHUNK, sizeof(*records));
        if (records == NULL)
            return KVT_FULL;
        atomic_store_explicit(chunk, records, memory_order_release);
    }
    memcpy(index_state_namespace(index, number)->name, name, strlen(name) + 1);
    index_hash_map_add(&index->namespace_names, hash, number);
    atomic_store_explicit(&index->namespace_count, number + 1, memory_order_release);
    *ns = number;
    return KVT_OK;
}

enum kvt_err
index_namespace(struct index *index, const char *name, uint32_t *ns)
{
    const size_t length = strlen(name);
    enum kvt_err rc = KVT_OK;

    assert(index != NULL && ns != NULL);
    *ns = INDEX_NONE;
    if (length >= KVT_NAMESPACE_MAX)
        return KVT_RANGE;
    if (index_namespace_find(index, name, ns) == KVT_OK)
        return KVT_OK;
    (void)pthread_mutex_lock(&index->lock);
    (void)pthread_mutex_lock(&index->names_lock);
    *ns = find_namespace(index, name, XXH3_64bits(name, length));
    if (*ns == INDEX_NONE)
        rc = add_namespace(index, name, XXH3_64bits(name, length), ns);
    (void)pthread_mutex_unlock(&index->names_lock);
    (void)pthread_mutex_unlock(&index->lock);
    return rc;
}

static bool
is_empty(const struct index *index, uint32_t ns)
{
    const struct index_namespace *record = index_state_namespace(index, ns);

    return record->orphans == 0 && index_table_is_empty(&record->table);
}

bool
index_namespace_is_empty(struct index *index, uint32_t ns)
{
    bool empty;

    assert(ns < atomic_load_explicit(&index->namespace_count, memory_order_acquire));
    (void)pthread_mutex_lock(&index->lock);
    empty = is_empty(index, ns);
    (void)pthread_mutex_unlock(&index->lock);
    return empty;
}

enum kvt_err
index_namespace_rename(struct index *index, uint32_t ns, const char *name)
{
    const size_t length = strlen(name);
    const uint64_t hash = XXH3_64bits(name, length);
    struct index_namespace *record;
    struct index_hash_map_probe probe;
    enum kvt_err rc = KVT_OK;
    uint32_t found;

    if (length >= KVT_NAMESPACE_MAX)
        return KVT_RANGE;
    (void)pthread_mutex_lock(&index->lock);
    (void)pthread_mutex_lock(&index->names_lock);
    assert(ns < atomic_load(&index->namespace_count) && is_empty(index, ns));
    record = index_state_namespace(index, ns);
    if (find_namespace(index, name, hash) != INDEX_NONE)
        rc = KVT_EXISTS;
    else if (!index_hash_map_reserve(&index->namespace_names, hash))
        rc = KVT_FULL;
    if (rc == KVT_OK) {
        found = index_hash_map_first(&index->namespace_names,
                                     XXH3_64bits(record->name, strlen(record->name)), &probe);
        while (found != ns && found != INDEX_NONE)
            found = index_hash_map_next(&probe);
        assert(found == ns);
        index_hash_map_remove(&probe);
        memset(record->name, 0, sizeof(record->name));
        memcpy(record->name, name, length);
        index_hash_map_add(&index->namespace_names, hash, ns);
        index_history_forget(index, ns);
    }
    (void)pthread_mutex_unlock(&index->names_lock);
    (void)pthread_mutex_unlock(&index->lock);
    return rc;
}

void
index_namespace_name(struct index *index, uint32_t ns, char out[KVT_NAMESPACE_MAX])
{
    assert(ns < atomic_load_explicit(&index->namespace_count, memory_order_acquire));
    (void)pthread_mutex_lock(&index->names_lock);
    memcpy(out, index_state_namespace(index, ns)->name, KVT_NAMESPACE_MAX);
    (void)pthread_mutex_unlock(&index->names_lock);
}
