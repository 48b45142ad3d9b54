/* kvtier/layout.h over kvbm/layout/block_layout.h and kvbm/layout/layout_walk.h: what a caller
 * says is checked here, what those assert. */
#include "kvtier/layout.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/public/public_handle.h"

_Static_assert(KVT_LAYOUT_BYTES == KVBM_LAYOUT_BYTES, "one descriptor");

const struct kvbm_layout *
kvbm_public_layout(const struct kvt_layout *layout)
{
    return layout == NULL ? NULL : &layout->layout;
}

enum kvt_err
kvt_layout_new(struct kvt_layout **out, const struct kvt_geometry *geometry, struct kvt_error *err)
{
    const size_t least = offsetof(struct kvt_geometry, order) + sizeof(geometry->order);
    struct kvt_geometry known;
    struct kvbm_layout made;
    enum kvt_err rc;

    *out = NULL;
    if (geometry->size < least)
        return kvt_error_set(err, KVT_INVALID, "layout: size of a geometry is %zu, not its size",
                             geometry->size);
    if (!kvbm_public_read(&known, sizeof(known), geometry))
        return kvt_error_set(err, KVT_UNSUPPORTED, "layout: a geometry of a newer library");
    rc = kvbm_layout_make(&made, &known, err);
    if (rc != KVT_OK)
        return rc;
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return kvt_error_set(err, KVT_NOMEM, "layout");
    (*out)->layout = made;
    return KVT_OK;
}

void
kvt_layout_free(struct kvt_layout *layout)
{
    kvt_free(layout);
}

void
kvt_layout_geometry(const struct kvt_layout *layout, struct kvt_geometry *geometry)
{
    kvbm_public_write(geometry, &layout->layout.geometry, sizeof(layout->layout.geometry));
}

void
kvt_layout_info(const struct kvt_layout *layout, struct kvt_layout_info *info)
{
    const struct kvbm_layout *ours = &layout->layout;
    const struct kvt_layout_info known = {
        .block_size = ours->block_size,
        .block_stride = ours->block_stride,
        .layer_size = ours->layer_stride,
        .region_size = ours->region_size,
        .row = ours->row,
        .fingerprint = ours->fingerprint,
        .parts = kvbm_layout_parts(ours),
        .heads = ours->heads,
    };

    kvbm_public_write(info, &known, sizeof(known));
}

uint64_t
kvt_layout_allocation(const struct kvt_layout *layout, uint32_t blocks)
{
    return kvbm_layout_allocation(&layout->layout, blocks);
}

void
kvt_layout_serialize(const struct kvt_layout *layout, uint8_t *bytes)
{
    kvbm_layout_serialize(&layout->layout, bytes);
}

enum kvt_err
kvt_layout_deserialize(struct kvt_layout **out, const uint8_t *bytes, size_t size,
                       struct kvt_error *err)
{
    struct kvbm_layout made;
    enum kvt_err rc;

    *out = NULL;
    rc = kvbm_layout_deserialize(&made, bytes, size, err);
    if (rc != KVT_OK)
        return rc;
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return kvt_error_set(err, KVT_NOMEM, "layout");
    (*out)->layout = made;
    return KVT_OK;
}

enum kvt_err
kvt_layout_compatible(const struct kvt_layout *ours, const struct kvt_layout *theirs,
                      struct kvt_error *err)
{
    return kvbm_layout_compatible(&ours->layout, &theirs->layout, err);
}

enum kvt_err
kvt_layout_convertible(const struct kvt_layout *target, const struct kvt_layout *source,
                       struct kvt_error *err)
{
    return kvbm_layout_convertible(&target->layout, &source->layout, err);
}

/* ---- blocks in memory ---- */

enum kvt_err
kvbm_public_memory(struct kvbm_layout_memory *to, const struct kvt_memory *from,
                   struct kvt_error *err)
{
    struct kvt_memory known;
    uint32_t parts;

    *to = (struct kvbm_layout_memory){0};
    if (!kvbm_public_read(&known, sizeof(known), from))
        return kvt_error_set(err, KVT_UNSUPPORTED, "memory: members of a newer library");
    if (known.layout == NULL || known.parts == NULL || known.blocks == 0)
        return kvt_error_set(err, KVT_INVALID,
                             "memory: needs its size, a layout, parts and blocks");
    parts = kvbm_layout_parts(&known.layout->layout);
    if (known.part_count != parts)
        return kvt_error_set(err, KVT_INVALID,
                             "memory: %" PRIu32 " parts, and the layout has %" PRIu32,
                             known.part_count, parts);
    *to = (struct kvbm_layout_memory){&known.layout->layout, known.parts, known.blocks};
    return KVT_OK;
}

static enum kvt_err
memory_of(struct kvbm_layout_memory *to, const struct kvt_memory *from, uint32_t block,
          struct kvt_error *err)
{
    const enum kvt_err rc = kvbm_public_memory(to, from, err);

    if (rc == KVT_OK && block >= to->blocks)
        return kvt_error_set(err, KVT_RANGE, "memory: block %" PRIu32 " of %" PRIu32, block,
                             to->blocks);
    return rc;
}

enum kvt_err
kvt_memory_view(const struct kvt_memory *memory, uint32_t block, uint32_t layer, uint32_t outer,
                struct kvt_view *view, struct kvt_error *err)
{
    struct kvbm_layout_memory ours;
    struct kvbm_layout_view found = {0};
    enum kvt_err rc = memory_of(&ours, memory, block, err);

    *view = (struct kvt_view){0};
    if (rc != KVT_OK)
        return rc;
    if (layer == KVT_LAYOUT_ALL && outer == KVT_LAYOUT_ALL) {
        rc = kvbm_layout_view_block(&ours, block, &found);
        if (rc != KVT_OK)
            return kvt_error_set(err, rc, "memory: a block is in several allocations");
    } else if (layer == KVT_LAYOUT_ALL) {
        return kvt_error_set(err, KVT_UNSUPPORTED, "memory: one outer part of all layers");
    } else if (layer >= ours.layout->geometry.layers ||
               (outer != KVT_LAYOUT_ALL && outer >= ours.layout->geometry.outer)) {
        return kvt_error_set(err, KVT_RANGE, "memory: no layer %" PRIu32 ", outer %" PRIu32, layer,
                             outer);
    } else if (outer == KVT_LAYOUT_ALL) {
        found = kvbm_layout_view_layer(&ours, block, layer);
    } else {
        found = kvbm_layout_view_outer(&ours, block, layer, outer);
    }
    *view = (struct kvt_view){found.address, found.size, found.stride, found.count};
    return KVT_OK;
}

enum kvt_err
kvt_memory_copy(const struct kvt_memory *target, uint32_t target_block,
                const struct kvt_memory *source, uint32_t source_block, uint32_t layer,
                uint32_t layers, struct kvt_error *err)
{
    struct kvbm_layout_memory to;
    struct kvbm_layout_memory from;
    struct kvbm_layout_slice slice;
    enum kvt_err rc = memory_of(&to, target, target_block, err);

    if (rc == KVT_OK)
        rc = memory_of(&from, source, source_block, err);
    if (rc == KVT_OK)
        rc = kvbm_layout_convertible(to.layout, from.layout, err);
    if (rc != KVT_OK)
        return rc;
    slice = kvbm_layout_whole(to.layout);
    if (layer != KVT_LAYOUT_ALL) {
        if (layer >= slice.layers || layers == 0 || layers > slice.layers - layer)
            return kvt_error_set(err, KVT_RANGE, "memory: %" PRIu32 " layers from %" PRIu32 " on",
                                 layers, layer);
        slice = kvbm_layout_layers(to.layout, layer, layers);
    }
    kvbm_layout_copy(&to, target_block, &from, source_block, &slice);
    return KVT_OK;
}

enum kvt_err
kvt_memory_checksum(const struct kvt_memory *memory, uint32_t block, uint32_t *crc,
                    struct kvt_error *err)
{
    struct kvbm_layout_memory ours;
    const enum kvt_err rc = memory_of(&ours, memory, block, err);

    *crc = rc == KVT_OK ? kvbm_layout_checksum(&ours, block) : 0;
    return rc;
}

/* ---- between TP sizes ---- */

enum kvt_err
kvt_layout_ranks(const struct kvt_layout *target, const struct kvt_layout *source,
                 struct kvt_rank_part *parts, size_t capacity, size_t *count, struct kvt_error *err)
{
    struct kvbm_rank_map map;
    const enum kvt_err rc = kvbm_rank_map_make(&map, &target->layout, &source->layout, err);

    *count = 0;
    if (rc != KVT_OK)
        return rc;
    if (map.count > capacity)
        return kvt_error_set(err, KVT_RANGE, "layout: %" PRIu32 " parts, and room for %zu",
                             map.count, capacity);
    for (uint32_t i = 0; i < map.count; i++)
        parts[i] = (struct kvt_rank_part){map.parts[i].rank, map.parts[i].source_head,
                                          map.parts[i].target_head, map.parts[i].heads};
    *count = map.count;
    return KVT_OK;
}

enum kvt_err
kvt_memory_reshape(const struct kvt_memory *target, uint32_t target_block,
                   const struct kvt_memory *const *sources, size_t source_count,
                   uint32_t source_block, struct kvt_error *err)
{
    struct kvbm_layout_memory to;
    struct kvbm_layout_memory memories[KVT_RANKS_MAX] = {{0}};
    const struct kvbm_layout_memory *from[KVT_RANKS_MAX] = {NULL};
    const struct kvbm_layout *shape = NULL;
    struct kvbm_rank_map map;
    enum kvt_err rc = memory_of(&to, target, target_block, err);

    if (rc != KVT_OK)
        return rc;
    if (source_count == 0 || source_count > KVT_RANKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "reshape: %zu ranks", source_count);
    for (size_t i = 0; i < source_count; i++) {
        if (sources[i] == NULL)
            continue;
        rc = memory_of(&memories[i], sources[i], source_block, err);
        if (rc == KVT_OK && shape != NULL)
            rc = kvbm_layout_compatible(shape, memories[i].layout, err);
        if (rc != KVT_OK)
            return rc;
        shape = memories[i].layout;
        from[i] = &memories[i];
        if (shape->geometry.tp_size != source_count || shape->geometry.tp_rank != i)
            return kvt_error_set(err, KVT_INVALID,
                                 "reshape: source %zu of %zu is rank %" PRIu32 " of %" PRIu32, i,
                                 source_count, shape->geometry.tp_rank, shape->geometry.tp_size);
    }
    if (shape == NULL)
        return kvt_error_set(err, KVT_INVALID, "reshape: no sources");
    rc = kvbm_rank_map_make(&map, to.layout, shape, err);
    if (rc != KVT_OK)
        return rc;
    for (uint32_t i = 0; i < map.count; i++)
        if (from[map.parts[i].rank] == NULL)
            return kvt_error_set(err, KVT_INVALID, "reshape: rank %" PRIu32 " is needed",
                                 map.parts[i].rank);
    kvbm_rank_map_copy(&map, &to, target_block, from, source_block);
    return KVT_OK;
}
