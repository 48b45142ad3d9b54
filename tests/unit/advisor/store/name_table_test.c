/*
 * What is tested: advisor/store/name_table.h: numbers go both ways, also where the index gave some
 * to others, after renames, and where memory is short.
 * How: names of ours and strangers' in turn, against what the index says they are.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/store/name_table.h"

#include "tests/support/seed.h"

enum { NAMES = 200, STRANGE_EVERY = 3, INDEX_BYTES = 64 << 20 };

static struct index_holder
holder_of(const char *prefix, uint32_t number)
{
    struct index_holder key = {.tier = KVT_TIER_G2};

    (void)snprintf(key.name, sizeof(key.name), "%s%u", prefix, number);
    return key;
}

/* One of ours; before some of them, one of somebody else's. */
static void
add_holder(struct index *index, struct advisor_name_table *names, uint32_t i)
{
    const struct index_holder strange = holder_of("strange", i);
    const struct index_holder ours = holder_of("w", i);
    uint32_t number;

    if (i % STRANGE_EVERY == 0) {
        assert_int_equal(index_holder(index, &strange, &number), KVT_OK);
        assert_int_equal(advisor_name_table_store_holder(names, number), ADVISOR_NAME_TABLE_NOBODY);
    }
    assert_int_equal(advisor_name_table_holder(names, &ours, &number), KVT_OK);
    assert_int_equal(number, i);
}

static void
add_namespace(struct index *index, struct advisor_name_table *names, uint32_t i)
{
    char name[KVT_NAMESPACE_MAX];
    uint32_t number;

    if (i % STRANGE_EVERY == 0) {
        (void)snprintf(name, sizeof(name), "strange%u", i);
        assert_int_equal(index_namespace(index, name, &number), KVT_OK);
        assert_int_equal(advisor_name_table_store_namespace(names, number),
                         ADVISOR_NAME_TABLE_NOBODY);
    }
    (void)snprintf(name, sizeof(name), "ns%u", i);
    assert_int_equal(advisor_name_table_namespace(names, name, 0, &number), KVT_OK);
    assert_int_equal(number, i);
}

static void
check(const struct advisor_name_table *names)
{
    for (uint32_t i = 0; i < NAMES; i++) {
        const uint32_t holder = advisor_name_table_index_holder(names, i);
        const uint32_t ns = advisor_name_table_index_namespace(names, i);

        assert_int_equal(holder, i + 1 + i / STRANGE_EVERY);
        assert_int_equal(ns, i + 1 + i / STRANGE_EVERY);
        assert_int_equal(advisor_name_table_store_holder(names, holder), i);
        assert_int_equal(advisor_name_table_store_namespace(names, ns), i);
    }
    assert_int_equal(advisor_name_table_store_holder(names, UINT32_MAX), ADVISOR_NAME_TABLE_NOBODY);
    assert_int_equal(advisor_name_table_store_namespace(names, UINT32_MAX),
                     ADVISOR_NAME_TABLE_NOBODY);
}

static void
numbers_go_both_ways(void **state)
{
    const struct index_holder renamed = holder_of("renamed", 0);
    struct advisor_name_table *names;
    struct index *index;
    uint32_t number;

    (void)state;
    assert_int_equal(index_new(&index, INDEX_BYTES), KVT_OK);
    assert_int_equal(advisor_name_table_new(&names, index, NAMES), KVT_OK);
    for (uint32_t i = 0; i < NAMES; i++) {
        add_holder(index, names, i);
        add_namespace(index, names, i);
    }
    check(names);
    advisor_name_table_saved(names);
    advisor_name_table_spare(names, 7);
    assert_int_equal(advisor_name_table_holder(names, &renamed, &number), KVT_OK);
    assert_int_equal(number, 7);
    check(names);
    advisor_name_table_free(names);
    index_free(index);
}

static bool
add_all(void *arg)
{
    struct advisor_name_table *names = NULL;
    struct index *index = NULL;
    enum kvt_err rc = index_new(&index, INDEX_BYTES);

    (void)arg;
    if (rc == KVT_OK)
        rc = advisor_name_table_new(&names, index, NAMES);
    for (uint32_t i = 0; i < NAMES && rc == KVT_OK; i++) { /* what is there stays as it is */
        const struct index_holder key = holder_of("w", i);
        uint32_t number;

        rc = advisor_name_table_holder(names, &key, &number);
        if (rc == KVT_OK)
            rc = advisor_name_table_namespace(names, key.name, 0, &number);
    }
    advisor_name_table_free(names);
    index_free(index);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM || rc == KVT_FULL); /* that is the index */
    return rc == KVT_OK;
}

static void
without_memory_it_says_so(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(add_all, NULL) > 8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_go_both_ways),
        cmocka_unit_test(without_memory_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
