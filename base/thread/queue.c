#include "base/thread/queue.h"

#include <assert.h>
#include <pthread.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"

struct kvt_queue {
    size_t capacity;

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        pthread_cond_t not_empty;
        pthread_cond_t not_full;
        void **items; /* a ring */
        size_t first;
        size_t count;
        bool closed;
    } shared;
};

enum kvt_err
kvt_queue_new(struct kvt_queue **out, size_t capacity)
{
    struct kvt_queue *queue;

    assert(out != NULL);
    *out = NULL;
    if (capacity == 0)
        return KVT_INVALID;
    queue = kvt_calloc(1, sizeof(*queue));
    if (queue == NULL)
        return KVT_NOMEM;
    queue->capacity = capacity;
    queue->shared.items = kvt_calloc(capacity, sizeof(*queue->shared.items));
    if (queue->shared.items == NULL)
        goto fail_items;
    if (pthread_mutex_init(&queue->shared.lock, NULL) != 0)
        goto fail_items;
    if (!kvt_cond_init(&queue->shared.not_empty))
        goto fail_lock;
    if (!kvt_cond_init(&queue->shared.not_full))
        goto fail_not_empty;
    *out = queue;
    return KVT_OK;

    /* Not kvt_queue_free(): there is no value that says "this lock was never made". */
fail_not_empty:
    (void)pthread_cond_destroy(&queue->shared.not_empty);
fail_lock:
    (void)pthread_mutex_destroy(&queue->shared.lock);
fail_items:
    kvt_free(queue->shared.items);
    kvt_free(queue);
    return KVT_NOMEM;
}

void
kvt_queue_free(struct kvt_queue *queue)
{
    if (queue == NULL)
        return;
    (void)pthread_cond_destroy(&queue->shared.not_full);
    (void)pthread_cond_destroy(&queue->shared.not_empty);
    (void)pthread_mutex_destroy(&queue->shared.lock);
    kvt_free(queue->shared.items);
    kvt_free(queue);
}

enum kvt_err
kvt_queue_put_wait(struct kvt_queue *queue, void *item, uint64_t wait_ms)
{
    enum kvt_err rc = KVT_OK;

    (void)pthread_mutex_lock(&queue->shared.lock);
    if (wait_ms > 0) {
        const struct timespec deadline = kvt_cond_deadline(wait_ms);

        while (queue->shared.count == queue->capacity && !queue->shared.closed && rc == KVT_OK)
            if (!kvt_cond_wait(&queue->shared.not_full, &queue->shared.lock, &deadline))
                rc = KVT_TIMEOUT;
    }
    if (queue->shared.closed) {
        rc = KVT_CANCELLED;
    } else if (queue->shared.count == queue->capacity) {
        rc = wait_ms > 0 ? KVT_TIMEOUT : KVT_AGAIN;
    } else {
        const size_t end = (queue->shared.first + queue->shared.count) % queue->capacity;

        rc = KVT_OK; /* room that came in the last instant is still room */
        queue->shared.items[end] = item;
        queue->shared.count++;
        (void)pthread_cond_signal(&queue->shared.not_empty);
    }
    (void)pthread_mutex_unlock(&queue->shared.lock);
    return rc;
}

enum kvt_err
kvt_queue_put(struct kvt_queue *queue, void *item)
{
    return kvt_queue_put_wait(queue, item, 0);
}

size_t
kvt_queue_take(struct kvt_queue *queue, void **items, size_t max, uint64_t wait_ms)
{
    size_t taken = 0;

    (void)pthread_mutex_lock(&queue->shared.lock);
    if (wait_ms > 0) {
        const struct timespec deadline = kvt_cond_deadline(wait_ms);

        while (queue->shared.count == 0 && !queue->shared.closed)
            if (!kvt_cond_wait(&queue->shared.not_empty, &queue->shared.lock, &deadline))
                break;
    }
    while (taken < max && queue->shared.count > 0) {
        items[taken++] = queue->shared.items[queue->shared.first];
        queue->shared.first = (queue->shared.first + 1) % queue->capacity;
        queue->shared.count--;
    }
    if (taken > 0)
        (void)pthread_cond_broadcast(&queue->shared.not_full);
    /* put() wakes one taker an item; one that takes fewer than it left must pass the word on. */
    if (queue->shared.count > 0)
        (void)pthread_cond_signal(&queue->shared.not_empty);
    (void)pthread_mutex_unlock(&queue->shared.lock);
    return taken;
}

void
kvt_queue_close(struct kvt_queue *queue)
{
    (void)pthread_mutex_lock(&queue->shared.lock);
    queue->shared.closed = true;
    (void)pthread_cond_broadcast(&queue->shared.not_empty);
    (void)pthread_cond_broadcast(&queue->shared.not_full);
    (void)pthread_mutex_unlock(&queue->shared.lock);
}

bool
kvt_queue_closed(struct kvt_queue *queue)
{
    bool closed;

    (void)pthread_mutex_lock(&queue->shared.lock);
    closed = queue->shared.closed;
    (void)pthread_mutex_unlock(&queue->shared.lock);
    return closed;
}

size_t
kvt_queue_count(struct kvt_queue *queue)
{
    size_t count;

    (void)pthread_mutex_lock(&queue->shared.lock);
    count = queue->shared.count;
    (void)pthread_mutex_unlock(&queue->shared.lock);
    return count;
}
