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
make_pool(struct kvbm_attach_service *service, const struct kvbm_attach_service_options *options,
          struct kvt_error *err)
{
    const struct kvbm_pool_options pool = {
        .block_count = service->memory->block_count,
        .dedup = KVT_POOL_DEDUP_REJECT,
        .order = options->below->order,
        .ordering = options->below->ordering,
        .ordering_options = options->below->ordering_options,
        .block_bytes = service->memory->block_size,
        .on_store = options->on_store,
        .on_remove = options->on_remove,
        .arg = options->arg,
    };
    const enum kvt_err rc = kvbm_pool_new(&service->pool, &pool);

    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "pool of an engine");
}

enum kvt_err
kvbm_attach_service_new(struct kvbm_attach_service **out,
                        const struct kvbm_attach_service_options *options, struct kvt_error *err)
{
    const struct kvbm_attach_service_below *below = options->below;
    const uint32_t blocks = options->memory->block_count;
    struct kvbm_attach_service *service;
    enum kvt_err rc;

    *out = NULL;
    if (options->memory->block_size != below->g2.storage->block_size)
        return kvt_error_set(err, KVT_INVALID, "blocks of %zu bytes, not %zu",
                             options->memory->block_size, below->g2.storage->block_size);
    service = kvt_calloc(1, sizeof(*service));
    if (service == NULL)
        return kvt_error_set(err, KVT_NOMEM, "engine");
    service->below = below;
    service->memory = options->memory;
    service->stop = options->stop;
    service->watch = options->watch;
    service->arg = options->arg;
    service->chunk = at_least_one(
        least(KVBM_ATTACH_SERVICE_CHUNK, least(blocks, below->g2.storage->block_count) / 4));
    service->lower.capacity = at_least_one(least(KVBM_ATTACH_SERVICE_WAITING, blocks / 4));
    service->holds = kvt_calloc(blocks, sizeof(*service->holds));
    service->lower.handles = kvt_calloc(service->lower.capacity, sizeof(*service->lower.handles));
    service->wishes.rows = kvt_calloc(KVBM_ATTACH_SERVICE_WISHES, sizeof(*service->wishes.rows));
    service->labels = kvt_calloc(KVBM_ATTACH_REQUEST_MAX, sizeof(*service->labels));
    if (service->holds == NULL || service->lower.handles == NULL || service->wishes.rows == NULL ||
        service->labels == NULL)
        rc = kvt_error_set(err, KVT_NOMEM, "engine");
    else
        rc = make_pool(service, options, err);
    if (rc != KVT_OK) {
        kvbm_attach_service_free(service);
        return rc;
    }
    if (service->watch != NULL)
        service->watch(service->arg, service->pool);
    *out = service;
    return KVT_OK;
}

static void
give_back_all(struct kvbm_attach_service *service)
{
    for (uint32_t i = 0; i < service->memory->block_count; i++) {
        struct kvbm_attach_service_hold *hold = &service->holds[i];
        const struct kvt_handle handle = {i, hold->generation};

        if (hold->unique)
            kvbm_pool_drop(service->pool, handle);
        for (; hold->shares > 0; hold->shares--)
            kvbm_pool_drop(service->pool, handle);
        hold->unique = false;
    }
    for (; service->lower.count > 0; service->lower.count--) {
        kvbm_pool_drop(service->pool, service->lower.handles[service->lower.head]);
        service->lower.head = (service->lower.head + 1) % service->lower.capacity;
    }
}

void
kvbm_attach_service_free(struct kvbm_attach_service *service)
{
    if (service == NULL)
        return;
    if (service->pool != NULL) {
        give_back_all(service);
        (void)kvbm_pool_clear(service->pool); /* every name is taken back, and said to be */
        assert(kvbm_pool_stats(service->pool).free == service->memory->block_count);
        if (service->watch != NULL)
            service->watch(service->arg, NULL);
    }
    kvbm_pool_free(service->pool);
    kvt_free(service->labels);
    kvt_free(service->wishes.rows);
    kvt_free(service->lower.handles);
    kvt_free(service->holds);
    kvt_free(service);
}

const uint64_t *
kvbm_attach_service_counts(const struct kvbm_attach_service *service)
{
    return service->counts;
}

/* The engine's row of a block, or NULL when it holds no block of this life. */
static struct kvbm_attach_service_hold *
held(const struct kvbm_attach_service *service, struct kvt_handle handle)
{
    struct kvbm_attach_service_hold *hold;

    if (handle.block >= service->memory->block_count)
        return NULL;
    hold = &service->holds[handle.block];
    if (hold->generation != handle.generation || (!hold->unique && hold->shares == 0))
        return NULL;
    return hold;
}

bool
kvbm_attach_service_give_shared(struct kvbm_attach_service *service, struct kvt_handle handle)
{
    struct kvbm_attach_service_hold *hold = &service->holds[handle.block];

    assert(!hold->unique);
    if (hold->shares >= KVBM_ATTACH_SERVICE_SHARES)
        return false;
    assert(hold->shares == 0 || hold->generation == handle.generation);
    hold->generation = handle.generation;
    hold->shares++;
    return true;
}

void
kvbm_attach_service_give_unique(struct kvbm_attach_service *service, struct kvt_handle handle)
{
    struct kvbm_attach_service_hold *hold = &service->holds[handle.block];

    assert(!hold->unique && hold->shares == 0);
    hold->generation = handle.generation;
    hold->unique = true;
}

bool
kvbm_attach_service_holds_unique(const struct kvbm_attach_service *service,
                                 struct kvt_handle handle)
{
    const struct kvbm_attach_service_hold *hold = held(service, handle);

    return hold != NULL && hold->unique;
}

void
kvbm_attach_service_take_unique(struct kvbm_attach_service *service, struct kvt_handle handle)
{
    assert(kvbm_attach_service_holds_unique(service, handle));
    service->holds[handle.block].unique = false;
}

bool
kvbm_attach_service_drop(struct kvbm_attach_service *service, struct kvt_handle handle)
{
    struct kvbm_attach_service_hold *hold = held(service, handle);

    if (hold == NULL)
        return false;
    if (hold->unique)
        hold->unique = false;
    else
        hold->shares--;
    kvbm_pool_drop(service->pool, handle);
    return true;
}

/* Bring the next blocks of the first wish; what arrives rests in G1.  A wish ends with its last
 * block or with the first that is nowhere, or that there is no room for. */
static void
grant(struct kvbm_attach_service *service)
{
    struct kvbm_attach_service_wish *wish = &service->wishes.rows[service->wishes.head];
    struct kvt_handle handles[KVBM_ATTACH_SERVICE_CHUNK];
    const uint32_t left = wish->count - wish->at;
    const size_t count = least(left, service->chunk);
    const uint64_t onboarded = service->counts[KVBM_ATTACH_STAT_onboarded];
    size_t brought;
    const enum kvt_err rc = kvbm_attach_service_raise(service, wish->labels + wish->at, count,
                                                      UINT64_MAX, handles, &brought);

    kvbm_pool_drop_all(service->pool, handles, brought);
    wish->at += (uint32_t)brought;
    service->counts[KVBM_ATTACH_STAT_prefetched] +=
        service->counts[KVBM_ATTACH_STAT_onboarded] - onboarded;
    service->counts[KVBM_ATTACH_STAT_onboarded] = onboarded;
    if (rc == KVT_OK && wish->at < wish->count)
        return;
    service->wishes.head = (service->wishes.head + 1) % KVBM_ATTACH_SERVICE_WISHES;
    service->wishes.count--;
}

bool
kvbm_attach_service_work(struct kvbm_attach_service *service)
{
    if (service->lower.due > 0)
        return kvbm_attach_service_lower(service);
    if (service->wishes.count == 0)
        return false;
    grant(service);
    return true;
}
