/* Leaders of two instances: what is found at the other, held there, and pulled; and what becomes of
 * it when either says nothing any more. */
#include <assert.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/clock.h"

#include "engine/leader/session_internal.h"
#include "tests/unit/engine/support/leader_bed.h"

enum { WAIT_MS = 10000, HOLD_MS = 900 };

/* ours asks, theirs has. */
struct pair {
    struct bed ours, theirs;
    char endpoints[2][64];
};

static void
open_pair(struct pair *pair, enum fake_ending ending, uint32_t chunk)
{
    struct bed_options options = {
        .g2 = 24,
        .g3 = 24,
        .ending = ending,
        .leader = {.stage_chunk = chunk, .hold_ms = HOLD_MS, .job_ms = 1000},
    };

    for (int i = 0; i < 2; i++)
        (void)snprintf(pair->endpoints[i], sizeof(pair->endpoints[i]), "ipc:///tmp/kvt-peer-%d-%d",
                       (int)getpid(), i);
    options.leader.instance = 1;
    options.leader.endpoint = pair->endpoints[0];
    bed_open(&pair->ours, &options);
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
find(struct bed *bed, size_t count, enum engine_mode mode, uint64_t wait_ms)
{
    struct kvbm_label labels[BED_CHAIN];
    struct engine_match *match;

    bed_labels(labels, 1, 0, count);
    assert_int_equal(
        engine_leader_find(
            bed->leader,
            &(struct engine_find){
                .labels = labels, .count = count, .mode = mode, .peers = true, .wait_ms = wait_ms},
            &match),
        KVT_OK);
    return match;
}

static uint64_t
sessions(struct bed *bed)
{
    struct engine_leader_stats stats;

    engine_leader_stats(bed->leader, &stats);
    return stats.peer_sessions;
}

static void
await_sessions(struct bed *bed, uint64_t count)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;

    while (sessions(bed) != count) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
    }
}

static void
what_a_peer_has_is_pulled(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_LATER, 3);
    assert_true(bed_make(&pair.ours, KVT_TIER_G2, 1, 0, 2));
    assert_true(bed_make(&pair.theirs, KVT_TIER_G2, 3, 2, 4));
    assert_true(bed_make(&pair.theirs, KVT_TIER_G3, 7, 6, 3));
    assert_true(bed_make(&pair.ours, KVT_TIER_G3, 10, 9, 2));
    match = find(&pair.ours, 14, ENGINE_FULL, WAIT_MS);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.state, ENGINE_READY);
    assert_int_equal(view.found, 11);
    assert_int_equal(view.ready, 11);
    assert_int_equal(view.in_peer, 7);
    assert_int_equal(view.peer, 2);
    assert_false(view.shortened);
    bed_check_match(&pair.ours, match, 11);
    await_sessions(&pair.theirs, 0); /* it need not hold them any more */
    engine_match_release(match);
    close_pair(&pair);
}

static void
a_hold_stays_as_long_as_it_is_wanted(void **unused)
{
    struct engine_match *match;
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_LATER, 3);
    assert_true(bed_make(&pair.theirs, KVT_TIER_G2, 1, 0, 3));
    assert_true(bed_make(&pair.theirs, KVT_TIER_G3, 4, 3, 3));
    match = find(&pair.ours, 6, ENGINE_HOLD, WAIT_MS);
    assert_int_equal(bed_until(match, ENGINE_HOLDING).found, 6);
    kvt_clock_sleep_ms(2 * HOLD_MS);
    assert_int_equal(kvbm_pool_clear(pair.theirs.pools[KVT_TIER_G2]), 0);
    assert_int_equal(kvbm_pool_clear(pair.theirs.pools[KVT_TIER_G3]), 0);
    assert_int_equal(fake_worker_jobs(pair.ours.worker, ENGINE_PULL), 0);
    assert_int_equal(engine_match_stage(match, ENGINE_FULL, WAIT_MS), KVT_OK);
    assert_int_equal(bed_until(match, ENGINE_READY).ready, 6);
    bed_check_match(&pair.ours, match, 6);
    engine_match_release(match);
    close_pair(&pair);
}

static void
prepared_blocks_stay_in_the_peers_g2(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_LATER, 3);
    assert_true(bed_make(&pair.ours, KVT_TIER_G3, 1, 0, 2));
    assert_true(bed_make(&pair.theirs, KVT_TIER_G3, 3, 2, 5));
    match = find(&pair.ours, 7, ENGINE_PREPARE, WAIT_MS);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.ready, 2);
    assert_int_equal(view.found, 7);
    assert_int_equal(fake_worker_jobs(pair.ours.worker, ENGINE_PULL), 0);
    for (uint64_t hash = 3; hash < 8; hash++)
        assert_true(kvbm_pool_has(pair.theirs.pools[KVT_TIER_G2], hash));
    assert_int_equal(engine_match_stage(match, ENGINE_FULL, WAIT_MS), KVT_OK);
    assert_int_equal(bed_until(match, ENGINE_READY).ready, 7);
    bed_check_match(&pair.ours, match, 7);
    engine_match_release(match);
    await_sessions(&pair.theirs, 0);
    close_pair(&pair);
}

static void
two_pull_the_same(void **unused)
{
    struct engine_match *matches[2];
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_LATER, 1);
    assert_true(bed_make(&pair.theirs, KVT_TIER_G3, 1, 0, 8));
    for (size_t i = 0; i < 2; i++)
        matches[i] = find(&pair.ours, 8, ENGINE_FULL, WAIT_MS);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(bed_until(matches[i], ENGINE_READY).ready, 8);
        bed_check_match(&pair.ours, matches[i], 8);
        engine_match_release(matches[i]);
    }
    assert_int_equal(fake_worker_jobs(pair.ours.worker, ENGINE_PULL), 8); /* not 16 */
    close_pair(&pair);
}

static void
a_peer_that_goes_shortens(void **unused)
{
    struct engine_match_view view;
    struct engine_match *matches[2];
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_LATER, 3);
    assert_true(bed_make(&pair.ours, KVT_TIER_G2, 1, 0, 2));
    assert_true(bed_make(&pair.theirs, KVT_TIER_G2, 3, 2, 4));
    matches[0] = find(&pair.ours, 6, ENGINE_HOLD, WAIT_MS);
    matches[1] = find(&pair.ours, 6, ENGINE_PREPARE, WAIT_MS);
    assert_int_equal(bed_until(matches[0], ENGINE_HOLDING).found, 6);
    assert_int_equal(bed_until(matches[1], ENGINE_READY).found, 6);
    bed_end(&pair.theirs);
    for (size_t i = 0; i < 2; i++) {
        const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;

        do {
            kvt_clock_sleep_ms(2);
            engine_match_view(matches[i], &view);
            assert_true(kvt_clock_mono_ms() < until_ms);
        } while (!view.shortened);
        assert_int_equal(view.ready, 2);
        assert_int_equal(engine_match_stage(matches[i], ENGINE_FULL, WAIT_MS), KVT_OK);
        assert_int_equal(bed_until(matches[i], ENGINE_READY).ready, 2);
        bed_check_match(&pair.ours, matches[i], 2);
        engine_match_release(matches[i]);
    }
    matches[0] = find(&pair.ours, 6, ENGINE_FULL, WAIT_MS); /* nobody answers: ours is all */
    assert_int_equal(bed_until(matches[0], ENGINE_READY).ready, 2);
    engine_match_release(matches[0]);
    engine_leader_remove_peer(pair.ours.leader, 2);
    matches[0] = find(&pair.ours, 6, ENGINE_FULL, 0);
    assert_int_equal(bed_until(matches[0], ENGINE_READY).ready, 2);
    engine_match_release(matches[0]);
    bed_close(&pair.ours);
}

static void
a_peer_is_removed_while_blocks_come(void **unused)
{
    struct engine_match_view view;
    struct engine_match *match;
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_WHEN_TOLD, 2);
    assert_true(bed_make(&pair.theirs, KVT_TIER_G3, 1, 0, 4));
    match = find(&pair.ours, 4, ENGINE_FULL, WAIT_MS);
    assert_int_equal(bed_until(match, ENGINE_STAGING).found, 4);
    engine_leader_remove_peer(pair.ours.leader, 2);
    view = bed_until(match, ENGINE_READY);
    assert_int_equal(view.ready, 0);
    assert_true(view.shortened);
    assert_int_equal(view.why, KVT_UNAVAILABLE);
    engine_match_release(match);
    close_pair(&pair);
}

/* An initiator of which nothing is heard after it has asked. */
static void
what_nobody_asks_for_is_let_go(void **unused)
{
    uint64_t words[ENGINE_SESSION_OPEN_WORDS + 3 * ENGINE_SESSION_LABEL_WORDS] = {
        ENGINE_SESSION_VERSION, 2, 77, 78, ENGINE_FULL, HOLD_MS};
    struct engine_rpc_client *client;
    struct engine_leader_stats stats;
    struct kvbm_label labels[3];
    struct kvt_buffer out;
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_LATER, 2);
    assert_true(bed_make(&pair.theirs, KVT_TIER_G3, 1, 0, 3));
    bed_labels(labels, 1, 0, 3);
    for (size_t i = 0; i < 3; i++)
        engine_session_words_of_label(
            words + ENGINE_SESSION_OPEN_WORDS + i * ENGINE_SESSION_LABEL_WORDS, &labels[i]);
    kvt_buffer_init(&out, 4096);
    engine_session_words_put(&out, words, sizeof(words) / sizeof(words[0]));
    assert_int_equal(
        engine_rpc_client_open(
            &client, &(struct engine_rpc_client_options){.endpoint = pair.endpoints[1]}, NULL),
        KVT_OK);
    for (int i = 0; i < 2; i++) /* opening it twice is opening it once */
        assert_int_equal(engine_rpc_run(client,
                                        &(struct engine_rpc_request){.method = ENGINE_SESSION_OPEN,
                                                                     .bytes = out.data,
                                                                     .size = out.size,
                                                                     .wait_ms = WAIT_MS},
                                        NULL, NULL),
                         KVT_OK);
    assert_int_equal(sessions(&pair.theirs), 1);
    for (size_t cut = 0; cut < out.size; cut++) /* half a question holds nothing */
        assert_int_not_equal(
            engine_rpc_run(client,
                           &(struct engine_rpc_request){.method = ENGINE_SESSION_LOOK,
                                                        .bytes = out.data,
                                                        .size = cut,
                                                        .wait_ms = WAIT_MS},
                           NULL, NULL),
            KVT_OK);
    await_sessions(&pair.theirs, 0);
    engine_leader_stats(pair.theirs.leader, &stats);
    assert_int_equal(stats.peer_expired, 1);
    engine_rpc_client_close(client);
    kvt_buffer_release(&out);
    close_pair(&pair);
}

static void
who_does_not_fit_is_refused(void **unused)
{
    struct kvt_error err = {0};
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_LATER, 2);
    assert_int_equal(engine_leader_add_peer(pair.ours.leader, 2, pair.endpoints[1], WAIT_MS, &err),
                     KVT_EXISTS);
    assert_int_equal(engine_leader_add_peer(pair.ours.leader, 3, pair.endpoints[1], WAIT_MS, &err),
                     KVT_NOTFOUND);
    assert_true(err.text[0] != '\0');
    assert_int_not_equal(
        engine_leader_add_peer(pair.ours.leader, 4, "ipc:///tmp/kvt-nobody", 50, &err), KVT_OK);
    close_pair(&pair);
}

/* Whatever came before: what the peer has now is pulled, sooner or later. */
static void
pull_one(struct pair *pair)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct engine_match_view view;

    for (unsigned tier = KVT_TIER_G2; tier < KVT_TIER_G4; tier++) {
        bed_forget(&pair->ours, (enum kvt_tier)tier);
        bed_forget(&pair->theirs, (enum kvt_tier)tier);
    }
    assert_true(bed_make(&pair->theirs, KVT_TIER_G2, 1, 0, 1));
    do {
        struct engine_match *match = find(&pair->ours, 1, ENGINE_FULL, WAIT_MS);

        view = bed_until(match, ENGINE_READY);
        bed_check_match(&pair->ours, match, view.ready);
        engine_match_release(match);
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (view.ready == 0);
    assert_true(fake_worker_jobs(pair->ours.worker, ENGINE_PULL) > 0);
}

/* Any order of finds and releases, with blocks that come and go on both sides, and faults. */
static void
in_any_order(void **unused)
{
    uint64_t random = test_seed();
    struct engine_match *matches[4] = {NULL};
    struct pair pair;

    (void)unused;
    open_pair(&pair, FAKE_LATER, 2);
    for (unsigned step = 0; step < 400; step++) {
        const unsigned at = (unsigned)(random >> 33) % 4;
        const unsigned what = (unsigned)(random >> 36) % 8;
        struct bed *bed = (random >> 40) % 3 == 0 ? &pair.ours : &pair.theirs;

        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        if (what < 2)
            (void)bed_make(bed, what == 0 ? KVT_TIER_G2 : KVT_TIER_G3, 1 + (random >> 50) % 12,
                           (uint32_t)((random >> 50) % 12), 1 + (random >> 45) % 4);
        if (what == 2)
            (void)kvbm_pool_clear(bed->pools[KVT_TIER_G2]);
        if (what == 3)
            fake_worker_faults(bed->worker, (random >> 41) % 2 == 0
                                                ? &(struct fake_faults){0}
                                                : &(struct fake_faults){100000, 100000, 20000});
        if (what > 3 && matches[at] == NULL)
            matches[at] = find(&pair.ours, 1 + (random >> 52) % 15,
                               (enum engine_mode)((random >> 42) % 3), 1 + (random >> 47) % 60);
        if (matches[at] != NULL && (random >> 39) % 4 == 0) {
            struct kvt_handle handles[BED_CHAIN];
            const size_t count = engine_match_blocks(matches[at], handles, BED_CHAIN);

            bed_check(&pair.ours, handles, 1, count);
            engine_match_release(matches[at]);
            matches[at] = NULL;
        }
        kvt_clock_sleep_ms((random >> 37) % 6);
    }
    for (size_t i = 0; i < 4; i++)
        engine_match_release(matches[i]);
    fake_worker_faults(pair.ours.worker, &(struct fake_faults){0});
    fake_worker_faults(pair.theirs.worker, &(struct fake_faults){0});
    pull_one(&pair);
    close_pair(&pair);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_peer_has_is_pulled),
        cmocka_unit_test(a_hold_stays_as_long_as_it_is_wanted),
        cmocka_unit_test(prepared_blocks_stay_in_the_peers_g2),
        cmocka_unit_test(two_pull_the_same),
        cmocka_unit_test(a_peer_that_goes_shortens),
        cmocka_unit_test(a_peer_is_removed_while_blocks_come),
        cmocka_unit_test(what_nobody_asks_for_is_let_go),
        cmocka_unit_test(who_does_not_fit_is_refused),
        cmocka_unit_test(in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
