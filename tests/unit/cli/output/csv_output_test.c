/*
 * What is tested: cli/output/csv_output.h, and cli/output/object_stream.h through it.
 * How: answers and what they become, letter by letter, written at once and byte by byte; a small
 * reader of RFC 4180 reads random texts back; failing allocations.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/random.h"
#include "cli/output/csv_output.h"

#include "tests/support/seed.h"

enum { RUNS = 2000, TEXT_SIZE = 64, LIMIT = 1 << 20 };

/* What `json` becomes, which the caller frees; false: the stream had an error. */
static bool
convert_known(const char *json, const char *lists, bool at_once, char **csv)
{
    const size_t size = strlen(json);
    size_t made;
    FILE *to = open_memstream(csv, &made);
    FILE *stream = cli_csv_output_open(to, lists);
    bool good = stream != NULL;

    if (stream != NULL) {
        for (size_t i = 0; i < size && !at_once; i++) {
            (void)fputc(json[i], stream);
            (void)fflush(stream);
        }
        if (at_once)
            (void)fputs(json, stream);
        good = fflush(stream) == 0 && ferror(stream) == 0;
        good = fclose(stream) == 0 && good;
    }
    (void)fclose(to);
    return good;
}

static bool
convert(const char *json, bool at_once, char **csv)
{
    return convert_known(json, NULL, at_once, csv);
}

static void
columns_that_are_known_come_first(void **state)
{
    static const char lists[] = "rows:b,a.x|row:n,m";
    static const struct {
        const char *json;
        const char *csv;
    } table[] = {
        {"{\"v\":1,\"rows\":[]}", "b,a.x\n"},
        {"{\"rows\":[{\"c\":1,\"a\":{\"x\":2}}]}", "b,a.x,c\n,2,1\n"},
        {"{\"other\":[{\"c\":1}],\"row\":[]}", "n,m\n"},
        {"{\"rows\":[]} {\"rows\":[{\"b\":1}]}", "b,a.x\n1,\n"},
        {"{\"rows\":3}", "rows\n3\n"},
        {"{\"ro\":[]}", "ro\n[]\n"},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(table) / sizeof(table[0]); i++) {
        char *csv;

        assert_true(convert_known(table[i / 2].json, lists, i % 2 == 0, &csv));
        assert_string_equal(csv, table[i / 2].csv);
        free(csv);
    }
}

static void
answers_become_lines(void **state)
{
    static const struct {
        const char *json;
        const char *csv;
    } table[] = {
        {"{\"a\":1,\"b\":\"x\"}\n", "a,b\n1,x\n"},
        {"{\"a\":{\"b\":1,\"c\":true},\"d\":null,\"e\":[1,2]}", "a.b,a.c,d,e\n1,true,,\"[1,2]\"\n"},
        {"{\"v\":1,\"rows\":[{\"a\":1},{\"a\":2,\"b\":\"x,y\"}],\"n\":2}", "a,b\n1,\n2,\"x,y\"\n"},
        {"{\"a\":\"say \\\"so\\\"\\nnow\"}", "a\n\"say \"\"so\"\"\nnow\"\n"},
        {"{\"a\":\" b\"}", "a\n\" b\"\n"},
        {"{\"a\":1} {\"a\":2}\n{\"b\":3}\n", "a\n1\n2\n\nb\n3\n"},
        {"{\"a.b\":1,\"a\":{\"c\":2}}", "a.b,a.c\n1,2\n"},
        {"{\"rows\":[],\"n\":0}", "rows,n\n[],0\n"},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (int at_once = 0; at_once < 2; at_once++) {
            char *csv;

            assert_true(convert(table[i].json, at_once == 1, &csv));
            assert_string_equal(csv, table[i].csv);
            free(csv);
        }
    }
}

static void
what_is_no_json_is_an_error(void **state)
{
    static const char *const wrong[] = {"{\"a\":1", "{]", "{\"a\":1} x"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char *csv;

        assert_false(convert(wrong[i], true, &csv));
        free(csv);
    }
}

/* One cell as RFC 4180 has it; `at` goes behind it. */
static void
read_cell(const char **at, char text[TEXT_SIZE])
{
    const bool quoted = **at == '"';
    size_t size = 0;

    *at += quoted ? 1 : 0;
    while (**at != '\0' && (quoted || (**at != ',' && **at != '\n'))) {
        if (quoted && **at == '"' && (*at)[1] != '"')
            break;
        *at += quoted && **at == '"' ? 1 : 0;
        text[size++] = *(*at)++;
    }
    text[size] = '\0';
    *at += quoted ? 1 : 0;
}

static void
random_texts_are_read_back(void **state)
{
    static const char letters[] = "ab,\"\n\r ;'";
    uint64_t random = test_seed();

    (void)state;
    for (size_t run = 0; run < RUNS; run++) {
        char texts[2][TEXT_SIZE] = {"", ""};
        char cell[TEXT_SIZE];
        struct kvt_buffer json;
        const char *at;
        char *csv;

        for (size_t i = 0; i < 2; i++) {
            const size_t size = kvt_random_below(&random, TEXT_SIZE - 1);

            for (size_t j = 0; j < size; j++)
                texts[i][j] = letters[kvt_random_below(&random, sizeof(letters) - 1)];
        }
        kvt_buffer_init(&json, LIMIT);
        kvt_buffer_printf(&json, "{\"a\":");
        kvt_buffer_json_string(&json, texts[0]);
        kvt_buffer_printf(&json, ",\"b\":");
        kvt_buffer_json_string(&json, texts[1]);
        kvt_buffer_printf(&json, "}");
        assert_true(convert(kvt_buffer_text(&json), true, &csv));
        assert_int_equal(strncmp(csv, "a,b\n", 4), 0);
        at = csv + 4;
        read_cell(&at, cell);
        assert_string_equal(cell, texts[0]);
        assert_int_equal(*at++, ',');
        read_cell(&at, cell);
        assert_string_equal(cell, texts[1]);
        assert_string_equal(at, "\n");
        free(csv);
        kvt_buffer_release(&json);
    }
}

static bool
attempt(void *arg)
{
    FILE *stream = cli_csv_output_open(arg, NULL);

    if (stream == NULL)
        return false;
    (void)fclose(stream);
    return true;
}

static void
allocations_may_fail(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt, stderr) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_become_lines),
        cmocka_unit_test(columns_that_are_known_come_first),
        cmocka_unit_test(what_is_no_json_is_an_error),
        cmocka_unit_test(random_texts_are_read_back),
        cmocka_unit_test(allocations_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
