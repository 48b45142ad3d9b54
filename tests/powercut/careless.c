/*
 * tests/powercut/careless.c -- a small store, careful or careless as its argument says.
 *
 * Why: a power-cut test that cannot fail proves nothing.  The careful one must survive every cut;
 * each careless one must be caught.
 *
 * usage: careless FOLDER MODE < one line "next" per file > one line "done N" per file
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { BODY_SIZE = 5000, PATH_SIZE = 512 };

struct care {
    bool file_sync;   /* fsync of the file before it gets its name */
    bool folder_sync; /* fsync of the folder after it got it */
    bool late_write;  /* writes once more behind the sync */
};

/* Look into the folder, and then write to something that is no file and has the number of the
 * descriptor that the C library closed. */
static bool
look(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    const uint64_t one = 1;
    int event;
    bool ok;

    if (names == NULL || closedir(names) != 0)
        return false; /* and the program ends */
    event = eventfd(0, EFD_CLOEXEC);
    ok = event >= 0 && write(event, &one, sizeof(one)) == sizeof(one);
    if (event >= 0)
        (void)close(event);
    return ok;
}

static int
store(const char *folder, int number, const struct care *care)
{
    char body[BODY_SIZE];
    char name[PATH_SIZE];
    char link_from[64];
    int file = -1;
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok;

    if (dir < 0 || !look(folder))
        return 1;
    memset(body, 'a' + number % 26, sizeof(body));
    (void)snprintf(name, sizeof(name), "%s/%d", folder, number);
    file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    (void)snprintf(link_from, sizeof(link_from), "/proc/self/fd/%d", file);
    ok = dir >= 0 && file >= 0 && write(file, body, sizeof(body) / 2) == sizeof(body) / 2;
    if (ok && !care->late_write)
        ok = write(file, body, sizeof(body) / 2) == sizeof(body) / 2;
    if (ok && care->file_sync)
        ok = fsync(file) == 0;
    if (ok && care->late_write)
        ok = pwrite(file, body, sizeof(body) / 2, sizeof(body) / 2) == sizeof(body) / 2;
    ok = ok && linkat(AT_FDCWD, link_from, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    if (ok && care->folder_sync)
        ok = fsync(dir) == 0;
    if (file >= 0)
        (void)close(file);
    if (dir >= 0)
        (void)close(dir);
    return ok ? 0 : 1;
}

int
main(int argc, char **argv)
{
    struct care care = {.file_sync = true, .folder_sync = true};
    char line[16];
    int number = 0;

    if (argc != 3)
        return 2;
    if (strcmp(argv[2], "no-file-sync") == 0)
        care.file_sync = false;
    else if (strcmp(argv[2], "no-folder-sync") == 0)
        care.folder_sync = false;
    else if (strcmp(argv[2], "late-write") == 0)
        care.late_write = true;
    else if (strcmp(argv[2], "careful") != 0)
        return 2;
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (store(argv[1], number, &care) != 0)
            return 1;
        (void)printf("done %d\n", number++);
        (void)fflush(stdout);
    }
    return 0;
}
