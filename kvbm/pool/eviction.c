#include "kvbm/pool/eviction.h"

#include <assert.h>
#include <string.h>

/* Compiled against this header, and with every call that we make. */
static bool
is_usable(const struct kvt_ordering *ordering)
{
    return ordering != NULL && ordering->abi == KVT_ORDERING_ABI &&
           ordering->size == sizeof(struct kvt_ordering) &&
           ordering->use_size == sizeof(struct kvt_ordering_use) &&
           ordering->options_size == sizeof(struct kvt_ordering_options) &&
           ordering->init != NULL && ordering->reserve != NULL && ordering->touch != NULL &&
           ordering->enter != NULL && ordering->victim != NULL && ordering->give_back != NULL &&
           ordering->leave != NULL && ordering->forget != NULL && ordering->free != NULL;
}

static const struct kvbm_eviction_calls *
calls_of(const struct kvbm_eviction_options *options)
{
    switch (options->order) {
    case KVT_POOL_ORDER_LRU:
    case KVT_POOL_ORDER_PRIORITY: return &kvbm_eviction_lru;
    case KVT_POOL_ORDER_LINEAGE: return &kvbm_eviction_lineage;
    case KVT_POOL_ORDER_ORDERING:
        if (is_usable(options->ordering))
            return &kvbm_eviction_ordering;
        break;
    }
    return NULL;
}

enum kvt_err
kvbm_eviction_init(struct kvbm_eviction *inactive, const struct kvbm_eviction_options *options)
{
    const struct kvbm_eviction_calls *calls = calls_of(options);

    memset(inactive, 0, sizeof(*inactive));
    if (calls == NULL)
        return KVT_INVALID;
    inactive->calls = calls;
    return calls->init(&inactive->state, options);
}

void
kvbm_eviction_release(struct kvbm_eviction *inactive)
{
    if (inactive->calls != NULL)
        inactive->calls->free(inactive->state);
    memset(inactive, 0, sizeof(*inactive));
}
