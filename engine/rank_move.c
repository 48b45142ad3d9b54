/* Jobs that a ticket carries: transfers between tiers, requests to volumes. */
#include <assert.h>

#include "base/alloc.h"

#include "engine/rank_internal.h"

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
