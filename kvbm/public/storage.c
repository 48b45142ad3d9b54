/* kvtier/storage.h over kvbm/storage/tier_storage.h and what implements it. */
#include "kvtier/storage.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/cuda/cuda_memory.h"
#include "kvbm/public/public_handle.h"
#include "kvbm/storage/disk.h"
#include "kvbm/storage/layered_storage.h"
#include "kvbm/volume/volume_storage.h"

_Static_assert(KVT_STORAGE_ALIGN == KVBM_STORAGE_ALIGN, "one alignment");
_Static_assert(KVT_STORAGE_BLOCKS_MAX == KVBM_STORAGE_BLOCKS_MAX, "one limit");
_Static_assert((int)KVT_STORAGE_DEVICE == (int)KVBM_STORAGE_DEVICE &&
                   (int)KVT_STORAGE_PINNED == (int)KVBM_STORAGE_PINNED &&
                   (int)KVT_STORAGE_SYSTEM == (int)KVBM_STORAGE_SYSTEM &&
                   (int)KVT_STORAGE_DISK == (int)KVBM_STORAGE_DISK &&
                   (int)KVT_STORAGE_REMOTE == (int)KVBM_STORAGE_REMOTE,
               "the same kinds");

/* ---- a GPU ---- */

enum kvt_err
kvt_device_open(struct kvt_device **out, const char *library, int ordinal, struct kvt_error *err)
{
    struct kvt_device *device = kvt_calloc(1, sizeof(*device));
    enum kvt_err rc;

    *out = NULL;
    if (device == NULL)
        return kvt_error_set(err, KVT_NOMEM, "device");
    device->ordinal = ordinal;
    rc = kvbm_cuda_open(&device->cuda, library == NULL ? KVBM_CUDA_LIBRARY : library, ordinal, err);
    if (rc != KVT_OK) {
        kvt_free(device);
        return rc;
    }
    *out = device;
    return KVT_OK;
}

void
kvt_device_close(struct kvt_device *device)
{
    if (device == NULL)
        return;
    kvbm_cuda_close(device->cuda);
    kvt_free(device);
}

void
kvt_device_info(const struct kvt_device *device, struct kvt_device_info *info)
{
    struct kvt_device_info ours = {
        .ordinal = device->ordinal,
        .driver = device->cuda->version,
        .kernels = device->cuda->copy_fragments != NULL,
    };

    (void)snprintf(ours.name, sizeof(ours.name), "%s", device->cuda->name);
    kvbm_public_write(info, &ours, sizeof(ours));
}

/* ---- storages ---- */

/* The handle of a storage, which it takes: on failure the storage is closed. */
static enum kvt_err
wrap(struct kvt_storage **out, struct kvbm_storage *storage, struct kvt_error *err)
{
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL) {
        kvbm_storage_close(storage);
        return kvt_error_set(err, KVT_NOMEM, "storage");
    }
    (*out)->storage = storage;
    return KVT_OK;
}

static enum kvt_err
needs_device(enum kvt_storage_kind kind, struct kvt_error *err)
{
    return kvt_error_set(err, KVT_UNSUPPORTED, "storage: %s memory needs a device",
                         kvbm_storage_kind_name((enum kvbm_storage_kind)kind));
}

enum kvt_err
kvt_storage_open_memory(struct kvt_storage **out, const struct kvt_memory_options *options,
                        struct kvt_error *err)
{
    struct kvt_memory_options known;
    struct kvbm_storage *storage;
    enum kvt_err rc;

    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), options))
        return kvt_error_set(err, KVT_UNSUPPORTED, "storage: options of a newer library");
    if (known.kind > KVT_STORAGE_SYSTEM)
        return kvt_error_set(err, KVT_INVALID, "storage: kind %u is no memory",
                             (unsigned)known.kind);
    if (known.kind != KVT_STORAGE_SYSTEM && known.device == NULL)
        return needs_device(known.kind, err);
    if (known.kind == KVT_STORAGE_SYSTEM)
        rc = kvbm_storage_open_memory(&storage, KVBM_STORAGE_SYSTEM, known.block_count,
                                      known.block_size, err);
    else if (known.kind == KVT_STORAGE_PINNED)
        rc = kvbm_cuda_open_pinned(&storage, known.device->cuda, known.block_count,
                                   known.block_size, err);
    else
        rc = kvbm_cuda_open_device(&storage, known.device->cuda, known.block_count,
                                   known.block_size, err);
    return rc == KVT_OK ? wrap(out, storage, err) : rc;
}

enum kvt_err
kvt_storage_open_engine(struct kvt_storage **out, enum kvt_storage_kind kind,
                        const struct kvt_memory *memory, struct kvt_device *device,
                        struct kvt_error *err)
{
    struct kvbm_layout_memory ours;
    struct kvbm_storage *storage;
    enum kvt_err rc;

    *out = NULL;
    if ((unsigned)kind > KVT_STORAGE_SYSTEM)
        return kvt_error_set(err, KVT_INVALID, "storage: kind %u is no memory", (unsigned)kind);
    if (kind == KVT_STORAGE_DEVICE && device == NULL)
        return needs_device(kind, err);
    rc = kvbm_public_memory(&ours, memory, err);
    if (rc != KVT_OK)
        return rc;
    if (kind == KVT_STORAGE_DEVICE)
        rc = kvbm_cuda_open_layers(&storage, device->cuda, &ours, err);
    else
        rc = kvbm_storage_open_layers(&storage, (enum kvbm_storage_kind)kind, &ours, err);
    return rc == KVT_OK ? wrap(out, storage, err) : rc;
}

enum kvt_err
kvt_storage_open_disk(struct kvt_storage **out, const struct kvt_disk_options *options,
                      struct kvt_error *err)
{
    struct kvt_disk_options known;
    struct kvbm_disk_keep keep;
    struct kvbm_storage *storage;
    enum kvt_err rc;

    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), options))
        return kvt_error_set(err, KVT_UNSUPPORTED, "storage: options of a newer library");
    if (known.path == NULL)
        return kvt_error_set(err, KVT_INVALID, "storage: a disk needs a path");
    keep = (struct kvbm_disk_keep){known.fingerprint, known.trust_index};
    rc = kvbm_disk_open(&storage,
                        &(struct kvbm_disk_options){
                            .path = known.path,
                            .block_count = known.block_count,
                            .block_size = known.block_size,
                            .part_size = known.part_size,
                            .direct = !known.buffered,
                            .depth = known.depth,
                            .keep = known.keep ? &keep : NULL,
                        },
                        err);
    return rc == KVT_OK ? wrap(out, storage, err) : rc;
}

/* ---- memory of a program's own ---- */

struct driven {
    struct kvbm_storage head;
    struct kvt_storage_driver driver;
    void *context;
};

static void
drive(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count, bool writing)
{
    const struct driven *driven = (struct driven *)storage;
    struct kvt_storage_io theirs[KVT_STORAGE_IOS_MAX];

    for (size_t at = 0; at < count;) {
        const size_t left = count - at;
        const size_t step = left < KVT_STORAGE_IOS_MAX ? left : KVT_STORAGE_IOS_MAX;

        for (size_t i = 0; i < step; i++)
            theirs[i] = (struct kvt_storage_io){
                .host = ios[at + i].host,
                .offset = ios[at + i].offset,
                .bytes = kvbm_storage_io_size(storage, &ios[at + i]),
                .block = ios[at + i].block,
                .status = KVT_IO, /* of one that is forgotten */
            };
        (writing ? driven->driver.write : driven->driver.read)(driven->context, theirs, step);
        for (size_t i = 0; i < step; i++)
            ios[at + i].status = theirs[i].status;
        at += step;
    }
}

static void
driven_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    drive(storage, ios, count, false);
}

static void
driven_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    drive(storage, ios, count, true);
}

static void *
driven_address(struct kvbm_storage *storage, uint32_t block)
{
    (void)storage;
    (void)block;
    return NULL;
}

static void
driven_close(struct kvbm_storage *storage)
{
    struct driven *driven = (struct driven *)storage;

    if (driven->driver.close != NULL)
        driven->driver.close(driven->context);
    kvt_free(driven);
}

static const struct kvbm_storage_ops driven_ops = {
    .read = driven_read,
    .write = driven_write,
    .address = driven_address,
    .close = driven_close,
};

enum kvt_err
kvt_storage_open_driver(struct kvt_storage **out, const struct kvt_storage_driver *driver,
                        void *context, uint32_t block_count, uint64_t block_size,
                        struct kvt_error *err)
{
    struct kvt_storage_driver known;
    struct driven *driven;
    enum kvt_err rc;

    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), driver))
        return kvt_error_set(err, KVT_UNSUPPORTED, "storage: a driver of a newer library");
    if (known.read == NULL || known.write == NULL)
        return kvt_error_set(err, KVT_INVALID, "storage: a driver reads and writes");
    rc = kvbm_storage_check(block_count, block_size, err);
    if (rc != KVT_OK)
        return rc;
    driven = kvt_calloc(1, sizeof(*driven));
    *out = kvt_calloc(1, sizeof(**out));
    if (driven == NULL || *out == NULL) { /* the context stays the caller's */
        kvt_free(driven);
        kvt_free(*out);
        *out = NULL;
        return kvt_error_set(err, KVT_NOMEM, "storage");
    }
    driven->head = (struct kvbm_storage){&driven_ops, KVBM_STORAGE_REMOTE, block_count, block_size};
    driven->driver = known;
    driven->context = context;
    (*out)->storage = &driven->head;
    return KVT_OK;
}

enum kvt_err
kvt_storage_open_volume(struct kvt_storage **out, const struct kvt_volume_storage_options *options,
                        struct kvt_error *err)
{
    struct kvt_volume_storage_options known;
    struct kvbm_storage *storage;
    enum kvt_err rc;

    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), options))
        return kvt_error_set(err, KVT_UNSUPPORTED, "storage: options of a newer library");
    if (known.set == NULL)
        return kvt_error_set(err, KVT_INVALID, "storage: needs its size and a set of volumes");
    rc = kvbm_storage_open_volume(&storage,
                                  &(struct kvbm_storage_volume_options){
                                      .set = known.set->set,
                                      .volume = known.volume,
                                      .block_count = known.block_count,
                                      .block_size = known.block_size,
                                      .own = known.own,
                                      .first = known.first,
                                  },
                                  err);
    return rc == KVT_OK ? wrap(out, storage, err) : rc;
}

void
kvt_storage_close(struct kvt_storage *storage)
{
    if (storage == NULL)
        return;
    kvbm_storage_close(storage->storage);
    kvt_free(storage);
}

void
kvt_storage_info(struct kvt_storage *storage, struct kvt_storage_info *info)
{
    struct kvt_storage_info ours = {
        .kind = (enum kvt_storage_kind)storage->storage->kind,
        .block_count = storage->storage->block_count,
        .block_size = storage->storage->block_size,
    };

    if (storage->storage->kind == KVBM_STORAGE_DISK) {
        struct kvbm_disk_stats stats;

        kvbm_disk_stats(storage->storage, &stats);
        ours.reads = stats.reads;
        ours.writes = stats.writes;
        ours.corrupt = stats.corrupt;
        ours.failed = stats.failed;
        ours.found = stats.found;
        ours.dropped = stats.dropped;
    }
    kvbm_public_write(info, &ours, sizeof(ours));
}

void *
kvt_storage_address(struct kvt_storage *storage, uint32_t block)
{
    if (block >= storage->storage->block_count)
        return NULL;
    return kvbm_storage_address(storage->storage, block);
}

/* ---- names ---- */

static struct kvbm_storage_name
name_of(const struct kvt_storage_name *name)
{
    return (struct kvbm_storage_name){.block = name->block,
                                      .id = name->id,
                                      .prefix_hash = name->prefix_hash,
                                      .tokens_hash = name->tokens_hash};
}

static bool
are_there(const struct kvt_storage *storage, const struct kvt_storage_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (names[i].block >= storage->storage->block_count)
            return false;
    return true;
}

enum kvt_err
kvt_storage_bind(struct kvt_storage *storage, const struct kvt_storage_name *names, size_t count)
{
    if (!are_there(storage, names, count))
        return KVT_RANGE;
    for (size_t i = 0; i < count; i++) {
        const struct kvbm_storage_name name = name_of(&names[i]);

        kvbm_storage_bind(storage->storage, &name, 1);
    }
    return KVT_OK;
}

enum kvt_err
kvt_storage_commit(struct kvt_storage *storage, struct kvt_storage_name *names, size_t count)
{
    struct kvbm_storage_name ours[KVT_STORAGE_IOS_MAX];
    enum kvt_err result = KVT_OK;

    if (!are_there(storage, names, count))
        return KVT_RANGE;
    for (size_t at = 0; at < count;) {
        const size_t left = count - at;
        const size_t step = left < KVT_STORAGE_IOS_MAX ? left : KVT_STORAGE_IOS_MAX;
        enum kvt_err rc;

        for (size_t i = 0; i < step; i++)
            ours[i] = name_of(&names[at + i]);
        rc = kvbm_storage_commit(storage->storage, ours, step);
        if (result == KVT_OK)
            result = rc;
        for (size_t i = 0; i < step; i++)
            names[at + i].status = ours[i].status;
        at += step;
    }
    return result;
}

enum kvt_err
kvt_storage_forget(struct kvt_storage *storage, const uint32_t *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (blocks[i] >= storage->storage->block_count)
            return KVT_RANGE;
    return kvbm_storage_forget(storage->storage, blocks, count);
}

size_t
kvt_storage_found(struct kvt_storage *storage, uint32_t *at, struct kvt_storage_name *names,
                  size_t capacity)
{
    size_t count = 0;

    if (storage->storage->kind != KVBM_STORAGE_DISK)
        return 0;
    while (count < capacity) {
        struct kvbm_storage_name ours[KVT_STORAGE_IOS_MAX];
        const size_t left = capacity - count;
        const size_t step = left < KVT_STORAGE_IOS_MAX ? left : KVT_STORAGE_IOS_MAX;
        const size_t found = kvbm_disk_found(storage->storage, at, ours, step);

        for (size_t i = 0; i < found; i++)
            names[count + i] = (struct kvt_storage_name){.id = ours[i].id,
                                                         .prefix_hash = ours[i].prefix_hash,
                                                         .tokens_hash = ours[i].tokens_hash,
                                                         .block = ours[i].block,
                                                         .status = KVT_OK};
        count += found;
        if (found < step)
            break;
    }
    return count;
}
