/*
 * What is tested: base/core/file.h: bounds, what is left behind by a failed write (nothing), and
 * that a reader beside a writer never sees half a file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/file.h"

#include "tests/support/seed.h"

enum { PATH_SIZE = 512, WRITES_MAX = 100000 };

static char folder[PATH_SIZE / 2];

static int
make_folder(void **state)
{
    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    return 0;
}

static int
remove_folder(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static const char *
path_of(char *path, const char *name)
{
    (void)snprintf(path, PATH_SIZE, "%s/%s", folder, name);
    return path;
}

static unsigned
count_entries(void)
{
    DIR *dir = opendir(folder);
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count - 2; /* "." and ".." */
}

static void
an_open_file_is_put_all_or_says_why_not(void **state)
{
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    char path[PATH_SIZE];
    size_t size;
    char *back;
    int fd = open(path_of(path, "put"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0 && full >= 0);
    assert_int_equal(kvt_file_put(fd, "", 0), 0);
    assert_int_equal(kvt_file_put(fd, "one", 3), 0);
    assert_int_equal(kvt_file_put(fd, " more", 5), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(kvt_file_read(&back, &size, path, 100, NULL), KVT_OK);
    assert_string_equal(back, "one more");
    kvt_free(back);
    assert_int_equal(kvt_file_put(full, "x", 1), ENOSPC);
    assert_int_equal(close(full), 0);
    assert_int_equal(kvt_file_put(-1, "x", 1), EBADF);
    assert_int_equal(unlink(path), 0);
}

static void
what_is_written_is_read(void **state)
{
    static char big[300000];
    struct kvt_error err;
    char path[PATH_SIZE];
    struct stat about;
    size_t size;
    char *back;

    (void)state;
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 7 % 251);
    for (size_t want = 0; want <= sizeof(big); want += want < 3 ? 1 : 65533) {
        assert_int_equal(kvt_file_write(path_of(path, "f"), big, want, 0640, &err), KVT_OK);
        assert_int_equal(kvt_file_read(&back, &size, path, sizeof(big), &err), KVT_OK);
        assert_int_equal(size, want);
        assert_memory_equal(back, big, want);
        assert_int_equal(back[size], '\0');
        kvt_free(back);
    }
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0640);
    assert_int_equal(count_entries(), 1);
}

static void
reading_is_bounded_and_says_why_it_failed(void **state)
{
    struct kvt_error err;
    char path[PATH_SIZE];
    char *back = folder;
    size_t size;

    (void)state;
    assert_int_equal(kvt_file_write(path_of(path, "f"), "12345", 5, 0600, &err), KVT_OK);
    assert_int_equal(kvt_file_read(&back, &size, path, 5, &err), KVT_OK);
    kvt_free(back);
    assert_int_equal(kvt_file_read(&back, &size, path, 4, &err), KVT_RANGE);
    assert_null(back);
    assert_int_equal(size, 0);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(kvt_file_read(&back, &size, path_of(path, "none"), 4, &err), KVT_NOTFOUND);
    assert_int_equal(kvt_file_read(&back, &size, folder, 4, &err), KVT_INVALID);
    /* /proc files say they are empty and are not. */
    assert_int_equal(kvt_file_read(&back, &size, "/proc/self/status", 100000, &err), KVT_OK);
    assert_true(size > 100);
    kvt_free(back);
}

static bool
read_once(void *arg)
{
    size_t size;
    char *back;
    const enum kvt_err rc = kvt_file_read(&back, &size, arg, 1000000, NULL);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && back == NULL));
    kvt_free(back);
    return rc == KVT_OK;
}

static void
reading_survives_every_allocation_failure(void **state)
{
    static char big[200000];
    char path[PATH_SIZE];

    (void)state;
    assert_int_equal(kvt_file_write(path_of(path, "f"), big, sizeof(big), 0600, NULL), KVT_OK);
    assert_true(test_sweep_allocations(read_once, path) > 1);
}

static void
a_failed_write_leaves_the_old_file_and_nothing_else(void **state)
{
    struct kvt_error err;
    char path[PATH_SIZE];
    char below[PATH_SIZE];
    unsigned before;

    (void)state;
    assert_int_equal(kvt_file_write(path_of(path, "f"), "old", 3, 0600, &err), KVT_OK);
    before = count_entries();
    /* A folder in the file's place makes the rename fail, after everything was written. */
    assert_int_equal(mkdir(path_of(path, "d"), 0700), 0);
    assert_int_equal(kvt_file_write(path_of(below, "d/f"), "x", 1, 0600, &err), KVT_OK);
    assert_int_equal(kvt_file_write(path, "new", 3, 0600, &err), KVT_INVALID);
    assert_int_equal(count_entries(), before + 1);
    assert_int_equal(kvt_file_write(path_of(path, "none/f"), "new", 3, 0600, &err), KVT_NOTFOUND);
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(kvt_file_write(path, "new", 3, 0600, &err), KVT_INVALID);
}

struct race {
    char path[PATH_SIZE];
    atomic_bool stop;
    unsigned torn_count;
    _Atomic unsigned read_count;
};

static void *
read_often(void *arg)
{
    struct race *race = arg;

    while (!atomic_load(&race->stop)) {
        size_t size;
        char *back;

        if (kvt_file_read(&back, &size, race->path, 1000000, NULL) != KVT_OK) {
            race->torn_count++;
            continue;
        }
        for (size_t i = 1; i < size; i++)
            if (back[i] != back[0]) {
                race->torn_count++;
                break;
            }
        race->torn_count += size == 50000 ? 0 : 1;
        atomic_fetch_add(&race->read_count, 1);
        kvt_free(back);
    }
    return NULL;
}

/* Never in place of a device: as root, /dev/null would be a file from then on. */
static void
a_pipe_is_written_to(void **state)
{
    char path[PATH_SIZE];
    struct stat about;
    char back[4] = "";
    int fd;

    (void)state;
    assert_int_equal(mkfifo(path_of(path, "fifo"), 0600), 0);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(kvt_file_write(path, "abc", 3, 0600, NULL), KVT_OK);
    assert_int_equal(read(fd, back, sizeof(back)), 3);
    assert_string_equal(back, "abc");
    (void)close(fd);
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
}

static void
a_reader_never_sees_half_a_write(void **state)
{
    static char bytes[50000];
    struct race race = {.stop = false};
    pthread_t reader;

    (void)state;
    assert_int_equal(kvt_file_write(path_of(race.path, "f"), bytes, sizeof(bytes), 0600, NULL), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_often, &race), 0);
    /* Where files cost nothing, all is written before the reader's first look. */
    for (int i = 0; i < 100 || atomic_load(&race.read_count) == 0; i++) {
        assert_true(i < WRITES_MAX);
        memset(bytes, 'a' + i % 26, sizeof(bytes));
        assert_int_equal(kvt_file_write(race.path, bytes, sizeof(bytes), 0600, NULL), KVT_OK);
    }
    atomic_store(&race.stop, true);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_int_equal(race.torn_count, 0);
}

static void
folders_are_made_with_their_parents(void **state)
{
    struct kvt_error err;
    char path[PATH_SIZE];
    struct stat about;

    (void)state;
    assert_int_equal(kvt_folder_make(path_of(path, "a//b/c/"), &err), KVT_OK);
    assert_int_equal(kvt_folder_make(path_of(path, "a/b/c"), &err), KVT_OK);
    assert_int_equal(kvt_folder_make(path_of(path, "a/b/d"), &err), KVT_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_true(S_ISDIR(about.st_mode));
    assert_int_equal(about.st_mode & 07777, 0700);
    assert_int_equal(kvt_folder_make("/", &err), KVT_OK);
    assert_int_equal(kvt_file_write(path_of(path, "plain"), "", 0, 0600, &err), KVT_OK);
    assert_int_equal(kvt_folder_make(path, &err), KVT_INVALID);
    assert_int_equal(kvt_folder_make(path_of(path, "plain/x"), &err), KVT_INVALID);
    assert_int_equal(kvt_folder_make("", &err), KVT_NOTFOUND);
    assert_int_equal(kvt_folder_sync(path_of(path, "a"), &err), KVT_OK);
    assert_int_equal(kvt_folder_sync(path_of(path, "none"), &err), KVT_NOTFOUND);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_open_file_is_put_all_or_says_why_not),
        TEST(what_is_written_is_read),
        TEST(reading_is_bounded_and_says_why_it_failed),
        TEST(reading_survives_every_allocation_failure),
        TEST(a_failed_write_leaves_the_old_file_and_nothing_else),
        TEST(a_pipe_is_written_to),
        TEST(a_reader_never_sees_half_a_write),
        TEST(folders_are_made_with_their_parents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
