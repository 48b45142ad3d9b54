/*
 * What is tested: kvbm/layout/layout_walk.h against a model that knows each layout as a formula
 * and moves one byte at a time: every byte from any layout to any other, parts of the layers and
 * outer parts, odd alignments, element widths 1 to 8, TP groups of 4, 2 and 1 in both directions;
 * nothing beside the slice is touched; a slice of a TP group is one run of a universal block;
 * views; checksums.
 */
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/layout/layout_walk.h"

#include "tests/support/seed.h"

enum { ROUNDS = 400 / TEST_ALONE_SHARE, BLOCKS_MAX = 3, RANKS = 4 };

/* Blocks of one layout in host memory, each part of it at an odd address. */
struct store {
    struct kvbm_layout layout;
    struct kvbm_layout_memory memory;
    uint8_t *raw[KVT_LAYERS_MAX];
    uint64_t parts[KVT_LAYERS_MAX];
    size_t part_size;
};

static uint64_t state;

static uint32_t
below(uint32_t bound)
{
    return (uint32_t)kvt_random_below(&state, bound);
}

static void
store_open(struct store *store, const struct kvt_geometry *geometry, uint32_t blocks)
{
    struct kvt_error err;

    memset(store, 0, sizeof(*store));
    assert_int_equal(kvbm_layout_make(&store->layout, geometry, &err), KVT_OK);
    store->part_size = kvbm_layout_allocation(&store->layout, blocks);
    for (uint32_t i = 0; i < kvbm_layout_parts(&store->layout); i++) {
        store->raw[i] = kvt_calloc(1, store->part_size + 16);
        assert_non_null(store->raw[i]);
        store->parts[i] = (uint64_t)(uintptr_t)store->raw[i] + below(16);
        for (size_t k = 0; k < store->part_size; k++)
            *(uint8_t *)(uintptr_t)(store->parts[i] + k) = (uint8_t)kvt_random_next(&state);
    }
    store->memory = (struct kvbm_layout_memory){&store->layout, store->parts, blocks};
}

static void
store_close(struct store *store)
{
    for (uint32_t i = 0; i < kvbm_layout_parts(&store->layout); i++)
        kvt_free(store->raw[i]);
}

struct point {
    uint32_t block;
    uint32_t head;
    uint32_t layer;
    uint32_t outer;
    uint32_t token;
    uint32_t byte; /* of the head's row */
};

/* The model: each layout written out as nested indices, innermost last. */
static uint8_t *
model(const struct store *store, struct point at)
{
    const struct kvt_geometry *g = &store->layout.geometry;
    const uint64_t heads = g->heads == 0 ? 1 : g->heads;
    const uint64_t row = (uint64_t)g->inner_dim / heads * g->dtype_bytes;
    const uint64_t page = g->page_size;
    const uint64_t layer_bytes = g->outer * page * heads * row;
    const uint64_t inside = g->order == KVT_LAYOUT_HND
                                ? (at.head * page + at.token) * row + at.byte
                                : (at.token * heads + at.head) * row + at.byte;
    uint64_t size = g->kind == KVT_LAYOUT_LAYERED ? layer_bytes : layer_bytes * g->layers;
    uint64_t offset;

    while (size % g->alignment != 0)
        size++;
    offset = at.block * size;
    switch (g->kind) {
    case KVT_LAYOUT_CONTIGUOUS:
        offset += (at.layer * g->outer + at.outer) * page * heads * row + inside;
        return (uint8_t *)(uintptr_t)(store->parts[0] + offset);
    case KVT_LAYOUT_LAYERED:
        offset += at.outer * page * heads * row + inside;
        return (uint8_t *)(uintptr_t)(store->parts[at.layer] + offset);
    case KVT_LAYOUT_UNIVERSAL:
        offset +=
            (((at.head * g->layers + at.layer) * g->outer + at.outer) * page + at.token) * row +
            at.byte;
        return (uint8_t *)(uintptr_t)(store->parts[0] + offset);
    }
    abort();
}

/* Any shape of one model; kinds, orders and alignments are dealt again for each side. */
static struct kvt_geometry
deal_model(bool heads)
{
    struct kvt_geometry geometry = {
        .layers = 1 + below(6),
        .outer = 1 + below(2),
        .page_size = 1u << below(4),
        .dtype_bytes = 1u << below(4),
        .tp_size = 1,
    };
    const uint32_t count = heads ? 1 + below(5) : 0;

    geometry.heads = count;
    geometry.inner_dim = (count == 0 ? 1 : count) * (1 + below(7));
    return geometry;
}

static void
deal_place(struct kvt_geometry *geometry)
{
    geometry->kind = (enum kvt_layout_kind)(1 + below(geometry->heads > 0 ? 3 : 2));
    geometry->order = KVT_LAYOUT_NHD;
    if (geometry->heads > 0 && geometry->kind != KVT_LAYOUT_UNIVERSAL)
        geometry->order = (enum kvt_layout_order)below(2);
    geometry->alignment = 1u << below(10);
}

/* Every byte of the target, whether it should have changed or not. */
static void
compare(const struct store *target, const struct store *before, const struct store *source,
        uint32_t target_block, uint32_t source_block, const struct kvbm_layout_slice *slice)
{
    const struct kvt_geometry *g = &target->layout.geometry;

    /* `before` has the target's shape, and what it held: put what should move in there as well. */
    for (uint32_t head = 0; head < slice->heads; head++)
        for (uint32_t layer = slice->layer; layer < slice->layer + slice->layers; layer++)
            for (uint32_t outer = slice->outer; outer < slice->outer + slice->outers; outer++)
                for (uint32_t token = 0; token < g->page_size; token++)
                    for (uint32_t byte = 0; byte < target->layout.row; byte++)
                        *model(before, (struct point){target_block, slice->target_head + head,
                                                      layer, outer, token, byte}) =
                            *model(source, (struct point){source_block, slice->source_head + head,
                                                          layer, outer, token, byte});
    for (uint32_t i = 0; i < kvbm_layout_parts(&target->layout); i++)
        assert_memory_equal((const void *)(uintptr_t)target->parts[i],
                            (const void *)(uintptr_t)before->parts[i], target->part_size);
}

static void
store_copy(struct store *target, const struct store *source)
{
    for (uint32_t i = 0; i < kvbm_layout_parts(&source->layout); i++)
        memcpy((void *)(uintptr_t)target->parts[i], (const void *)(uintptr_t)source->parts[i],
               source->part_size);
}

static void
any_layout_becomes_any_other(void **unused)
{
    uint32_t seen[4][4] = {{0}};

    (void)unused;
    state = test_seed();
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct kvt_geometry geometry = deal_model(below(4) > 0);
        const uint32_t blocks = 1 + below(BLOCKS_MAX);
        const uint32_t from = below(blocks);
        const uint32_t to = below(blocks);
        struct kvbm_layout_slice slice;
        struct store source;
        struct store target;
        struct store before;

        deal_place(&geometry);
        store_open(&source, &geometry, blocks);
        deal_place(&geometry);
        store_open(&target, &geometry, blocks);
        store_open(&before, &geometry, blocks);
        store_copy(&before, &target);
        seen[source.layout.geometry.kind][target.layout.geometry.kind]++;
        assert_int_equal(kvbm_layout_convertible(&target.layout, &source.layout, NULL), KVT_OK);
        slice = kvbm_layout_whole(&target.layout);
        if (round % 2 == 1) {
            const uint32_t layer = below(geometry.layers);

            slice = kvbm_layout_layers(&target.layout, layer, 1 + below(geometry.layers - layer));
            if (below(2) == 0 && geometry.outer == 2) {
                slice.outer = below(2);
                slice.outers = 1;
            }
        }
        kvbm_layout_copy(&target.memory, to, &source.memory, from, &slice);
        compare(&target, &before, &source, to, from, &slice);
        if (round % 2 == 0)
            assert_int_equal(kvbm_layout_checksum(&target.memory, to),
                             kvbm_layout_checksum(&source.memory, from));
        store_close(&before);
        store_close(&target);
        store_close(&source);
    }
    for (unsigned from = 1; from <= 3; from++)
        for (unsigned to = 1; to <= 3; to++)
            assert_true(seen[from][to] > 0);
    assert_int_equal(kvt_alloc_live(), 0);
}

/* A group of `from` ranks becomes one of `to`: every rank's every byte. */
static void
reshape(uint32_t from, uint32_t to, bool universal)
{
    struct kvt_geometry geometry = deal_model(true);
    const uint32_t dim = geometry.inner_dim / geometry.heads;
    const uint32_t all = RANKS * (1 + below(3));
    const struct kvbm_layout_memory *memories[RANKS];
    struct store sources[RANKS];

    for (uint32_t rank = 0; rank < from; rank++) {
        geometry.heads = all / from;
        geometry.inner_dim = geometry.heads * dim;
        geometry.tp_size = from;
        geometry.tp_rank = rank;
        deal_place(&geometry);
        if (universal) {
            geometry.kind = KVT_LAYOUT_UNIVERSAL;
            geometry.order = KVT_LAYOUT_NHD;
        }
        store_open(&sources[rank], &geometry, 2);
        memories[rank] = &sources[rank].memory;
    }
    for (uint32_t rank = 0; rank < to; rank++) {
        struct kvbm_rank_map map;
        struct kvt_error err;
        struct store target;
        uint32_t covered = 0;

        geometry.heads = all / to;
        geometry.inner_dim = geometry.heads * dim;
        geometry.tp_size = to;
        geometry.tp_rank = rank;
        deal_place(&geometry);
        if (universal) {
            geometry.kind = KVT_LAYOUT_UNIVERSAL;
            geometry.order = KVT_LAYOUT_NHD;
        }
        store_open(&target, &geometry, 2);
        assert_int_equal(kvbm_rank_map_make(&map, &target.layout, &sources[0].layout, &err),
                         KVT_OK);
        assert_int_equal(map.count, from > to ? from / to : 1);
        kvbm_rank_map_copy(&map, &target.memory, 1, memories, 0);
        for (uint32_t i = 0; i < map.count; i++)
            covered += map.parts[i].heads;
        assert_int_equal(covered, geometry.heads);
        for (uint32_t head = 0; head < geometry.heads; head++) {
            const uint32_t global = rank * geometry.heads + head;
            const struct store *source = &sources[global / (all / from)];

            for (uint32_t layer = 0; layer < geometry.layers; layer++)
                for (uint32_t outer = 0; outer < geometry.outer; outer++)
                    for (uint32_t token = 0; token < geometry.page_size; token++)
                        for (uint32_t byte = 0; byte < target.layout.row; byte++)
                            assert_int_equal(
                                *model(&target, (struct point){1, head, layer, outer, token, byte}),
                                *model(source, (struct point){0, global % (all / from), layer,
                                                              outer, token, byte}));
        }
        for (uint32_t i = 0; universal && i < map.count; i++) {
            struct kvbm_layout_slice slice = kvbm_layout_whole(&target.layout);
            struct kvbm_layout_walk walk;
            struct kvbm_layout_run run;

            slice.source_head = map.parts[i].source_head;
            slice.target_head = map.parts[i].target_head;
            slice.heads = map.parts[i].heads;
            kvbm_layout_walk(&walk, &target.memory, 0, memories[map.parts[i].rank], 0, &slice);
            assert_true(kvbm_layout_next(&walk, &run));
            assert_int_equal(run.size, map.parts[i].heads * target.layout.step.head);
            assert_false(kvbm_layout_next(&walk, &run));
        }
        store_close(&target);
    }
    for (uint32_t rank = 0; rank < from; rank++)
        store_close(&sources[rank]);
}

static void
groups_of_any_size_become_each_other(void **unused)
{
    static const uint32_t sizes[] = {1, 2, 4};

    (void)unused;
    state = test_seed();
    for (unsigned round = 0; round < 12 / TEST_ALONE_SHARE; round++)
        for (size_t from = 0; from < 3; from++)
            for (size_t to = 0; to < 3; to++)
                reshape(sizes[from], sizes[to], round % 2 == 0);
    assert_int_equal(kvt_alloc_live(), 0);
}

static const struct kvt_geometry example = {
    .kind = KVT_LAYOUT_UNIVERSAL,
    .layers = 3,
    .outer = 2,
    .page_size = 4,
    .inner_dim = 12,
    .dtype_bytes = 2,
    .alignment = 64,
    .tp_size = 4,
    .tp_rank = 3,
    .heads = 2,
};

/* By hand: target rank 3 of 4 has the second half of source rank 1 of 2. */
static void
rank_maps_by_hand(void **unused)
{
    struct kvt_geometry geometry = example;
    struct kvbm_layout four;
    struct kvbm_layout two;
    struct kvbm_layout three;
    struct kvbm_rank_map map;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_layout_make(&four, &geometry, NULL), KVT_OK);
    geometry.tp_size = 2;
    geometry.tp_rank = 0;
    geometry.heads = 4;
    geometry.inner_dim = 24;
    assert_int_equal(kvbm_layout_make(&two, &geometry, NULL), KVT_OK);
    assert_int_equal(kvbm_rank_map_make(&map, &four, &two, &err), KVT_OK);
    assert_int_equal(map.count, 1);
    assert_memory_equal(&map.parts[0], &((struct kvbm_rank_part){1, 2, 0, 2}),
                        sizeof(map.parts[0]));
    assert_int_equal(kvbm_rank_map_make(&map, &two, &four, &err), KVT_OK);
    assert_int_equal(map.count, 2);
    assert_memory_equal(&map.parts[0], &((struct kvbm_rank_part){0, 0, 0, 2}),
                        sizeof(map.parts[0]));
    assert_memory_equal(&map.parts[1], &((struct kvbm_rank_part){1, 0, 2, 2}),
                        sizeof(map.parts[1]));
    /* Sizes that do not divide each other: 12 heads of 4 ranks of 3 against 3 ranks of 4. */
    geometry = example;
    geometry.heads = 3;
    geometry.inner_dim = 18;
    assert_int_equal(kvbm_layout_make(&four, &geometry, NULL), KVT_OK);
    geometry.heads = 4;
    geometry.inner_dim = 24;
    geometry.tp_size = 3;
    geometry.tp_rank = 1;
    assert_int_equal(kvbm_layout_make(&three, &geometry, NULL), KVT_OK);
    assert_int_equal(kvbm_rank_map_make(&map, &three, &four, &err), KVT_OK);
    assert_int_equal(map.count, 2);
    assert_memory_equal(&map.parts[0], &((struct kvbm_rank_part){1, 1, 0, 2}),
                        sizeof(map.parts[0]));
    assert_memory_equal(&map.parts[1], &((struct kvbm_rank_part){2, 0, 2, 2}),
                        sizeof(map.parts[1]));
}

static void
what_is_no_group_of_one_model_is_refused(void **unused)
{
    static const char *const names[] = {
        "layers", "outer",           "page_size",         "dtype_bytes",
        "heads",  "bytes of a head", "heads of all ranks"};
    struct kvt_geometry others[7];
    struct kvbm_layout ours;
    struct kvbm_layout theirs;
    struct kvbm_rank_map map;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_layout_make(&ours, &example, NULL), KVT_OK);
    for (size_t i = 0; i < 7; i++)
        others[i] = example;
    others[0].layers = 4;
    others[1].outer = 1;
    others[2].page_size = 8;
    others[3].dtype_bytes = 4;
    others[4].kind = KVT_LAYOUT_LAYERED;
    others[4].heads = 0;
    others[5].inner_dim = 14;
    others[6].tp_size = 8;
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(kvbm_layout_make(&theirs, &others[i], NULL), KVT_OK);
        assert_int_equal(kvbm_rank_map_make(&map, &ours, &theirs, &err), KVT_PRECONDITION);
        assert_non_null(strstr(err.text, names[i]));
        assert_int_equal(map.count, 0);
        assert_int_equal(kvbm_layout_convertible(&ours, &theirs, &err), KVT_PRECONDITION);
    }
    others[0] = example;
    others[0].tp_rank = 1;
    assert_int_equal(kvbm_layout_make(&theirs, &others[0], NULL), KVT_OK);
    assert_int_equal(kvbm_layout_convertible(&ours, &theirs, &err), KVT_PRECONDITION);
    assert_non_null(strstr(err.text, "tp_rank"));
}

/* A view names exactly the bytes the model says, in place. */
static void
views_are_in_place(void **unused)
{
    (void)unused;
    state = test_seed();
    for (unsigned round = 0; round < 60; round++) {
        struct kvt_geometry geometry = deal_model(below(4) > 0);
        struct kvbm_layout_view view;
        struct store store;
        enum kvt_err rc;

        deal_place(&geometry);
        store_open(&store, &geometry, 2);
        for (uint32_t layer = 0; layer < geometry.layers; layer++) {
            view = kvbm_layout_view_layer(&store.memory, 1, layer);
            assert_int_equal(view.size * view.count, store.layout.layer_stride);
            assert_ptr_equal((void *)(uintptr_t)view.address,
                             model(&store, (struct point){1, 0, layer, 0, 0, 0}));
            for (uint32_t outer = 0; outer < geometry.outer; outer++) {
                view = kvbm_layout_view_outer(&store.memory, 1, layer, outer);
                assert_int_equal(view.size * view.count, store.layout.region_size);
                for (uint32_t i = 0; i < view.count; i++)
                    assert_ptr_equal((void *)(uintptr_t)(view.address + i * view.stride),
                                     model(&store, (struct point){1, i, layer, outer, 0, 0}));
            }
        }
        rc = kvbm_layout_view_block(&store.memory, 1, &view);
        if (kvbm_layout_parts(&store.layout) > 1) {
            assert_int_equal(rc, KVT_UNSUPPORTED);
        } else {
            assert_int_equal(rc, KVT_OK);
            assert_int_equal(view.size, store.layout.block_size);
        }
        store_close(&store);
    }
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
checksums_see_every_byte(void **unused)
{
    struct store store;
    uint32_t sum;

    (void)unused;
    state = test_seed();
    store_open(&store, &example, 2);
    sum = kvbm_layout_checksum(&store.memory, 1);
    for (uint64_t i = 0; i < store.layout.block_size; i++) {
        uint8_t *byte = (uint8_t *)(uintptr_t)(store.parts[0] + store.layout.block_stride + i);

        *byte ^= 0x10;
        assert_int_not_equal(kvbm_layout_checksum(&store.memory, 1), sum);
        *byte ^= 0x10;
    }
    assert_int_equal(kvbm_layout_checksum(&store.memory, 1), sum);
    store_close(&store);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_layout_becomes_any_other),
        cmocka_unit_test(groups_of_any_size_become_each_other),
        cmocka_unit_test(rank_maps_by_hand),
        cmocka_unit_test(what_is_no_group_of_one_model_is_refused),
        cmocka_unit_test(views_are_in_place),
        cmocka_unit_test(checksums_see_every_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
