/*
 * What is tested: base/text/json.h: where errors point, 64-bit numbers to the last bit, and that
 * nothing but the asked-for type is taken.
 */
#include <inttypes.h>
#include <string.h>

#include "base/core/random.h"
#include "base/text/json.h"

#include "tests/support/long_text.h"
#include "tests/support/seed.h"

static struct json_object *
parse(const char *text)
{
    struct kvt_error err;
    struct json_object *value;

    if (kvt_json_parse(&value, text, strlen(text), "body", &err) != KVT_OK)
        fail_msg("%s: %s", text, err.text);
    return value;
}

static void
errors_name_line_and_column(void **state)
{
    static const char *const rows[][2] = {
        {"", "body:1:1: the text ends too early"},
        {"{\"a\":", "body:1:6: the text ends too early"},
        {"{\n  \"a\": 1,\n  b\n}", "body:3:3: "},
        {"{} x", "body:1:4: "},
        {"[1] [2]", "body:1:5: "},
        {"null", "body:1:1: null"},
        {"{a: 1}", "body:1:2: "},
        {"[1,]", "body:1:4: "},
        {"\"\xff\"", "body:1:2: "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kvt_error err;
        struct json_object *value = (struct json_object *)&err;

        assert_int_equal(kvt_json_parse(&value, rows[i][0], strlen(rows[i][0]), "body", &err),
                         KVT_INVALID);
        assert_null(value);
        if (strncmp(err.text, rows[i][1], strlen(rows[i][1])) != 0)
            fail_msg("%s: \"%s\" is not \"%s\"", rows[i][0], err.text, rows[i][1]);
    }
}

static void
a_nul_does_not_end_the_text_early(void **state)
{
    static const char text[] = "{} \0 {}";
    struct json_object *value;
    struct kvt_error err;

    (void)state;
    assert_int_equal(kvt_json_parse(&value, text, sizeof(text) - 1, "body", &err), KVT_INVALID);
    assert_string_equal(err.text, "body:1:4: more text after the value");
    assert_null(value);
}

static void
only_so_deep(void **state)
{
    char text[4 * KVT_JSON_DEPTH_MAX];
    struct json_object *value;

    (void)state;
    memset(text, '[', KVT_JSON_DEPTH_MAX + 1);
    memset(text + KVT_JSON_DEPTH_MAX + 1, ']', KVT_JSON_DEPTH_MAX + 1);
    assert_int_equal(kvt_json_parse(&value, text, 2 * KVT_JSON_DEPTH_MAX + 2, "b", NULL),
                     KVT_INVALID);
    assert_int_equal(kvt_json_parse(&value, text + 2, 2 * KVT_JSON_DEPTH_MAX - 2, "b", NULL),
                     KVT_OK);
    json_object_put(value);
}

static void
members_are_read_by_type(void **state)
{
    struct json_object *root =
        parse(" {\"n\": 18446744073709551615, \"neg\": -1, \"real\": 1.5, \"hash\": "
              "\"00000000000000ff\", \"dec\": \"12\", \"flag\": true, \"s\": \"x\", \"nul\": "
              "\"a\\u0000b\", \"list\": [1, \"2\"]} \n");
    uint64_t number = 1;
    bool flag = true;

    (void)state;
    assert_true(kvt_json_u64(root, "n", &number));
    assert_int_equal(number, UINT64_MAX);
    assert_false(kvt_json_u64(root, "neg", &number));
    assert_int_equal(number, 0);
    assert_false(kvt_json_u64(root, "real", &number));
    assert_false(kvt_json_u64(root, "s", &number));
    assert_false(kvt_json_u64(root, "none", &number));
    assert_true(kvt_json_hash(root, "hash", &number));
    assert_int_equal(number, 255);
    assert_true(kvt_json_hash(root, "dec", &number));
    assert_int_equal(number, 12);
    assert_true(kvt_json_hash(root, "n", &number));
    assert_false(kvt_json_hash(root, "s", &number));
    assert_false(kvt_json_bool(root, "s", &flag));
    assert_false(flag);
    assert_true(kvt_json_has(root, "flag"));
    assert_false(kvt_json_has(root, "nothing"));
    assert_false(kvt_json_has(kvt_json_array(root, "list"), "flag"));
    assert_false(kvt_json_has(NULL, "flag"));
    assert_true(kvt_json_bool(root, "flag", &flag));
    assert_true(flag);
    assert_string_equal(kvt_json_string(root, "s"), "x");
    assert_null(kvt_json_string(root, "nul")); /* would be cut where C stops reading */
    assert_null(kvt_json_string(root, "n"));
    assert_int_equal(json_object_array_length(kvt_json_array(root, "list")), 2);
    assert_null(kvt_json_array(root, "s"));
    assert_null(kvt_json_member(kvt_json_array(root, "list"), "n"));
    assert_null(kvt_json_member(NULL, "n"));
    json_object_put(root);
}

static void
lone_values_parse_too(void **state)
{
    struct json_object *value = parse("42");
    uint64_t number;

    (void)state;
    assert_true(kvt_json_to_u64(value, &number));
    assert_int_equal(number, 42);
    json_object_put(value);
}

static void
damaged_text_never_does_worse_than_fail(void **state)
{
    static const char good[] = "{\"namespace\":\"t/m\",\"hashes\":[\"00000000000000ff\",12,{}]}";
    uint64_t seed = test_seed();
    unsigned refused_count = 0;

    (void)state;
    for (int round = 0; round < 5000; round++) {
        char text[sizeof(good)];
        struct json_object *value;

        memcpy(text, good, sizeof(good));
        text[kvt_random_below(&seed, sizeof(good) - 1)] = (char)kvt_random_below(&seed, 256);
        if (kvt_json_parse(&value, text, kvt_random_below(&seed, sizeof(good)), "b", NULL) !=
            KVT_OK) {
            refused_count++;
            assert_null(value);
        }
        json_object_put(value);
    }
    assert_true(refused_count > 1000);
}

static void
no_text_takes_long(void **state)
{
    static const struct {
        const char *head;
        const char *line;
        const char *tail;
        enum kvt_err rc;
    } texts[] = {
        {"", "[", "", KVT_INVALID},
        {"", "{\"a\":", "", KVT_INVALID},
        {"", "[{\"a\":[", "", KVT_INVALID},
        {"[0", ",0", "]", KVT_RANGE},
        {"[[]", ",[]", "]", KVT_RANGE},
        {"{\"b\":0", ",\"a\":0", "}", KVT_RANGE},
        {"{\"b\":0", ",\"#aaaaaaaa\":0", "}", KVT_OK},
        {"[\"", "a", "\"]", KVT_OK},
        {"[\"", "\\u0041", "\"]", KVT_OK},
        {"[\"", "\\ud83d", "\"]", KVT_OK},
        {"[\"", "\\", "\"]", KVT_INVALID},
        {"[", "1", "]", KVT_OK},
        {"[0.", "1", "]", KVT_OK},
        {"[1e", "1", "]", KVT_OK},
        {"[\"", ",", "\"]", KVT_OK},
        {"", " ", "1", KVT_OK},
        {"1", "\n", "", KVT_OK},
        {"", "/*", "", KVT_INVALID},
        {"\"a\"", "\"", "", KVT_INVALID},
    };
    static const size_t sizes[] = {100u << 10, 1u << 20, 8u << 20};
    char *text = test_malloc((8u << 20) + 8);

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (size_t j = 0; j < 3; j++) {
            size_t size = test_long_text(text, sizes[j], texts[i].head, texts[i].line);
            const uint64_t start = test_cpu_ms();
            struct json_object *value;
            struct kvt_error err;
            enum kvt_err rc;
            uint64_t took;

            memcpy(text + size, texts[i].tail, strlen(texts[i].tail));
            size += strlen(texts[i].tail);
            rc = kvt_json_parse(&value, text, size, "body", &err);
            took = test_cpu_ms() - start;
            (void)json_object_put(value);
            if (took > 4000)
                fail_msg("\"%s\" of %zu bytes took %" PRIu64 " ms", texts[i].line, size, took);
            /* A smaller one may be within the limit. */
            if (rc != texts[i].rc && !(j < 2 && texts[i].rc == KVT_RANGE))
                fail_msg("\"%s\" of %zu bytes: %s", texts[i].line, size, kvt_err_text(rc));
        }
    }
    test_free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(a_nul_does_not_end_the_text_early),
        cmocka_unit_test(only_so_deep),
        cmocka_unit_test(members_are_read_by_type),
        cmocka_unit_test(lone_values_parse_too),
        cmocka_unit_test(no_text_takes_long),
        cmocka_unit_test(damaged_text_never_does_worse_than_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
