#include "kvbm/transfer.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/cond.h"
#include "base/queue.h"

enum {
    SLICE = 64,       /* blocks handed to a storage in one call */
    IDLE_WAIT = 1000, /* ms a path thread waits for work before it looks again */
};

enum ticket_state { QUEUED, RUNNING, FINISHED };

struct kvbm_ticket {
    struct kvbm_transfer_request request;

    struct {
        pthread_mutex_t lock; /* guards this struct; `request` is read-only while queued */
        pthread_cond_t finished;
        enum ticket_state state;
        enum kvt_err result;
        unsigned owners; /* the caller, and the queue until the path thread let go of it */
    } shared;
};

struct path {
    struct kvt_queue *queue;
    pthread_t thread;
    bool started;
    _Atomic uint64_t blocks;
    _Atomic uint64_t bytes;
    _Atomic uint64_t failed;
    _Atomic uint64_t cancelled;
};

struct kvbm_transfer {
    struct path paths[KVBM_PATH_COUNT];
};

const char *
kvbm_path_name(enum kvbm_path path)
{
    switch (path) {
    case KVBM_PATH_D2H: return "d2h";
    case KVBM_PATH_H2D: return "h2d";
    case KVBM_PATH_H2DISK: return "h2disk";
    case KVBM_PATH_DISK2H: return "disk2h";
    case KVBM_PATH_COUNT: break;
    }
    return "?";
}

static void
ticket_free(struct kvbm_ticket *ticket)
{
    (void)pthread_cond_destroy(&ticket->shared.finished);
    (void)pthread_mutex_destroy(&ticket->shared.lock);
    kvt_free(ticket);
}

/* The last of the two owners frees it. */
static void
ticket_let_go(struct kvbm_ticket *ticket)
{
    unsigned owners;

    (void)pthread_mutex_lock(&ticket->shared.lock);
    owners = --ticket->shared.owners;
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    if (owners == 0)
        ticket_free(ticket);
}

static struct kvbm_ticket *
ticket_new(const struct kvbm_transfer_request *request)
{
    struct kvbm_ticket *ticket = kvt_calloc(1, sizeof(*ticket));

    if (ticket == NULL)
        return NULL;
    ticket->request = *request;
    ticket->shared.state = QUEUED;
    ticket->shared.owners = 2;
    if (pthread_mutex_init(&ticket->shared.lock, NULL) != 0)
        goto fail;
    if (!kvt_cond_init(&ticket->shared.finished))
        goto fail_cond;
    return ticket;

fail_cond:
    (void)pthread_mutex_destroy(&ticket->shared.lock);
fail:
    kvt_free(ticket);
    return NULL;
}

static bool
ticket_begin(struct kvbm_ticket *ticket)
{
    bool mine;

    (void)pthread_mutex_lock(&ticket->shared.lock);
    mine = ticket->shared.state == QUEUED;
    if (mine)
        ticket->shared.state = RUNNING;
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    return mine;
}

static void
ticket_finish(struct kvbm_ticket *ticket, enum kvt_err result)
{
    (void)pthread_mutex_lock(&ticket->shared.lock);
    ticket->shared.state = FINISHED;
    ticket->shared.result = result;
    (void)pthread_cond_broadcast(&ticket->shared.finished);
    (void)pthread_mutex_unlock(&ticket->shared.lock);
}

/* One end at least is in host memory: the other end's storage moves the bytes to or from there. */
static void
copy_slice(const struct kvbm_transfer_request *request, struct kvbm_copy *copies, size_t count)
{
    struct kvbm_storage_io ios[SLICE];
    const bool into_memory = kvbm_storage_address(request->target, copies[0].target) != NULL;

    assert(count <= SLICE);
    for (size_t i = 0; i < count; i++) {
        ios[i] = into_memory ? (struct kvbm_storage_io){.host = kvbm_storage_address(
                                                            request->target, copies[i].target),
                                                        .block = copies[i].source}
                             : (struct kvbm_storage_io){
                                   .host = kvbm_storage_address(request->source, copies[i].source),
                                   .block = copies[i].target};
    }
    if (into_memory)
        kvbm_storage_read(request->source, ios, count);
    else
        kvbm_storage_write(request->target, ios, count);
    for (size_t i = 0; i < count; i++)
        copies[i].status = ios[i].status;
}

static void
execute(struct path *path, struct kvbm_ticket *ticket)
{
    const struct kvbm_transfer_request *request = &ticket->request;
    const size_t block_size = request->source->block_size;
    enum kvt_err result = KVT_OK;
    size_t good = 0;

    for (size_t at = 0; at < request->count; at += SLICE) {
        const size_t left = request->count - at;

        copy_slice(request, request->copies + at, left < SLICE ? left : SLICE);
    }
    for (size_t i = 0; i < request->count; i++) {
        if (request->copies[i].status == KVT_OK)
            good++;
        else if (result == KVT_OK)
            result = request->copies[i].status;
    }
    atomic_fetch_add(&path->blocks, good);
    atomic_fetch_add(&path->bytes, good * block_size);
    atomic_fetch_add(&path->failed, request->count - good);
    ticket_finish(ticket, result);
}

static void *
path_run(void *arg)
{
    struct path *path = arg;

    for (;;) {
        void *item;
        struct kvbm_ticket *ticket;

        if (kvt_queue_take(path->queue, &item, 1, IDLE_WAIT) == 0) {
            if (kvt_queue_closed(path->queue) && kvt_queue_count(path->queue) == 0)
                return NULL;
            continue;
        }
        ticket = item;
        if (ticket_begin(ticket))
            execute(path, ticket);
        else
            atomic_fetch_add(&path->cancelled, 1);
        ticket_let_go(ticket);
    }
}

enum kvt_err
kvbm_transfer_new(struct kvbm_transfer **out, size_t queue_max, struct kvt_error *err)
{
    struct kvbm_transfer *transfer;
    enum kvt_err rc = KVT_NOMEM;

    assert(out != NULL);
    *out = NULL;
    transfer = kvt_calloc(1, sizeof(*transfer));
    if (transfer == NULL)
        return kvt_error_set(err, KVT_NOMEM, "transfer manager");
    for (size_t i = 0; i < KVBM_PATH_COUNT; i++) {
        struct path *path = &transfer->paths[i];
        int sys;

        rc = kvt_queue_new(&path->queue, queue_max);
        if (rc != KVT_OK) {
            (void)kvt_error_set(err, rc, "transfer manager: queue of %zu", queue_max);
            goto fail;
        }
        sys = pthread_create(&path->thread, NULL, path_run, path);
        if (sys != 0) {
            rc = kvt_error_sys(err, sys, "transfer manager: thread");
            goto fail;
        }
        path->started = true;
    }
    *out = transfer;
    return KVT_OK;

fail:
    kvbm_transfer_free(transfer);
    return rc;
}

void
kvbm_transfer_free(struct kvbm_transfer *transfer)
{
    if (transfer == NULL)
        return;
    for (size_t i = 0; i < KVBM_PATH_COUNT; i++)
        if (transfer->paths[i].queue != NULL)
            kvt_queue_close(transfer->paths[i].queue);
    for (size_t i = 0; i < KVBM_PATH_COUNT; i++) {
        if (transfer->paths[i].started)
            (void)pthread_join(transfer->paths[i].thread, NULL);
        kvt_queue_free(transfer->paths[i].queue);
    }
    kvt_free(transfer);
}

static enum kvt_err
check_request(const struct kvbm_transfer_request *request)
{
    if (request->count == 0 || request->count > KVBM_TRANSFER_COPIES_MAX ||
        request->source->block_size != request->target->block_size)
        return KVT_INVALID;
    if (kvbm_storage_address(request->source, 0) == NULL &&
        kvbm_storage_address(request->target, 0) == NULL)
        return KVT_UNSUPPORTED;
    return KVT_OK;
}

static enum kvt_err
start(struct kvbm_transfer *transfer, const struct kvbm_transfer_request *request, uint64_t wait_ms,
      struct kvbm_ticket **out)
{
    struct kvbm_ticket *ticket;
    enum kvt_err rc;

    assert((unsigned)request->path < KVBM_PATH_COUNT);
    *out = NULL;
    rc = check_request(request);
    if (rc != KVT_OK)
        return rc;
    ticket = ticket_new(request);
    if (ticket == NULL)
        return KVT_NOMEM;
    rc = kvt_queue_put_wait(transfer->paths[request->path].queue, ticket, wait_ms);
    if (rc != KVT_OK) {
        ticket_free(ticket);
        return rc == KVT_TIMEOUT ? KVT_AGAIN : rc;
    }
    *out = ticket;
    return KVT_OK;
}

enum kvt_err
kvbm_transfer_start(struct kvbm_transfer *transfer, const struct kvbm_transfer_request *request,
                    struct kvbm_ticket **ticket)
{
    return start(transfer, request, 0, ticket);
}

enum kvt_err
kvbm_transfer_wait(struct kvbm_ticket *ticket, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    enum kvt_err rc;

    (void)pthread_mutex_lock(&ticket->shared.lock);
    while (ticket->shared.state != FINISHED &&
           kvt_cond_wait(&ticket->shared.finished, &ticket->shared.lock, &deadline))
        continue;
    rc = ticket->shared.state == FINISHED ? ticket->shared.result : KVT_TIMEOUT;
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    return rc;
}

enum kvt_err
kvbm_transfer_cancel(struct kvbm_ticket *ticket)
{
    enum kvt_err rc = KVT_BUSY;

    (void)pthread_mutex_lock(&ticket->shared.lock);
    if (ticket->shared.state == QUEUED) {
        for (size_t i = 0; i < ticket->request.count; i++)
            ticket->request.copies[i].status = KVT_CANCELLED;
        ticket->shared.state = FINISHED;
        ticket->shared.result = KVT_CANCELLED;
        (void)pthread_cond_broadcast(&ticket->shared.finished);
        rc = KVT_OK;
    }
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    return rc;
}

void
kvbm_transfer_release(struct kvbm_ticket *ticket)
{
    bool finished;

    if (ticket == NULL)
        return;
    (void)pthread_mutex_lock(&ticket->shared.lock);
    finished = ticket->shared.state == FINISHED;
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    assert(finished);
    ticket_let_go(ticket);
}

enum kvt_err
kvbm_transfer_run(struct kvbm_transfer *transfer, const struct kvbm_transfer_request *request)
{
    struct kvbm_ticket *ticket;
    enum kvt_err rc;

    rc = start(transfer, request, UINT64_MAX, &ticket);
    if (rc != KVT_OK) {
        for (size_t i = 0; i < request->count; i++)
            request->copies[i].status = rc;
        return rc;
    }
    /* Storage I/O ends by itself, so this does too. */
    do
        rc = kvbm_transfer_wait(ticket, UINT64_MAX);
    while (rc == KVT_TIMEOUT);
    kvbm_transfer_release(ticket);
    return rc;
}

void
kvbm_transfer_stats(struct kvbm_transfer *transfer, enum kvbm_path path,
                    struct kvbm_transfer_stats *stats)
{
    struct path *at = &transfer->paths[path];

    stats->blocks = atomic_load(&at->blocks);
    stats->bytes = atomic_load(&at->bytes);
    stats->failed = atomic_load(&at->failed);
    stats->cancelled = atomic_load(&at->cancelled);
}
