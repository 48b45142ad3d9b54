#include "kvbm/attach/attach_memory.h"

#include <sys/mman.h>

#include "base/core/alloc.h"
#include "kvbm/attach/sealed_memory.h"

struct memory {
    struct kvbm_storage head;
    uint8_t *bytes;
    size_t size;
};

static void *
memory_address(struct kvbm_storage *storage, uint32_t block)
{
    return ((struct memory *)storage)->bytes + (size_t)block * storage->block_size;
}

static void
memory_close(struct kvbm_storage *storage)
{
    struct memory *memory = (struct memory *)storage;

    (void)munmap(memory->bytes, memory->size);
    kvt_free(memory);
}

static const struct kvbm_storage_ops memory_ops = {
    .read = kvbm_storage_host_read,
    .write = kvbm_storage_host_write,
    .address = memory_address,
    .close = memory_close,
};

enum kvt_err
kvbm_attach_memory_open(struct kvbm_storage **out, int fd, uint32_t block_count, size_t block_size,
                        struct kvt_error *err)
{
    struct memory *memory;
    void *bytes;
    enum kvt_err rc;

    *out = NULL;
    rc = kvbm_storage_check(block_count, block_size, err);
    if (rc != KVT_OK)
        return rc;
    memory = kvt_calloc(1, sizeof(*memory));
    if (memory == NULL)
        return kvt_error_set(err, KVT_NOMEM, "an engine's memory");
    rc = kvbm_sealed_map(&bytes, fd, (size_t)block_count * block_size, err);
    if (rc != KVT_OK) {
        kvt_free(memory);
        return rc;
    }
    /* Its place in the ladder, whatever it is made of here. */
    memory->head = (struct kvbm_storage){&memory_ops, KVBM_STORAGE_DEVICE, block_count, block_size};
    memory->bytes = bytes;
    memory->size = (size_t)block_count * block_size;
    *out = &memory->head;
    return KVT_OK;
}
