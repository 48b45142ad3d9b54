#include "worker/replay/attached_engines.h"

#include <assert.h>

#include "base/core/alloc.h"

static_assert(KVBM_LEDGER_ENGINES == KVBM_ATTACH_ENGINES_MAX, "a place for every engine");

struct kvbm_engines {
    struct kvbm_desk_below below;
    struct kvbm_attach *attach;
};

static bool
has(void *arg, const struct kvt_block_id *ids, size_t count, bool *present)
{
    return kvbm_remote_has(arg, ids, count, present);
}

enum kvt_err
kvbm_engines_open(struct kvbm_engines **out, struct kvbm_stack *stack, struct kvt_error *err)
{
    const struct kvbm_shared *shared = stack->shared;
    const struct kvbm_settings *settings = shared->settings;
    struct kvbm_attach_options options = {
        .path = settings->attach_socket,
        .engines_max = settings->attach_engines,
        .blocks_max = settings->attach_blocks,
        .layout = &settings->layout,
        .on_store = kvbm_ledger_on_store,
        .on_remove = kvbm_ledger_on_remove,
        .watch = kvbm_ledger_watch,
    };
    struct kvbm_engines *engines = kvt_calloc(1, sizeof(*engines));
    enum kvt_err rc;

    *out = NULL;
    if (engines == NULL)
        return kvt_error_set(err, KVT_NOMEM, "attach.socket");
    engines->below = (struct kvbm_desk_below){
        .g2 = stack->g2,
        .g3 = stack->g3,
        .order = shared->order.order,
        .ordering = shared->order.ordering,
        .ordering_options = kvbm_order_options,
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
kvbm_engines_close(struct kvbm_engines *engines)
{
    if (engines == NULL)
        return;
    kvbm_attach_close(engines->attach);
    kvt_free(engines);
}

void
kvbm_engines_stats(struct kvbm_engines *engines, struct kvbm_attach_stats *stats)
{
    kvbm_attach_stats(engines->attach, stats);
}
