#include "kvbm/inactive.h"

#include <assert.h>
#include <string.h>

static const struct kvbm_inactive_calls *
calls_of(const struct kvbm_inactive_options *options)
{
    switch (options->order) {
    case KVT_POOL_ORDER_LRU:
    case KVT_POOL_ORDER_PRIORITY: return &kvbm_inactive_list;
    case KVT_POOL_ORDER_LINEAGE: return &kvbm_inactive_lineage;
    case KVT_POOL_ORDER_ORDERING:
        if (options->ordering != NULL && options->ordering->abi == KVT_ORDERING_ABI &&
            options->ordering->size == sizeof(struct kvt_ordering))
            return &kvbm_inactive_ordering;
        break;
    }
    return NULL;
}

enum kvt_err
kvbm_inactive_init(struct kvbm_inactive *inactive, const struct kvbm_inactive_options *options)
{
    const struct kvbm_inactive_calls *calls = calls_of(options);

    memset(inactive, 0, sizeof(*inactive));
    if (calls == NULL)
        return KVT_INVALID;
    inactive->calls = calls;
    return calls->init(&inactive->state, options);
}

void
kvbm_inactive_release(struct kvbm_inactive *inactive)
{
    if (inactive->calls != NULL)
        inactive->calls->free(inactive->state);
    memset(inactive, 0, sizeof(*inactive));
}
