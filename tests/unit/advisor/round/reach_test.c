/*
 * What is tested: advisor/round/round.h, how far messages of a stranger reach: numbers of
 * namespaces, and places of others.
 * How: forged messages over a rig, far more namespaces than one source may have, then an honest
 * worker's; a forger that speaks of a gateway's volume.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/store/name_table.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum { EACH = 256, MORE = 1024 };

static void
hand_over(struct test_rig *rig, const char *namespace_, const char *worker, uint64_t seq,
          enum kvt_event_type type, const struct kvt_location *location)
{
    struct kvt_event event = {
        .type = (uint8_t)type, .sequence_hash = 77, .block_size = 9, .ranks = 1};
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = seq,
                                    .location_count = 1,
                                    .locations = {*location},
                                    .events = &event,
                                    .event_count = 1};

    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", worker);
    (void)snprintf(batch.namespace_, sizeof(batch.namespace_), "%s", namespace_);
    test_rig_batch(rig, 0, &batch);
}

static bool
holds(const struct test_rig *rig, const char *namespace_, const char *holder)
{
    struct advisor_finder_block *block = kvt_calloc(1, sizeof(*block));
    bool has = false;

    assert_non_null(block);
    if (advisor_finder_block(&rig->finder, namespace_, 77, block) == KVT_OK)
        for (size_t i = 0; i < block->place_count; i++)
            has = has || strcmp(block->places[i].holder.name, holder) == 0;
    kvt_free(block);
    return has;
}

/* Namespaces that nobody is in any more do not keep others out, also over a restart. */
static void
forged_namespaces_do_not_shut_others_out(void **state)
{
    static const struct kvt_location g1 = {.tier = KVT_TIER_G1};
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF, .map_bytes = 256u << 20};
    struct test_rig rig;
    char folder[256];
    char name[64];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    hand_over(&rig, "stays", "w0", 1, KVT_EVENT_STORE, &g1);
    for (unsigned i = 0; i < ADVISOR_NAMESPACES_SHARE + MORE; i++) {
        (void)snprintf(name, sizeof(name), "forged/%u", i);
        hand_over(&rig, name, "x", 1, KVT_EVENT_BYE, &g1);
        if (i % EACH == 0)
            test_rig_run(&rig);
    }
    test_rig_run(&rig);
    hand_over(&rig, "honest", "w1", 1, KVT_EVENT_STORE, &g1);
    test_rig_run(&rig);
    assert_int_equal(test_rig_value(rig.counters.ns_refused), 0);
    assert_int_equal(test_rig_value(rig.counters.ns_full), 0);
    for (int restart = 0; restart < 2; restart++) {
        assert_true(holds(&rig, "stays", "w0"));
        assert_true(holds(&rig, "honest", "w1"));
        assert_false(holds(&rig, "honest", "w0"));
        test_rig_close(&rig);
        test_rig_open(&rig, &options);
        test_rig_run(&rig);
    }
    hand_over(&rig, "honest too", "w2", 1, KVT_EVENT_STORE, &g1);
    test_rig_run(&rig);
    assert_true(holds(&rig, "honest too", "w2"));
    test_rig_close(&rig);
    test_folder_remove(folder);
}

/* What a gateway has in its volume, only that gateway tells. */
static void
nobody_speaks_of_anothers_volume(void **state)
{
    static const struct kvt_location hot = {.tier = KVT_TIER_G4, .name = "hot@gw0"};
    static const struct kvt_location warm = {.tier = KVT_TIER_G4, .name = "warm@gw0"};
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct test_rig rig;
    char folder[256];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    hand_over(&rig, "ns", "gateway:gw0", 1, KVT_EVENT_STORE, &hot);
    hand_over(&rig, "ns", "gateway:gw0:1", 1, KVT_EVENT_STORE, &hot);
    hand_over(&rig, "ns", "gateway:gw00", 1, KVT_EVENT_REMOVE, &hot);
    hand_over(&rig, "ns", "forger", 1, KVT_EVENT_REMOVE, &hot);
    hand_over(&rig, "ns", "forger", 2, KVT_EVENT_STORE, &warm);
    test_rig_run(&rig);
    assert_true(holds(&rig, "ns", "hot@gw0"));
    assert_false(holds(&rig, "ns", "warm@gw0"));
    assert_int_equal(test_rig_value(rig.counters.intruders), 2);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forged_namespaces_do_not_shut_others_out),
        cmocka_unit_test(nobody_speaks_of_anothers_volume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
