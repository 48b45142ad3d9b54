/* How a request's bytes get from one storage to the other. */
#include <assert.h>
#include <string.h>

#include "kvbm/layout/layout_walk.h"
#include "kvbm/transfer/transfer_manager_internal.h"

/* How much is moved before anybody looks whether the ticket is still wanted: many blocks, since
 * nothing is in flight between two slices, but no second's worth. */
enum { SLICE_MIN = 64, SLICE_MAX = 2048, SLICE_BYTES = 512 << 20 };

enum { PARTS_MAX = 2048 /* parts of blocks handed to a storage in one call */ };

/* A block of a storage as a layout's memory: addresses from `base` on. */
struct place {
    struct kvbm_layout_memory memory;
    uint64_t parts[KVT_LAYERS_MAX];
};

/* Parts on their way to or from the storage that is not host memory. */
struct parts {
    struct kvbm_storage *storage;
    bool writing;
    size_t count;
    struct kvbm_storage_io ios[PARTS_MAX];
    struct kvt_copy *owners[PARTS_MAX];
};

static void
lay(struct place *place, const struct kvbm_layout *layout, uint64_t base)
{
    const uint32_t count = kvbm_layout_parts(layout);

    place->memory = (struct kvbm_layout_memory){layout, place->parts, 1};
    for (uint32_t i = 0; i < count; i++)
        place->parts[i] = base + (count == 1 ? 0 : kvbm_layout_packed_offset(layout, i, 0));
}

static uint64_t
address(struct kvbm_storage *storage, uint32_t block)
{
    return (uint64_t)(uintptr_t)kvbm_storage_address(storage, block);
}

static struct kvbm_layout_slice
slice_of(const struct kvbm_transfer_request *request)
{
    return kvbm_layout_layers(request->target_layout, request->layer, request->layers);
}

/* Do both pack their blocks alike?  A layered one packs as a contiguous one. */
static bool
packs_alike(const struct kvbm_layout *left, const struct kvbm_layout *right)
{
    const bool universal = left->geometry.kind == KVT_LAYOUT_UNIVERSAL;

    return universal == (right->geometry.kind == KVT_LAYOUT_UNIVERSAL) &&
           left->step.outer == right->step.outer && left->step.head == right->step.head &&
           left->step.token == right->step.token;
}

bool
kvbm_transfer_converts_apart(const struct kvbm_transfer_request *request)
{
    return request->source_layout != NULL &&
           (request->source->ops->whole || request->target->ops->whole) &&
           !packs_alike(request->source_layout, request->target_layout);
}

uint64_t
kvbm_transfer_bytes(const struct kvbm_transfer_request *request)
{
    if (request->source_layout == NULL)
        return request->source->block_size;
    return request->source_layout->layer_stride * request->layers;
}

static void
settle(struct kvt_copy *copy, enum kvt_err status)
{
    if (copy->status == KVT_OK)
        copy->status = status;
}

static void
flush(struct parts *parts)
{
    if (parts->count == 0)
        return;
    if (parts->writing)
        kvbm_storage_write(parts->storage, parts->ios, parts->count);
    else
        kvbm_storage_read(parts->storage, parts->ios, parts->count);
    for (size_t i = 0; i < parts->count; i++)
        settle(parts->owners[i], parts->ios[i].status);
    parts->count = 0;
}

static void
add(struct parts *parts, struct kvt_copy *owner, struct kvbm_storage_io io)
{
    if (parts->count == PARTS_MAX)
        flush(parts);
    parts->ios[parts->count] = io;
    parts->owners[parts->count++] = owner;
}

/* One end at least is in host memory: the other end's storage moves the bytes to or from there. */
static void
copy_whole(const struct kvbm_transfer_request *request, struct kvt_copy *copies, size_t count)
{
    const bool into_memory = kvbm_storage_address(request->target, copies[0].target) != NULL;
    struct parts parts = {
        .storage = into_memory ? request->source : request->target,
        .writing = !into_memory,
    };

    for (size_t i = 0; i < count; i++)
        add(&parts, &copies[i],
            into_memory ? (struct kvbm_storage_io){.host = kvbm_storage_address(request->target,
                                                                                copies[i].target),
                                                   .block = copies[i].source}
                        : (struct kvbm_storage_io){
                              .host = kvbm_storage_address(request->source, copies[i].source),
                              .block = copies[i].target});
    flush(&parts);
}

/* The same from one layout to another, run by run. */
static void
copy_runs(const struct kvbm_transfer_request *request, struct kvt_copy *copies, size_t count)
{
    const bool into_memory = kvbm_storage_address(request->target, copies[0].target) != NULL;
    const bool out_of_memory = kvbm_storage_address(request->source, copies[0].source) != NULL;
    const struct kvbm_layout_slice slice = slice_of(request);
    struct parts parts = {
        .storage = into_memory ? request->source : request->target,
        .writing = !into_memory,
    };

    for (size_t i = 0; i < count; i++) {
        struct kvbm_layout_walk walk;
        struct kvbm_layout_run run;
        struct place source;
        struct place target;

        lay(&source, request->source_layout, address(request->source, copies[i].source));
        lay(&target, request->target_layout, address(request->target, copies[i].target));
        if (into_memory && out_of_memory) {
            kvbm_layout_copy(&target.memory, 0, &source.memory, 0, &slice);
            continue;
        }
        kvbm_layout_walk(&walk, &target.memory, 0, &source.memory, 0, &slice);
        while (kvbm_layout_next(&walk, &run))
            add(&parts, &copies[i],
                (struct kvbm_storage_io){
                    .host = (void *)(uintptr_t)(into_memory ? run.target : run.source),
                    .block = into_memory ? copies[i].source : copies[i].target,
                    .offset = into_memory ? run.source : run.target,
                    .size = run.size,
                });
    }
    flush(&parts);
}

/* All layers as they are, of blocks that hold nothing else, are blocks. */
static bool
is_whole(const struct kvbm_transfer_request *request, const struct kvt_copy *copies)
{
    const struct kvbm_layout *layout = request->source_layout;
    const bool into_memory = kvbm_storage_address(request->target, copies[0].target) != NULL;
    const struct kvbm_storage *moved = into_memory ? request->source : request->target;

    return layout == NULL ||
           (packs_alike(layout, request->target_layout) && request->layer == 0 &&
            request->layers == layout->geometry.layers && moved->block_size == layout->block_size);
}

static void
copy_through_memory(const struct kvbm_transfer_request *request, struct kvt_copy *copies,
                    size_t count)
{
    if (is_whole(request, copies))
        copy_whole(request, copies, count);
    else
        copy_runs(request, copies, count);
}

/* False: the two storages cannot do it between themselves; nothing was done. */
static bool
flush_moves(const struct kvbm_transfer_request *request, struct kvbm_storage_move *moves,
            struct kvt_copy **owners, size_t count)
{
    if (count > 0 && !kvbm_storage_move(request->target, request->source, moves, count))
        return false;
    for (size_t i = 0; i < count; i++)
        settle(owners[i], moves[i].status);
    return true;
}

static bool
copy_between(const struct kvbm_transfer_request *request, struct kvt_copy *copies, size_t count)
{
    struct kvbm_storage_move moves[PARTS_MAX];
    struct kvt_copy *owners[PARTS_MAX];
    size_t ready = 0;

    for (size_t i = 0; i < count; i++) {
        struct kvbm_layout_walk walk;
        struct kvbm_layout_run run = {.size = request->source->block_size};
        struct place source;
        struct place target;
        bool more = true;

        if (request->source_layout != NULL) {
            const struct kvbm_layout_slice slice = slice_of(request);

            lay(&source, request->source_layout, 0);
            lay(&target, request->target_layout, 0);
            kvbm_layout_walk(&walk, &target.memory, 0, &source.memory, 0, &slice);
            more = kvbm_layout_next(&walk, &run);
        }
        while (more) {
            /* Whoever refuses, refuses the first batch. */
            if (ready == PARTS_MAX) {
                if (!flush_moves(request, moves, owners, ready))
                    return false;
                ready = 0;
            }
            owners[ready] = &copies[i];
            moves[ready++] = (struct kvbm_storage_move){
                .source = copies[i].source,
                .target = copies[i].target,
                .source_offset = run.source,
                .target_offset = run.target,
                .size = run.size,
            };
            more = request->source_layout != NULL && kvbm_layout_next(&walk, &run);
        }
    }
    return flush_moves(request, moves, owners, ready);
}

/* Half of a path's bounce buffers, and what is in it. */
struct half {
    struct kvt_ticket *ticket; /* of the second hop; NULL: nothing flies */
    uint32_t first;            /* its blocks */
    size_t count;
    struct kvt_copy hops[SLICE_MAX];
    struct kvt_copy *owners[SLICE_MAX];
};

/* Who moves whole parts must find them on its side of the bounce buffers. */
static const struct kvbm_layout *
bounce_layout(const struct kvbm_transfer_request *request)
{
    return request->target->ops->whole ? request->target_layout : request->source_layout;
}

static void
land(struct half *half)
{
    if (half->ticket == NULL)
        return;
    (void)kvbm_ticket_end(half->ticket); /* each copy says its own */
    half->ticket = NULL;
    for (size_t i = 0; i < half->count; i++)
        settle(half->owners[i], half->hops[i].status);
}

/* Send what arrived on the first hop on its second one, on that path's own thread. */
static void
send_on(struct kvbm_transfer_path *path, const struct kvbm_transfer_request *request,
        struct half *half)
{
    struct kvbm_transfer_request second = *request;

    second.source = path->bounce.storage;
    second.source_layout = bounce_layout(request);
    second.copies = half->hops;
    second.count = half->count;
    second.done = NULL;
    second.event_fd = 0;
    second.path = kvbm_path_between(second.source, second.target);
    /* A path that waited for itself would wait for ever. */
    if (second.path != path->which &&
        kvbm_transfer_enqueue(path->transfer, &second, UINT64_MAX, &half->ticket) == KVT_OK)
        return;
    for (size_t i = 0; i < half->count; i++)
        half->hops[i].status = KVT_OK;
    copy_through_memory(&second, half->hops, half->count);
    for (size_t i = 0; i < half->count; i++)
        settle(half->owners[i], half->hops[i].status);
}

/* Fill one half from the source; only what arrived whole goes on. */
static void
fetch(struct kvbm_transfer_path *path, const struct kvbm_transfer_request *request,
      struct half *half, struct kvt_copy *copies, size_t count)
{
    struct kvbm_transfer_request first = *request;
    size_t good = 0;

    first.target = path->bounce.storage;
    first.target_layout = bounce_layout(request);
    for (size_t i = 0; i < count; i++)
        half->hops[i] = (struct kvt_copy){copies[i].source, half->first + (uint32_t)i, KVT_OK};
    copy_through_memory(&first, half->hops, count);
    for (size_t i = 0; i < count; i++) {
        settle(&copies[i], half->hops[i].status);
        if (half->hops[i].status != KVT_OK)
            continue;
        half->hops[good] = (struct kvt_copy){half->hops[i].target, copies[i].target, KVT_IO};
        half->owners[good++] = &copies[i];
    }
    half->count = good;
}

static void
copy_bouncing(struct kvbm_transfer_path *path, const struct kvbm_transfer_request *request,
              struct kvt_copy *copies, size_t count)
{
    const uint32_t room = path->bounce.count / 2;
    const size_t step = room < SLICE_MAX ? room : SLICE_MAX;
    struct half halves[2] = {{.first = path->bounce.first}, {.first = path->bounce.first + room}};
    unsigned turn = 0;

    for (size_t at = 0; at < count; at += step, turn ^= 1) {
        struct half *half = &halves[turn];

        land(half);
        fetch(path, request, half, copies + at, count - at < step ? count - at : step);
        if (half->count > 0)
            send_on(path, request, half);
    }
    land(&halves[0]);
    land(&halves[1]);
}

static void
copy_slice(struct kvbm_transfer_path *path, const struct kvbm_transfer_request *request,
           struct kvt_copy *copies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        copies[i].status = KVT_OK;
    if (kvbm_transfer_converts_apart(request))
        copy_bouncing(path, request, copies, count);
    else if (kvbm_storage_address(request->source, copies[0].source) != NULL ||
             kvbm_storage_address(request->target, copies[0].target) != NULL)
        copy_through_memory(request, copies, count);
    else if (!copy_between(request, copies, count))
        copy_bouncing(path, request, copies, count);
}

void
kvbm_transfer_execute(struct kvbm_transfer_path *path, const struct kvbm_transfer_request *request,
                      const _Atomic bool *unwanted)
{
    const uint64_t room = SLICE_BYTES / kvbm_transfer_bytes(request);
    const size_t step = room < SLICE_MIN ? SLICE_MIN : room < SLICE_MAX ? room : SLICE_MAX;

    for (size_t at = 0; at < request->count; at += step) {
        const size_t left = request->count - at;
        const size_t count = left < step ? left : step;

        if (!atomic_load(unwanted)) {
            copy_slice(path, request, request->copies + at, count);
            continue;
        }
        for (size_t i = 0; i < count; i++)
            request->copies[at + i].status = KVT_CANCELLED;
    }
}
