/*
 * What is tested: cli/g4/progress_file.h.
 * How: a walk that is broken off and goes on, one that ended, one whose file is another's or none.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/file.h"
#include "cli/g4/progress_file.h"

#include "tests/support/seed.h"

static void
a_walk_goes_on_behind_what_was_done(void **state)
{
    const char *path = *state;
    struct cli_progress_file resume;
    struct kvt_error err = {0};

    assert_int_equal(cli_progress_file_begin(&resume, path, "walk \"a\"", &err), KVT_OK);
    assert_false(resume.resumed);
    assert_int_equal(cli_progress_file_done(&resume, "k1", false, &err), KVT_OK);
    assert_int_equal(cli_progress_file_done(&resume, "k\"2\n", true, &err), KVT_OK);
    assert_int_equal(cli_progress_file_end(&resume, false, &err), KVT_OK);

    assert_int_equal(cli_progress_file_begin(&resume, path, "walk \"a\"", &err), KVT_OK);
    assert_true(resume.resumed);
    assert_string_equal(resume.after, "k\"2\n");
    assert_int_equal(resume.done, 2);
    assert_int_equal(resume.bad, 1);
    assert_int_equal(cli_progress_file_begin(&resume, path, "walk b", &err), KVT_EXISTS);

    assert_int_equal(cli_progress_file_begin(&resume, path, "walk \"a\"", &err), KVT_OK);
    assert_int_equal(cli_progress_file_end(&resume, true, &err), KVT_OK);
    assert_int_equal(cli_progress_file_begin(&resume, path, "walk \"a\"", &err), KVT_OK);
    assert_false(resume.resumed);
    assert_string_equal(resume.after, "");
    assert_int_equal(resume.done, 0);
}

static void
it_is_written_down_while_the_walk_goes_on(void **state)
{
    const char *path = *state;
    struct cli_progress_file resume;
    struct cli_progress_file later;
    struct kvt_error err = {0};

    assert_int_equal(cli_progress_file_begin(&resume, path, "walk c", &err), KVT_EXISTS);
    assert_int_equal(kvt_file_write(path, "", 0, 0600, &err), KVT_OK);
    assert_int_equal(cli_progress_file_begin(&resume, path, "walk c", &err), KVT_INVALID);
    assert_int_equal(kvt_file_write(path, "{\"walk\":3}", 10, 0600, &err), KVT_OK);
    assert_int_equal(cli_progress_file_begin(&resume, path, "walk c", &err), KVT_INVALID);

    resume = (struct cli_progress_file){.path = path, .what = "walk c"};
    resume.saved_ms = 0; /* long ago */
    assert_int_equal(cli_progress_file_done(&resume, "k1", false, &err), KVT_OK);
    assert_int_equal(cli_progress_file_done(&resume, "k2", false, &err), KVT_OK);
    assert_int_equal(cli_progress_file_begin(&later, path, "walk c", &err), KVT_OK);
    assert_true(strcmp(later.after, "k1") == 0 || strcmp(later.after, "k2") == 0);
}

static void
without_a_file_nothing_is_kept(void **state)
{
    struct cli_progress_file resume;
    struct kvt_error err = {0};

    (void)state;
    assert_int_equal(cli_progress_file_begin(&resume, "", "walk", &err), KVT_OK);
    assert_int_equal(cli_progress_file_done(&resume, "k1", true, &err), KVT_OK);
    assert_int_equal(cli_progress_file_end(&resume, true, &err), KVT_OK);
    assert_int_equal(resume.bad, 1);
    assert_int_equal(cli_progress_file_begin(&resume, "/nowhere/at/all", "walk", &err), KVT_OK);
    assert_int_not_equal(cli_progress_file_end(&resume, true, &err), KVT_OK);
}

int
main(void)
{
    static char folder[256];
    static char path[300];
    struct CMUnitTest tests[] = {
        cmocka_unit_test(a_walk_goes_on_behind_what_was_done),
        cmocka_unit_test(it_is_written_down_while_the_walk_goes_on),
        cmocka_unit_test(without_a_file_nothing_is_kept),
    };
    int failed;

    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/state.json", folder);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tests[i].initial_state = path;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return failed;
}
