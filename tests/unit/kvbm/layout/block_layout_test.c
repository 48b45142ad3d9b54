/*
 * What is tested: kvbm/layout/block_layout.h: strides by hand for every kind, the descriptor's
 * round trip, one of version 1, every damaged byte of it, every differing member, and the limits.
 */
#include <string.h>

#include "kvbm/layout/block_layout.h"
#include "kvtier/block.h"

#include "tests/support/seed.h"

static const struct kvt_geometry example = {
    .kind = KVT_LAYOUT_CONTIGUOUS,
    .layers = 3,
    .outer = 2,
    .page_size = 16,
    .inner_dim = 5,
    .dtype_bytes = 2,
    .alignment = 512,
    .tp_size = 4,
    .tp_rank = 1,
};

static void
contiguous_strides(void **unused)
{
    struct kvbm_layout layout;

    (void)unused;
    assert_int_equal(kvbm_layout_make(&layout, &example, NULL), KVT_OK);
    assert_int_equal(layout.region_size, 160);
    assert_int_equal(layout.layer_stride, 320);
    assert_int_equal(layout.block_size, 960);
    assert_int_equal(layout.block_stride, 1024); /* 960 up to 512 */
    assert_int_equal(kvbm_layout_offset(&layout, 0, 0, 0), 0);
    assert_int_equal(kvbm_layout_offset(&layout, 2, 1, 1), 2 * 1024 + 320 + 160);
    assert_int_equal(kvbm_layout_packed_offset(&layout, 2, 1), 800);
    assert_int_equal(kvbm_layout_allocation(&layout, 10), 10240);
}

static void
layered_strides(void **unused)
{
    struct kvt_geometry geometry = example;
    struct kvbm_layout layout;

    (void)unused;
    geometry.kind = KVT_LAYOUT_LAYERED;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    assert_int_equal(layout.block_size, 960);
    assert_int_equal(layout.block_stride, 512); /* 320 up to 512, within each layer */
    assert_int_equal(kvbm_layout_offset(&layout, 2, 1, 1), 2 * 512 + 160);
    assert_int_equal(kvbm_layout_packed_offset(&layout, 2, 1), 800);
}

/* Two heads of 3 elements: all of one head lies together, and all of the other behind it. */
static void
universal_strides(void **unused)
{
    struct kvt_geometry geometry = example;
    struct kvbm_layout layout;

    (void)unused;
    geometry.kind = KVT_LAYOUT_UNIVERSAL;
    geometry.inner_dim = 6;
    geometry.heads = 2;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    assert_int_equal(layout.row, 6);
    assert_int_equal(layout.step.token, 6);
    assert_int_equal(layout.step.outer, 96);
    assert_int_equal(layout.step.layer, 192);
    assert_int_equal(layout.step.head, 576);
    assert_int_equal(layout.block_size, 1152);
    assert_int_equal(layout.block_stride, 1536);
    assert_int_equal(kvbm_layout_offset(&layout, 1, 2, 1), 1536 + 2 * 192 + 96);
    assert_int_equal(kvbm_layout_packed_offset(&layout, 2, 1), 2 * 192 + 96);
    assert_int_equal(kvbm_layout_parts(&layout), 1);
}

static void
orders_nest_tokens_and_heads(void **unused)
{
    struct kvt_geometry geometry = example;
    struct kvbm_layout layout;

    (void)unused;
    geometry.inner_dim = 6;
    geometry.heads = 2;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    assert_int_equal(layout.step.token, 12);
    assert_int_equal(layout.step.head, 6);
    geometry.order = KVT_LAYOUT_HND;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    assert_int_equal(layout.step.token, 6);
    assert_int_equal(layout.step.head, 96);
}

/* As version 1 wrote `example`: it is read, and keeps the fingerprint that objects carry. */
static void
version_1_is_still_read(void **unused)
{
    static const uint8_t bytes[KVBM_LAYOUT_BYTES_V1] = {
        0x4b, 0x56, 0x54, 0x4c, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x03, 0x00,
        0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00,
        0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x01, 0x00,
        0x00, 0x00, 0x81, 0xf3, 0xd6, 0x3e, 0x65, 0xcf, 0xc3, 0x1d, 0x0f, 0x94, 0xba, 0x29};
    uint8_t damaged[KVBM_LAYOUT_BYTES_V1];
    struct kvbm_layout layout;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_layout_deserialize(&layout, bytes, sizeof(bytes), &err), KVT_OK);
    assert_memory_equal(&layout.geometry, &example, sizeof(example));
    assert_int_equal(layout.fingerprint, UINT64_C(0x1dc3cf653ed6f381));
    memcpy(damaged, bytes, sizeof(bytes));
    damaged[20] ^= 1;
    assert_int_equal(kvbm_layout_deserialize(&layout, damaged, sizeof(damaged), &err), KVT_CORRUPT);
    memcpy(damaged, bytes, sizeof(bytes));
    damaged[4] = 3;
    assert_int_equal(kvbm_layout_deserialize(&layout, damaged, sizeof(damaged), &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "version 3"));
}

static void
round_trip(void **unused)
{
    uint8_t bytes[KVBM_LAYOUT_BYTES];
    struct kvbm_layout layout;
    struct kvbm_layout back;

    (void)unused;
    assert_int_equal(kvbm_layout_make(&layout, &example, NULL), KVT_OK);
    kvbm_layout_serialize(&layout, bytes);
    assert_int_equal(kvbm_layout_deserialize(&back, bytes, sizeof(bytes), NULL), KVT_OK);
    assert_memory_equal(&back.geometry, &layout.geometry, sizeof(layout.geometry));
    assert_int_equal(back.fingerprint, layout.fingerprint);
    assert_int_equal(back.block_stride, layout.block_stride);
}

static void
every_damaged_bit_is_refused(void **unused)
{
    uint8_t bytes[KVBM_LAYOUT_BYTES];
    struct kvbm_layout layout;
    struct kvbm_layout back;

    (void)unused;
    assert_int_equal(kvbm_layout_make(&layout, &example, NULL), KVT_OK);
    kvbm_layout_serialize(&layout, bytes);
    for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(kvbm_layout_deserialize(&back, bytes, sizeof(bytes), NULL), KVT_OK);
        assert_int_equal(back.block_size, 0);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(kvbm_layout_deserialize(&back, bytes, sizeof(bytes) - 1, NULL), KVT_INVALID);
}

/* The members a mismatch must name, and a legal other value of each. */
static void
every_mismatch_is_named(void **unused)
{
    struct kvt_geometry others[9];
    static const char *const names[9] = {"kind",      "layers",    "outer",
                                         "page_size", "inner_dim", "dtype_bytes",
                                         "alignment", "tp_size",   "heads"};
    struct kvt_geometry headed = example;
    struct kvbm_layout other_order;
    struct kvbm_layout ours;

    (void)unused;
    for (size_t i = 0; i < 9; i++)
        others[i] = example;
    others[0].kind = KVT_LAYOUT_LAYERED;
    others[1].layers = 4;
    others[2].outer = 1;
    others[3].page_size = 32;
    others[4].inner_dim = 6;
    others[5].dtype_bytes = 4;
    others[6].alignment = 256;
    others[7].tp_size = 8;
    others[8].heads = 5;
    assert_int_equal(kvbm_layout_make(&ours, &example, NULL), KVT_OK);
    for (size_t i = 0; i < 9; i++) {
        struct kvbm_layout theirs;
        struct kvt_error err;

        assert_int_equal(kvbm_layout_make(&theirs, &others[i], NULL), KVT_OK);
        assert_int_not_equal(theirs.fingerprint, ours.fingerprint);
        assert_int_equal(kvbm_layout_compatible(&ours, &theirs, &err), KVT_PRECONDITION);
        assert_non_null(strstr(err.text, names[i]));
    }
    headed.heads = 5;
    assert_int_equal(kvbm_layout_make(&ours, &headed, NULL), KVT_OK);
    headed.order = KVT_LAYOUT_HND;
    assert_int_equal(kvbm_layout_make(&other_order, &headed, NULL), KVT_OK);
    assert_int_not_equal(other_order.fingerprint, ours.fingerprint);
    assert_int_equal(kvbm_layout_compatible(&ours, &other_order, NULL), KVT_PRECONDITION);
}

static void
ranks_of_one_size_are_compatible(void **unused)
{
    struct kvt_geometry other = example;
    struct kvbm_layout ours;
    struct kvbm_layout theirs;

    (void)unused;
    other.tp_rank = 3;
    assert_int_equal(kvbm_layout_make(&ours, &example, NULL), KVT_OK);
    assert_int_equal(kvbm_layout_make(&theirs, &other, NULL), KVT_OK);
    assert_int_equal(theirs.fingerprint, ours.fingerprint);
    assert_int_equal(kvbm_layout_compatible(&ours, &theirs, NULL), KVT_OK);
}

static void
limits(void **unused)
{
    const struct {
        size_t offset;
        uint32_t bad[3];
    } rows[] = {
        {offsetof(struct kvt_geometry, layers), {0, KVT_LAYERS_MAX + 1, UINT32_MAX}},
        {offsetof(struct kvt_geometry, outer), {0, 3, UINT32_MAX}},
        {offsetof(struct kvt_geometry, page_size), {0, 3, 2 * KVT_PAGE_SIZE_MAX}},
        {offsetof(struct kvt_geometry, inner_dim), {0, KVT_INNER_DIM_MAX + 1, UINT32_MAX}},
        {offsetof(struct kvt_geometry, dtype_bytes), {0, 3, 16}},
        {offsetof(struct kvt_geometry, alignment), {0, 3, UINT32_MAX}},
        {offsetof(struct kvt_geometry, tp_size), {0, KVT_RANKS_MAX + 1, UINT32_MAX}},
        {offsetof(struct kvt_geometry, tp_rank), {4, 5, UINT32_MAX}},
    };
    struct kvt_geometry geometry = example;
    struct kvbm_layout layout;

    (void)unused;
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        for (size_t i = 0; i < 3; i++) {
            geometry = example;
            memcpy((uint8_t *)&geometry + rows[row].offset, &rows[row].bad[i], sizeof(uint32_t));
            assert_int_not_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
            assert_int_equal(layout.block_size, 0);
        }
    }
    geometry = example;
    geometry.kind = (enum kvt_layout_kind)9;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_INVALID);
    geometry.kind = KVT_LAYOUT_UNIVERSAL; /* wants heads */
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_INVALID);
    geometry.kind = KVT_LAYOUT_CONTIGUOUS;
    geometry.order = KVT_LAYOUT_HND;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_INVALID);
    geometry.heads = 2; /* 5 elements */
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_INVALID);
    geometry.heads = 5;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    geometry.kind = KVT_LAYOUT_UNIVERSAL; /* has no order */
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_INVALID);
    geometry.order = (enum kvt_layout_order)7;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_INVALID);
    geometry = example;
    geometry.layers = KVT_LAYERS_MAX;
    geometry.page_size = KVT_PAGE_SIZE_MAX;
    geometry.inner_dim = KVT_INNER_DIM_MAX;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_RANGE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contiguous_strides),
        cmocka_unit_test(layered_strides),
        cmocka_unit_test(universal_strides),
        cmocka_unit_test(orders_nest_tokens_and_heads),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(version_1_is_still_read),
        cmocka_unit_test(every_damaged_bit_is_refused),
        cmocka_unit_test(every_mismatch_is_named),
        cmocka_unit_test(ranks_of_one_size_are_compatible),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
