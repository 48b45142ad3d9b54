/*
 * What is tested: that answers say of which holders events are missing (advisor_publishers_mark()).
 * How: two workers with two ranks each; one rank misses events, and nobody can be asked.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "wire/query.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/rig.h"
#include "tests/unit/advisor/router.h"

enum { MESSAGE_MAX = 1u << 20, DEADLINE_MS = 10000, HOLDERS_MAX = 8 };

static const struct advisor_source_ops dynamo = {.name = "dynamo-test",
                                                 .dialect = WIRE_DIALECT_DYNAMO,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close};

static const struct test_router_blocks blocks = {.chain = 1, .depth = 0, .count = 2};

static void
store(struct test_rig *rig, uint64_t worker, uint32_t rank, uint64_t id)
{
    const struct test_router_head head = {
        .worker = worker, .rank = rank, .tier = KVT_TIER_G1, .id = id};
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, MESSAGE_MAX);
    test_router_store(&bytes, &head, &blocks);
    test_rig_foreign(rig, 0, UINT64_MAX, &bytes);
    kvt_buffer_release(&bytes);
}

/* Who is uncertain, as a bit for each worker and rank. */
static uint32_t
ask(const struct test_rig *rig, size_t expected)
{
    const struct advisor_finder finder = {.memory = rig->finder.memory,
                                          .store = rig->finder.store,
                                          .publishers = advisor_engine_publishers(rig->engine)};
    uint64_t hashes[] = {test_router_name(1, 0), test_router_name(1, 1)};
    const struct wire_query query = {.namespace_ = "ns0", .hashes = hashes, .hash_count = 2};
    struct wire_query_holder holders[HOLDERS_MAX];
    uint32_t uncertain = 0;
    size_t count;

    memset(holders, 0xFF, sizeof(holders));
    assert_int_equal(advisor_find_matches(&finder, &query, holders, HOLDERS_MAX, &count), KVT_OK);
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++)
        if (holders[i].uncertain)
            uncertain |= 1u << (2 * (uint32_t)(holders[i].name[0] - '0') + holders[i].dp_rank);
    return uncertain;
}

static void
holders_in_doubt_are_marked(void **state)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct test_rig_options options = {
        .mode = ADVISOR_MODE_OFF, .foreign = &dynamo, .give_up_after_ms = 60000};
    struct test_rig rig;
    char folder[256];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    for (uint64_t worker = 1; worker <= 2; worker++)
        for (uint32_t rank = 0; rank < 2; rank++)
            store(&rig, worker, rank, 1);
    test_rig_run(&rig);
    assert_int_equal(ask(&rig, 4), 0);
    store(&rig, 2, 1, 9);
    test_rig_run(&rig);
    assert_int_equal(ask(&rig, 4), 1u << 5); /* worker 2, rank 1: while it is asked */
    while (test_rig_view(&rig).counts.events < 5) {
        test_rig_run(&rig);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    assert_int_equal(ask(&rig, 4), 1u << 5); /* and for good */
    test_rig_close(&rig);
    test_rig_open(&rig, &options);
    test_rig_run(&rig);
    /* A bus was not heard meanwhile: all are in doubt until they speak. */
    assert_int_equal(ask(&rig, 4), 0x3C);
    store(&rig, 1, 0, 2);
    test_rig_run(&rig);
    assert_int_equal(ask(&rig, 4), 0x38);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders_in_doubt_are_marked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
