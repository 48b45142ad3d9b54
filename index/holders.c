#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "index/index.h"
#include "index/old_state.h"

static uint64_t
hash_holder(const struct index_holder *key)
{
    const uint64_t name = XXH3_64bits(key->name, strnlen(key->name, sizeof(key->name)));

    return index_state_mix(name ^ ((uint64_t)key->dp_rank << 8 | (uint64_t)key->tier));
}

/* Number of the holder, or INDEX_NONE; the probe stands on its entry. */
static uint32_t
find_holder(struct index *index, const struct index_holder *key, uint64_t hash,
            struct index_slots_probe *probe)
{
    uint32_t number = index_slots_first(&index->holder_table, hash, probe);

    while (number != INDEX_NONE) {
        const struct index_holder *other = &index_state_holder(index, number)->key;

        if (other->dp_rank == key->dp_rank && other->tier == key->tier &&
            strncmp(other->name, key->name, sizeof(key->name)) == 0)
            break;
        number = index_slots_next(probe);
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
}

static enum kvt_err
add_holder(struct index *index, const struct index_holder *key, uint64_t hash, uint32_t *holder)
{
    struct index_holder_record *record;

    if (index->holders.used >= INDEX_HOLDERS_MAX || !index_pool_reserve(&index->holders) ||
        !index_slots_reserve(&index->holder_table, hash))
        return KVT_FULL;
    *holder = index_pool_take(&index->holders);
    record = index_state_holder(index, *holder);
    set_key(record, key);
    record->place_head = INDEX_NONE;
    index_slots_add(&index->holder_table, hash, *holder);
    return KVT_OK;
}

enum kvt_err
index_holder(struct index *index, const struct index_holder *key, uint32_t *holder)
{
    const uint64_t hash = hash_holder(key);
    struct index_slots_probe probe;
    enum kvt_err rc = KVT_OK;

    assert(index != NULL && holder != NULL);
    assert(key->tier >= KVT_TIER_G1 && key->tier <= KVT_TIER_G4);
    assert(memchr(key->name, '\0', sizeof(key->name)) != NULL);
    (void)pthread_rwlock_wrlock(&index->lock);
    *holder = find_holder(index, key, hash, &probe);
    if (*holder == INDEX_NONE)
        rc = add_holder(index, key, hash, holder);
    (void)pthread_rwlock_unlock(&index->lock);
    return rc;
}

enum kvt_err
index_holder_rename(struct index *index, uint32_t holder, const struct index_holder *key)
{
    const uint64_t hash = hash_holder(key);
    struct index_holder_record *record;
    struct index_slots_probe probe;
    enum kvt_err rc = KVT_OK;
    uint32_t found;

    assert(key->tier >= KVT_TIER_G1 && key->tier <= KVT_TIER_G4);
    assert(memchr(key->name, '\0', sizeof(key->name)) != NULL);
    (void)pthread_rwlock_wrlock(&index->lock);
    assert(holder < index->holders.used);
    record = index_state_holder(index, holder);
    assert(record->place_head == INDEX_NONE);
    if (find_holder(index, key, hash, &probe) != INDEX_NONE)
        rc = KVT_EXISTS;
    else if (!index_slots_reserve(&index->holder_table, hash))
        rc = KVT_FULL;
    if (rc == KVT_OK) {
        found = find_holder(index, &record->key, hash_holder(&record->key), &probe);
        assert(found == holder);
        index_slots_remove(&probe);
        set_key(record, key);
        index_slots_add(&index->holder_table, hash, holder);
    }
    (void)pthread_rwlock_unlock(&index->lock);
    return rc;
}

void
index_holder_info(struct index *index, uint32_t holder, struct index_holder *key, uint64_t *blocks,
                  uint64_t *bytes)
{
    const struct index_holder_record *record;

    (void)pthread_rwlock_rdlock(&index->lock);
    assert(holder < index->holders.used);
    record = index_state_holder(index, holder);
    if (key != NULL)
        *key = record->key;
    if (blocks != NULL)
        *blocks = record->blocks;
    if (bytes != NULL)
        *bytes = record->bytes;
    (void)pthread_rwlock_unlock(&index->lock);
}

uint32_t
index_holder_count(struct index *index)
{
    uint32_t count;

    (void)pthread_rwlock_rdlock(&index->lock);
    count = index->holders.used;
    (void)pthread_rwlock_unlock(&index->lock);
    return count;
}
