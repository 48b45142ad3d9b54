/*
 * tests/powercut/recorder.c -- a preloaded library that logs what a program asks of its files.
 *
 * Why: a power cut keeps only what was synced, and no test can pull the plug.  Loaded with
 * LD_PRELOAD, this logs every write, sync, link, rename and removal below one folder, with its data
 * and a sequence number shared by all recorded processes; rebuild.py then makes the folder as a cut
 * at any sequence would have left it.
 *
 * How time is kept: an operation takes its number after it completed, so "number < cut" means it
 * was done.  A sync also takes a number before it starts: it covers the writes numbered below that
 * one only, since those were finished when it began.  The lock makes the order of numbers the order
 * of effects inside one process; syncs run outside it, several at once.
 *
 * Ownership: the environment names the folder, the log and the clock: KVT_RECORD_ROOT (resolved),
 *            KVT_RECORD_LOG, KVT_RECORD_CLOCK (a file of eight bytes, mapped by whoever wants the
 *            time).  Without them every call goes straight through.
 * Threads:   any.  The state below is global because the calls it stands in front of are.
 * Limits:    descriptors below FDS_MAX.  Writes through shared mappings and through stdio are not
 *            seen; rebuild.py compares its idea of the final tree with the real one, which finds
 * them. Copies inside the kernel (copy_file_range, sendfile, splice) into the folder are refused.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/powercut/recorder_path.h"

#define EXPORT __attribute__((visibility("default")))

enum { FDS_MAX = 65536, IOV_MAX_HERE = 1024, RECORD_MAGIC = 0x5254564b };

enum op {
    OP_CREATE = 1, /* a new file under `path` */
    OP_TMPFILE,    /* a new file without a name */
    OP_WRITE,
    OP_SIZE,   /* truncated or extended to `offset` */
    OP_EXTEND, /* at least `offset` long */
    OP_SYNC,
    OP_LINK, /* `ino` is now also `path` */
    OP_UNLINK,
    OP_RENAME, /* `path` is now `path2` */
    OP_MKDIR,
    OP_RMDIR,
    OP_SYNC_ALL,
    OP_EXCHANGE,
};

struct record {
    uint32_t magic;
    uint32_t op;
    uint64_t size; /* of the whole record */
    uint64_t seq;
    uint64_t begin;
    uint64_t ino;
    uint64_t offset;
    uint64_t data_size;
    uint32_t path_size;
    uint32_t path2_size;
    uint32_t durable; /* the write was synced when it returned */
    uint32_t pid;
};

enum kind { NOT_OURS, A_FILE, A_FOLDER };

struct tracked {
    _Atomic uint8_t kind;
    bool durable;
    uint64_t ino;
};

static struct tracked fds[FDS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char root[PATH_MAX];
static size_t root_size;
static int log_fd = -1;
static _Atomic uint64_t *clock_now;

#define REAL(name, result, ...)                                                                    \
    static result (*real_##name)(__VA_ARGS__);                                                     \
    if (real_##name == NULL)                                                                       \
    *(void **)&real_##name = dlsym(RTLD_NEXT, #name)

static ssize_t
real_write_call(int fd, const void *bytes, size_t size)
{
    REAL(write, ssize_t, int, const void *, size_t);
    return real_write(fd, bytes, size);
}

static void
start(void)
{
    REAL(open, int, const char *, int, ...);
    const char *folder = getenv("KVT_RECORD_ROOT");
    const char *log_path = getenv("KVT_RECORD_LOG");
    const char *clock_path = getenv("KVT_RECORD_CLOCK");
    int clock_fd;
    void *page;

    if (folder == NULL || log_path == NULL || clock_path == NULL)
        return;
    clock_fd = real_open(clock_path, O_RDWR | O_CLOEXEC);
    log_fd = real_open(log_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    page = clock_fd < 0
               ? MAP_FAILED
               : mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, clock_fd, 0);
    if (log_fd < 0 || page == MAP_FAILED || strlen(folder) >= sizeof(root)) {
        static const char text[] = "recorder: cannot open its log or clock\n";

        (void)!real_write_call(STDERR_FILENO, text, sizeof(text) - 1);
        _exit(125); /* a recording with holes would prove nothing */
    }
    clock_now = page;
    root_size = strlen(folder);
    memcpy(root, folder, root_size + 1);
}

static bool
recording(void)
{
    (void)pthread_once(&once, start);
    return root_size > 0;
}

static uint64_t
tick(void)
{
    return atomic_fetch_add(clock_now, 1);
}

static void
put_record(struct record *record, const char *path, const char *path2, const struct iovec *data,
           int data_count)
{
    struct iovec parts[IOV_MAX_HERE];
    int count = 0;
    ssize_t written;

    record->magic = RECORD_MAGIC;
    record->pid = (uint32_t)getpid();
    record->path_size = path == NULL ? 0 : (uint32_t)strlen(path);
    record->path2_size = path2 == NULL ? 0 : (uint32_t)strlen(path2);
    record->size = sizeof(*record) + record->path_size + record->path2_size + record->data_size;
    if (record->seq == 0)
        record->seq = tick();
    parts[count++] = (struct iovec){record, sizeof(*record)};
    parts[count++] = (struct iovec){(void *)(uintptr_t)path, record->path_size};
    parts[count++] = (struct iovec){(void *)(uintptr_t)path2, record->path2_size};
    for (uint64_t left = record->data_size; left > 0 && data_count > 0; data_count--, data++) {
        const size_t take = data->iov_len < left ? data->iov_len : (size_t)left;

        if (count == IOV_MAX_HERE)
            _exit(125);
        parts[count++] = (struct iovec){data->iov_base, take};
        left -= take;
    }
    REAL(writev, ssize_t, int, const struct iovec *, int);
    written = real_writev(log_fd, parts, count);
    if (written < 0 || (uint64_t)written != record->size)
        _exit(125); /* the log's disk is full: stop rather than lie */
}

/* The path below our folder, without a leading '/', or NULL when it is elsewhere. */
static const char *
inside(int at, const char *path, char full[RECORDER_PATH_SIZE])
{
    return recorder_path_below(root, at, path, full);
}

static bool
ours(int fd)
{
    return fd >= 0 && fd < FDS_MAX && recording() && atomic_load(&fds[fd].kind) != NOT_OURS;
}

static void
forget(int fd)
{
    if (fd >= 0 && fd < FDS_MAX)
        atomic_store(&fds[fd].kind, NOT_OURS);
}

static void
track(int fd, const struct stat *info, int flags)
{
    if (fd >= FDS_MAX)
        _exit(125);
    fds[fd].ino = info->st_ino;
    fds[fd].durable = (flags & O_DSYNC) != 0;
    atomic_store(&fds[fd].kind, S_ISDIR(info->st_mode) ? A_FOLDER : A_FILE);
}

static void
copy_track(int from, int to)
{
    if (to < 0 || to >= FDS_MAX)
        return;
    if (!ours(from)) {
        forget(to);
        return;
    }
    fds[to].ino = fds[from].ino;
    fds[to].durable = fds[from].durable;
    atomic_store(&fds[to].kind, atomic_load(&fds[from].kind));
}

/* ---- opening ---- */

static int
open_any(int at, const char *path, int flags, mode_t mode)
{
    REAL(openat, int, int, const char *, int, ...);
    char full[RECORDER_PATH_SIZE];
    const char *name = recording() ? inside(at, path, full) : NULL;
    struct stat before;
    struct stat info;
    bool existed;
    int fd;

    if (name == NULL)
        return real_openat(at, path, flags, mode);
    (void)pthread_mutex_lock(&lock);
    existed = fstatat(at, path, &before, 0) == 0;
    fd = real_openat(at, path, flags, mode);
    if (fd >= 0 && fstat(fd, &info) == 0) {
        struct record record = {.ino = info.st_ino, .offset = info.st_mode};

        track(fd, &info, flags);
        if ((flags & O_TMPFILE) == O_TMPFILE) {
            record.op = OP_TMPFILE;
            put_record(&record, NULL, NULL, NULL, 0);
        } else if ((flags & O_CREAT) != 0 && !existed) {
            record.op = OP_CREATE;
            put_record(&record, name, NULL, NULL, 0);
        } else if ((flags & O_TRUNC) != 0 && S_ISREG(info.st_mode)) {
            record.op = OP_SIZE;
            record.offset = 0;
            put_record(&record, NULL, NULL, NULL, 0);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return fd;
}

static mode_t
mode_of(int flags, va_list args)
{
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)
        return va_arg(args, mode_t);
    return 0;
}

#define OPEN(name)                                                                                 \
    EXPORT int name(const char *path, int flags, ...);                                             \
    EXPORT int name(const char *path, int flags, ...)                                              \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return open_any(AT_FDCWD, path, flags, mode);                                              \
    }
#define OPENAT(name)                                                                               \
    EXPORT int name(int at, const char *path, int flags, ...);                                     \
    EXPORT int name(int at, const char *path, int flags, ...)                                      \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return open_any(at, path, flags, mode);                                                    \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* What a fortified program calls when no mode is given. */
#define OPEN_2(name)                                                                               \
    EXPORT int name(const char *path, int flags);                                                  \
    EXPORT int name(const char *path, int flags)                                                   \
    {                                                                                              \
        return open_any(AT_FDCWD, path, flags, 0);                                                 \
    }
#define OPENAT_2(name)                                                                             \
    EXPORT int name(int at, const char *path, int flags);                                          \
    EXPORT int name(int at, const char *path, int flags)                                           \
    {                                                                                              \
        return open_any(at, path, flags, 0);                                                       \
    }
OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

EXPORT int
creat(const char *path, mode_t mode)
{
    return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* The C library opens these itself, past every name above. */
EXPORT int
mkostemp(char *path, int flags)
{
    REAL(mkostemp, int, char *, int);
    char full[RECORDER_PATH_SIZE];
    const char *name;
    struct stat info;
    int fd;

    if (!recording())
        return real_mkostemp(path, flags);
    (void)pthread_mutex_lock(&lock);
    fd = real_mkostemp(path, flags);
    name = fd < 0 ? NULL : inside(AT_FDCWD, path, full);
    if (name != NULL && fstat(fd, &info) == 0) {
        struct record record = {.op = OP_CREATE, .ino = info.st_ino, .offset = info.st_mode};

        track(fd, &info, flags);
        put_record(&record, name, NULL, NULL, 0);
    }
    (void)pthread_mutex_unlock(&lock);
    return fd;
}

EXPORT int
mkstemp(char *path)
{
    return mkostemp(path, 0);
}

EXPORT int
close(int fd)
{
    REAL(close, int, int);
    forget(fd); /* first: another thread may get the number the moment it is free */
    return real_close(fd);
}

/* It closes a descriptor inside the C library, where close() above does not see it. */
EXPORT int
closedir(DIR *folder)
{
    REAL(closedir, int, DIR *);
    forget(dirfd(folder));
    return real_closedir(folder);
}

EXPORT int
dup(int fd)
{
    REAL(dup, int, int);
    const int copy = real_dup(fd);

    copy_track(fd, copy);
    return copy;
}

EXPORT int
dup2(int fd, int to)
{
    REAL(dup2, int, int, int);
    const int copy = real_dup2(fd, to);

    if (copy >= 0 && fd != to)
        copy_track(fd, copy);
    return copy;
}

EXPORT int
dup3(int fd, int to, int flags)
{
    REAL(dup3, int, int, int, int);
    const int copy = real_dup3(fd, to, flags);

    if (copy >= 0)
        copy_track(fd, copy);
    return copy;
}

static int
fcntl_any(int fd, int command, void *argument)
{
    REAL(fcntl, int, int, int, ...);
    const int result = real_fcntl(fd, command, argument);

    if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC))
        copy_track(fd, result);
    return result;
}

#define FCNTL(name)                                                                                \
    EXPORT int name(int fd, int command, ...);                                                     \
    EXPORT int name(int fd, int command, ...)                                                      \
    {                                                                                              \
        va_list args;                                                                              \
        void *argument;                                                                            \
                                                                                                   \
        va_start(args, command);                                                                   \
        argument = va_arg(args, void *);                                                           \
        va_end(args);                                                                              \
        return fcntl_any(fd, command, argument);                                                   \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

/* ---- writing ---- */

/* `offset` -1: at the descriptor's position, which is read back afterwards (also right for
 * O_APPEND). */
static ssize_t
write_any(int fd, const struct iovec *parts, int count, off_t offset)
{
    REAL(writev, ssize_t, int, const struct iovec *, int);
    REAL(pwritev, ssize_t, int, const struct iovec *, int, off_t);
    struct record record = {.op = OP_WRITE};
    ssize_t written;
    int saved;

    (void)pthread_mutex_lock(&lock);
    written = offset < 0 ? real_writev(fd, parts, count) : real_pwritev(fd, parts, count, offset);
    saved = errno;
    if (written > 0) {
        record.ino = fds[fd].ino;
        record.durable = fds[fd].durable;
        record.data_size = (uint64_t)written;
        record.offset =
            offset < 0 ? (uint64_t)(lseek(fd, 0, SEEK_CUR) - written) : (uint64_t)offset;
        put_record(&record, NULL, NULL, parts, count);
    }
    (void)pthread_mutex_unlock(&lock);
    errno = saved;
    return written;
}

EXPORT ssize_t
write(int fd, const void *bytes, size_t size)
{
    const struct iovec part = {(void *)(uintptr_t)bytes, size};

    return ours(fd) ? write_any(fd, &part, 1, -1) : real_write_call(fd, bytes, size);
}

EXPORT ssize_t
writev(int fd, const struct iovec *parts, int count)
{
    REAL(writev, ssize_t, int, const struct iovec *, int);
    return ours(fd) ? write_any(fd, parts, count, -1) : real_writev(fd, parts, count);
}

#define PWRITE(name)                                                                               \
    EXPORT ssize_t name(int fd, const void *bytes, size_t size, off_t offset);                     \
    EXPORT ssize_t name(int fd, const void *bytes, size_t size, off_t offset)                      \
    {                                                                                              \
        REAL(name, ssize_t, int, const void *, size_t, off_t);                                     \
        const struct iovec part = {(void *)(uintptr_t)bytes, size};                                \
                                                                                                   \
        return ours(fd) ? write_any(fd, &part, 1, offset) : real_##name(fd, bytes, size, offset);  \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define PWRITEV(name)                                                                              \
    EXPORT ssize_t name(int fd, const struct iovec *parts, int count, off_t offset);               \
    EXPORT ssize_t name(int fd, const struct iovec *parts, int count, off_t offset)                \
    {                                                                                              \
        REAL(name, ssize_t, int, const struct iovec *, int, off_t);                                \
        return ours(fd) ? write_any(fd, parts, count, offset)                                      \
                        : real_##name(fd, parts, count, offset);                                   \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)

#define NOT_RECORDED(result, name, arguments, fd, call)                                            \
    EXPORT result name arguments;                                                                  \
    EXPORT result name arguments                                                                   \
    {                                                                                              \
        if (ours(fd)) {                                                                            \
            errno = ENOSYS; /* callers fall back to plain writes */                                \
            return -1;                                                                             \
        }                                                                                          \
        return call;                                                                               \
    }

static ssize_t
real_pwritev2_call(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    REAL(pwritev2, ssize_t, int, const struct iovec *, int, off_t, int);
    return real_pwritev2(fd, parts, count, offset, flags);
}

static ssize_t
real_copy_call(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags)
{
    REAL(copy_file_range, ssize_t, int, off64_t *, int, off64_t *, size_t, unsigned);
    return real_copy_file_range(in, in_at, out, out_at, size, flags);
}

static ssize_t
real_sendfile_call(int out, int in, off_t *at, size_t size)
{
    REAL(sendfile, ssize_t, int, int, off_t *, size_t);
    return real_sendfile(out, in, at, size);
}

static ssize_t
real_splice_call(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags)
{
    REAL(splice, ssize_t, int, off64_t *, int, off64_t *, size_t, unsigned);
    return real_splice(in, in_at, out, out_at, size, flags);
}

NOT_RECORDED(ssize_t, pwritev2,
             (int fd, const struct iovec *parts, int count, off_t offset, int flags), fd,
             real_pwritev2_call(fd, parts, count, offset, flags))
NOT_RECORDED(ssize_t, copy_file_range,
             (int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags), out,
             real_copy_call(in, in_at, out, out_at, size, flags))
NOT_RECORDED(ssize_t, sendfile, (int out, int in, off_t *at, size_t size), out,
             real_sendfile_call(out, in, at, size))
NOT_RECORDED(ssize_t, splice,
             (int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags), out,
             real_splice_call(in, in_at, out, out_at, size, flags))

static void
put_size(int fd, enum op op, off_t size)
{
    struct record record = {.op = op, .ino = fds[fd].ino, .offset = (uint64_t)size};

    put_record(&record, NULL, NULL, NULL, 0);
}

#define FTRUNCATE(name)                                                                            \
    EXPORT int name(int fd, off_t size)                                                            \
    {                                                                                              \
        REAL(name, int, int, off_t);                                                               \
        int result;                                                                                \
                                                                                                   \
        if (!ours(fd))                                                                             \
            return real_##name(fd, size);                                                          \
        (void)pthread_mutex_lock(&lock);                                                           \
        result = real_##name(fd, size);                                                            \
        if (result == 0)                                                                           \
            put_size(fd, OP_SIZE, size);                                                           \
        (void)pthread_mutex_unlock(&lock);                                                         \
        return result;                                                                             \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

#define FALLOCATE(name)                                                                            \
    EXPORT int name(int fd, int mode, off_t offset, off_t size)                                    \
    {                                                                                              \
        REAL(name, int, int, int, off_t, off_t);                                                   \
        int result;                                                                                \
                                                                                                   \
        if (!ours(fd))                                                                             \
            return real_##name(fd, mode, offset, size);                                            \
        if ((mode & ~FALLOC_FL_KEEP_SIZE) != 0) {                                                  \
            errno = EOPNOTSUPP; /* holes are not modelled */                                       \
            return -1;                                                                             \
        }                                                                                          \
        (void)pthread_mutex_lock(&lock);                                                           \
        result = real_##name(fd, mode, offset, size);                                              \
        if (result == 0 && mode == 0)                                                              \
            put_size(fd, OP_EXTEND, offset + size);                                                \
        (void)pthread_mutex_unlock(&lock);                                                         \
        return result;                                                                             \
    }
FALLOCATE(fallocate)
FALLOCATE(fallocate64)

#define POSIX_FALLOCATE(name)                                                                      \
    EXPORT int name(int fd, off_t offset, off_t size)                                              \
    {                                                                                              \
        REAL(name, int, int, off_t, off_t);                                                        \
        int result;                                                                                \
                                                                                                   \
        if (!ours(fd))                                                                             \
            return real_##name(fd, offset, size);                                                  \
        (void)pthread_mutex_lock(&lock);                                                           \
        result = real_##name(fd, offset, size);                                                    \
        if (result == 0)                                                                           \
            put_size(fd, OP_EXTEND, offset + size);                                                \
        (void)pthread_mutex_unlock(&lock);                                                         \
        return result;                                                                             \
    }
POSIX_FALLOCATE(posix_fallocate)
POSIX_FALLOCATE(posix_fallocate64)

/* ---- syncing: not under the lock, or two threads could never sync at once ---- */

#define SYNC(name)                                                                                 \
    EXPORT int name(int fd)                                                                        \
    {                                                                                              \
        REAL(name, int, int);                                                                      \
        struct record record = {.op = OP_SYNC};                                                    \
        int result;                                                                                \
                                                                                                   \
        if (!ours(fd))                                                                             \
            return real_##name(fd);                                                                \
        record.ino = fds[fd].ino;                                                                  \
        record.begin = tick();                                                                     \
        result = real_##name(fd);                                                                  \
        if (result == 0)                                                                           \
            put_record(&record, NULL, NULL, NULL, 0);                                              \
        return result;                                                                             \
    }
SYNC(fsync)
SYNC(fdatasync)

EXPORT int
syncfs(int fd)
{
    REAL(syncfs, int, int);
    struct record record = {.op = OP_SYNC_ALL};
    int result;

    if (!recording())
        return real_syncfs(fd);
    record.begin = tick();
    result = real_syncfs(fd);
    if (result == 0)
        put_record(&record, NULL, NULL, NULL, 0);
    return result;
}

/* ---- names in folders ---- */

/* One place for every call that changes a folder: lock, do it, log it when it worked. */
struct change {
    enum op op;
    int at, at2;
    const char *path, *path2;
};

static void
log_change(const struct change *change, uint64_t ino)
{
    char full[RECORDER_PATH_SIZE];
    char full2[RECORDER_PATH_SIZE];
    struct record record = {.op = change->op, .ino = ino};
    const char *name = change->path == NULL ? NULL : inside(change->at, change->path, full);
    const char *name2 = change->path2 == NULL ? NULL : inside(change->at2, change->path2, full2);

    if (name == NULL && name2 == NULL)
        return;
    if (change->path2 != NULL && (name == NULL || name2 == NULL))
        _exit(125); /* into or out of the folder: not modelled, and nothing recorded does it */
    put_record(&record, name, name2, NULL, 0);
}

EXPORT int
mkdirat(int at, const char *path, mode_t mode)
{
    REAL(mkdirat, int, int, const char *, mode_t);
    struct stat info = {0};
    int result;

    if (!recording())
        return real_mkdirat(at, path, mode);
    (void)pthread_mutex_lock(&lock);
    result = real_mkdirat(at, path, mode);
    if (result == 0 && fstatat(at, path, &info, 0) == 0)
        log_change(&(struct change){.op = OP_MKDIR, .at = at, .path = path}, info.st_ino);
    (void)pthread_mutex_unlock(&lock);
    return result;
}

EXPORT int
mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

EXPORT int
unlinkat(int at, const char *path, int flags)
{
    REAL(unlinkat, int, int, const char *, int);
    const enum op op = (flags & AT_REMOVEDIR) != 0 ? OP_RMDIR : OP_UNLINK;
    int result;
    int saved;

    if (!recording())
        return real_unlinkat(at, path, flags);
    (void)pthread_mutex_lock(&lock);
    result = real_unlinkat(at, path, flags);
    saved = errno;
    if (result == 0)
        log_change(&(struct change){.op = op, .at = at, .path = path}, 0);
    (void)pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

EXPORT int
unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

EXPORT int
rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

EXPORT int
remove(const char *path)
{
    const int result = unlink(path);

    return result != 0 && (errno == EISDIR || errno == EPERM) ? rmdir(path) : result;
}

EXPORT int
renameat2(int at, const char *from, int at2, const char *to, unsigned flags)
{
    REAL(renameat2, int, int, const char *, int, const char *, unsigned);
    const enum op op = (flags & RENAME_EXCHANGE) != 0 ? OP_EXCHANGE : OP_RENAME;
    int result;
    int saved;

    if (!recording())
        return real_renameat2(at, from, at2, to, flags);
    (void)pthread_mutex_lock(&lock);
    result = real_renameat2(at, from, at2, to, flags);
    saved = errno;
    if (result == 0)
        log_change(&(struct change){.op = op, .at = at, .path = from, .at2 = at2, .path2 = to}, 0);
    (void)pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

EXPORT int
renameat(int at, const char *from, int at2, const char *to)
{
    return renameat2(at, from, at2, to, 0);
}

EXPORT int
rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int
linkat(int at, const char *from, int at2, const char *to, int flags)
{
    REAL(linkat, int, int, const char *, int, const char *, int);
    struct stat info = {0};
    int result;
    int saved;

    if (!recording())
        return real_linkat(at, from, at2, to, flags);
    (void)pthread_mutex_lock(&lock);
    result = real_linkat(at, from, at2, to, flags);
    saved = errno;
    /* The file may have had no name ("/proc/self/fd/N", or "" with AT_EMPTY_PATH): its number
     * tells. */
    if (result == 0 && fstatat(at2, to, &info, 0) == 0)
        log_change(&(struct change){.op = OP_LINK, .at = at2, .path = to}, info.st_ino);
    (void)pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

EXPORT int
link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
