/* Jobs that a ticket carries: transfers between tiers, requests to volumes.  And what is stored
 * from a tier that is no memory: a thread reads a few blocks into memory, and waits for them. */
#include <assert.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "engine/rank/rank_internal.h"

static bool
is_copy(const struct rank_job *made)
{
    return made->job->verb == ENGINE_COPY;
}

static void
copied(void *arg)
{
    struct rank_job *made = arg;

    for (size_t i = 0; i < made->job->count; i++)
        made->job->items[i].status = engine_rank_status(made, made->copies[i].status);
    engine_rank_carried(made);
}

static void
answered(void *arg)
{
    struct rank_job *made = arg;

    for (size_t i = 0; i < made->job->count; i++)
        made->job->items[i].status = engine_rank_status(made, made->items[i].status);
    engine_rank_carried(made);
}

enum kvt_err
engine_rank_prepare(struct rank_job *made)
{
    const struct engine_job *job = made->job;

    if (is_copy(made)) {
        made->copies = kvt_calloc(job->count, sizeof(*made->copies));
        if (made->copies == NULL)
            return KVT_NOMEM;
        for (size_t i = 0; i < job->count; i++)
            made->copies[i] = (struct kvt_copy){job->items[i].source, job->items[i].target, KVT_IO};
        return KVT_OK;
    }
    made->items = kvt_calloc(job->count, sizeof(*made->items));
    if (made->items == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < job->count; i++) {
        const struct engine_item *item = &job->items[i];
        struct kvt_volume_item *asked = &made->items[i];

        *asked = (struct kvt_volume_item){.id = item->label.id, .status = KVT_IO};
        if (job->verb == ENGINE_ASK)
            continue;
        asked->size = made->rank->options.layout.block_size;
        asked->bytes = job->verb == ENGINE_LOAD
                           ? engine_rank_address(made->rank, job->to, item->target)
                           : engine_rank_address(made->rank, job->from, item->source);
        if (asked->bytes == NULL)
            return KVT_UNSUPPORTED;
    }
    return KVT_OK;
}

static const struct kvbm_layout *
layout_of(const struct engine_rank *rank, enum kvt_tier tier)
{
    const struct kvbm_layout *layout = rank->options.tiers[tier].layout;

    return layout == NULL ? &rank->options.layout : layout;
}

/* Whole blocks of one shape go as they are; else layouts say what lies where. */
static enum kvt_err
copy(struct rank_job *made, struct kvt_ticket **ticket)
{
    const struct engine_rank *rank = made->rank;
    const struct engine_job *job = made->job;
    const struct kvbm_layout *from = layout_of(rank, job->from);
    const struct kvbm_layout *to = layout_of(rank, job->to);
    struct kvbm_transfer_request request = {
        .source = rank->options.tiers[job->from].storage,
        .target = rank->options.tiers[job->to].storage,
        .copies = made->copies,
        .count = job->count,
        .priority = job->priority,
        .done = copied,
        .arg = made,
    };

    request.path = kvbm_path_between(request.source, request.target);
    if (job->layers != 0 || request.source->block_size != request.target->block_size ||
        kvbm_layout_compatible(to, from, NULL) != KVT_OK) {
        request.source_layout = from;
        request.target_layout = to;
        request.layer = job->layer;
        request.layers = job->layers == 0 ? from->geometry.layers : job->layers;
    }
    return kvbm_transfer_start(rank->options.transfer, &request, ticket);
}

static enum kvt_err
ask(struct rank_job *made, struct kvt_ticket **ticket)
{
    const struct engine_rank *rank = made->rank;
    const struct engine_job *job = made->job;
    const bool put = job->verb == ENGINE_STORE;
    const struct kvbm_volume_request request = {
        .volume = put ? rank->options.volume_put : rank->options.volume_get,
        .verb = put                       ? KVT_VOLUME_PUT
                : job->verb == ENGINE_ASK ? KVT_VOLUME_HAS
                                          : KVT_VOLUME_GET,
        .items = made->items,
        .count = job->count,
        .done = answered,
        .arg = made,
    };
    const enum kvt_err rc = kvbm_volumes_start(rank->options.volumes, &request, 0, ticket);

    return rc == KVT_NOTFOUND ? KVT_UNAVAILABLE : rc; /* it is not there just now */
}

enum kvt_err
engine_rank_carry(struct rank_job *made, struct kvt_ticket **ticket)
{
    engine_rank_hide_targets(made->rank, made->job);
    return is_copy(made) ? copy(made, ticket) : ask(made, ticket);
}

/* STORE from a disk ------------------------------------------------------------------------- */

bool
engine_rank_lifts(const struct engine_rank *rank, const struct engine_job *job)
{
    const struct engine_rank_tier *at = &rank->options.tiers[job->from];

    return job->verb == ENGINE_STORE &&
           kvbm_storage_address(at->storage, job->items[0].source) == NULL &&
           (at->layout == NULL ||
            kvbm_layout_compatible(&rank->options.layout, at->layout, NULL) == KVT_OK);
}

/* Blocks [first, first + count) of a job, by way of `bounce`, which has room for them. */
static void
lift(struct rank_job *made, size_t first, size_t count, uint8_t *bounce)
{
    const struct engine_rank *rank = made->rank;
    struct engine_item *items = made->job->items + first;
    struct kvbm_storage *storage = rank->options.tiers[made->job->from].storage;
    struct kvbm_storage_io ios[KVT_VOLUME_SLICE];
    struct kvt_volume_item put[KVT_VOLUME_SLICE];
    size_t owner[KVT_VOLUME_SLICE];
    struct kvbm_volume_request request = {
        .volume = rank->options.volume_put, .verb = KVT_VOLUME_PUT, .items = put};
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < count; i++)
        ios[i] = (struct kvbm_storage_io){.host = bounce + i * storage->block_size,
                                          .block = items[i].source};
    kvbm_storage_read(storage, ios, count);
    for (size_t i = 0; i < count; i++) {
        items[i].status = ios[i].status;
        if (ios[i].status != KVT_OK)
            continue;
        put[request.count] = (struct kvt_volume_item){.id = items[i].label.id,
                                                      .bytes = ios[i].host,
                                                      .size = rank->options.layout.block_size,
                                                      .status = KVT_IO};
        owner[request.count++] = i;
    }
    if (request.count > 0)
        rc = kvbm_volumes_run(rank->options.volumes, &request);
    for (size_t i = 0; i < request.count; i++)
        items[owner[i]].status =
            rc == KVT_NOTFOUND && put[i].status == KVT_IO ? KVT_UNAVAILABLE : put[i].status;
}

void
engine_rank_lift(struct rank_job *made)
{
    const struct engine_rank *rank = made->rank;
    struct engine_job *job = made->job;
    const size_t size = rank->options.tiers[job->from].storage->block_size;
    size_t room = ENGINE_RANK_BOUNCE / size;
    uint8_t *bounce;

    if (room == 0)
        room = 1;
    if (room > KVT_VOLUME_SLICE)
        room = KVT_VOLUME_SLICE;
    if (room > job->count)
        room = job->count;
    bounce = kvt_aligned(KVBM_STORAGE_ALIGN, room * size);
    if (bounce == NULL) {
        engine_job_fail(job, KVT_NOMEM);
        return;
    }
    for (size_t first = 0; first < job->count; first += room) {
        const size_t left = job->count - first;

        if (!atomic_load(&made->stop) && kvt_clock_mono_ns() < made->end_ns) {
            lift(made, first, left < room ? left : room, bounce);
            continue;
        }
        for (size_t i = first; i < job->count; i++)
            job->items[i].status =
                atomic_load(&made->stop) ? engine_rank_status(made, KVT_CANCELLED) : KVT_TIMEOUT;
        break;
    }
    kvt_free(bounce);
}
