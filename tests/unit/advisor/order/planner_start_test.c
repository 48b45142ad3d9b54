/*
 * What is tested: a planner that has read what there was, and has not looked at its tiers yet.
 * How: a second one on the store of a gateway that does at once what it is told.
 */
#include "advisor/order/planner.h"

#include "policy/ordering/builtin_orderings.h"
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

/* A job for a gateway that reported before the restart is not refused. */
static void
gateways_are_known_before_the_first_tick(void **state)
{
    struct obedient *gateway = obedient_new(NULL, NULL, 1);
    struct advisor_planner_options options = {.ordering = &policy_lru};
    struct advisor_gateway_view views[2];
    struct advisor_planner *planner;
    struct index *index;
    struct advisor_name_table *names;
    struct advisor_txn txn;
    _Atomic bool cancel = false;

    (void)state;
    obedient_store(gateway, OBEDIENT_COLD, 0, 100);
    (void)obedient_step(gateway, 1000);
    obedient_restart(gateway); /* what it knew is in the store */
    options.counters = &gateway->rig.counters;
    assert_int_equal(advisor_planner_new(&planner, &options), KVT_OK);
    assert_int_equal(index_new(&index, 1 << 20), KVT_OK);
    assert_int_equal(advisor_name_table_new(&names, index, INDEX_HOLDERS_MAX), KVT_OK);
    assert_int_equal(advisor_store_read(gateway->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_name_table_load(names, &txn), KVT_OK);
    assert_int_equal(advisor_planner_load(planner, &txn, names, gateway->now_ms), KVT_OK);
    assert_int_equal(advisor_planner_load_blocks(planner, &txn, &cancel), KVT_OK);
    assert_int_equal(advisor_planner_gateways(planner, views, 2), 1);
    assert_string_equal(views[0].name, "gw0");
    advisor_store_end(&txn);
    advisor_planner_free(planner);
    advisor_name_table_free(names);
    index_free(index);
    obedient_free(gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gateways_are_known_before_the_first_tick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
