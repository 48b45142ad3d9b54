/*
 * What is tested: cli/ops/child_process.h.
 * How: real children: one that obeys, one that does not, one that ends by itself, one that cannot
 * be run.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "cli/ops/child_process.h"

#include "tests/support/seed.h"

enum { SOON_MS = 20000 };

static bool
no_hurry(void)
{
    return false;
}

static void
start(struct cli_child_process *process, const char *folder, const char *script)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    char log[128];

    (void)snprintf(log, sizeof(log), "%s/log", folder);
    assert_int_equal(cli_child_process_start(process, "child", argv, log, NULL), KVT_OK);
    assert_true(process->pid > 0);
}

static void
wait_for_end(struct cli_child_process *process)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + SOON_MS;

    while (!cli_child_process_ended(process)) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(5);
    }
}

/* Wait until the child has written its first line. */
static void
wait_for_log(const char *folder)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + SOON_MS;
    char path[128];
    size_t size = 0;

    (void)snprintf(path, sizeof(path), "%s/log", folder);
    while (size == 0) {
        char *text;

        assert_true(kvt_clock_mono_ms() < deadline_ms);
        assert_int_equal(kvt_file_read(&text, &size, path, 4096, NULL), KVT_OK);
        kvt_free(text);
        kvt_clock_sleep_ms(5);
    }
}

static void
a_child_that_ends_is_noticed_and_explained(void **state)
{
    struct cli_child_process process;
    char folder[64];
    char path[128];
    char how[64];
    char *text;
    size_t size;

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    start(&process, folder, "echo out; echo err >&2; exit 3");
    wait_for_end(&process);
    cli_child_process_explain(&process, how, sizeof(how));
    assert_string_equal(how, "exited with status 3");
    assert_true(cli_child_process_ended(&process)); /* and stays ended */
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    assert_int_equal(kvt_file_read(&text, &size, path, 4096, NULL), KVT_OK);
    assert_string_equal(text, "out\nerr\n");
    kvt_free(text);
    test_folder_remove(folder);
}

static void
a_child_that_obeys_is_asked_first(void **state)
{
    struct cli_child_process process;
    char folder[64];
    char how[64];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    start(&process, folder, "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done");
    wait_for_log(folder);
    cli_child_process_stop(&process, SOON_MS, no_hurry);
    assert_int_equal(process.pid, 0);
    cli_child_process_explain(&process, how, sizeof(how));
    assert_string_equal(how, "exited with status 7");
    cli_child_process_stop(&process, SOON_MS, no_hurry); /* of nothing: nothing */
    test_folder_remove(folder);
}

static void
a_child_that_does_not_is_killed(void **state)
{
    struct cli_child_process process;
    char folder[64];
    char how[64];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    start(&process, folder, "trap '' TERM; echo up; while :; do sleep 0.05; done");
    wait_for_log(folder);
    cli_child_process_stop(&process, 100, no_hurry);
    cli_child_process_explain(&process, how, sizeof(how));
    assert_string_equal(how, "was killed by signal 9");
    test_folder_remove(folder);
}

static void
what_cannot_be_run_says_so(void **state)
{
    static const char *const argv[] = {"/nowhere/at/all", NULL};
    struct cli_child_process process;
    struct kvt_error err = {0};
    char path[CLI_CHILD_PROCESS_PATH_MAX];
    char folder[64];
    char log[128];
    char how[64];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(log, sizeof(log), "%s/log", folder);
    assert_int_equal(cli_child_process_start(&process, "none", argv, log, &err), KVT_OK);
    wait_for_end(&process);
    cli_child_process_explain(&process, how, sizeof(how));
    assert_string_equal(how, "could not be run");

    (void)snprintf(log, sizeof(log), "%s/no/folder/log", folder);
    assert_int_equal(cli_child_process_start(&process, "none", argv, log, &err), KVT_NOTFOUND);
    assert_int_equal(process.pid, 0);

    assert_int_equal(cli_child_process_find("no-such-program-here", "x", path, &err), KVT_NOTFOUND);
    assert_non_null(strstr(err.text, "no-such-program-here"));
    assert_int_equal(cli_child_process_find("/etc/passwd", "x", path, &err), KVT_NOTFOUND);
    assert_int_equal(cli_child_process_find("sh", "x", path, &err), KVT_OK);
    assert_true(path[0] == '/');
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_ends_is_noticed_and_explained),
        cmocka_unit_test(a_child_that_obeys_is_asked_first),
        cmocka_unit_test(a_child_that_does_not_is_killed),
        cmocka_unit_test(what_cannot_be_run_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
