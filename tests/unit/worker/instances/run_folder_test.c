/*
 * What is tested: the folder in which instances meet (worker/instances/run_folder.h): one run's at
 * a time; its sockets go with it and nothing else does; what a killed run left goes with the next;
 * a path that cannot be used is refused in words.
 * How: real folders and sockets; a child that is killed while it has one.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/seed.h"
#include "worker/instances/run_folder.h"

static bool
is_there(const char *folder, const char *name)
{
    struct stat about;
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return lstat(path, &about) == 0;
}

static void
make_socket(const char *folder, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const int size = snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, name);

    assert_true(fd >= 0 && size > 0 && (size_t)size < sizeof(address.sun_path));
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    (void)close(fd);
}

static void
make_file(const char *folder, const char *name)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void
remove_name(const char *folder, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static void
one_of_its_own_goes_with_the_run(void **state)
{
    struct worker_run_folder folder;
    struct kvt_error err;

    (void)state;
    assert_int_equal(worker_run_folder_open(&folder, "", &err), KVT_OK);
    assert_true(is_there(folder.path, "."));
    make_socket(folder.path, "0.front");
    make_socket(folder.path, "7-7.work");
    worker_run_folder_close(&folder);
    assert_false(is_there(folder.path, "."));
    worker_run_folder_close(&folder);
}

static void
one_that_is_given_stays_with_what_is_not_ours(void **state)
{
    char path[] = "/tmp/kvt-folder-XXXXXX";
    struct worker_run_folder folder;
    struct worker_run_folder second;
    struct kvt_error err;

    (void)state;
    assert_non_null(mkdtemp(path));
    make_socket(path, "other.sock");
    make_socket(path, "0.front"); /* of a run that was killed */
    make_file(path, "1.peer");
    assert_int_equal(worker_run_folder_open(&folder, path, &err), KVT_OK);
    assert_false(is_there(path, "0.front"));
    assert_int_equal(worker_run_folder_open(&second, path, &err), KVT_BUSY);
    assert_non_null(strstr(err.text, "another run"));
    worker_run_folder_close(&second);
    make_socket(path, "0-1.step");
    worker_run_folder_close(&folder);
    assert_false(is_there(path, "0-1.step"));
    assert_true(is_there(path, "other.sock"));
    assert_true(is_there(path, "1.peer"));
    assert_int_equal(worker_run_folder_open(&folder, path, &err), KVT_OK);
    worker_run_folder_close(&folder);
    remove_name(path, "other.sock");
    remove_name(path, "1.peer");
    assert_int_equal(rmdir(path), 0);
}

/* A run that is killed once it has told the name of its folder. */
static void
leave_one(char path[WORKER_RUN_FOLDER_PATH_MAX + 1])
{
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        struct worker_run_folder folder;
        struct kvt_error err;

        if (worker_run_folder_open(&folder, "", &err) == KVT_OK) {
            make_socket(folder.path, "0.peer");
            (void)!write(ends[1], folder.path, sizeof(folder.path));
        }
        for (;;)
            (void)pause();
    }
    assert_true(child > 0);
    assert_int_equal(read(ends[0], path, WORKER_RUN_FOLDER_PATH_MAX + 1),
                     WORKER_RUN_FOLDER_PATH_MAX + 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void
what_a_killed_run_left_goes_with_the_next(void **state)
{
    char left[WORKER_RUN_FOLDER_PATH_MAX + 1];
    struct worker_run_folder first;
    struct worker_run_folder second;
    struct kvt_error err;

    (void)state;
    assert_int_equal(worker_run_folder_open(&first, "", &err), KVT_OK);
    leave_one(left);
    assert_true(is_there(left, "0.peer"));
    assert_int_equal(worker_run_folder_open(&second, "", &err), KVT_OK);
    assert_false(is_there(left, "."));
    assert_true(is_there(first.path, ".")); /* it is alive */
    worker_run_folder_close(&first);
    worker_run_folder_close(&second);
}

static void
what_cannot_be_used_is_refused(void **state)
{
    char path[WORKER_RUN_FOLDER_PATH_MAX + 2];
    struct worker_run_folder folder;
    struct kvt_error err;

    (void)state;
    assert_int_not_equal(worker_run_folder_open(&folder, "/proc/none", &err), KVT_OK);
    assert_non_null(strstr(err.text, "engine.folder: "));
    worker_run_folder_close(&folder);
    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(worker_run_folder_open(&folder, path, &err), KVT_RANGE);
    assert_string_equal(err.text, "engine.folder: 97 bytes long; a path that sockets can be in has "
                                  "96 at most");
    worker_run_folder_close(&folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_its_own_goes_with_the_run),
        cmocka_unit_test(one_that_is_given_stays_with_what_is_not_ours),
        cmocka_unit_test(what_a_killed_run_left_goes_with_the_next),
        cmocka_unit_test(what_cannot_be_used_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
