#include <assert.h>

#include "base/thread/cond.h"
#include "kvbm/pool/block_pool.h"
#include "kvbm/pool/block_pool_internal.h"

/* The block of a name that may be found, or KVBM_POOL_NONE. */
static uint32_t
lookup_locked(struct kvbm_pool *pool, uint64_t hash)
{
    const uint32_t block = kvbm_block_names_get(&pool->shared.names, hash);

    return block == KVBM_BLOCK_NAMES_NONE || pool->slots[block].hooked ? KVBM_POOL_NONE : block;
}

bool
kvbm_pool_has(struct kvbm_pool *pool, uint64_t hash)
{
    bool found;

    kvbm_pool_lock(pool);
    found = lookup_locked(pool, hash) != KVBM_POOL_NONE;
    kvbm_pool_unlock(pool);
    return found;
}

/* Hold what is there under these names.  A hole ends it, or is said as none. */
static size_t
seek(struct kvbm_pool *pool, const uint64_t *hashes, size_t count, struct kvt_handle *handles,
     bool over_holes)
{
    struct kvbm_eviction *inactive = &pool->shared.inactive;
    size_t found = 0;
    size_t end = 0;

    for (size_t i = 0; i < count; i++)
        kvbm_block_names_prefetch(&pool->shared.names, hashes[i]);
    for (size_t i = 0; i < count; i++) {
        const uint32_t block = kvbm_block_names_guess(&pool->shared.names, hashes[i]);

        if (block != KVBM_BLOCK_NAMES_NONE)
            __builtin_prefetch(&pool->slots[block], 1);
    }
    kvbm_pool_lock(pool);
    inactive->now++;
    for (; end < count; end++) {
        const uint32_t block = lookup_locked(pool, hashes[end]);

        if (block == KVBM_POOL_NONE && !over_holes)
            break;
        handles[end] = (struct kvt_handle){0};
        if (block == KVBM_POOL_NONE)
            continue;
        handles[end] = kvbm_pool_hold_locked(pool, block);
        pool->slots[block].aside = false;
        pool->shared.early_used += pool->slots[block].early;
        pool->slots[block].early = false;
        found++;
    }
    /* From the last to the first, so that a block is never older than what continues it. */
    for (size_t i = end; i > 0 && inactive->calls->use != NULL; i--)
        if (handles[i - 1].generation != 0)
            inactive->calls->use(inactive->state, handles[i - 1].block, inactive->now);
    pool->shared.sought += count;
    pool->shared.found += found;
    kvbm_pool_unlock(pool);
    return found;
}

size_t
kvbm_pool_match(struct kvbm_pool *pool, const uint64_t *hashes, size_t count,
                struct kvt_handle *handles)
{
    return seek(pool, hashes, count, handles, false);
}

size_t
kvbm_pool_scan(struct kvbm_pool *pool, const uint64_t *hashes, size_t count,
               struct kvt_handle *handles)
{
    return seek(pool, hashes, count, handles, true);
}

enum kvt_err
kvbm_pool_find(struct kvbm_pool *pool, uint64_t hash, struct kvt_handle *handle)
{
    *handle = (struct kvt_handle){0};
    return kvbm_pool_match(pool, &hash, 1, handle) == 1 ? KVT_OK : KVT_NOTFOUND;
}

enum kvt_err
kvbm_pool_upgrade(struct kvbm_pool *pool, struct kvt_handle weak)
{
    struct kvbm_slot *slot;
    enum kvt_err rc = KVT_NOTFOUND;

    assert(weak.block < pool->block_count);
    kvbm_pool_lock(pool);
    slot = &pool->slots[weak.block];
    if (slot->generation == weak.generation && slot->listed && !slot->hooked) {
        const bool rests = slot->waiting;

        (void)kvbm_pool_hold_locked(pool, weak.block);
        slot->lent = rests;
        rc = KVT_OK;
    }
    kvbm_pool_unlock(pool);
    return rc;
}

void
kvbm_pool_share(struct kvbm_pool *pool, struct kvt_handle handle)
{
    const struct kvbm_slot *slot;

    kvbm_pool_lock(pool);
    slot = kvbm_pool_slot(pool, handle);
    assert(slot->state == KVT_BLOCK_REGISTERED);
    (void)kvbm_pool_hold_locked(pool, handle.block);
    kvbm_pool_unlock(pool);
}

/* Blocks set aside are victims for a moment, in a chain, and then wait as before. */
size_t
kvbm_pool_coldest(struct kvbm_pool *pool, size_t max, struct kvt_handle *handles)
{
    struct kvbm_eviction *inactive = &pool->shared.inactive;
    uint32_t aside = KVBM_POOL_NONE;
    size_t found = 0;

    kvbm_pool_lock(pool);
    while (found < max) {
        const uint32_t block = inactive->calls->victim(inactive->state, inactive->now);
        if (block == KVBM_POOL_NONE)
            break;
        if (pool->slots[block].aside) {
            pool->slots[block].next = aside;
            aside = block;
            continue;
        }
        pool->slots[block].waiting = false;
        inactive->count--;
        handles[found++] = kvbm_pool_hold_locked(pool, block);
    }
    for (; aside != KVBM_POOL_NONE; aside = pool->slots[aside].next)
        inactive->calls->put_back(inactive->state, aside);
    for (size_t i = 0; i < found && inactive->calls->keep != NULL; i++)
        inactive->calls->keep(inactive->state, handles[i].block);
    kvbm_pool_unlock(pool);
    return found;
}

void
kvbm_pool_set_iteration(struct kvbm_pool *pool, uint32_t iteration)
{
    kvbm_pool_lock(pool);
    pool->shared.iteration = iteration;
    kvbm_pool_unlock(pool);
}

size_t
kvbm_pool_idle(struct kvbm_pool *pool, uint32_t iterations, uint32_t *at, uint32_t looks,
               size_t max, struct kvt_handle *handles)
{
    size_t found = 0;

    if (looks > pool->block_count)
        looks = pool->block_count;
    kvbm_pool_lock(pool);
    for (; looks > 0 && found < max; looks--) {
        const uint32_t block = *at < pool->block_count ? *at : 0;
        struct kvbm_slot *slot = &pool->slots[block];

        *at = block + 1;
        if (slot->waiting && !slot->saved && !slot->aside &&
            pool->shared.iteration - slot->rested >= iterations) {
            handles[found++] = kvbm_pool_hold_locked(pool, block);
            slot->lent = true;
        }
    }
    kvbm_pool_unlock(pool);
    return found;
}

size_t
kvbm_pool_unstored(struct kvbm_pool *pool, uint32_t *at, uint32_t looks, size_t max,
                   struct kvt_handle *handles)
{
    size_t found = 0;

    kvbm_pool_lock(pool);
    for (; looks > 0 && found < max && *at < pool->block_count; looks--) {
        const uint32_t block = (*at)++;
        struct kvbm_slot *slot = &pool->slots[block];
        const bool rests = slot->waiting;

        if (!slot->listed || slot->hooked || slot->stored)
            continue;
        handles[found++] = kvbm_pool_hold_locked(pool, block);
        slot->lent = rests;
    }
    kvbm_pool_unlock(pool);
    return found;
}

void
kvbm_pool_set_priority(struct kvbm_pool *pool, struct kvt_handle handle, uint32_t priority)
{
    assert(priority <= KVT_PRIORITY_MAX);
    kvbm_pool_lock(pool);
    kvbm_pool_slot(pool, handle)->priority = (uint8_t)priority;
    kvbm_pool_unlock(pool);
}

void
kvbm_pool_set_aside(struct kvbm_pool *pool, struct kvt_handle handle)
{
    kvbm_pool_lock(pool);
    kvbm_pool_slot(pool, handle)->aside = true;
    kvbm_pool_unlock(pool);
}

void
kvbm_pool_mark_saved(struct kvbm_pool *pool, struct kvt_handle handle)
{
    kvbm_pool_lock(pool);
    kvbm_pool_slot(pool, handle)->saved = true;
    kvbm_pool_unlock(pool);
}

void
kvbm_pool_mark_stored(struct kvbm_pool *pool, uint64_t hash)
{
    uint32_t block;

    kvbm_pool_lock(pool);
    block = kvbm_block_names_get(&pool->shared.names, hash);
    if (block != KVBM_BLOCK_NAMES_NONE && !pool->slots[block].stored) {
        pool->slots[block].stored = true;
        pool->shared.unstored--;
    }
    kvbm_pool_unlock(pool);
}

void
kvbm_pool_mark_early(struct kvbm_pool *pool, struct kvt_handle handle)
{
    kvbm_pool_lock(pool);
    kvbm_pool_slot(pool, handle)->early = true;
    kvbm_pool_unlock(pool);
}

struct kvbm_pool_facts
kvbm_pool_facts(struct kvbm_pool *pool, struct kvt_handle handle)
{
    struct kvbm_pool_facts facts;

    kvbm_pool_lock(pool);
    {
        const struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);

        facts = (struct kvbm_pool_facts){slot->label, slot->priority, slot->saved, slot->stored};
    }
    kvbm_pool_unlock(pool);
    return facts;
}

struct kvbm_label
kvbm_pool_label(struct kvbm_pool *pool, struct kvt_handle handle)
{
    struct kvbm_label label;

    kvbm_pool_lock(pool);
    label = kvbm_pool_slot(pool, handle)->label;
    kvbm_pool_unlock(pool);
    return label;
}

enum kvt_block_state
kvbm_pool_state(struct kvbm_pool *pool, struct kvt_handle handle)
{
    enum kvt_block_state state;

    kvbm_pool_lock(pool);
    state = kvbm_pool_slot(pool, handle)->state;
    kvbm_pool_unlock(pool);
    return state;
}

size_t
kvbm_pool_walk(struct kvbm_pool *pool, uint32_t *at, struct kvbm_label *labels, size_t capacity)
{
    size_t found = 0;

    kvbm_pool_lock(pool);
    for (; *at < pool->block_count && found < capacity; (*at)++) {
        const struct kvbm_slot *slot = &pool->slots[*at];

        if (slot->listed && !slot->leaving)
            labels[found++] = slot->label;
    }
    kvbm_pool_unlock(pool);
    return found;
}

bool
kvbm_pool_wait_free(struct kvbm_pool *pool, uint32_t count, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    bool enough;

    kvbm_pool_lock(pool);
    pool->shared.waiters++;
    while (pool->shared.free_count < count &&
           kvt_cond_wait(&pool->shared.freed, &pool->shared.lock, &deadline))
        continue;
    pool->shared.waiters--;
    enough = pool->shared.free_count >= count;
    kvbm_pool_unlock(pool);
    return enough;
}

struct kvbm_pool_stats
kvbm_pool_stats(struct kvbm_pool *pool)
{
    struct kvbm_pool_stats stats;

    kvbm_pool_lock(pool);
    stats = (struct kvbm_pool_stats){
        .blocks = pool->block_count,
        .free = pool->shared.free_count,
        .inactive = pool->shared.inactive.count,
        .active = pool->block_count - pool->shared.free_count - pool->shared.inactive.count,
        .registered = pool->shared.names.count - pool->shared.hidden,
        .unstored = pool->shared.unstored,
        .registrations = pool->shared.registrations,
        .duplicates = pool->shared.duplicates,
        .sought = pool->shared.sought,
        .found = pool->shared.found,
        .evictions = pool->shared.evictions,
        .evictions_unsaved = pool->shared.evictions_unsaved,
        .early_used = pool->shared.early_used,
        .early_unused = pool->shared.early_unused,
    };
    kvbm_pool_unlock(pool);
    return stats;
}
