/*
 * What is tested: advisor/round/round_places.c, two publishers that report the same holders.
 * How: one of our own and one of another system with a common name, over a rig; the one leaves.
 */
#include <string.h>

#include "advisor/publisher/publishers.h"
#include "advisor/source/source_private.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/foreign_cluster.h"
#include "tests/unit/advisor/support/rig.h"

static const struct advisor_source_ops dynamo = {.name = "dynamo-test",
                                                 .dialect = WIRE_DIALECT_DYNAMO,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close};

static void
own(struct test_rig *rig, uint64_t seq, enum kvt_event_type type)
{
    struct kvt_event event = {
        .type = (uint8_t)type, .sequence_hash = 424242, .block_size = 9, .ranks = 1};
    struct kvt_event_batch batch = {.worker = "7",
                                    .namespace_ = "ns0",
                                    .incarnation = 1,
                                    .first_seq = seq,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G1}},
                                    .events = &event,
                                    .event_count = 1};

    test_rig_batch(rig, 0, &batch);
    test_rig_run(rig);
}

static enum advisor_publisher_state
state_of_foreign(struct test_rig *rig)
{
    struct advisor_publisher_view *views;
    const size_t count = advisor_publishers_views(advisor_round_publishers(rig->engine), &views);
    enum advisor_publisher_state state = ADVISOR_GONE;

    for (size_t i = 0; i < count; i++)
        if (views[i].foreign.number != 0)
            state = views[i].state;
    kvt_free(views);
    return state;
}

static void
the_other_is_doubted_when_one_leaves(void **state)
{
    const struct test_router_head head = {.worker = 7, .tier = KVT_TIER_G1};
    const struct test_router_blocks blocks = {.count = 3};
    struct test_rig_options options = {
        .mode = ADVISOR_MODE_OFF, .foreign = &dynamo, .kept = true, .give_up_after_ms = 10000};
    struct kvt_buffer bytes;
    struct test_rig rig;
    char folder[256];

    (void)state;
    kvt_buffer_init(&bytes, 1 << 20);
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    test_router_store(&bytes, &head, &blocks);
    test_rig_foreign(&rig, 1, UINT64_MAX, &bytes);
    test_rig_run(&rig);
    own(&rig, 1, KVT_EVENT_STORE);
    assert_int_equal(state_of_foreign(&rig), ADVISOR_LIVE);
    own(&rig, 2, KVT_EVENT_BYE);
    assert_int_equal(state_of_foreign(&rig), ADVISOR_UNCERTAIN);
    test_rig_close(&rig);
    kvt_buffer_release(&bytes);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_other_is_doubted_when_one_leaves)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
