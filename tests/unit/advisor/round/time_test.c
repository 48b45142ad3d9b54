/*
 * What is tested: advisor/round/round.h: what the advisor makes of the times that others tell.
 * How: senders whose clocks are days ahead, over every way events and reports come; blocks of one
 * sequence that came at different times.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/round/round_private.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum { HOUR_MS = 3600 * 1000, MESSAGE_MAX = 4096 };

#define AHEAD_MS (UINT64_C(10) * 24 * HOUR_MS)

static const struct advisor_source_ops engine_kind = {.name = "engine-test",
                                                      .dialect = WIRE_DIALECT_ENGINE,
                                                      .open = test_rig_source_open,
                                                      .close = test_rig_source_close};

struct told {
    const char *worker;
    const char *holder; /* of G4; NULL: in G2 */
    uint64_t seq;
    uint64_t hash;
    uint64_t parent;
    uint32_t position;
    uint64_t time_ms;
};

static void
tell(struct test_rig *rig, const struct told *told)
{
    struct kvt_event event = {.type = KVT_EVENT_STORE,
                              .sequence_hash = told->hash,
                              .parent = told->parent,
                              .position = told->position,
                              .block_size = 4096,
                              .ranks = 1};
    struct kvt_event_batch batch = {
        .namespace_ = "ns",
        .incarnation = 1,
        .first_seq = told->seq,
        .time_ms = told->time_ms,
        .location_count = 1,
        .locations = {{.tier = told->holder == NULL ? KVT_TIER_G2 : KVT_TIER_G4}},
        .events = &event,
        .event_count = 1};

    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", told->worker);
    (void)snprintf(batch.locations[0].name, sizeof(batch.locations[0].name), "%s",
                   told->holder == NULL ? "host" : told->holder);
    test_rig_batch(rig, 0, &batch);
}

/* When the last block of a tier was stored. */
static uint64_t
newest(const struct test_rig *rig, enum kvt_tier tier)
{
    struct index_candidate candidate;

    assert_int_equal(index_candidates(rig->index, tier, false, &candidate, 1), 1);
    return candidate.used_ms;
}

static uint64_t
stored(const struct test_rig *rig, uint64_t hash)
{
    struct index_past past[4];
    uint32_t ns;

    assert_int_equal(index_namespace_find(rig->index, "ns", &ns), KVT_OK);
    assert_int_equal(index_history(rig->index, ns, hash, past, 4), 1);
    return past[0].time_ms;
}

static void
assert_held_back(uint64_t time_ms, uint64_t begun_ms)
{
    assert_true(time_ms + 1000 > begun_ms); /* whole seconds */
    assert_true(time_ms <= kvt_clock_unix_ms() + ADVISOR_CLOCK_AHEAD_MS);
}

static void
clocks_that_are_ahead_are_held_back(void **state)
{
    const uint64_t begun_ms = kvt_clock_unix_ms();
    const uint64_t far_ms = begun_ms + AHEAD_MS;
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct kvt_report_access access = {.hash = 22, .bytes = 9, .count = 1};
    const struct kvt_report report = {.gateway = "gw",
                                      .namespace_ = "ns",
                                      .seq = 1,
                                      .incarnation = 1,
                                      .time_ms = far_ms,
                                      .healthy = true,
                                      .tiers = {{.name = "cold@b"}},
                                      .tier_count = 1,
                                      .accesses = &access,
                                      .access_count = 1};
    struct advisor_finder_block block;
    struct test_rig rig;
    char folder[200];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    tell(&rig, &(struct told){.worker = "far", .seq = 1, .hash = 21, .time_ms = far_ms});
    tell(&rig, &(struct told){
                   .worker = "gw", .holder = "cold@b", .seq = 1, .hash = 22, .time_ms = far_ms});
    test_rig_run(&rig);
    assert_held_back(newest(&rig, KVT_TIER_G2), begun_ms);
    assert_held_back(stored(&rig, 21), begun_ms);
    assert_int_equal(advisor_finder_block(&rig.finder, "ns", 22, &block), KVT_OK);
    assert_held_back(block.touched_ms, begun_ms);
    test_rig_report(&rig, 1, &report);
    test_rig_run(&rig);
    assert_int_equal(advisor_finder_block(&rig.finder, "ns", 22, &block), KVT_OK);
    assert_int_equal(block.hits, 1);
    assert_held_back(block.last_access_ms, begun_ms);
    /* What is in the past was stored then. */
    tell(&rig,
         &(struct told){.worker = "far", .seq = 2, .hash = 23, .time_ms = begun_ms - HOUR_MS});
    test_rig_run(&rig);
    assert_int_equal(stored(&rig, 23) / 1000, (begun_ms - HOUR_MS) / 1000);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

/* The same of an engine of another system. */
static void
clocks_of_others_are_held_back(void **state)
{
    /* [2106-02-07, [["BlockStored", [1], nil, [1, 2], 2, nil]], 0] */
    static const uint8_t message[] = "\x93\xce\xff\xff\xff\xff\x91\x96\xab"
                                     "BlockStored\x91\x01\xc0\x92\x01\x02\x02\xc0\x00";
    const uint64_t begun_ms = kvt_clock_unix_ms();
    struct test_rig_options options = {
        .mode = ADVISOR_MODE_OFF, .foreign = &engine_kind, .give_up_after_ms = 60000};
    struct kvt_buffer bytes;
    struct test_rig rig;
    char folder[200];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    kvt_buffer_init(&bytes, MESSAGE_MAX);
    kvt_buffer_append(&bytes, message, sizeof(message) - 1);
    test_rig_open(&rig, &options);
    test_rig_foreign(&rig, 0, 0, &bytes);
    test_rig_run(&rig);
    assert_held_back(newest(&rig, KVT_TIER_G1), begun_ms);
    test_rig_close(&rig);
    kvt_buffer_release(&bytes);
    test_folder_remove(folder);
}

/* Blocks that go on where others end are stored as one, unless they came at another time: that is
 * what is shown of them, and what they are evicted by. */
static void
blocks_keep_their_own_time(void **state)
{
    const uint64_t base_ms = kvt_clock_unix_ms() - 4 * HOUR_MS;
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct test_rig rig;
    char folder[200];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    for (uint32_t i = 0; i < 3; i++)
        tell(&rig, &(struct told){.worker = "w",
                                  .seq = i + 1,
                                  .hash = 31 + i,
                                  .parent = i == 0 ? 0 : 30 + i,
                                  .position = i,
                                  .time_ms = base_ms + i * HOUR_MS});
    test_rig_run(&rig);
    for (int life = 0; life < 2; life++) {
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(stored(&rig, 31 + i) / 1000, (base_ms + i * HOUR_MS) / 1000);
        assert_int_equal(newest(&rig, KVT_TIER_G2) / 1000, (base_ms + 2 * HOUR_MS) / 1000);
        test_rig_close(&rig);
        test_rig_open(&rig, &options);
        test_rig_run(&rig);
    }
    test_rig_close(&rig);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_that_are_ahead_are_held_back),
        cmocka_unit_test(clocks_of_others_are_held_back),
        cmocka_unit_test(blocks_keep_their_own_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
