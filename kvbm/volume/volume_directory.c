#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/volume/volume_kinds.h"
#include "kvtier/kvbm.h"

/*
 * A file a block, named by its sequence hash: a header and the bytes.  Nothing has a name before it
 * is synced, so what a crash leaves is a whole block or none; the header's crcs are for what disks
 * and people do to files later.
 */

enum {
    NAME_SIZE = 24, /* 16 hex digits and ".kv" */
    PROC_PATH_MAX = 64,
    MAGIC_SIZE = 8,
};

static const char magic[MAGIC_SIZE + 1] = "KVTVOL1\n";

/* Little-endian on disk, as everything that runs this is; the crc would say so otherwise. */
struct header {
    char magic[MAGIC_SIZE];
    uint64_t hash;
    uint64_t parent;
    uint64_t fingerprint;
    uint64_t size;
    uint32_t position;
    uint32_t body_crc;
    uint32_t reserved; /* 0 */
    uint32_t crc;      /* of what is before it */
};

_Static_assert(sizeof(struct header) == 56, "the layout of a file is fixed");

struct directory {
    struct kvbm_volume head;
    int fd;
    uint32_t blocks_max;
    uint32_t count; /* files that are there */
    bool unsure;    /* names came or went that may not last: the folder is not synced */
    uint64_t fingerprint;
    uint8_t *bounce; /* one block, for looking at what is there */
};

static struct directory *
directory_of(struct kvbm_volume *volume)
{
    return (struct directory *)volume;
}

static void
name_of(char *name, uint64_t hash)
{
    (void)snprintf(name, NAME_SIZE, "%016" PRIx64 ".kv", hash);
}

static uint32_t
crc_of(const struct header *header)
{
    return kvbm_crc32c(0, header, offsetof(struct header, crc));
}

static enum kvt_err
write_all(int fd, const void *bytes, size_t size)
{
    const int sys = kvt_file_put(fd, bytes, size);

    if (sys == 0)
        return KVT_OK;
    return sys == ENOSPC || sys == EDQUOT ? KVT_FULL : KVT_IO;
}

/* A file that ends early is not what was written. */
static enum kvt_err
read_all(int fd, void *bytes, size_t size)
{
    uint8_t *at = bytes;

    while (size > 0) {
        const ssize_t got = read(fd, at, size);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 ? KVT_CORRUPT : KVT_IO;
        at += got;
        size -= (size_t)got;
    }
    return KVT_OK;
}

/* KVT_OK; KVT_CORRUPT: no block; KVT_NOTFOUND: one of another shape, which nobody can read here any
 * more; KVT_PRECONDITION: a block at another place of the same hash. */
static enum kvt_err
check(const struct directory *directory, const struct header *header, const struct kvt_block_id *id,
      const struct stat *status)
{
    if (memcmp(header->magic, magic, MAGIC_SIZE) != 0 || header->crc != crc_of(header) ||
        header->hash != id->hash || header->reserved != 0)
        return KVT_CORRUPT;
    if (header->fingerprint != directory->fingerprint)
        return KVT_NOTFOUND;
    if (header->size != directory->head.block_size ||
        (uint64_t)status->st_size != sizeof(*header) + header->size)
        return KVT_CORRUPT;
    return header->parent == id->parent && header->position == id->position ? KVT_OK
                                                                            : KVT_PRECONDITION;
}

/* The file of a name, at its bytes, and what check() says of it.  `fd` is -1 where there is none to
 * close. */
static enum kvt_err
open_block(const struct directory *directory, const struct kvt_block_id *id, struct header *header,
           int *fd)
{
    struct stat status;
    char name[NAME_SIZE];
    enum kvt_err rc;

    name_of(name, id->hash);
    *fd = openat(directory->fd, name, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return errno == ENOENT ? KVT_NOTFOUND : KVT_IO;
    rc = fstat(*fd, &status) == 0 ? read_all(*fd, header, sizeof(*header)) : KVT_IO;
    return rc == KVT_OK ? check(directory, header, id, &status) : rc;
}

static enum kvt_err
read_block(const struct directory *directory, const struct kvt_block_id *id, void *bytes)
{
    struct header header;
    int fd;
    enum kvt_err rc = open_block(directory, id, &header, &fd);

    if (rc == KVT_OK)
        rc = read_all(fd, bytes, directory->head.block_size);
    if (rc == KVT_OK && kvbm_crc32c(0, bytes, directory->head.block_size) != header.body_crc)
        rc = KVT_CORRUPT;
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static void
get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        items[i].status = read_block(directory_of(volume), &items[i].id, items[i].bytes);
        if (items[i].status == KVT_PRECONDITION)
            items[i].status = KVT_NOTFOUND;
    }
}

/* Give the synced file a name.  One that is there and no good here is replaced in one step, through
 * another name, so that nobody ever finds neither. */
static enum kvt_err
name_file(struct directory *directory, int fd, const struct kvt_volume_item *item)
{
    static const char other[] = "replacing.tmp";
    char path[PROC_PATH_MAX];
    char name[NAME_SIZE];
    enum kvt_err rc;

    name_of(name, item->id.hash);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, path, directory->fd, name, AT_SYMLINK_FOLLOW) == 0) {
        directory->count++;
        return KVT_OK;
    }
    if (errno != EEXIST)
        return errno == ENOSPC || errno == EDQUOT ? KVT_FULL : KVT_IO;
    rc = read_block(directory, &item->id, directory->bounce);
    if (rc == KVT_OK)
        return KVT_EXISTS;
    if (rc != KVT_NOTFOUND && rc != KVT_CORRUPT)
        return rc;
    (void)unlinkat(directory->fd, other, 0);
    if (linkat(AT_FDCWD, path, directory->fd, other, AT_SYMLINK_FOLLOW) != 0 ||
        renameat(directory->fd, other, directory->fd, name) != 0)
        return errno == ENOSPC || errno == EDQUOT ? KVT_FULL : KVT_IO;
    return KVT_OK;
}

static enum kvt_err
write_block(struct directory *directory, const struct kvt_volume_item *item)
{
    struct header header = {
        .hash = item->id.hash,
        .parent = item->id.parent,
        .fingerprint = directory->fingerprint,
        .size = item->size,
        .position = item->id.position,
        .body_crc = kvbm_crc32c(0, item->bytes, item->size),
    };
    char name[NAME_SIZE];
    enum kvt_err rc;
    int fd;

    name_of(name, item->id.hash);
    if (directory->count >= directory->blocks_max && faccessat(directory->fd, name, F_OK, 0) != 0)
        return KVT_FULL;
    memcpy(header.magic, magic, MAGIC_SIZE);
    header.crc = crc_of(&header);
    fd = openat(directory->fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == ENOSPC || errno == EDQUOT ? KVT_FULL : KVT_IO;
    rc = write_all(fd, &header, sizeof(header));
    if (rc == KVT_OK)
        rc = write_all(fd, item->bytes, item->size);
    if (rc == KVT_OK && fsync(fd) != 0)
        rc = errno == ENOSPC || errno == EDQUOT ? KVT_FULL : KVT_IO;
    if (rc == KVT_OK)
        rc = name_file(directory, fd, item);
    (void)close(fd);
    return rc;
}

/* Names last, and are gone for good, when their folder was synced: once a slice.  That goes for
 * what `known` says too (a name that is there already, or no more), where an earlier sync failed or
 * an earlier process may have ended before its own. */
static void
sync_names(struct directory *directory, struct kvt_volume_item *items, size_t count,
           enum kvt_err known)
{
    bool told = false;

    for (size_t i = 0; i < count; i++) {
        directory->unsure = directory->unsure || items[i].status == KVT_OK;
        told = told || items[i].status == KVT_OK || items[i].status == known;
    }
    if (!told || !directory->unsure)
        return;
    directory->unsure = fsync(directory->fd) != 0;
    for (size_t i = 0; directory->unsure && i < count; i++)
        if (items[i].status == KVT_OK || items[i].status == known)
            items[i].status = KVT_IO;
}

static void
put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct directory *directory = directory_of(volume);

    for (size_t i = 0; i < count; i++)
        items[i].status = write_block(directory, &items[i]);
    sync_names(directory, items, count, KVT_EXISTS);
}

/* The block itself and what is no block; another one of the same hash stays. */
static enum kvt_err
remove_block(struct directory *directory, const struct kvt_block_id *id)
{
    struct header header;
    char name[NAME_SIZE];
    int fd;
    const enum kvt_err rc = open_block(directory, id, &header, &fd);

    if (fd >= 0)
        (void)close(fd);
    if (rc != KVT_OK && rc != KVT_CORRUPT)
        return rc == KVT_PRECONDITION ? KVT_NOTFOUND : rc;
    name_of(name, id->hash);
    if (unlinkat(directory->fd, name, 0) != 0)
        return errno == ENOENT ? KVT_NOTFOUND : KVT_IO;
    directory->count -= directory->count > 0;
    return KVT_OK;
}

static void
take_away(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct directory *directory = directory_of(volume);

    for (size_t i = 0; i < count; i++)
        items[i].status = remove_block(directory, &items[i].id);
    sync_names(directory, items, count, KVT_NOTFOUND);
}

static void
has(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct header header;
        int fd;

        items[i].status = open_block(directory_of(volume), &items[i].id, &header, &fd);
        if (items[i].status == KVT_PRECONDITION)
            items[i].status = KVT_NOTFOUND;
        if (fd >= 0)
            (void)close(fd);
    }
}

static void
close_directory(struct kvbm_volume *volume)
{
    struct directory *directory = directory_of(volume);

    if (directory->fd >= 0)
        (void)close(directory->fd);
    kvt_free(directory->bounce);
    kvt_free(directory);
}

static const struct kvbm_volume_driver driver = {
    .kind = "directory",
    .get = get,
    .put = put,
    .remove = take_away,
    .has = has,
    .close = close_directory,
};

/* How many blocks are there; a name left by a crash is taken away. */
static enum kvt_err
count_files(struct directory *directory, struct kvt_error *err)
{
    const struct dirent *entry;
    const int fd = openat(directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (dir == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return kvt_error_sys(err, errno, "volume: read folder");
    }
    while ((entry = readdir(dir)) != NULL) {
        const size_t size = strlen(entry->d_name);

        directory->count += size > 3 && strcmp(entry->d_name + size - 3, ".kv") == 0;
    }
    (void)closedir(dir);
    (void)unlinkat(directory->fd, "replacing.tmp", 0);
    return KVT_OK;
}

static enum kvt_err
open_folder(struct directory *directory, const char *path, struct kvt_error *err)
{
    enum kvt_err rc = kvt_folder_make(path, err);
    int probe;

    if (rc != KVT_OK)
        return rc;
    directory->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->fd < 0)
        return kvt_error_sys(err, errno, "volume: open %s", path);
    probe = openat(directory->fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (probe < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "volume %s: its file system has no files without a name", path);
    if (probe < 0)
        return kvt_error_sys(err, errno, "volume: write to %s", path);
    (void)close(probe);
    return count_files(directory, err);
}

enum kvt_err
kvbm_volume_open_directory(struct kvbm_volume **out, const struct kvbm_volume_options *options,
                           struct kvt_error *err)
{
    struct directory *directory;
    enum kvt_err rc;

    *out = NULL;
    if (options->blocks == 0 || options->block_size == 0 ||
        options->block_size > KVT_BLOCK_SIZE_MAX)
        return kvt_error_set(err, KVT_INVALID, "volume %s: needs blocks of 1 byte to 1 GiB",
                             options->path);
    directory = kvt_calloc(1, sizeof(*directory));
    if (directory == NULL)
        return kvt_error_set(err, KVT_NOMEM, "volume %s: out of memory", options->path);
    directory->head = (struct kvbm_volume){.driver = &driver, .block_size = options->block_size};
    directory->fd = -1;
    directory->blocks_max = options->blocks;
    directory->fingerprint = options->fingerprint;
    directory->unsure = true;
    directory->bounce = kvt_calloc(1, options->block_size);
    if (directory->bounce == NULL)
        rc = kvt_error_set(err, KVT_NOMEM, "volume %s: out of memory", options->path);
    else
        rc = open_folder(directory, options->path, err);
    if (rc != KVT_OK) {
        close_directory(&directory->head);
        return rc;
    }
    *out = &directory->head;
    return KVT_OK;
}
