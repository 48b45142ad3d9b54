#include <assert.h>

#include "kvbm/pool/block_pool.h"
#include "kvbm/pool/block_pool_internal.h"
#include "kvbm/pool/mutable_block.h"

/* The name is known already: share its block, or keep ours unlisted beside it. */
static enum kvt_err
register_known_locked(struct kvbm_pool *pool, struct kvt_handle *handle, uint32_t known)
{
    const struct kvbm_eviction *inactive = &pool->shared.inactive;
    struct kvbm_slot *slot = &pool->slots[handle->block];

    pool->shared.duplicates++;
    if (pool->dedup == KVT_POOL_DEDUP_ALLOW) {
        slot->state = KVT_BLOCK_REGISTERED;
        return KVT_OK;
    }
    slot->refs--;
    kvbm_pool_free_locked(pool, handle->block);
    *handle = kvbm_pool_hold_locked(pool, known);
    if (inactive->calls->use != NULL)
        inactive->calls->use(inactive->state, known, inactive->now);
    return KVT_EXISTS;
}

/* The map has the name; with a callback to come it stays hidden. */
static void
register_new_locked(struct kvbm_pool *pool, struct kvt_handle handle)
{
    const struct kvbm_eviction *inactive = &pool->shared.inactive;
    struct kvbm_slot *slot = &pool->slots[handle.block];

    slot->state = KVT_BLOCK_REGISTERED;
    slot->listed = true;
    if (inactive->calls->list != NULL)
        inactive->calls->list(inactive->state, handle.block, &slot->label.id, inactive->now);
    pool->shared.registrations++;
    pool->shared.unstored += !slot->stored;
    if (pool->on_store != NULL)
        kvbm_pool_hide_locked(pool, slot, false);
}

static enum kvt_err
register_locked(struct kvbm_pool *pool, struct kvt_handle *handle)
{
    const struct kvbm_slot *slot = kvbm_pool_slot(pool, *handle);
    uint32_t known;

    if (slot->state != KVT_BLOCK_COMPLETE)
        return KVT_INVALID;
    known = kvbm_block_names_add(&pool->shared.names, slot->label.id.hash, handle->block);
    if (known == KVBM_BLOCK_NAMES_NONE) {
        register_new_locked(pool, *handle);
        return KVT_OK;
    }
    if (pool->slots[known].hooked)
        return KVT_BUSY;
    return register_known_locked(pool, handle, known);
}

/* Tell of the blocks whose names are new, and let them be found.  Gives the lock up meanwhile. */
static void
announce_locked(struct kvbm_pool *pool, const struct kvt_handle *handles,
                const enum kvt_err *results, size_t count)
{
    struct kvbm_slot *slots[KVBM_POOL_ANNOUNCE_MAX];
    size_t fresh = 0;

    for (size_t i = 0; i < count; i++)
        if (results[i] == KVT_OK && pool->slots[handles[i].block].hooked)
            slots[fresh++] = &pool->slots[handles[i].block];
    if (fresh == 0)
        return;
    kvbm_pool_unlock(pool);
    for (size_t i = 0; i < fresh; i++)
        pool->on_store(pool->arg, &slots[i]->label); /* constant, and we hold it */
    kvbm_pool_lock(pool);
    for (size_t i = 0; i < fresh; i++)
        slots[i]->hooked = false;
    pool->shared.hidden -= (uint32_t)fresh;
}

size_t
kvbm_pool_register_all(struct kvbm_pool *pool, struct kvt_handle *handles, size_t count,
                       enum kvt_err *results)
{
    size_t known = 0;

    /* Where the table is and what our blocks are called needs no lock to be read; what is in the
     * table is guessed. */
    for (size_t i = 0; i < count; i++)
        kvbm_block_names_prefetch(&pool->shared.names,
                                  kvbm_pool_slot(pool, handles[i])->label.id.hash);
    for (size_t i = 0; i < count; i++)
        (void)kvbm_block_names_guess(&pool->shared.names,
                                     pool->slots[handles[i].block].label.id.hash);
    kvbm_pool_lock(pool);
    pool->shared.inactive.now++;
    for (size_t first = 0; first < count; first += KVBM_POOL_ANNOUNCE_MAX) {
        const size_t left = count - first;
        const size_t batch = left < KVBM_POOL_ANNOUNCE_MAX ? left : KVBM_POOL_ANNOUNCE_MAX;

        for (size_t i = first; i < first + batch; i++) {
            results[i] = register_locked(pool, &handles[i]);
            known += results[i] == KVT_OK || results[i] == KVT_EXISTS;
        }
        if (pool->on_store != NULL)
            announce_locked(pool, handles + first, results + first, batch);
    }
    kvbm_pool_unlock(pool);
    return known;
}

enum kvt_err
kvbm_pool_register(struct kvbm_pool *pool, struct kvt_handle *handle, struct kvt_error *err)
{
    char name[KVT_HASH_TEXT_MAX];
    enum kvt_err rc;

    (void)kvbm_pool_register_all(pool, handle, 1, &rc);
    if (rc == KVT_INVALID)
        return kvt_error_set(err, rc, "a block is registered when it is complete, this one is %s",
                             kvbm_block_state_name(kvbm_pool_state(pool, *handle)));
    if (rc == KVT_BUSY) {
        kvt_hash_format(kvbm_pool_label(pool, *handle).id.hash, name);
        return kvt_error_set(err, rc, "the name %s is just coming or going", name);
    }
    return rc;
}
