/* What a geometry means in bytes.  No library is needed here, so that a machine with nothing but a
 * GPU can build it. */
#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "kvbm/layout/block_layout.h"
#include "kvtier/block.h"

static bool
power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static uint64_t
align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

static enum kvt_err
check_heads(const struct kvt_geometry *geometry, struct kvt_error *err)
{
    const bool universal = geometry->kind == KVT_LAYOUT_UNIVERSAL;

    if (geometry->order != KVT_LAYOUT_NHD && geometry->order != KVT_LAYOUT_HND)
        return kvt_error_set(err, KVT_INVALID, "layout: unknown order %u",
                             (unsigned)geometry->order);
    if (geometry->heads > 0 && geometry->inner_dim % geometry->heads != 0)
        return kvt_error_set(err, KVT_INVALID,
                             "layout: inner_dim %" PRIu32 " is no multiple of %" PRIu32 " heads",
                             geometry->inner_dim, geometry->heads);
    if (geometry->heads == 0 && (universal || geometry->order == KVT_LAYOUT_HND))
        return kvt_error_set(err, KVT_INVALID, "layout: heads must be told for this %s",
                             universal ? "kind" : "order");
    if (universal && geometry->order != KVT_LAYOUT_NHD)
        return kvt_error_set(err, KVT_INVALID, "layout: a universal one has no order");
    return KVT_OK;
}

static enum kvt_err
check_geometry(const struct kvt_geometry *geometry, struct kvt_error *err)
{
    if (geometry->kind != KVT_LAYOUT_CONTIGUOUS && geometry->kind != KVT_LAYOUT_LAYERED &&
        geometry->kind != KVT_LAYOUT_UNIVERSAL)
        return kvt_error_set(err, KVT_INVALID, "layout: unknown kind %u", (unsigned)geometry->kind);
    if (geometry->layers == 0 || geometry->layers > KVT_LAYERS_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: layers %" PRIu32 " not in 1..%d",
                             geometry->layers, KVT_LAYERS_MAX);
    if (geometry->outer == 0 || geometry->outer > 2)
        return kvt_error_set(err, KVT_RANGE, "layout: outer %" PRIu32 " not in 1..2",
                             geometry->outer);
    if (!power_of_two(geometry->page_size) || geometry->page_size > KVT_PAGE_SIZE_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: page_size %" PRIu32 " no power of two <= %d",
                             geometry->page_size, KVT_PAGE_SIZE_MAX);
    if (geometry->inner_dim == 0 || geometry->inner_dim > KVT_INNER_DIM_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: inner_dim %" PRIu32 " not in 1..%u",
                             geometry->inner_dim, KVT_INNER_DIM_MAX);
    if (!power_of_two(geometry->dtype_bytes) || geometry->dtype_bytes > 8)
        return kvt_error_set(err, KVT_RANGE, "layout: dtype_bytes %" PRIu32 " not 1, 2, 4 or 8",
                             geometry->dtype_bytes);
    if (!power_of_two(geometry->alignment))
        return kvt_error_set(err, KVT_INVALID, "layout: alignment %" PRIu32 " no power of two",
                             geometry->alignment);
    if (geometry->tp_size == 0 || geometry->tp_size > KVT_RANKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: tp_size %" PRIu32 " not in 1..%d",
                             geometry->tp_size, KVT_RANKS_MAX);
    if (geometry->tp_rank >= geometry->tp_size)
        return kvt_error_set(err, KVT_RANGE, "layout: tp_rank %" PRIu32 " not below tp_size",
                             geometry->tp_rank);
    return check_heads(geometry, err);
}

static struct kvbm_layout_step
steps_of(const struct kvbm_layout *layout)
{
    const struct kvt_geometry *geometry = &layout->geometry;
    const uint64_t page = geometry->page_size;
    struct kvbm_layout_step step;

    if (geometry->kind == KVT_LAYOUT_UNIVERSAL) {
        step.token = layout->row;
        step.outer = page * layout->row;
        step.layer = step.outer * geometry->outer;
        step.head = step.layer * geometry->layers;
        return step;
    }
    step.head = geometry->order == KVT_LAYOUT_HND ? page * layout->row : layout->row;
    step.token = geometry->order == KVT_LAYOUT_HND ? layout->row : layout->heads * layout->row;
    step.outer = layout->region_size;
    step.layer = geometry->kind == KVT_LAYOUT_LAYERED ? 0 : layout->layer_stride;
    return step;
}

enum kvt_err
kvbm_layout_shape(struct kvbm_layout *out, const struct kvt_geometry *geometry,
                  struct kvt_error *err)
{
    enum kvt_err rc;
    uint64_t size;

    assert(out != NULL && geometry != NULL);
    memset(out, 0, sizeof(*out));
    rc = check_geometry(geometry, err);
    if (rc != KVT_OK)
        return rc;
    /* With every factor at its limit this is 2^50: no overflow before the check. */
    size = (uint64_t)geometry->page_size * geometry->inner_dim * geometry->dtype_bytes *
           geometry->outer * geometry->layers;
    if (size > KVT_BLOCK_SIZE_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: a block of %" PRIu64 " bytes", size);
    out->geometry = *geometry;
    out->heads = geometry->heads == 0 ? 1 : geometry->heads;
    out->row = (uint64_t)geometry->inner_dim / out->heads * geometry->dtype_bytes;
    out->block_size = size;
    out->layer_stride = size / geometry->layers;
    out->region_size = out->layer_stride / geometry->outer;
    out->block_stride = geometry->kind == KVT_LAYOUT_LAYERED
                            ? align_up(out->layer_stride, geometry->alignment)
                            : align_up(size, geometry->alignment);
    out->step = steps_of(out);
    return KVT_OK;
}

uint32_t
kvbm_layout_parts(const struct kvbm_layout *layout)
{
    return layout->geometry.kind == KVT_LAYOUT_LAYERED ? layout->geometry.layers : 1;
}

uint64_t
kvbm_layout_offset(const struct kvbm_layout *layout, uint32_t block, uint32_t layer, uint32_t outer)
{
    assert(layer < layout->geometry.layers);
    assert(outer < layout->geometry.outer);
    return (uint64_t)block * layout->block_stride + layer * layout->step.layer +
           outer * layout->step.outer;
}

uint64_t
kvbm_layout_packed_offset(const struct kvbm_layout *layout, uint32_t layer, uint32_t outer)
{
    const bool layered = layout->geometry.kind == KVT_LAYOUT_LAYERED;

    assert(layer < layout->geometry.layers);
    assert(outer < layout->geometry.outer);
    return layer * (layered ? layout->layer_stride : layout->step.layer) +
           outer * layout->step.outer;
}

uint64_t
kvbm_layout_allocation(const struct kvbm_layout *layout, uint32_t blocks)
{
    return blocks * layout->block_stride;
}
