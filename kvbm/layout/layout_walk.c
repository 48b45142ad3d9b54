#include "kvbm/layout/layout_walk.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

struct kvbm_layout_slice
kvbm_layout_layers(const struct kvbm_layout *layout, uint32_t layer, uint32_t layers)
{
    return (struct kvbm_layout_slice){
        .layer = layer,
        .layers = layers,
        .outers = layout->geometry.outer,
        .heads = layout->heads,
    };
}

struct kvbm_layout_slice
kvbm_layout_whole(const struct kvbm_layout *layout)
{
    return kvbm_layout_layers(layout, 0, layout->geometry.layers);
}

static uint64_t
address_of(const struct kvbm_layout_memory *memory, uint32_t block, uint32_t layer, uint32_t outer)
{
    const bool layered = memory->layout->geometry.kind == KVT_LAYOUT_LAYERED;

    assert(block < memory->blocks);
    return memory->parts[layered ? layer : 0] +
           kvbm_layout_offset(memory->layout, block, layer, outer);
}

/* A part that is one run in each head is one run altogether unless heads are outermost. */
static struct kvbm_layout_view
view_of(const struct kvbm_layout *layout, uint64_t address, uint64_t size)
{
    if (layout->geometry.kind != KVT_LAYOUT_UNIVERSAL)
        return (struct kvbm_layout_view){address, size, size, 1};
    return (struct kvbm_layout_view){address, size / layout->heads, layout->step.head,
                                     layout->heads};
}

struct kvbm_layout_view
kvbm_layout_view_layer(const struct kvbm_layout_memory *memory, uint32_t block, uint32_t layer)
{
    return view_of(memory->layout, address_of(memory, block, layer, 0),
                   memory->layout->layer_stride);
}

struct kvbm_layout_view
kvbm_layout_view_outer(const struct kvbm_layout_memory *memory, uint32_t block, uint32_t layer,
                       uint32_t outer)
{
    return view_of(memory->layout, address_of(memory, block, layer, outer),
                   memory->layout->region_size);
}

enum kvt_err
kvbm_layout_view_block(const struct kvbm_layout_memory *memory, uint32_t block,
                       struct kvbm_layout_view *view)
{
    const struct kvbm_layout *layout = memory->layout;

    memset(view, 0, sizeof(*view));
    if (kvbm_layout_parts(layout) > 1)
        return KVT_UNSUPPORTED;
    *view = (struct kvbm_layout_view){address_of(memory, block, 0, 0), layout->block_size,
                                      layout->block_size, 1};
    return KVT_OK;
}

static enum kvt_err
differs(struct kvt_error *err, const char *name, uint64_t target, uint64_t source)
{
    return kvt_error_set(err, KVT_PRECONDITION,
                         "layout mismatch: %s is %" PRIu64 " here, %" PRIu64 " there", name, target,
                         source);
}

/* What a model fixes: everything that neither the placement nor the TP size changes. */
static enum kvt_err
same_model(const struct kvt_geometry *target, const struct kvt_geometry *source,
           struct kvt_error *err)
{
    if (target->layers != source->layers)
        return differs(err, "layers", target->layers, source->layers);
    if (target->outer != source->outer)
        return differs(err, "outer", target->outer, source->outer);
    if (target->page_size != source->page_size)
        return differs(err, "page_size", target->page_size, source->page_size);
    if (target->dtype_bytes != source->dtype_bytes)
        return differs(err, "dtype_bytes", target->dtype_bytes, source->dtype_bytes);
    return KVT_OK;
}

enum kvt_err
kvbm_layout_convertible(const struct kvbm_layout *target, const struct kvbm_layout *source,
                        struct kvt_error *err)
{
    const struct kvt_geometry *a = &target->geometry;
    const struct kvt_geometry *b = &source->geometry;
    const enum kvt_err rc = same_model(a, b, err);

    if (rc != KVT_OK)
        return rc;
    if (a->inner_dim != b->inner_dim)
        return differs(err, "inner_dim", a->inner_dim, b->inner_dim);
    if (a->heads != b->heads)
        return differs(err, "heads", a->heads, b->heads);
    if (a->tp_size != b->tp_size)
        return differs(err, "tp_size", a->tp_size, b->tp_size);
    if (a->tp_rank != b->tp_rank)
        return differs(err, "tp_rank", a->tp_rank, b->tp_rank);
    return KVT_OK;
}

/* Lay what continues the run on both sides into it; what is left is walked. */
static void
merge(struct kvbm_layout_walk *walk, struct kvbm_layout_axis *axes, uint32_t count)
{
    bool again = true;

    while (again) {
        again = false;
        for (uint32_t i = 0; i < count; i++) {
            if (axes[i].count == 0 || (axes[i].count > 1 && (axes[i].target_step != walk->run ||
                                                             axes[i].source_step != walk->run)))
                continue;
            walk->run *= axes[i].count;
            axes[i].count = 0;
            again = true;
        }
    }
    /* The given order is outermost first; runs come in the target's order where that is the same.
     */
    for (uint32_t i = 0; i < count; i++)
        if (axes[i].count > 0)
            walk->axes[walk->axis_count++] = axes[i];
}

void
kvbm_layout_walk(struct kvbm_layout_walk *walk, const struct kvbm_layout_memory *target,
                 uint32_t target_block, const struct kvbm_layout_memory *source,
                 uint32_t source_block, const struct kvbm_layout_slice *slice)
{
    const struct kvbm_layout_step *to = &target->layout->step;
    const struct kvbm_layout_step *from = &source->layout->step;
    const struct kvbm_layout *layout = target->layout;
    struct kvbm_layout_axis axes[4];
    uint32_t count = 0;

    assert(target_block < target->blocks && source_block < source->blocks);
    assert(slice->layer + slice->layers <= layout->geometry.layers);
    assert(slice->outer + slice->outers <= layout->geometry.outer);
    assert(slice->target_head + slice->heads <= target->layout->heads);
    assert(slice->source_head + slice->heads <= source->layout->heads);
    assert(layout->row == source->layout->row);
    *walk = (struct kvbm_layout_walk){
        .target = target,
        .source = source,
        .run = layout->row,
        .layer = slice->layer,
        .layers = 1,
        .split = kvbm_layout_parts(target->layout) > 1 || kvbm_layout_parts(source->layout) > 1,
        .more = slice->layers > 0 && slice->outers > 0 && slice->heads > 0,
    };
    walk->target_offset = target_block * layout->block_stride + slice->outer * to->outer +
                          slice->target_head * to->head;
    walk->source_offset = source_block * source->layout->block_stride + slice->outer * from->outer +
                          slice->source_head * from->head;
    axes[count++] = (struct kvbm_layout_axis){to->head, from->head, slice->heads, 0};
    if (walk->split) {
        walk->layers = slice->layers;
    } else {
        walk->target_offset += slice->layer * to->layer;
        walk->source_offset += slice->layer * from->layer;
        axes[count++] = (struct kvbm_layout_axis){to->layer, from->layer, slice->layers, 0};
    }
    axes[count++] = (struct kvbm_layout_axis){to->outer, from->outer, slice->outers, 0};
    axes[count++] =
        (struct kvbm_layout_axis){to->token, from->token, layout->geometry.page_size, 0};
    if (walk->more)
        merge(walk, axes, count);
}

/* Where the walk is on one side, in the allocation of the layer it is at. */
static uint64_t
place(const struct kvbm_layout_walk *walk, const struct kvbm_layout_memory *memory, uint64_t offset)
{
    const uint32_t layer = walk->layer + walk->layer_at;

    if (kvbm_layout_parts(memory->layout) > 1)
        return memory->parts[layer] + offset;
    return memory->parts[0] + offset + (walk->split ? layer * memory->layout->step.layer : 0);
}

bool
kvbm_layout_next(struct kvbm_layout_walk *walk, struct kvbm_layout_run *run)
{
    uint32_t i = walk->axis_count;
    uint64_t target = walk->target_offset;
    uint64_t source = walk->source_offset;

    if (!walk->more)
        return false;
    for (uint32_t k = 0; k < walk->axis_count; k++) {
        target += walk->axes[k].at * walk->axes[k].target_step;
        source += walk->axes[k].at * walk->axes[k].source_step;
    }
    *run = (struct kvbm_layout_run){place(walk, walk->target, target),
                                    place(walk, walk->source, source), walk->run};
    while (i > 0 && ++walk->axes[i - 1].at == walk->axes[i - 1].count)
        walk->axes[--i].at = 0;
    if (i == 0)
        walk->more = ++walk->layer_at < walk->layers;
    return true;
}

void
kvbm_layout_copy(const struct kvbm_layout_memory *target, uint32_t target_block,
                 const struct kvbm_layout_memory *source, uint32_t source_block,
                 const struct kvbm_layout_slice *slice)
{
    struct kvbm_layout_walk walk;
    struct kvbm_layout_run run;

    kvbm_layout_walk(&walk, target, target_block, source, source_block, slice);
    while (kvbm_layout_next(&walk, &run))
        memcpy((void *)(uintptr_t)run.target, (const void *)(uintptr_t)run.source, run.size);
}

enum kvt_err
kvbm_rank_map_make(struct kvbm_rank_map *map, const struct kvbm_layout *target,
                   const struct kvbm_layout *source, struct kvt_error *err)
{
    const struct kvt_geometry *a = &target->geometry;
    const struct kvt_geometry *b = &source->geometry;
    const uint64_t first = (uint64_t)a->tp_rank * target->heads;
    const uint64_t end = first + target->heads;
    enum kvt_err rc;

    memset(map, 0, sizeof(*map));
    rc = same_model(a, b, err);
    if (rc != KVT_OK)
        return rc;
    if (a->heads == 0 || b->heads == 0)
        return kvt_error_set(err, KVT_PRECONDITION, "layout: heads are not told apart");
    if (target->row != source->row)
        return differs(err, "bytes of a head", target->row, source->row);
    if ((uint64_t)a->heads * a->tp_size != (uint64_t)b->heads * b->tp_size)
        return differs(err, "heads of all ranks", (uint64_t)a->heads * a->tp_size,
                       (uint64_t)b->heads * b->tp_size);
    for (uint64_t head = first; head < end;) {
        const uint64_t rank = head / source->heads;
        const uint64_t theirs = head % source->heads;
        const uint64_t left = source->heads - theirs;
        const uint64_t heads = left < end - head ? left : end - head;

        map->parts[map->count++] = (struct kvbm_rank_part){
            (uint32_t)rank, (uint32_t)theirs, (uint32_t)(head - first), (uint32_t)heads};
        head += heads;
    }
    return KVT_OK;
}

void
kvbm_rank_map_copy(const struct kvbm_rank_map *map, const struct kvbm_layout_memory *target,
                   uint32_t target_block, const struct kvbm_layout_memory *const *sources,
                   uint32_t source_block)
{
    for (uint32_t i = 0; i < map->count; i++) {
        const struct kvbm_rank_part *part = &map->parts[i];
        struct kvbm_layout_slice slice = kvbm_layout_whole(target->layout);

        slice.source_head = part->source_head;
        slice.target_head = part->target_head;
        slice.heads = part->heads;
        kvbm_layout_copy(target, target_block, sources[part->rank], source_block, &slice);
    }
}
