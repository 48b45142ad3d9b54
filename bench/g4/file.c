#include "bench/g4/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/g4/work.h"

enum kvt_err
work_read_file(const char *path, uint8_t *body, size_t *size, struct kvt_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;

    *size = 0;
    if (fd < 0)
        return kvt_error_sys(err, errno, "open %s", path);
    while (got > 0 && *size < WORK_BODY_MAX) {
        got = read(fd, body + *size, WORK_BODY_MAX - *size);
        *size += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    return got < 0 ? kvt_error_sys(err, errno, "read %s", path) : KVT_OK;
}

enum kvt_err
work_write_file(const char *path, const uint8_t *body, size_t size, struct kvt_error *err)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t done = 0;
    ssize_t put = 0;

    if (fd < 0)
        return kvt_error_sys(err, errno, "open %s", path);
    while (put >= 0 && done < size) {
        put = write(fd, body + done, size - done);
        done += put > 0 ? (size_t)put : 0;
    }
    (void)close(fd);
    return put < 0 ? kvt_error_sys(err, errno, "write %s", path) : KVT_OK;
}

double
work_cpu_s(void)
{
    struct rusage used = {0};

    (void)getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}
