#include "kvbm/pool/block_pool.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"
#include "kvbm/pool/block_pool_internal.h"

/* Each look at a taken lock is some 400 ns after the last: for 10 us, then the thread sleeps. */
enum { PREFIX_DEPTH = 8, LOCK_LOOKS = 25, LOCK_PAUSES = 16 };

/* ---- making and taking down ---- */

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

static void
release(struct kvbm_pool *pool)
{
    kvbm_eviction_release(&pool->shared.inactive);
    kvbm_block_names_release(&pool->shared.names);
    kvt_free(pool->tokens);
    kvt_free(pool->slots);
    kvt_free(pool);
}

static enum kvt_err
make_arrays(struct kvbm_pool *pool, const struct kvbm_pool_options *options)
{
    const struct kvbm_eviction_options inactive = {
        .order = options->order,
        .block_count = options->block_count,
        .block_bytes = options->block_bytes,
        .names = &pool->shared.names,
        .ordering = options->ordering,
        .ordering_options = options->ordering_options,
    };

    pool->slots = kvt_aligned(sizeof(*pool->slots), options->block_count * sizeof(*pool->slots));
    if (pool->slots == NULL ||
        kvbm_block_names_init(&pool->shared.names, options->block_count) != KVT_OK)
        return KVT_NOMEM;
    memset(pool->slots, 0, options->block_count * sizeof(*pool->slots));
    if (options->block_tokens > 0) {
        pool->tokens =
            kvt_calloc((size_t)options->block_count * options->block_tokens, sizeof(*pool->tokens));
        if (pool->tokens == NULL)
            return KVT_NOMEM;
    }
    return kvbm_eviction_init(&pool->shared.inactive, &inactive);
}

enum kvt_err
kvbm_pool_new(struct kvbm_pool **out, const struct kvbm_pool_options *options)
{
    struct kvbm_pool *pool;
    enum kvt_err rc;

    assert(out != NULL && options != NULL);
    *out = NULL;
    if (options->block_count == 0 || options->block_count > KVT_POOL_BLOCKS_MAX ||
        options->block_tokens > KVT_BLOCK_TOKENS_MAX)
        return KVT_INVALID;
    pool = kvt_aligned(KVBM_POOL_LINE, sizeof(*pool));
    if (pool == NULL)
        return KVT_NOMEM;
    memset(pool, 0, sizeof(*pool));
    pool->block_count = options->block_count;
    pool->block_tokens = options->block_tokens;
    pool->prefix_depth = options->prefix_depth == 0 ? PREFIX_DEPTH : options->prefix_depth;
    pool->dedup = options->dedup;
    pool->on_store = options->on_store;
    pool->on_remove = options->on_remove;
    pool->arg = options->arg;
    rc = make_arrays(pool, options);
    if (rc == KVT_OK && !make_locks(pool))
        rc = KVT_NOMEM;
    if (rc != KVT_OK) {
        release(pool); /* not kvbm_pool_free(): the locks were not made */
        return rc;
    }
    pool->shared.free_first = KVBM_POOL_NONE;
    for (uint32_t block = options->block_count; block > 0; block--) {
        pool->slots[block - 1].generation = 1;
        pool->slots[block - 1].next = pool->shared.free_first;
        pool->shared.free_first = block - 1;
    }
    pool->shared.free_count = options->block_count;
    *out = pool;
    return KVT_OK;
}

void
kvbm_pool_free(struct kvbm_pool *pool)
{
    if (pool == NULL)
        return;
    assert(pool->shared.free_count + pool->shared.inactive.count == pool->block_count);
    (void)pthread_cond_destroy(&pool->shared.freed);
    (void)pthread_mutex_destroy(&pool->shared.lock);
    release(pool);
}

/* ---- the lock ---- */

static inline void
pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* What the lock is held for is shorter than falling asleep and being woken.  A look takes the line
 * of memory away from who will write it next, so there are pauses in between; and who still has not
 * got it then may wait for a thread that is off its core, and sleeps. */
void
kvbm_pool_lock_contended(struct kvbm_pool *pool)
{
    for (unsigned look = 0; look < LOCK_LOOKS; look++) {
        for (unsigned i = 0; i < LOCK_PAUSES; i++)
            pause_cpu();
        if (pthread_mutex_trylock(&pool->shared.lock) == 0)
            return;
    }
    (void)pthread_mutex_lock(&pool->shared.lock);
}

/* ---- one block ---- */

static void
wake_locked(struct kvbm_pool *pool)
{
    if (pool->shared.waiters > 0)
        (void)pthread_cond_broadcast(&pool->shared.freed);
}

/* A new life: no name, no flags, and no handle of the old life fits any more. */
static void
reset_locked(struct kvbm_slot *slot)
{
    assert(!slot->listed && !slot->waiting);
    slot->state = KVT_BLOCK_RESET; /* legal from every state */
    slot->label = (struct kvbm_label){0};
    slot->priority = 0;
    slot->by_tokens = false;
    slot->aside = false;
    slot->saved = false;
    slot->early = false;
    slot->stored = false;
    slot->generation = slot->generation == UINT32_MAX ? 1 : slot->generation + 1;
}

void
kvbm_pool_free_locked(struct kvbm_pool *pool, uint32_t block)
{
    struct kvbm_slot *slot = &pool->slots[block];

    assert(slot->refs == 0);
    reset_locked(slot);
    slot->next = pool->shared.free_first;
    pool->shared.free_first = block;
    pool->shared.free_count++;
    wake_locked(pool);
}

static void
rest_locked(struct kvbm_pool *pool, uint32_t block, enum kvbm_eviction_end end)
{
    struct kvbm_eviction *inactive = &pool->shared.inactive;

    inactive->calls->put(inactive->state, block, pool->slots[block].priority, end);
    inactive->count++;
    pool->slots[block].waiting = true;
    if (end != KVBM_EVICTION_SAME)
        pool->slots[block].rested = pool->shared.iteration;
    wake_locked(pool);
}

/* ---- taking names away ---- */

void
kvbm_pool_hide_locked(struct kvbm_pool *pool, struct kvbm_slot *slot, bool leaving)
{
    assert(slot->listed && !slot->hooked);
    slot->hooked = true;
    slot->leaving = leaving;
    pool->shared.hidden++;
}

static void
delist_locked(struct kvbm_pool *pool, uint32_t block)
{
    const struct kvbm_eviction *inactive = &pool->shared.inactive;
    struct kvbm_slot *slot = &pool->slots[block];

    assert(slot->listed && slot->hooked);
    kvbm_block_names_remove(&pool->shared.names, block);
    if (inactive->calls->delist != NULL)
        inactive->calls->delist(inactive->state, block);
    slot->listed = false;
    slot->hooked = false;
    slot->leaving = false;
    pool->shared.early_unused += slot->early;
    pool->shared.unstored -= !slot->stored;
    pool->shared.hidden--;
}

/* Take away the names of blocks that are held and hidden.  Called with the lock held, which it
 * gives up for callbacks: nobody else touches such blocks meanwhile. */
static void
withdraw_locked(struct kvbm_pool *pool, const struct kvt_handle *handles, size_t count)
{
    for (size_t first = 0; first < count && pool->on_remove != NULL;) {
        struct kvbm_label labels[KVBM_POOL_ANNOUNCE_MAX];
        size_t told = 0;

        while (first < count && told < KVBM_POOL_ANNOUNCE_MAX)
            labels[told++] = pool->slots[handles[first++].block].label;
        kvbm_pool_unlock(pool);
        for (size_t i = 0; i < told; i++)
            pool->on_remove(pool->arg, &labels[i]);
        kvbm_pool_lock(pool);
    }
    for (size_t i = 0; i < count; i++)
        kvbm_block_names_prefetch(&pool->shared.names, pool->slots[handles[i].block].label.id.hash);
    for (size_t i = 0; i < count; i++)
        delist_locked(pool, handles[i].block);
}

/* Hold the blocks that go first, hidden, up to `count`; returns how many. */
static size_t
take_victims_locked(struct kvbm_pool *pool, struct kvt_handle *handles, size_t count)
{
    struct kvbm_eviction *inactive = &pool->shared.inactive;
    size_t taken = 0;

    for (; taken < count; taken++) {
        const uint32_t block = inactive->calls->victim(inactive->state, inactive->now);

        if (block == KVBM_EVICTION_NONE)
            break;
        __builtin_prefetch(&pool->slots[block], 1);
        handles[taken].block = block;
    }
    return taken;
}

static void
put_back_victims_locked(struct kvbm_pool *pool, const struct kvt_handle *handles, size_t count)
{
    const struct kvbm_eviction *inactive = &pool->shared.inactive;

    while (count > 0)
        inactive->calls->put_back(inactive->state, handles[--count].block);
}

/* Victims are wanted for good: they become the caller's, and in the end Reset and nameless. */
static void
evict_victims_locked(struct kvbm_pool *pool, struct kvt_handle *handles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct kvbm_slot *slot = &pool->slots[handles[i].block];

        assert(slot->waiting && slot->refs == 0);
        slot->waiting = false;
        slot->refs = 1;
        kvbm_pool_hide_locked(pool, slot, true);
        pool->shared.evictions_unsaved += !slot->saved && !slot->stored;
    }
    pool->shared.inactive.count -= (uint32_t)count;
    pool->shared.evictions += count;
    withdraw_locked(pool, handles, count);
    for (size_t i = 0; i < count; i++) {
        struct kvbm_slot *slot = &pool->slots[handles[i].block];

        reset_locked(slot);
        handles[i].generation = slot->generation;
    }
}

/* ---- taking blocks ---- */

static void
take_free_locked(struct kvbm_pool *pool, size_t count, struct kvt_handle *handles)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t block = pool->shared.free_first;

        pool->shared.free_first = pool->slots[block].next;
        handles[i] = kvbm_pool_hold_locked(pool, block);
    }
    pool->shared.free_count -= (uint32_t)count;
}

/* All or none: what is free, then what may be evicted. */
static bool
take_locked(struct kvbm_pool *pool, size_t count, struct kvt_handle *handles)
{
    const size_t fresh = count < pool->shared.free_count ? count : pool->shared.free_count;
    const size_t victims = count - fresh;
    size_t found;

    if (victims > pool->shared.inactive.count)
        return false;
    found = take_victims_locked(pool, handles + fresh, victims);
    if (found < victims) { /* what waits may yet be kept by what is held */
        put_back_victims_locked(pool, handles + fresh, found);
        return false;
    }
    take_free_locked(pool, fresh, handles);
    if (victims > 0)
        evict_victims_locked(pool, handles + fresh, victims);
    return true;
}

enum kvt_err
kvbm_pool_allocate(struct kvbm_pool *pool, size_t count, struct kvt_handle *handles)
{
    return kvbm_pool_allocate_wait(pool, count, handles, 0);
}

enum kvt_err
kvbm_pool_allocate_free(struct kvbm_pool *pool, size_t count, struct kvt_handle *handles)
{
    enum kvt_err rc = KVT_AGAIN;

    kvbm_pool_lock(pool);
    if (count <= pool->shared.free_count) {
        take_free_locked(pool, count, handles);
        rc = KVT_OK;
    }
    kvbm_pool_unlock(pool);
    return rc;
}

enum kvt_err
kvbm_pool_allocate_wait(struct kvbm_pool *pool, size_t count, struct kvt_handle *handles,
                        uint64_t wait_ms)
{
    bool taken;

    kvbm_pool_lock(pool);
    taken = take_locked(pool, count, handles);
    if (!taken && wait_ms > 0 && count <= pool->block_count) {
        const struct timespec deadline = kvt_cond_deadline(wait_ms);

        pool->shared.waiters++;
        while (!taken && kvt_cond_wait(&pool->shared.freed, &pool->shared.lock, &deadline))
            taken = take_locked(pool, count, handles);
        pool->shared.waiters--;
    }
    kvbm_pool_unlock(pool);
    return taken ? KVT_OK : KVT_AGAIN;
}

size_t
kvbm_pool_clear(struct kvbm_pool *pool)
{
    struct kvt_handle handles[KVBM_POOL_ANNOUNCE_MAX];
    size_t gone = 0;
    size_t count;

    kvbm_pool_lock(pool);
    do {
        count = take_victims_locked(pool, handles, KVBM_POOL_ANNOUNCE_MAX);
        evict_victims_locked(pool, handles, count);
        for (size_t i = 0; i < count; i++) {
            pool->slots[handles[i].block].refs = 0;
            kvbm_pool_free_locked(pool, handles[i].block);
        }
        gone += count;
    } while (count > 0);
    kvbm_pool_unlock(pool);
    return gone;
}

/* ---- giving blocks back ---- */

static void
drop_locked(struct kvbm_pool *pool, struct kvt_handle handle, enum kvbm_eviction_end end)
{
    struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);

    assert(slot->refs > 0);
    slot->refs--;
    if (slot->refs > 0)
        return;
    assert(!slot->hooked); /* whoever runs a callback about it holds it */
    if (end == KVBM_EVICTION_SAME && !slot->lent)
        end = KVBM_EVICTION_WARM;
    if (slot->listed)
        rest_locked(pool, handle.block, end);
    else
        kvbm_pool_free_locked(pool, handle.block);
}

void
kvbm_pool_drop(struct kvbm_pool *pool, struct kvt_handle handle)
{
    kvbm_pool_lock(pool);
    drop_locked(pool, handle, KVBM_EVICTION_WARM);
    kvbm_pool_unlock(pool);
}

void
kvbm_pool_drop_cold(struct kvbm_pool *pool, struct kvt_handle handle)
{
    kvbm_pool_lock(pool);
    drop_locked(pool, handle, KVBM_EVICTION_COLD);
    kvbm_pool_unlock(pool);
}

void
kvbm_pool_drop_same(struct kvbm_pool *pool, struct kvt_handle handle)
{
    kvbm_pool_lock(pool);
    drop_locked(pool, handle, KVBM_EVICTION_SAME);
    kvbm_pool_unlock(pool);
}

void
kvbm_pool_drop_all(struct kvbm_pool *pool, const struct kvt_handle *handles, size_t count)
{
    kvbm_pool_lock(pool);
    while (count-- > 0)
        if (handles[count].generation != 0)
            drop_locked(pool, handles[count], KVBM_EVICTION_WARM);
    kvbm_pool_unlock(pool);
}

/* Take the held, listed and visible block's name away, then our hold.  What it continued may be
 * evicted from here on, also where others still hold the block itself. */
static void
expel_locked(struct kvbm_pool *pool, struct kvt_handle handle)
{
    struct kvbm_slot *slot = &pool->slots[handle.block];

    kvbm_pool_hide_locked(pool, slot, true);
    withdraw_locked(pool, &handle, 1);
    slot->refs--;
    if (slot->refs == 0)
        kvbm_pool_free_locked(pool, handle.block);
    else
        wake_locked(pool);
}

enum kvt_err
kvbm_pool_evict(struct kvbm_pool *pool, struct kvt_handle handle)
{
    const struct kvbm_slot *slot;
    enum kvt_err rc = KVT_OK;

    kvbm_pool_lock(pool);
    slot = kvbm_pool_slot(pool, handle);
    assert(slot->state == KVT_BLOCK_REGISTERED && slot->refs > 0);
    if (slot->refs > 1 || !slot->listed) {
        drop_locked(pool, handle, KVBM_EVICTION_WARM);
        rc = KVT_BUSY;
    } else {
        expel_locked(pool, handle);
    }
    kvbm_pool_unlock(pool);
    return rc;
}

void
kvbm_pool_discard(struct kvbm_pool *pool, struct kvt_handle handle)
{
    const struct kvbm_slot *slot;

    kvbm_pool_lock(pool);
    slot = kvbm_pool_slot(pool, handle);
    assert(slot->refs > 0);
    if (slot->listed && !slot->hooked)
        expel_locked(pool, handle);
    else /* a duplicate, or another holder is already at it */
        drop_locked(pool, handle, KVBM_EVICTION_WARM);
    kvbm_pool_unlock(pool);
}
