/* kvtier/offload.h over kvbm/offload/manager.h. */
#include "kvtier/offload.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/offload/manager.h"
#include "kvbm/public/public_handle.h"

enum { QUEUE = 256, RETRY = 500, BLOCK_TOKENS = 16, HIGH = 900000, BAND = 150000 };

/* A filter in the words of the caller's. */
struct filter {
    kvt_offload_filter_fn *call;
    void *arg;
};

struct kvt_offload {
    struct kvbm_manager *manager;
    struct kvbm_cost cost;
    bool costs; /* `cost` was made */
    struct filter filters[KVT_TIER_G4];
};

struct kvt_onboard {
    struct kvbm_onboard *onboard;
};

static bool
ask_filter(void *arg, enum kvt_tier from, const struct kvbm_label *label, uint32_t priority)
{
    const struct filter *filter = arg;
    const struct kvt_block_info info = kvbm_public_info(label);

    return filter->call(filter->arg, from, &info, priority);
}

static enum kvt_err
read_tier(struct kvt_offload *offload, struct kvbm_manager_options *options, enum kvt_tier tier,
          const struct kvt_offload_tier *from, struct kvt_error *err)
{
    struct kvt_offload_tier known;

    if (from == NULL)
        return KVT_OK;
    if (!kvbm_public_read(&known, sizeof(known), from))
        return kvt_error_set(err, KVT_UNSUPPORTED, "offload: a tier of a newer library");
    if (known.pool == NULL || known.storage == NULL)
        return kvt_error_set(err, KVT_INVALID, "offload: %s needs a pool and a storage",
                             kvt_tier_name(tier));
    if (known.high_ppm == 0)
        known.high_ppm = HIGH;
    if (known.low_ppm == 0 && known.high_ppm > BAND)
        known.low_ppm = known.high_ppm - BAND;
    offload->filters[tier] = (struct filter){known.filter, known.filter_arg};
    options->tiers[tier] = (struct kvbm_manager_tier){
        .pool = known.pool->pool,
        .storage = known.storage->storage,
        .high_ppm = known.high_ppm,
        .low_ppm = known.low_ppm,
        .idle_iterations = known.idle_iterations,
        .min_priority = known.min_priority,
        .position_from = known.position_from,
        .position_to = known.position_to,
        .filter = known.filter != NULL ? ask_filter : NULL,
        .filter_arg = &offload->filters[tier],
    };
    return KVT_OK;
}

static enum kvt_err
open_cost(struct kvt_offload *offload, struct kvbm_manager_options *options,
          const struct kvt_offload_options *known, struct kvt_error *err)
{
    struct kvbm_cost_options cost = {
        .prefill_rate = (double)known->prefill_rate,
        .block_tokens = known->block_tokens == 0 ? BLOCK_TOKENS : known->block_tokens,
    };

    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        if (options->tiers[tier].storage != NULL)
            cost.block_bytes = options->tiers[tier].storage->block_size;
    if (cost.block_bytes == 0)
        return KVT_OK; /* no tiers: refused by the manager, in words */
    if (kvbm_cost_init(&offload->cost, &cost) != KVT_OK)
        return kvt_error_set(err, KVT_NOMEM, "offload");
    offload->costs = true;
    options->cost = &offload->cost;
    return KVT_OK;
}

enum kvt_err
kvt_offload_new(struct kvt_offload **out, const struct kvt_offload_options *options,
                struct kvt_error *err)
{
    struct kvt_offload_options known;
    struct kvbm_manager_options ours;
    struct kvt_offload *offload;
    enum kvt_err rc;

    assert(out != NULL && options != NULL);
    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), options))
        return kvt_error_set(err, KVT_UNSUPPORTED, "offload: options of a newer library");
    offload = kvt_calloc(1, sizeof(*offload));
    if (offload == NULL)
        return kvt_error_set(err, KVT_NOMEM, "offload");
    ours = (struct kvbm_manager_options){
        .volumes = known.volumes == NULL ? NULL : known.volumes->set,
        .volume = known.volume,
        .transfer = known.transfer == NULL ? NULL : known.transfer->transfer,
        .queue_max = known.queue_max == 0 ? QUEUE : known.queue_max,
        .room_wait_ms = known.room_wait_ms,
        .retry_ms = known.retry_ms == 0 ? RETRY : known.retry_ms,
        .iteration_ms = known.iteration_ms,
    };
    rc = read_tier(offload, &ours, KVT_TIER_G1, known.g1, err);
    if (rc == KVT_OK)
        rc = read_tier(offload, &ours, KVT_TIER_G2, known.g2, err);
    if (rc == KVT_OK)
        rc = read_tier(offload, &ours, KVT_TIER_G3, known.g3, err);
    if (rc == KVT_OK)
        rc = open_cost(offload, &ours, &known, err);
    if (rc == KVT_OK)
        rc = kvbm_manager_new(&offload->manager, &ours, err);
    if (rc != KVT_OK) {
        kvt_offload_free(offload);
        return rc;
    }
    *out = offload;
    return KVT_OK;
}

void
kvt_offload_free(struct kvt_offload *offload)
{
    if (offload == NULL)
        return;
    kvbm_manager_free(offload->manager);
    if (offload->costs)
        kvbm_cost_release(&offload->cost);
    kvt_free(offload);
}

void
kvt_offload_step(struct kvt_offload *offload)
{
    kvbm_manager_step(offload->manager);
}

enum kvt_err
kvt_offload_push(struct kvt_offload *offload, struct kvt_shared shared, uint64_t wait_ms)
{
    return kvbm_manager_push(offload->manager, shared.handle, wait_ms);
}

void
kvt_offload_make_room(struct kvt_offload *offload, enum kvt_tier tier, uint32_t count,
                      uint64_t wait_ms)
{
    if (tier >= KVT_TIER_G1 && tier < KVT_TIER_G4)
        kvbm_manager_make_room(offload->manager, tier, count, wait_ms);
}

bool
kvt_offload_drain(struct kvt_offload *offload, uint64_t wait_ms)
{
    return kvbm_manager_drain(offload->manager, wait_ms);
}

enum kvt_err
kvt_offload_stats(struct kvt_offload *offload, enum kvt_tier from, struct kvt_offload_stats *stats)
{
    struct kvt_offload_stats ours;
    const bool there = kvbm_manager_stats(offload->manager, from, &ours);

    kvbm_public_write(stats, &ours, sizeof(ours));
    return there ? KVT_OK : KVT_NOTFOUND;
}

/* ---- up ---- */

/* The caller's names, which lie as far apart as their size says. */
static enum kvt_err
read_labels(struct kvbm_label *labels, const struct kvt_onboard_request *request,
            struct kvt_error *err)
{
    const uint8_t *at = (const uint8_t *)request->blocks;
    const size_t stride = request->blocks->size;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < request->count && rc == KVT_OK; i++, at += stride) {
        const struct kvt_block_info *info = (const struct kvt_block_info *)(const void *)at;

        if (info->size != stride)
            rc = kvt_error_set(err, KVT_INVALID, "onboard: names of two sizes");
        else
            rc = kvbm_public_label(&labels[i], info, err);
    }
    return rc;
}

static enum kvt_err
start(struct kvt_onboard *onboard, struct kvt_offload *offload,
      const struct kvt_onboard_request *request, struct kvt_error *err)
{
    struct kvbm_label *labels = kvt_calloc(request->count, sizeof(*labels));
    enum kvt_err rc;

    if (labels == NULL)
        return kvt_error_set(err, KVT_NOMEM, "onboard");
    rc = read_labels(labels, request, err);
    if (rc == KVT_OK)
        rc = kvbm_onboard_start(&onboard->onboard, offload->manager,
                                &(struct kvbm_onboard_request){
                                    .labels = labels,
                                    .count = request->count,
                                    .target = request->target,
                                    .prefetch = request->prefetch,
                                    .deadline_ms = request->deadline_ms,
                                    .done = request->done,
                                    .arg = request->arg,
                                },
                                err);
    kvt_free(labels);
    return rc;
}

enum kvt_err
kvt_onboard_start(struct kvt_onboard **out, struct kvt_offload *offload,
                  const struct kvt_onboard_request *request, struct kvt_error *err)
{
    struct kvt_onboard_request known;
    struct kvt_onboard *onboard;
    enum kvt_err rc;

    assert(out != NULL && request != NULL);
    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), request))
        return kvt_error_set(err, KVT_UNSUPPORTED, "onboard: a request of a newer library");
    if (known.count == 0 || known.count > KVT_ONBOARD_BLOCKS || known.blocks == NULL)
        return kvt_error_set(err, KVT_INVALID, "onboard: %zu blocks, not 1 to %d", known.count,
                             KVT_ONBOARD_BLOCKS);
    onboard = kvt_calloc(1, sizeof(*onboard));
    if (onboard == NULL)
        return kvt_error_set(err, KVT_NOMEM, "onboard");
    rc = start(onboard, offload, &known, err);
    if (rc != KVT_OK) {
        kvt_free(onboard);
        return rc;
    }
    *out = onboard;
    return KVT_OK;
}

enum kvt_err
kvt_onboard_wait(struct kvt_onboard *onboard, uint64_t wait_ms, struct kvt_onboard_result *result)
{
    struct kvt_onboard_result ours;
    const enum kvt_err rc = kvbm_onboard_wait(onboard->onboard, wait_ms, &ours);

    if (result != NULL && rc != KVT_BUSY)
        kvbm_public_write(result, &ours, sizeof(ours));
    return rc;
}

size_t
kvt_onboard_take(struct kvt_onboard *onboard, struct kvt_shared *handles)
{
    return kvbm_onboard_take(onboard->onboard, (struct kvt_handle *)handles);
}

void
kvt_onboard_cancel(struct kvt_onboard *onboard)
{
    kvbm_onboard_cancel(onboard->onboard);
}

void
kvt_onboard_release(struct kvt_onboard *onboard)
{
    if (onboard == NULL)
        return;
    kvbm_onboard_release(onboard->onboard);
    kvt_free(onboard);
}

void
kvt_onboard_stats(struct kvt_offload *offload, bool prefetch, struct kvt_onboard_stats *stats)
{
    struct kvt_onboard_stats ours;

    kvbm_manager_onboard_stats(offload->manager, prefetch, &ours);
    kvbm_public_write(stats, &ours, sizeof(ours));
}
