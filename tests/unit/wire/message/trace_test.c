/*
 * What is tested: wire/message/trace.h.
 */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "wire/message/trace.h"

#include "tests/support/seed.h"

struct fixture {
    char folder[256];
    char path[300];
};

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    assert_non_null(f);
    (void)test_folder_make(f->folder, sizeof(f->folder));
    (void)snprintf(f->path, sizeof(f->path), "%s/trace.jsonl", f->folder);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    test_folder_remove(f->folder);
    kvt_free(f);
    return 0;
}

static struct wire_trace *
open_text(const struct fixture *f, const char *text, size_t size)
{
    struct wire_trace *trace = NULL;

    assert_int_equal(kvt_file_write(f->path, text, size, 0600, NULL), KVT_OK);
    assert_int_equal(wire_trace_open(&trace, f->path, NULL), KVT_OK);
    return trace;
}

static void
good_lines_are_read(void **state)
{
    static const char text[] =
        "{\"timestamp\": 5, \"input_length\": 1024, \"output_length\": 7, "
        "\"hash_ids\": [0, 18446744073709551615]}\r\n"
        "\n"
        "  {\"output_length\":1,\"hash_ids\":[],\"later\":{\"a\":[1]},\"input_length\":2,"
        "\"timestamp\":27.75} \n"
        "{\"timestamp\": 30, \"input_length\": 1, \"output_length\": 1, "
        "\"namespace\": \"acme/llama\", \"hash_ids\": [3]}";
    struct wire_trace_request request;
    struct wire_trace *trace = open_text(*state, text, sizeof(text) - 1);

    assert_int_equal(wire_trace_next(trace, &request, NULL), KVT_OK);
    assert_int_equal(request.timestamp_ms, 5);
    assert_int_equal(request.input_length, 1024);
    assert_int_equal(request.output_length, 7);
    assert_int_equal(request.hash_count, 2);
    assert_int_equal(request.hash_ids[1], UINT64_MAX);
    assert_string_equal(request.namespace_, "");
    assert_int_equal(wire_trace_next(trace, &request, NULL), KVT_OK);
    assert_int_equal(request.timestamp_ms, 27);
    assert_int_equal(request.hash_count, 0);
    assert_int_equal(wire_trace_next(trace, &request, NULL), KVT_OK); /* no newline at the end */
    assert_int_equal(request.hash_ids[0], 3);
    assert_string_equal(request.namespace_, "acme/llama");
    assert_int_equal(wire_trace_next(trace, &request, NULL), KVT_NOTFOUND);
    assert_int_equal(wire_trace_next(trace, &request, NULL), KVT_NOTFOUND);
    wire_trace_close(trace);
}

static void
bad_lines_name_file_and_line_and_are_passed_over(void **state)
{
    static const struct {
        const char *line;
        const char *words;
    } cases[] = {
        {"{\"timestamp\": 1, ", "the JSON ends too early"},
        {"{\"timestamp\": }", "column"},
        {"[1]", "one JSON object"},
        {"7 8", "something follows"},
        {"{} {}", "something follows"},
        {"{}", "\"timestamp\""},
        {"{\"timestamp\": -1}", "\"timestamp\""},
        {"{\"timestamp\": \"1\"}", "\"timestamp\""},
        {"{\"timestamp\": 1e300}", "\"timestamp\""},
        {"{\"timestamp\": 1, \"input_length\": 1.5}", "\"input_length\""},
        {"{\"timestamp\": 1, \"input_length\": 1}", "\"output_length\""},
        {"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1}", "must be an array"},
        {"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [-1]}",
         "whole numbers"},
        {"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [null]}",
         "whole numbers"},
        {"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, \"namespace\": 7}",
         "\"namespace\""},
        {"{\"timestamp\": 1, \"a\": [[[[[[1]]]]]]}", "column"},
        {"\xff\xfe", "column"},
    };
    const struct fixture *f = *state;
    struct wire_trace_request request;
    struct kvt_buffer text;
    struct kvt_error err;
    struct wire_trace *trace;
    char place[400];
    const size_t count = sizeof(cases) / sizeof(cases[0]);

    kvt_buffer_init(&text, 1 << 20);
    for (size_t i = 0; i < count; i++)
        kvt_buffer_printf(&text, "%s\n", cases[i].line);
    kvt_buffer_printf(&text, "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, "
                             "\"hash_ids\": [4]}\n");
    trace = open_text(f, kvt_buffer_text(&text), text.size);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(wire_trace_next(trace, &request, &err), KVT_INVALID);
        assert_int_equal(request.hash_count, 0);
        (void)snprintf(place, sizeof(place), "%s:%zu: ", f->path, i + 1);
        if (strncmp(err.text, place, strlen(place)) != 0 ||
            strstr(err.text, cases[i].words) == NULL)
            fail_msg("line %zu: \"%s\" does not say \"%s\"", i + 1, err.text, cases[i].words);
    }
    assert_int_equal(wire_trace_next(trace, &request, &err), KVT_OK);
    assert_int_equal(request.hash_ids[0], 4);
    wire_trace_close(trace);
    kvt_buffer_release(&text);
}

static void
lines_and_lists_that_are_too_long_are_refused(void **state)
{
    const struct fixture *f = *state;
    struct wire_trace_request request;
    struct kvt_buffer text;
    struct kvt_error err;
    struct wire_trace *trace;

    kvt_buffer_init(&text, 16 << 20);
    while (text.size <= WIRE_TRACE_LINE_MAX)
        kvt_buffer_append(&text, "                ", 16);
    kvt_buffer_printf(&text, "\n{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, "
                             "\"hash_ids\": [0");
    for (int i = 0; i < WIRE_TRACE_HASHES_MAX; i++)
        kvt_buffer_append(&text, ",1", 2);
    kvt_buffer_append(&text, "]}\n{}\n", 6);
    trace = open_text(f, kvt_buffer_text(&text), text.size);
    assert_int_equal(wire_trace_next(trace, &request, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, ":1: the line is longer than 4 MiB"));
    assert_int_equal(wire_trace_next(trace, &request, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, ":2: \"hash_ids\" has more than 65536"));
    assert_int_equal(wire_trace_next(trace, &request, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, ":3: "));
    assert_int_equal(wire_trace_next(trace, &request, &err), KVT_NOTFOUND);
    wire_trace_close(trace);
    kvt_buffer_release(&text);
}

static void
what_is_written_is_read_again(void **state)
{
    static const uint64_t ids[] = {0, 1, UINT64_MAX};
    const struct wire_trace_request written = {.timestamp_ms = 99,
                                               .input_length = 1536,
                                               .output_length = 12,
                                               .hash_ids = ids,
                                               .hash_count = 3};
    const struct fixture *f = *state;
    struct wire_trace_request request;
    struct wire_trace *trace = NULL;
    FILE *file = fopen(f->path, "we");

    assert_non_null(file);
    assert_int_equal(wire_trace_write(file, &written), KVT_OK);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(wire_trace_open(&trace, f->path, NULL), KVT_OK);
    assert_int_equal(wire_trace_next(trace, &request, NULL), KVT_OK);
    assert_int_equal(request.timestamp_ms, 99);
    assert_int_equal(request.input_length, 1536);
    assert_int_equal(request.output_length, 12);
    assert_int_equal(request.hash_count, 3);
    assert_memory_equal(request.hash_ids, ids, sizeof(ids));
    wire_trace_close(trace);
}

static void
a_missing_file_is_named(void **state)
{
    struct wire_trace *trace = NULL;
    struct kvt_error err;

    (void)state;
    assert_int_equal(wire_trace_open(&trace, "/nonexistent/trace.jsonl", &err), KVT_NOTFOUND);
    assert_null(trace);
    assert_non_null(strstr(err.text, "/nonexistent/trace.jsonl"));
}

static void
hashes_are_chained_over_the_prefix(void **state)
{
    static const uint64_t ids[] = {1, 2, 3};
    static const uint64_t other_ids[] = {1, 9, 3};
    const struct wire_trace_request request = {.hash_ids = ids, .hash_count = 3};
    const struct wire_trace_request other = {.hash_ids = other_ids, .hash_count = 3};
    uint8_t bytes[16] = {1};
    uint64_t chain[3];
    uint64_t other_chain[3];

    (void)state;
    wire_trace_chain(&request, 0, chain);
    /* As docs/formats.md says: the first id alone, then the hash so far and the next id. */
    assert_int_equal(chain[0], XXH3_64bits_withSeed(bytes, 8, 1337));
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(chain[0] >> (8 * i));
    bytes[8] = 2;
    assert_int_equal(chain[1], XXH3_64bits_withSeed(bytes, 16, 1337));
    wire_trace_chain(&other, 0, other_chain);
    assert_int_equal(chain[0], other_chain[0]);
    assert_int_not_equal(chain[1], other_chain[1]);
    assert_int_not_equal(chain[2], other_chain[2]); /* the same id behind another prefix */
    wire_trace_chain(&request, 1, other_chain);
    assert_int_not_equal(chain[0], other_chain[0]);
}

static bool
attempt_open(void *path)
{
    struct wire_trace *trace = NULL;
    const enum kvt_err rc = wire_trace_open(&trace, path, NULL);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && trace == NULL));
    wire_trace_close(trace);
    return rc == KVT_OK;
}

static void
opening_survives_every_failing_allocation(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(kvt_file_write(f->path, "", 0, 0600, NULL), KVT_OK);
    assert_true(test_sweep_allocations(attempt_open, f->path) >= 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_lines_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_lines_name_file_and_line_and_are_passed_over, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(lines_and_lists_that_are_too_long_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_written_is_read_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_file_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hashes_are_chained_over_the_prefix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(opening_survives_every_failing_allocation, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
