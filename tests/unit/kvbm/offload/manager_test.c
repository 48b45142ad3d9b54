/*
 * What is tested: kvbm/offload/manager.h, step by step: what a watermark, a demand, rest and a
 * push move down each edge of every set of tiers, and what filters keep; that what goes down comes
 * up the same, byte by byte; that a step waits for nothing and a block on its way is not reused;
 * refusals, absences, unreadable blocks, ends in the middle, and failing allocations.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvbm/volume/volume_kinds.h"
#include "kvbm/volume/volume_storage.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/offload/manager_bed.h"
#include "tests/unit/kvbm/support/gate.h"

static struct kvt_offload_stats
edge(struct bed *bed, enum kvt_tier from)
{
    struct kvt_offload_stats stats;

    assert_true(kvbm_manager_stats(bed->manager, from, &stats));
    assert_int_equal(stats.moving, 0);
    return stats;
}

/* ---- down ---- */

/* Every block that a tier loses is one tier lower, as far as there is one, and none is lost on the
 * way; what comes back up is what went down. */
static void
goes_down_and_comes_back(unsigned tiers, unsigned gated)
{
    enum { COUNT = 100 };
    struct bed *bed = bed_open(tiers, gated);
    enum kvt_tier top = KVT_TIER_G1;
    uint64_t lost = 0;

    while ((tiers & KVT_TIER_MASK(top)) == 0)
        top = (enum kvt_tier)(top + 1);
    bed->options.room_wait_ms = 10000; /* however busy the machine is */
    bed_start(bed);
    for (uint64_t hash = 1; hash <= COUNT; hash++) {
        bed_make(bed, top, hash);
        if (hash % 4 == 0)
            assert_true(bed_settle(bed));
    }
    assert_true(bed_settle(bed));
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++) {
        struct kvt_offload_stats stats;

        if (bed_pool(bed, (enum kvt_tier)tier) == NULL)
            continue;
        if (!kvbm_manager_stats(bed->manager, (enum kvt_tier)tier, &stats))
            continue;
        assert_true(bed_used(bed, (enum kvt_tier)tier) <= BED_BLOCKS * 3 / 4);
        assert_true(stats.blocks > 0);
        assert_int_equal(stats.bytes, stats.blocks * BED_SIZE);
        assert_int_equal(kvbm_pool_stats(bed_pool(bed, (enum kvt_tier)tier)).evictions_unsaved, 0);
    }
    for (uint64_t hash = 1; hash <= COUNT; hash++) {
        struct kvbm_label label;
        struct kvt_handle handle;
        struct kvt_onboard_result result;

        bed_chain(&label, hash, 1);
        if (top > KVT_TIER_G2)
            continue;
        result =
            bed_fetch(bed, &(struct kvbm_onboard_request){.labels = &label, .count = 1}, &handle);
        if (result.arrived == 0) {
            assert_int_equal(result.status, KVT_NOTFOUND);
            lost++;
            continue;
        }
        assert_int_equal(result.status, KVT_OK);
        assert_true(bed_is_right(bed, top, handle, hash));
        kvbm_pool_drop(bed_pool(bed, top), handle);
    }
    if ((tiers & G4) != 0)
        assert_int_equal(lost, 0); /* it has room for all */
    bed_close(bed);
}

static void
every_set_of_tiers(void **unused)
{
    (void)unused;
    for (unsigned tiers = 0; tiers <= ALL; tiers += 2) {
        if (__builtin_popcount(tiers) < 2)
            continue;
        goes_down_and_comes_back(tiers, 0);
        goes_down_and_comes_back(tiers, G1 | G2); /* and none of them with addresses */
    }
}

static void
a_watermark_lowers_the_coldest(void **unused)
{
    struct bed *bed = bed_open(G1 | G2, 0);

    (void)unused;
    bed_start(bed);
    for (uint64_t hash = 1; hash <= BED_BLOCKS * 3 / 4; hash++)
        bed_make(bed, KVT_TIER_G1, hash);
    assert_true(bed_settle(bed));
    assert_int_equal(edge(bed, KVT_TIER_G1).lowered, 0); /* not above it */
    bed_make(bed, KVT_TIER_G1, 100);
    assert_true(bed_settle(bed));
    assert_int_equal(bed_used(bed, KVT_TIER_G1), BED_BLOCKS / 2);
    assert_int_equal(edge(bed, KVT_TIER_G1).lowered, 9);
    for (uint64_t hash = 1; hash <= 9; hash++) {
        assert_false(bed_has(bed, KVT_TIER_G1, hash));
        assert_true(bed_has(bed, KVT_TIER_G2, hash));
    }
    assert_true(bed_has(bed, KVT_TIER_G1, 10));
    /* What is below already goes without a copy. */
    bed_make(bed, KVT_TIER_G2, 10);
    kvbm_manager_make_room(bed->manager, KVT_TIER_G1, BED_BLOCKS / 2 + 1, 0);
    assert_true(bed_settle(bed));
    assert_false(bed_has(bed, KVT_TIER_G1, 10));
    assert_int_equal(edge(bed, KVT_TIER_G1).present, 1);
    assert_int_equal(edge(bed, KVT_TIER_G1).blocks, 9);
    bed_close(bed);
}

/* Rest is counted in steps.  A copy ahead of time leaves the block, and the order, as they were. */
static void
what_rests_is_copied_and_stays(void **unused)
{
    struct bed *bed = bed_open(G1 | G2, 0);
    struct kvt_handle handle;

    (void)unused;
    bed->options.tiers[KVT_TIER_G1].idle_iterations = 100;
    bed_start(bed);
    for (uint64_t hash = 1; hash <= 10; hash++)
        bed_make(bed, KVT_TIER_G1, hash);
    for (int i = 0; i < 90; i++)
        kvbm_manager_step(bed->manager);
    assert_int_equal(edge(bed, KVT_TIER_G1).idle, 0);
    assert_int_equal(kvbm_pool_find(bed_pool(bed, KVT_TIER_G1), 3, &handle), KVT_OK);
    kvbm_pool_drop(bed_pool(bed, KVT_TIER_G1), handle); /* it was used: begins anew */
    for (int i = 0; i < 12; i++)
        kvbm_manager_step(bed->manager);
    assert_true(bed_settle(bed));
    assert_int_equal(edge(bed, KVT_TIER_G1).idle, 9);
    assert_int_equal(edge(bed, KVT_TIER_G1).blocks, 9);
    assert_int_equal(bed_used(bed, KVT_TIER_G1), 10);
    assert_false(bed_has(bed, KVT_TIER_G2, 3));
    for (int i = 0; i < 200; i++)
        kvbm_manager_step(bed->manager);
    assert_true(bed_settle(bed));
    assert_int_equal(edge(bed, KVT_TIER_G1).idle, 10); /* none twice */
    for (uint64_t i = 0; i < 10; i++) {
        static const uint64_t order[] = {1, 2, 4, 5, 6, 7, 8, 9, 10, 3};

        assert_int_equal(kvbm_pool_coldest(bed_pool(bed, KVT_TIER_G1), 1, &handle), 1);
        assert_int_equal(kvbm_pool_label(bed_pool(bed, KVT_TIER_G1), handle).id.hash, order[i]);
        assert_int_equal(kvbm_pool_evict(bed_pool(bed, KVT_TIER_G1), handle), KVT_OK);
    }
    bed_close(bed);
}

static bool
is_even(void *arg, enum kvt_tier from, const struct kvbm_label *label, uint32_t priority)
{
    assert_ptr_equal(arg, &is_even);
    assert_int_equal(from, KVT_TIER_G1);
    assert_true(priority >= 4);
    return label->id.hash % 2 == 0;
}

/* Hash 10 * priority + position, for priorities 0 to 7 and positions 0 to 3. */
static void
filters_say_what_may_go(void **unused)
{
    struct bed *bed = bed_open(G1 | G2, 0);
    struct kvbm_manager_tier *tier = &bed->options.tiers[KVT_TIER_G1];

    (void)unused;
    tier->min_priority = 4;
    tier->position_from = 1;
    tier->position_to = 3;
    tier->filter = is_even;
    tier->filter_arg = (void *)&is_even;
    tier->low_ppm = 0;
    bed_start(bed);
    for (uint32_t i = 0; i < BED_BLOCKS; i++) {
        const struct kvt_handle handle =
            bed_make_held(bed, KVT_TIER_G1, 10 * (i / 4) + i % 4 + 100, i % 4);

        kvbm_pool_set_priority(bed_pool(bed, KVT_TIER_G1), handle, i / 4);
        kvbm_pool_drop(bed_pool(bed, KVT_TIER_G1), handle);
    }
    assert_true(bed_settle(bed));
    for (uint32_t i = 0; i < BED_BLOCKS; i++) {
        const uint64_t hash = 10 * (i / 4) + i % 4 + 100;
        const bool goes = i / 4 >= 4 && (i % 4 == 1 || i % 4 == 2) && hash % 2 == 0;

        assert_int_equal(bed_has(bed, KVT_TIER_G2, hash), goes);
        assert_int_equal(bed_has(bed, KVT_TIER_G1, hash), !goes);
    }
    assert_int_equal(edge(bed, KVT_TIER_G1).blocks, 4);
    assert_int_equal(edge(bed, KVT_TIER_G1).filtered, BED_BLOCKS - 4);
    for (int i = 0; i < 20; i++)
        kvbm_manager_step(bed->manager);
    assert_int_equal(edge(bed, KVT_TIER_G1).filtered, BED_BLOCKS - 4); /* asked once */
    bed_close(bed);
}

static void
pushed_blocks_are_copied_now(void **unused)
{
    struct bed *bed = bed_open(G1 | G3, 0);
    struct kvt_handle handles[17];

    (void)unused;
    bed_start(bed);
    for (uint64_t i = 0; i < 17; i++)
        handles[i] = bed_make_held(bed, KVT_TIER_G1, i + 1, 0);
    for (uint64_t i = 0; i < 16; i++)
        assert_int_equal(kvbm_manager_push(bed->manager, handles[i], 0), KVT_OK);
    assert_int_equal(kvbm_manager_push(bed->manager, handles[16], 0), KVT_AGAIN);
    kvbm_pool_drop_all(bed_pool(bed, KVT_TIER_G1), handles, 17);
    assert_true(bed_settle(bed));
    for (uint64_t i = 0; i < 16; i++)
        assert_true(bed_has(bed, KVT_TIER_G1, i + 1) && bed_has(bed, KVT_TIER_G3, i + 1));
    assert_int_equal(edge(bed, KVT_TIER_G1).pushed, 16);
    assert_int_equal(edge(bed, KVT_TIER_G1).blocks, 16);
    assert_int_equal(edge(bed, KVT_TIER_G1).failed, 1);
    assert_int_equal(kvbm_pool_find(bed_pool(bed, KVT_TIER_G1), 5, &handles[0]), KVT_OK);
    assert_int_equal(kvbm_manager_push(bed->manager, handles[0], 0), KVT_OK);
    kvbm_pool_drop(bed_pool(bed, KVT_TIER_G1), handles[0]);
    assert_true(bed_settle(bed));
    assert_int_equal(edge(bed, KVT_TIER_G1).present, 1);
    bed_close(bed);
}

/* The gate holds copies in their middle.  Steps go on, and what is on its way is nobody's to
 * take. */
static void
a_step_waits_for_nothing(void **unused)
{
    struct bed *bed = bed_open(G1 | G3, 0);
    struct kvbm_pool *pool = bed_pool(bed, KVT_TIER_G1);
    struct kvt_handle handles[BED_BLOCKS];
    uint64_t longest_ms = 0;
    uint32_t active;

    (void)unused;
    bed_start(bed);
    gate_shut(bed->options.tiers[KVT_TIER_G3].storage, true);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++)
        bed_make(bed, KVT_TIER_G1, hash);
    for (int i = 0; i < 200; i++) {
        const uint64_t began_ms = kvt_clock_mono_ms();

        kvbm_manager_step(bed->manager);
        if (kvt_clock_mono_ms() - began_ms > longest_ms)
            longest_ms = kvt_clock_mono_ms() - began_ms;
    }
    assert_true(longest_ms < 1000); /* the gate is shut for ever */
    gate_wait_for_visitor(bed->options.tiers[KVT_TIER_G3].storage);
    active = kvbm_pool_stats(pool).active;
    assert_true(active > 0);
    assert_int_equal(kvbm_pool_allocate(pool, BED_BLOCKS - active + 1, handles), KVT_AGAIN);
    assert_int_equal(kvbm_pool_allocate(pool, BED_BLOCKS - active, handles), KVT_OK);
    for (uint32_t i = 0; i < BED_BLOCKS - active; i++)
        memset(kvbm_storage_address(bed->options.tiers[KVT_TIER_G1].storage, handles[i].block),
               0xff, BED_SIZE);
    assert_false(kvbm_manager_drain(bed->manager, 20));
    gate_shut(bed->options.tiers[KVT_TIER_G3].storage, false);
    kvbm_pool_drop_all(pool, handles, BED_BLOCKS - active);
    assert_true(bed_settle(bed));
    assert_int_equal(edge(bed, KVT_TIER_G1).blocks, active);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++) {
        struct kvt_handle handle;

        if (kvbm_pool_find(bed_pool(bed, KVT_TIER_G3), hash, &handle) != KVT_OK)
            continue;
        assert_true(bed_is_right(bed, KVT_TIER_G3, handle, hash));
        kvbm_pool_drop(bed_pool(bed, KVT_TIER_G3), handle);
    }
    bed_close(bed);
}

enum { DEADLINE_MS = 10000 };

static void
a_refusal_is_final_until_somebody_looks(void **unused)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct bed *bed = bed_open(G1 | G4, 0);
    struct kvt_handle handle;
    unsigned puts;

    (void)unused;
    atomic_store(&bed->answer, KVT_FULL);
    bed_start(bed);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++)
        bed_make(bed, KVT_TIER_G1, hash);
    assert_true(bed_settle(bed));
    assert_int_equal(edge(bed, KVT_TIER_G1).full, edge(bed, KVT_TIER_G1).failed);
    assert_int_equal(edge(bed, KVT_TIER_G1).blocks, 0);
    puts = atomic_load(&bed->puts);
    assert_true(puts > 0 && puts <= BED_BLOCKS);
    assert_int_equal(bed_used(bed, KVT_TIER_G1), BED_BLOCKS); /* none was lost for it */
    for (int i = 0; i < 20; i++)
        assert_true(bed_settle(bed));
    assert_int_equal(atomic_load(&bed->puts), puts);
    /* Found anew, it may go again; an absence is no refusal, and is tried again by itself. */
    atomic_store(&bed->answer, KVT_UNAVAILABLE);
    assert_int_equal(kvbm_pool_find(bed_pool(bed, KVT_TIER_G1), 1, &handle), KVT_OK);
    kvbm_pool_drop(bed_pool(bed, KVT_TIER_G1), handle);
    while (atomic_load(&bed->puts) <= puts + 1) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvbm_manager_step(bed->manager);
        kvt_clock_sleep_ms(1);
    }
    atomic_store(&bed->answer, KVT_OK);
    assert_true(bed_settle(bed));
    assert_true(bed_has(bed, KVT_TIER_G4, 1) && !bed_has(bed, KVT_TIER_G1, 1));
    bed_close(bed);
}

static void
an_absent_tier_is_left_alone_for_a_while(void **unused)
{
    struct bed *bed = bed_open(G1 | G4, 0);
    unsigned puts;

    (void)unused;
    bed->options.retry_ms = 60000;
    atomic_store(&bed->answer, KVT_UNAVAILABLE);
    bed_start(bed);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++)
        bed_make(bed, KVT_TIER_G1, hash);
    assert_true(bed_settle(bed));
    puts = atomic_load(&bed->puts);
    for (int i = 0; i < 20; i++)
        assert_true(bed_settle(bed));
    assert_int_equal(atomic_load(&bed->puts), puts);
    /* Who needs room meanwhile does not wait for it. */
    {
        const uint64_t began_ms = kvt_clock_mono_ms();

        kvbm_manager_make_room(bed->manager, KVT_TIER_G1, BED_BLOCKS, 5000);
        assert_true(kvt_clock_mono_ms() - began_ms < 4000);
    }
    bed_close(bed);
}

/* A tier that is a volume of its own: what is lowered into it lies there under its name, and goes
 * on from there.  A number that was given anew is another block's. */
static void
a_remote_tier_has_blocks_by_name(void **unused)
{
    enum { COUNT = 200, VOLUME = 1 };
    struct bed *bed = bed_open(G1 | G2 | G3 | G4, 0);
    struct kvbm_manager_tier *g3 = &bed->options.tiers[KVT_TIER_G3];
    struct kvbm_volumes *volumes;
    struct kvbm_volume *memory;
    unsigned there = 0;

    (void)unused;
    assert_int_equal(kvbm_volumes_new(&volumes, NULL), KVT_OK);
    assert_int_equal(kvbm_volume_open_ram(
                         &memory,
                         &(struct kvbm_volume_options){.blocks = 2 * COUNT, .block_size = BED_SIZE},
                         NULL),
                     KVT_OK);
    assert_int_equal(kvbm_volumes_register(volumes, VOLUME, memory, 8, NULL), KVT_OK);
    kvbm_storage_close(g3->storage);
    assert_int_equal(
        kvbm_storage_open_volume(&g3->storage,
                                 &(struct kvbm_storage_volume_options){.set = volumes,
                                                                       .volume = VOLUME,
                                                                       .block_count = BED_BLOCKS,
                                                                       .block_size = BED_SIZE},
                                 NULL),
        KVT_OK);
    bed_start(bed);
    for (uint64_t hash = 1; hash <= COUNT; hash++) {
        bed_make(bed, KVT_TIER_G2, hash);
        assert_true(bed_settle(bed));
    }
    for (uint64_t hash = 1; hash <= COUNT; hash++) {
        struct kvt_handle handle;

        if (kvbm_pool_find(g3->pool, hash, &handle) != KVT_OK)
            continue;
        assert_true(bed_is_right(bed, KVT_TIER_G3, handle, hash));
        kvbm_pool_drop(g3->pool, handle);
        there++;
    }
    assert_true(there > 0);
    assert_true(atomic_load(&bed->puts) > COUNT / 2);
    kvbm_volumes_free(volumes);
    bed_close(bed);
}

/* What only makes room need not be copied when any lower tier has it; what is pushed is. */
static void
what_lies_lower_just_goes(void **unused)
{
    struct bed *bed = bed_open(G1 | G2 | G3, 0);
    struct kvt_handle handle;

    (void)unused;
    bed->options.tiers[KVT_TIER_G1].high_ppm = 1000000;
    bed_start(bed);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++) {
        bed_make(bed, KVT_TIER_G3, hash);
        bed_make(bed, KVT_TIER_G1, hash);
    }
    kvbm_manager_make_room(bed->manager, KVT_TIER_G1, 4, 0);
    kvbm_manager_step(bed->manager);
    assert_true(kvbm_pool_stats(bed_pool(bed, KVT_TIER_G1)).free >= 4);
    assert_int_equal(kvbm_pool_stats(bed_pool(bed, KVT_TIER_G2)).free, BED_BLOCKS);
    assert_int_equal(kvbm_pool_find(bed_pool(bed, KVT_TIER_G1), BED_BLOCKS, &handle), KVT_OK);
    assert_int_equal(kvbm_manager_push(bed->manager, handle, 0), KVT_OK);
    kvbm_pool_drop(bed_pool(bed, KVT_TIER_G1), handle);
    assert_true(bed_settle(bed));
    assert_true(kvbm_pool_has(bed_pool(bed, KVT_TIER_G2), BED_BLOCKS));
    bed_close(bed);
}

/* Batches that wait for their turn have room below already: to lower takes it for two at most. */
static void
lowering_takes_little_room_ahead(void **unused)
{
    enum { BATCH = 2 }; /* a quarter of the pool, for four */
    struct bed *bed = bed_open(G1 | G3, 0);

    (void)unused;
    bed_start(bed);
    gate_shut(bed->options.tiers[KVT_TIER_G3].storage, true);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++)
        bed_make(bed, KVT_TIER_G1, hash);
    for (int i = 0; i < 5; i++)
        kvbm_manager_step(bed->manager);
    assert_int_equal(bed_used(bed, KVT_TIER_G3), 2 * BATCH);
    gate_shut(bed->options.tiers[KVT_TIER_G3].storage, false);
    assert_true(bed_settle(bed));
    assert_int_equal(bed_used(bed, KVT_TIER_G1), BED_BLOCKS / 2);
    bed_close(bed);
}

/* How long room is waited for is each time's own: what waited once, and wanted none any more, does
 * not push the coldest out unsaved when it wants some again. */
static void
each_want_of_room_waits_by_itself(void **unused)
{
    enum { WAIT = 100 };
    struct bed *bed = bed_open(G1 | G2 | G3, 0);

    (void)unused;
    bed->options.room_wait_ms = WAIT;
    bed_start(bed);
    gate_shut(bed->options.tiers[KVT_TIER_G3].storage, true);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++) {
        bed_make(bed, KVT_TIER_G2, hash);
        bed_make(bed, KVT_TIER_G1, 100 + hash);
    }
    kvbm_manager_step(bed->manager); /* G1 is above its watermark, G2 waits for the gate */
    assert_true(kvbm_pool_clear(bed_pool(bed, KVT_TIER_G1)) > 0);
    kvbm_manager_step(bed->manager);
    kvt_clock_sleep_ms(2 * WAIT);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++)
        bed_make(bed, KVT_TIER_G1, 200 + hash);
    kvbm_manager_step(bed->manager);
    assert_int_equal(kvbm_pool_stats(bed_pool(bed, KVT_TIER_G2)).evictions_unsaved, 0);
    gate_shut(bed->options.tiers[KVT_TIER_G3].storage, false);
    assert_true(bed_settle(bed));
    bed_close(bed);
}

static void
on_lost(void *arg, enum kvt_tier tier, uint64_t hash, size_t count)
{
    assert_int_equal(tier, KVT_TIER_G3);
    assert_int_equal(count, 1);
    atomic_fetch_add((_Atomic uint64_t *)arg, hash);
}

static void
unreadable_blocks_are_dropped(void **unused)
{
    struct bed *bed = bed_open(G3 | G4, 0);
    _Atomic uint64_t lost = 0;
    uint64_t bad = 0;

    (void)unused;
    bed->options.lost = on_lost;
    bed->options.lost_arg = &lost;
    bed_start(bed);
    gate_fail(bed->options.tiers[KVT_TIER_G3].storage, 0, KVT_CORRUPT, false);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++)
        bed_make(bed, KVT_TIER_G3, hash);
    for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++) {
        struct kvt_handle handle;

        assert_int_equal(kvbm_pool_find(bed_pool(bed, KVT_TIER_G3), hash, &handle), KVT_OK);
        kvbm_pool_drop(bed_pool(bed, KVT_TIER_G3), handle);
        bad = handle.block == 0 ? hash : bad;
    }
    kvbm_manager_make_room(bed->manager, KVT_TIER_G3, BED_BLOCKS, 0);
    assert_true(bed_settle(bed));
    assert_int_equal(lost, bad); /* said once */
    assert_int_equal(edge(bed, KVT_TIER_G3).corrupt, 1);
    assert_int_equal(edge(bed, KVT_TIER_G3).failed, 1);
    assert_int_equal(edge(bed, KVT_TIER_G3).blocks, BED_BLOCKS - 1);
    assert_int_equal(bed_used(bed, KVT_TIER_G3), 0);
    bed_close(bed);
}

/* ---- ends ---- */

static void
ends_while_everything_moves(void **unused)
{
    (void)unused;
    for (int opens = 0; opens < 2; opens++) {
        struct bed *bed = bed_open(ALL, 0);
        struct kvbm_label labels[8];
        struct kvbm_onboard *onboard;

        bed_start(bed);
        bed_chain(labels, 300, 8);
        for (uint64_t i = 0; i < 8; i++)
            bed_make_far(bed, 300 + i);
        for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
            for (uint64_t hash = 1; hash <= BED_BLOCKS; hash++)
                bed_make(bed, (enum kvt_tier)tier, 100 * tier + hash);
        for (int i = 0; i < 8; i++) {
            struct kvt_handle handle;

            assert_int_equal(kvbm_pool_find(bed_pool(bed, KVT_TIER_G1), 101 + (uint64_t)i, &handle),
                             KVT_OK);
            assert_int_equal(kvbm_manager_push(bed->manager, handle, 0), KVT_OK);
            kvbm_pool_drop(bed_pool(bed, KVT_TIER_G1), handle);
        }
        assert_int_equal(
            kvbm_onboard_start(&onboard, bed->manager,
                               &(struct kvbm_onboard_request){.labels = labels, .count = 8}, NULL),
            KVT_OK);
        for (int i = 0; i < opens * 5; i++)
            kvbm_manager_step(bed->manager);
        kvbm_onboard_release(onboard);
        bed_close(bed); /* which frees the manager first */
    }
}

static bool
attempt(void *arg)
{
    struct bed *bed = arg;
    const enum kvt_err rc = kvbm_manager_new(&bed->manager, &bed->options, NULL);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && bed->manager == NULL));
    kvbm_manager_free(bed->manager);
    bed->manager = NULL;
    return rc == KVT_OK;
}

static bool
attempt_onboard(void *arg)
{
    struct bed *bed = arg;
    struct kvbm_label labels[3];
    struct kvbm_onboard *onboard;
    enum kvt_err rc;

    bed_chain(labels, 1, 3);
    rc = kvbm_onboard_start(&onboard, bed->manager,
                            &(struct kvbm_onboard_request){.labels = labels, .count = 3}, NULL);
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && onboard == NULL));
    kvbm_onboard_release(onboard);
    if (rc == KVT_OK)
        kvbm_manager_step(bed->manager); /* buries it */
    return rc == KVT_OK;
}

static void
survives_every_allocation_failure(void **unused)
{
    struct bed *bed = bed_open(ALL, G1 | G2);

    (void)unused;
    assert_true(test_sweep_allocations(attempt, bed) > 3);
    bed->options.iteration_ms = 1;
    assert_true(test_sweep_allocations(attempt, bed) > 3);
    bed->options.iteration_ms = 0;
    bed_start(bed);
    assert_true(test_sweep_allocations(attempt_onboard, bed) > 3);
    bed_close(bed);
}

static void
impossible_options_are_refused(void **unused)
{
    struct bed *bed = bed_open(ALL, 0);
    const struct kvbm_manager_options good = bed->options;
    struct kvbm_manager *manager;
    struct kvbm_manager_options bad[6] = {good, good, good, good, good, good};
    struct kvbm_label labels[1];
    struct kvbm_onboard *onboard;

    (void)unused;
    bad[0].tiers[KVT_TIER_G1].low_ppm = bad[0].tiers[KVT_TIER_G1].high_ppm;
    bad[1].tiers[KVT_TIER_G2].high_ppm = 1000001;
    bad[2].queue_max = 0;
    bad[3].transfer = NULL;
    bad[4].tiers[KVT_TIER_G3].storage = bed->bounce; /* of another count */
    memset(bad[5].tiers, 0, sizeof(bad[5].tiers));
    for (size_t i = 0; i < 6; i++) {
        struct kvt_error err;

        assert_int_equal(kvbm_manager_new(&manager, &bad[i], &err), KVT_INVALID);
        assert_null(manager);
    }
    bed_start(bed);
    bed_chain(labels, 1, 1);
    for (size_t i = 0; i < 3; i++) {
        const struct kvbm_onboard_request requests[3] = {
            {.labels = labels, .count = 0},
            {.labels = labels, .count = KVT_ONBOARD_BLOCKS + 1},
            {.labels = labels, .count = 1, .target = KVT_TIER_G3},
        };

        assert_int_equal(kvbm_onboard_start(&onboard, bed->manager, &requests[i], NULL),
                         KVT_INVALID);
        assert_null(onboard);
    }
    bed_close(bed);
}

static void
only_so_many_onboards(void **unused)
{
    struct bed *bed = bed_open(G1 | G2, 0);
    struct kvbm_onboard *onboards_[KVT_ONBOARDS_MAX];
    struct kvbm_onboard *more;
    struct kvbm_label label;
    const struct kvbm_onboard_request request = {.labels = &label, .count = 1};

    (void)unused;
    bed_start(bed);
    bed_chain(&label, 1, 1);
    for (size_t i = 0; i < KVT_ONBOARDS_MAX; i++)
        assert_int_equal(kvbm_onboard_start(&onboards_[i], bed->manager, &request, NULL), KVT_OK);
    assert_int_equal(kvbm_onboard_start(&more, bed->manager, &request, NULL), KVT_AGAIN);
    assert_true(bed_settle(bed));
    for (size_t i = 0; i < KVT_ONBOARDS_MAX; i++) {
        assert_int_equal(kvbm_onboard_wait(onboards_[i], 0, NULL), KVT_NOTFOUND);
        kvbm_onboard_release(onboards_[i]);
    }
    assert_int_equal(kvbm_onboard_start(&more, bed->manager, &request, NULL), KVT_OK);
    kvbm_onboard_release(more);
    bed_close(bed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_of_tiers),
        cmocka_unit_test(a_watermark_lowers_the_coldest),
        cmocka_unit_test(what_rests_is_copied_and_stays),
        cmocka_unit_test(filters_say_what_may_go),
        cmocka_unit_test(pushed_blocks_are_copied_now),
        cmocka_unit_test(a_step_waits_for_nothing),
        cmocka_unit_test(a_refusal_is_final_until_somebody_looks),
        cmocka_unit_test(an_absent_tier_is_left_alone_for_a_while),
        cmocka_unit_test(a_remote_tier_has_blocks_by_name),
        cmocka_unit_test(what_lies_lower_just_goes),
        cmocka_unit_test(lowering_takes_little_room_ahead),
        cmocka_unit_test(each_want_of_room_waits_by_itself),
        cmocka_unit_test(unreadable_blocks_are_dropped),
        cmocka_unit_test(ends_while_everything_moves),
        cmocka_unit_test(survives_every_allocation_failure),
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(only_so_many_onboards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
