#include "kvbm/transfer/transfer_manager.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"
#include "kvbm/layout/layout_walk.h"
#include "kvbm/transfer/transfer_manager_internal.h"

const char *
kvbm_path_name(enum kvt_path path)
{
    switch (path) {
    case KVT_PATH_D2H: return "d2h";
    case KVT_PATH_H2D: return "h2d";
    case KVT_PATH_H2DISK: return "h2disk";
    case KVT_PATH_DISK2H: return "disk2h";
    case KVT_PATH_D2D: return "d2d";
    case KVT_PATH_DISK2D: return "disk2d";
    case KVT_PATH_REMOTE: return "remote";
    case KVT_PATH_COUNT: break;
    }
    return "?";
}

enum kvt_path
kvbm_path_between(const struct kvbm_storage *source, const struct kvbm_storage *target)
{
    if (source->kind == KVBM_STORAGE_REMOTE || target->kind == KVBM_STORAGE_REMOTE)
        return KVT_PATH_REMOTE;
    if (source->kind == KVBM_STORAGE_DISK)
        return target->kind == KVBM_STORAGE_DEVICE ? KVT_PATH_DISK2D : KVT_PATH_DISK2H;
    if (target->kind == KVBM_STORAGE_DISK)
        return KVT_PATH_H2DISK;
    if (source->kind == KVBM_STORAGE_DEVICE)
        return target->kind == KVBM_STORAGE_DEVICE ? KVT_PATH_D2D : KVT_PATH_D2H;
    return KVT_PATH_H2D;
}

/* A ticket of a path: what is asked for, and the next one in its queue. */
static struct kvbm_transfer_ticket *
ticket_of(struct kvt_ticket *ticket)
{
    return (struct kvbm_transfer_ticket *)ticket;
}

static void
ticket_destroy(struct kvt_ticket *ticket)
{
    kvbm_ticket_fini(ticket);
    kvt_free(ticket);
}

static bool path_withdraw(struct kvbm_transfer_path *path, struct kvbm_transfer_ticket *ticket);

static bool
ticket_withdraw(struct kvt_ticket *head)
{
    struct kvbm_transfer_ticket *ticket = ticket_of(head);
    const bool withdrawn = path_withdraw(ticket->path, ticket);

    for (size_t i = 0; i < ticket->request.count; i++)
        ticket->request.copies[i].status = KVT_CANCELLED;
    atomic_fetch_add(&ticket->path->cancelled, 1);
    return withdrawn;
}

static const struct kvbm_ticket_ops ticket_ops = {
    .withdraw = ticket_withdraw,
    .destroy = ticket_destroy,
};

/* In a storage a layered block is packed as a contiguous one is: layers that follow each other are
 * one run there, and to a disk its whole block. */
static const struct kvbm_layout *
pack(struct kvbm_layout *to, const struct kvbm_layout *from)
{
    if (from == NULL || from->geometry.kind != KVT_LAYOUT_LAYERED)
        return from;
    *to = *from;
    to->geometry.kind = KVT_LAYOUT_CONTIGUOUS;
    to->step.layer = from->layer_stride;
    return to;
}

static struct kvbm_transfer_ticket *
ticket_new(const struct kvbm_transfer_request *request, struct kvbm_transfer_path *path)
{
    const struct kvbm_ticket_listener listener = {request->done, request->arg, request->event_fd};
    struct kvbm_transfer_ticket *ticket = kvt_calloc(1, sizeof(*ticket));

    if (ticket == NULL)
        return NULL;
    ticket->request = *request;
    ticket->request.source_layout = pack(&ticket->layouts[0], request->source_layout);
    ticket->request.target_layout = pack(&ticket->layouts[1], request->target_layout);
    ticket->path = path;
    if (kvbm_ticket_init(&ticket->head, &ticket_ops, &listener) == KVT_OK)
        return ticket;
    kvt_free(ticket);
    return NULL;
}

static void
execute(struct kvbm_transfer_path *path, struct kvbm_transfer_ticket *ticket)
{
    const struct kvbm_transfer_request *request = &ticket->request;
    enum kvt_err result = KVT_OK;
    size_t good = 0;

    kvbm_transfer_execute(path, request, &ticket->head.unwanted);
    for (size_t i = 0; i < request->count; i++) {
        if (request->copies[i].status == KVT_OK)
            good++;
        else if (result == KVT_OK)
            result = request->copies[i].status;
    }
    atomic_fetch_add(&path->blocks, good);
    atomic_fetch_add(&path->bytes, good * kvbm_transfer_bytes(request));
    if (result == KVT_CANCELLED)
        atomic_fetch_add(&path->cancelled, 1);
    else
        atomic_fetch_add(&path->failed, request->count - good);
    kvbm_ticket_finish(&ticket->head, result, true);
}

/* Out of the queue: the oldest of the highest priority, or NULL. */
static struct kvbm_transfer_ticket *
path_pop_locked(struct kvbm_transfer_path *path)
{
    for (int i = KVT_PRIORITY_COUNT - 1; i >= 0; i--) {
        struct kvbm_transfer_ticket *ticket = path->shared.first[i];

        if (ticket == NULL)
            continue;
        path->shared.first[i] = ticket->next;
        if (ticket->next == NULL)
            path->shared.last[i] = &path->shared.first[i];
        path->shared.count--;
        (void)pthread_cond_signal(&path->shared.room);
        return ticket;
    }
    return NULL;
}

/* What is to be done next, or NULL when the path ends.  One that a canceller has begun is his; he
 * asks for this lock before he finishes it, so that it is still there. */
static struct kvbm_transfer_ticket *
path_take(struct kvbm_transfer_path *path)
{
    struct kvbm_transfer_ticket *ticket;
    bool mine = false;

    do {
        (void)pthread_mutex_lock(&path->shared.lock);
        while (path->shared.count == 0 && !path->shared.closed)
            (void)pthread_cond_wait(&path->shared.work, &path->shared.lock);
        ticket = path_pop_locked(path);
        if (ticket != NULL)
            mine = kvbm_ticket_begin(&ticket->head);
        (void)pthread_mutex_unlock(&path->shared.lock);
        if (ticket != NULL && !mine)
            kvbm_ticket_let_go(&ticket->head);
    } while (ticket != NULL && !mine);
    return ticket;
}

static void *
path_run(void *arg)
{
    struct kvbm_transfer_path *path = arg;
    struct kvbm_transfer_ticket *ticket;

    while ((ticket = path_take(path)) != NULL)
        execute(path, ticket);
    return NULL;
}

static enum kvt_err
path_put(struct kvbm_transfer_path *path, struct kvbm_transfer_ticket *ticket, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    const enum kvt_priority priority = ticket->request.priority;
    enum kvt_err rc = KVT_OK;

    (void)pthread_mutex_lock(&path->shared.lock);
    while (path->shared.count >= path->queue_max && !path->shared.closed)
        if (wait_ms == 0 || !kvt_cond_wait(&path->shared.room, &path->shared.lock, &deadline))
            break;
    if (path->shared.closed) {
        rc = KVT_CANCELLED;
    } else if (path->shared.count >= path->queue_max) {
        rc = KVT_AGAIN;
    } else {
        *path->shared.last[priority] = ticket;
        path->shared.last[priority] = &ticket->next;
        path->shared.count++;
        (void)pthread_cond_signal(&path->shared.work);
    }
    (void)pthread_mutex_unlock(&path->shared.lock);
    return rc;
}

/* Out of the queue again; false when its thread has it. */
static bool
path_withdraw(struct kvbm_transfer_path *path, struct kvbm_transfer_ticket *ticket)
{
    const enum kvt_priority priority = ticket->request.priority;
    struct kvbm_transfer_ticket **at;
    bool found;

    (void)pthread_mutex_lock(&path->shared.lock);
    at = &path->shared.first[priority];
    while (*at != NULL && *at != ticket)
        at = &(*at)->next;
    found = *at == ticket;
    if (found) {
        *at = ticket->next;
        if (path->shared.last[priority] == &ticket->next)
            path->shared.last[priority] = at;
        path->shared.count--;
        (void)pthread_cond_signal(&path->shared.room);
    }
    (void)pthread_mutex_unlock(&path->shared.lock);
    return found;
}

static enum kvt_err
path_open(struct kvbm_transfer_path *path, struct kvbm_transfer *transfer, enum kvt_path which,
          const struct kvbm_transfer_options *options)
{
    path->transfer = transfer;
    path->which = which;
    path->queue_max = options->queue_max;
    for (size_t i = 0; i < KVT_PRIORITY_COUNT; i++)
        path->shared.last[i] = &path->shared.first[i];
    if (pthread_mutex_init(&path->shared.lock, NULL) != 0)
        return KVT_NOMEM;
    if (pthread_cond_init(&path->shared.work, NULL) != 0) {
        (void)pthread_mutex_destroy(&path->shared.lock);
        return KVT_NOMEM;
    }
    if (!kvt_cond_init(&path->shared.room)) {
        (void)pthread_cond_destroy(&path->shared.work);
        (void)pthread_mutex_destroy(&path->shared.lock);
        return KVT_NOMEM;
    }
    path->locks_made = true;
    path->started = pthread_create(&path->thread, NULL, path_run, path) == 0;
    return path->started ? KVT_OK : KVT_NOMEM;
}

/* Each path has its own: on any of them neither end may have an address. */
static void
share_out_bounce(struct kvbm_transfer *transfer, struct kvbm_storage *bounce)
{
    for (uint32_t i = 0; bounce != NULL && i < KVT_PATH_COUNT; i++)
        transfer->paths[i].bounce = (struct kvbm_bounce){
            .storage = bounce,
            .first = i * (bounce->block_count / KVT_PATH_COUNT),
            .count = bounce->block_count / KVT_PATH_COUNT,
        };
}

enum kvt_err
kvbm_transfer_open(struct kvbm_transfer **out, const struct kvbm_transfer_options *options,
                   struct kvt_error *err)
{
    struct kvbm_transfer *transfer;

    assert(out != NULL);
    *out = NULL;
    if (options->queue_max == 0)
        return kvt_error_set(err, KVT_INVALID, "transfer manager: queue of 0");
    if (options->bounce != NULL && (options->bounce->block_count < KVT_BOUNCE_MIN ||
                                    kvbm_storage_address(options->bounce, 0) == NULL))
        return kvt_error_set(err, KVT_INVALID,
                             "transfer manager: bounce buffers must be %d blocks of host memory",
                             KVT_BOUNCE_MIN);
    transfer = kvt_calloc(1, sizeof(*transfer));
    if (transfer == NULL)
        return kvt_error_set(err, KVT_NOMEM, "transfer manager");
    share_out_bounce(transfer, options->bounce);
    for (size_t i = 0; i < KVT_PATH_COUNT; i++) {
        const enum kvt_err rc = path_open(&transfer->paths[i], transfer, (enum kvt_path)i, options);

        if (rc != KVT_OK) {
            kvbm_transfer_free(transfer);
            return kvt_error_set(err, rc, "transfer manager: path %s",
                                 kvbm_path_name((enum kvt_path)i));
        }
    }
    *out = transfer;
    return KVT_OK;
}

enum kvt_err
kvbm_transfer_new(struct kvbm_transfer **out, size_t queue_max, struct kvt_error *err)
{
    return kvbm_transfer_open(out, &(struct kvbm_transfer_options){.queue_max = queue_max}, err);
}

/* Paths end in an order in which none is closed that a living one still sends to. */
static void
path_end(struct kvbm_transfer_path *path)
{
    if (!path->locks_made)
        return;
    (void)pthread_mutex_lock(&path->shared.lock);
    path->shared.closed = true;
    (void)pthread_cond_broadcast(&path->shared.work);
    (void)pthread_cond_broadcast(&path->shared.room);
    (void)pthread_mutex_unlock(&path->shared.lock);
    if (path->started)
        (void)pthread_join(path->thread, NULL);
}

void
kvbm_transfer_free(struct kvbm_transfer *transfer)
{
    static const enum kvt_path order[KVT_PATH_COUNT] = {
        KVT_PATH_REMOTE, KVT_PATH_DISK2D, KVT_PATH_D2D, KVT_PATH_DISK2H,
        KVT_PATH_H2DISK, KVT_PATH_D2H,    KVT_PATH_H2D};

    if (transfer == NULL)
        return;
    for (size_t i = 0; i < KVT_PATH_COUNT; i++)
        path_end(&transfer->paths[order[i]]);
    for (size_t i = 0; i < KVT_PATH_COUNT; i++) {
        struct kvbm_transfer_path *path = &transfer->paths[i];

        if (!path->locks_made)
            continue;
        (void)pthread_cond_destroy(&path->shared.room);
        (void)pthread_cond_destroy(&path->shared.work);
        (void)pthread_mutex_destroy(&path->shared.lock);
    }
    kvt_free(transfer);
}

static enum kvt_err
check_layouts(const struct kvbm_transfer_request *request)
{
    const struct kvbm_layout *source = request->source_layout;
    const struct kvbm_layout *target = request->target_layout;

    if (source == NULL && target == NULL)
        return request->source->block_size == request->target->block_size ? KVT_OK : KVT_INVALID;
    if (source == NULL || target == NULL || request->layers == 0 ||
        source->block_size > request->source->block_size ||
        target->block_size > request->target->block_size ||
        request->layer >= target->geometry.layers ||
        request->layers > target->geometry.layers - request->layer)
        return KVT_INVALID;
    return kvbm_layout_convertible(target, source, NULL);
}

static enum kvt_err
check_request(const struct kvbm_transfer *transfer, const struct kvbm_transfer_request *request)
{
    const struct kvbm_storage *bounce = transfer->paths[request->path].bounce.storage;
    enum kvt_err rc;

    if (request->count == 0 || request->count > KVT_COPIES_MAX)
        return KVT_INVALID;
    rc = check_layouts(request);
    if (rc != KVT_OK)
        return rc;
    if (kvbm_transfer_converts_apart(request)) {
        if (request->source->ops->whole && request->target->ops->whole)
            return KVT_UNSUPPORTED;
    } else if (kvbm_storage_address(request->source, 0) != NULL ||
               kvbm_storage_address(request->target, 0) != NULL ||
               kvbm_storage_move(request->target, request->source, NULL, 0)) {
        return KVT_OK;
    }
    if (bounce == NULL || bounce->block_size < request->source->block_size ||
        bounce->block_size < request->target->block_size)
        return KVT_UNSUPPORTED;
    return KVT_OK;
}

enum kvt_err
kvbm_transfer_start_wait(struct kvbm_transfer *transfer,
                         const struct kvbm_transfer_request *request, uint64_t wait_ms,
                         struct kvt_ticket **out)
{
    enum kvt_err rc;

    assert((unsigned)request->path < KVT_PATH_COUNT);
    assert((unsigned)request->priority < KVT_PRIORITY_COUNT);
    *out = NULL;
    rc = check_request(transfer, request);
    return rc != KVT_OK ? rc : kvbm_transfer_enqueue(transfer, request, wait_ms, out);
}

enum kvt_err
kvbm_transfer_enqueue(struct kvbm_transfer *transfer, const struct kvbm_transfer_request *request,
                      uint64_t wait_ms, struct kvt_ticket **out)
{
    struct kvbm_transfer_ticket *ticket;
    enum kvt_err rc;

    *out = NULL;
    ticket = ticket_new(request, &transfer->paths[request->path]);
    if (ticket == NULL)
        return KVT_NOMEM;
    rc = path_put(ticket->path, ticket, wait_ms);
    if (rc != KVT_OK) {
        ticket_destroy(&ticket->head);
        return rc;
    }
    *out = &ticket->head;
    return KVT_OK;
}

enum kvt_err
kvbm_transfer_start(struct kvbm_transfer *transfer, const struct kvbm_transfer_request *request,
                    struct kvt_ticket **ticket)
{
    return kvbm_transfer_start_wait(transfer, request, 0, ticket);
}

enum kvt_err
kvbm_transfer_run(struct kvbm_transfer *transfer, const struct kvbm_transfer_request *request)
{
    struct kvt_ticket *ticket;
    enum kvt_err rc;

    do
        rc = kvbm_transfer_start_wait(transfer, request, UINT64_MAX, &ticket);
    while (rc == KVT_AGAIN);
    if (rc != KVT_OK) {
        for (size_t i = 0; i < request->count; i++)
            request->copies[i].status = rc;
        return rc;
    }
    return kvbm_ticket_end(ticket); /* storage I/O ends by itself, so this does too */
}

enum kvt_err
kvbm_copy_blocks(struct kvbm_transfer *transfer, struct kvbm_storage *source,
                 struct kvbm_storage *target, struct kvt_copy *copies, size_t count)
{
    return kvbm_transfer_run(transfer, &(struct kvbm_transfer_request){
                                           .path = kvbm_path_between(source, target),
                                           .source = source,
                                           .target = target,
                                           .copies = copies,
                                           .count = count,
                                       });
}

void
kvbm_transfer_stats(struct kvbm_transfer *transfer, enum kvt_path path,
                    struct kvt_transfer_stats *stats)
{
    struct kvbm_transfer_path *at = &transfer->paths[path];

    stats->blocks = atomic_load(&at->blocks);
    stats->bytes = atomic_load(&at->bytes);
    stats->failed = atomic_load(&at->failed);
    stats->cancelled = atomic_load(&at->cancelled);
    (void)pthread_mutex_lock(&at->shared.lock);
    stats->waiting = at->shared.count;
    (void)pthread_mutex_unlock(&at->shared.lock);
}
