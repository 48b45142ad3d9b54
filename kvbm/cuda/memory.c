#include "kvbm/cuda/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

/* One direction: its stream, and whose turn it is. */
struct lane {
    pthread_mutex_t turn; /* held while a batch of copies is on the stream */
    struct CUstream_st *stream;
    bool made;
};

struct device_storage {
    struct kvbm_storage head;
    struct kvbm_cuda *cuda;
    uint64_t address; /* 0: none */
    struct lane in;
    struct lane out;
};

struct pinned_storage {
    struct kvbm_storage head;
    struct kvbm_cuda *cuda;
    uint8_t *bytes;
};

static uint64_t
device_offset(const struct device_storage *device, uint32_t block)
{
    return device->address + (uint64_t)block * device->head.block_size;
}

/* Put every copy on the stream, then wait once: the link stays busy between blocks. */
static void
run_lane(struct device_storage *device, struct kvbm_storage_io *ios, size_t count, bool writing)
{
    struct lane *lane = writing ? &device->in : &device->out;
    const struct kvbm_cuda *cuda = device->cuda;
    bool landed = false;

    (void)pthread_mutex_lock(&lane->turn);
    if (kvbm_cuda_enter(cuda) == KVT_OK) {
        for (size_t i = 0; i < count; i++) {
            const uint64_t at = device_offset(device, ios[i].block) + ios[i].offset;
            const size_t size = kvbm_storage_io_size(&device->head, &ios[i]);
            const int rc = writing ? cuda->copy_in(at, ios[i].host, size, lane->stream)
                                   : cuda->copy_out(ios[i].host, at, size, lane->stream);

            ios[i].status = rc == 0 ? KVT_OK : KVT_IO;
        }
        landed = cuda->stream_wait(lane->stream) == 0;
    }
    (void)pthread_mutex_unlock(&lane->turn);
    /* An asynchronous failure names no copy: none of them can be trusted. */
    if (!landed)
        for (size_t i = 0; i < count; i++)
            ios[i].status = KVT_IO;
}

static void
device_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    run_lane((struct device_storage *)storage, ios, count, false);
}

static void
device_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    run_lane((struct device_storage *)storage, ios, count, true);
}

static void *
device_address(struct kvbm_storage *storage, uint32_t block)
{
    (void)storage;
    (void)block;
    return NULL; /* not in this process's memory */
}

static void
lane_free(const struct kvbm_cuda *cuda, struct lane *lane)
{
    if (!lane->made)
        return;
    (void)cuda->stream_free(lane->stream);
    (void)pthread_mutex_destroy(&lane->turn);
}

static bool
lane_make(const struct kvbm_cuda *cuda, struct lane *lane)
{
    if (pthread_mutex_init(&lane->turn, NULL) != 0)
        return false;
    if (cuda->stream_new(&lane->stream, KVBM_CUDA_STREAM_NON_BLOCKING) != 0) {
        (void)pthread_mutex_destroy(&lane->turn);
        return false;
    }
    lane->made = true;
    return true;
}

static void
device_close(struct kvbm_storage *storage)
{
    struct device_storage *device = (struct device_storage *)storage;

    if (kvbm_cuda_enter(device->cuda) == KVT_OK) {
        lane_free(device->cuda, &device->in);
        lane_free(device->cuda, &device->out);
        if (device->address != 0)
            (void)device->cuda->memory_free(device->address);
    }
    kvt_free(device);
}

static const struct kvbm_storage_ops device_ops = {
    .read = device_read,
    .write = device_write,
    .address = device_address,
    .close = device_close,
};

enum kvt_err
kvbm_cuda_open_device(struct kvbm_storage **out, struct kvbm_cuda *cuda, uint32_t block_count,
                      size_t block_size, struct kvt_error *err)
{
    struct device_storage *device;
    enum kvt_err rc;
    int result;

    assert(out != NULL && cuda != NULL);
    *out = NULL;
    rc = kvbm_storage_check(block_count, block_size, err);
    if (rc != KVT_OK)
        return rc;
    device = kvt_calloc(1, sizeof(*device));
    if (device == NULL)
        return kvt_error_set(err, KVT_NOMEM, "device storage");
    device->head = (struct kvbm_storage){&device_ops, KVBM_STORAGE_DEVICE, block_count, block_size};
    device->cuda = cuda;
    rc = kvbm_cuda_enter(cuda);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "cuda: the context is lost");
        goto fail;
    }
    result = cuda->memory_new(&device->address, (size_t)block_count * block_size);
    if (result != 0) {
        device->address = 0;
        rc = kvbm_cuda_error(cuda, result, "cuMemAlloc", err);
        goto fail;
    }
    if (!lane_make(cuda, &device->in) || !lane_make(cuda, &device->out)) {
        rc = kvt_error_set(err, KVT_NOMEM, "cuda: streams");
        goto fail;
    }
    *out = &device->head;
    return KVT_OK;

fail:
    device_close(&device->head);
    return rc;
}

static void *
pinned_address(struct kvbm_storage *storage, uint32_t block)
{
    struct pinned_storage *pinned = (struct pinned_storage *)storage;

    return pinned->bytes + (size_t)block * storage->block_size;
}

static void
pinned_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(ios[i].host, (uint8_t *)pinned_address(storage, ios[i].block) + ios[i].offset,
               kvbm_storage_io_size(storage, &ios[i]));
        ios[i].status = KVT_OK;
    }
}

static void
pinned_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy((uint8_t *)pinned_address(storage, ios[i].block) + ios[i].offset, ios[i].host,
               kvbm_storage_io_size(storage, &ios[i]));
        ios[i].status = KVT_OK;
    }
}

static void
pinned_close(struct kvbm_storage *storage)
{
    struct pinned_storage *pinned = (struct pinned_storage *)storage;

    if (pinned->bytes != NULL && kvbm_cuda_enter(pinned->cuda) == KVT_OK)
        (void)pinned->cuda->host_free(pinned->bytes);
    kvt_free(pinned);
}

static const struct kvbm_storage_ops pinned_ops = {
    .read = pinned_read,
    .write = pinned_write,
    .address = pinned_address,
    .close = pinned_close,
};

enum kvt_err
kvbm_cuda_open_pinned(struct kvbm_storage **out, struct kvbm_cuda *cuda, uint32_t block_count,
                      size_t block_size, struct kvt_error *err)
{
    struct pinned_storage *pinned;
    void *bytes = NULL;
    enum kvt_err rc;
    int result;

    assert(out != NULL && cuda != NULL);
    *out = NULL;
    rc = kvbm_storage_check(block_count, block_size, err);
    if (rc != KVT_OK)
        return rc;
    pinned = kvt_calloc(1, sizeof(*pinned));
    if (pinned == NULL)
        return kvt_error_set(err, KVT_NOMEM, "pinned storage");
    pinned->head = (struct kvbm_storage){&pinned_ops, KVBM_STORAGE_PINNED, block_count, block_size};
    pinned->cuda = cuda;
    rc = kvbm_cuda_enter(cuda);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "cuda: the context is lost");
        goto fail;
    }
    result = cuda->host_new(&bytes, (size_t)block_count * block_size, KVBM_CUDA_HOST_PORTABLE);
    if (result != 0) {
        rc = kvbm_cuda_error(cuda, result, "cuMemHostAlloc", err);
        goto fail;
    }
    pinned->bytes = bytes;
    *out = &pinned->head;
    return KVT_OK;

fail:
    pinned_close(&pinned->head);
    return rc;
}
