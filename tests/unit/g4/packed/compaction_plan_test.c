/*
 * What is tested: g4/packed/compaction_plan.h: what is worth packing; which segments are copied
 * forward, on every edge of the settings; and limits of the settings.
 */
#include <string.h>

#include "g4/packed/compaction_plan.h"

#include "tests/support/seed.h"

enum { SEGMENTS = 8, BLOCKS = 10, BODY = 100 };

/* A segment with so many live blocks of ten. */
static struct g4_manifest_segment
segment(uint32_t live)
{
    return (struct g4_manifest_segment){
        .size = G4_SEGMENT_HEADER_SIZE + BLOCKS * (BODY + G4_SEGMENT_ENTRY_SIZE) +
                G4_SEGMENT_TRAILER_SIZE,
        .blocks = BLOCKS,
        .live_blocks = live,
        .live_bytes = (uint64_t)live * BODY,
    };
}

static void
packing_has_to_pay(void **state)
{
    struct g4_compaction_settings settings = g4_compaction_defaults();

    (void)state;
    settings.bytes_min = 1000;
    settings.mean_max = 100;
    assert_false(g4_compaction_plan_pack(&settings, 0, 0));
    assert_false(g4_compaction_plan_pack(&settings, 10, 999));
    assert_true(g4_compaction_plan_pack(&settings, 10, 1000));
    assert_true(g4_compaction_plan_pack(&settings, 10, 1009));
    assert_false(g4_compaction_plan_pack(&settings, 10, 1010)); /* 101 bytes on average */
    assert_true(g4_compaction_plan_pack(&settings, 1000, 1000));
}

static void
dead_segments_are_copied_forward(void **state)
{
    struct g4_manifest_segment segments[SEGMENTS];
    struct g4_manifest manifest = {.segments = segments, .segment_count = SEGMENTS};
    struct g4_compaction_settings settings = g4_compaction_defaults();
    bool chosen[SEGMENTS];

    (void)state;
    settings.segment_bytes = segment(1).size; /* none of them is small */
    for (uint32_t i = 0; i < SEGMENTS; i++)
        segments[i] = segment(BLOCKS - i); /* 100 % to 30 % */
    segments[6].pending = 1;
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 10000, chosen), 4);
    for (size_t i = 0; i < SEGMENTS; i++)
        assert_int_equal(chosen[i], i >= 3 && i != 6); /* 80 % is enough */

    /* With room for 800 bytes: first 30 %, less than half of what is wanted; then 70 % no more. */
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 899, chosen), 2);
    assert_true(chosen[7] && chosen[5] + chosen[4] + chosen[3] == 1);
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 299, chosen), 0);
    settings.live_min_ppm = 0;
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 10000, chosen), 0);
    settings.live_min_ppm = 1000000;
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 10000, chosen), 6);
    assert_false(chosen[0]);
}

static void
small_segments_come_together(void **state)
{
    struct g4_manifest_segment segments[SEGMENTS];
    struct g4_manifest manifest = {.segments = segments, .segment_count = 3};
    struct g4_compaction_settings settings = g4_compaction_defaults();
    bool chosen[SEGMENTS];

    (void)state;
    for (size_t i = 0; i < SEGMENTS; i++)
        segments[i] = segment(BLOCKS);
    settings.segment_bytes = 2 * segments[0].size;
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 10000, chosen), 0);
    manifest.segment_count = 4;
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 10000, chosen), 4);
    assert_true(chosen[0] && chosen[1] && chosen[2] && chosen[3]);
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 3999, chosen), 0);
    settings.segment_bytes--;
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 10000, chosen), 0);
    assert_false(chosen[0]);
    settings.segment_bytes++;
    settings.segment_blocks = 2 * BLOCKS - 1; /* full of blocks, if not of bytes */
    assert_int_equal(g4_compaction_plan_forward(&settings, &manifest, 10000, chosen), 0);
}

static void
settings_have_limits(void **state)
{
    const struct g4_compaction_settings good = g4_compaction_defaults();
    struct g4_compaction_settings settings = good;
    struct kvt_error err;

    (void)state;
    assert_int_equal(g4_compaction_settings_check(&good, &err), KVT_OK);
    settings.segment_bytes = G4_SEGMENT_BYTES_MAX + 1;
    assert_int_equal(g4_compaction_settings_check(&settings, &err), KVT_RANGE);
    settings = good;
    settings.block_max = good.segment_bytes;
    assert_int_equal(g4_compaction_settings_check(&settings, &err), KVT_RANGE);
    settings.block_max = 0;
    assert_int_equal(g4_compaction_settings_check(&settings, &err), KVT_RANGE);
    settings = good;
    settings.segment_blocks = 0;
    assert_int_equal(g4_compaction_settings_check(&settings, &err), KVT_RANGE);
    settings.segment_blocks = G4_SEGMENT_BLOCKS_MAX + 1;
    assert_int_equal(g4_compaction_settings_check(&settings, &err), KVT_RANGE);
    settings = good;
    settings.live_min_ppm = 1000001;
    assert_int_equal(g4_compaction_settings_check(&settings, &err), KVT_RANGE);
    assert_true(strstr(err.text, "1000001") != NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_has_to_pay),
        cmocka_unit_test(dead_segments_are_copied_forward),
        cmocka_unit_test(small_segments_come_together),
        cmocka_unit_test(settings_have_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
