/*
 * What is tested: advisor/round/round.h, numbers of a publisher that come twice with other events.
 * How: one worker over a rig; a message in its name takes its next numbers, before and after a
 * restart; then the worker itself sends them.
 */
#include <stdio.h>

#include "advisor/publisher/publishers.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum { FORGED = 50 };

/* Events `first_seq` on of the worker; the first is a Clear where `clears`. */
static void
send(struct test_rig *rig, uint64_t stream_seq, uint64_t first_seq, uint64_t hash, uint32_t count,
     bool clears)
{
    struct kvt_event events[FORGED] = {{.type = KVT_EVENT_CLEAR}};
    struct kvt_event_batch batch = {.worker = "w0",
                                    .namespace_ = "ns0",
                                    .incarnation = 1,
                                    .first_seq = first_seq,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G1}},
                                    .events = events,
                                    .event_count = count};

    for (uint32_t i = clears ? 1 : 0; i < count; i++)
        events[i] = (struct kvt_event){
            .type = KVT_EVENT_STORE, .sequence_hash = hash + i, .block_size = 9, .ranks = 1};
    test_rig_batch(rig, stream_seq, &batch);
    test_rig_run(rig);
}

static enum advisor_publisher_state
state_of(struct test_rig *rig, uint64_t *conflicts)
{
    struct advisor_publisher_view *views;
    const size_t count = advisor_publishers_views(advisor_round_publishers(rig->engine), &views);
    enum advisor_publisher_state state;

    assert_int_equal(count, 1);
    state = views[0].state;
    *conflicts = views[0].conflicts;
    kvt_free(views);
    return state;
}

static void
a_forged_clear_is_found_also_after_a_restart(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
        struct test_rig rig;
        uint64_t conflicts;
        char folder[256];

        options.path = test_folder_make(folder, sizeof(folder));
        test_rig_open(&rig, &options);
        send(&rig, 1, 1, 1000, 5, false);
        send(&rig, 2, 6, 5000, FORGED, true);
        assert_int_equal(state_of(&rig, &conflicts), ADVISOR_LIVE); /* nobody can know yet */
        if (restarts == 1) {
            test_rig_close(&rig);
            test_rig_open(&rig, &options);
        }
        send(&rig, 2, 6, 5000, FORGED, true);
        assert_int_equal(state_of(&rig, &conflicts), ADVISOR_LIVE);
        assert_int_equal(test_rig_value(rig.counters.duplicates), FORGED);
        send(&rig, 3, 6, 1005, 10, false);
        assert_int_equal(state_of(&rig, &conflicts), ADVISOR_UNCERTAIN);
        assert_int_equal(conflicts, 1);
        assert_int_equal(test_rig_value(rig.counters.conflicts), 1);
        assert_int_equal(test_rig_value(rig.counters.duplicates), FORGED);
        test_rig_close(&rig);
        /* Uncertain, and counted, also after another restart. */
        test_rig_open(&rig, &options);
        test_rig_run(&rig);
        assert_int_equal(state_of(&rig, &conflicts), ADVISOR_UNCERTAIN);
        assert_int_equal(conflicts, 1);
        test_rig_close(&rig);
        test_folder_remove(folder);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forged_clear_is_found_also_after_a_restart)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
