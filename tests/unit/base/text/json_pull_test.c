/*
 * What is tested: base/text/json_pull.h.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/json_pull.h"

#include "tests/support/seed.h"

static enum kvt_err
verdict(const char *text)
{
    struct kvt_json_pull pull;
    struct kvt_error err;

    kvt_json_pull_init(&pull, text, strlen(text));
    kvt_json_pull_skip(&pull);
    return kvt_json_pull_end(&pull, "text", &err);
}

static void
what_is_json_and_what_is_not(void **state)
{
    static const char *const good[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "12",
        "-1.5e+10",
        "1E5",
        "0.0",
        "\"\"",
        "[]",
        "{}",
        " [ 1 , 2 ] ",
        "{\"a\":{\"b\":[null]}}",
        "\"\\u00e9\\ud83d\\ude00\\/\"",
        "\"\xc3\xa9\"",
        "\"\xf0\x9f\x98\x80\"",
        "{\"a\":1,\"a\":2}",
    };
    static const char *const bad[] = {
        "",
        " ",
        "nul",
        "True",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "0x1",
        "NaN",
        "\"",
        "'a'",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\t\"",
        "\"\xff\"",
        "\"\xc0\xaf\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe2\x82\"",
        "[",
        "]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:2}",
        "[}",
        "{]",
        "[1]x",
        "1 2",
        "{\"a\":1]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_int_equal(verdict(good[i]), KVT_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(verdict(bad[i]), KVT_INVALID);
}

static void
numbers_keep_all_64_bits(void **state)
{
    static const struct {
        const char *text;
        bool whole;
        uint64_t value;
    } rows[] = {
        {"0", true, 0},
        {"9223372036854775808", true, UINT64_C(9223372036854775808)},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"99999999999999999999999", false, 0},
        {"-1", false, 0},
        {"1.0", false, 0},
        {"1e2", false, 0},
        {"\"1\"", false, 0},
        {"null", false, 0},
        {"[1]", false, 0},
    };
    struct kvt_json_pull pull;
    uint64_t value;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        kvt_json_pull_init(&pull, rows[i].text, strlen(rows[i].text));
        assert_int_equal(kvt_json_pull_u64(&pull, &value), rows[i].whole);
        assert_int_equal(value, rows[i].value);
        /* What it is not is stepped over all the same. */
        assert_int_equal(kvt_json_pull_end(&pull, "number", NULL), KVT_OK);
    }
}

static void
strings_are_unescaped_and_bounded(void **state)
{
    static const char text[] =
        "[\"a\\u0062c\", \"\\u00e9\\ud83d\\ude00\", \"x\\u0000y\", \"abcd\"]";
    struct kvt_json_slice slice;
    struct kvt_json_pull pull;
    char out[8];
    size_t size;

    (void)state;
    kvt_json_pull_init(&pull, text, sizeof(text) - 1);
    assert_true(kvt_json_pull_array(&pull));
    assert_true(kvt_json_pull_element(&pull) && kvt_json_pull_string(&pull, &slice));
    assert_true(kvt_json_slice_is(&slice, "abc") && slice.escaped);
    assert_false(kvt_json_slice_is(&slice, "abcd"));
    assert_false(kvt_json_slice_is(&slice, "ab"));
    assert_true(kvt_json_slice_copy(&slice, out, 4, NULL));
    assert_string_equal(out, "abc");
    assert_false(kvt_json_slice_copy(&slice, out, 3, NULL));
    assert_string_equal(out, "");

    assert_true(kvt_json_pull_element(&pull) && kvt_json_pull_string(&pull, &slice));
    assert_true(kvt_json_slice_copy(&slice, out, sizeof(out), NULL));
    assert_string_equal(out, "\xc3\xa9\xf0\x9f\x98\x80");

    assert_true(kvt_json_pull_element(&pull) && kvt_json_pull_string(&pull, &slice));
    assert_false(kvt_json_slice_copy(&slice, out, sizeof(out), NULL));
    assert_true(kvt_json_slice_copy(&slice, out, sizeof(out), &size));
    assert_int_equal(size, 3);
    assert_memory_equal(out, "x\0y", 4);

    assert_true(kvt_json_pull_element(&pull) && kvt_json_pull_string(&pull, &slice));
    assert_true(kvt_json_slice_is(&slice, "abcd") && !slice.escaped);
    assert_false(kvt_json_pull_element(&pull));
    assert_int_equal(kvt_json_pull_end(&pull, "strings", NULL), KVT_OK);
}

static void
members_are_read_or_stepped_over(void **state)
{
    static const char text[] =
        "{\"a\": [1, {\"x\": [2]}], \"b\": true, \"c\": null, \"d\": {\"e\": 7}}";
    struct kvt_json_slice key;
    struct kvt_json_pull pull;
    uint64_t value = 0;
    bool flag = false;
    unsigned seen = 0;

    (void)state;
    kvt_json_pull_init(&pull, text, sizeof(text) - 1);
    assert_int_equal(kvt_json_pull_peek(&pull), KVT_JSON_OBJECT);
    assert_true(kvt_json_pull_object(&pull));
    while (kvt_json_pull_member(&pull, &key)) {
        seen++;
        if (kvt_json_slice_is(&key, "b")) {
            assert_true(kvt_json_pull_bool(&pull, &flag) && flag);
        } else if (kvt_json_slice_is(&key, "c")) {
            assert_true(kvt_json_pull_null(&pull));
        } else if (kvt_json_slice_is(&key, "d")) {
            assert_true(kvt_json_pull_object(&pull));
            assert_true(kvt_json_pull_member(&pull, &key) && kvt_json_pull_u64(&pull, &value));
            assert_false(kvt_json_pull_member(&pull, &key));
        } else {
            assert_false(kvt_json_pull_object(&pull)); /* an array: stepped over */
        }
    }
    assert_int_equal(seen, 4);
    assert_int_equal(value, 7);
    assert_int_equal(kvt_json_pull_end(&pull, "members", NULL), KVT_OK);
}

static void
depth_is_bounded(void **state)
{
    char text[2 * KVT_JSON_PULL_DEPTH_MAX + 3];

    (void)state;
    memset(text, '[', sizeof(text));
    memset(text + KVT_JSON_PULL_DEPTH_MAX, ']', KVT_JSON_PULL_DEPTH_MAX);
    text[2 * KVT_JSON_PULL_DEPTH_MAX] = '\0';
    assert_int_equal(verdict(text), KVT_OK);
    memset(text, '[', KVT_JSON_PULL_DEPTH_MAX + 1);
    memset(text + KVT_JSON_PULL_DEPTH_MAX + 1, ']', KVT_JSON_PULL_DEPTH_MAX + 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(verdict(text), KVT_RANGE);
}

/* Every prefix of a text is refused, read in memory of exactly its size. */
static void
no_prefix_is_a_text(void **state)
{
    static const char text[] = "{\"a\":[1,-2.5e3,true,false,null,\"\\u00e9\xc3\xa9\"],\"b\":{}}";
    struct kvt_json_pull pull;
    struct kvt_error err;

    (void)state;
    for (size_t size = 0; size < sizeof(text) - 1; size++) {
        char *copy = kvt_calloc(size > 0 ? size : 1, 1);

        assert_non_null(copy);
        memcpy(copy, text, size);
        kvt_json_pull_init(&pull, copy, size);
        kvt_json_pull_skip(&pull);
        assert_int_equal(kvt_json_pull_end(&pull, "prefix", &err), KVT_INVALID);
        assert_true(pull.failed_at <= size);
        kvt_free(copy);
    }
    assert_int_equal(verdict(text), KVT_OK);
}

static void
faults_say_where(void **state)
{
    static const char text[] = "{\"a\": [1, x]}";
    struct kvt_json_pull pull;
    struct kvt_error err;

    (void)state;
    kvt_json_pull_init(&pull, text, sizeof(text) - 1);
    kvt_json_pull_skip(&pull);
    assert_int_equal(kvt_json_pull_end(&pull, "settings", &err), KVT_INVALID);
    assert_string_equal(err.text, "settings of 13 bytes: at byte 10 expected a value");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_json_and_what_is_not),
        cmocka_unit_test(numbers_keep_all_64_bits),
        cmocka_unit_test(strings_are_unescaped_and_bounded),
        cmocka_unit_test(members_are_read_or_stepped_over),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(no_prefix_is_a_text),
        cmocka_unit_test(faults_say_where),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
