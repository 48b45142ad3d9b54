/* The stable face of blocks and pools: kvtier/kvbm.h over kvbm/pool/block_pool.h and
 * kvbm/pool/mutable_block.h. */
#include "kvbm/public/public_handle.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/pool/mutable_block.h"

/* ---- structures that grow ---- */

bool
kvbm_public_read(void *to, size_t to_size, const void *from)
{
    const uint8_t *bytes = from;
    size_t from_size;

    memcpy(&from_size, from, sizeof(from_size));
    for (size_t i = to_size; i < from_size; i++)
        if (bytes[i] != 0)
            return false;
    memset(to, 0, to_size);
    memcpy(to, from, from_size < to_size ? from_size : to_size);
    return true;
}

void
kvbm_public_write(void *to, const void *from, size_t from_size)
{
    size_t to_size;

    memcpy(&to_size, to, sizeof(to_size));
    assert(to_size >= sizeof(size_t));
    memset((uint8_t *)to + sizeof(size_t), 0, to_size - sizeof(size_t));
    if (from_size > to_size)
        from_size = to_size;
    memcpy((uint8_t *)to + sizeof(size_t), (const uint8_t *)from + sizeof(size_t),
           from_size - sizeof(size_t));
}

struct kvt_block_info
kvbm_public_info(const struct kvbm_label *label)
{
    return (struct kvt_block_info){
        .size = sizeof(struct kvt_block_info),
        .id = label->id,
        .prefix_hash = label->prefix_hash,
        .tokens_hash = label->tokens_hash,
    };
}

/* No caller knows less of a name than its first version had: one that says so forgot the size, and
 * its blocks would all be named 0. */
enum kvt_err
kvbm_public_label(struct kvbm_label *label, const struct kvt_block_info *info,
                  struct kvt_error *err)
{
    const size_t least = offsetof(struct kvt_block_info, tokens_hash) + sizeof(info->tokens_hash);
    struct kvt_block_info known;

    *label = (struct kvbm_label){0};
    if (info->size < least)
        return kvt_error_set(err, KVT_INVALID, "block: size of a name is %zu, not its size",
                             info->size);
    if (!kvbm_public_read(&known, sizeof(known), info))
        return kvt_error_set(err, KVT_UNSUPPORTED, "block: a name of a newer library");
    *label = (struct kvbm_label){known.id, known.prefix_hash, known.tokens_hash};
    return KVT_OK;
}

/* ---- pools ---- */

/* The callbacks of the pool below, each in the words of the caller's. */
static void
tell_store(void *arg, const struct kvbm_label *label)
{
    const struct kvt_pool *pool = arg;
    const struct kvt_block_info info = kvbm_public_info(label);

    pool->on_store(pool->arg, &info);
}

static void
tell_remove(void *arg, const struct kvbm_label *label)
{
    const struct kvt_pool *pool = arg;
    const struct kvt_block_info info = kvbm_public_info(label);

    pool->on_remove(pool->arg, &info);
}

enum kvt_err
kvt_pool_new(struct kvt_pool **out, const struct kvt_pool_options *options, struct kvt_error *err)
{
    struct kvt_pool_options known;
    struct kvt_pool *pool;
    enum kvt_err rc;

    assert(out != NULL && options != NULL);
    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), options))
        return kvt_error_set(err, KVT_UNSUPPORTED, "pool: options of a newer library");
    pool = kvt_calloc(1, sizeof(*pool));
    if (pool == NULL)
        return kvt_error_set(err, KVT_NOMEM, "pool");
    pool->on_store = known.on_store;
    pool->on_remove = known.on_remove;
    pool->arg = known.arg;
    rc = kvbm_pool_new(&pool->pool, &(struct kvbm_pool_options){
                                        .block_count = known.block_count,
                                        .dedup = known.dedup,
                                        .order = known.order,
                                        .ordering = known.ordering,
                                        .ordering_options = {.prices = {1, 10, 1}}, /* usual */
                                        .block_bytes = known.block_bytes,
                                        .block_tokens = known.block_tokens,
                                        .prefix_depth = known.prefix_depth,
                                        .on_store = known.on_store != NULL ? tell_store : NULL,
                                        .on_remove = known.on_remove != NULL ? tell_remove : NULL,
                                        .arg = pool,
                                    });
    if (rc != KVT_OK) {
        kvt_free(pool);
        return kvt_error_set(err, rc, "pool of %u blocks", (unsigned)known.block_count);
    }
    *out = pool;
    return KVT_OK;
}

void
kvt_pool_free(struct kvt_pool *pool)
{
    if (pool == NULL)
        return;
    kvbm_pool_free(pool->pool);
    kvt_free(pool);
}

enum kvt_err
kvt_pool_allocate(struct kvt_pool *pool, size_t count, struct kvt_unique *handles, uint64_t wait_ms)
{
    const enum kvt_err rc =
        kvbm_pool_allocate_wait(pool->pool, count, (struct kvt_handle *)handles, wait_ms);

    if (rc != KVT_OK && count > 0)
        memset(handles, 0, count * sizeof(*handles));
    return rc;
}

size_t
kvt_pool_match(struct kvt_pool *pool, const uint64_t *hashes, size_t count,
               struct kvt_shared *handles)
{
    const size_t found = kvbm_pool_match(pool->pool, hashes, count, (struct kvt_handle *)handles);

    if (found < count)
        memset(handles + found, 0, (count - found) * sizeof(*handles));
    return found;
}

size_t
kvt_pool_scan(struct kvt_pool *pool, const uint64_t *hashes, size_t count,
              struct kvt_shared *handles)
{
    return kvbm_pool_scan(pool->pool, hashes, count, (struct kvt_handle *)handles);
}

bool
kvt_pool_has(struct kvt_pool *pool, uint64_t hash)
{
    return kvbm_pool_has(pool->pool, hash);
}

size_t
kvt_pool_clear(struct kvt_pool *pool)
{
    return kvbm_pool_clear(pool->pool);
}

void
kvt_pool_usage(struct kvt_pool *pool, struct kvt_pool_usage *usage)
{
    const struct kvbm_pool_stats stats = kvbm_pool_stats(pool->pool);
    const struct kvt_pool_usage ours = {
        .blocks = stats.blocks,
        .free = stats.free,
        .active = stats.active,
        .inactive = stats.inactive,
        .registered = stats.registrations,
        .duplicates = stats.duplicates,
        .sought = stats.sought,
        .found = stats.found,
        .evicted = stats.evictions,
    };

    kvbm_public_write(usage, &ours, sizeof(ours));
}

/* ---- the one holder of a block ---- */

enum kvt_block_state
kvt_unique_state(struct kvt_pool *pool, struct kvt_unique unique)
{
    return kvbm_pool_state(pool->pool, unique.handle);
}

enum kvt_err
kvt_unique_begin(struct kvt_pool *pool, struct kvt_unique unique, struct kvt_error *err)
{
    return kvbm_block_begin(pool->pool, unique.handle, err);
}

enum kvt_err
kvt_unique_complete(struct kvt_pool *pool, struct kvt_unique unique,
                    const struct kvt_block_info *info, struct kvt_error *err)
{
    struct kvbm_label label;
    const enum kvt_err rc = kvbm_public_label(&label, info, err);

    if (rc != KVT_OK)
        return rc;
    return kvbm_block_complete(pool->pool, unique.handle, &label, err);
}

enum kvt_err
kvt_unique_init_sequence(struct kvt_pool *pool, struct kvt_unique unique, uint64_t seed,
                         const struct kvt_block_info *previous, struct kvt_error *err)
{
    struct kvbm_label label;
    enum kvt_err rc;

    if (previous == NULL)
        return kvbm_block_init_sequence(pool->pool, unique.handle, seed, NULL, err);
    rc = kvbm_public_label(&label, previous, err);
    if (rc != KVT_OK)
        return rc;
    return kvbm_block_init_sequence(pool->pool, unique.handle, seed, &label, err);
}

enum kvt_err
kvt_unique_add_tokens(struct kvt_pool *pool, struct kvt_unique unique, const uint32_t *tokens,
                      size_t count, struct kvt_error *err)
{
    return kvbm_block_add_tokens(pool->pool, unique.handle, tokens, count, err);
}

enum kvt_err
kvt_unique_pop_tokens(struct kvt_pool *pool, struct kvt_unique unique, size_t count,
                      struct kvt_error *err)
{
    return kvbm_block_pop_tokens(pool->pool, unique.handle, count, err);
}

enum kvt_err
kvt_unique_commit(struct kvt_pool *pool, struct kvt_unique unique, struct kvt_error *err)
{
    return kvbm_block_commit(pool->pool, unique.handle, err);
}

enum kvt_err
kvt_unique_reset(struct kvt_pool *pool, struct kvt_unique unique, struct kvt_error *err)
{
    return kvbm_block_reset(pool->pool, unique.handle, err);
}

enum kvt_err
kvt_unique_register(struct kvt_pool *pool, struct kvt_unique unique, struct kvt_shared *out,
                    struct kvt_error *err)
{
    const enum kvt_err rc = kvbm_pool_register(pool->pool, &unique.handle, err);

    *out = (struct kvt_shared){{0}};
    if (rc == KVT_OK || rc == KVT_EXISTS)
        out->handle = unique.handle;
    return rc;
}

size_t
kvt_unique_register_all(struct kvt_pool *pool, const struct kvt_unique *handles, size_t count,
                        struct kvt_shared *out, enum kvt_err *results)
{
    size_t held;

    for (size_t i = 0; i < count; i++)
        out[i].handle = handles[i].handle;
    held = kvbm_pool_register_all(pool->pool, (struct kvt_handle *)out, count, results);
    for (size_t i = 0; i < count; i++)
        if (results[i] != KVT_OK && results[i] != KVT_EXISTS)
            out[i] = (struct kvt_shared){{0}};
    return held;
}

void
kvt_unique_drop(struct kvt_pool *pool, struct kvt_unique unique)
{
    kvbm_pool_drop_all(pool->pool, &unique.handle, 1);
}

/* ---- one of several holders ---- */

void
kvt_shared_info(struct kvt_pool *pool, struct kvt_shared shared, struct kvt_block_info *info)
{
    const struct kvbm_label label = kvbm_pool_label(pool->pool, shared.handle);
    const struct kvt_block_info ours = kvbm_public_info(&label);

    kvbm_public_write(info, &ours, sizeof(ours));
}

struct kvt_shared
kvt_shared_copy(struct kvt_pool *pool, struct kvt_shared shared)
{
    kvbm_pool_share(pool->pool, shared.handle);
    return shared;
}

enum kvt_err
kvt_shared_set_priority(struct kvt_pool *pool, struct kvt_shared shared, uint32_t priority)
{
    if (priority > KVT_PRIORITY_MAX)
        return KVT_RANGE;
    kvbm_pool_set_priority(pool->pool, shared.handle, priority);
    return KVT_OK;
}

void
kvt_shared_drop(struct kvt_pool *pool, const struct kvt_shared *handles, size_t count)
{
    kvbm_pool_drop_all(pool->pool, (const struct kvt_handle *)handles, count);
}

void
kvt_shared_discard(struct kvt_pool *pool, struct kvt_shared shared)
{
    kvbm_pool_discard(pool->pool, shared.handle);
}

/* ---- and none ---- */

struct kvt_weak
kvt_shared_weak(struct kvt_shared shared)
{
    return (struct kvt_weak){shared.handle};
}

enum kvt_err
kvt_weak_upgrade(struct kvt_pool *pool, struct kvt_weak weak, struct kvt_shared *out)
{
    const enum kvt_err rc =
        weak.handle.generation == 0 ? KVT_NOTFOUND : kvbm_pool_upgrade(pool->pool, weak.handle);

    *out = (struct kvt_shared){{0}};
    if (rc == KVT_OK)
        out->handle = weak.handle;
    return rc;
}
