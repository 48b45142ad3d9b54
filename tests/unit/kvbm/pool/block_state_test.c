/*
 * What is tested: kvbm/pool/mutable_block.h: states, every pair of states, allowed or refused.
 */
#include <string.h>

#include "kvbm/pool/mutable_block.h"

#include "tests/support/seed.h"

/* Row: from; column: to; in the order of the enum. */
static const bool allowed[KVT_BLOCK_STATE_COUNT][KVT_BLOCK_STATE_COUNT] = {
    {false, true, false, false},
    {true, false, true, false},
    {true, false, false, true},
    {true, false, false, false},
};

static void
every_pair(void **unused)
{
    (void)unused;
    for (unsigned from = 0; from < KVT_BLOCK_STATE_COUNT; from++) {
        for (unsigned to = 0; to < KVT_BLOCK_STATE_COUNT; to++) {
            enum kvt_block_state state = (enum kvt_block_state)from;
            struct kvt_error err = {.code = KVT_OK};
            const enum kvt_err rc = kvbm_block_state_move(&state, (enum kvt_block_state)to, &err);

            if (allowed[from][to]) {
                assert_int_equal(rc, KVT_OK);
                assert_int_equal(state, to);
            } else {
                assert_int_equal(rc, KVT_INVALID);
                assert_int_equal(state, from);
                assert_non_null(
                    strstr(err.text, kvbm_block_state_name((enum kvt_block_state)from)));
                assert_non_null(strstr(err.text, kvbm_block_state_name((enum kvt_block_state)to)));
            }
        }
    }
}

static void
values_outside_the_enum_go_nowhere(void **unused)
{
    enum kvt_block_state state = KVT_BLOCK_STATE_COUNT;

    (void)unused;
    assert_int_equal(kvbm_block_state_move(&state, KVT_BLOCK_RESET, NULL), KVT_INVALID);
    assert_int_equal(state, KVT_BLOCK_STATE_COUNT);
    state = KVT_BLOCK_RESET;
    assert_int_equal(kvbm_block_state_move(&state, KVT_BLOCK_STATE_COUNT, NULL), KVT_INVALID);
    assert_int_equal(state, KVT_BLOCK_RESET);
    assert_string_equal(kvbm_block_state_name(KVT_BLOCK_STATE_COUNT), "?");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair),
        cmocka_unit_test(values_outside_the_enum_go_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
