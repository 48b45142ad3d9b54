#include "kvbm/cuda/cuda_memory.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/cuda/cuda_stream.h"

enum { PIECES = KVBM_CUDA_LIST_MAX };

struct device_storage {
    struct kvbm_storage head;
    struct kvbm_cuda *cuda;
    uint64_t address; /* ours to give back; 0: none */
    bool imported;    /* ... to another process */
    struct kvbm_layout_map map;
    struct kvbm_cuda_stream in;
    struct kvbm_cuda_stream out;
    struct kvbm_cuda_stream within;
};

struct pinned_storage {
    struct kvbm_storage head;
    struct kvbm_cuda *cuda;
    uint8_t *bytes;
};

/* Pieces on their way, and which operation each is of. */
struct batch {
    struct kvbm_cuda_stream *stream;
    size_t count;
    struct kvbm_cuda_piece pieces[PIECES];
    enum kvt_err *owners[PIECES];
};

static void
flush(struct batch *batch)
{
    if (batch->count == 0)
        return;
    kvbm_cuda_stream_run(batch->stream, batch->pieces, batch->count);
    for (size_t i = 0; i < batch->count; i++)
        if (*batch->owners[i] == KVT_OK)
            *batch->owners[i] = batch->pieces[i].status;
    batch->count = 0;
}

static void
add(struct batch *batch, enum kvt_err *owner, struct kvbm_cuda_piece piece)
{
    if (batch->count == PIECES)
        flush(batch);
    batch->owners[batch->count] = owner;
    batch->pieces[batch->count++] = piece;
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Put every copy on the stream, then wait once: the link stays busy between blocks. */
static void
run_lane(struct device_storage *device, struct kvbm_storage_io *ios, size_t count, bool writing)
{
    struct batch batch = {.stream = writing ? &device->in : &device->out};

    for (size_t i = 0; i < count; i++) {
        const uint64_t host = (uint64_t)(uintptr_t)ios[i].host;
        const size_t size = kvbm_storage_io_size(&device->head, &ios[i]);
        size_t run;

        ios[i].status = KVT_OK;
        for (size_t done = 0; done < size; done += run) {
            const uint64_t here =
                kvbm_layout_map_find(&device->map, ios[i].block, ios[i].offset + done, &run);

            run = least(run, size - done);
            add(&batch, &ios[i].status,
                (struct kvbm_cuda_piece){.target = writing ? here : host + done,
                                         .source = writing ? host + done : here,
                                         .size = run});
        }
    }
    flush(&batch);
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
device_close(struct kvbm_storage *storage)
{
    struct device_storage *device = (struct device_storage *)storage;

    if (kvbm_cuda_enter(device->cuda) == KVT_OK) {
        kvbm_cuda_stream_free(&device->in);
        kvbm_cuda_stream_free(&device->out);
        kvbm_cuda_stream_free(&device->within);
        if (device->address != 0 && device->imported)
            (void)device->cuda->ipc_close(device->address);
        else if (device->address != 0)
            (void)device->cuda->memory_free(device->address);
    }
    kvbm_layout_map_free(&device->map);
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
    struct batch batch = {.stream = &to->within};

    if (target->ops != &device_ops || source->ops != &device_ops || to->cuda != from->cuda)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct kvbm_storage_move *move = &moves[i];
        size_t run;

        move->status = KVT_OK;
        for (size_t done = 0; done < move->size; done += run) {
            size_t there;
            const uint64_t in =
                kvbm_layout_map_find(&to->map, move->target, move->target_offset + done, &run);
            const uint64_t out =
                kvbm_layout_map_find(&from->map, move->source, move->source_offset + done, &there);

            run = least(least(run, there), move->size - done);
            add(&batch, &move->status,
                (struct kvbm_cuda_piece){.target = in, .source = out, .size = run});
        }
    }
    flush(&batch);
    return true;
}

static bool
make_lanes(struct device_storage *device)
{
    return kvbm_cuda_stream_make(&device->in, device->cuda, KVBM_CUDA_IN) &&
           kvbm_cuda_stream_make(&device->out, device->cuda, KVBM_CUDA_OUT) &&
           kvbm_cuda_stream_make(&device->within, device->cuda, KVBM_CUDA_WITHIN);
}

/* Where the memory of a storage comes from: an engine has it, another process, or (neither) it is
 * made. */
struct origin {
    uint32_t block_count;
    size_t block_size;
    const struct kvbm_layout_memory *memory;
    const struct kvbm_cuda_shared *shared;
};

static enum kvt_err
take_memory(struct device_storage *device, const struct origin *origin, struct kvt_error *err)
{
    struct kvbm_cuda *cuda = device->cuda;
    int result = 0;

    if (origin->shared != NULL) {
        result = cuda->ipc_open(&device->address, origin->shared->handle, KVBM_CUDA_IPC_LAZY_PEER);
        device->imported = true;
    } else if (origin->memory == NULL) {
        result =
            cuda->memory_new(&device->address, (size_t)origin->block_count * origin->block_size);
    }
    if (result == 0)
        return KVT_OK;
    device->address = 0;
    return kvbm_cuda_error(cuda, result, device->imported ? "cuIpcOpenMemHandle" : "cuMemAlloc",
                           err);
}

static enum kvt_err
open_device(struct kvbm_storage **out, struct kvbm_cuda *cuda, const struct origin *origin,
            struct kvt_error *err)
{
    const struct kvbm_layout packed = {
        .geometry = {.kind = KVT_LAYOUT_CONTIGUOUS},
        .block_size = origin->block_size,
        .block_stride = origin->block_size,
    };
    struct device_storage *device;
    enum kvt_err rc;

    assert(out != NULL && cuda != NULL);
    *out = NULL;
    rc = kvbm_storage_check(origin->block_count, origin->block_size, err);
    if (rc != KVT_OK)
        return rc;
    device = kvt_calloc(1, sizeof(*device));
    if (device == NULL)
        return kvt_error_set(err, KVT_NOMEM, "device storage");
    device->head = (struct kvbm_storage){&device_ops, KVBM_STORAGE_DEVICE, origin->block_count,
                                         origin->block_size};
    device->cuda = cuda;
    rc = kvbm_cuda_enter(cuda);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "cuda: the context is lost");
        goto fail;
    }
    rc = take_memory(device, origin, err);
    if (rc != KVT_OK)
        goto fail;
    rc = kvbm_layout_map_make(
        &device->map,
        origin->memory != NULL
            ? origin->memory
            : &(struct kvbm_layout_memory){&packed, &device->address, origin->block_count},
        err);
    if (rc != KVT_OK)
        goto fail;
    if (!make_lanes(device)) {
        rc = kvt_error_set(err, KVT_NOMEM, "cuda: streams");
        goto fail;
    }
    *out = &device->head;
    return KVT_OK;

fail:
    device_close(&device->head);
    return rc;
}

enum kvt_err
kvbm_cuda_open_device(struct kvbm_storage **out, struct kvbm_cuda *cuda, uint32_t block_count,
                      size_t block_size, struct kvt_error *err)
{
    return open_device(out, cuda,
                       &(struct origin){.block_count = block_count, .block_size = block_size}, err);
}

enum kvt_err
kvbm_cuda_open_layers(struct kvbm_storage **out, struct kvbm_cuda *cuda,
                      const struct kvbm_layout_memory *memory, struct kvt_error *err)
{
    return open_device(out, cuda,
                       &(struct origin){.block_count = memory->blocks,
                                        .block_size = memory->layout->block_size,
                                        .memory = memory},
                       err);
}

enum kvt_err
kvbm_cuda_share(const struct kvbm_storage *storage, struct kvbm_cuda_shared *out,
                struct kvt_error *err)
{
    const struct device_storage *device = (const struct device_storage *)storage;
    int result;

    memset(out, 0, sizeof(*out));
    if (!kvbm_cuda_is_device(storage) || device->address == 0 || device->imported)
        return kvt_error_set(err, KVT_UNSUPPORTED, "cuda: this memory is not ours to share");
    if (device->cuda->ipc_export == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "cuda: this driver shares no memory");
    if (kvbm_cuda_enter(device->cuda) != KVT_OK)
        return kvt_error_set(err, KVT_IO, "cuda: the context is lost");
    result = device->cuda->ipc_export(&out->handle, device->address);
    if (result != 0)
        return kvbm_cuda_error(device->cuda, result, "cuIpcGetMemHandle", err);
    out->block_count = storage->block_count;
    out->block_size = storage->block_size;
    return KVT_OK;
}

enum kvt_err
kvbm_cuda_open_beside(struct kvbm_storage **out, const struct kvbm_storage *ours,
                      const struct kvbm_cuda_shared *shared, struct kvt_error *err)
{
    struct kvbm_cuda *cuda = ((const struct device_storage *)ours)->cuda;

    assert(kvbm_cuda_is_device(ours));
    *out = NULL;
    if (cuda->ipc_open == NULL || cuda->ipc_close == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "cuda: this driver shares no memory");
    return open_device(out, cuda,
                       &(struct origin){.block_count = shared->block_count,
                                        .block_size = shared->block_size,
                                        .shared = shared},
                       err);
}

bool
kvbm_cuda_is_device(const struct kvbm_storage *storage)
{
    return storage->ops == &device_ops;
}

uint64_t
kvbm_cuda_device_address(const struct kvbm_storage *storage, uint32_t block, size_t offset,
                         size_t *run)
{
    assert(kvbm_cuda_is_device(storage) && block < storage->block_count &&
           offset < storage->block_size);
    return kvbm_layout_map_find(&((const struct device_storage *)storage)->map, block, offset, run);
}

enum kvt_err
kvbm_cuda_device_enter(const struct kvbm_storage *storage)
{
    assert(kvbm_cuda_is_device(storage));
    return kvbm_cuda_enter(((const struct device_storage *)storage)->cuda);
}

void *
kvbm_cuda_device_begin(struct kvbm_storage *storage)
{
    struct device_storage *device = (struct device_storage *)storage;

    assert(kvbm_cuda_is_device(storage));
    return kvbm_cuda_stream_begin(&device->within) ? device->within.handle : NULL;
}

enum kvt_err
kvbm_cuda_device_end(struct kvbm_storage *storage)
{
    assert(kvbm_cuda_is_device(storage));
    return kvbm_cuda_stream_end(&((struct device_storage *)storage)->within) ? KVT_OK : KVT_IO;
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

enum kvt_err
kvbm_cuda_pin_host(struct kvbm_cuda *cuda, void *memory, size_t size, struct kvt_error *err)
{
    uint64_t there = 0;
    int result;

    if (cuda->host_register == NULL || cuda->host_unregister == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "cuda: this driver pins no memory of others");
    if (kvbm_cuda_enter(cuda) != KVT_OK)
        return kvt_error_set(err, KVT_IO, "cuda: the context is lost");
    result = cuda->host_register(memory, size, KVBM_CUDA_HOST_PORTABLE | KVBM_CUDA_HOST_MAPPED);
    if (result != 0)
        return kvbm_cuda_error(cuda, result, "cuMemHostRegister", err);
    /* Kernels and batches get it by its address here, which devices need not know it by. */
    if (cuda->host_pointer != NULL && cuda->host_pointer(&there, memory, 0) == 0 &&
        there == (uint64_t)(uintptr_t)memory)
        kvbm_cuda_pin(cuda, memory, size);
    return KVT_OK;
}

void
kvbm_cuda_unpin_host(struct kvbm_cuda *cuda, void *memory)
{
    kvbm_cuda_unpin(cuda, memory);
    if (kvbm_cuda_enter(cuda) == KVT_OK)
        (void)cuda->host_unregister(memory);
}
