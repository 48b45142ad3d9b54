#include "policy/ordering/tick_stamp.h"

#include <stddef.h>
#include <string.h>

#include "base/core/alloc.h"

enum kvt_err
policy_tick_stamp_reserve(uint32_t **stamps, uint32_t known, uint32_t count)
{
    uint32_t *grown;

    if (count <= known)
        return KVT_OK;
    grown = kvt_realloc(*stamps, count, sizeof(*grown));
    if (grown == NULL)
        return KVT_NOMEM;
    memset(grown + known, 0, (size_t)(count - known) * sizeof(*grown));
    *stamps = grown;
    return KVT_OK;
}
