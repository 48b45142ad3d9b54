#include "tests/unit/kvbm/support/volume_bed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/random.h"

static _Atomic uint32_t left = UINT32_MAX;
static _Atomic int fails_with;
static _Atomic bool has_failed;
static _Atomic uint32_t folder_syncs;

void
volume_bed_fail_after(uint32_t count, int error)
{
    atomic_store(&fails_with, error);
    atomic_store(&has_failed, false);
    atomic_store(&left, count);
}

bool
volume_bed_failed(void)
{
    return atomic_load(&has_failed);
}

/* Is it this one's turn? */
static bool
fails(void)
{
    uint32_t now = atomic_load(&left);

    while (now != UINT32_MAX)
        if (atomic_compare_exchange_weak(&left, &now, now == 0 ? UINT32_MAX : now - 1)) {
            if (now > 0)
                return false;
            atomic_store(&has_failed, true);
            return true;
        }
    return false;
}

/* What a call that moves `size` bytes does: fail, move fewer, or all. */
static bool
shrinks(size_t *size)
{
    if (!fails())
        return false;
    if (atomic_load(&fails_with) == 0) {
        *size = *size > 1 ? *size / 2 : *size;
        return false;
    }
    errno = atomic_load(&fails_with);
    return true;
}

/* The linker puts these in the place of the system's for kvbm's objects (CMakeLists.txt). */
ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __real_write(int fd, const void *bytes, size_t size);
int __real_fsync(int fd);
int __real_linkat(int from, const char *old, int to, const char *new, int flags);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
int __wrap_fsync(int fd);
int __wrap_linkat(int from, const char *old, int to, const char *new, int flags);

ssize_t
__wrap_read(int fd, void *bytes, size_t size)
{
    return shrinks(&size) ? -1 : __real_read(fd, bytes, size);
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t size)
{
    return shrinks(&size) ? -1 : __real_write(fd, bytes, size);
}

static bool
refuses(void)
{
    if (!fails())
        return false;
    errno = atomic_load(&fails_with) == 0 ? EIO : atomic_load(&fails_with);
    return true;
}

int
__wrap_fsync(int fd)
{
    struct stat status;

    if (refuses() || __real_fsync(fd) != 0)
        return -1;
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
        atomic_fetch_add(&folder_syncs, 1);
    return 0;
}

uint32_t
volume_bed_folder_syncs(void)
{
    return atomic_load(&folder_syncs);
}

int
__wrap_linkat(int from, const char *old, int to, const char *new, int flags)
{
    return refuses() ? -1 : __real_linkat(from, old, to, new, flags);
}

static ssize_t
file_read(int fd, void *bytes, size_t size, off_t offset)
{
    /* Half a read of a file without a page cache is a whole number of pages. */
    return shrinks(&size) ? -1
                          : pread(fd, bytes, size < 4096 ? size : size & ~(size_t)4095, offset);
}

static ssize_t
file_write(int fd, const void *bytes, size_t size, off_t offset)
{
    return shrinks(&size) ? -1
                          : pwrite(fd, bytes, size < 4096 ? size : size & ~(size_t)4095, offset);
}

static int
file_sync(int fd)
{
    return refuses() ? -1 : fdatasync(fd);
}

void
volume_bed_open(struct volume_bed *bed, enum bed_kind kind)
{
    bed->kind = kind;
    (void)test_folder_make(bed->folder, sizeof(bed->folder));
    (void)snprintf(bed->path, sizeof(bed->path), "%s/volume", bed->folder);
    volume_bed_fail_after(UINT32_MAX, 0);
}

void
volume_bed_close(struct volume_bed *bed)
{
    volume_bed_fail_after(UINT32_MAX, 0);
    test_folder_remove(bed->folder);
}

enum kvt_err
volume_bed_volume(const struct volume_bed *bed, struct kvbm_volume **out)
{
    static const struct kvbm_aio_calls calls = {file_read, file_write, file_sync};
    const struct kvbm_volume_options options = {
        .path = bed->path,
        .blocks = BED_BLOCKS,
        .block_size = BED_SIZE,
        .fingerprint = 7,
        .calls = &calls,
    };
    struct kvt_error err;

    switch (bed->kind) {
    case BED_RAM: return kvbm_volume_open_ram(out, &options, &err);
    case BED_FILE: return kvbm_volume_open_file(out, &options, &err);
    default: return kvbm_volume_open_directory(out, &options, &err);
    }
}

struct kvt_block_id
volume_bed_id(uint32_t number)
{
    return (struct kvt_block_id){.hash = (number + 1) * UINT64_C(0x9e3779b97f4a7c15),
                                 .parent = number * UINT64_C(0x9e3779b97f4a7c15),
                                 .position = number};
}

void
volume_bed_fill(uint32_t number, uint8_t bytes[BED_SIZE])
{
    uint64_t state = number + 1;

    for (size_t at = 0; at < BED_SIZE; at += sizeof(state)) {
        const uint64_t word = kvt_random_next(&state);

        memcpy(bytes + at, &word, sizeof(word));
    }
}

bool
volume_bed_is(uint32_t number, const uint8_t bytes[BED_SIZE])
{
    uint8_t right[BED_SIZE];

    volume_bed_fill(number, right);
    return memcmp(right, bytes, BED_SIZE) == 0;
}

bool
volume_bed_is_zero(const uint8_t bytes[BED_SIZE])
{
    for (size_t i = 0; i < BED_SIZE; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* A file of the folder, by lot. */
static bool
pick_file(const char *folder, uint64_t *random, char path[600])
{
    const struct dirent *entry;
    DIR *dir = opendir(folder);
    uint64_t seen = 0;

    if (dir == NULL)
        return false;
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && kvt_random_below(random, ++seen) == 0)
            (void)snprintf(path, 600, "%s/%s", folder, entry->d_name);
    (void)closedir(dir);
    return seen > 0;
}

bool
volume_bed_damage(const struct volume_bed *bed, uint64_t *random)
{
    const uint64_t how = kvt_random_below(random, 4);
    char path[600];
    struct stat status;
    uint8_t byte;
    off_t at;
    int fd;

    (void)snprintf(path, sizeof(path), "%s", bed->path);
    if (bed->kind == BED_RAM || (bed->kind == BED_DIRECTORY && !pick_file(bed->path, random, path)))
        return false;
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &status) == 0);
    at = (off_t)kvt_random_below(random, (uint64_t)status.st_size + (status.st_size == 0));
    if (bed->kind == BED_DIRECTORY && how == 0) {
        assert_int_equal(ftruncate(fd, at), 0);
    } else if (bed->kind == BED_DIRECTORY && how == 1) {
        assert_int_equal(ftruncate(fd, status.st_size + 1), 0);
    } else if (pread(fd, &byte, 1, at) == 1) {
        byte ^= (uint8_t)(1u << kvt_random_below(random, 8));
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_int_equal(fdatasync(fd), 0);
    (void)close(fd);
    return true;
}
