/* How an engine's blocks go down to G2 and come up from it, and through it. */
#include <assert.h>

#include "base/core/clock.h"
#include "kvbm/attach/attach_service_internal.h"
#include "kvbm/pool/mutable_block.h"

enum { STOP_WAIT = 50 /* ms between looks whether the engine is still there */ };

/* Name a written block and make it findable.  Takes the handle where it is refused. */
static enum kvt_err
enter(struct kvbm_pool *pool, struct kvt_handle *handle, const struct kvbm_label *label)
{
    enum kvt_err rc = kvbm_block_begin(pool, *handle, NULL);

    if (rc == KVT_OK)
        rc = kvbm_block_complete(pool, *handle, label, NULL);
    if (rc == KVT_OK)
        rc = kvbm_pool_register(pool, handle, NULL);
    if (rc == KVT_OK || rc == KVT_EXISTS)
        return KVT_OK;
    kvbm_pool_drop(pool, *handle);
    return rc;
}

/* Blocks of G2: the manager lowers what is cold, others' holds end. */
static enum kvt_err
allocate_g2(const struct kvbm_attach_service *service, uint32_t count, struct kvt_handle *handles)
{
    const struct kvbm_attach_service_below *below = service->below;

    kvbm_manager_make_room(below->manager, KVT_TIER_G2, count, below->room_wait_ms);
    return kvbm_pool_allocate_wait(below->g2.pool, count, handles, below->room_wait_ms);
}

static void
copy(const struct kvbm_attach_service *service, struct kvbm_storage *source,
     struct kvbm_storage *target, struct kvt_copy *copies, size_t count)
{
    /* Each copy has its status. */
    (void)!kvbm_copy_blocks(service->below->transfer, source, target, copies, count);
}

/* ---- down ---- */

void
kvbm_attach_service_lower_later(struct kvbm_attach_service *service, struct kvt_handle handle)
{
    if (service->lower.count == service->lower.capacity)
        (void)kvbm_attach_service_lower(service);
    kvbm_pool_share(service->pool, handle);
    service->lower.handles[(service->lower.head + service->lower.count) % service->lower.capacity] =
        handle;
    service->lower.count++;
}

/* Copy `count` held blocks into fresh ones of G2 and register them there.  Returns how many. */
static uint32_t
lower_all(struct kvbm_attach_service *service, const struct kvt_handle *handles, uint32_t count)
{
    struct kvbm_pool *g2 = service->below->g2.pool;
    struct kvt_handle targets[KVBM_ATTACH_SERVICE_CHUNK];
    struct kvt_copy copies[KVBM_ATTACH_SERVICE_CHUNK];
    uint32_t done = 0;

    if (count == 0 || allocate_g2(service, count, targets) != KVT_OK)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        copies[i] = (struct kvt_copy){handles[i].block, targets[i].block, KVT_OK};
    copy(service, service->memory, service->below->g2.storage, copies, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct kvbm_label label = kvbm_pool_label(service->pool, handles[i]);

        if (copies[i].status != KVT_OK) {
            kvbm_pool_drop(g2, targets[i]);
            continue;
        }
        if (enter(g2, &targets[i], &label) != KVT_OK)
            continue;
        kvbm_pool_drop(g2, targets[i]);
        kvbm_pool_mark_saved(service->pool, handles[i]);
        done++;
    }
    return done;
}

bool
kvbm_attach_service_lower(struct kvbm_attach_service *service)
{
    struct kvt_handle all[KVBM_ATTACH_SERVICE_CHUNK];
    struct kvt_handle fresh[KVBM_ATTACH_SERVICE_CHUNK];
    uint32_t count = 0;
    uint32_t fresh_count = 0;
    uint32_t done;

    for (; count < service->chunk && service->lower.count > 0; count++) {
        all[count] = service->lower.handles[service->lower.head];
        service->lower.head = (service->lower.head + 1) % service->lower.capacity;
        service->lower.count--;
        if (kvbm_pool_has(service->below->g2.pool,
                          kvbm_pool_label(service->pool, all[count]).id.hash))
            kvbm_pool_mark_saved(service->pool, all[count]);
        else
            fresh[fresh_count++] = all[count];
    }
    service->lower.due -= service->lower.due < count ? service->lower.due : count;
    done = lower_all(service, fresh, fresh_count);
    service->counts[KVBM_ATTACH_STAT_present] += count - fresh_count;
    service->counts[KVBM_ATTACH_STAT_offloaded] += done;
    service->counts[KVBM_ATTACH_STAT_failed] += fresh_count - done;
    kvbm_pool_drop_all(service->pool, all, count);
    return count > 0;
}

enum kvt_err
kvbm_attach_service_allocate(struct kvbm_attach_service *service, size_t count,
                             struct kvt_handle *handles)
{
    do {
        if (kvbm_pool_allocate(service->pool, count, handles) == KVT_OK)
            return KVT_OK;
    } while (!kvbm_attach_service_stopped(service) && kvbm_attach_service_lower(service));
    return KVT_AGAIN;
}

/* ---- up ---- */

/* The result of bringing up a run of blocks. */
struct lift {
    struct kvt_handle *handles; /* of G1, for the caller */
    size_t count;               /* so many from the first on */
    bool full;                  /* G1 had no room */
    enum kvt_err why;           /* nothing came up from below G2; KVT_OK: there was nothing */
};

/* How many of `count` blocks G1 can take.  Only this thread's requests hold its blocks. */
static uint32_t
room(struct kvbm_attach_service *service, uint32_t count)
{
    for (;;) {
        const struct kvbm_pool_stats stats = kvbm_pool_stats(service->pool);

        if (stats.free + stats.inactive >= count)
            return count;
        if (kvbm_attach_service_stopped(service) || !kvbm_attach_service_lower(service))
            return stats.free + stats.inactive;
    }
}

/* Copy held blocks of G2 into G1.  Takes the handles of G2. */
static void
lift_g2(struct kvbm_attach_service *service, const struct kvt_handle *sources, uint32_t count,
        struct lift *lift)
{
    struct kvbm_pool *g2 = service->below->g2.pool;
    struct kvt_handle targets[KVBM_ATTACH_SERVICE_CHUNK];
    struct kvt_copy copies[KVBM_ATTACH_SERVICE_CHUNK];
    const uint32_t fits = room(service, count);
    bool broken = false;

    lift->full = fits < count;
    if (fits == 0 || kvbm_pool_allocate(service->pool, fits, targets) != KVT_OK) {
        kvbm_pool_drop_all(g2, sources, count);
        return;
    }
    for (uint32_t i = 0; i < fits; i++)
        copies[i] = (struct kvt_copy){sources[i].block, targets[i].block, KVT_OK};
    copy(service, service->below->g2.storage, service->memory, copies, fits);
    for (uint32_t i = 0; i < fits; i++) {
        const struct kvbm_label label = kvbm_pool_label(g2, sources[i]);

        broken = broken || copies[i].status != KVT_OK;
        if (broken) {
            kvbm_pool_drop(service->pool, targets[i]);
            continue;
        }
        broken = enter(service->pool, &targets[i], &label) != KVT_OK;
        if (broken)
            continue;
        kvbm_pool_mark_saved(service->pool, targets[i]);
        lift->handles[lift->count++] = targets[i];
    }
    service->counts[KVBM_ATTACH_STAT_onboarded] += lift->count;
    kvbm_pool_drop_all(g2, sources, count);
}

static void
from_g2(struct kvbm_attach_service *service, const uint64_t *hashes, uint32_t count,
        struct lift *lift)
{
    struct kvt_handle sources[KVBM_ATTACH_SERVICE_CHUNK];
    const size_t found = kvbm_pool_match(service->below->g2.pool, hashes, count, sources);

    if (found > 0)
        lift_g2(service, sources, (uint32_t)found, lift);
}

/* How many of the blocks, from the first on, there are below G1.  The object tier is asked once. */
static uint32_t
reach(const struct kvbm_attach_service *service, const struct kvbm_label *labels, uint32_t count)
{
    const struct kvbm_attach_service_below *below = service->below;
    bool present[KVBM_ATTACH_SERVICE_CHUNK] = {false};
    bool asked = below->has == NULL;

    for (uint32_t i = 0; i < count; i++) {
        struct kvt_block_id ids[KVBM_ATTACH_SERVICE_CHUNK];

        if (kvbm_pool_has(below->g2.pool, labels[i].id.hash) ||
            (below->g3.pool != NULL && kvbm_pool_has(below->g3.pool, labels[i].id.hash)))
            continue;
        for (uint32_t k = i; k < count && !asked; k++)
            ids[k] = labels[k].id;
        if (!asked && !below->has(below->arg, ids + i, count - i, present + i))
            return i;
        asked = true;
        if (!present[i])
            return i;
    }
    return count;
}

/* Until it is finished; told to stop, it is told so too. */
static enum kvt_err
wait_for(const struct kvbm_attach_service *service, struct kvbm_onboard *onboard)
{
    enum kvt_err rc;

    while ((rc = kvbm_onboard_wait(onboard, STOP_WAIT, NULL)) == KVT_BUSY)
        if (kvbm_attach_service_stopped(service))
            kvbm_onboard_cancel(onboard);
    return rc;
}

/* Have blocks brought into G2, and take them on to G1. */
static void
from_below(struct kvbm_attach_service *service, const struct kvbm_label *labels, uint32_t count,
           uint64_t until_ms, struct lift *lift)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    const uint32_t found = reach(service, labels, count);
    struct kvt_handle handles[KVBM_ATTACH_SERVICE_CHUNK];
    struct kvbm_onboard *onboard;
    size_t arrived;

    if (found == 0)
        return;
    lift->why = kvbm_onboard_start(&onboard, service->below->manager,
                                   &(struct kvbm_onboard_request){
                                       .labels = labels,
                                       .count = found,
                                       .target = KVT_TIER_G2,
                                       .deadline_ms = until_ms == UINT64_MAX ? 0
                                                      : until_ms > now_ms    ? until_ms - now_ms
                                                                             : 1,
                                   },
                                   NULL);
    if (lift->why != KVT_OK)
        return;
    lift->why = wait_for(service, onboard);
    arrived = kvbm_onboard_take(onboard, handles);
    kvbm_onboard_release(onboard);
    if (arrived > 0)
        lift_g2(service, handles, (uint32_t)arrived, lift);
}

/* Bring up what is next of a chunk, from G2 or else from below it. */
static enum kvt_err
raise_chunk(struct kvbm_attach_service *service, const struct kvbm_label *labels,
            const uint64_t *hashes, uint32_t count, uint64_t until_ms, struct lift *lift)
{
    from_g2(service, hashes, count, lift);
    if (lift->count == 0 && !lift->full)
        from_below(service, labels, count, until_ms, lift);
    if (lift->count > 0)
        return KVT_OK;
    if (lift->full)
        return KVT_AGAIN;
    switch (lift->why) {
    case KVT_AGAIN:
    case KVT_TIMEOUT:
    case KVT_CANCELLED: return lift->why;
    default: return KVT_NOTFOUND; /* also what cannot be read, and what is sooner computed */
    }
}

enum kvt_err
kvbm_attach_service_raise(struct kvbm_attach_service *service, const struct kvbm_label *labels,
                          size_t count, uint64_t until_ms, struct kvt_handle *handles, size_t *held)
{
    *held = 0;
    while (*held < count) {
        struct lift lift = {.handles = handles + *held};
        const size_t left = count - *held;
        const uint32_t next = left < service->chunk ? (uint32_t)left : service->chunk;
        uint64_t hashes[KVBM_ATTACH_SERVICE_CHUNK];
        enum kvt_err rc;
        size_t there;

        for (uint32_t i = 0; i < next; i++)
            hashes[i] = labels[*held + i].id.hash;
        there = kvbm_pool_match(service->pool, hashes, next, handles + *held);
        *held += there;
        if (there > 0)
            continue;
        if (kvbm_attach_service_stopped(service))
            return KVT_CANCELLED;
        if (kvt_clock_mono_ms() >= until_ms)
            return KVT_TIMEOUT;
        rc = raise_chunk(service, labels + *held, hashes, next, until_ms, &lift);
        if (rc != KVT_OK)
            return rc;
        *held += lift.count;
    }
    return KVT_OK;
}
