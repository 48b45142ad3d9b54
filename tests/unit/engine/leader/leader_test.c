/* engine/leader/leader.h, one promise after the other. */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/clock.h"

#include "tests/unit/engine/support/leader_bed.h"

enum { WAIT_MS = 10000 };

static struct engine_match *
find(struct bed *bed, size_t count, enum engine_mode mode, bool objects, uint64_t wait_ms)
{
    struct kvbm_label labels[BED_CHAIN];
    struct engine_match *match;

    bed_labels(labels, 1, 0, count);
    assert_int_equal(engine_leader_find(bed->leader,
                                        &(struct engine_find){.labels = labels,
                                                              .count = count,
                                                              .mode = mode,
                                                              .objects = objects,
                                                              .wait_ms = wait_ms},
                                        &match),
                     KVT_OK);
    return match;
}

static void
what_lies_in_g2_is_ready_at_once(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16, .ending = FAKE_AT_ONCE});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 5));
    match = find(&bed, 8, ENGINE_FULL, true, WAIT_MS);
    engine_match_view(match, &view);
    assert_int_equal(view.state, ENGINE_READY);
    assert_int_equal(view.wanted, 8);
    assert_int_equal(view.found, 5);
    assert_int_equal(view.ready, 5);
    assert_int_equal(view.in_g2, 5);
    assert_false(view.shortened);
    bed_check_match(&bed, match, 5);
    assert_int_equal(kvbm_pool_clear(bed.pools[KVT_TIER_G2]), 0); /* they are held */
    engine_match_release(match);
    match = find(&bed, 8, ENGINE_HOLD, false, 0);
    assert_int_equal(bed_until(match, ENGINE_READY).ready, 5);
    engine_match_release(match);
    bed_close(&bed);
}

static void
nothing_anywhere_is_ready_too(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 4, .g3 = 4, .ending = FAKE_AT_ONCE});
    match = find(&bed, 3, ENGINE_FULL, false, WAIT_MS);
    engine_match_view(match, &view);
    assert_int_equal(view.state, ENGINE_READY);
    assert_int_equal(view.found, 0);
    engine_match_release(match);
    bed_close(&bed);
}

static void
g3_is_brought_up_where_it_is_between(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){
                       .g2 = 32, .g3 = 32, .ending = FAKE_LATER, .leader = {.stage_chunk = 2}});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 2));
    assert_true(bed_make(&bed, KVT_TIER_G3, 3, 2, 5));
    assert_true(bed_make(&bed, KVT_TIER_G2, 8, 7, 3));
    assert_true(bed_make(&bed, KVT_TIER_G3, 11, 10, 2));
    match = find(&bed, 16, ENGINE_FULL, false, WAIT_MS);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.found, 12);
    assert_int_equal(view.ready, 12);
    assert_int_equal(view.in_g2, 5);
    assert_int_equal(view.in_g3, 7);
    assert_false(view.shortened);
    bed_check_match(&bed, match, 12);
    engine_match_release(match);
    bed_close(&bed);
}

static void
a_hold_moves_nothing_until_it_is_staged(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16, .g3 = 16, .ending = FAKE_LATER});
    assert_true(bed_make(&bed, KVT_TIER_G3, 1, 0, 6));
    match = find(&bed, 6, ENGINE_HOLD, false, WAIT_MS);
    engine_match_view(match, &view);
    assert_int_equal(view.state, ENGINE_HOLDING);
    assert_int_equal(view.found, 6);
    assert_int_equal(view.ready, 0);
    assert_int_equal(kvbm_pool_clear(bed.pools[KVT_TIER_G3]), 0);
    assert_int_equal(fake_worker_jobs(bed.worker, ENGINE_COPY), 0);
    assert_int_equal(engine_match_stage(match, ENGINE_FULL, WAIT_MS), KVT_OK);
    assert_int_equal(bed_until(match, ENGINE_READY).ready, 6);
    bed_check_match(&bed, match, 6);
    assert_int_equal(engine_match_stage(match, ENGINE_FULL, WAIT_MS), KVT_OK);
    engine_match_release(match);
    bed_close(&bed);
}

static void
what_fails_shortens(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){
                       .g2 = 16, .g3 = 16, .ending = FAKE_LATER, .leader = {.stage_chunk = 2}});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 1));
    assert_true(bed_make(&bed, KVT_TIER_G3, 2, 1, 6));
    fake_worker_fail(bed.worker, ENGINE_COPY, 2, KVT_CORRUPT);
    match = find(&bed, 7, ENGINE_FULL, false, WAIT_MS);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.found, 7);
    assert_in_range(view.ready, 1, 5); /* copies end in no order: two are under way at once */
    assert_true(view.shortened);
    assert_int_equal(view.why, KVT_CORRUPT);
    assert_true(view.text[0] != '\0');
    bed_check_match(&bed, match, view.ready);
    engine_match_release(match);
    bed_close(&bed);
}

static void
a_stall_ends_with_what_is_ready(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16, .g3 = 16, .ending = FAKE_LATER});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 2));
    assert_true(bed_make(&bed, KVT_TIER_G3, 3, 2, 2));
    fake_worker_fail(bed.worker, ENGINE_COPY, 1, KVT_TIMEOUT);
    match = find(&bed, 4, ENGINE_FULL, false, 30);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.ready, 2);
    assert_true(view.shortened);
    assert_int_equal(view.why, KVT_TIMEOUT);
    engine_match_release(match);
    bed_forget(&bed, KVT_TIER_G2);
    fake_worker_fail(bed.worker, ENGINE_COPY, 1, KVT_TIMEOUT);
    assert_true(bed_make(&bed, KVT_TIER_G3, 1, 0, 2));
    match = find(&bed, 4, ENGINE_FULL, false, 30);
    view = bed_until(match, ENGINE_READY); /* or the end */
    assert_int_equal(view.state, ENGINE_FAILED);
    assert_int_equal(view.why, KVT_TIMEOUT);
    assert_int_equal(view.ready, 0);
    engine_match_release(match);
    bed_close(&bed);
}

static void
a_cancelled_match_holds_nothing(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16, .g3 = 16, .ending = FAKE_WHEN_TOLD});
    assert_true(bed_make(&bed, KVT_TIER_G3, 1, 0, 4));
    match = find(&bed, 4, ENGINE_FULL, false, WAIT_MS);
    while (fake_worker_waiting(bed.worker) == 0)
        kvt_clock_sleep_ms(1);
    engine_match_cancel(match);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.state, ENGINE_FAILED);
    assert_int_equal(view.why, KVT_CANCELLED);
    assert_int_equal(kvbm_pool_stats(bed.pools[KVT_TIER_G2]).active, 4); /* the job's, still */
    assert_true(fake_worker_step(bed.worker));
    engine_match_release(match);
    bed_close(&bed);
}

static void
what_is_taken_outlives_the_match(void **unused)
{
    struct kvt_handle handles[BED_CHAIN];
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16, .ending = FAKE_AT_ONCE});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 5));
    match = find(&bed, 5, ENGINE_FULL, false, WAIT_MS);
    assert_int_equal(engine_match_take(match, handles, 3), 3);
    assert_int_equal(engine_match_take(match, handles + 3, 1), 1);
    bed_check_match(&bed, match, 5);
    engine_match_release(match);
    assert_int_equal(kvbm_pool_clear(bed.pools[KVT_TIER_G2]), 1);
    bed_check(&bed, handles, 1, 4);
    kvbm_pool_drop_all(bed.pools[KVT_TIER_G2], handles, 4);
    bed_close(&bed);
}

static bool
is_even(void *arg, size_t at, const struct kvbm_label *label, enum kvt_tier tier)
{
    (void)arg;
    (void)tier;
    assert_int_equal(label->id.hash, at + 1);
    return label->id.hash % 2 == 0;
}

static void
a_scan_closes_holes(void **unused)
{
    struct kvbm_label labels[BED_CHAIN];
    struct kvt_handle handles[BED_CHAIN];
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16, .g3 = 16, .ending = FAKE_LATER});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 5));
    assert_true(bed_make(&bed, KVT_TIER_G3, 8, 7, 3));
    bed_labels(labels, 1, 0, BED_CHAIN);
    assert_int_equal(engine_leader_scan(bed.leader, labels, BED_CHAIN, is_even, NULL, &match),
                     KVT_OK);
    engine_match_view(match, &view);
    assert_int_equal(view.state, ENGINE_HOLDING);
    assert_int_equal(view.found, 4); /* 2, 4, 8, 10 */
    assert_int_equal(view.ready, 2);
    assert_int_equal(engine_match_stage(match, ENGINE_FULL, WAIT_MS), KVT_OK);
    assert_int_equal(bed_until(match, ENGINE_READY).ready, 4);
    assert_int_equal(engine_match_blocks(match, handles, BED_CHAIN), 4);
    bed_check(&bed, handles + 1, 4, 1);
    bed_check(&bed, handles + 2, 8, 1);
    bed_check(&bed, handles + 3, 10, 1);
    engine_match_release(match);
    bed_close(&bed);
}

static void
has_is_what_a_find_finds(void **unused)
{
    struct kvbm_label labels[BED_CHAIN];
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16, .g3 = 16, .ending = FAKE_LATER});
    bed_labels(labels, 1, 0, BED_CHAIN);
    assert_int_equal(engine_leader_has(bed.leader, labels, BED_CHAIN), 0);
    assert_true(bed_make(&bed, KVT_TIER_G3, 1, 0, 3));
    assert_true(bed_make(&bed, KVT_TIER_G2, 4, 3, 3));
    assert_true(bed_make(&bed, KVT_TIER_G3, 9, 8, 3));
    assert_int_equal(engine_leader_has(bed.leader, labels, BED_CHAIN), 6);
    assert_int_equal(engine_leader_has(bed.leader, labels, 2), 2);
    match = find(&bed, BED_CHAIN, ENGINE_FULL, false, WAIT_MS);
    assert_int_equal(bed_until(match, ENGINE_READY).found, 6);
    engine_match_release(match);
    bed_close(&bed);
}

static void
what_is_cold_goes_down_above_the_watermark(void **unused)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct engine_leader_stats stats;
    struct kvt_handle handles[10];
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 10,
                                         .g3 = 32,
                                         .ending = FAKE_LATER,
                                         .leader = {.g2_high_ppm = 800000, .g2_low_ppm = 500000}});
    assert_true(bed_make(&bed, KVT_TIER_G2, 2, 1, 8));
    assert_true(
        bed_make(&bed, KVT_TIER_G2, 1, 0, 1)); /* held a moment longer, and the last to go */
    do {
        kvt_clock_sleep_ms(1);
        engine_leader_stats(bed.leader, &stats);
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (stats.demoted < 4);
    for (uint64_t hash = 6; hash <= 9; hash++) /* what continues goes before what it continues */
        assert_true(kvbm_pool_has(bed.pools[KVT_TIER_G3], hash));
    assert_int_equal(kvbm_pool_stats(bed.pools[KVT_TIER_G2]).free, 5);
    assert_int_equal(engine_leader_allocate(bed.leader, 10, handles, WAIT_MS), KVT_OK);
    kvbm_pool_drop_all(bed.pools[KVT_TIER_G2], handles, 10);
    for (uint64_t hash = 1; hash <= 9; hash++)
        assert_true(kvbm_pool_has(bed.pools[KVT_TIER_G3], hash));
    assert_int_equal(engine_leader_allocate(bed.leader, 11, handles, 0), KVT_RANGE);
    bed_close(&bed);
}

/* So many blocks of G2 are left, and jobs end that they may be. */
static void
await_left(struct bed *bed, uint32_t left)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;

    while (kvbm_pool_stats(bed->pools[KVT_TIER_G2]).registered != left) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        if (!fake_worker_step(bed->worker))
            kvt_clock_sleep_ms(1);
    }
}

/* What is held for a moment, before it is its turn or on its way, does not end it half way. */
static void
what_was_held_goes_down_later(void **unused)
{
    (void)unused;
    for (unsigned on_its_way = 0; on_its_way < 2; on_its_way++) {
        struct kvt_handle held;
        struct bed bed;

        bed_open(&bed, &(struct bed_options){.g2 = 8,
                                             .g3 = 16,
                                             .ending = FAKE_WHEN_TOLD,
                                             .leader = {.g2_high_ppm = 500000, .g2_low_ppm = 1}});
        assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 4));
        if (!on_its_way)
            assert_int_equal(kvbm_pool_find(bed.pools[KVT_TIER_G2], 1, &held), KVT_OK);
        assert_true(bed_make(&bed, KVT_TIER_G2, 5, 4, 1)); /* one too many: all go down */
        while (on_its_way && fake_worker_jobs(bed.worker, ENGINE_COPY) == 0)
            kvt_clock_sleep_ms(1);
        if (on_its_way)
            assert_int_equal(kvbm_pool_find(bed.pools[KVT_TIER_G2], 1, &held), KVT_OK);
        await_left(&bed, 1);
        kvt_clock_sleep_ms(50); /* it is looked for, and all that is left is in use */
        kvbm_pool_drop(bed.pools[KVT_TIER_G2], held);
        await_left(&bed, 0);
        bed_close(&bed);
    }
}

struct closing {
    struct engine_leader *leader;
    _Atomic bool over;
};

static void *
close_leader(void *arg)
{
    struct closing *closing = arg;

    engine_leader_close(closing->leader);
    atomic_store(&closing->over, true);
    return NULL;
}

/* Closing waits for what was begun, and not for all that could be. */
static void
closing_begins_nothing(void **unused)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct closing closing = {.over = false};
    pthread_t closer;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16,
                                         .g3 = 16,
                                         .ending = FAKE_WHEN_TOLD,
                                         .leader = {.stage_chunk = 1, .g2_high_ppm = 1}});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 16));
    while (fake_worker_jobs(bed.worker, ENGINE_COPY) == 0)
        kvt_clock_sleep_ms(1);
    closing.leader = bed.leader;
    assert_int_equal(pthread_create(&closer, NULL, close_leader, &closing), 0);
    kvt_clock_sleep_ms(20);
    while (!atomic_load(&closing.over)) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        assert_in_range(fake_worker_jobs(bed.worker, ENGINE_COPY), 1, 2);
        (void)fake_worker_step(bed.worker);
        kvt_clock_sleep_ms(2);
    }
    (void)pthread_join(closer, NULL);
    bed.leader = NULL;
    bed_end(&bed);
}

/* A batch is cut to what G3 can take, and what it took is its own. */
static void
a_g3_smaller_than_a_batch_takes_what_it_can(void **unused)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct engine_leader_stats stats;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16,
                                         .g3 = 5,
                                         .ending = FAKE_LATER,
                                         .leader = {.g2_high_ppm = 900000, .g2_low_ppm = 500000}});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 16));
    do {
        kvt_clock_sleep_ms(1);
        engine_leader_stats(bed.leader, &stats);
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (stats.demoted < 8);
    assert_int_equal(stats.dropped, 0);
    bed_close(&bed);
}

/* Of two prefixes that end alike, the end is brought once. */
static void
what_somebody_else_brings_is_not_brought_twice(void **unused)
{
    struct kvbm_label labels[BED_CHAIN];
    struct engine_match *matches[2];
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){
                       .g2 = 16, .g3 = 16, .ending = FAKE_WHEN_TOLD, .leader = {.stage_chunk = 4}});
    assert_true(bed_make(&bed, KVT_TIER_G3, 1, 0, 6));
    bed_labels(labels, 1, 0, BED_CHAIN);
    for (size_t i = 0; i < 2; i++) {
        const size_t first = i == 0 ? 2 : 0;

        assert_int_equal(engine_leader_find(bed.leader,
                                            &(struct engine_find){.labels = labels + first,
                                                                  .count = 6 - first,
                                                                  .mode = ENGINE_FULL,
                                                                  .wait_ms = WAIT_MS},
                                            &matches[i]),
                         KVT_OK);
        while (fake_worker_jobs(bed.worker, ENGINE_COPY) <= i)
            kvt_clock_sleep_ms(1);
    }
    assert_int_equal(kvbm_pool_stats(bed.pools[KVT_TIER_G2]).active, 6);
    for (size_t i = 0; i < 2; i++)
        assert_true(fake_worker_step(bed.worker));
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(bed_until(matches[i], ENGINE_READY).ready, i == 0 ? 4 : 6);
    assert_int_equal(fake_worker_jobs(bed.worker, ENGINE_COPY), 2);
    bed_check_match(&bed, matches[1], 6);
    for (size_t i = 0; i < 2; i++)
        engine_match_release(matches[i]);
    bed_close(&bed);
}

static void
a_prefix_longer_than_g2_is_shortened(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){
                       .g2 = 6, .g3 = 16, .ending = FAKE_LATER, .leader = {.stage_chunk = 4}});
    assert_true(bed_make(&bed, KVT_TIER_G3, 1, 0, 12));
    match = find(&bed, 12, ENGINE_FULL, false, WAIT_MS);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.ready, 6);
    assert_true(view.shortened);
    assert_int_equal(view.why, KVT_AGAIN);
    bed_check_match(&bed, match, 6);
    engine_match_release(match);
    bed_close(&bed);
}

static void
objects_are_stored_asked_and_loaded(void **unused)
{
    enum kvt_err statuses[BED_CHAIN];
    struct kvt_handle handles[BED_CHAIN];
    struct kvbm_label labels[BED_CHAIN];
    struct engine_match_view view;
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 16, .objects = true, .ending = FAKE_LATER});
    bed_labels(labels, 1, 0, BED_CHAIN);
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 6));
    match = find(&bed, 6, ENGINE_FULL, false, WAIT_MS);
    assert_int_equal(engine_match_blocks(match, handles, 6), 6);
    assert_int_equal(engine_leader_put_objects(bed.leader, handles, 6, statuses, WAIT_MS), KVT_OK);
    engine_match_release(match);
    assert_int_equal(fake_objects_count(bed.objects), 6);
    bed_forget(&bed, KVT_TIER_G2);
    assert_int_equal(engine_leader_has_objects(bed.leader, labels, 8, statuses, WAIT_MS), KVT_OK);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(statuses[i], i < 6 ? KVT_OK : KVT_NOTFOUND);
    assert_int_equal(engine_leader_get_objects(bed.leader, labels, 2, handles, statuses, WAIT_MS),
                     KVT_OK);
    bed_check(&bed, handles, 1, 2);
    kvbm_pool_drop_all(bed.pools[KVT_TIER_G2], handles, 2);
    match = find(&bed, 10, ENGINE_FULL, true, WAIT_MS);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.found, 6);
    assert_int_equal(view.in_g2, 2);
    assert_int_equal(view.in_objects, 4);
    assert_int_equal(view.ready, 6);
    bed_check_match(&bed, match, 6);
    engine_match_release(match);
    bed_close(&bed);
}

/* Each block asked for costs a request at each rank's bucket, and most prefixes end soon. */
static void
few_are_asked_for_behind_a_hole(void **unused)
{
    static const struct {
        size_t there;
        uint64_t asked; /* at most */
    } cases[] = {{0, 2}, {1, 2}, {2, 8}, {BED_CHAIN, BED_CHAIN}};
    enum kvt_err statuses[BED_CHAIN];
    struct kvt_handle handles[BED_CHAIN];
    struct engine_match *match;
    struct bed bed;

    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const size_t there = cases[i].there;

        bed_open(&bed, &(struct bed_options){.g2 = 32, .objects = true, .ending = FAKE_LATER});
        if (there > 0) {
            assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, there));
            match = find(&bed, there, ENGINE_FULL, false, WAIT_MS);
            assert_int_equal(engine_match_blocks(match, handles, there), there);
            assert_int_equal(
                engine_leader_put_objects(bed.leader, handles, there, statuses, WAIT_MS), KVT_OK);
            engine_match_release(match);
            bed_forget(&bed, KVT_TIER_G2);
        }
        match = find(&bed, BED_CHAIN, ENGINE_FULL, true, WAIT_MS);
        assert_int_equal(bed_until(match, ENGINE_READY).in_objects, there);
        bed_check_match(&bed, match, there);
        assert_true(fake_worker_items(bed.worker, ENGINE_ASK) <= cases[i].asked);
        engine_match_release(match);
        bed_close(&bed);
    }
}

static void
what_arrives_is_stored_and_shown(void **unused)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct kvt_handle handles[3];
    struct engine_match *match;
    struct bed bed;
    char endpoint[64];
    bool shown;

    (void)unused;
    (void)snprintf(endpoint, sizeof(endpoint), "ipc:///tmp/kvt-leader-%d", (int)getpid());
    bed_open(&bed, &(struct bed_options){.g2 = 8,
                                         .objects = true,
                                         .ending = FAKE_LATER,
                                         .leader = {.store = true, .endpoint = endpoint}});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 3));
    match = find(&bed, 3, ENGINE_FULL, false, WAIT_MS);
    assert_int_equal(engine_match_blocks(match, handles, 3), 3);
    do {
        kvt_clock_sleep_ms(1);
        shown = true;
        for (size_t i = 0; i < 3; i++)
            shown = shown && fake_worker_is_shown(bed.worker, handles[i].block);
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (!shown || fake_objects_count(bed.objects) < 3);
    engine_match_release(match);
    bed_close(&bed);
}

/* ---- memory ---- */

struct sweep {
    struct bed *bed;
};

static bool
open_and_find(void *arg)
{
    const struct sweep *sweep = arg;
    const struct engine_leader_options options = {
        .instance = 2,
        .worker = sweep->bed->worker,
        .g2 = sweep->bed->pools[KVT_TIER_G2],
        .g3 = sweep->bed->pools[KVT_TIER_G3],
        .store = true,
    };
    struct kvbm_label labels[4];
    struct engine_leader *leader;
    struct engine_match *match;
    enum kvt_err rc = engine_leader_open(&leader, &options, NULL);

    if (rc != KVT_OK) {
        assert_int_equal(rc, KVT_NOMEM);
        assert_null(leader);
        return false;
    }
    bed_labels(labels, 1, 0, 4);
    rc = engine_leader_find(
        leader,
        &(struct engine_find){
            .labels = labels, .count = 4, .mode = ENGINE_HOLD, .objects = true, .wait_ms = WAIT_MS},
        &match);
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && match == NULL));
    engine_match_release(match);
    engine_leader_close(leader);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **unused)
{
    struct bed bed;
    struct sweep sweep = {&bed};

    (void)unused;
    bed_open(&bed,
             &(struct bed_options){.g2 = 16, .g3 = 4, .objects = true, .ending = FAKE_WHEN_TOLD});
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 4));
    assert_true(test_sweep_allocations(open_and_find, &sweep) > 20);
    bed_close(&bed);
}

static void
what_cannot_be_is_refused(void **unused)
{
    struct engine_match *matches[ENGINE_MATCHES_MAX + 1];
    struct kvbm_label label;
    struct engine_find what = {.labels = &label, .count = 0};
    struct bed bed;

    (void)unused;
    bed_open(&bed, &(struct bed_options){.g2 = 4, .ending = FAKE_AT_ONCE});
    bed_labels(&label, 1, 0, 1);
    assert_int_equal(engine_leader_find(bed.leader, &what, matches), KVT_INVALID);
    assert_null(matches[0]);
    what.count = ENGINE_FIND_MAX + 1;
    assert_int_equal(engine_leader_find(bed.leader, &what, matches), KVT_RANGE);
    what.count = 1;
    for (size_t i = 0; i < ENGINE_MATCHES_MAX; i++)
        assert_int_equal(engine_leader_find(bed.leader, &what, &matches[i]), KVT_OK);
    assert_int_equal(engine_leader_find(bed.leader, &what, &matches[ENGINE_MATCHES_MAX]), KVT_FULL);
    for (size_t i = 0; i <= ENGINE_MATCHES_MAX; i++)
        engine_match_release(matches[i]);
    bed_close(&bed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_in_g2_is_ready_at_once),
        cmocka_unit_test(nothing_anywhere_is_ready_too),
        cmocka_unit_test(g3_is_brought_up_where_it_is_between),
        cmocka_unit_test(a_hold_moves_nothing_until_it_is_staged),
        cmocka_unit_test(what_fails_shortens),
        cmocka_unit_test(a_stall_ends_with_what_is_ready),
        cmocka_unit_test(a_cancelled_match_holds_nothing),
        cmocka_unit_test(what_is_taken_outlives_the_match),
        cmocka_unit_test(a_scan_closes_holes),
        cmocka_unit_test(has_is_what_a_find_finds),
        cmocka_unit_test(what_is_cold_goes_down_above_the_watermark),
        cmocka_unit_test(what_was_held_goes_down_later),
        cmocka_unit_test(closing_begins_nothing),
        cmocka_unit_test(a_g3_smaller_than_a_batch_takes_what_it_can),
        cmocka_unit_test(what_somebody_else_brings_is_not_brought_twice),
        cmocka_unit_test(a_prefix_longer_than_g2_is_shortened),
        cmocka_unit_test(objects_are_stored_asked_and_loaded),
        cmocka_unit_test(few_are_asked_for_behind_a_hole),
        cmocka_unit_test(what_arrives_is_stored_and_shown),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_cannot_be_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
