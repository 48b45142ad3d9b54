/*
 * What is tested: kvbm/offload.h: pushed blocks land in G2, full tiers are lowered to their
 * watermark through G3 -- a disk or a remote tier -- into the sink, a block in flight is neither
 * evicted nor reused, refusals and unreadable blocks are counted and end, and nothing waits for a
 * tier that makes no progress.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "kvbm/block.h"
#include "kvbm/offload.h"
#include "kvbm/storage_volume.h"
#include "kvbm/volume_kinds.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/gate.h"

enum { G1 = 16, G2 = 16, G3 = 16, SIZE = 4096, SINK_MAX = 4096 };

struct fixture {
    struct kvbm_transfer *transfer;
    struct kvbm_offload *offload;
    struct kvbm_tier tiers[3];
    /* the sink */
    enum kvt_err answer;
    _Atomic unsigned received;
    _Atomic unsigned wrong;
    bool has[SINK_MAX];
};

/* A block's bytes: its name, all over. */
static void
fill(void *bytes, uint64_t hash)
{
    uint64_t *words = bytes;

    for (size_t i = 0; i < SIZE / sizeof(*words); i++)
        words[i] = hash;
}

static bool
filled_with(const void *bytes, uint64_t hash)
{
    const uint64_t *words = bytes;

    for (size_t i = 0; i < SIZE / sizeof(*words); i++)
        if (words[i] != hash)
            return false;
    return true;
}

static void
sink(void *arg, struct kvbm_offload_item *items, size_t count)
{
    struct fixture *fixture = arg;

    for (size_t i = 0; i < count; i++) {
        items[i].status = fixture->answer;
        if (!filled_with(items[i].body, items[i].id.hash))
            atomic_fetch_add(&fixture->wrong, 1);
        if (fixture->answer == KVT_OK)
            fixture->has[items[i].id.hash] = true;
        atomic_fetch_add(&fixture->received, 1);
    }
}

enum { VOLUME = 1, VOLUME_BLOCKS = 256 };

static struct kvbm_volumes *volumes; /* not NULL: the lowest tier is in one of them */

static void
open_tier(struct kvbm_tier *tier, uint32_t blocks, bool gated)
{
    struct kvt_error err;

    assert_int_equal(kvbm_pool_new(&tier->pool, &(struct kvbm_pool_options){.block_count = blocks}),
                     KVT_OK);
    if (gated && volumes != NULL)
        assert_int_equal(kvbm_storage_open_volume(&tier->storage,
                                                  &(struct kvbm_storage_volume_options){
                                                      .set = volumes,
                                                      .volume = VOLUME,
                                                      .block_count = blocks,
                                                      .block_size = SIZE,
                                                  },
                                                  &err),
                         KVT_OK);
    else if (gated)
        tier->storage = gate_open(blocks, SIZE);
    else
        assert_int_equal(
            kvbm_storage_open_memory(&tier->storage, KVBM_STORAGE_SYSTEM, blocks, SIZE, &err),
            KVT_OK);
}

/* G3 is a gate: it has no addresses, as a disk. */
static struct fixture *
open_fixture(bool with_g3, bool with_sink)
{
    static struct fixture fixture;
    struct kvt_error err;

    memset(&fixture, 0, sizeof(fixture));
    fixture.answer = KVT_OK;
    assert_int_equal(kvbm_transfer_new(&fixture.transfer, 16, &err), KVT_OK);
    open_tier(&fixture.tiers[0], G1, false);
    open_tier(&fixture.tiers[1], G2, false);
    if (with_g3)
        open_tier(&fixture.tiers[2], G3, true);
    assert_int_equal(kvbm_offload_new(&fixture.offload,
                                      &(struct kvbm_offload_options){
                                          .g1 = fixture.tiers[0],
                                          .g2 = fixture.tiers[1],
                                          .g3 = fixture.tiers[2],
                                          .transfer = fixture.transfer,
                                          .high_ppm = 750000,
                                          .low_ppm = 500000,
                                          .queue_max = 4,
                                          .room_wait_ms = 50,
                                          .sink = with_sink ? sink : NULL,
                                          .sink_arg = &fixture,
                                      },
                                      &err),
                     KVT_OK);
    return &fixture;
}

static void
close_fixture(struct fixture *fixture)
{
    kvbm_offload_free(fixture->offload);
    kvbm_transfer_free(fixture->transfer);
    for (size_t i = 0; i < 3; i++) {
        kvbm_pool_free(fixture->tiers[i].pool);
        kvbm_storage_close(fixture->tiers[i].storage);
    }
    assert_int_equal(kvt_alloc_live(), 0);
}

/* Make block `hash` in G1 and push it. */
static void
make(struct fixture *fixture, uint64_t hash)
{
    const struct kvbm_label label = {{hash, 0, 0}, hash, 0};
    struct kvbm_pool *pool = fixture->tiers[0].pool;
    struct kvt_handle handle;

    assert_int_equal(kvbm_pool_allocate_wait(pool, 1, &handle, 10000), KVT_OK);
    assert_int_equal(kvbm_block_begin(pool, handle, NULL), KVT_OK);
    fill(kvbm_storage_address(fixture->tiers[0].storage, handle.block), hash);
    assert_int_equal(kvbm_block_complete(pool, handle, &label, NULL), KVT_OK);
    assert_int_equal(kvbm_pool_register(pool, &handle, NULL), KVT_OK);
    assert_int_equal(kvbm_offload_push(fixture->offload, handle, 10000), KVT_OK);
    kvbm_pool_drop(pool, handle);
}

static uint32_t
used(struct kvbm_pool *pool)
{
    const struct kvbm_pool_stats stats = kvbm_pool_stats(pool);

    assert_int_equal(stats.active, 0); /* at rest nothing is held */
    return stats.blocks - stats.free;
}

static void
pushed_blocks_land_in_g2(void **unused)
{
    struct fixture *fixture = open_fixture(true, true);
    struct kvbm_offload_stats stats;
    struct kvt_handle handle;

    (void)unused;
    make(fixture, 1);
    assert_true(kvbm_offload_drain(fixture->offload, 10000));
    assert_int_equal(kvbm_pool_find(fixture->tiers[1].pool, 1, &handle), KVT_OK);
    assert_true(filled_with(kvbm_storage_address(fixture->tiers[1].storage, handle.block), 1));
    kvbm_pool_drop(fixture->tiers[1].pool, handle);
    assert_true(kvbm_pool_has(fixture->tiers[0].pool, 1)); /* and stay in G1 */
    kvbm_offload_stats(fixture->offload, KVBM_EDGE_G1, &stats);
    assert_int_equal(stats.blocks, 1);
    assert_int_equal(stats.bytes, SIZE);
    /* Once more: it is there already. */
    assert_int_equal(kvbm_pool_find(fixture->tiers[0].pool, 1, &handle), KVT_OK);
    assert_int_equal(kvbm_offload_push(fixture->offload, handle, 1000), KVT_OK);
    kvbm_pool_drop(fixture->tiers[0].pool, handle);
    assert_true(kvbm_offload_drain(fixture->offload, 10000));
    kvbm_offload_stats(fixture->offload, KVBM_EDGE_G1, &stats);
    assert_int_equal(stats.present, 1);
    close_fixture(fixture);
}

static void
everything_cascades_to_the_sink(void **unused)
{
    enum { COUNT = 300 };
    struct fixture *fixture = open_fixture(true, true);

    (void)unused;
    for (uint64_t hash = 1; hash <= COUNT; hash++)
        make(fixture, hash);
    assert_true(kvbm_offload_drain(fixture->offload, 30000));
    assert_true(used(fixture->tiers[1].pool) <= G2 * 3 / 4);
    assert_true(used(fixture->tiers[2].pool) <= G3 * 3 / 4);
    assert_int_equal(atomic_load(&fixture->wrong), 0);
    assert_true(atomic_load(&fixture->received) > COUNT / 2);
    /* Every block is in some tier, or was evicted unsaved and counted. */
    {
        const struct kvbm_pool_stats g2 = kvbm_pool_stats(fixture->tiers[1].pool);
        const struct kvbm_pool_stats g3 = kvbm_pool_stats(fixture->tiers[2].pool);
        uint64_t lost = 0;

        for (uint64_t hash = 1; hash <= COUNT; hash++)
            lost += !kvbm_pool_has(fixture->tiers[1].pool, hash) &&
                    !kvbm_pool_has(fixture->tiers[2].pool, hash) && !fixture->has[hash];
        assert_true(lost <= g2.evictions_unsaved + g3.evictions_unsaved);
    }
    close_fixture(fixture);
}

static enum kvt_err
fetch(uint64_t hash, void *bytes)
{
    struct kvt_volume_item item = {.id = {hash, 0, 0}, .bytes = bytes, .size = SIZE};

    (void)!kvbm_volumes_run(
        volumes, &(struct kvbm_volume_request){
                     .volume = VOLUME, .verb = KVBM_VOLUME_GET, .items = &item, .count = 1});
    return item.status;
}

/* What is lowered into it lies there under its name, and goes on to the sink from there.  A number
 * that was given anew is another block's: what it was before is still there for others. */
static void
a_remote_tier_has_blocks_by_name(void **unused)
{
    enum { COUNT = 200 };
    static uint8_t bytes[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
    struct kvbm_volume *memory;
    struct fixture *fixture;
    unsigned there = 0;

    (void)unused;
    assert_int_equal(kvbm_volumes_new(&volumes, NULL), KVT_OK);
    assert_int_equal(kvbm_volume_open_ram(
                         &memory,
                         &(struct kvbm_volume_options){.blocks = VOLUME_BLOCKS, .block_size = SIZE},
                         NULL),
                     KVT_OK);
    assert_int_equal(kvbm_volumes_register(volumes, VOLUME, memory, 8, NULL), KVT_OK);
    fixture = open_fixture(true, true);
    for (uint64_t hash = 1; hash <= COUNT; hash++)
        make(fixture, hash);
    assert_true(kvbm_offload_drain(fixture->offload, 30000));
    assert_int_equal(atomic_load(&fixture->wrong), 0);
    assert_true(atomic_load(&fixture->received) > COUNT / 2);
    assert_true(used(fixture->tiers[2].pool) > 0);
    for (uint64_t hash = 1; hash <= COUNT; hash++) {
        const enum kvt_err status = fetch(hash, bytes);

        assert_true(status == KVT_OK || status == KVT_NOTFOUND);
        assert_true(status == KVT_NOTFOUND || filled_with(bytes, hash));
        if (kvbm_pool_has(fixture->tiers[2].pool, hash) || fixture->has[hash])
            assert_int_equal(status, KVT_OK);
        there += status == KVT_OK;
    }
    assert_true(there > G3);
    kvbm_volumes_free(volumes);
    volumes = NULL;
    close_fixture(fixture);
}

static void
without_a_disk_g2_feeds_the_sink(void **unused)
{
    struct fixture *fixture = open_fixture(false, true);

    (void)unused;
    for (uint64_t hash = 1; hash <= 40; hash++)
        make(fixture, hash);
    assert_true(kvbm_offload_drain(fixture->offload, 30000));
    assert_true(used(fixture->tiers[1].pool) <= G2 * 3 / 4);
    assert_true(atomic_load(&fixture->received) > 0);
    assert_int_equal(atomic_load(&fixture->wrong), 0);
    close_fixture(fixture);
}

/* The gate holds a batch in the middle of its copy to G3; meanwhile G2 is asked for every block. */
static void
blocks_in_flight_are_not_reused(void **unused)
{
    struct fixture *fixture = open_fixture(true, true);
    struct kvbm_pool *pool = fixture->tiers[1].pool;
    struct kvt_handle handles[G2];
    uint32_t active;

    (void)unused;
    gate_shut(fixture->tiers[2].storage, true);
    for (uint64_t hash = 1; hash <= G2; hash++)
        make(fixture, hash);
    gate_wait_for_visitor(fixture->tiers[2].storage);
    while (kvbm_pool_stats(fixture->tiers[0].pool).active > 0)
        kvt_clock_sleep_ms(1);
    active = kvbm_pool_stats(pool).active;
    assert_true(active > 0);
    assert_int_equal(kvbm_pool_allocate(pool, G2, handles), KVT_AGAIN);
    assert_int_equal(kvbm_pool_allocate(pool, G2 - active, handles), KVT_OK);
    for (uint32_t i = 0; i < G2 - active; i++)
        fill(kvbm_storage_address(fixture->tiers[1].storage, handles[i].block), UINT64_MAX);
    gate_shut(fixture->tiers[2].storage, false);
    for (uint32_t i = 0; i < G2 - active; i++)
        kvbm_pool_drop(pool, handles[i]);
    assert_true(kvbm_offload_drain(fixture->offload, 10000));
    /* What arrived in G3 is what was there when it left. */
    for (uint64_t hash = 1; hash <= G2; hash++) {
        static uint8_t bytes[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
        struct kvbm_storage_io io = {.host = bytes};
        struct kvt_handle handle;

        if (kvbm_pool_find(fixture->tiers[2].pool, hash, &handle) != KVT_OK)
            continue;
        io.block = handle.block;
        kvbm_storage_read(fixture->tiers[2].storage, &io, 1);
        assert_true(filled_with(bytes, hash));
        kvbm_pool_drop(fixture->tiers[2].pool, handle);
    }
    close_fixture(fixture);
}

static void
refusals_are_counted_and_not_repeated(void **unused)
{
    struct fixture *fixture = open_fixture(false, true);
    struct kvbm_offload_stats stats;
    unsigned received;

    (void)unused;
    fixture->answer = KVT_FULL;
    for (uint64_t hash = 1; hash <= 30; hash++)
        make(fixture, hash);
    assert_true(kvbm_offload_drain(fixture->offload, 30000));
    kvbm_offload_stats(fixture->offload, KVBM_EDGE_G2, &stats);
    assert_true(stats.failed > 0);
    assert_int_equal(stats.failed, stats.full);
    assert_int_equal(stats.blocks, 0);
    received = atomic_load(&fixture->received);
    assert_true(received <= 30); /* no block twice */
    kvt_clock_sleep_ms(700);     /* longer than the pause of an edge that moved nothing */
    assert_true(kvbm_offload_drain(fixture->offload, 10000));
    assert_true(atomic_load(&fixture->received) <= 30);
    close_fixture(fixture);
}

static void
unreadable_blocks_are_dropped(void **unused)
{
    struct fixture *fixture = open_fixture(true, true);
    struct kvbm_offload_stats stats;

    (void)unused;
    gate_fail(fixture->tiers[2].storage, 0, KVT_CORRUPT, false);
    for (uint64_t hash = 1; hash <= 200; hash++)
        make(fixture, hash);
    assert_true(kvbm_offload_drain(fixture->offload, 30000));
    kvbm_offload_stats(fixture->offload, KVBM_EDGE_G3, &stats);
    assert_true(stats.corrupt > 0);
    assert_int_equal(stats.corrupt, stats.failed);
    assert_true(stats.blocks > 0); /* the others went on */
    assert_int_equal(atomic_load(&fixture->wrong), 0);
    close_fixture(fixture);
}

static void
nothing_waits_for_a_tier_that_is_stuck(void **unused)
{
    struct fixture *fixture = open_fixture(true, true);
    uint64_t start_ms;

    (void)unused;
    gate_shut(fixture->tiers[2].storage, true);
    for (uint64_t hash = 1; hash <= G2; hash++)
        make(fixture, hash);
    gate_wait_for_visitor(fixture->tiers[2].storage);
    kvbm_offload_make_room(fixture->offload, KVBM_EDGE_G2, G2, 50); /* waits, in vain */
    start_ms = kvt_clock_mono_ms();
    for (int i = 0; i < 10; i++)
        kvbm_offload_make_room(fixture->offload, KVBM_EDGE_G2, G2, 1000);
    assert_true(kvt_clock_mono_ms() - start_ms < 1000);
    assert_false(kvbm_offload_drain(fixture->offload, 50));
    gate_shut(fixture->tiers[2].storage, false);
    assert_true(kvbm_offload_drain(fixture->offload, 10000));
    close_fixture(fixture);
}

static void
impossible_settings_are_refused(void **unused)
{
    struct fixture *fixture = open_fixture(true, true);
    struct kvbm_offload_options options = {
        .g1 = fixture->tiers[0],
        .g2 = fixture->tiers[1],
        .transfer = fixture->transfer,
        .high_ppm = 500000,
        .low_ppm = 500000,
        .queue_max = 1,
    };
    struct kvbm_offload *offload;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_offload_new(&offload, &options, &err), KVT_INVALID);
    assert_null(offload);
    options.low_ppm = 100000;
    options.queue_max = 0;
    assert_int_equal(kvbm_offload_new(&offload, &options, &err), KVT_INVALID);
    options.queue_max = 1;
    options.g2.pool = NULL;
    assert_int_equal(kvbm_offload_new(&offload, &options, &err), KVT_INVALID);
    close_fixture(fixture);
}

static bool
attempt(void *arg)
{
    struct fixture *fixture = arg;
    struct kvbm_offload *offload;
    struct kvt_error err;
    const enum kvt_err rc = kvbm_offload_new(&offload,
                                             &(struct kvbm_offload_options){
                                                 .g1 = fixture->tiers[0],
                                                 .g2 = fixture->tiers[1],
                                                 .g3 = fixture->tiers[2],
                                                 .transfer = fixture->transfer,
                                                 .high_ppm = 900000,
                                                 .low_ppm = 500000,
                                                 .queue_max = 4,
                                                 .sink = sink,
                                                 .sink_arg = fixture,
                                             },
                                             &err);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && offload == NULL));
    kvbm_offload_free(offload);
    return rc == KVT_OK;
}

static void
new_survives_every_allocation_failure(void **unused)
{
    struct fixture *fixture = open_fixture(true, true);

    (void)unused;
    assert_true(test_sweep_allocations(attempt, fixture) > 2);
    close_fixture(fixture);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushed_blocks_land_in_g2),
        cmocka_unit_test(everything_cascades_to_the_sink),
        cmocka_unit_test(a_remote_tier_has_blocks_by_name),
        cmocka_unit_test(without_a_disk_g2_feeds_the_sink),
        cmocka_unit_test(blocks_in_flight_are_not_reused),
        cmocka_unit_test(refusals_are_counted_and_not_repeated),
        cmocka_unit_test(unreadable_blocks_are_dropped),
        cmocka_unit_test(nothing_waits_for_a_tier_that_is_stuck),
        cmocka_unit_test(impossible_settings_are_refused),
        cmocka_unit_test(new_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
