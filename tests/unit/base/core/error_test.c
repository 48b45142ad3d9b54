/*
 * What is tested: kvtier/error.h: names, which errors are worth a retry, and messages that can be
 * cut and wrapped but never overrun.
 */
#include <errno.h>
#include <string.h>

#include "kvtier/error.h"

#include "tests/support/seed.h"

static void
every_code_has_a_name_and_a_text(void **state)
{
    (void)state;
    assert_string_equal(kvt_err_name(KVT_OK), "OK");
    assert_string_equal(kvt_err_name(KVT_CANCELLED), "CANCELLED");
    assert_string_equal(kvt_err_text(KVT_FULL), "capacity limit reached");
    for (int i = 0; i < KVT_ERR_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(kvt_err_name((enum kvt_err)i), kvt_err_name((enum kvt_err)j));
    assert_string_equal(kvt_err_name((enum kvt_err)999), "UNKNOWN");
    assert_false(kvt_err_retryable((enum kvt_err)999));
}

static void
retryable_follows_the_table(void **state)
{
    (void)state;
    assert_true(kvt_err_retryable(KVT_AGAIN));
    assert_true(kvt_err_retryable(KVT_UNAVAILABLE));
    assert_false(kvt_err_retryable(KVT_OK));
    assert_false(kvt_err_retryable(KVT_FULL));
    assert_false(kvt_err_retryable(KVT_DENIED));
}

static void
set_returns_the_code_and_fills_the_message(void **state)
{
    struct kvt_error err;

    (void)state;
    assert_int_equal(kvt_error_set(&err, KVT_RANGE, "%s is %d", "x", 7), KVT_RANGE);
    assert_int_equal(err.code, KVT_RANGE);
    assert_int_equal(err.sys, 0);
    assert_string_equal(err.text, "x is 7");
    assert_int_equal(kvt_error_set(NULL, KVT_BUSY, "nobody reads this"), KVT_BUSY);
}

static void
a_message_may_be_wrapped_in_itself(void **state)
{
    struct kvt_error err;

    (void)state;
    (void)kvt_error_set(&err, KVT_IO, "inner");
    (void)kvt_error_set(&err, KVT_IO, "outer: %s", err.text);
    assert_string_equal(err.text, "outer: inner");
}

static void
a_long_message_is_cut(void **state)
{
    char long_text[2 * KVT_ERROR_TEXT_MAX];
    struct kvt_error err;

    (void)state;
    memset(long_text, 'a', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    (void)kvt_error_set(&err, KVT_IO, "%s", long_text);
    assert_int_equal(strlen(err.text), KVT_ERROR_TEXT_MAX - 1);
    (void)kvt_error_sys(&err, ENOENT, "%s", long_text);
    assert_int_equal(strlen(err.text), KVT_ERROR_TEXT_MAX - 1);
}

static void
system_errors_become_codes(void **state)
{
    static const struct {
        int sys;
        enum kvt_err code;
    } rows[] = {
        {ENOENT, KVT_NOTFOUND},
        {EEXIST, KVT_EXISTS},
        {ENOSPC, KVT_FULL},
        {EACCES, KVT_DENIED},
        {ENOMEM, KVT_NOMEM},
        {EADDRINUSE, KVT_BUSY},
        {ECONNREFUSED, KVT_UNAVAILABLE},
        {ETIMEDOUT, KVT_TIMEOUT},
        {EAGAIN, KVT_AGAIN},
        {EINVAL, KVT_INVALID},
        {EFBIG, KVT_RANGE},
        {EIO, KVT_IO},
        {4095, KVT_IO},
    };
    struct kvt_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(kvt_error_sys(&err, rows[i].sys, "open %s", "f"), rows[i].code);
        assert_int_equal(err.sys, rows[i].sys);
        assert_int_equal(kvt_error_sys(NULL, rows[i].sys, "x"), rows[i].code);
    }
    (void)kvt_error_sys(&err, ENOENT, "open %s", "f");
    assert_string_equal(err.text, "open f: No such file or directory");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_and_a_text),
        cmocka_unit_test(retryable_follows_the_table),
        cmocka_unit_test(set_returns_the_code_and_fills_the_message),
        cmocka_unit_test(a_message_may_be_wrapped_in_itself),
        cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(system_errors_become_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
