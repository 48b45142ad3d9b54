#include "kvbm/disk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kvbm/checksum.h"

struct disk_storage {
    struct kvbm_storage head;
    int fd;
    /* One writer a block at a time (the pool's handles), so plain words; `written` is 0 or 1. */
    uint32_t *crcs;
    uint8_t *written;
    _Atomic bool direct;
    _Atomic uint64_t reads;
    _Atomic uint64_t writes;
    _Atomic uint64_t corrupt;
    _Atomic uint64_t failed;
};

static void
leave_direct(struct disk_storage *disk)
{
    const int flags = fcntl(disk->fd, F_GETFL);

    if (flags >= 0)
        (void)fcntl(disk->fd, F_SETFL, flags & ~O_DIRECT);
    atomic_store(&disk->direct, false);
}

/* Whole block or an error; some file systems accept O_DIRECT at open and refuse it at I/O. */
static enum kvt_err
transfer(struct disk_storage *disk, uint32_t block, void *host, bool writing)
{
    const size_t size = disk->head.block_size;
    const off_t start = (off_t)block * (off_t)size;
    size_t done = 0;

    while (done < size) {
        uint8_t *at = (uint8_t *)host + done;
        const off_t offset = start + (off_t)done;
        const ssize_t n = writing ? pwrite(disk->fd, at, size - done, offset)
                                  : pread(disk->fd, at, size - done, offset);

        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && atomic_load(&disk->direct)) {
            leave_direct(disk);
            continue;
        }
        atomic_fetch_add(&disk->failed, 1);
        return n < 0 && (errno == ENOSPC || errno == EDQUOT) ? KVT_FULL : KVT_IO;
    }
    return KVT_OK;
}

static void
disk_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    struct disk_storage *disk = (struct disk_storage *)storage;

    for (size_t i = 0; i < count; i++) {
        const uint32_t block = ios[i].block;

        if (!disk->written[block]) {
            ios[i].status = KVT_NOTFOUND;
            continue;
        }
        ios[i].status = transfer(disk, block, ios[i].host, false);
        if (ios[i].status != KVT_OK)
            continue;
        atomic_fetch_add(&disk->reads, 1);
        if (kvbm_crc32c(0, ios[i].host, storage->block_size) != disk->crcs[block]) {
            atomic_fetch_add(&disk->corrupt, 1);
            ios[i].status = KVT_CORRUPT;
        }
    }
}

static void
disk_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    struct disk_storage *disk = (struct disk_storage *)storage;

    for (size_t i = 0; i < count; i++) {
        const uint32_t block = ios[i].block;

        disk->written[block] = 0; /* a write that fails half-way leaves nothing to trust */
        disk->crcs[block] = kvbm_crc32c(0, ios[i].host, storage->block_size);
        ios[i].status = transfer(disk, block, ios[i].host, true);
        if (ios[i].status != KVT_OK)
            continue;
        disk->written[block] = 1;
        atomic_fetch_add(&disk->writes, 1);
    }
}

static void *
disk_address(struct kvbm_storage *storage, uint32_t block)
{
    (void)storage;
    (void)block;
    return NULL;
}

static void
disk_close(struct kvbm_storage *storage)
{
    struct disk_storage *disk = (struct disk_storage *)storage;

    if (disk->fd >= 0)
        (void)close(disk->fd); /* the content ends here, so there is nothing to sync */
    kvt_free(disk->written);
    kvt_free(disk->crcs);
    kvt_free(disk);
}

static const struct kvbm_storage_ops disk_ops = {
    .read = disk_read,
    .write = disk_write,
    .address = disk_address,
    .close = disk_close,
};

/* O_EXCL: two managers on one file would hand out the same block twice. */
static int
open_file(const char *path, bool direct)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | (direct ? O_DIRECT : 0);
    int fd = open(path, flags, 0600);

    if (fd < 0 && errno == EINVAL && direct) {
        (void)unlink(path); /* the kernel may have made it before it refused the flag */
        fd = open(path, flags & ~O_DIRECT, 0600);
    }
    return fd;
}

static enum kvt_err
claim_space(int fd, const struct kvbm_disk_options *options, struct kvt_error *err)
{
    const off_t size = (off_t)options->block_count * (off_t)options->block_size;
    int rc;

    do
        rc = fallocate(fd, 0, 0, size);
    while (rc != 0 && errno == EINTR);
    /* The system call and not posix_fallocate(), whose fallback writes the whole file. */
    if (rc != 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
        rc = ftruncate(fd, size);
    if (rc != 0)
        return kvt_error_sys(err, errno, "reserve %lld bytes in %s", (long long)size,
                             options->path);
    return KVT_OK;
}

enum kvt_err
kvbm_disk_open(struct kvbm_storage **out, const struct kvbm_disk_options *options,
               struct kvt_error *err)
{
    struct disk_storage *disk;
    enum kvt_err rc;

    assert(out != NULL && options != NULL && options->path != NULL);
    *out = NULL;
    rc = kvbm_storage_check(options->block_count, options->block_size, err);
    if (rc != KVT_OK)
        return rc;
    disk = kvt_calloc(1, sizeof(*disk));
    if (disk == NULL)
        return kvt_error_set(err, KVT_NOMEM, "disk tier %s", options->path);
    disk->head = (struct kvbm_storage){&disk_ops, KVBM_STORAGE_DISK, options->block_count,
                                       options->block_size};
    disk->fd = -1;
    disk->crcs = kvt_calloc(options->block_count, sizeof(*disk->crcs));
    disk->written = kvt_calloc(options->block_count, sizeof(*disk->written));
    if (disk->crcs == NULL || disk->written == NULL) {
        rc = kvt_error_set(err, KVT_NOMEM, "disk tier %s", options->path);
        goto fail;
    }
    disk->fd = open_file(options->path, options->direct);
    if (disk->fd < 0) {
        rc = kvt_error_sys(err, errno, "create %s", options->path);
        goto fail;
    }
    atomic_store(&disk->direct, (fcntl(disk->fd, F_GETFL) & O_DIRECT) != 0);
    if (!options->keep_path)
        (void)unlink(options->path);
    /* Claim the space now: a full disk must stop the start-up, not a later write. */
    rc = claim_space(disk->fd, options, err);
    if (rc != KVT_OK) {
        (void)unlink(options->path);
        goto fail;
    }
    *out = &disk->head;
    return KVT_OK;

fail:
    disk_close(&disk->head);
    return rc;
}

void
kvbm_disk_stats(struct kvbm_storage *storage, struct kvbm_disk_stats *stats)
{
    struct disk_storage *disk = (struct disk_storage *)storage;

    assert(storage->ops == &disk_ops);
    stats->reads = atomic_load(&disk->reads);
    stats->writes = atomic_load(&disk->writes);
    stats->corrupt = atomic_load(&disk->corrupt);
    stats->failed = atomic_load(&disk->failed);
    stats->direct = atomic_load(&disk->direct);
}
