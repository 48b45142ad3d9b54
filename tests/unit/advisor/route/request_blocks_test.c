/*
 * What is tested: advisor/route/request_blocks.h.
 * How: prompts by tokens and by hashes, against the hashes of token blocks.
 */
#include <string.h>

#include "advisor/route/request_blocks.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"

static void
tokens_are_hashed_as_dynamo_does(void **state)
{
    uint64_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const uint32_t first[] = {1, 2, 3, 4};
    const uint32_t second[] = {5, 6, 7, 8};
    struct wire_route_question question = {
        .kind = WIRE_ROUTE_TOKENS, .values = tokens, .value_count = 9, .salt = "s"};
    const uint64_t seed = kvt_token_seed("", 0, "s", 1);
    const uint64_t local[] = {kvt_token_block(first, 4, NULL, 0, seed),
                              kvt_token_block(second, 4, NULL, 0, seed)};
    uint64_t values[2];
    struct advisor_request_blocks prompt;
    struct kvt_error err;

    (void)state;
    assert_int_equal(advisor_request_blocks_read(&prompt, &question, 4, &err), KVT_OK);
    assert_int_equal(prompt.hash_count, 2);
    assert_int_equal(prompt.blocks, 3);
    assert_int_equal(prompt.isl_tokens, 9);
    assert_int_equal(prompt.hashes[0], local[0]);
    assert_int_equal(prompt.hashes[1], kvt_token_chain(local[0], local[1]));
    values[1] = prompt.hashes[1];
    advisor_request_blocks_release(&prompt);

    /* The same by local hashes. */
    question = (struct wire_route_question){.kind = WIRE_ROUTE_TOKEN_HASHES,
                                            .values = (uint64_t[]){local[0], local[1]},
                                            .value_count = 2,
                                            .isl_tokens = 9};
    assert_int_equal(advisor_request_blocks_read(&prompt, &question, 4, &err), KVT_OK);
    assert_int_equal(prompt.hashes[1], values[1]);
    assert_int_equal(prompt.blocks, 3);
    advisor_request_blocks_release(&prompt);
}

static void
assert_no_prompt(const struct wire_route_question *question, enum kvt_err code, const char *words)
{
    struct advisor_request_blocks prompt;
    struct kvt_error err;

    assert_int_equal(advisor_request_blocks_read(&prompt, question, 4, &err), code);
    assert_null(prompt.hashes);
    if (strstr(err.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void
prompts_that_make_no_sense_are_refused(void **state)
{
    uint64_t values[] = {1, UINT64_MAX};
    struct wire_route_question question = {
        .kind = WIRE_ROUTE_TOKENS, .values = values, .value_count = 2};

    (void)state;
    assert_no_prompt(&question, KVT_INVALID, "tokens[1]");
    question.kind = WIRE_ROUTE_HASHES;
    question.isl_tokens = 7;
    assert_no_prompt(&question, KVT_INVALID, "isl_tokens: 7");
    question.isl_tokens = 4ull * (WIRE_ROUTE_BLOCKS_MAX + 1);
    assert_no_prompt(&question, KVT_RANGE, "blocks");
    question.block_tokens = WIRE_ROUTE_BLOCK_MAX + 1;
    assert_no_prompt(&question, KVT_RANGE, "block_tokens");
    question.block_tokens = 0;
    question.isl_tokens = 0;
    memcpy(question.salt, "s", 2);
    assert_no_prompt(&question, KVT_INVALID, "part of tokens");
    question.salt[0] = '\0';
    question.value_count = 0;
    assert_no_prompt(&question, KVT_INVALID, "without tokens");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_hashed_as_dynamo_does),
        cmocka_unit_test(prompts_that_make_no_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
