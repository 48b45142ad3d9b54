/*
 * What is tested: gateway/upload/completed_parts.h, by hand at the edges, and random parts against
 * a list of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/random.h"
#include "gateway/http/attributes.h"
#include "gateway/upload/completed_parts.h"

#include "tests/support/seed.h"

enum { ROUNDS = 2000, PARTS = 40 };

/* The line as an object's attributes have it. */
static void
attributes_of(const char *text, char attributes[G4_ATTRIBUTES_MAX])
{
    attributes[0] = '\0';
    assert_true(gateway_attribute_lines_add(attributes, GATEWAY_ATTRIBUTE_PARTS, text));
}

static void
lines_that_are_none(void **state)
{
    static const struct {
        const char *text;
        uint64_t length;
        unsigned count;
    } rows[] = {
        {"1:5", 5, 1},
        {"1:5*2", 10, 2},
        {"1:5*2,9:1", 11, 3},
        {"10000:1", 1, 1},
        {"1:0", 0, 1},
        {"1:5", 6, 0}, /* of another object */
        {"1:5*2", 5, 0},
        {"", 0, 0},
        {"1", 0, 0},
        {"1:", 0, 0},
        {"x:5", 5, 0},
        {"1:5x", 5, 0},
        {"1:5*0", 0, 0},
        {"0:5", 5, 0},
        {"2:5,2:5", 10, 0},
        {"2:5,1:5", 10, 0},
        {"1:5*2,2:5", 15, 0},
        {"10001:5", 5, 0},
        {"9999:5*3", 15, 0},
        {"1:5*10001", 50005, 0},
        {"1:18446744073709551615,2:6", 5, 0},
        {"1:99999999999999999999", 0, 0},
        {"1:-5", 5, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char attributes[G4_ATTRIBUTES_MAX];
        char text[GATEWAY_COMPLETED_PARTS_TEXT];

        attributes_of(rows[i].text, attributes);
        if (gateway_completed_parts_count(attributes, rows[i].length, text) != rows[i].count)
            fail_msg("%s", rows[i].text);
    }
}

static void
random_parts(void **state)
{
    uint64_t random = test_seed();
    unsigned long_ones = 0;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct gateway_part parts[PARTS];
        const size_t count = 1 + kvt_random_below(&random, PARTS);
        char attributes[G4_ATTRIBUTES_MAX];
        char text[GATEWAY_COMPLETED_PARTS_TEXT];
        char again[GATEWAY_COMPLETED_PARTS_TEXT];
        struct gateway_piece piece;
        unsigned number = 0;
        uint64_t length = 0;

        for (size_t i = 0; i < count; i++) {
            number += kvt_random_below(&random, 8) == 0 ? 2 : 1;
            parts[i] = (struct gateway_part){
                .number = number,
                .size = kvt_random_below(&random, 3) == 0 ? 700 : UINT64_C(5) << 30};
            length += parts[i].size;
        }
        if (!gateway_completed_parts_format(parts, count, text)) {
            assert_string_equal(text, "");
            long_ones++;
            continue;
        }
        attributes_of(text, attributes);
        assert_int_equal(gateway_completed_parts_count(attributes, length, again), count);
        assert_string_equal(again, text);
        gateway_completed_parts_begin(&piece, text);
        length = 0;
        for (size_t i = 0; i < count; i++) {
            assert_true(gateway_completed_parts_next(&piece));
            assert_int_equal(piece.number, parts[i].number);
            assert_int_equal(piece.size, parts[i].size);
            assert_int_equal(piece.from, length);
            length += parts[i].size;
        }
        assert_false(gateway_completed_parts_next(&piece));
    }
    assert_in_range(long_ones, 1, ROUNDS - 1); /* both happen */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_are_none),
        cmocka_unit_test(random_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
