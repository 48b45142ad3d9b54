/*
 * What is tested: cli/workload/generator.h.
 * How: properties every workload must have (time, lengths, histories that grow, ids that mean one
 * prefix), the same seed twice, the options' limits, and every allocation failure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "cli/workload/generator.h"

#include "tests/support/seed.h"

enum { REQUESTS = 3000 };

static struct cli_generator_options
usual(uint64_t seed)
{
    return (struct cli_generator_options){
        .seed = seed,
        .request_count = REQUESTS,
        .duration_ms = 600000,
        .session_count = 40,
        .mean_turns = 4,
        .prompt_count = 5,
        .prompt_tokens = 1024,
        .document_count = 10,
        .document_share_ppm = 300000,
        .document_tokens = 2048,
        .zipf = 1.0,
        .first_tokens = 2000,
        .input_tokens = 300,
        .output_tokens = 200,
        .context_tokens = 16384,
        .block_tokens = 256,
        .idle_share_ppm = 50000,
        .idle_factor = 20,
    };
}

/* All requests as one text, to be freed with free(). */
static char *
text_of(const struct cli_generator_options *options)
{
    struct cli_generator *generator;
    struct wire_trace_request request;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(cli_generator_new(&generator, options, NULL), KVT_OK);
    while (cli_generator_next(generator, &request) == KVT_OK)
        assert_int_equal(wire_trace_write(out, &request), KVT_OK);
    cli_generator_free(generator);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void
same_seed_same_bytes_other_seed_other_bytes(void **state)
{
    const uint64_t seed = test_seed();
    const struct cli_generator_options one = usual(seed);
    const struct cli_generator_options two = usual(seed + 1);
    char *first = text_of(&one);
    char *again = text_of(&one);
    char *other = text_of(&two);

    (void)state;
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    free(first);
    free(again);
    free(other);
}

static void
every_request_is_whole(void **state)
{
    const struct cli_generator_options options = usual(test_seed());
    struct cli_generator *generator;
    struct wire_trace_request request;
    uint64_t last_ms = 0;
    size_t count = 0;

    (void)state;
    assert_int_equal(cli_generator_new(&generator, &options, NULL), KVT_OK);
    while (cli_generator_next(generator, &request) == KVT_OK) {
        assert_true(request.timestamp_ms >= last_ms);
        last_ms = request.timestamp_ms;
        assert_in_range(request.input_length, 1, options.context_tokens);
        assert_true(request.output_length >= 1);
        assert_int_equal(request.hash_count,
                         (request.input_length + options.block_tokens - 1) / options.block_tokens);
        count++;
    }
    assert_int_equal(count, REQUESTS);
    assert_in_range(last_ms, options.duration_ms / 3, options.duration_ms * 3);
    assert_int_equal(cli_generator_next(generator, &request), KVT_NOTFOUND);
    assert_int_equal(request.hash_count, 0);
    cli_generator_free(generator);
}

/* An id stands for one place behind one parent: that is what makes it a prefix. */
static void
an_id_has_one_parent_and_one_position(void **state)
{
    const struct cli_generator_options options = usual(test_seed());
    const size_t room = (size_t)REQUESTS * (options.context_tokens / options.block_tokens + 1);
    uint64_t *parents = kvt_calloc(room, sizeof(*parents)); /* parent + 1; 0 = id not seen */
    uint32_t *positions = kvt_calloc(room, sizeof(*positions));
    struct cli_generator *generator;
    struct wire_trace_request request;
    size_t seen_again = 0;

    (void)state;
    assert_non_null(parents);
    assert_non_null(positions);
    assert_int_equal(cli_generator_new(&generator, &options, NULL), KVT_OK);
    while (cli_generator_next(generator, &request) == KVT_OK) {
        uint64_t parent = UINT64_MAX - 1;

        for (uint32_t i = 0; i < request.hash_count; i++) {
            const uint64_t id = request.hash_ids[i];

            assert_true(id < room);
            if (parents[id] != 0) {
                assert_true(parents[id] == parent + 1);
                assert_int_equal(positions[id], i);
                seen_again++;
            }
            parents[id] = parent + 1;
            positions[id] = i;
            parent = id;
        }
    }
    assert_true(seen_again > REQUESTS); /* there is reuse to speak of */
    cli_generator_free(generator);
    kvt_free(parents);
    kvt_free(positions);
}

static void
options_outside_their_range_are_refused(void **state)
{
    struct cli_generator_options options = usual(1);
    struct cli_generator *generator;
    struct kvt_error err = {0};

    (void)state;
    options.zipf = 9.0;
    assert_int_equal(cli_generator_new(&generator, &options, &err), KVT_INVALID);
    assert_null(generator);
    assert_non_null(strstr(err.text, "zipf"));
    options = usual(1);
    options.block_tokens = 0;
    assert_int_equal(cli_generator_new(&generator, &options, &err), KVT_INVALID);
    options = usual(1);
    options.context_tokens = 4096;
    assert_int_equal(cli_generator_new(&generator, &options, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "4096"));
    options = usual(1);
    options.context_tokens = 1 << 20;
    options.block_tokens = 1;
    assert_int_equal(cli_generator_new(&generator, &options, &err), KVT_INVALID);
}

static void
no_documents_and_no_prompt_tokens_are_fine(void **state)
{
    struct cli_generator_options options = usual(test_seed());
    struct cli_generator *generator;
    struct wire_trace_request request;
    size_t count = 0;

    (void)state;
    options.document_count = 0;
    options.prompt_tokens = 0;
    options.session_count = 1;
    assert_int_equal(cli_generator_new(&generator, &options, NULL), KVT_OK);
    while (cli_generator_next(generator, &request) == KVT_OK)
        count++;
    assert_int_equal(count, REQUESTS);
    cli_generator_free(generator);
}

static bool
attempt(void *arg)
{
    struct cli_generator_options options = usual(7);
    struct cli_generator *generator;
    struct wire_trace_request request;
    enum kvt_err rc;

    (void)arg;
    options.request_count = 60;
    rc = cli_generator_new(&generator, &options, NULL);
    while (rc == KVT_OK)
        rc = cli_generator_next(generator, &request);
    assert_true(rc == KVT_NOTFOUND || rc == KVT_NOMEM);
    cli_generator_free(generator);
    return rc == KVT_NOTFOUND;
}

static void
every_failing_allocation_is_an_answer(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt, NULL) > 8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_bytes_other_seed_other_bytes),
        cmocka_unit_test(every_request_is_whole),
        cmocka_unit_test(an_id_has_one_parent_and_one_position),
        cmocka_unit_test(options_outside_their_range_are_refused),
        cmocka_unit_test(no_documents_and_no_prompt_tokens_are_fine),
        cmocka_unit_test(every_failing_allocation_is_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
