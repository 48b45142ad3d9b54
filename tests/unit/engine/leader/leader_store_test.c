/*
 * What is tested: what an instance's leader stores (engine/leader/leader.h: `store`, fences):
 * alone with it, from the tier it is in, as often as it needs, and once; and how long it keeps a
 * lease.
 */
#include <stdatomic.h>

#include "base/core/clock.h"

#include "tests/unit/engine/support/leader_bed.h"

enum { WAIT_MS = 10000 };

/* The first `count` blocks of the first chain, in G2, of which all come. */
static struct engine_match *
hold(struct bed *bed, size_t count)
{
    struct kvbm_label labels[BED_CHAIN];
    struct engine_match_view view;
    struct engine_match *match;

    bed_labels(labels, 1, 0, count);
    assert_int_equal(engine_leader_find(bed->leader,
                                        &(struct engine_find){.labels = labels,
                                                              .count = count,
                                                              .mode = ENGINE_FULL,
                                                              .wait_ms = WAIT_MS},
                                        &match),
                     KVT_OK);
    assert_int_equal(engine_match_wait(match, ENGINE_STATE_BIT(ENGINE_READY), WAIT_MS, &view),
                     KVT_OK);
    assert_int_equal(view.ready, count);
    return match;
}

/* ---- fences ---- */

enum { PARTS = 4, GATE_LEASE_MS = 60000 };

struct gate {
    _Atomic enum kvt_err acquire, release;
    _Atomic unsigned held, times;
    _Atomic uint64_t lease_ms;
    uint64_t tokens[PARTS];
};

static enum kvt_err
acquire(void *arg, uint32_t part, struct engine_lease *lease)
{
    struct gate *gate = arg;
    const enum kvt_err rc = atomic_load(&gate->acquire);

    assert_true(part < PARTS);
    *lease = (struct engine_lease){0};
    if (rc != KVT_OK)
        return rc;
    *lease = (struct engine_lease){++gate->tokens[part],
                                   kvt_clock_mono_ms() + atomic_load(&gate->lease_ms)};
    atomic_fetch_add(&gate->held, 1);
    return KVT_OK;
}

static enum kvt_err
release(void *arg, uint32_t part, const struct engine_lease *lease)
{
    struct gate *gate = arg;

    assert_true(lease->token == gate->tokens[part]);
    atomic_fetch_sub(&gate->held, 1);
    atomic_fetch_add(&gate->times, 1);
    return atomic_load(&gate->release);
}

static void
gate_open(struct gate *gate, struct engine_fence *fence, enum kvt_err rc)
{
    *gate = (struct gate){.acquire = rc, .lease_ms = GATE_LEASE_MS};
    *fence =
        (struct engine_fence){.parts = PARTS, .acquire = acquire, .release = release, .arg = gate};
}

static void
who_stores_is_alone_with_it(void **unused)
{
    struct gate gate;
    struct engine_fence fence;
    struct engine_leader_stats stats;
    enum kvt_err statuses[3];
    struct kvt_handle handles[3];
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    gate_open(&gate, &fence, KVT_BUSY);
    bed_open(&bed,
             &(struct bed_options){
                 .g2 = 8, .objects = true, .ending = FAKE_LATER, .leader = {.fence = &fence}});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 3));
    match = hold(&bed, 3);
    assert_int_equal(engine_match_blocks(match, handles, 3), 3);
    assert_int_equal(engine_leader_put_objects(bed.leader, handles, 3, statuses, WAIT_MS),
                     KVT_BUSY);
    assert_int_equal(statuses[2], KVT_BUSY);
    assert_int_equal(fake_objects_count(bed.objects), 0);
    gate.acquire = KVT_OK;
    gate.lease_ms = 0; /* over when it comes */
    assert_int_equal(engine_leader_put_objects(bed.leader, handles, 3, statuses, WAIT_MS),
                     KVT_TIMEOUT);
    assert_int_equal(fake_objects_count(bed.objects), 0);
    gate.lease_ms = GATE_LEASE_MS;
    gate.release = KVT_PRECONDITION; /* it was lost meanwhile */
    assert_int_equal(engine_leader_put_objects(bed.leader, handles, 3, statuses, WAIT_MS),
                     KVT_BUSY);
    engine_leader_stats(bed.leader, &stats);
    assert_int_equal(stats.stored, 0);
    assert_int_equal(stats.store_failed, 0);
    assert_int_equal(stats.store_again, 9);
    gate.release = KVT_OK;
    assert_int_equal(engine_leader_put_objects(bed.leader, handles, 3, statuses, WAIT_MS), KVT_OK);
    assert_true(gate.held == 0 && gate.times == 3); /* one part: blocks of one prefix */
    gate.acquire = KVT_UNSUPPORTED;                 /* a tier without locks */
    assert_int_equal(engine_leader_put_objects(bed.leader, handles, 3, statuses, WAIT_MS), KVT_OK);
    engine_match_release(match);
    bed_close(&bed);
}

/* ---- what is to be stored ---- */

static void
wait_stored(struct bed *bed, uint64_t unstored)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct engine_leader_stats stats;

    do {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
        engine_leader_stats(bed->leader, &stats);
    } while (stats.unstored != unstored);
}

static void
wait_demoted(struct bed *bed, uint64_t demoted)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct engine_leader_stats stats;

    do {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
        engine_leader_stats(bed->leader, &stats);
    } while (stats.demoted < demoted || kvbm_pool_stats(bed->pools[KVT_TIER_G2]).registered > 0);
}

/* Somebody else stores while they go down; nobody asks for room, so nothing is evicted. */
static void
what_went_down_before_its_turn_is_stored(void **unused)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct gate gate;
    struct engine_fence fence;
    struct kvbm_label labels[4];
    struct engine_leader_stats stats;
    struct bed bed;

    (void)unused;
    gate_open(&gate, &fence, KVT_BUSY);
    bed_open(&bed, &(struct bed_options){
                       .g2 = 8,
                       .g3 = 16,
                       .objects = true,
                       .ending = FAKE_LATER,
                       .leader = {
                           .store = true, .store_again_ms = 5, .g2_high_ppm = 1, .fence = &fence}});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 4));
    wait_demoted(&bed, 4);
    do { /* it is tried again, and refused */
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(30);
        engine_leader_stats(bed.leader, &stats);
    } while (stats.store_again == 0);
    assert_int_equal(stats.unstored, 4);
    assert_int_equal(stats.store_failed, 0);
    assert_int_equal(fake_objects_count(bed.objects), 0);
    gate.acquire = KVT_OK;
    wait_stored(&bed, 0);
    assert_int_equal(fake_objects_count(bed.objects), 4);
    engine_leader_stats(bed.leader, &stats);
    assert_int_equal(stats.stored, 4);
    assert_true(stats.store_failed == 0 && stats.lost == 0 && gate.held == 0);
    bed_labels(labels, 1, 0, 4);
    for (size_t i = 0; i < 4; i++) /* and in nobody's way meanwhile */
        assert_true(fake_objects_has(bed.objects, 0, &labels[i].id) &&
                    !kvbm_pool_has(bed.pools[KVT_TIER_G2], labels[i].id.hash));
    bed_close(&bed);
}

/* Whatever the tier answers, and however often: what is there in the end is there once, and what
 * is refused for good is not tried for ever. */
static void
what_fails_is_stored_later(void **unused)
{
    const struct fake_faults none = {0};
    struct engine_leader_stats stats;
    struct engine_fence fence;
    struct gate gate;
    struct bed bed;

    (void)unused;
    gate_open(&gate, &fence, KVT_BUSY); /* until there is all that is to be found */
    bed_open(&bed,
             &(struct bed_options){
                 .g2 = 24,
                 .g3 = 32,
                 .objects = true,
                 .ending = FAKE_LATER,
                 .leader = {.store = true, .store_again_ms = 3, .job_ms = 20, .fence = &fence}});
    fake_worker_faults(bed.worker,
                       &(struct fake_faults){.refuse = 300000, .fail = 400000, .stall = 50000});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 10));
    assert_true(bed_make(&bed, KVT_TIER_G3, 17, 0, 10)); /* nobody told of them */
    gate.release = KVT_PRECONDITION;
    gate.acquire = KVT_OK;
    kvt_clock_sleep_ms(20);
    gate.release = KVT_UNAVAILABLE;
    gate.acquire = KVT_TIMEOUT;
    kvt_clock_sleep_ms(20);
    gate.acquire = KVT_OK;
    wait_stored(&bed, 0);
    assert_int_equal(fake_objects_count(bed.objects), 20);
    fake_worker_faults(bed.worker, &none);
    fake_worker_fail(bed.worker, ENGINE_STORE, 1, KVT_RANGE);
    assert_true(bed_make(&bed, KVT_TIER_G2, 33, 0, 1));
    wait_stored(&bed, 0);
    engine_leader_stats(bed.leader, &stats);
    assert_int_equal(stats.store_failed, 1);
    assert_int_equal(fake_objects_count(bed.objects), 20);
    assert_true(gate.held == 0);
    bed_close(&bed);
}

/* What goes down, or comes back up, is not asked for again: it would be stored again here, where it
 * was taken away meanwhile. */
static void
what_is_stored_is_known_to_be_in_every_tier(void **unused)
{
    struct kvbm_label labels[4];
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 8,
                                         .g3 = 16,
                                         .objects = true,
                                         .ending = FAKE_LATER,
                                         .leader = {.store = true,
                                                    .store_again_ms = 5,
                                                    .g2_high_ppm = 500000,
                                                    .g2_low_ppm = 1}});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 4));
    wait_stored(&bed, 0);
    bed_labels(labels, 1, 0, 4);
    for (size_t i = 0; i < 4; i++)
        fake_objects_remove(bed.objects, 0, &labels[i].id);
    assert_true(bed_make(&bed, KVT_TIER_G2, 5, 4, 1)); /* one too many: all go down */
    wait_demoted(&bed, 5);
    wait_stored(&bed, 0);
    kvt_clock_sleep_ms(30); /* for a walk that would find more */
    assert_int_equal(fake_objects_count(bed.objects), 1);
    match = hold(&bed, 5);
    wait_stored(&bed, 0);
    kvt_clock_sleep_ms(30);
    assert_int_equal(fake_objects_count(bed.objects), 1);
    engine_match_release(match);
    bed_close(&bed);
}

/* ---- leases for many batches ---- */

enum { CHAINS = 24, LENGTH = 12, MANY = CHAINS * LENGTH, ONE_PART = 160 };

static uint64_t
again(struct bed *bed)
{
    struct engine_leader_stats stats;

    engine_leader_stats(bed->leader, &stats);
    return stats.store_again;
}

/* Somebody else stores until all that is wanted is registered: then a walk finds all of it. */
static void
open_behind(struct bed *bed, struct gate *gate, struct engine_fence *fence, enum fake_ending ending)
{
    gate_open(gate, fence, KVT_BUSY);
    bed_open(bed,
             &(struct bed_options){.g2 = 320,
                                   .objects = true,
                                   .ending = ending,
                                   .leader = {.store = true, .store_again_ms = 5, .fence = fence}});
}

/* A batch has 64 blocks of any parts, but a lease is for all that there are of one. */
static void
many_blocks_need_few_leases(void **unused)
{
    struct engine_fence fence;
    struct gate gate;
    struct bed bed;

    (void)unused;
    open_behind(&bed, &gate, &fence, FAKE_LATER);
    for (uint64_t chain = 0; chain < CHAINS; chain++)
        assert_true(bed_make(&bed, KVT_TIER_G2, 1 + 16 * chain + chain % PARTS, 0, LENGTH));
    while (again(&bed) < 2 * MANY)
        kvt_clock_sleep_ms(1);
    gate.acquire = KVT_OK;
    wait_stored(&bed, 0);
    assert_int_equal(fake_objects_count(bed.objects), MANY);
    assert_true(gate.held == 0 && gate.times >= PARTS);
    assert_in_range(gate.times, PARTS, 2 * PARTS); /* it was opened in the middle of a walk */
    bed_close(&bed);
}

/* Ends jobs, each after `each_ms`, until as much is unstored, or was put off so often. */
static void
end_jobs(struct bed *bed, uint64_t each_ms, uint64_t unstored, uint64_t put_off)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct engine_leader_stats stats;

    for (;;) {
        const bool waits = fake_worker_waiting(bed->worker) > 0;

        engine_leader_stats(bed->leader, &stats);
        if (stats.unstored == unstored || stats.store_again >= put_off)
            return;
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(waits ? each_ms : 1);
        if (waits)
            (void)fake_worker_step(bed->worker);
    }
}

/* 160 blocks of one part are three batches, of an ask and a store each. */
static uint64_t
leases_for_one_part(uint64_t lease_ms, uint64_t each_ms)
{
    struct engine_fence fence;
    struct gate gate;
    struct bed bed;
    uint64_t times;

    open_behind(&bed, &gate, &fence, FAKE_WHEN_TOLD);
    gate.lease_ms = lease_ms;
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, ONE_PART));
    end_jobs(&bed, 0, 0, 2 * ONE_PART);
    gate.acquire = KVT_OK;
    end_jobs(&bed, each_ms, 0, UINT64_MAX);
    assert_int_equal(fake_objects_count(bed.objects), ONE_PART);
    times = gate.times;
    assert_int_equal(gate.held, 0);
    bed_close(&bed);
    return times;
}

static void
a_lease_is_kept_while_there_is_time(void **unused)
{
    (void)unused;
    assert_in_range(leases_for_one_part(GATE_LEASE_MS, 0), 1, 2);
    assert_true(leases_for_one_part(300, 80) >= 3); /* a batch takes 160 ms */
}

/* Nobody knows when it was lost: none of what was stored under it counts. */
static void
a_lost_lease_counts_for_no_batch(void **unused)
{
    struct engine_leader_stats stats;
    struct engine_fence fence;
    struct gate gate;
    struct bed bed;

    (void)unused;
    open_behind(&bed, &gate, &fence, FAKE_WHEN_TOLD);
    gate.release = KVT_PRECONDITION;
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, ONE_PART));
    end_jobs(&bed, 0, 0, 2 * ONE_PART);
    gate.acquire = KVT_OK;
    end_jobs(&bed, 0, 0, 3 * ONE_PART);
    engine_leader_stats(bed.leader, &stats);
    assert_int_equal(stats.stored, 0);
    assert_int_equal(stats.unstored, ONE_PART);
    assert_in_range(gate.times, 1, 2);
    assert_int_equal(fake_objects_count(bed.objects), ONE_PART);
    gate.release = KVT_OK;
    end_jobs(&bed, 0, 0, UINT64_MAX); /* it is asked for, and there */
    bed_close(&bed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_stores_is_alone_with_it),
        cmocka_unit_test(what_went_down_before_its_turn_is_stored),
        cmocka_unit_test(what_fails_is_stored_later),
        cmocka_unit_test(what_is_stored_is_known_to_be_in_every_tier),
        cmocka_unit_test(many_blocks_need_few_leases),
        cmocka_unit_test(a_lease_is_kept_while_there_is_time),
        cmocka_unit_test(a_lost_lease_counts_for_no_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
