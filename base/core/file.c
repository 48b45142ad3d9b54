#include "base/core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"

enum { READ_STEP = 64 * 1024 };

/* read() until `size` bytes or the end; -1 with errno set on an error. */
static ssize_t
read_full(int fd, char *bytes, size_t size)
{
    size_t done = 0;

    while (done < size) {
        const ssize_t got = read(fd, bytes + done, size - done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

enum kvt_err
kvt_file_read(char **out, size_t *size, const char *path, size_t limit, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;
    char *bytes = NULL;
    size_t count = 0;
    int fd;

    *out = NULL;
    *size = 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kvt_error_sys(err, errno, "open %s", path);

    /* In steps and not by st_size: files under /proc say 0, and a file may grow while we read. */
    for (;;) {
        const size_t want = limit - count < READ_STEP ? limit - count + 1 : READ_STEP;
        char *grown = kvt_realloc(bytes, count + want + 1, 1);
        ssize_t got;

        if (grown == NULL) {
            rc = kvt_error_set(err, KVT_NOMEM, "read %s", path);
            goto fail;
        }
        bytes = grown;
        got = read_full(fd, bytes + count, want);
        if (got < 0) {
            rc = kvt_error_sys(err, errno, "read %s", path);
            goto fail;
        }
        count += (size_t)got;
        if (count > limit) {
            rc = kvt_error_set(err, KVT_RANGE, "%s is larger than %zu bytes", path, limit);
            goto fail;
        }
        if ((size_t)got < want)
            break;
    }
    (void)close(fd);
    bytes[count] = '\0';
    *out = bytes;
    *size = count;
    return KVT_OK;

fail:
    (void)close(fd);
    kvt_free(bytes);
    return rc;
}

/* The folder part of `path`, cut off in place; "." when it has none. */
static const char *
parent_of(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL)
        return ".";
    if (slash == path)
        return "/";
    *slash = '\0';
    return path;
}

enum kvt_err
kvt_folder_sync(const char *path, struct kvt_error *err)
{
    int sys = 0;
    int fd;

    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return kvt_error_sys(err, errno, "open folder %s", path);
    if (fsync(fd) != 0)
        sys = errno;
    (void)close(fd);
    return sys == 0 ? KVT_OK : kvt_error_sys(err, sys, "sync folder %s", path);
}

enum kvt_err
kvt_file_sync_name(const char *path, struct kvt_error *err)
{
    char copy[PATH_MAX];

    if ((size_t)snprintf(copy, sizeof(copy), "%s", path) >= sizeof(copy))
        return kvt_error_set(err, KVT_RANGE, "%s: too long", path);
    return kvt_folder_sync(parent_of(copy), err);
}

int
kvt_file_put(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;

    while (size > 0) {
        const ssize_t put = write(fd, at, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? errno : EIO; /* a file that takes nothing never will */
        at += put;
        size -= (size_t)put;
    }
    return 0;
}

/* Everything that must have happened to the temporary file before it gets its name; 0 or errno. */
static int
fill_temporary(int fd, const char *bytes, size_t size, unsigned mode)
{
    const int sys = kvt_file_put(fd, bytes, size);

    if (sys == 0 && (fchmod(fd, (mode_t)mode) != 0 || fsync(fd) != 0))
        return errno;
    return sys;
}

/* A device or a pipe is written to: in its place a file would be of no use to whoever reads it. */
static bool
is_special(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

static enum kvt_err
write_special(const char *path, const char *bytes, size_t size, struct kvt_error *err)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    int sys = fd < 0 ? errno : kvt_file_put(fd, bytes, size);

    if (fd >= 0 && close(fd) != 0 && sys == 0)
        sys = errno;
    return sys == 0 ? KVT_OK : kvt_error_sys(err, sys, "write %s", path);
}

enum kvt_err
kvt_file_write(const char *path, const void *bytes, size_t size, unsigned mode,
               struct kvt_error *err)
{
    char temporary[PATH_MAX];
    int sys;
    int fd;

    if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
        return kvt_error_sys(err, ENAMETOOLONG, "write %s", path);
    if (is_special(path))
        return write_special(path, bytes, size, err);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return kvt_error_sys(err, errno, "create %s", temporary);
    sys = fill_temporary(fd, bytes, size, mode);
    if (close(fd) != 0 && sys == 0)
        sys = errno;
    if (sys == 0 && rename(temporary, path) != 0)
        sys = errno;
    if (sys != 0) {
        (void)unlink(temporary);
        return kvt_error_sys(err, sys, "write %s", path);
    }
    return kvt_file_sync_name(path, err);
}

static enum kvt_err
make_one(const char *path, struct kvt_error *err)
{
    struct stat about;

    if (mkdir(path, 0700) == 0)
        return kvt_file_sync_name(path, err);
    if (errno != EEXIST)
        return kvt_error_sys(err, errno, "make folder %s", path);
    if (stat(path, &about) != 0)
        return kvt_error_sys(err, errno, "look at %s", path);
    if (!S_ISDIR(about.st_mode))
        return kvt_error_sys(err, ENOTDIR, "make folder %s", path);
    return KVT_OK;
}

enum kvt_err
kvt_folder_make(const char *path, struct kvt_error *err)
{
    char part[PATH_MAX];
    const size_t size = strlen(path);

    if (size == 0 || size >= sizeof(part))
        return kvt_error_sys(err, size == 0 ? ENOENT : ENAMETOOLONG, "make folder \"%s\"", path);
    memcpy(part, path, size + 1);
    for (size_t i = 1; i < size; i++) {
        enum kvt_err rc;

        if (part[i] != '/' || part[i - 1] == '/')
            continue;
        part[i] = '\0';
        rc = make_one(part, err);
        if (rc != KVT_OK)
            return rc;
        part[i] = '/';
    }
    /* "a/b/" was made by the loop; kvt_file_sync_name() must not see the trailing slash. */
    return part[size - 1] == '/' ? KVT_OK : make_one(part, err);
}
