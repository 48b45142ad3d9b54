#include "worker/replay/attached_engines.h"

#include <assert.h>

#include "base/core/alloc.h"

static_assert(WORKER_LEDGER_ENGINES == KVBM_ATTACH_ENGINES_MAX, "a place for every engine");

struct worker_engines {
    struct kvbm_attach_service_below below;
    struct kvbm_attach *attach;
};

static bool
has(void *arg, const struct kvt_block_id *ids, size_t count, bool *present)
{
    return worker_object_tier_has(arg, ids, count, present);
}

enum kvt_err
worker_engines_open(struct worker_engines **out, struct worker_stack *stack, struct kvt_error *err)
{
    const struct worker_shared *shared = stack->shared;
    const struct worker_settings *settings = shared->settings;
    struct kvbm_attach_options options = {
        .path = settings->attach_socket,
        .engines_max = settings->attach_engines,
        .blocks_max = settings->attach_blocks,
        .layout = &settings->layout,
        .on_store = worker_ledger_on_store,
        .on_remove = worker_ledger_on_remove,
        .watch = worker_ledger_watch,
    };
    struct worker_engines *engines = kvt_calloc(1, sizeof(*engines));
    enum kvt_err rc;

    *out = NULL;
    if (engines == NULL)
        return kvt_error_set(err, KVT_NOMEM, "attach.socket");
    engines->below = (struct kvbm_attach_service_below){
        .g2 = stack->g2,
        .g3 = stack->g3,
        .order = shared->order.order,
        .ordering = shared->order.ordering,
        .ordering_options = worker_pool_order_options,
        .transfer = shared->transfer,
        .manager = stack->manager,
        .room_wait_ms = settings->room_wait_ms,
        .has = shared->remote != NULL ? has : NULL,
        .arg = shared->remote,
    };
    options.below = &engines->below;
    for (uint32_t i = 0; i < settings->attach_engines; i++)
        options.args[i] = &stack->ledger.engines[i];
    rc = kvbm_attach_open(&engines->attach, &options, err);
    if (rc != KVT_OK) {
        kvt_free(engines);
        return rc;
    }
    *out = engines;
    return KVT_OK;
}

void
worker_engines_close(struct worker_engines *engines)
{
    if (engines == NULL)
        return;
    kvbm_attach_close(engines->attach);
    kvt_free(engines);
}

void
worker_engines_stats(struct worker_engines *engines, struct kvbm_attach_stats *stats)
{
    kvbm_attach_stats(engines->attach, stats);
}
