#include "worker/object/gateway_volume.h"

#include <assert.h>

#include "base/core/alloc.h"

struct gateway {
    struct kvbm_volume head;
    struct worker_object_tier *remote;
};

static struct worker_object_tier *
remote_of(struct kvbm_volume *volume)
{
    return ((struct gateway *)volume)->remote;
}

static void
get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    worker_object_tier_get(remote_of(volume), items, count);
}

static void
put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    worker_object_tier_put(remote_of(volume), items, count);
}

static void
has(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct kvt_block_id ids[KVT_VOLUME_SLICE] = {{0}};
    bool present[KVT_VOLUME_SLICE];
    bool answered;

    assert(count > 0 && count <= KVT_VOLUME_SLICE);
    for (size_t i = 0; i < count; i++)
        ids[i] = items[i].id;
    answered = worker_object_tier_has(remote_of(volume), ids, count, present);
    for (size_t i = 0; i < count; i++)
        items[i].status = !answered ? KVT_UNAVAILABLE : present[i] ? KVT_OK : KVT_NOTFOUND;
}

static void
close_gateway(struct kvbm_volume *volume)
{
    kvt_free(volume);
}

static const struct kvbm_volume_driver driver = {
    .kind = "gateway", .get = get, .put = put, .has = has, .close = close_gateway};

static enum kvt_err
open_volume(struct kvbm_volume **out, struct worker_object_tier *remote, size_t block_size,
            struct kvt_error *err)
{
    struct gateway *gateway = kvt_calloc(1, sizeof(*gateway));

    *out = NULL;
    if (gateway == NULL)
        return kvt_error_set(err, KVT_NOMEM, "volume: out of memory");
    gateway->head = (struct kvbm_volume){.driver = &driver, .block_size = block_size};
    gateway->remote = remote;
    *out = &gateway->head;
    return KVT_OK;
}

static enum kvt_err
add_volume(struct kvbm_volumes *set, uint64_t number, struct worker_object_tier *remote,
           size_t block_size, size_t queue_max, struct kvt_error *err)
{
    struct kvbm_volume *volume;
    enum kvt_err rc = open_volume(&volume, remote, block_size, err);

    if (rc != KVT_OK)
        return rc;
    rc = kvbm_volumes_register(set, number, volume, queue_max, err);
    if (rc != KVT_OK)
        kvbm_volume_close(volume);
    return rc;
}

enum kvt_err
worker_gateway_volumes(struct kvbm_volumes **out, struct worker_object_tier *remote,
                       size_t block_size, size_t queue_max, struct kvt_error *err)
{
    enum kvt_err rc = kvbm_volumes_new(out, err);

    if (rc != KVT_OK)
        return rc;
    rc = add_volume(*out, WORKER_GATEWAY_VOLUME_DOWN, remote, block_size, queue_max, err);
    if (rc == KVT_OK)
        rc = add_volume(*out, WORKER_GATEWAY_VOLUME_UP, remote, block_size, queue_max, err);
    if (rc != KVT_OK) {
        kvbm_volumes_free(*out);
        *out = NULL;
    }
    return rc;
}
