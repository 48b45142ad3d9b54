/*
 * What is tested: g4/object/check.h.  The checksum by published answers (RFC 3720 appendix B.4),
 * the decision by every way in which a body can fail to be what it claims.
 */
#include <string.h>

#include "g4/object/check.h"

#include "tests/support/seed.h"

static void
crc32c_gives_the_published_answers(void **state)
{
    uint8_t bytes[32];

    (void)state;
    assert_int_equal(g4_check_crc32c("", 0), 0);
    assert_int_equal(g4_check_crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(g4_check_crc32c(bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(g4_check_crc32c(bytes, sizeof(bytes)), 0x62a8ab43);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(g4_check_crc32c(bytes, sizeof(bytes)), 0x46dd794e);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_int_equal(g4_check_crc32c(bytes, sizeof(bytes)), 0x113fdb5c);
}

static const struct g4_meta good = {
    .present = true, .length = 9, .crc32c = 0xe3069283, .fingerprint = 5, .writer = "gw"};

static void
a_body_that_fits_is_accepted(void **state)
{
    const struct g4_meta nothing = {.present = false};
    struct kvt_error err;

    (void)state;
    assert_int_equal(g4_check_body(&good, &good, "123456789", 9, &err), KVT_OK);
    assert_int_equal(g4_check_body(&good, &nothing, "123456789", 9, &err), KVT_OK);
    assert_int_equal(g4_check_body(&good, NULL, "123456789", 9, NULL), KVT_OK);
    assert_int_equal(g4_check_body(NULL, &good, "123456789", 9, NULL), KVT_OK);
    assert_int_equal(g4_check_body(&nothing, &nothing, "anything", 8, &err), KVT_OK);
    assert_int_equal(g4_check_body(&nothing, &nothing, NULL, 0, &err), KVT_OK);
}

static void
a_body_that_does_not_fit_is_corrupt_and_says_why(void **state)
{
    struct g4_meta other = good;
    struct kvt_error err;

    (void)state;
    assert_int_equal(g4_check_body(&good, NULL, "12345678", 8, &err), KVT_CORRUPT);
    assert_string_equal(err.text, "length 8, expected 9");
    assert_int_equal(g4_check_body(&good, NULL, "123456788", 9, &err), KVT_CORRUPT);
    assert_non_null(strstr(err.text, "expected e3069283"));
    assert_int_equal(g4_check_body(&good, NULL, NULL, 0, &err), KVT_CORRUPT);

    other.fingerprint = 6;
    assert_int_equal(g4_check_body(&good, &other, "123456789", 9, &err), KVT_CORRUPT);
    assert_string_equal(err.text, "fingerprint 0000000000000005, expected 0000000000000006");
    other = good;
    other.length = 10;
    assert_int_equal(g4_check_body(&good, &other, "123456789", 9, &err), KVT_CORRUPT);
    assert_string_equal(err.text, "length 9, expected 10");
    other = good;
    other.crc32c = 1;
    assert_int_equal(g4_check_body(&good, &other, "123456789", 9, &err), KVT_CORRUPT);
    assert_int_equal(g4_check_body(NULL, &other, "123456789", 9, &err), KVT_CORRUPT);
}

/* A stored crc of 0 is a crc like any other; only an expected 0 means "not known". */
static void
zero_is_compared_where_it_is_stored(void **state)
{
    struct g4_meta zero = good;

    (void)state;
    zero.crc32c = 0;
    assert_int_equal(g4_check_body(&zero, NULL, "123456789", 9, NULL), KVT_CORRUPT);
    zero.length = 0;
    assert_int_equal(g4_check_body(&zero, NULL, NULL, 0, NULL), KVT_OK);
    assert_int_equal(g4_check_body(&zero, NULL, "1", 1, NULL), KVT_CORRUPT);
}

static void
objects_of_others_are_checked_by_their_length_only(void **state)
{
    const struct g4_meta foreign = {.present = false, .length = 4, .crc32c = 77};

    (void)state;
    assert_int_equal(g4_check_body(&foreign, NULL, "abcd", 4, NULL), KVT_OK);
    assert_int_equal(g4_check_body(&foreign, NULL, "abc", 3, NULL), KVT_CORRUPT);
}

static void
a_crc_may_be_taken_as_the_bytes_come(void **state)
{
    const char *text = "123456789";

    (void)state;
    for (size_t first = 0; first <= 9; first++) {
        uint32_t crc = g4_check_crc32c_more(0, text, first);

        crc = g4_check_crc32c_more(crc, "", 0);
        assert_int_equal(g4_check_crc32c_more(crc, text + first, 9 - first), 0xe3069283);
    }
}

/* With its crc the bytes are not looked at again, and everything else is as without. */
static void
an_answer_is_judged_by_the_crc_that_came_with_it(void **state)
{
    struct g4_meta other = good;
    char body[] = "123456789";
    struct g4_request answer = {.meta = good, .buffer = body, .buffer_size = 9};
    struct kvt_error err;

    (void)state;
    assert_int_equal(g4_check_answer(&answer, NULL, &err), KVT_OK);
    body[8] = '8';
    assert_int_equal(g4_check_answer(&answer, NULL, &err), KVT_CORRUPT);
    answer.body_crc32c = 0xe3069283; /* which nobody vouches for */
    assert_int_equal(g4_check_answer(&answer, NULL, &err), KVT_CORRUPT);
    answer.summed = true;
    assert_int_equal(g4_check_answer(&answer, &good, &err), KVT_OK);
    answer.body_crc32c ^= 1;
    assert_int_equal(g4_check_answer(&answer, NULL, &err), KVT_CORRUPT);
    assert_string_equal(err.text, "crc32c e3069282, expected e3069283");
    answer.meta.present = false;
    answer.meta.length = 0;
    assert_int_equal(g4_check_answer(&answer, NULL, &err), KVT_OK); /* nothing to compare with */
    assert_int_equal(g4_check_answer(&answer, &good, &err), KVT_CORRUPT);
    answer.body_crc32c ^= 1;
    assert_int_equal(g4_check_answer(&answer, &good, &err), KVT_OK);
    other.length = 10;
    assert_int_equal(g4_check_answer(&answer, &other, &err), KVT_CORRUPT);
    answer.meta = good;
    other = good;
    other.fingerprint = 6;
    assert_int_equal(g4_check_answer(&answer, &other, &err), KVT_CORRUPT);
    answer.buffer_size = 8;
    assert_int_equal(g4_check_answer(&answer, NULL, &err), KVT_CORRUPT);
    assert_string_equal(err.text, "length 8, expected 9");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_published_answers),
        cmocka_unit_test(a_body_that_fits_is_accepted),
        cmocka_unit_test(a_body_that_does_not_fit_is_corrupt_and_says_why),
        cmocka_unit_test(zero_is_compared_where_it_is_stored),
        cmocka_unit_test(a_crc_may_be_taken_as_the_bytes_come),
        cmocka_unit_test(an_answer_is_judged_by_the_crc_that_came_with_it),
        cmocka_unit_test(objects_of_others_are_checked_by_their_length_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
