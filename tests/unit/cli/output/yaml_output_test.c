/*
 * What is tested: cli/output/yaml_output.h.
 * How: a table of JSON and the YAML it must become; libyaml reads all of it back, and random text
 *      too, as it was.
 */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/core/random.h"
#include "cli/output/yaml_output.h"

#include "tests/support/seed.h"

/* What `json` becomes, to be freed; `failed`: whether the stream says that it could not. */
static char *
convert(const char *json, size_t step, bool *failed)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    FILE *stream = cli_yaml_output_open(to);

    assert_non_null(stream);
    *failed = false;
    for (size_t at = 0, left = strlen(json); left > 0;) {
        const size_t part = step < left ? step : left;

        *failed = *failed || fwrite(json + at, 1, part, stream) != part || fflush(stream) != 0;
        at += part;
        left -= part;
    }
    *failed = fclose(stream) != 0 || *failed;
    assert_int_equal(fclose(to), 0);
    return text;
}

static void
objects_become_documents(void **state)
{
    static const struct {
        const char *json;
        const char *yaml;
    } table[] = {
        {"{}\n", "{}\n"},
        {"{\"a\":1,\"b\":-5,\"c\":18446744073709551615}", "a: 1\nb: -5\nc: 18446744073709551615\n"},
        {"{\"t\":true,\"f\":false,\"n\":null}", "t: true\nf: false\n\"n\": null\n"},
        {"{\"a\":{\"b\":{\"c\":1}},\"d\":{},\"e\":[]}", "a:\n  b:\n    c: 1\nd: {}\ne: []\n"},
        {"{\"l\":[1,\"x\",[],{},null]}", "l:\n  - 1\n  - x\n  - []\n  - {}\n  - null\n"},
        {"{\"l\":[{\"a\":1,\"b\":[2,3]},{\"a\":{\"c\":4}}]}",
         "l:\n  - a: 1\n    b:\n      - 2\n      - 3\n  - a:\n      c: 4\n"},
        {"{\"l\":[[1,[2]],[{\"a\":3}]]}", "l:\n  - - 1\n    - - 2\n  - - a: 3\n"},
        {"[1,{\"a\":2}]", "- 1\n- a: 2\n"},
        {"{\"a\":1}\n{\"a\":2}\n\n  {\"a\":3}\n", "a: 1\n---\na: 2\n---\na: 3\n"},
        {"{\n  \"a\": 1,\n  \"b\": 2\n}\n", "a: 1\nb: 2\n"},
        {"{\"d\":[0.5,1e5,1.5e-7,-2.0,0.1,1e300]}",
         "d:\n  - 0.5\n  - 100000.0\n  - 1.5e-07\n  - -2.0\n  - 0.1\n  - 1.0e+300\n"},
        /* Only what nobody takes for anything else goes without quotes. */
        {"{\"s\":[\"plain\",\"a.b/c_d-e@f\",\"/path\",\"_x\"]}",
         "s:\n  - plain\n  - a.b/c_d-e@f\n  - /path\n  - _x\n"},
        {"{\"s\":[\"\",\"yes\",\"No\",\"TRUE\",\"y\",\"null\",\"Off\",\"~\"]}",
         "s:\n  - \"\"\n  - \"yes\"\n  - \"No\"\n  - \"TRUE\"\n  - \"y\"\n  - \"null\"\n  - "
         "\"Off\"\n"
         "  - \"~\"\n"},
        {"{\"s\":[\"12\",\"0x1f\",\"1e5\",\"-3\",\".5\",\".inf\",\"00000000deadbeef\",\"2026-11-"
         "21\","
         "\"12:30\",\"=\",\"<<\",\"-\",\"? x\"]}",
         "s:\n  - \"12\"\n  - \"0x1f\"\n  - \"1e5\"\n  - \"-3\"\n  - \".5\"\n  - \".inf\"\n"
         "  - \"00000000deadbeef\"\n  - \"2026-11-21\"\n  - \"12:30\"\n  - \"=\"\n  - \"<<\"\n"
         "  - \"-\"\n  - \"? x\"\n"},
        {"{\"s\":[\"a: b\",\"a #b\",\"a:\",\" a\",\"a \",\"two "
         "words\",\"[x]\",\"*a\",\"&a\",\"!a\","
         "\"%a\",\"'a'\"]}",
         "s:\n  - \"a: b\"\n  - \"a #b\"\n  - \"a:\"\n  - \" a\"\n  - \"a \"\n  - \"two words\"\n"
         "  - \"[x]\"\n  - \"*a\"\n  - \"&a\"\n  - \"!a\"\n  - \"%a\"\n  - \"'a'\"\n"},
        {"{\"s\":[\"q\\\"q\",\"b\\\\b\",\"n\\nn\",\"t\\tt\",\"\\u0001\\u007f\\u0000z\"]}",
         "s:\n  - \"q\\\"q\"\n  - \"b\\\\b\"\n  - \"n\\nn\"\n  - \"t\\tt\"\n"
         "  - \"\\u0001\\u007F\\u0000z\"\n"},
        {"{\"s\":[\"gr\xc3\xbc\xc3\x9f\",\"\xf0\x9f\x98\x80\",\"\xc2\x85\xe2\x80\xa8\xef\xbb\xbf\","
         "\"\xff\xc3\"]}",
         "s:\n  - \"gr\xc3\xbc\xc3\x9f\"\n  - \"\xf0\x9f\x98\x80\"\n"
         "  - \"\\u0085\\u2028\\uFEFF\"\n  - \"\\uFFFD\\uFFFD\"\n"},
        {"{\"two words\":1,\"7\":2,\"on\":3}", "\"two words\": 1\n\"7\": 2\n\"on\": 3\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const size_t steps[] = {1, 7, SIZE_MAX};

        for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
            bool failed;
            char *text = convert(table[i].json, steps[k], &failed);

            assert_false(failed);
            assert_string_equal(text, table[i].yaml);
            free(text);
        }
    }
}

static void
what_is_no_json_is_an_error(void **state)
{
    static const char *const texts[] = {
        "x",
        "{\"a\":1",
        "{\"a\" 1}",
        "{\"a\":1}}",
        "{\"a\":1}{",
        "table\n",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        bool failed;

        free(convert(texts[i], SIZE_MAX, &failed));
        if (!failed)
            fail_msg("taken: %s", texts[i]);
    }
}

static void
whoever_reads_may_leave(void **state)
{
    FILE *full = fopen("/dev/full", "we");
    FILE *stream = cli_yaml_output_open(full);

    (void)state;
    assert_true(fputs("{\"a\":1}\n", stream) >= 0);
    assert_int_not_equal(fflush(stream), 0);
    assert_int_not_equal(ferror(stream), 0);
    (void)fclose(stream);
    (void)fclose(full);
}

/* The one scalar of a list of one, as libyaml reads it. */
static void
expect_scalar(const char *yaml, const char *text, size_t size)
{
    yaml_parser_t parser;
    yaml_document_t document;
    const yaml_node_t *root;
    const yaml_node_t *node;

    assert_int_equal(yaml_parser_initialize(&parser), 1);
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml, strlen(yaml));
    if (yaml_parser_load(&parser, &document) != 1)
        fail_msg("%s: %s", parser.problem, yaml);
    root = yaml_document_get_root_node(&document);
    assert_int_equal(root->type, YAML_SEQUENCE_NODE);
    node = yaml_document_get_node(&document, *root->data.sequence.items.start);
    assert_int_equal(node->type, YAML_SCALAR_NODE);
    assert_int_equal(node->data.scalar.length, size);
    assert_memory_equal(node->data.scalar.value, text, size);
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
}

/* Text of any letters there are is read as it was. */
static void
text_comes_back(void **state)
{
    static const char *const pieces[] = {"a",
                                         "0",
                                         "-",
                                         " ",
                                         ":",
                                         "#",
                                         "'",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         ",",
                                         "&",
                                         "*",
                                         "!",
                                         "|",
                                         ">",
                                         "%",
                                         "@",
                                         "`",
                                         "\xc3\xa9",
                                         "~",
                                         "\t",
                                         "\n",
                                         "\r",
                                         "\x1b",
                                         "\"",
                                         "\xc2\x85",
                                         "\xe2\x80\xa9",
                                         "\\",
                                         "?",
                                         "\xe4\xb8\xad",
                                         "."};
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 3000; round++) {
        char text[64] = "";
        char json[512] = "[\"";
        size_t at = 2;
        bool failed;
        char *yaml;

        for (uint64_t i = kvt_random_below(&random, 8); i > 0; i--) {
            const char *piece =
                pieces[kvt_random_below(&random, sizeof(pieces) / sizeof(pieces[0]))];

            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", piece);
        }
        for (const char *from = text; *from != '\0'; from++)
            at += (size_t)snprintf(
                json + at, sizeof(json) - at,
                (unsigned char)*from < 0x20 || *from == '"' || *from == '\\' ? "\\u%04x" : "%c",
                (unsigned char)*from);
        (void)snprintf(json + at, sizeof(json) - at, "\"]");
        yaml = convert(json, SIZE_MAX, &failed);
        assert_false(failed);
        expect_scalar(yaml, text, strlen(text));
        free(yaml);
    }
}

static bool
open_once(void *arg)
{
    FILE *stream = cli_yaml_output_open(arg);

    return stream != NULL && fclose(stream) == 0;
}

static void
memory_is_short(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(open_once, stdout) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_become_documents), cmocka_unit_test(what_is_no_json_is_an_error),
        cmocka_unit_test(whoever_reads_may_leave),  cmocka_unit_test(text_comes_back),
        cmocka_unit_test(memory_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
