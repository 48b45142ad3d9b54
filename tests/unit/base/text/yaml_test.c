/*
 * What is tested: base/text/yaml.h.
 * How: a table of small files, each with what is read or the exact words it is refused with.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/file.h"
#include "base/text/yaml.h"

#include "tests/support/long_text.h"
#include "tests/support/seed.h"

/* What a file of the table is read into. */
struct reading {
    char name[8];
    char mode[8];
    char many[16];
    uint64_t count;
    uint64_t size;
    uint64_t wait_ms;
    uint32_t part_ppm;
    bool on;
    bool on_given;
    struct kvt_yaml_value list;
    struct kvt_yaml_value section;
};

static enum kvt_err
read_text(const char *text, struct reading *reading, struct kvt_error *err)
{
    const struct kvt_yaml_field fields[] = {
        {.key = "name",
         .type = KVT_YAML_STRING,
         .target = reading->name,
         .size = sizeof(reading->name),
         .required = true},
        {.key = "mode",
         .type = KVT_YAML_CHOICE,
         .target = reading->mode,
         .size = sizeof(reading->mode),
         .choices = "fast|slow"},
        {.key = "many",
         .type = KVT_YAML_STRINGS,
         .target = reading->many,
         .size = sizeof(reading->many)},
        {.key = "count", .type = KVT_YAML_U64, .target = &reading->count, .min = 2, .max = 9},
        {.key = "size", .type = KVT_YAML_SIZE, .target = &reading->size},
        {.key = "wait", .type = KVT_YAML_DURATION, .target = &reading->wait_ms},
        {.key = "part", .type = KVT_YAML_RATIO, .target = &reading->part_ppm},
        {.key = "on", .type = KVT_YAML_BOOL, .target = &reading->on, .given = &reading->on_given},
        {.key = "list", .type = KVT_YAML_LIST, .target = &reading->list},
        {.key = "section", .type = KVT_YAML_SECTION, .target = &reading->section},
    };
    struct kvt_yaml *file = NULL;
    struct kvt_yaml_value root;
    char folder[256];
    char path[300];
    enum kvt_err rc;

    memset(reading, 0, sizeof(*reading));
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/f", folder);
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, err), KVT_OK);
    rc = kvt_yaml_load(&file, path, &root, err);
    if (rc == KVT_OK) {
        rc = kvt_yaml_read(root, fields, sizeof(fields) / sizeof(fields[0]), err);
        if (rc == KVT_OK)
            assert_int_equal(kvt_yaml_count(reading->list), reading->list.node == 0 ? 0 : 2);
    }
    kvt_yaml_free(file);
    test_folder_remove(folder);
    return rc;
}

static void
good_values(void **state)
{
    static const char text[] = "name: a\nmode: slow\nmany: [x, y]\ncount: 9\nsize: 2KiB\n"
                               "wait: 1.5s\npart: 25%\non: true\nlist: [1, 2]\nsection: {a: b}\n";
    struct reading reading;
    struct kvt_error err;

    (void)state;
    assert_int_equal(read_text(text, &reading, &err), KVT_OK);
    assert_string_equal(reading.name, "a");
    assert_string_equal(reading.mode, "slow");
    assert_string_equal(reading.many, "x,y");
    assert_int_equal(reading.count, 9);
    assert_int_equal(reading.size, 2048);
    assert_int_equal(reading.wait_ms, 1500);
    assert_int_equal(reading.part_ppm, 250000);
    assert_true(reading.on && reading.on_given);
    assert_int_not_equal(reading.section.node, 0);
    /* What is not given, or empty, is left alone. */
    assert_int_equal(read_text("name: a\ncount:\nmany: one\n", &reading, &err), KVT_OK);
    assert_int_equal(reading.count, 0);
    assert_false(reading.on_given);
    assert_string_equal(reading.many, "one");
}

static void
mistakes_are_told(void **state)
{
    static const struct {
        const char *text;
        const char *told; /* behind the path */
    } table[] = {
        {"name: a\nnane: b\n", ":2:1: unknown key \"nane\" (did you mean \"name\"?)"},
        {"name: a\nxyzzyx: b\n", ":2:1: unknown key \"xyzzyx\""},
        {"mode: fast\n", ":1:1: name is missing"},
        {"name: a\nname: b\n", ":2:1: name is given twice"},
        {"name: toolongname\n", ":1:7: name is longer than 7 bytes"},
        {"name: [a]\n", ":1:7: name wants one value, not a list or a section"},
        {"name: a\nmode: fats\n",
         ":2:7: mode: \"fats\" is none of fast|slow (did you mean \"fast\"?)"},
        {"name: a\nmode: q\n", ":2:7: mode: \"q\" is none of fast|slow"},
        {"name: a\ncount: 1\n", ":2:8: count: \"1\" is out of bounds"},
        {"name: a\ncount: 10\n", ":2:8: count: \"10\" is out of bounds"},
        {"name: a\ncount: x\n", ":2:8: count: \"x\" is not a number"},
        {"name: a\nsize: x\n", ":2:7: size: \"x\" is not a size such as 64MiB"},
        {"name: a\nwait: x\n", ":2:7: wait: \"x\" is not a duration such as 500ms"},
        {"name: a\npart: x\n", ":2:7: part: \"x\" is not a ratio such as 85%"},
        {"name: a\non: yes\n", ":2:5: on: \"yes\" is neither true nor false"},
        {"name: a\nlist: 3\n", ":2:7: list wants a list"},
        {"name: a\nsection: 3\n", ":2:10: section is a section: indent its keys under it"},
        {"name: a\nmany: {a: b}\n", ":2:7: many wants a text or a list of them"},
        {"name: a\nmany: ['a,b']\n", ":2:8: many: a comma within a text of a list"},
        {"name: a\nmany: [aaaaaaaaaaaaaaa, b]\n", ":2:25: many has too many texts"},
        {"name: \"a\\0b\"\n", ":1:7: name has a NUL byte in its value"},
        {"? [a]\n: b\n", ":1:3: a key must be a word"},
        {"- a\n", ":1:1: \"key: value\" lines are wanted here"},
        {"", ":1:1: \"key: value\" lines are wanted here"},
        {"name: a\n---\nname: b\n", ":3:1: a second document"},
        {"name: [a\n", ":2:1: did not find expected ',' or ']', while parsing a flow sequence that "
                       "begins in line 1"},
        {"name:a\nsize: 3\n", ":2:5: mapping values are not allowed in this context: is a blank "
                              "missing behind a colon before it?"},
    };
    struct reading reading;
    struct kvt_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_int_equal(read_text(table[i].text, &reading, &err), KVT_INVALID);
        if (strstr(err.text, table[i].told) == NULL ||
            strcmp(strstr(err.text, table[i].told), table[i].told) != 0)
            fail_msg("%s\ntold: %s\nnot:  %s", table[i].text, err.text, table[i].told);
    }
}

static void
file_that_is_not_there(void **state)
{
    struct kvt_yaml *file;
    struct kvt_yaml_value root;
    struct kvt_error err;

    (void)state;
    assert_int_not_equal(kvt_yaml_load(&file, "/nonexistent/f", &root, &err), KVT_OK);
    assert_null(file);
    assert_int_equal(root.node, 0);
}

/* A file that is one list: KVT_OK, and how many elements it has. */
static enum kvt_err
load_list(const char *text, size_t *count, struct kvt_error *err)
{
    struct kvt_yaml *file;
    struct kvt_yaml_value list;
    char folder[256];
    char path[300];
    enum kvt_err rc;

    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/f", folder);
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, err), KVT_OK);
    rc = kvt_yaml_load_list(&file, path, "rules", &list, err);
    *count = kvt_yaml_count(list);
    if (rc != KVT_OK) {
        assert_null(file);
        assert_int_equal(list.node, 0);
    }
    kvt_yaml_free(file);
    test_folder_remove(folder);
    return rc;
}

static void
files_of_one_list(void **state)
{
    struct kvt_error err;
    size_t count;

    (void)state;
    assert_int_equal(load_list("rules: [1, 2, 3]\n", &count, &err), KVT_OK);
    assert_int_equal(count, 3);
    assert_int_equal(load_list("rules: []\n", &count, &err), KVT_OK);
    assert_int_equal(count, 0);
    assert_int_equal(load_list("rules: 5\n", &count, &err), KVT_INVALID);
    assert_int_equal(load_list("", &count, &err), KVT_INVALID);
    assert_int_equal(load_list("rules: []\nroles: []\n", &count, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, ":2:1: "));
}

static bool
attempt(void *arg)
{
    struct kvt_yaml *file = NULL;
    struct kvt_yaml_value root;
    struct kvt_error err;
    const enum kvt_err rc = kvt_yaml_load(&file, arg, &root, &err);

    kvt_yaml_free(file);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    struct kvt_error err;
    char folder[256];
    char path[300];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/f", folder);
    assert_int_equal(kvt_file_write(path, "a: b\n", 5, 0600, &err), KVT_OK);
    assert_true(test_sweep_allocations(attempt, path) >= 2);
    test_folder_remove(folder);
}

/* Where byte `offset` of the first value stands. */
static void
assert_mark(const char *text, size_t offset, size_t line, size_t column)
{
    struct kvt_yaml_value root;
    struct kvt_yaml_value key;
    struct kvt_yaml_value value;
    struct kvt_yaml_mark mark;
    struct kvt_yaml *file;
    struct kvt_error err;

    assert_int_equal(kvt_yaml_parse(&file, "f", text, strlen(text), &root, NULL, &err), KVT_OK);
    assert_int_equal(kvt_yaml_kind(root), KVT_YAML_MAPPING);
    assert_true(kvt_yaml_pair(root, 0, &key, &value));
    mark = kvt_yaml_mark_at(value, offset);
    assert_int_equal(mark.line, line);
    assert_int_equal(mark.column, column);
    assert_false(kvt_yaml_pair(root, 1, &key, &value));
    kvt_yaml_free(file);
}

static void
places_within_a_text(void **state)
{
    (void)state;
    assert_mark("a: one two\n", 0, 1, 4);
    assert_mark("a: one two\n", 4, 1, 8);
    assert_mark("a: one two\n", 7, 1, 11);
    assert_mark("a: 'one two'\n", 4, 1, 9);
    assert_mark("a: one\n   two\n", 4, 2, 4);
    assert_mark("a: |\n  one\n  two\n", 0, 2, 3);
    assert_mark("a: |\n  one\n  two\n", 4, 3, 3);
    assert_mark("a: >- # folded\n\n    one\n    two\n", 5, 4, 5);
    assert_mark("a: \xc3\xa4 two\n", 3, 1, 6);
    assert_mark("a: one\n", 99, 1, 4);
}

static void
text_at_hand(void **state)
{
    struct kvt_yaml_value root;
    struct kvt_yaml_mark mark;
    struct kvt_yaml *file;
    struct kvt_error err;
    char where[64];

    (void)state;
    assert_int_equal(kvt_yaml_parse(&file, "f", "a: b\nc: [", 9, &root, &mark, &err), KVT_INVALID);
    assert_null(file);
    (void)snprintf(where, sizeof(where), "f:%zu:%zu: ", mark.line, mark.column);
    assert_true(mark.line > 1);
    assert_memory_equal(err.text, where, strlen(where));
    assert_int_equal(kvt_yaml_parse(&file, "f", "", 0, &root, &mark, &err), KVT_OK);
    assert_int_equal(kvt_yaml_kind(root), KVT_YAML_NONE);
    assert_true(kvt_yaml_is_null(root));
    assert_int_equal(mark.line, 0);
    kvt_yaml_free(file);
}

/* ---- texts made to take long ---- */

static void
no_text_takes_long(void **state)
{
    static const struct {
        const char *head;
        const char *line;
        const char *error; /* what the message has, or NULL: it is read */
    } texts[] = {
        {"", "[", "f:1:33: nested deeper than 32 levels"},
        {"", "{a: ", "nested deeper than 32 levels"},
        {"", "{[", "nested deeper than 32 levels"},
        {"", "[{? ", "nested deeper than 32 levels"},
        {"", "- ", "nested deeper than 32 levels"},
        {"", "? ", "nested deeper than 32 levels"},
        {"", "- ? ", "nested deeper than 32 levels"},
        {"a:\n", "- - ", "nested deeper than 32 levels"},
        {"", "[\n", "f:33:1: nested deeper than 32 levels"},
        {"", "&a# [", "nested deeper than 32 levels"},
        {"", "[]: ", ""},
        {"", "- &a# x\n", "more than 256 anchors"},
        {"", "- &a x\n", "more than 256 anchors"},
        {"- &a x\n", "- *a\n", NULL},
        {"", "%TAG !a#! x:\n", "f:1:1: %TAG is not supported"},
        {"%TAG ! ", "x", "%TAG is not supported"},
        {"", "%YAML 1.1\n", ""},
        {"", "--- a\n", "f:2:5: a second document"},
        {"[", "a,", "more than 262144 values"},
        {"[", ",", ""},
        {"", "- a\n", NULL},
        {"", "k#: 1\n", NULL},
        {"", "a", NULL},
        {"\"", "\\n", ""},
        {"'", "''", ""},
        {"|\n", " a\n", NULL},
        {">\n", " a\n\n", NULL},
        {"a: ", " ", NULL},
        {"a:\n", "\n", NULL},
        {"", "# a\n", NULL},
        {"", "!!a ", ""},
        {"", "!!str a\n", NULL},
        {"a: !<", "a", ""},
        {"", "? a\n", NULL},
        {"", "\t", ""},
        {"", "]", ""},
        {"", "&", ""},
    };
    static const size_t sizes[] = {100u << 10, KVT_YAML_FILE_MAX};
    char *text = test_malloc(KVT_YAML_FILE_MAX);

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (size_t j = 0; j < 2; j++) {
            const size_t size = test_long_text(text, sizes[j], texts[i].head, texts[i].line);
            const uint64_t start = test_cpu_ms();
            struct kvt_yaml_value root;
            struct kvt_yaml *file;
            struct kvt_error err = {.text = ""};
            const enum kvt_err rc = kvt_yaml_parse(&file, "f", text, size, &root, NULL, &err);
            const uint64_t took = test_cpu_ms() - start;

            kvt_yaml_free(file);
            if (took > 1000)
                fail_msg("\"%s\" of %zu bytes took %" PRIu64 " ms", texts[i].line, size, took);
            /* The small one of a count may be within the limit. */
            if (texts[i].error != NULL && j == 1 &&
                (rc != KVT_INVALID || strstr(err.text, texts[i].error) == NULL))
                fail_msg("\"%s\": %s", texts[i].line, err.text);
            if (texts[i].error == NULL && rc != KVT_OK)
                fail_msg("\"%s\": %s", texts[i].line, err.text);
        }
    }
    test_free(text);
}

static void
aliases_do_not_multiply(void **state)
{
    struct kvt_yaml_value root;
    struct kvt_error err;
    struct kvt_yaml *file;
    char text[2000];
    size_t size;

    (void)state;
    size = (size_t)snprintf(text, sizeof(text), "- &a0 [x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 20; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size,
                                 "- &a%d [*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i - 1, i - 1, i - 1,
                                 i - 1, i - 1);
    assert_int_equal(kvt_yaml_parse(&file, "f", text, size, &root, NULL, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "aliases repeat more than 262144 values"));
    size = (size_t)snprintf(text, sizeof(text), "a: &a\n  b: [*a]\n");
    assert_int_equal(kvt_yaml_parse(&file, "f", text, size, &root, NULL, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "or one contains itself"));
    size = (size_t)snprintf(text, sizeof(text), "- &a0 x\n");
    for (int i = 1; i < 100; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "- &a%d [*a%d]\n", i, i - 1);
    assert_int_equal(kvt_yaml_parse(&file, "f", text, size, &root, NULL, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "aliases nest deeper than 64 levels"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_values),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(file_that_is_not_there),
        cmocka_unit_test(files_of_one_list),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(places_within_a_text),
        cmocka_unit_test(text_at_hand),
        cmocka_unit_test(no_text_takes_long),
        cmocka_unit_test(aliases_do_not_multiply),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
