#include "tests/unit/engine/support/content.h"

#include <string.h>

#include "base/core/random.h"

typedef bool row_fn(uint8_t *row, size_t size, uint64_t seed);

static bool
write_row(uint8_t *row, size_t size, uint64_t seed)
{
    for (size_t at = 0; at < size; at += 8) {
        const uint64_t word = kvt_random_next(&seed);

        for (size_t k = 0; k < 8 && at + k < size; k++)
            row[at + k] = (uint8_t)(word >> (8 * k));
    }
    return true;
}

static bool
check_row(uint8_t *row, size_t size, uint64_t seed)
{
    for (size_t at = 0; at < size; at += 8) {
        const uint64_t word = kvt_random_next(&seed);

        for (size_t k = 0; k < 8 && at + k < size; k++)
            if (row[at + k] != (uint8_t)(word >> (8 * k)))
                return false;
    }
    return true;
}

/* Every row (one token's one head) of these layers, until one says no. */
static bool
each_row(const struct kvbm_layout *layout, uint8_t *block, uint64_t number, uint32_t first,
         uint32_t layers, row_fn *row)
{
    const struct kvt_geometry *shape = &layout->geometry;

    for (uint32_t layer = first; layer < first + layers; layer++)
        for (uint32_t outer = 0; outer < shape->outer; outer++)
            for (uint32_t head = 0; head < layout->heads; head++)
                for (uint32_t token = 0; token < shape->page_size; token++) {
                    const uint64_t of_model = (uint64_t)shape->tp_rank * layout->heads + head;
                    uint64_t seed = number * 0x9E3779B97F4A7C15u + layer;

                    seed = kvt_random_next(&seed) + outer;
                    seed = kvt_random_next(&seed) + of_model;
                    seed = kvt_random_next(&seed) + token;
                    if (!row(block + kvbm_layout_packed_offset(layout, layer, outer) +
                                 head * layout->step.head + token * layout->step.token,
                             layout->row, seed))
                        return false;
                }
    return true;
}

void
content_fill_layers(const struct kvbm_layout *layout, void *block, uint64_t number, uint32_t layer,
                    uint32_t layers)
{
    (void)each_row(layout, block, number, layer, layers, write_row);
}

bool
content_is_layers(const struct kvbm_layout *layout, const void *block, uint64_t number,
                  uint32_t layer, uint32_t layers)
{
    return each_row(layout, (uint8_t *)(uintptr_t)block, number, layer, layers, check_row);
}

void
content_fill(const struct kvbm_layout *layout, void *block, uint64_t number)
{
    content_fill_layers(layout, block, number, 0, layout->geometry.layers);
}

bool
content_is(const struct kvbm_layout *layout, const void *block, uint64_t number)
{
    return content_is_layers(layout, block, number, 0, layout->geometry.layers);
}
