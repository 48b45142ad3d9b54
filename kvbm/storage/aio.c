#include "kvbm/storage/aio.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/thread/queue.h"
#include "kvbm/storage/aio_internal.h"

enum { IDLE_WAIT = 1000 /* ms a thread waits for work before it looks again */ };

struct kvbm_aio {
    enum kvbm_aio_engine engine;
    unsigned depth;
    struct kvbm_aio_calls calls;
    struct kvbm_aio_ring *reads;
    struct kvbm_aio_ring *writes;
    struct kvt_queue *queue;
    pthread_t threads[KVBM_AIO_THREADS_MAX];
    unsigned started;
};

/* One call of kvbm_aio_run() with threads. */
struct kvbm_aio_batch {
    pthread_mutex_t lock; /* guards the list */
    pthread_cond_t ended;
    struct kvbm_aio_op *first; /* operations that ended, newest first */
};

enum kvt_err
kvbm_aio_status(int sys)
{
    switch (sys) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return KVT_FULL;
    case EINVAL:
    case EOPNOTSUPP: return KVT_UNSUPPORTED;
    default: return KVT_IO;
    }
}

static void
perform(const struct kvbm_aio *aio, struct kvbm_aio_op *op)
{
    op->status = KVT_OK;
    while (op->done < op->size) {
        uint8_t *at = (uint8_t *)op->bytes + op->done;
        const size_t left = op->size - op->done;
        const off_t offset = (off_t)(op->offset + op->done);
        const ssize_t n = op->writing ? aio->calls.write(op->fd, at, left, offset)
                                      : aio->calls.read(op->fd, at, left, offset);

        if (n > 0) {
            op->done += (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        op->status = n < 0 ? kvbm_aio_status(errno) : KVT_IO;
        return;
    }
}

static void *
serve(void *arg)
{
    struct kvbm_aio *aio = arg;

    for (;;) {
        struct kvbm_aio_batch *batch;
        struct kvbm_aio_op *op;
        void *item;

        if (kvt_queue_take(aio->queue, &item, 1, IDLE_WAIT) == 0) {
            if (kvt_queue_closed(aio->queue) && kvt_queue_count(aio->queue) == 0)
                return NULL;
            continue;
        }
        op = item;
        batch = op->batch;
        perform(aio, op);
        (void)pthread_mutex_lock(&batch->lock);
        op->next = batch->first;
        batch->first = op;
        (void)pthread_cond_signal(&batch->ended);
        (void)pthread_mutex_unlock(&batch->lock);
    }
}

static enum kvt_err
open_threads(struct kvbm_aio *aio, struct kvt_error *err)
{
    const unsigned wanted = aio->depth < KVBM_AIO_THREADS_MAX ? aio->depth : KVBM_AIO_THREADS_MAX;
    const enum kvt_err rc = kvt_queue_new(&aio->queue, aio->depth);

    aio->engine = KVBM_AIO_THREADS;
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "disk I/O: queue of %u", aio->depth);
    for (; aio->started < wanted; aio->started++) {
        const int sys = pthread_create(&aio->threads[aio->started], NULL, serve, aio);

        if (sys != 0)
            return kvt_error_sys(err, sys, "disk I/O: thread");
    }
    return KVT_OK;
}

static enum kvt_err
open_rings(struct kvbm_aio *aio, struct kvt_error *err)
{
    enum kvt_err rc = kvbm_aio_ring_open(&aio->reads, aio->depth, err);

    if (rc == KVT_OK)
        rc = kvbm_aio_ring_open(&aio->writes, aio->depth, err);
    if (rc == KVT_OK) {
        aio->engine = KVBM_AIO_URING;
        return KVT_OK;
    }
    kvbm_aio_ring_close(aio->reads);
    aio->reads = NULL;
    return rc;
}

enum kvt_err
kvbm_aio_open(struct kvbm_aio **out, const struct kvbm_aio_options *options, struct kvt_error *err)
{
    static const struct kvbm_aio_calls system_calls = {pread, pwrite, fdatasync};
    struct kvbm_aio *aio;
    enum kvt_err rc = KVT_UNSUPPORTED;

    assert(out != NULL && options->depth > 0 && options->depth <= KVBM_AIO_DEPTH_MAX);
    *out = NULL;
    aio = kvt_calloc(1, sizeof(*aio));
    if (aio == NULL)
        return kvt_error_set(err, KVT_NOMEM, "disk I/O");
    aio->depth = options->depth;
    aio->calls = options->calls != NULL ? *options->calls : system_calls;
    if (options->engine != KVBM_AIO_THREADS && options->calls == NULL)
        rc = open_rings(aio, err);
    if (rc == KVT_UNSUPPORTED && options->engine != KVBM_AIO_URING)
        rc = open_threads(aio, err);
    if (rc != KVT_OK) {
        kvbm_aio_close(aio);
        return rc;
    }
    *out = aio;
    return KVT_OK;
}

void
kvbm_aio_close(struct kvbm_aio *aio)
{
    if (aio == NULL)
        return;
    kvbm_aio_ring_close(aio->reads);
    kvbm_aio_ring_close(aio->writes);
    if (aio->queue != NULL)
        kvt_queue_close(aio->queue);
    for (unsigned i = 0; i < aio->started; i++)
        (void)pthread_join(aio->threads[i], NULL);
    kvt_queue_free(aio->queue);
    kvt_free(aio);
}

enum kvbm_aio_engine
kvbm_aio_engine(const struct kvbm_aio *aio)
{
    return aio->engine;
}

/* Wait for at least one that ended; the list is in no order anybody relies on. */
static struct kvbm_aio_op *
collect(struct kvbm_aio_batch *batch)
{
    struct kvbm_aio_op *first;

    (void)pthread_mutex_lock(&batch->lock);
    while (batch->first == NULL)
        (void)pthread_cond_wait(&batch->ended, &batch->lock);
    first = batch->first;
    batch->first = NULL;
    (void)pthread_mutex_unlock(&batch->lock);
    return first;
}

static void
run_threads(struct kvbm_aio *aio, struct kvbm_aio_op *ops, size_t count, kvbm_aio_landed_fn *landed,
            void *arg)
{
    struct kvbm_aio_batch batch = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};
    size_t next = 0;
    size_t flying = 0;

    while (next < count || flying > 0) {
        struct kvbm_aio_op *op;

        while (next < count && flying < aio->depth) {
            ops[next].batch = &batch;
            if (kvt_queue_put_wait(aio->queue, &ops[next], UINT64_MAX) == KVT_OK) {
                next++;
                flying++;
            }
        }
        for (op = collect(&batch); op != NULL;) {
            struct kvbm_aio_op *following = op->next;

            flying--;
            if (landed != NULL)
                landed(arg, op);
            op = following;
        }
    }
    (void)pthread_cond_destroy(&batch.ended);
    (void)pthread_mutex_destroy(&batch.lock);
}

void
kvbm_aio_run(struct kvbm_aio *aio, int fd, bool writing, struct kvbm_aio_op *ops, size_t count,
             kvbm_aio_landed_fn *landed, void *arg)
{
    for (size_t i = 0; i < count; i++) {
        assert(ops[i].size > 0);
        ops[i].status = KVT_IO;
        ops[i].done = 0;
        ops[i].fd = fd;
        ops[i].writing = writing;
    }
    if (aio->engine == KVBM_AIO_URING)
        kvbm_aio_ring_run(writing ? aio->writes : aio->reads, ops, count, landed, arg);
    else
        run_threads(aio, ops, count, landed, arg);
}

enum kvt_err
kvbm_aio_write(struct kvbm_aio *aio, int fd, const void *bytes, size_t size, uint64_t offset)
{
    union {
        const void *in;
        void *out;
    } cast = {.in = bytes};
    struct kvbm_aio_op op = {
        .bytes = cast.out, .size = size, .offset = offset, .fd = fd, .writing = true};

    perform(aio, &op);
    return op.status;
}

enum kvt_err
kvbm_aio_read(struct kvbm_aio *aio, int fd, void *bytes, size_t size, uint64_t offset)
{
    struct kvbm_aio_op op = {.bytes = bytes, .size = size, .offset = offset, .fd = fd};

    perform(aio, &op);
    return op.status;
}

enum kvt_err
kvbm_aio_sync(struct kvbm_aio *aio, int fd)
{
    int rc;

    do
        rc = aio->calls.sync(fd);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? KVT_OK : kvbm_aio_status(errno);
}
