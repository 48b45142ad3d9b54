/*
 * What is tested: constructors and tables of advisor/ when memory is short;
 * advisor/store/number_map.h. How: every allocation is made to fail in turn; nothing may leak,
 * crash or be half done.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/index/change_group.h"
#include "advisor/order/planner_private.h"
#include "advisor/publisher/publishers.h"
#include "advisor/round/outbox.h"
#include "advisor/round/round.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/source/source.h"
#include "advisor/store/number_map.h"
#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvtier/report.h"

#include "policy/ordering/builtin_orderings.h"
#include "tests/support/seed.h"

enum { KEYS = 300, STEPS = 20000 };

static void
map_against_an_array(void **state)
{
    uint32_t values[KEYS] = {0}; /* 0: not there */
    uint64_t random = test_seed();
    struct advisor_number_map *map;
    uint32_t value;
    size_t count = 0;

    (void)state;
    assert_int_equal(advisor_number_map_new(&map), KVT_OK);
    for (uint32_t i = 1; i <= STEPS; i++) {
        const uint32_t key = (uint32_t)kvt_random_below(&random, KEYS);

        if (kvt_random_below(&random, 3) == 0) {
            advisor_number_map_remove(map, &key, sizeof(key));
            values[key] = 0;
        } else {
            assert_int_equal(advisor_number_map_put(map, &key, sizeof(key), i), KVT_OK);
            values[key] = i;
        }
        if (i % 100 != 0)
            continue;
        count = 0;
        for (uint32_t at = 0; at < KEYS; at++) {
            assert_int_equal(advisor_number_map_get(map, &at, sizeof(at), &value), values[at] != 0);
            assert_int_equal(value, values[at]);
            count += values[at] != 0 ? 1 : 0;
        }
        assert_int_equal(advisor_number_map_count(map), count);
    }
    assert_true(count > KEYS / 3);
    advisor_number_map_free(map);
}

static bool
fill_map(void *arg)
{
    struct advisor_number_map *map;
    bool done = true;

    (void)arg;
    if (advisor_number_map_new(&map) != KVT_OK)
        return false;
    for (uint32_t i = 0; i < 40 && done; i++) {
        uint32_t value;

        done = advisor_number_map_put(map, &i, sizeof(i), i) == KVT_OK;
        assert_int_equal(advisor_number_map_get(map, &i, sizeof(i), &value), done);
    }
    advisor_number_map_free(map);
    return done;
}

static bool
fill_group(void *arg)
{
    const struct advisor_op op = {.kind = ADVISOR_OP_STORE, .ranks = 1};
    struct advisor_change_group *group;
    bool done = true;

    (void)arg;
    if (advisor_change_group_new(&group) != KVT_OK)
        return false;
    for (int i = 0; i < 3000 && done; i++)
        done = advisor_change_group_add(group, &op) == KVT_OK;
    advisor_change_group_free(group);
    return done;
}

static bool
fill_publishers(void *arg)
{
    struct advisor_publishers *table;
    struct advisor_publisher *publisher;
    bool done = true;

    (void)arg;
    if (advisor_publishers_new(&table) != KVT_OK)
        return false;
    for (uint32_t i = 0; i < 20 && done; i++) {
        char name[KVT_NAME_MAX];

        (void)snprintf(name, sizeof(name), "w%u", i);
        done = advisor_publishers_get(table, 0, "", name, &publisher) == KVT_OK;
        assert_int_equal(publisher != NULL, done);
    }
    advisor_publishers_free(table);
    return done;
}

static bool
report_to_planner(void *arg)
{
    const struct advisor_counters *counters = arg;
    const struct advisor_planner_options options = {
        .ordering = &policy_lru, .counters = counters, .bytes_max = 1u << 20};
    const struct kvt_report report = {
        .gateway = "gw0", .seq = 1, .tier_count = 1, .tiers = {{.name = "hot@gw0"}}};
    struct advisor_planner *planner;
    bool done;

    if (advisor_planner_new(&planner, &options) != KVT_OK)
        return false;
    done = advisor_planner_report(planner, &report, 5);
    /* A tier that could not be made is no reason to refuse the report. */
    done = done && advisor_planner_tier(planner, "hot@gw0") != UINT32_MAX;
    advisor_planner_free(planner);
    return done;
}

struct engine_parts {
    struct advisor_store *store;
    const struct advisor_counters *counters;
};

static bool
make_engine(void *arg)
{
    const struct engine_parts *parts = arg;
    struct advisor_round_options options = {.store = parts->store, .counters = parts->counters};
    struct advisor_round *engine;
    enum kvt_err rc;

    if (index_new(&options.index, 1u << 20) != KVT_OK)
        return false;
    rc = advisor_round_new(&engine, &options, NULL);
    assert_int_equal(engine != NULL, rc == KVT_OK);
    advisor_round_free(engine);
    index_free(options.index);
    return rc == KVT_OK;
}

static bool
make_outbox(void *arg)
{
    struct advisor_outbox *outbox;
    const enum kvt_err rc = advisor_outbox_new(&outbox, arg);

    advisor_outbox_free(outbox);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    const struct advisor_store_options options = {.map_bytes = 16u << 20};
    struct advisor_store_options with = options;
    struct advisor_counters counters;
    struct engine_parts parts = {.counters = &counters};
    struct kvt_metrics *metrics;
    char folder[256];

    (void)state;
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    advisor_counters_register(&counters, metrics);
    with.path = test_folder_make(folder, sizeof(folder));
    assert_int_equal(advisor_store_open(&parts.store, &with, NULL), KVT_OK);
    assert_true(test_sweep_allocations(fill_map, NULL) > 40);
    assert_true(test_sweep_allocations(fill_group, NULL) > 4);
    assert_true(test_sweep_allocations(fill_publishers, NULL) > 40);
    assert_true(test_sweep_allocations(report_to_planner, &counters) > 2);
    assert_true(test_sweep_allocations(make_engine, &parts) > 8);
    assert_true(test_sweep_allocations(make_outbox, NULL) > 2);
    advisor_store_close(parts.store);
    kvt_metrics_free(metrics);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_against_an_array),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
