#include "engine/memory/blockset_shape.h"

#include <assert.h>
#include <string.h>

#include "kvbm/layout/checksum.h"
#include "kvbm/storage/tier_storage.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "entries are read as they lie there");
_Static_assert(sizeof(struct engine_blockset_entry) == 32, "no padding that others would not see");

static size_t
round_up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

size_t
engine_blockset_cell(const struct kvbm_layout *layout)
{
    const size_t layer = layout->block_size / layout->geometry.layers;

    return layout->geometry.kind == KVT_LAYOUT_UNIVERSAL ? layer / layout->heads : layer;
}

/* The fewest layers that make GRAIN_MIN bytes and divide all. */
static uint32_t
grain_layers(const struct kvbm_layout *layout)
{
    const uint32_t layers = layout->geometry.layers;
    const size_t cell = engine_blockset_cell(layout);
    uint32_t together = 1;

    while (together < layers &&
           (layers % together != 0 || together * cell < ENGINE_BLOCKSET_GRAIN_MIN))
        together++;
    return together;
}

enum kvt_err
engine_blockset_shape(struct engine_blockset_shape *shape, const struct kvbm_layout *layout,
                      uint32_t blocks, struct kvt_error *err)
{
    enum kvt_err rc;

    memset(shape, 0, sizeof(*shape));
    if (layout->geometry.kind == KVT_LAYOUT_LAYERED)
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "block set: a layered layout; its packed blocks are contiguous ones");
    shape->layout = *layout;
    shape->blocks = blocks;
    shape->grain_layers = grain_layers(layout);
    shape->grain = shape->grain_layers * engine_blockset_cell(layout);
    shape->grains = (uint32_t)(layout->block_size / shape->grain);
    shape->block_size = round_up(layout->block_size, KVBM_STORAGE_ALIGN);
    rc = kvbm_storage_check(blocks, shape->block_size, err);
    if (rc != KVT_OK)
        return rc;
    shape->entry_size =
        round_up(sizeof(struct engine_blockset_entry) + shape->grains * sizeof(uint32_t), 64);
    shape->data = round_up(ENGINE_BLOCKSET_TABLE + blocks * shape->entry_size, KVBM_STORAGE_ALIGN);
    shape->size = shape->data + blocks * shape->block_size;
    return KVT_OK;
}

size_t
engine_blockset_entry_at(const struct engine_blockset_shape *shape, uint32_t block)
{
    assert(block < shape->blocks);
    return ENGINE_BLOCKSET_TABLE + block * shape->entry_size;
}

size_t
engine_blockset_data_at(const struct engine_blockset_shape *shape, uint32_t block)
{
    assert(block < shape->blocks);
    return shape->data + block * shape->block_size;
}

uint32_t
engine_blockset_sums(const struct engine_blockset_shape *shape, const void *bytes, uint32_t *grains)
{
    const uint8_t *at = bytes;

    for (uint32_t i = 0; i < shape->grains; i++)
        grains[i] = kvbm_crc32c(0, at + i * shape->grain, shape->grain);
    return kvbm_crc32c(0, grains, shape->grains * sizeof(uint32_t));
}
