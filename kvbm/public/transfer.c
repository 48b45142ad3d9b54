/* kvtier/transfer.h over kvbm/transfer/transfer_manager.h and kvbm/transfer/pipeline.h. */
#include "kvtier/transfer.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/public/public_handle.h"
#include "kvbm/transfer/pipeline.h"
#include "kvbm/transfer/queue_ticket.h"

enum { QUEUE_USUAL = 128 };

enum kvt_err
kvt_transfer_new(struct kvt_transfer **out, const struct kvt_transfer_options *options,
                 struct kvt_error *err)
{
    struct kvt_transfer_options known;
    struct kvt_transfer *transfer;
    enum kvt_err rc;

    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), options))
        return kvt_error_set(err, KVT_UNSUPPORTED, "transfer: options of a newer library");
    transfer = kvt_calloc(1, sizeof(*transfer));
    if (transfer == NULL)
        return kvt_error_set(err, KVT_NOMEM, "transfer");
    rc = kvbm_transfer_open(&transfer->transfer,
                            &(struct kvbm_transfer_options){
                                .queue_max = known.queue_max == 0 ? QUEUE_USUAL : known.queue_max,
                                .bounce = known.bounce == NULL ? NULL : known.bounce->storage,
                            },
                            err);
    if (rc != KVT_OK) {
        kvt_free(transfer);
        return rc;
    }
    *out = transfer;
    return KVT_OK;
}

void
kvt_transfer_free(struct kvt_transfer *transfer)
{
    if (transfer == NULL)
        return;
    kvbm_transfer_free(transfer->transfer);
    kvt_free(transfer);
}

const char *
kvt_path_name(enum kvt_path path)
{
    return kvbm_path_name(path);
}

enum kvt_path
kvt_path_between(struct kvt_storage *source, struct kvt_storage *target)
{
    return kvbm_path_between(source->storage, target->storage);
}

/* ---- what a caller may have got wrong ---- */

static enum kvt_err
check_block(const struct kvt_storage *storage, uint32_t block, const char *end,
            struct kvt_error *err)
{
    if (block < storage->storage->block_count)
        return KVT_OK;
    return kvt_error_set(err, KVT_RANGE, "copy: no block %" PRIu32 " of %" PRIu32 " in the %s",
                         block, storage->storage->block_count, end);
}

static enum kvt_err
check_copies(const struct kvt_copy_request *request, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    if (request->source == NULL || request->target == NULL || request->copies == NULL)
        return kvt_error_set(err, KVT_INVALID, "copy: needs its size, two storages and copies");
    if (request->count == 0 || request->count > KVT_COPIES_MAX)
        return kvt_error_set(err, KVT_INVALID, "copy: %zu blocks, not in 1..%d", request->count,
                             KVT_COPIES_MAX);
    if ((unsigned)request->priority >= KVT_PRIORITY_COUNT)
        return kvt_error_set(err, KVT_INVALID, "copy: priority %u", (unsigned)request->priority);
    for (size_t i = 0; i < request->count && rc == KVT_OK; i++) {
        const struct kvt_copy *copy = &request->copies[i];

        rc = check_block(request->source, copy->source, "source", err);
        if (rc == KVT_OK)
            rc = check_block(request->target, copy->target, "target", err);
        if (rc == KVT_OK && request->source == request->target && copy->source == copy->target)
            return kvt_error_set(err, KVT_INVALID, "copy: block %" PRIu32 " onto itself",
                                 copy->source);
    }
    return rc;
}

static enum kvt_err
check_layouts(const struct kvt_copy_request *request, struct kvt_error *err)
{
    const struct kvbm_layout *source = kvbm_public_layout(request->source_layout);
    const struct kvbm_layout *target = kvbm_public_layout(request->target_layout);
    const uint64_t source_size = request->source->storage->block_size;
    const uint64_t target_size = request->target->storage->block_size;

    if ((source == NULL) != (target == NULL))
        return kvt_error_set(err, KVT_INVALID, "copy: one layout, needs none or two");
    if (source == NULL && source_size != target_size)
        return kvt_error_set(err, KVT_INVALID,
                             "copy: blocks of %" PRIu64 " bytes into blocks of %" PRIu64,
                             source_size, target_size);
    if (source == NULL)
        return KVT_OK;
    if (source->block_size > source_size || target->block_size > target_size)
        return kvt_error_set(err, KVT_INVALID,
                             "copy: a layout's block is larger than its storage's");
    if (request->layer >= target->geometry.layers ||
        request->layers > target->geometry.layers - request->layer)
        return kvt_error_set(err, KVT_RANGE,
                             "copy: %" PRIu32 " layers from %" PRIu32 " on, of %" PRIu32,
                             request->layers, request->layer, target->geometry.layers);
    return kvbm_layout_convertible(target, source, err);
}

static enum kvt_err
request_of(struct kvbm_transfer_request *ours, const struct kvt_copy_request *request,
           struct kvt_error *err)
{
    struct kvt_copy_request known;
    enum kvt_err rc;

    if (!kvbm_public_read(&known, sizeof(known), request))
        return kvt_error_set(err, KVT_UNSUPPORTED, "copy: a request of a newer library");
    rc = check_copies(&known, err);
    if (rc == KVT_OK)
        rc = check_layouts(&known, err);
    if (rc != KVT_OK)
        return rc;
    *ours = (struct kvbm_transfer_request){
        .path = kvbm_path_between(known.source->storage, known.target->storage),
        .source = known.source->storage,
        .target = known.target->storage,
        .copies = known.copies,
        .count = known.count,
        .priority = known.priority,
        .source_layout = kvbm_public_layout(known.source_layout),
        .target_layout = kvbm_public_layout(known.target_layout),
        .layer = known.layer,
        .layers = known.layers,
        .done = known.done,
        .arg = known.arg,
        .event_fd = known.event_fd,
    };
    if (ours->target_layout != NULL && ours->layers == 0)
        ours->layers = ours->target_layout->geometry.layers - ours->layer;
    return KVT_OK;
}

/* In words, of a request that was right in itself. */
static enum kvt_err
say_refusal(enum kvt_err rc, const struct kvbm_transfer_request *request, struct kvt_error *err)
{
    const char *path = kvbm_path_name(request->path);

    switch (rc) {
    case KVT_OK: return KVT_OK;
    case KVT_AGAIN: return kvt_error_set(err, rc, "copy: the queue of path %s is full", path);
    case KVT_UNSUPPORTED:
        return kvt_error_set(err, rc, "copy: path %s needs bounce buffers for this, or cannot",
                             path);
    default: return kvt_error_set(err, rc, "copy on path %s", path);
    }
}

/* ---- copies ---- */

enum kvt_err
kvt_transfer_start(struct kvt_transfer *transfer, const struct kvt_copy_request *request,
                   uint64_t wait_ms, struct kvt_ticket **ticket, struct kvt_error *err)
{
    struct kvbm_transfer_request ours;
    enum kvt_err rc;

    *ticket = NULL;
    rc = request_of(&ours, request, err);
    if (rc != KVT_OK)
        return rc;
    rc = kvbm_transfer_start_wait(transfer->transfer, &ours, wait_ms, ticket);
    return say_refusal(rc, &ours, err);
}

/* Everything that was asked for is refused. */
static void
refuse(const struct kvt_copy_request *request, enum kvt_err rc)
{
    for (size_t i = 0; request->copies != NULL && i < request->count; i++)
        request->copies[i].status = rc;
}

enum kvt_err
kvt_transfer_run(struct kvt_transfer *transfer, const struct kvt_copy_request *request,
                 struct kvt_error *err)
{
    struct kvt_ticket *ticket;
    enum kvt_err rc;

    do
        rc = kvt_transfer_start(transfer, request, UINT64_MAX, &ticket, err);
    while (rc == KVT_AGAIN);
    if (rc != KVT_OK) {
        refuse(request, rc);
        return rc;
    }
    rc = kvbm_ticket_end(ticket); /* storage I/O ends by itself, so this does too */
    if (rc == KVT_OK)
        return rc;
    for (size_t i = 0; i < request->count; i++)
        if (request->copies[i].status == rc)
            return kvt_error_set(err, rc, "copy: block %" PRIu32 " to %" PRIu32 ": %s",
                                 request->copies[i].source, request->copies[i].target,
                                 kvt_err_text(rc));
    return kvt_error_set(err, rc, "copy");
}

enum kvt_err
kvt_copy_blocks(struct kvt_transfer *transfer, struct kvt_storage *source,
                struct kvt_storage *target, struct kvt_copy *copies, size_t count,
                struct kvt_error *err)
{
    return kvt_transfer_run(transfer,
                            &(struct kvt_copy_request){.size = sizeof(struct kvt_copy_request),
                                                       .source = source,
                                                       .target = target,
                                                       .copies = copies,
                                                       .count = count},
                            err);
}

enum kvt_err
kvt_copy_blocks_by_layer(struct kvt_transfer *transfer, struct kvt_storage *source,
                         struct kvt_storage *target, const struct kvt_layout *layout,
                         uint32_t layer, uint32_t layers, struct kvt_copy *copies, size_t count,
                         struct kvt_error *err)
{
    const struct kvt_copy_request request = {.size = sizeof(request),
                                             .source = source,
                                             .target = target,
                                             .copies = copies,
                                             .count = count,
                                             .source_layout = layout,
                                             .target_layout = layout,
                                             .layer = layer,
                                             .layers = layers};

    if (layout != NULL && layers > 0)
        return kvt_transfer_run(transfer, &request, err);
    refuse(&request, KVT_INVALID);
    return kvt_error_set(err, KVT_INVALID, "copy: needs a layout, and layers of it");
}

void
kvt_transfer_stats(struct kvt_transfer *transfer, enum kvt_path path,
                   struct kvt_transfer_stats *stats)
{
    struct kvt_transfer_stats known = {0};

    if ((unsigned)path < KVT_PATH_COUNT)
        kvbm_transfer_stats(transfer->transfer, path, &known);
    kvbm_public_write(stats, &known, sizeof(known));
}

/* ---- over two hops ---- */

static enum kvt_err
check_relays(const struct kvt_pipeline_request *request, struct kvt_error *err)
{
    enum kvt_err rc;

    if (request->source == NULL || request->middle == NULL || request->target == NULL ||
        request->source_layout == NULL || request->target_layout == NULL ||
        request->relays == NULL || (unsigned)request->priority >= KVT_PRIORITY_COUNT)
        return kvt_error_set(err, KVT_INVALID,
                             "pipeline: needs its size, three storages, two layouts and relays");
    if (request->count == 0 || request->count > KVT_COPIES_MAX)
        return kvt_error_set(err, KVT_INVALID, "pipeline: %zu blocks, not in 1..%d", request->count,
                             KVT_COPIES_MAX);
    if (kvbm_storage_address(request->middle->storage, 0) == NULL)
        return kvt_error_set(err, KVT_INVALID, "pipeline: the middle is not host memory");
    for (size_t i = 0; i < request->count; i++) {
        rc = check_block(request->source, request->relays[i].source, "source", err);
        if (rc == KVT_OK)
            rc = check_block(request->middle, request->relays[i].middle, "middle", err);
        if (rc == KVT_OK)
            rc = check_block(request->target, request->relays[i].target, "target", err);
        if (rc != KVT_OK)
            return rc;
    }
    if (request->source_layout->layout.block_size > request->source->storage->block_size ||
        request->source_layout->layout.block_size > request->middle->storage->block_size ||
        request->target_layout->layout.block_size > request->target->storage->block_size)
        return kvt_error_set(err, KVT_INVALID,
                             "pipeline: a layout's block is larger than its storage's");
    return kvbm_layout_convertible(&request->target_layout->layout, &request->source_layout->layout,
                                   err);
}

enum kvt_err
kvt_transfer_pipeline(struct kvt_transfer *transfer, const struct kvt_pipeline_request *request,
                      struct kvt_error *err)
{
    struct kvt_pipeline_request known;
    enum kvt_err rc;

    if (!kvbm_public_read(&known, sizeof(known), request))
        rc = kvt_error_set(err, KVT_UNSUPPORTED, "pipeline: a request of a newer library");
    else
        rc = check_relays(&known, err);
    if (rc != KVT_OK) {
        for (size_t i = 0; request->relays != NULL && i < request->count; i++)
            request->relays[i].status = rc;
        return rc;
    }
    rc = kvbm_pipeline_run(&(struct kvbm_pipeline_request){
        .transfer = transfer->transfer,
        .source = known.source->storage,
        .middle = known.middle->storage,
        .target = known.target->storage,
        .relays = known.relays,
        .count = known.count,
        .source_layout = &known.source_layout->layout,
        .target_layout = &known.target_layout->layout,
        .step = known.step,
        .priority = known.priority,
        .landed = known.landed,
        .arg = known.arg,
    });
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "pipeline: not every block arrived");
}
