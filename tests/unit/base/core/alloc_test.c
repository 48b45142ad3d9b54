/*
 * What is tested: base/core/alloc.h.  Everything else's failure sweeps stand on these counters, so
 * they are checked here first, by hand.
 */
#include <string.h>

#include "base/core/alloc.h"

#include "tests/support/seed.h"

static void
counts_what_is_alive(void **state)
{
    const size_t live = kvt_alloc_live();
    void *a = kvt_calloc(3, 5);
    void *b = kvt_aligned(4096, 10);
    char *c = kvt_strdup("text");

    (void)state;
    assert_int_equal(kvt_alloc_live(), live + 3);
    a = kvt_realloc(a, 100, 7);
    assert_non_null(a);
    assert_int_equal(kvt_alloc_live(), live + 3);
    assert_int_equal((uintptr_t)b % 4096, 0);
    assert_string_equal(c, "text");
    kvt_free(a);
    kvt_free(b);
    kvt_free(c);
    kvt_free(NULL);
    assert_int_equal(kvt_alloc_live(), live);
}

static void
zeroes_and_never_gives_null_for_nothing(void **state)
{
    static const unsigned char zeroes[64];
    void *memory = kvt_calloc(8, 8);
    void *nothing = kvt_calloc(0, 8);
    void *grown = kvt_realloc(NULL, 0, 1);

    (void)state;
    assert_memory_equal(memory, zeroes, sizeof(zeroes));
    assert_non_null(nothing);
    assert_non_null(grown);
    kvt_free(memory);
    kvt_free(nothing);
    kvt_free(grown);
}

static void
refuses_products_that_overflow(void **state)
{
    const size_t live = kvt_alloc_live();
    volatile size_t half = SIZE_MAX / 2;
    void *memory = kvt_calloc(4, 4);

    (void)state;
    assert_null(kvt_calloc(half, 3));
    assert_null(kvt_realloc(memory, half, 3));
    assert_null(kvt_calloc(half + 1, 1)); /* no overflow, and still larger than any object */
    assert_int_equal(kvt_alloc_live(), live + 1);
    kvt_free(memory);
}

static void
fails_after_the_given_count(void **state)
{
    char *first;
    char *kept;

    (void)state;
    kvt_alloc_fail_after(2);
    first = kvt_calloc(1, 1);
    kept = kvt_strdup("kept");
    assert_non_null(first);
    assert_non_null(kept);
    assert_null(kvt_calloc(1, 1));
    assert_null(kvt_strdup("x"));
    assert_null(kvt_aligned(8, 1));
    assert_null(kvt_realloc(kept, 100, 1));
    assert_string_equal(kept, "kept"); /* a failed realloc leaves the old memory */
    kvt_alloc_fail_after(SIZE_MAX);
    kvt_free(first);
    kvt_free(kept);
}

/* Every element stays; how often the array moves grows with the logarithm of its length. */
static void
arrays_grow_by_doubling(void **state)
{
    size_t capacity = 0;
    uint32_t *array = NULL;
    unsigned grown = 0;
    uint32_t *same;

    (void)state;
    for (uint32_t i = 0; i < 10000; i++) {
        const size_t before = capacity;

        array = kvt_grow(array, &capacity, (size_t)i + 1, sizeof(*array));
        assert_non_null(array);
        assert_true(capacity > i);
        grown += capacity != before;
        array[i] = i;
    }
    assert_true(grown < 20);
    same = kvt_grow(array, &capacity, 0, sizeof(*array));
    assert_ptr_equal(same, array);
    same = kvt_grow(array, &capacity, 3 * capacity, sizeof(*array));
    assert_non_null(same);
    array = same;
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(array[i], i);
    kvt_free(array);
}

static void
an_array_that_cannot_grow_stays(void **state)
{
    size_t capacity = 0;
    uint32_t *array = kvt_grow(NULL, &capacity, 0, sizeof(*array));
    const size_t before = capacity;

    (void)state;
    assert_non_null(array); /* NULL is for no memory only */
    assert_null(kvt_grow(array, &capacity, SIZE_MAX, sizeof(*array)));
    kvt_alloc_fail_after(0);
    assert_null(kvt_grow(array, &capacity, before + 1, sizeof(*array)));
    kvt_alloc_fail_after(SIZE_MAX);
    assert_int_equal(capacity, before);
    array[before - 1] = 1;
    kvt_free(array);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_is_alive),
        cmocka_unit_test(zeroes_and_never_gives_null_for_nothing),
        cmocka_unit_test(arrays_grow_by_doubling),
        cmocka_unit_test(an_array_that_cannot_grow_stays),
        cmocka_unit_test(refuses_products_that_overflow),
        cmocka_unit_test(fails_after_the_given_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
