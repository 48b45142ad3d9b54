#include "kvbm/attach/attach_service.h"

#include <assert.h>

#include "base/core/alloc.h"
#include "kvbm/attach/attach_service_internal.h"

static uint32_t
least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t
at_least_one(uint32_t number)
{
    return number > 0 ? number : 1;
}

static enum kvt_err
make_pool(struct kvbm_attach_service *desk, const struct kvbm_attach_service_options *options,
          struct kvt_error *err)
{
    const struct kvbm_pool_options pool = {
        .block_count = desk->memory->block_count,
        .dedup = KVT_POOL_DEDUP_REJECT,
        .order = options->below->order,
        .ordering = options->below->ordering,
        .ordering_options = options->below->ordering_options,
        .block_bytes = desk->memory->block_size,
        .on_store = options->on_store,
        .on_remove = options->on_remove,
        .arg = options->arg,
    };
    const enum kvt_err rc = kvbm_pool_new(&desk->pool, &pool);

    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "pool of an engine");
}

enum kvt_err
kvbm_attach_service_new(struct kvbm_attach_service **out,
                        const struct kvbm_attach_service_options *options, struct kvt_error *err)
{
    const struct kvbm_attach_service_below *below = options->below;
    const uint32_t blocks = options->memory->block_count;
    struct kvbm_attach_service *desk;
    enum kvt_err rc;

    *out = NULL;
    if (options->memory->block_size != below->g2.storage->block_size)
        return kvt_error_set(err, KVT_INVALID, "blocks of %zu bytes, not %zu",
                             options->memory->block_size, below->g2.storage->block_size);
    desk = kvt_calloc(1, sizeof(*desk));
    if (desk == NULL)
        return kvt_error_set(err, KVT_NOMEM, "engine");
    desk->below = below;
    desk->memory = options->memory;
    desk->stop = options->stop;
    desk->watch = options->watch;
    desk->arg = options->arg;
    desk->chunk = at_least_one(
        least(KVBM_ATTACH_SERVICE_CHUNK, least(blocks, below->g2.storage->block_count) / 4));
    desk->lower.capacity = at_least_one(least(KVBM_ATTACH_SERVICE_WAITING, blocks / 4));
    desk->holds = kvt_calloc(blocks, sizeof(*desk->holds));
    desk->lower.handles = kvt_calloc(desk->lower.capacity, sizeof(*desk->lower.handles));
    desk->wishes.rows = kvt_calloc(KVBM_ATTACH_SERVICE_WISHES, sizeof(*desk->wishes.rows));
    desk->labels = kvt_calloc(KVBM_ATTACH_REQUEST_MAX, sizeof(*desk->labels));
    if (desk->holds == NULL || desk->lower.handles == NULL || desk->wishes.rows == NULL ||
        desk->labels == NULL)
        rc = kvt_error_set(err, KVT_NOMEM, "engine");
    else
        rc = make_pool(desk, options, err);
    if (rc != KVT_OK) {
        kvbm_attach_service_free(desk);
        return rc;
    }
    if (desk->watch != NULL)
        desk->watch(desk->arg, desk->pool);
    *out = desk;
    return KVT_OK;
}

static void
give_back_all(struct kvbm_attach_service *desk)
{
    for (uint32_t i = 0; i < desk->memory->block_count; i++) {
        struct kvbm_attach_service_hold *hold = &desk->holds[i];
        const struct kvt_handle handle = {i, hold->generation};

        if (hold->unique)
            kvbm_pool_drop(desk->pool, handle);
        for (; hold->shares > 0; hold->shares--)
            kvbm_pool_drop(desk->pool, handle);
        hold->unique = false;
    }
    for (; desk->lower.count > 0; desk->lower.count--) {
        kvbm_pool_drop(desk->pool, desk->lower.handles[desk->lower.head]);
        desk->lower.head = (desk->lower.head + 1) % desk->lower.capacity;
    }
}

void
kvbm_attach_service_free(struct kvbm_attach_service *desk)
{
    if (desk == NULL)
        return;
    if (desk->pool != NULL) {
        give_back_all(desk);
        (void)kvbm_pool_clear(desk->pool); /* every name is taken back, and said to be */
        assert(kvbm_pool_stats(desk->pool).free == desk->memory->block_count);
        if (desk->watch != NULL)
            desk->watch(desk->arg, NULL);
    }
    kvbm_pool_free(desk->pool);
    kvt_free(desk->labels);
    kvt_free(desk->wishes.rows);
    kvt_free(desk->lower.handles);
    kvt_free(desk->holds);
    kvt_free(desk);
}

const uint64_t *
kvbm_attach_service_counts(const struct kvbm_attach_service *desk)
{
    return desk->counts;
}

/* The engine's row of a block, or NULL when it holds no block of this life. */
static struct kvbm_attach_service_hold *
held(const struct kvbm_attach_service *desk, struct kvt_handle handle)
{
    struct kvbm_attach_service_hold *hold;

    if (handle.block >= desk->memory->block_count)
        return NULL;
    hold = &desk->holds[handle.block];
    if (hold->generation != handle.generation || (!hold->unique && hold->shares == 0))
        return NULL;
    return hold;
}

bool
kvbm_attach_service_give_shared(struct kvbm_attach_service *desk, struct kvt_handle handle)
{
    struct kvbm_attach_service_hold *hold = &desk->holds[handle.block];

    assert(!hold->unique);
    if (hold->shares >= KVBM_ATTACH_SERVICE_SHARES)
        return false;
    assert(hold->shares == 0 || hold->generation == handle.generation);
    hold->generation = handle.generation;
    hold->shares++;
    return true;
}

void
kvbm_attach_service_give_unique(struct kvbm_attach_service *desk, struct kvt_handle handle)
{
    struct kvbm_attach_service_hold *hold = &desk->holds[handle.block];

    assert(!hold->unique && hold->shares == 0);
    hold->generation = handle.generation;
    hold->unique = true;
}

bool
kvbm_attach_service_holds_unique(const struct kvbm_attach_service *desk, struct kvt_handle handle)
{
    const struct kvbm_attach_service_hold *hold = held(desk, handle);

    return hold != NULL && hold->unique;
}

void
kvbm_attach_service_take_unique(struct kvbm_attach_service *desk, struct kvt_handle handle)
{
    assert(kvbm_attach_service_holds_unique(desk, handle));
    desk->holds[handle.block].unique = false;
}

bool
kvbm_attach_service_drop(struct kvbm_attach_service *desk, struct kvt_handle handle)
{
    struct kvbm_attach_service_hold *hold = held(desk, handle);

    if (hold == NULL)
        return false;
    if (hold->unique)
        hold->unique = false;
    else
        hold->shares--;
    kvbm_pool_drop(desk->pool, handle);
    return true;
}

/* Bring the next blocks of the first wish; what arrives rests in G1.  A wish ends with its last
 * block or with the first that is nowhere, or that there is no room for. */
static void
grant(struct kvbm_attach_service *desk)
{
    struct kvbm_attach_service_wish *wish = &desk->wishes.rows[desk->wishes.head];
    struct kvt_handle handles[KVBM_ATTACH_SERVICE_CHUNK];
    const uint32_t left = wish->count - wish->at;
    const size_t count = least(left, desk->chunk);
    const uint64_t onboarded = desk->counts[KVBM_ATTACH_STAT_onboarded];
    size_t brought;
    const enum kvt_err rc = kvbm_attach_service_raise(desk, wish->labels + wish->at, count,
                                                      UINT64_MAX, handles, &brought);

    kvbm_pool_drop_all(desk->pool, handles, brought);
    wish->at += (uint32_t)brought;
    desk->counts[KVBM_ATTACH_STAT_prefetched] +=
        desk->counts[KVBM_ATTACH_STAT_onboarded] - onboarded;
    desk->counts[KVBM_ATTACH_STAT_onboarded] = onboarded;
    if (rc == KVT_OK && wish->at < wish->count)
        return;
    desk->wishes.head = (desk->wishes.head + 1) % KVBM_ATTACH_SERVICE_WISHES;
    desk->wishes.count--;
}

bool
kvbm_attach_service_work(struct kvbm_attach_service *desk)
{
    if (desk->lower.due > 0)
        return kvbm_attach_service_lower(desk);
    if (desk->wishes.count == 0)
        return false;
    grant(desk);
    return true;
}
