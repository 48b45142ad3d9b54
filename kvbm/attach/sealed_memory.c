#include "kvbm/attach/sealed_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

int
kvbm_sealed_make(const char *name, size_t size)
{
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int sys;

    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        return fd;
    sys = errno;
    (void)close(fd);
    errno = sys;
    return -1;
}

enum kvt_err
kvbm_sealed_map(void **out, int fd, size_t size, struct kvt_error *err)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    struct statfs where;
    struct stat file;

    *out = NULL;
    if (seals < 0)
        return kvt_error_set(err, KVT_INVALID, "the memory is no memfd");
    if ((seals & F_SEAL_SHRINK) == 0)
        return kvt_error_set(err, KVT_INVALID, "the memory is not sealed against shrinking");
    /* Huge pages that were given back may not come again when they are touched. */
    if (fstatfs(fd, &where) != 0 || where.f_type != TMPFS_MAGIC)
        return kvt_error_set(err, KVT_INVALID, "the memory is not of ordinary pages");
    if (fstat(fd, &file) != 0 || file.st_size < 0 || (uint64_t)file.st_size < size)
        return kvt_error_set(err, KVT_INVALID, "the memory has fewer than %zu bytes", size);
    *out = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*out == MAP_FAILED) {
        *out = NULL;
        return kvt_error_sys(err, errno, "mapping %zu bytes", size);
    }
    return KVT_OK;
}
