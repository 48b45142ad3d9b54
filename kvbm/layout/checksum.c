#include "kvbm/layout/checksum.h"

#include <isa-l/crc.h>
#include <limits.h>

#include "kvbm/layout/layout_walk.h"

/* isa-l counts in int and wants a pointer to non-const. */
uint32_t
kvbm_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    union {
        const void *in;
        unsigned char *out;
    } cast = {.in = bytes};

    crc = ~crc;
    while (size > 0) {
        const size_t part = size < INT_MAX / 2 ? size : INT_MAX / 2;

        crc = crc32_iscsi(cast.out, (int)part, crc);
        cast.out += part;
        size -= part;
    }
    return ~crc;
}

/* In (head, layer, outer, token) order, which is nobody's but every layout can be walked in. */
uint32_t
kvbm_layout_checksum(const struct kvbm_layout_memory *memory, uint32_t block)
{
    const struct kvbm_layout *layout = memory->layout;
    const bool layered = kvbm_layout_parts(layout) > 1;
    const uint32_t page = layout->geometry.page_size;
    /* Tokens of a head that lie together are taken at once. */
    const uint32_t together = layout->step.token == layout->row ? page : 1;
    uint32_t crc = 0;

    for (uint32_t head = 0; head < layout->heads; head++)
        for (uint32_t layer = 0; layer < layout->geometry.layers; layer++)
            for (uint32_t outer = 0; outer < layout->geometry.outer; outer++)
                for (uint32_t token = 0; token < page; token += together) {
                    const uint64_t at = memory->parts[layered ? layer : 0] +
                                        kvbm_layout_offset(layout, block, layer, outer) +
                                        head * layout->step.head + token * layout->step.token;

                    crc = kvbm_crc32c(crc, (const void *)(uintptr_t)at, together * layout->row);
                }
    return crc;
}
