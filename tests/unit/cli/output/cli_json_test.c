/*
 * What is tested: cli/output/cli_json.h.
 * How: right paths, and everything an answer of another program could hold instead.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/output/cli_json.h"

#include "tests/support/seed.h"

static struct json_object *
parse(const char *text)
{
    struct json_object *object = json_tokener_parse(text);

    assert_non_null(object);
    return object;
}

static void
values_are_found_by_path(void **state)
{
    struct json_object *object =
        parse("{\"a\":{\"b\":{\"n\":18446744073709551615,\"t\":\"x\",\"f\":true,\"m\":-5}},"
              "\"list\":[{\"v\":1},{\"v\":2}]}");

    (void)state;
    assert_true(cli_json_u64(object, "a.b.n") == UINT64_MAX);
    assert_string_equal(cli_json_text(object, "a.b.t"), "x");
    assert_string_equal(cli_json_text(object, "a.b.n"), "18446744073709551615");
    assert_true(cli_json_bool(object, "a.b.f"));
    assert_int_equal(cli_json_i64(object, "a.b.m"), -5);
    assert_int_equal(cli_json_count(object, "list"), 2);
    assert_int_equal(cli_json_u64(cli_json_item(object, "list", 1), "v"), 2);
    (void)json_object_put(object);
}

static void
what_is_not_there_reads_as_nothing(void **state)
{
    static const char *const texts[] = {
        "{}", "{\"a\":null}", "{\"a\":5}", "{\"a\":[1]}", "{\"a\":\"x\"}", "[]", "7"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct json_object *object = parse(texts[i]);

        assert_null(cli_json_at(object, "a.b"));
        assert_int_equal(cli_json_u64(object, "a.b"), 0);
        assert_string_equal(cli_json_text(object, "a.b.c"), "");
        assert_false(cli_json_bool(object, "a.b"));
        assert_int_equal(cli_json_count(object, "a.b"), 0);
        assert_null(cli_json_item(object, "a", 1));
        (void)json_object_put(object);
    }
    assert_int_equal(cli_json_u64(NULL, "a"), 0);
    assert_string_equal(cli_json_text(NULL, "a"), "");
    assert_null(cli_json_at(NULL, "a"));
}

static void
texts_of_a_list_are_joined_as_far_as_there_is_room(void **state)
{
    struct json_object *object =
        parse("{\"a\":{\"l\":[\"G1\",\"G2\",7]},\"odd\":[null,\"x\"],\"t\":5}");
    char text[9];

    (void)state;
    cli_json_join(object, "a.l", text, sizeof(text));
    assert_string_equal(text, "G1 G2 7");
    cli_json_join(object, "a.l", text, 5);
    assert_string_equal(text, "G1 G");
    cli_json_join(object, "odd", text, sizeof(text));
    assert_string_equal(text, " x");
    cli_json_join(object, "t", text, sizeof(text));
    assert_string_equal(text, "");
    cli_json_join(NULL, "a", text, sizeof(text));
    assert_string_equal(text, "");
    (void)json_object_put(object);
}

static void
an_object_prints_on_one_line(void **state)
{
    struct json_object *object = parse("{ \"key\": \"0/3:abc\", \"n\": [1, 2] }");
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    assert_non_null(out);
    cli_json_print(out, object);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "{\"key\":\"0/3:abc\",\"n\":[1,2]}\n");
    free(text);
    (void)json_object_put(object);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_path),
        cmocka_unit_test(what_is_not_there_reads_as_nothing),
        cmocka_unit_test(texts_of_a_list_are_joined_as_far_as_there_is_room),
        cmocka_unit_test(an_object_prints_on_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
