#include "kvbm/pool.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cond.h"
#include "kvbm/pool_internal.h"
#include "kvbm/state.h"

struct kvbm_slot *
kvbm_pool_slot_locked(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    struct kvbm_slot *slot;

    assert(handle.block < pool->block_count);
    slot = &pool->shared.slots[handle.block];
    assert(slot->generation == handle.generation);
    assert(slot->refs > 0);
    return slot;
}

void
kvbm_pool_unlink_locked(struct kvbm_pool *pool, uint32_t block)
{
    struct kvbm_slot *slot = &pool->shared.slots[block];

    assert(slot->waiting);
    if (slot->previous == KVBM_POOL_NONE)
        pool->shared.coldest = slot->next;
    else
        pool->shared.slots[slot->previous].next = slot->next;
    if (slot->next == KVBM_POOL_NONE)
        pool->shared.warmest = slot->previous;
    else
        pool->shared.slots[slot->next].previous = slot->previous;
    slot->waiting = false;
    pool->shared.inactive_count--;
}

static void
link_warm_locked(struct kvbm_pool *pool, uint32_t block)
{
    struct kvbm_slot *slot = &pool->shared.slots[block];

    slot->next = KVBM_POOL_NONE;
    slot->previous = pool->shared.warmest;
    if (slot->previous == KVBM_POOL_NONE)
        pool->shared.coldest = block;
    else
        pool->shared.slots[slot->previous].next = block;
    pool->shared.warmest = block;
    slot->waiting = true;
    pool->shared.inactive_count++;
    (void)pthread_cond_broadcast(&pool->shared.freed);
}

static void
link_cold_locked(struct kvbm_pool *pool, uint32_t block)
{
    struct kvbm_slot *slot = &pool->shared.slots[block];

    slot->previous = KVBM_POOL_NONE;
    slot->next = pool->shared.coldest;
    if (slot->next == KVBM_POOL_NONE)
        pool->shared.warmest = block;
    else
        pool->shared.slots[slot->next].previous = block;
    pool->shared.coldest = block;
    slot->waiting = true;
    pool->shared.inactive_count++;
    (void)pthread_cond_broadcast(&pool->shared.freed);
}

struct kvbm_handle
kvbm_pool_hold_locked(struct kvbm_pool *pool, uint32_t block)
{
    struct kvbm_slot *slot = &pool->shared.slots[block];

    if (slot->waiting)
        kvbm_pool_unlink_locked(pool, block);
    assert(slot->refs < UINT32_MAX);
    slot->refs++;
    return (struct kvbm_handle){block, slot->generation};
}

/* A new life: no name, no flags, and no handle of the old life fits any more. */
static void
reset_locked(struct kvbm_slot *slot)
{
    assert(!slot->listed && !slot->waiting);
    if (slot->state != KVT_BLOCK_RESET) {
        const enum kvt_err rc = kvbm_state_move(&slot->state, KVT_BLOCK_RESET, NULL);

        assert(rc == KVT_OK);
    }
    slot->label = (struct kvbm_label){0};
    slot->aside = false;
    slot->saved = false;
    slot->generation++;
}

static void
free_locked(struct kvbm_pool *pool, uint32_t block)
{
    struct kvbm_slot *slot = &pool->shared.slots[block];

    assert(slot->refs == 0);
    reset_locked(slot);
    slot->next = pool->shared.free_first;
    pool->shared.free_first = block;
    pool->shared.free_count++;
    (void)pthread_cond_broadcast(&pool->shared.freed);
}

/* From here on nobody finds the name, and nobody can register it again until delist_locked(). */
static void
hide_locked(struct kvbm_pool *pool, struct kvbm_slot *slot, bool leaving)
{
    assert(slot->listed && !slot->hooked);
    slot->hooked = true;
    slot->leaving = leaving;
    pool->shared.hidden++;
}

static void
delist_locked(struct kvbm_pool *pool, struct kvbm_slot *slot)
{
    assert(slot->listed && slot->hooked);
    kvbm_map_remove(&pool->shared.map, slot->label.id.hash);
    slot->listed = false;
    slot->hooked = false;
    slot->leaving = false;
    pool->shared.hidden--;
}

static void
announce(const struct kvbm_pool *pool, kvbm_pool_event_fn *callback, const struct kvbm_label *label)
{
    if (callback != NULL)
        callback(pool->arg, label);
}

static bool
make_locks(struct kvbm_pool *pool)
{
    if (pthread_mutex_init(&pool->shared.lock, NULL) != 0)
        return false;
    if (kvt_cond_init(&pool->shared.freed))
        return true;
    (void)pthread_mutex_destroy(&pool->shared.lock);
    return false;
}

enum kvt_err
kvbm_pool_new(struct kvbm_pool **out, const struct kvbm_pool_options *options)
{
    struct kvbm_pool *pool;

    assert(out != NULL && options != NULL);
    *out = NULL;
    if (options->block_count == 0 || options->block_count > KVBM_POOL_BLOCKS_MAX)
        return KVT_INVALID;
    pool = kvt_calloc(1, sizeof(*pool));
    if (pool == NULL)
        return KVT_NOMEM;
    pool->block_count = options->block_count;
    pool->dedup = options->dedup;
    pool->on_store = options->on_store;
    pool->on_remove = options->on_remove;
    pool->arg = options->arg;
    pool->shared.slots = kvt_calloc(options->block_count, sizeof(*pool->shared.slots));
    if (pool->shared.slots == NULL ||
        kvbm_map_init(&pool->shared.map, options->block_count) != KVT_OK || !make_locks(pool))
        goto fail;
    pool->shared.free_first = KVBM_POOL_NONE;
    pool->shared.coldest = KVBM_POOL_NONE;
    pool->shared.warmest = KVBM_POOL_NONE;
    for (uint32_t block = options->block_count; block > 0; block--) {
        pool->shared.slots[block - 1].next = pool->shared.free_first;
        pool->shared.free_first = block - 1;
    }
    pool->shared.free_count = options->block_count;
    *out = pool;
    return KVT_OK;

fail: /* not kvbm_pool_free(): the locks were not made */
    kvbm_map_release(&pool->shared.map);
    kvt_free(pool->shared.slots);
    kvt_free(pool);
    return KVT_NOMEM;
}

void
kvbm_pool_free(struct kvbm_pool *pool)
{
    if (pool == NULL)
        return;
    assert(pool->shared.free_count + pool->shared.inactive_count == pool->block_count);
    (void)pthread_cond_destroy(&pool->shared.freed);
    (void)pthread_mutex_destroy(&pool->shared.lock);
    kvbm_map_release(&pool->shared.map);
    kvt_free(pool->shared.slots);
    kvt_free(pool);
}

/* Wait until that many blocks are held by nobody. */
static bool
wait_idle_locked(struct kvbm_pool *pool, size_t count, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);

    while (count > (size_t)pool->shared.free_count + pool->shared.inactive_count)
        if (wait_ms == 0 || count > pool->block_count ||
            !kvt_cond_wait(&pool->shared.freed, &pool->shared.lock, &deadline))
            return false;
    return true;
}

enum kvt_err
kvbm_pool_allocate(struct kvbm_pool *pool, size_t count, struct kvbm_handle *handles)
{
    return kvbm_pool_allocate_wait(pool, count, handles, 0);
}

enum kvt_err
kvbm_pool_allocate_wait(struct kvbm_pool *pool, size_t count, struct kvbm_handle *handles,
                        uint64_t wait_ms)
{
    struct kvbm_label label;
    size_t taken = 0;
    size_t victims;

    (void)pthread_mutex_lock(&pool->shared.lock);
    if (!wait_idle_locked(pool, count, wait_ms)) {
        (void)pthread_mutex_unlock(&pool->shared.lock);
        return KVT_AGAIN;
    }
    while (taken < count && pool->shared.free_count > 0) {
        const uint32_t block = pool->shared.free_first;

        pool->shared.free_first = pool->shared.slots[block].next;
        pool->shared.free_count--;
        handles[taken++] = kvbm_pool_hold_locked(pool, block);
    }
    victims = taken;
    while (taken < count) {
        const uint32_t block = pool->shared.coldest;

        handles[taken++] = kvbm_pool_hold_locked(pool, block);
        hide_locked(pool, &pool->shared.slots[block], true);
        pool->shared.evictions++;
        if (!pool->shared.slots[block].saved)
            pool->shared.evictions_unsaved++;
    }
    /* The victims are ours alone and hidden: their names are stable without the lock. */
    for (; victims < count; victims++) {
        struct kvbm_slot *slot = &pool->shared.slots[handles[victims].block];

        label = slot->label;
        (void)pthread_mutex_unlock(&pool->shared.lock);
        announce(pool, pool->on_remove, &label);
        (void)pthread_mutex_lock(&pool->shared.lock);
        delist_locked(pool, slot);
        reset_locked(slot);
        handles[victims].generation = slot->generation;
    }
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return KVT_OK;
}

/* A move of the one holder of a block that is not shared. */
static enum kvt_err
move(struct kvbm_pool *pool, struct kvbm_handle handle, enum kvt_block_state to,
     const struct kvbm_label *label, struct kvt_error *err)
{
    struct kvbm_slot *slot;
    enum kvt_err rc;

    (void)pthread_mutex_lock(&pool->shared.lock);
    slot = kvbm_pool_slot_locked(pool, handle);
    if (to == KVT_BLOCK_RESET && slot->state == KVT_BLOCK_REGISTERED)
        /* Legal for the pool itself; a holder that may share the block must evict or discard it. */
        rc = kvt_error_set(err, KVT_INVALID, "a registered block is not reset by a holder");
    else
        rc = kvbm_state_move(&slot->state, to, err);
    if (rc == KVT_OK)
        slot->label = label != NULL ? *label : (struct kvbm_label){0};
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return rc;
}

enum kvt_err
kvbm_pool_begin(struct kvbm_pool *pool, struct kvbm_handle handle, struct kvt_error *err)
{
    return move(pool, handle, KVT_BLOCK_PARTIAL, NULL, err);
}

enum kvt_err
kvbm_pool_complete(struct kvbm_pool *pool, struct kvbm_handle handle,
                   const struct kvbm_label *label, struct kvt_error *err)
{
    assert(label != NULL);
    return move(pool, handle, KVT_BLOCK_COMPLETE, label, err);
}

enum kvt_err
kvbm_pool_reset(struct kvbm_pool *pool, struct kvbm_handle handle, struct kvt_error *err)
{
    return move(pool, handle, KVT_BLOCK_RESET, NULL, err);
}

/* The name is known already: share its block, or keep ours unlisted beside it. */
static enum kvt_err
register_known_locked(struct kvbm_pool *pool, struct kvbm_handle *handle, uint32_t known)
{
    struct kvbm_slot *slot = &pool->shared.slots[handle->block];

    pool->shared.duplicates++;
    if (pool->dedup == KVBM_POOL_DEDUP_ALLOW) {
        slot->state = KVT_BLOCK_REGISTERED;
        return KVT_OK;
    }
    slot->refs--;
    free_locked(pool, handle->block);
    *handle = kvbm_pool_hold_locked(pool, known);
    return KVT_EXISTS;
}

static void
register_new_locked(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    struct kvbm_slot *slot = &pool->shared.slots[handle.block];
    const struct kvbm_label label = slot->label;

    slot->state = KVT_BLOCK_REGISTERED;
    kvbm_map_put(&pool->shared.map, label.id.hash, handle.block);
    slot->listed = true;
    hide_locked(pool, slot, false);
    pool->shared.registrations++;
    (void)pthread_mutex_unlock(&pool->shared.lock);
    announce(pool, pool->on_store, &label);
    (void)pthread_mutex_lock(&pool->shared.lock);
    slot->hooked = false;
    pool->shared.hidden--;
}

enum kvt_err
kvbm_pool_register(struct kvbm_pool *pool, struct kvbm_handle *handle, struct kvt_error *err)
{
    enum kvt_block_state state;
    uint32_t known;
    enum kvt_err rc;

    (void)pthread_mutex_lock(&pool->shared.lock);
    state = kvbm_pool_slot_locked(pool, *handle)->state;
    rc = kvbm_state_move(&state, KVT_BLOCK_REGISTERED, err);
    if (rc == KVT_OK) {
        const uint64_t hash = pool->shared.slots[handle->block].label.id.hash;

        if (!kvbm_map_get(&pool->shared.map, hash, &known))
            register_new_locked(pool, *handle);
        else if (pool->shared.slots[known].hooked)
            rc = KVT_BUSY;
        else
            rc = register_known_locked(pool, handle, known);
    }
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return rc;
}

static void
drop(struct kvbm_pool *pool, struct kvbm_handle handle, bool cold)
{
    struct kvbm_slot *slot;

    (void)pthread_mutex_lock(&pool->shared.lock);
    slot = kvbm_pool_slot_locked(pool, handle);
    slot->refs--;
    if (slot->refs == 0) {
        assert(!slot->hooked); /* whoever runs a callback about it holds it */
        if (!slot->listed)
            free_locked(pool, handle.block);
        else if (cold)
            link_cold_locked(pool, handle.block);
        else
            link_warm_locked(pool, handle.block);
    }
    (void)pthread_mutex_unlock(&pool->shared.lock);
}

void
kvbm_pool_drop(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    drop(pool, handle, false);
}

void
kvbm_pool_drop_cold(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    drop(pool, handle, true);
}

/* Take the held, listed and hidden block's name away, then our hold.  Called with the lock held,
 * which it gives up for the callback. */
static void
withdraw_locked(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    struct kvbm_slot *slot = &pool->shared.slots[handle.block];
    const struct kvbm_label label = slot->label;

    hide_locked(pool, slot, true);
    (void)pthread_mutex_unlock(&pool->shared.lock);
    announce(pool, pool->on_remove, &label);
    (void)pthread_mutex_lock(&pool->shared.lock);
    delist_locked(pool, slot);
    slot->refs--;
    if (slot->refs == 0)
        free_locked(pool, handle.block);
}

enum kvt_err
kvbm_pool_evict(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    struct kvbm_slot *slot;

    (void)pthread_mutex_lock(&pool->shared.lock);
    slot = kvbm_pool_slot_locked(pool, handle);
    assert(slot->state == KVT_BLOCK_REGISTERED);
    if (slot->refs > 1 || !slot->listed) {
        (void)pthread_mutex_unlock(&pool->shared.lock);
        kvbm_pool_drop(pool, handle);
        return KVT_BUSY;
    }
    withdraw_locked(pool, handle);
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return KVT_OK;
}

void
kvbm_pool_discard(struct kvbm_pool *pool, struct kvbm_handle handle)
{
    struct kvbm_slot *slot;

    (void)pthread_mutex_lock(&pool->shared.lock);
    slot = kvbm_pool_slot_locked(pool, handle);
    if (slot->listed && !slot->hooked) {
        withdraw_locked(pool, handle);
        (void)pthread_mutex_unlock(&pool->shared.lock);
        return;
    }
    (void)pthread_mutex_unlock(&pool->shared.lock);
    kvbm_pool_drop(pool, handle); /* a duplicate, or another holder is already at it */
}
