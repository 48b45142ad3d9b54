/*
 * What is tested: base/text/hex.h.
 */
#include <string.h>

#include "base/text/hex.h"

#include "tests/support/seed.h"

static void
every_byte_comes_back(void **state)
{
    uint8_t bytes[256];
    uint8_t back[256];
    char text[2 * sizeof(bytes) + 1];

    (void)state;
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    kvt_hex_format(bytes, sizeof(bytes), text);
    assert_int_equal(strlen(text), 2 * sizeof(bytes));
    assert_memory_equal(text, "000102", 6);
    assert_string_equal(text + strlen(text) - 4, "feff");
    assert_true(kvt_hex_parse(text, sizeof(bytes), back));
    assert_memory_equal(back, bytes, sizeof(bytes));
    kvt_hex_format(bytes, 0, text);
    assert_string_equal(text, "");
}

static void
only_digits_are_digits(void **state)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t byte;

    (void)state;
    for (int c = 0; c < 256; c++) {
        const char lower = (char)(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
        const char *at = c == 0 ? NULL : strchr(digits, lower);

        assert_int_equal(kvt_hex_digit((char)c), at == NULL ? -1 : (int)(at - digits));
    }
    assert_true(kvt_hex_parse("Fa", 1, &byte));
    assert_int_equal(byte, 0xfa);
    assert_false(kvt_hex_parse("fg", 1, &byte));
    assert_false(kvt_hex_parse("f", 1, &byte)); /* the NUL is none */
    assert_false(kvt_hex_parse("", 1, &byte));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(only_digits_are_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
