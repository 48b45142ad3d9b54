#include "engine/memory/blockset_import.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/layout/layout_walk.h"

#include "engine/memory/blockset_import_internal.h"
#include "engine/memory/blockset_wire.h"

static bool
is_universal(const struct kvbm_layout *layout)
{
    return layout->geometry.kind == KVT_LAYOUT_UNIVERSAL;
}

/* Can blocks of `theirs` become blocks of `ours`, with the same bytes or with whole heads? */
static enum kvt_err
check_layouts(const struct kvbm_layout *ours, const struct kvbm_layout *theirs,
              struct kvt_error *err)
{
    struct kvbm_rank_map map;

    if (!is_universal(ours) || !is_universal(theirs) || ours->geometry.heads == 0 ||
        ours->geometry.tp_size == theirs->geometry.tp_size)
        return kvbm_layout_compatible(ours, theirs, err);
    return kvbm_rank_map_make(&map, ours, theirs, err);
}

/* Is the set that was described still there? */
static enum kvt_err
look_at_head(const struct engine_import *import, uint64_t wait_ms, struct kvt_error *err)
{
    uint64_t nonce = 0;
    struct engine_fabric_part part = {.host = &nonce, .size = sizeof(nonce)};
    const struct engine_fabric_move get = {
        .window = import->window, .parts = &part, .count = 1, .wait_ms = wait_ms};
    enum kvt_err rc = KVT_OK;

    if (import->memory != NULL)
        nonce = atomic_load(&((const struct engine_blockset_head *)import->memory)->nonce);
    else
        rc = engine_fabric_run(import->fabric, &get);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "block set: its owner does not answer: %s", kvt_err_text(rc));
    if (nonce != import->nonce)
        return kvt_error_set(err, KVT_NOTFOUND, "block set: its owner dropped it");
    return KVT_OK;
}

enum kvt_err
engine_import_open(struct engine_import **out, struct engine_fabric *fabric, const uint8_t *bytes,
                   size_t size, const struct kvbm_layout *want, uint64_t wait_ms,
                   struct kvt_error *err)
{
    struct engine_blockset_facts facts;
    struct engine_import *import;
    enum kvt_err rc = engine_blockset_unpack(&facts, bytes, size, err);

    *out = NULL;
    if (rc == KVT_OK && want != NULL)
        rc = check_layouts(want, &facts.layout, err);
    if (rc != KVT_OK)
        return rc;
    import = kvt_calloc(1, sizeof(*import));
    if (import == NULL)
        return kvt_error_set(err, KVT_NOMEM, "block set: out of memory");
    import->fabric = fabric;
    import->nonce = facts.nonce;
    rc = engine_blockset_shape(&import->shape, &facts.layout, facts.blocks, err);
    if (rc == KVT_OK)
        rc = engine_window_open(&import->window, fabric, facts.region, facts.region_size, err);
    if (rc != KVT_OK)
        goto fail;
    if (engine_window_size(import->window) != import->shape.size) {
        rc = kvt_error_set(err, KVT_INVALID, "block set: %zu bytes of memory, not %zu",
                           engine_window_size(import->window), import->shape.size);
        goto fail;
    }
    import->memory = engine_window_memory(import->window);
    rc = look_at_head(import, wait_ms, err);
    if (rc != KVT_OK)
        goto fail;
    *out = import;
    return KVT_OK;

fail:
    engine_import_close(import);
    return rc;
}

void
engine_import_close(struct engine_import *import)
{
    if (import == NULL)
        return;
    engine_window_close(import->window);
    kvt_free(import);
}

const struct engine_blockset_shape *
engine_import_shape(const struct engine_import *import)
{
    return &import->shape;
}

uint64_t
engine_import_nonce(const struct engine_import *import)
{
    return import->nonce;
}

/* Slices ----------------------------------------------------------------------------------- */

static enum kvt_err
check_slice(const struct engine_import *import, const struct engine_import_slice *slice,
            const struct kvbm_layout *target, struct kvt_error *err)
{
    const struct kvbm_layout *theirs = &import->shape.layout;
    const uint32_t layers = theirs->geometry.layers;
    const uint32_t together = import->shape.grain_layers;
    const enum kvt_err rc = check_layouts(target, theirs, err);

    if (rc != KVT_OK)
        return rc;
    if (slice->layer > layers || slice->layers > layers - slice->layer ||
        slice->head > theirs->heads || slice->heads > theirs->heads - slice->head ||
        slice->target_head > target->heads || slice->heads > target->heads - slice->target_head)
        return kvt_error_set(err, KVT_RANGE, "slice: no such layers or heads");
    if (!is_universal(theirs) && (slice->heads != theirs->heads || slice->target_head != 0))
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "slice: heads of a layout in which they are not one run");
    if (slice->layer % together != 0 || slice->layers % together != 0)
        return kvt_error_set(err, KVT_UNSUPPORTED, "slice: there is one sum for %" PRIu32 " layers",
                             together);
    return KVT_OK;
}

enum kvt_err
engine_import_runs(const struct engine_import *import, const struct engine_import_slice *wanted,
                   const struct kvbm_layout *target, void *host, struct engine_import_run *runs,
                   size_t capacity, size_t *count, struct kvt_error *err)
{
    const struct kvbm_layout *theirs = &import->shape.layout;
    const size_t cell = engine_blockset_cell(theirs);
    const size_t row = is_universal(theirs) ? theirs->geometry.layers * cell : 0;
    struct engine_import_slice slice = *wanted;
    uint32_t lines;
    size_t line;
    enum kvt_err rc;

    *count = 0;
    slice.layers = slice.layers == 0 ? theirs->geometry.layers - slice.layer : slice.layers;
    slice.heads = slice.heads == 0 ? theirs->heads - slice.head : slice.heads;
    rc = check_slice(import, &slice, target, err);
    if (rc != KVT_OK)
        return rc;
    lines = is_universal(theirs) ? slice.heads : 1;
    line = slice.layers * cell;
    if (line == row) { /* all layers: heads follow on each other */
        line *= lines;
        lines = 1;
    }
    if (lines > capacity || lines > ENGINE_IMPORT_RUNS_MAX)
        return kvt_error_set(err, KVT_RANGE, "slice: %" PRIu32 " runs", lines);
    for (uint32_t i = 0; i < lines; i++) {
        const size_t inner = slice.layer * cell;

        runs[i] =
            (struct engine_import_run){(slice.head + i) * row + inner, line,
                                       (uint8_t *)host + (slice.target_head + i) * row + inner};
    }
    *count = lines;
    return KVT_OK;
}
