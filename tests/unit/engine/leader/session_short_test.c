/* What a peer said it has, and does not come: a match ends with the rest, and does not wait for it.
 */
#include <assert.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/clock.h"

#include "engine/leader/session_internal.h"
#include "tests/unit/engine/support/leader_bed.h"

enum { WAIT_MS = 10000, FAR_MS = 60000, HOLD_MS = 300 };

/* ours asks, and has an object tier; theirs has. */
struct pair {
    struct bed ours, theirs;
    char endpoints[2][64];
};

static void
open_pair(struct pair *pair, enum fake_ending ours, enum fake_ending theirs)
{
    struct bed_options options = {
        .g2 = 24,
        .g3 = 24,
        .objects = true,
        .ending = ours,
        .leader = {.instance = 1, .stage_chunk = 1, .hold_ms = HOLD_MS, .job_ms = 1000},
    };

    for (int i = 0; i < 2; i++)
        (void)snprintf(pair->endpoints[i], sizeof(pair->endpoints[i]), "ipc:///tmp/kvt-short-%d-%d",
                       (int)getpid(), i);
    options.leader.endpoint = pair->endpoints[0];
    bed_open(&pair->ours, &options);
    options.objects = false;
    options.ending = theirs;
    options.leader.instance = 2;
    options.leader.endpoint = pair->endpoints[1];
    bed_open(&pair->theirs, &options);
    assert_int_equal(
        engine_leader_add_peer(pair->ours.leader, 2, pair->endpoints[1], WAIT_MS, NULL), KVT_OK);
}

static void
close_pair(struct pair *pair)
{
    bed_close(&pair->theirs);
    bed_close(&pair->ours);
}

static struct engine_match *
find(struct bed *bed, size_t count, enum engine_mode mode, bool objects)
{
    struct kvbm_label labels[BED_CHAIN];
    struct engine_match *match;

    bed_labels(labels, 1, 0, count);
    assert_int_equal(engine_leader_find(bed->leader,
                                        &(struct engine_find){.labels = labels,
                                                              .count = count,
                                                              .mode = mode,
                                                              .peers = true,
                                                              .objects = objects,
                                                              .wait_ms = FAR_MS},
                                        &match),
                     KVT_OK);
    return match;
}

/* The peer has answered, and the object tier is asked. */
static void
await_question(struct bed *bed)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;

    while (fake_worker_jobs(bed->worker, ENGINE_ASK) == 0) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
    }
}

static void
a_peer_that_goes_while_objects_are_asked(void **unused)
{
    static const enum engine_mode modes[] = {ENGINE_HOLD, ENGINE_PREPARE, ENGINE_FULL};

    (void)unused;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct engine_match_view view;
        struct engine_match *match;
        struct pair pair;

        open_pair(&pair, FAKE_WHEN_TOLD, FAKE_AT_ONCE);
        assert_true(bed_make(&pair.theirs, KVT_TIER_G2, 1, 0, 4));
        match = find(&pair.ours, 6, modes[i], true);
        await_question(&pair.ours);
        engine_leader_remove_peer(pair.ours.leader, 2);
        assert_true(fake_worker_step(pair.ours.worker));
        view = bed_until(match, ENGINE_READY);
        assert_int_equal(view.state, ENGINE_READY);
        assert_int_equal(view.found, 4);
        assert_int_equal(view.ready, 0);
        assert_true(view.shortened);
        assert_int_equal(view.why, KVT_UNAVAILABLE);
        engine_match_release(match);
        close_pair(&pair);
    }
}

/* ... and what lies here before what the peer had is kept, what lies behind it let go. */
static void
what_is_here_stays_when_a_peer_goes(void **unused)
{
    struct kvt_handle handles[BED_CHAIN];
    struct engine_match *match;
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_WHEN_TOLD, FAKE_AT_ONCE);
    assert_true(bed_make(&pair.ours, KVT_TIER_G2, 1, 0, 2));
    assert_true(bed_make(&pair.theirs, KVT_TIER_G2, 3, 2, 2));
    assert_true(bed_make(&pair.ours, KVT_TIER_G2, 5, 4, 2));
    while (fake_worker_step(pair.ours.worker))
        continue; /* these are shown */
    match = find(&pair.ours, 8, ENGINE_FULL, true);
    await_question(&pair.ours);
    engine_leader_remove_peer(pair.ours.leader, 2);
    while (fake_worker_step(pair.ours.worker))
        continue;
    assert_int_equal(bed_until(match, ENGINE_READY).ready, 2);
    assert_int_equal(engine_match_blocks(match, handles, BED_CHAIN), 2);
    bed_check(&pair.ours, handles, 1, 2);
    engine_match_release(match);
    close_pair(&pair);
}

/* Mode PREPARE: what the peer made ready is pulled, though there is less of it than it said. */
static void
what_was_prepared_is_pulled_though_it_is_less(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_AT_ONCE, FAKE_LATER);
    assert_true(bed_make(&pair.theirs, KVT_TIER_G3, 1, 0, 5));
    fake_worker_fail(pair.theirs.worker, ENGINE_COPY, 3, KVT_CORRUPT);
    match = find(&pair.ours, 5, ENGINE_PREPARE, false);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.found, 5);
    assert_int_equal(view.ready, 0);
    assert_true(view.shortened);
    assert_int_equal(fake_worker_jobs(pair.ours.worker, ENGINE_PULL), 0);
    assert_int_equal(engine_match_stage(match, ENGINE_FULL, FAR_MS), KVT_OK);
    assert_int_equal(bed_until(match, ENGINE_READY).ready, 2);
    engine_match_release(match);
    close_pair(&pair);
}

/* ... and a peer that goes before it is ready is not waited for, where a block has come here
 * another way. */
static void
what_came_another_way_needs_no_peer(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_WHEN_TOLD, FAKE_WHEN_TOLD);
    assert_true(bed_make(&pair.theirs, KVT_TIER_G3, 1, 0, 4));
    match = find(&pair.ours, 6, ENGINE_PREPARE, true);
    await_question(&pair.ours);
    assert_true(bed_make(&pair.ours, KVT_TIER_G2, 1, 0, 1));
    assert_true(fake_worker_step(pair.ours.worker)); /* what it was asked */
    assert_int_equal(bed_until(match, ENGINE_STAGING).found, 4);
    engine_leader_remove_peer(pair.ours.leader, 2);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.state, ENGINE_READY);
    assert_int_equal(view.ready, 1);
    assert_int_equal(view.why, KVT_UNAVAILABLE);
    engine_match_release(match);
    close_pair(&pair);
}

/* ... and is told of none, but the next one who wants it is: nothing else shows it meanwhile. */
static void
what_could_not_be_shown_is_tried_again(void **unused)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct engine_leader_stats stats;
    struct engine_match_view view;
    uint64_t asked = 0;
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_LATER, FAKE_LATER);
    fake_worker_fail(pair.theirs.worker, ENGINE_SHOW, 1, KVT_IO);
    assert_true(bed_make(&pair.theirs, KVT_TIER_G2, 1, 0, 1)); /* of the first job that shows */
    do {
        struct engine_match *match = find(&pair.ours, 1, ENGINE_FULL, false);

        view = bed_until(match, ENGINE_READY);
        engine_match_release(match);
        asked++;
        kvt_clock_sleep_ms(20);
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (view.ready == 0);
    assert_true(asked > 1); /* the first was told of none */
    assert_int_equal(fake_worker_jobs(pair.theirs.worker, ENGINE_SHOW), 2);
    engine_leader_stats(pair.theirs.leader, &stats);
    assert_true(stats.finds == 0 && stats.blocks_wanted == 0 && stats.blocks_g2 == 0);
    engine_leader_stats(pair.ours.leader, &stats);
    assert_true(stats.finds == asked && stats.blocks_peer >= 1);
    close_pair(&pair);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_goes_while_objects_are_asked),
        cmocka_unit_test(what_is_here_stays_when_a_peer_goes),
        cmocka_unit_test(what_was_prepared_is_pulled_though_it_is_less),
        cmocka_unit_test(what_came_another_way_needs_no_peer),
        cmocka_unit_test(what_could_not_be_shown_is_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
