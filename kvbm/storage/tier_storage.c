#include "kvbm/storage/tier_storage.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvtier/kvbm.h"

struct memory_storage {
    struct kvbm_storage head;
    uint8_t *bytes;
};

static void
assert_ios(const struct kvbm_storage *storage, const struct kvbm_storage_io *ios, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(ios[i].block < storage->block_count);
        assert(ios[i].host != NULL);
        if (ios[i].size == 0)
            assert(ios[i].offset == 0 && (uintptr_t)ios[i].host % KVBM_STORAGE_ALIGN == 0);
        else
            assert(ios[i].offset <= storage->block_size &&
                   ios[i].size <= storage->block_size - ios[i].offset);
    }
}

size_t
kvbm_storage_io_size(const struct kvbm_storage *storage, const struct kvbm_storage_io *io)
{
    return io->size == 0 ? storage->block_size : io->size;
}

const char *
kvbm_storage_kind_name(enum kvbm_storage_kind kind)
{
    switch (kind) {
    case KVBM_STORAGE_DEVICE: return "device";
    case KVBM_STORAGE_PINNED: return "pinned";
    case KVBM_STORAGE_SYSTEM: return "system";
    case KVBM_STORAGE_DISK: return "disk";
    case KVBM_STORAGE_REMOTE: return "remote";
    }
    return "?";
}

enum kvt_err
kvbm_storage_check(uint32_t block_count, size_t block_size, struct kvt_error *err)
{
    if (block_count == 0 || block_count > KVBM_STORAGE_BLOCKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "storage: %" PRIu32 " blocks, not in 1..%" PRIu32,
                             block_count, KVBM_STORAGE_BLOCKS_MAX);
    if (block_size == 0 || block_size % KVBM_STORAGE_ALIGN != 0)
        return kvt_error_set(err, KVT_INVALID, "storage: block size %zu is no multiple of %d",
                             block_size, KVBM_STORAGE_ALIGN);
    if (block_size > KVT_BLOCK_SIZE_MAX)
        return kvt_error_set(err, KVT_RANGE, "storage: block size %zu", block_size);
    return KVT_OK;
}

void
kvbm_storage_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    assert_ios(storage, ios, count);
    storage->ops->read(storage, ios, count);
}

void
kvbm_storage_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    assert_ios(storage, ios, count);
    storage->ops->write(storage, ios, count);
}

void *
kvbm_storage_address(struct kvbm_storage *storage, uint32_t block)
{
    assert(block < storage->block_count);
    return storage->ops->address(storage, block);
}

bool
kvbm_storage_move(struct kvbm_storage *target, struct kvbm_storage *source,
                  struct kvbm_storage_move *moves, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(moves[i].source < source->block_count && moves[i].target < target->block_count);
        assert(moves[i].source_offset + moves[i].size <= source->block_size);
        assert(moves[i].target_offset + moves[i].size <= target->block_size);
    }
    if (target->ops->move != NULL && target->ops->move(target, source, moves, count))
        return true;
    return source->ops->move != NULL && source->ops->move(target, source, moves, count);
}

void
kvbm_storage_bind(struct kvbm_storage *storage, const struct kvbm_storage_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert(names[i].block < storage->block_count);
    if (storage->ops->bind != NULL)
        storage->ops->bind(storage, names, count);
}

enum kvt_err
kvbm_storage_commit(struct kvbm_storage *storage, struct kvbm_storage_name *names, size_t count)
{
    if (storage->ops->commit != NULL)
        return storage->ops->commit(storage, names, count);
    for (size_t i = 0; i < count; i++)
        names[i].status = KVT_OK;
    return KVT_OK;
}

enum kvt_err
kvbm_storage_forget(struct kvbm_storage *storage, const uint32_t *blocks, size_t count)
{
    return storage->ops->forget == NULL ? KVT_OK : storage->ops->forget(storage, blocks, count);
}

void
kvbm_storage_close(struct kvbm_storage *storage)
{
    if (storage != NULL)
        storage->ops->close(storage);
}

static void *
memory_address(struct kvbm_storage *storage, uint32_t block)
{
    struct memory_storage *memory = (struct memory_storage *)storage;

    return memory->bytes + (size_t)block * storage->block_size;
}

void
kvbm_storage_host_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(ios[i].host, (uint8_t *)storage->ops->address(storage, ios[i].block) + ios[i].offset,
               kvbm_storage_io_size(storage, &ios[i]));
        ios[i].status = KVT_OK;
    }
}

void
kvbm_storage_host_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy((uint8_t *)storage->ops->address(storage, ios[i].block) + ios[i].offset, ios[i].host,
               kvbm_storage_io_size(storage, &ios[i]));
        ios[i].status = KVT_OK;
    }
}

static void
memory_close(struct kvbm_storage *storage)
{
    struct memory_storage *memory = (struct memory_storage *)storage;

    kvt_free(memory->bytes);
    kvt_free(memory);
}

static const struct kvbm_storage_ops memory_ops = {
    .read = kvbm_storage_host_read,
    .write = kvbm_storage_host_write,
    .address = memory_address,
    .close = memory_close,
};

enum kvt_err
kvbm_storage_open_memory(struct kvbm_storage **out, enum kvbm_storage_kind kind,
                         uint32_t block_count, size_t block_size, struct kvt_error *err)
{
    struct memory_storage *memory;
    enum kvt_err rc;

    assert(out != NULL);
    assert(kind != KVBM_STORAGE_DISK);
    *out = NULL;
    rc = kvbm_storage_check(block_count, block_size, err);
    if (rc != KVT_OK)
        return rc;
    memory = kvt_calloc(1, sizeof(*memory));
    if (memory == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s storage", kvbm_storage_kind_name(kind));
    memory->head = (struct kvbm_storage){&memory_ops, kind, block_count, block_size};
    memory->bytes = kvt_aligned(KVBM_STORAGE_ALIGN, (size_t)block_count * block_size);
    if (memory->bytes == NULL) {
        memory_close(&memory->head);
        return kvt_error_set(err, KVT_NOMEM, "%s storage of %" PRIu32 " x %zu bytes",
                             kvbm_storage_kind_name(kind), block_count, block_size);
    }
    *out = &memory->head;
    return KVT_OK;
}
