/*
 * What is tested: kvbm/layout/checksum.h.  Both ways to copy and sum copy and sum as memcpy() and
 * kvbm_crc32c() do, which gives what RFC 3720 says; nothing beside `to` is written.
 * How: every size up to some rounds and around multiples of what they do at once, at any address,
 * none to nine pieces of it; nothing beside `sums` is written either.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/layout/checksum.h"

#include "tests/support/seed.h"

enum { ROOM = 70000, EDGE = 128, SMALL = 1100, STEPS = 4000, PIECES = 9 };

typedef void copy_fn(uint32_t *sums, void *to, const void *from, size_t size, size_t count);

static uint32_t
copy_and_sum(void *to, const void *from, size_t size)
{
    uint32_t sum = 0;

    kvbm_crc32c_copy(&sum, to, from, size, 1);
    return sum;
}

static void
the_sums_of_the_standard(void **state)
{
    uint8_t bytes[32] = {0};
    uint8_t into[32];

    (void)state;
    assert_int_equal(kvbm_crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
    assert_int_equal(copy_and_sum(into, bytes, sizeof(bytes)), 0x8a9136aa);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(kvbm_crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
    assert_int_equal(copy_and_sum(into, bytes, sizeof(bytes)), 0x46dd794e);
}

struct memory {
    uint8_t *from;
    uint8_t *to;
    uint8_t *model;
};

static void
copy_some(const struct memory *memory, copy_fn *copy, size_t at, size_t to, size_t size,
          size_t count)
{
    const size_t around = count * size + 2 * (size_t)EDGE;
    uint32_t sums[PIECES + 2];

    memset(sums, 0x5a, sizeof(sums));
    memset(memory->to + to - EDGE, 0x5a, around);
    memset(memory->model, 0x5a, around);
    memcpy(memory->model + EDGE, memory->from + at, count * size);
    copy(sums + 1, memory->to + to, memory->from + at, size, count);
    assert_memory_equal(memory->to + to - EDGE, memory->model, around);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sums[i + 1], kvbm_crc32c(0, memory->from + at + i * size, size));
    assert_int_equal(sums[0], 0x5a5a5a5a);
    assert_int_equal(sums[count + 1], 0x5a5a5a5a);
}

static void
copies_as_memory_and_sums_as_the_sum(void **state)
{
    copy_fn *const all[] = {kvbm_crc32c_copy, kvbm_crc32c_copy_by_steps};
    uint64_t random = test_seed();
    struct memory memory = {
        .from = kvt_calloc(1, ROOM), .to = kvt_calloc(1, ROOM), .model = kvt_calloc(1, ROOM)};

    (void)state;
    assert_true(memory.from != NULL && memory.to != NULL && memory.model != NULL);
    for (size_t i = 0; i < ROOM; i++)
        memory.from[i] = (uint8_t)kvt_random_next(&random);
    for (size_t which = 0; which < sizeof(all) / sizeof(all[0]); which++) {
        for (size_t size = 0; size < SMALL; size++)
            copy_some(&memory, all[which], size % 7, EDGE + size % 5, size, size % (PIECES + 1));
        for (int step = 0; step < STEPS; step++) {
            const size_t count = (size_t)kvt_random_below(&random, PIECES + 1);
            const size_t about = 256 * (1 + (size_t)kvt_random_below(&random, 250));
            const size_t size =
                (about - 3 + (size_t)kvt_random_below(&random, 7)) / (count > 0 ? count : 1);
            const size_t at = (size_t)kvt_random_below(&random, 64);
            const size_t to = EDGE + (size_t)kvt_random_below(&random, 64);

            copy_some(&memory, all[which], at, to, size, count);
        }
    }
    kvt_free(memory.from);
    kvt_free(memory.to);
    kvt_free(memory.model);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sums_of_the_standard),
        cmocka_unit_test(copies_as_memory_and_sums_as_the_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
