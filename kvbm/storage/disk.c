#include "kvbm/storage/disk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/storage/disk_internal.h"

enum { BATCH = KVBM_DISK_BATCH };

/* One call's operations on their way; the callback finds what each belongs to. */
struct flight {
    struct kvbm_disk *disk;
    struct kvbm_aio_op ops[BATCH];
    struct kvbm_storage_io *ios[BATCH];
    bool writing;
};

static size_t
io_size(const struct kvbm_disk *disk, const struct kvbm_storage_io *io)
{
    return kvbm_storage_io_size(&disk->head, io);
}

static size_t
first_part(const struct kvbm_disk *disk, const struct kvbm_storage_io *io)
{
    return (size_t)io->block * disk->parts + io->offset / disk->part_size;
}

void
kvbm_disk_set_written(struct kvbm_disk *disk, size_t first, size_t count, uint8_t written)
{
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&disk->written[first + i], written, memory_order_relaxed);
}

static bool
is_written(const struct kvbm_disk *disk, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (atomic_load_explicit(&disk->written[first + i], memory_order_relaxed) == 0)
            return false;
    return true;
}

bool
kvbm_disk_whole(const struct kvbm_disk *disk, uint32_t block)
{
    return is_written(disk, (size_t)block * disk->parts, disk->parts);
}

/* Only whole parts can be checked; an address that O_DIRECT refuses would end it for all. */
static enum kvt_err
check_io(const struct kvbm_disk *disk, const struct kvbm_storage_io *io, bool writing)
{
    const size_t size = io_size(disk, io);
    const size_t first = first_part(disk, io);

    if (io->offset % disk->part_size != 0 || size % disk->part_size != 0 ||
        (uintptr_t)io->host % KVBM_STORAGE_ALIGN != 0)
        return KVT_INVALID;
    if (!writing && !is_written(disk, first, size / disk->part_size))
        return KVT_NOTFOUND;
    return KVT_OK;
}

/* The checksum of an operation that has just landed, while others fly. */
static void
on_landed(void *arg, struct kvbm_aio_op *op)
{
    struct flight *flight = arg;
    struct kvbm_disk *disk = flight->disk;
    struct kvbm_storage_io *io = flight->ios[op - flight->ops];
    const size_t first = first_part(disk, io);

    io->status = op->status;
    if (op->status != KVT_OK)
        return;
    for (size_t i = 0; i < op->size / disk->part_size; i++) {
        const uint8_t *at = (const uint8_t *)op->bytes + i * disk->part_size;
        const uint32_t crc = kvbm_crc32c(0, at, disk->part_size);

        if (flight->writing) {
            disk->crcs[first + i] = crc;
            kvbm_disk_set_written(disk, first + i, 1, 1);
        } else if (crc != disk->crcs[first + i]) {
            io->status = KVT_CORRUPT;
        }
    }
}

static void
leave_direct(struct kvbm_disk *disk)
{
    const int flags = fcntl(disk->fd, F_GETFL);

    if (flags >= 0)
        (void)fcntl(disk->fd, F_SETFL, flags & ~O_DIRECT);
    atomic_store(&disk->direct, false);
}

/* Some file systems accept O_DIRECT at open and refuse it at I/O: once more without it. */
static void
fly(struct flight *flight, size_t count)
{
    struct kvbm_disk *disk = flight->disk;
    const bool direct = atomic_load(&disk->direct);
    size_t refused = 0;

    kvbm_aio_run(disk->aio, disk->fd, flight->writing, flight->ops, count, on_landed, flight);
    for (size_t i = 0; direct && i < count; i++) {
        if (flight->ops[i].status != KVT_UNSUPPORTED)
            continue;
        flight->ops[refused] = flight->ops[i];
        flight->ios[refused++] = flight->ios[i];
    }
    if (refused == 0)
        return;
    leave_direct(disk);
    kvbm_aio_run(disk->aio, disk->fd, flight->writing, flight->ops, refused, on_landed, flight);
}

static void
count_results(struct kvbm_disk *disk, const struct kvbm_storage_io *ios, size_t count, bool writing)
{
    for (size_t i = 0; i < count; i++) {
        switch (ios[i].status) {
        case KVT_CORRUPT: atomic_fetch_add(&disk->corrupt, 1); /* fall through: it was read */
        case KVT_OK: atomic_fetch_add(writing ? &disk->writes : &disk->reads, 1); break;
        case KVT_NOTFOUND: break;
        default: atomic_fetch_add(&disk->failed, 1); break;
        }
    }
}

static void
transfer(struct kvbm_disk *disk, struct kvbm_storage_io *ios, size_t count, bool writing)
{
    struct flight flight = {.disk = disk, .writing = writing};
    size_t ready = 0;

    for (size_t i = 0; i < count; i++)
        ios[i].status = check_io(disk, &ios[i], writing);
    if (writing)
        kvbm_disk_retire(disk, ios, count);
    for (size_t i = 0; i < count; i++) {
        struct kvbm_storage_io *io = &ios[i];

        if (io->status != KVT_OK)
            continue;
        /* A write that fails half-way leaves nothing to trust. */
        if (writing)
            kvbm_disk_set_written(disk, first_part(disk, io), io_size(disk, io) / disk->part_size,
                                  0);
        flight.ios[ready] = io;
        flight.ops[ready++] = (struct kvbm_aio_op){
            .bytes = io->host,
            .size = io_size(disk, io),
            .offset = (uint64_t)io->block * disk->head.block_size + io->offset,
        };
    }
    if (ready > 0)
        fly(&flight, ready);
    /* To callers the two are one: the disk failed them. */
    for (size_t i = 0; i < count; i++)
        if (ios[i].status == KVT_UNSUPPORTED)
            ios[i].status = KVT_IO;
    count_results(disk, ios, count, writing);
}

static void
disk_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t at = 0; at < count; at += BATCH)
        transfer(kvbm_disk_of(storage), ios + at, count - at < BATCH ? count - at : BATCH, false);
}

static void
disk_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t at = 0; at < count; at += BATCH)
        transfer(kvbm_disk_of(storage), ios + at, count - at < BATCH ? count - at : BATCH, true);
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
    struct kvbm_disk *disk = (struct kvbm_disk *)storage;

    kvbm_disk_index_close(disk->index);
    kvbm_aio_close(disk->aio);
    if (disk->fd >= 0)
        (void)close(disk->fd); /* what should last was synced when it was committed */
    kvt_free(disk->written);
    kvt_free(disk->crcs);
    kvt_free(disk);
}

static const struct kvbm_storage_ops disk_ops = {
    .read = disk_read,
    .write = disk_write,
    .address = disk_address,
    .close = disk_close,
    .commit = kvbm_disk_commit,
    .forget = kvbm_disk_forget,
    .whole = true,
};

struct kvbm_disk *
kvbm_disk_of(struct kvbm_storage *storage)
{
    assert(storage->ops == &disk_ops);
    return (struct kvbm_disk *)storage;
}

/* O_EXCL: two managers on one file would hand out the same block twice.  A kept file is there
 * already, and its index is locked instead. */
static int
open_file(const struct kvbm_disk_options *options)
{
    const int made = options->keep == NULL ? O_EXCL : 0;
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | made | (options->direct ? O_DIRECT : 0);
    int fd = open(options->path, flags, 0600);

    if (fd < 0 && errno == EINVAL && options->direct) {
        if (made != 0)
            (void)unlink(
                options->path); /* the kernel may have made it before it refused the flag */
        fd = open(options->path, flags & ~O_DIRECT, 0600);
    }
    return fd;
}

static enum kvt_err
claim_space(int fd, const struct kvbm_disk_options *options, struct kvt_error *err)
{
    const off_t size = (off_t)options->block_count * (off_t)options->block_size;
    struct stat info;
    int rc;

    do
        rc = fallocate(fd, 0, 0, size);
    while (rc != 0 && errno == EINTR);
    /* The system call and not posix_fallocate(), whose fallback writes the whole file. */
    if (rc != 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)) {
        rc = fstat(fd, &info);
        if (rc == 0 && info.st_size < size)
            rc = ftruncate(fd, size);
    }
    if (rc != 0)
        return kvt_error_sys(err, errno, "reserve %lld bytes in %s", (long long)size,
                             options->path);
    return KVT_OK;
}

static enum kvt_err
check_parts(const struct kvbm_disk_options *options, struct kvt_error *err)
{
    const size_t part = options->part_size == 0 ? options->block_size : options->part_size;

    if (part % KVBM_STORAGE_ALIGN != 0 || options->block_size % part != 0)
        return kvt_error_set(err, KVT_INVALID,
                             "disk tier: parts of %zu bytes in blocks of %zu: no multiple of %d "
                             "that divides the block",
                             part, options->block_size, KVBM_STORAGE_ALIGN);
    if (options->block_size / part > KVBM_DISK_PARTS_MAX)
        return kvt_error_set(err, KVT_RANGE, "disk tier: more than %d parts a block",
                             KVBM_DISK_PARTS_MAX);
    if (options->depth > KVBM_AIO_DEPTH_MAX)
        return kvt_error_set(err, KVT_RANGE, "disk tier: depth %u > %d", options->depth,
                             KVBM_AIO_DEPTH_MAX);
    return KVT_OK;
}

static enum kvt_err
open_parts(struct kvbm_disk *disk, const struct kvbm_disk_options *options, struct kvt_error *err)
{
    const struct kvbm_aio_options engine = {
        .engine = options->engine,
        .depth = options->depth == 0 ? KVBM_DISK_DEPTH : options->depth,
        .calls = options->calls,
    };
    enum kvt_err rc;

    disk->crcs = kvt_calloc((size_t)options->block_count * disk->parts, sizeof(*disk->crcs));
    disk->written = kvt_calloc((size_t)options->block_count * disk->parts, sizeof(*disk->written));
    if (disk->crcs == NULL || disk->written == NULL)
        return kvt_error_set(err, KVT_NOMEM, "disk tier %s", options->path);
    rc = kvbm_aio_open(&disk->aio, &engine, err);
    if (rc != KVT_OK)
        return rc;
    if (options->keep != NULL)
        rc = kvbm_disk_open_index(disk, options, err);
    if (rc != KVT_OK)
        return rc;
    disk->fd = open_file(options);
    if (disk->fd < 0)
        return kvt_error_sys(err, errno, "create %s", options->path);
    atomic_store(&disk->direct, (fcntl(disk->fd, F_GETFL) & O_DIRECT) != 0);
    if (options->keep == NULL && !options->keep_path)
        (void)unlink(options->path);
    /* Claim the space now: a full disk must stop the start-up, not a later write. */
    rc = claim_space(disk->fd, options, err);
    if (rc != KVT_OK) {
        if (options->keep == NULL)
            (void)unlink(options->path);
        return rc;
    }
    return options->keep == NULL ? KVT_OK : kvbm_disk_recover(disk, options, err);
}

enum kvt_err
kvbm_disk_open(struct kvbm_storage **out, const struct kvbm_disk_options *options,
               struct kvt_error *err)
{
    struct kvbm_disk *disk;
    enum kvt_err rc;

    assert(out != NULL && options != NULL && options->path != NULL);
    *out = NULL;
    rc = kvbm_storage_check(options->block_count, options->block_size, err);
    if (rc == KVT_OK)
        rc = check_parts(options, err);
    if (rc != KVT_OK)
        return rc;
    disk = kvt_calloc(1, sizeof(*disk));
    if (disk == NULL)
        return kvt_error_set(err, KVT_NOMEM, "disk tier %s", options->path);
    disk->head = (struct kvbm_storage){&disk_ops, KVBM_STORAGE_DISK, options->block_count,
                                       options->block_size};
    disk->fd = -1;
    disk->part_size = options->part_size == 0 ? options->block_size : options->part_size;
    disk->parts = (uint32_t)(options->block_size / disk->part_size);
    rc = open_parts(disk, options, err);
    if (rc != KVT_OK) {
        disk_close(&disk->head);
        return rc;
    }
    *out = &disk->head;
    return KVT_OK;
}

void
kvbm_disk_stats(struct kvbm_storage *storage, struct kvbm_disk_stats *stats)
{
    struct kvbm_disk *disk = kvbm_disk_of(storage);

    stats->reads = atomic_load(&disk->reads);
    stats->writes = atomic_load(&disk->writes);
    stats->corrupt = atomic_load(&disk->corrupt);
    stats->failed = atomic_load(&disk->failed);
    stats->direct = atomic_load(&disk->direct);
    stats->uring = kvbm_aio_engine(disk->aio) == KVBM_AIO_URING;
    stats->found = disk->found;
    stats->dropped = disk->dropped;
}
