#include "tests/unit/engine/support/block_bytes.h"

#include <string.h>

#include "base/core/random.h"

#include "tests/support/seed.h"

struct kvbm_layout
blocks_layout(uint32_t tp_size, uint32_t tp_rank, uint32_t heads)
{
    const struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_UNIVERSAL,
        .layers = BLOCKS_LAYERS,
        .outer = 2,
        .page_size = 16,
        .inner_dim = 32 * heads,
        .dtype_bytes = 2,
        .alignment = 64,
        .tp_size = tp_size,
        .tp_rank = tp_rank,
        .heads = heads,
    };
    struct kvbm_layout layout;
    struct kvt_error err;

    if (kvbm_layout_make(&layout, &geometry, &err) != KVT_OK)
        fail_msg("%s", err.text);
    return layout;
}

void
blocks_write(void *bytes, size_t size, uint64_t hash)
{
    uint64_t *words = bytes;

    for (size_t i = 0; i < size / sizeof(*words); i++)
        words[i] = kvt_random_next(&hash);
}

bool
blocks_are(const void *bytes, size_t size, uint64_t hash)
{
    const uint64_t *words = bytes;

    for (size_t i = 0; i < size / sizeof(*words); i++)
        if (words[i] != kvt_random_next(&hash))
            return false;
    return true;
}
