#include "kvbm/pool/block_names.h"

#include <string.h>

#include "base/core/alloc.h"

enum kvt_err
kvbm_block_names_init(struct kvbm_block_names *names, uint32_t capacity)
{
    uint32_t size = 8;

    assert(capacity > 0 && capacity <= UINT32_C(1) << 29); /* four buckets each in 32 bits */
    memset(names, 0, sizeof(*names));
    while (size / 4 < capacity)
        size *= 2;
    names->first = kvt_calloc(size, sizeof(*names->first));
    names->names = kvt_calloc(capacity, sizeof(*names->names));
    if (names->first == NULL || names->names == NULL) {
        kvbm_block_names_release(names);
        return KVT_NOMEM;
    }
    for (uint32_t i = 0; i < size; i++)
        names->first[i] = KVBM_BLOCK_NAMES_NONE;
    names->mask = size - 1;
    names->capacity = capacity;
    return KVT_OK;
}

void
kvbm_block_names_release(struct kvbm_block_names *names)
{
    kvt_free(names->first);
    kvt_free(names->names);
    memset(names, 0, sizeof(*names));
}
