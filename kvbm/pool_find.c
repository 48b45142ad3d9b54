#include <assert.h>

#include "base/cond.h"
#include "kvbm/pool.h"
#include "kvbm/pool_internal.h"

/* The block of a name that may be found, or KVBM_POOL_NONE. */
static uint32_t
lookup_locked(struct kvbm_pool *pool, uint64_t hash)
{
    uint32_t block;

    if (!kvbm_map_get(&pool->shared.map, hash, &block) || pool->shared.slots[block].hooked)
        return KVBM_POOL_NONE;
    return block;
}

bool
kvbm_pool_has(struct kvbm_pool *pool, uint64_t hash)
{
    bool found;

    (void)pthread_mutex_lock(&pool->shared.lock);
    found = lookup_locked(pool, hash) != KVBM_POOL_NONE;
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return found;
}

size_t
kvbm_pool_match(struct kvbm_pool *pool, const uint64_t *hashes, size_t count,
                struct kvbm_handle *handles)
{
    size_t found = 0;

    (void)pthread_mutex_lock(&pool->shared.lock);
    for (; found < count; found++) {
        const uint32_t block = lookup_locked(pool, hashes[found]);

        if (block == KVBM_POOL_NONE)
            break;
        handles[found] = kvbm_pool_hold_locked(pool, block);
        pool->shared.slots[block].aside = false;
    }
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return found;
}

enum kvt_err
kvbm_pool_find(struct kvbm_pool *pool, uint64_t hash, struct kvbm_handle *handle)
{
    *handle = (struct kvbm_handle){0};
    return kvbm_pool_match(pool, &hash, 1, handle) == 1 ? KVT_OK : KVT_NOTFOUND;
}

enum kvt_err
kvbm_pool_upgrade(struct kvbm_pool *pool, struct kvbm_handle weak)
{
    const struct kvbm_slot *slot;
    enum kvt_err rc = KVT_NOTFOUND;

    assert(weak.block < pool->block_count);
    (void)pthread_mutex_lock(&pool->shared.lock);
    slot = &pool->shared.slots[weak.block];
    if (slot->generation == weak.generation && slot->listed && !slot->hooked) {
        (void)kvbm_pool_hold_locked(pool, weak.block);
        rc = KVT_OK;
    }
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return rc;
}

void
kvbm_pool_share(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    const struct kvbm_slot *slot;

    (void)pthread_mutex_lock(&pool->shared.lock);
    slot = kvbm_pool_slot_locked(pool, handle);
    assert(slot->state == KVT_BLOCK_REGISTERED);
    (void)kvbm_pool_hold_locked(pool, handle.block);
    (void)pthread_mutex_unlock(&pool->shared.lock);
}

size_t
kvbm_pool_coldest(struct kvbm_pool *pool, size_t max, struct kvbm_handle *handles)
{
    size_t found = 0;
    uint32_t block;

    (void)pthread_mutex_lock(&pool->shared.lock);
    block = pool->shared.coldest;
    while (block != KVBM_POOL_NONE && found < max) {
        const uint32_t next = pool->shared.slots[block].next;

        if (!pool->shared.slots[block].aside)
            handles[found++] = kvbm_pool_hold_locked(pool, block);
        block = next;
    }
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return found;
}

void
kvbm_pool_set_aside(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    (void)pthread_mutex_lock(&pool->shared.lock);
    kvbm_pool_slot_locked(pool, handle)->aside = true;
    (void)pthread_mutex_unlock(&pool->shared.lock);
}

void
kvbm_pool_mark_saved(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    (void)pthread_mutex_lock(&pool->shared.lock);
    kvbm_pool_slot_locked(pool, handle)->saved = true;
    (void)pthread_mutex_unlock(&pool->shared.lock);
}

struct kvbm_label
kvbm_pool_label(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    struct kvbm_label label;

    (void)pthread_mutex_lock(&pool->shared.lock);
    label = kvbm_pool_slot_locked(pool, handle)->label;
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return label;
}

enum kvt_block_state
kvbm_pool_state(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    enum kvt_block_state state;

    (void)pthread_mutex_lock(&pool->shared.lock);
    state = kvbm_pool_slot_locked(pool, handle)->state;
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return state;
}

size_t
kvbm_pool_walk(struct kvbm_pool *pool, uint32_t *at, struct kvbm_label *labels, size_t capacity)
{
    size_t found = 0;

    (void)pthread_mutex_lock(&pool->shared.lock);
    for (; *at < pool->block_count && found < capacity; (*at)++) {
        const struct kvbm_slot *slot = &pool->shared.slots[*at];

        if (slot->listed && !slot->leaving)
            labels[found++] = slot->label;
    }
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return found;
}

bool
kvbm_pool_wait_free(struct kvbm_pool *pool, uint32_t count, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    bool enough;

    (void)pthread_mutex_lock(&pool->shared.lock);
    while (pool->shared.free_count < count &&
           kvt_cond_wait(&pool->shared.freed, &pool->shared.lock, &deadline))
        continue;
    enough = pool->shared.free_count >= count;
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return enough;
}

struct kvbm_pool_stats
kvbm_pool_stats(struct kvbm_pool *pool)
{
    struct kvbm_pool_stats stats;

    (void)pthread_mutex_lock(&pool->shared.lock);
    stats = (struct kvbm_pool_stats){
        .blocks = pool->block_count,
        .free = pool->shared.free_count,
        .inactive = pool->shared.inactive_count,
        .active = pool->block_count - pool->shared.free_count - pool->shared.inactive_count,
        .registered = pool->shared.map.count - pool->shared.hidden,
        .registrations = pool->shared.registrations,
        .duplicates = pool->shared.duplicates,
        .evictions = pool->shared.evictions,
        .evictions_unsaved = pool->shared.evictions_unsaved,
    };
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return stats;
}
