/*
 * What is tested: advisor/publisher/publishers.h: who has something to do is on a list, and nobody
 * else; what is gone longest makes room, on the list too.
 * How: a full table of publishers.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/publisher/publishers.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"

enum { FEW = 100 };

static struct advisor_publisher *
get(struct advisor_publishers *table, uint32_t number)
{
    struct advisor_publisher *publisher;
    char name[KVT_NAME_MAX];

    (void)snprintf(name, sizeof(name), "w%u", number);
    assert_int_equal(advisor_publishers_get(table, 0, "", name, &publisher), KVT_OK);
    return publisher;
}

/* A round's end: all is written and shown. */
static void
settle(struct advisor_publishers *table)
{
    advisor_publishers_saved(table);
    advisor_publishers_show(table);
    advisor_publishers_rest(table);
}

static void
assert_counts(struct advisor_publishers *table, size_t live, size_t uncertain)
{
    size_t counts[3];

    advisor_publishers_doubts(table, &counts[0], &counts[1], &counts[2]);
    assert_int_equal(counts[0], live);
    assert_int_equal(counts[1], uncertain);
    assert_int_equal(counts[2], 0);
}

static void
only_the_busy_are_listed(void **state)
{
    struct advisor_publisher *publisher;
    struct advisor_publishers *table;
    struct advisor_publisher_view *views;

    (void)state;
    assert_int_equal(advisor_publishers_new(&table), KVT_OK);
    for (uint32_t i = 0; i < FEW; i++)
        (void)get(table, i);
    assert_true(advisor_publishers_dirty(table));
    assert_int_equal(advisor_publishers_active_count(table), FEW);
    settle(table);
    assert_int_equal(advisor_publishers_active_count(table), 0);
    assert_false(advisor_publishers_dirty(table));

    publisher = get(table, 7); /* it was met, and nothing came of it */
    assert_int_equal(advisor_publishers_active_count(table), 1);
    assert_ptr_equal(advisor_publishers_active(table, 0), publisher);
    settle(table);
    assert_int_equal(advisor_publishers_active_count(table), 0);

    publisher->row.incarnation = 5;
    advisor_publisher_doubt(publisher); /* it stays until it is no longer in doubt */
    advisor_publishers_wake(table);
    settle(table);
    assert_int_equal(advisor_publishers_active_count(table), 1);
    assert_int_equal(advisor_publishers_views(table, &views), FEW);
    assert_int_equal(views[7].state, ADVISOR_UNCERTAIN);
    kvt_free(views);
    assert_counts(table, FEW, 1);
    advisor_publisher_settle(publisher);
    settle(table);
    assert_int_equal(advisor_publishers_active_count(table), 0);
    assert_int_equal(advisor_publishers_views(table, &views), FEW);
    assert_int_equal(views[7].state, ADVISOR_LIVE);
    kvt_free(views);
    assert_counts(table, FEW, 0);
    advisor_publisher_leave(get(table, 7));
    settle(table);
    assert_counts(table, FEW - 1, 0);
    advisor_publishers_free(table);
}

static void
the_longest_gone_makes_room(void **state)
{
    struct advisor_publisher *publisher;
    struct advisor_publishers *table;
    char name[KVT_NAME_MAX];
    uint32_t number;

    (void)state;
    assert_int_equal(advisor_publishers_new(&table), KVT_OK);
    for (uint32_t i = 0; i < ADVISOR_PUBLISHERS_MAX; i++)
        (void)get(table, i);
    settle(table);
    (void)snprintf(name, sizeof(name), "late");
    assert_int_equal(advisor_publishers_get(table, 0, "", name, &publisher), KVT_FULL);
    assert_null(publisher);
    publisher = get(table, 50);
    number = publisher->row.number;
    advisor_publisher_leave(publisher);
    assert_int_equal(advisor_publishers_active_count(table), 1);
    assert_int_equal(advisor_publishers_get(table, 0, "", name, &publisher), KVT_OK);
    assert_string_equal(publisher->row.worker, name);
    /* The one that went is in no list and under no name. */
    assert_int_equal(advisor_publishers_active_count(table), 1);
    assert_ptr_equal(advisor_publishers_active(table, 0), publisher);
    assert_null(advisor_publishers_by_number(table, number));
    assert_int_equal(advisor_publishers_count(table), ADVISOR_PUBLISHERS_MAX);
    assert_ptr_equal(get(table, 49), advisor_publishers_by_number(table, number - 1));
    settle(table);
    assert_int_equal(advisor_publishers_active_count(table), 0);
    assert_counts(table, ADVISOR_PUBLISHERS_MAX, 0);
    advisor_publishers_free(table);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_busy_are_listed),
        cmocka_unit_test(the_longest_gone_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
