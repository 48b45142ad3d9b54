/*
 * What is tested: policy/ordering/plugin.h and policy_ordering_check(): a shared object is loaded
 * and works, and one that was made against something else is refused with a reason before any call.
 * How: the example plugin and objects with one fault each, all built beside this test; a call into
 * a refused object would end the test.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/ordering/ordering_table.h"
#include "policy/ordering/plugin.h"
#include "tests/support/seed.h"

enum { BLOCKS = 4 };

static struct kvt_ordering_use
use_of(uint32_t block, uint64_t now)
{
    return (struct kvt_ordering_use){.block = block, .uses = 1, .bytes = 1, .now = now};
}

static void
example_is_loaded_and_orders(void **state)
{
    const struct kvt_ordering_options options = {.idle_ticks = 0};
    const struct kvt_ordering *clock;
    struct policy_plugin *plugin;
    struct kvt_ordering_use use;
    void *order;
    uint32_t block;

    (void)state;
    assert_int_equal(policy_plugin_open(&plugin, CLOCK, NULL), KVT_OK);
    clock = policy_plugin_ordering(plugin);
    assert_string_equal(clock->name, "clock");
    assert_int_equal(clock->init(&order, &options), KVT_OK);
    assert_int_equal(clock->reserve(order, BLOCKS), KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        use = use_of(i, i);
        clock->touch(order, &use);
        clock->enter(order, &use);
    }
    use = use_of(0, BLOCKS);
    clock->touch(order, &use);
    assert_true(clock->victim(order, BLOCKS, &block));
    assert_int_equal(block, 1); /* 0 was used since it entered */
    clock->leave(order, block);
    assert_true(clock->victim(order, BLOCKS, &block));
    assert_int_equal(block, 2);
    clock->free(order);
    policy_plugin_close(plugin);
}

static void
refused(const char *object, enum kvt_err code, const char *why)
{
    struct policy_plugin *plugin = (struct policy_plugin *)&code;
    struct kvt_error err = {0};

    assert_int_equal(policy_plugin_open(&plugin, object, &err), code);
    assert_null(plugin);
    if (strstr(err.text, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void
others_are_refused_with_a_reason(void **state)
{
    (void)state;
    refused(PLUGIN_FOLDER "/ordering_bad_abi.so", KVT_UNSUPPORTED,
            "made for ordering ABI 2, this program has 1");
    refused(PLUGIN_FOLDER "/ordering_bad_use_size.so", KVT_UNSUPPORTED, "its structures have");
    refused(PLUGIN_FOLDER "/ordering_bad_no_victim.so", KVT_UNSUPPORTED, "lacks a call");
    refused(PLUGIN_FOLDER "/ordering_bad_no_name.so", KVT_UNSUPPORTED, "no name");
    refused(PLUGIN_FOLDER "/ordering_nowhere.so", KVT_NOTFOUND, "ordering_nowhere.so");
    refused("libm.so.6", KVT_NOTFOUND, "does not export " KVT_ORDERING_SYMBOL);
}

static bool
open_and_close(void *arg)
{
    struct policy_plugin *plugin;
    const bool opened = policy_plugin_open(&plugin, arg, NULL) == KVT_OK;

    policy_plugin_close(plugin);
    return opened;
}

static void
every_failing_allocation_is_survived(void **state)
{
    static char path[] = CLOCK;

    (void)state;
    assert_true(test_sweep_allocations(open_and_close, path) > 0);
}

static void
all_built_in_ones_pass_the_check(void **state)
{
    size_t count;
    const struct kvt_ordering *const *all = policy_ordering_all(&count);

    (void)state;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(policy_ordering_check(all[i], "built in", NULL), KVT_OK);
        assert_ptr_equal(policy_ordering_find(all[i]->name), all[i]);
    }
    assert_null(policy_ordering_find("lru "));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_is_loaded_and_orders),
        cmocka_unit_test(others_are_refused_with_a_reason),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(all_built_in_ones_pass_the_check),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
