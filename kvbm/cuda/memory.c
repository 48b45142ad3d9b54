#include "kvbm/cuda/memory.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "kvbm/cuda/lane.h"

enum { PIECES = KVBM_CUDA_LIST_MAX };

struct device_storage {
    struct kvbm_storage head;
    struct kvbm_cuda *cuda;
    uint64_t address; /* 0: none */
    struct kvbm_cuda_lane in;
    struct kvbm_cuda_lane out;
    struct kvbm_cuda_lane within;
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
    struct kvbm_cuda_piece pieces[PIECES];

    for (size_t i = 0; i < count; i++) {
        const uint64_t here = device_offset(device, ios[i].block) + ios[i].offset;
        const uint64_t host = (uint64_t)(uintptr_t)ios[i].host;

        pieces[i] = (struct kvbm_cuda_piece){
            .target = writing ? here : host,
            .source = writing ? host : here,
            .size = kvbm_storage_io_size(&device->head, &ios[i]),
        };
    }
    kvbm_cuda_lane_run(writing ? &device->in : &device->out, pieces, count);
    for (size_t i = 0; i < count; i++)
        ios[i].status = pieces[i].status;
}

static void
run_all(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count, bool writing)
{
    for (size_t at = 0; at < count; at += PIECES)
        run_lane((struct device_storage *)storage, ios + at,
                 count - at < PIECES ? count - at : PIECES, writing);
}

static void
device_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    run_all(storage, ios, count, false);
}

static void
device_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    run_all(storage, ios, count, true);
}

static void *
device_address(struct kvbm_storage *storage, uint32_t block)
{
    (void)storage;
    (void)block;
    return NULL; /* not in this process's memory */
}

static void
device_close(struct kvbm_storage *storage)
{
    struct device_storage *device = (struct device_storage *)storage;

    if (kvbm_cuda_enter(device->cuda) == KVT_OK) {
        kvbm_cuda_lane_free(&device->in);
        kvbm_cuda_lane_free(&device->out);
        kvbm_cuda_lane_free(&device->within);
        if (device->address != 0)
            (void)device->cuda->memory_free(device->address);
    }
    kvt_free(device);
}

static bool device_move(struct kvbm_storage *target, struct kvbm_storage *source,
                        struct kvbm_storage_move *moves, size_t count);

static const struct kvbm_storage_ops device_ops = {
    .read = device_read,
    .write = device_write,
    .address = device_address,
    .close = device_close,
    .move = device_move,
};

/* Within one device nothing has to leave it. */
static bool
device_move(struct kvbm_storage *target, struct kvbm_storage *source,
            struct kvbm_storage_move *moves, size_t count)
{
    struct device_storage *to = (struct device_storage *)target;
    struct device_storage *from = (struct device_storage *)source;
    struct kvbm_cuda_piece pieces[PIECES];

    if (target->ops != &device_ops || source->ops != &device_ops || to->cuda != from->cuda)
        return false;
    for (size_t at = 0; at < count; at += PIECES) {
        const size_t part = count - at < PIECES ? count - at : PIECES;

        for (size_t i = 0; i < part; i++) {
            const struct kvbm_storage_move *move = &moves[at + i];

            pieces[i] = (struct kvbm_cuda_piece){
                .target = device_offset(to, move->target) + move->target_offset,
                .source = device_offset(from, move->source) + move->source_offset,
                .size = move->size,
            };
        }
        kvbm_cuda_lane_run(&to->within, pieces, part);
        for (size_t i = 0; i < part; i++)
            moves[at + i].status = pieces[i].status;
    }
    return true;
}

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
    if (!kvbm_cuda_lane_make(&device->in, cuda, KVBM_CUDA_IN) ||
        !kvbm_cuda_lane_make(&device->out, cuda, KVBM_CUDA_OUT) ||
        !kvbm_cuda_lane_make(&device->within, cuda, KVBM_CUDA_WITHIN)) {
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

    if (pinned->bytes != NULL) {
        kvbm_cuda_unpin(pinned->cuda, pinned->bytes);
        if (kvbm_cuda_enter(pinned->cuda) == KVT_OK)
            (void)pinned->cuda->host_free(pinned->bytes);
    }
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
    kvbm_cuda_pin(cuda, bytes, (size_t)block_count * block_size);
    *out = &pinned->head;
    return KVT_OK;

fail:
    pinned_close(&pinned->head);
    return rc;
}
