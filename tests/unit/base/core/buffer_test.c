/*
 * What is tested: base/core/buffer.h and base/core/escape.h: the ceiling, what is left after a
 * failure, and JSON strings that any parser reads back.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/escape.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

static void
appends_up_to_the_limit_and_not_one_byte_more(void **state)
{
    struct kvt_buffer buffer;

    (void)state;
    kvt_buffer_init(&buffer, 10);
    assert_string_equal(kvt_buffer_text(&buffer), "");
    kvt_buffer_append(&buffer, "12345", 5);
    kvt_buffer_append(&buffer, "67890", 5);
    assert_true(kvt_buffer_ok(&buffer));
    assert_string_equal(kvt_buffer_text(&buffer), "1234567890");
    assert_true(buffer.capacity <= buffer.limit);
    kvt_buffer_append(&buffer, "x", 1);
    assert_false(kvt_buffer_ok(&buffer));
    assert_string_equal(kvt_buffer_text(&buffer), "1234567890");
    kvt_buffer_release(&buffer);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
a_failure_stays_until_cleared(void **state)
{
    struct kvt_buffer buffer;

    (void)state;
    kvt_buffer_init(&buffer, 4);
    kvt_buffer_append(&buffer, "12", 2);
    kvt_buffer_append(&buffer, "345", 3);
    kvt_buffer_append(&buffer, "6", 1); /* would fit, but after a hole */
    assert_false(kvt_buffer_ok(&buffer));
    assert_string_equal(kvt_buffer_text(&buffer), "12");
    kvt_buffer_clear(&buffer);
    kvt_buffer_append(&buffer, "6", 1);
    assert_true(kvt_buffer_ok(&buffer));
    assert_string_equal(kvt_buffer_text(&buffer), "6");
    kvt_buffer_release(&buffer);
}

static void
prints_and_reserves(void **state)
{
    struct kvt_buffer buffer;
    uint8_t *room;

    (void)state;
    kvt_buffer_init(&buffer, 8);
    kvt_buffer_printf(&buffer, "%d-%s", 12, "ab");
    room = kvt_buffer_reserve(&buffer, 3);
    assert_non_null(room);
    assert_int_equal(buffer.size, 5);
    memcpy(room, "xyz", 3);
    buffer.size += 3;
    assert_string_equal(kvt_buffer_text(&buffer), "12-abxyz");
    kvt_buffer_printf(&buffer, "%s", ""); /* nothing fits into no room */
    assert_true(kvt_buffer_ok(&buffer));
    assert_null(kvt_buffer_reserve(&buffer, SIZE_MAX));
    assert_false(kvt_buffer_ok(&buffer));
    kvt_buffer_release(&buffer);
}

static void
random_appends_against_a_plain_array(void **state)
{
    enum { LIMIT = 500, ROUNDS = 300 };
    uint64_t seed = test_seed();
    unsigned failed_count = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct kvt_buffer buffer;
        char model[LIMIT];
        size_t size = 0;
        bool ok = true;

        kvt_buffer_init(&buffer, LIMIT);
        for (int step = 0; step < 20; step++) {
            char piece[64];
            const size_t piece_size = kvt_random_below(&seed, sizeof(piece));

            memset(piece, 'a' + step, sizeof(piece));
            kvt_buffer_append(&buffer, piece, piece_size);
            ok = ok && (piece_size == 0 || size + piece_size <= LIMIT);
            if (ok) {
                memcpy(model + size, piece, piece_size);
                size += piece_size;
            }
            assert_int_equal(kvt_buffer_ok(&buffer), ok);
            assert_int_equal(buffer.size, size);
        }
        if (size > 0)
            assert_memory_equal(buffer.data, model, size);
        failed_count += ok ? 0 : 1;
        kvt_buffer_release(&buffer);
    }
    assert_in_range(failed_count, 1, ROUNDS - 1);
}

static bool
build_once(void *arg)
{
    char text[300];
    struct kvt_buffer buffer;
    bool ok;

    (void)arg;
    memset(text, '"', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    kvt_buffer_init(&buffer, 10000);
    kvt_buffer_printf(&buffer, "%s", text);
    kvt_buffer_json_string(&buffer, text);
    ok = kvt_buffer_ok(&buffer);
    assert_true(buffer.size <= buffer.capacity);
    if (ok)
        assert_int_equal(buffer.size, 299 + 2 + 2 * 299);
    kvt_buffer_release(&buffer);
    return ok;
}

static void
survives_every_allocation_failure(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(build_once, NULL) > 1);
}

static void
json_strings_come_back_from_a_parser(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 3000; round++) {
        static const char *const pieces[] = {
            "\"",   "\\", "\n",       "\x01",         "\x7f",
            "a",    "/",  "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
            "\t\r", "<"};
        char text[400] = "";
        size_t size = 0;
        struct kvt_buffer buffer;
        struct json_object *back;

        for (uint64_t left = kvt_random_below(&seed, 90); left > 0; left--)
            size += (size_t)snprintf(text + size, sizeof(text) - size, "%s",
                                     pieces[kvt_random_below(&seed, 12)]);
        kvt_buffer_init(&buffer, 10000);
        kvt_buffer_json_string(&buffer, text);
        back = json_tokener_parse(kvt_buffer_text(&buffer));
        assert_true(json_object_is_type(back, json_type_string));
        assert_string_equal(json_object_get_string(back), text);
        json_object_put(back);
        kvt_buffer_release(&buffer);
    }
}

static void
bytes_that_are_no_utf8_are_replaced(void **state)
{
    /* A lone continuation, an overlong slash, a surrogate, beyond U+10FFFF, and a cut character. */
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {
        {"a\x80z", "a\xef\xbf\xbdz"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const size_t size = kvt_escape_json(out, sizeof(out), rows[i].in);

        assert_int_equal(size, strlen(rows[i].out));
        assert_memory_equal(out, rows[i].out, size);
    }
}

static void
escaping_stops_before_a_unit_that_does_not_fit(void **state)
{
    char out[8];

    (void)state;
    memset(out, '#', sizeof(out));
    assert_int_equal(kvt_escape_json(out, 7,
                                     "ab\x01"
                                     "c"),
                     2);
    assert_int_equal(out[2], '#');
    assert_int_equal(kvt_escape_json(out, 8,
                                     "ab\x01"
                                     "c"),
                     8);
    assert_int_equal(kvt_escape_json(out, 0, "a"), 0);
    assert_int_equal(kvt_escape_json(out, 3, "\xe2\x82\xac\xe2\x82\xac"), 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_up_to_the_limit_and_not_one_byte_more),
        cmocka_unit_test(a_failure_stays_until_cleared),
        cmocka_unit_test(prints_and_reserves),
        cmocka_unit_test(random_appends_against_a_plain_array),
        cmocka_unit_test(survives_every_allocation_failure),
        cmocka_unit_test(json_strings_come_back_from_a_parser),
        cmocka_unit_test(bytes_that_are_no_utf8_are_replaced),
        cmocka_unit_test(escaping_stops_before_a_unit_that_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
