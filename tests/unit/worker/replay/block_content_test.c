/*
 * What is tested: worker/replay/block_content.h: the bytes are fixed, every single changed byte is
 * seen and found, and blocks in each other's place, shifted or torn differ.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "worker/replay/block_content.h"

enum { SIZE = 4096 };

static uint8_t bytes[SIZE] __attribute__((aligned(64)));
static uint8_t other[SIZE] __attribute__((aligned(64)));

static void
right_bytes_are_right(void **unused)
{
    size_t first = 1;

    (void)unused;
    worker_content_fill(42, bytes, SIZE);
    worker_content_fill(42, other, SIZE);
    assert_memory_equal(bytes, other, SIZE);
    assert_int_equal(worker_content_check(42, bytes, SIZE, &first), 0);
    assert_int_equal(first, 0);
}

static void
every_changed_byte_is_found(void **unused)
{
    (void)unused;
    worker_content_fill(42, bytes, SIZE);
    for (size_t i = 0; i < SIZE; i++) {
        size_t first;

        bytes[i] ^= 0x10;
        assert_int_equal(worker_content_check(42, bytes, SIZE, &first), 1);
        assert_int_equal(first, i);
        bytes[i] ^= 0x10;
    }
}

static void
wrong_bytes_are_counted(void **unused)
{
    uint64_t seed = test_seed();
    bool changed[SIZE] = {false};
    size_t count = 0;
    size_t first;

    (void)unused;
    worker_content_fill(7, bytes, SIZE);
    for (int i = 0; i < 300; i++) {
        const size_t at = kvt_random_below(&seed, SIZE);

        if (changed[at])
            continue;
        changed[at] = true;
        count++;
        bytes[at] = (uint8_t)~bytes[at];
    }
    assert_int_equal(worker_content_check(7, bytes, SIZE, &first), count);
    assert_true(changed[first]);
    for (size_t i = 0; i < first; i++)
        assert_false(changed[i]);
}

static void
another_block_is_not_this_one(void **unused)
{
    size_t first;

    (void)unused;
    worker_content_fill(42, bytes, SIZE);
    /* About one byte in 256 is equal by chance. */
    assert_true(worker_content_check(43, bytes, SIZE, &first) > SIZE * 9 / 10);
    memmove(bytes, bytes + 8, SIZE - 8); /* shifted by a word */
    assert_true(worker_content_check(42, bytes, SIZE, &first) > SIZE * 9 / 10);
    worker_content_fill(42, bytes, SIZE);
    worker_content_fill(43, other, SIZE);
    memcpy(bytes + SIZE / 2, other + SIZE / 2, SIZE / 2); /* torn between two */
    assert_true(worker_content_check(42, bytes, SIZE, &first) > SIZE * 4 / 10);
    assert_true(first >= SIZE / 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_bytes_are_right),
        cmocka_unit_test(every_changed_byte_is_found),
        cmocka_unit_test(wrong_bytes_are_counted),
        cmocka_unit_test(another_block_is_not_this_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
