/*
 * What is tested: cli/frame/exit.h.
 * How: every error code has a status from the table, and the ones scripts act on have theirs.
 */
#include "cli/frame/exit.h"

#include "tests/support/seed.h"

/* NULL: the table has no such number. */
static const char *
text_of(int number)
{
    switch (number) {
#define X(name, value, text)                                                                       \
    case value: return text;
        CLI_EXIT_MAP(X)
#undef X
    default: return NULL;
    }
}

static void
every_code_has_a_status(void **state)
{
    (void)state;
    for (int code = 0; code < KVT_ERR_COUNT; code++) {
        const enum cli_exit status = cli_exit_of((enum kvt_err)code);

        assert_non_null(text_of((int)status));
        assert_int_equal(status == CLI_EXIT_DONE, code == KVT_OK);
    }
    assert_null(text_of(11));
    assert_null(text_of(-1));
}

/* docs/api.md, "Exit codes of every command". */
static void
scripts_can_rely_on_these(void **state)
{
    (void)state;
    assert_int_equal(cli_exit_of(KVT_INVALID), 2);
    assert_int_equal(cli_exit_of(KVT_NOTFOUND), 3);
    assert_int_equal(cli_exit_of(KVT_UNAVAILABLE), 5);
    assert_int_equal(cli_exit_of(KVT_TIMEOUT), 5);
    assert_int_equal(cli_exit_of(KVT_AGAIN), 5);
    assert_int_equal(cli_exit_of(KVT_PRECONDITION), 6);
    assert_int_equal(cli_exit_of(KVT_FULL), 7);
    assert_int_equal(cli_exit_of(KVT_CORRUPT), 8);
    assert_int_equal(cli_exit_of(KVT_DENIED), 1);
}

/* What may succeed by itself later must look temporary to a script. */
static void
temporary_means_retryable(void **state)
{
    (void)state;
    for (int code = 1; code < KVT_ERR_COUNT; code++)
        if (cli_exit_of((enum kvt_err)code) == CLI_EXIT_TEMPORARY)
            assert_true(kvt_err_retryable((enum kvt_err)code));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_status),
        cmocka_unit_test(scripts_can_rely_on_these),
        cmocka_unit_test(temporary_means_retryable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
