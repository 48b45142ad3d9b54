#include "advisor/source.h"

#include <stdio.h>

#include "advisor/source_private.h"
#include "base/alloc.h"
#include "base/clock.h"

enum { ROOM_WAIT_MS = 5 };

enum kvt_err
advisor_source_open(struct advisor_source **out, const struct advisor_source_ops *ops,
                    const struct advisor_source_options *options)
{
    struct advisor_source *source = kvt_calloc(1, sizeof(*source));
    enum kvt_err rc = KVT_NOMEM;

    *out = NULL;
    if (source == NULL)
        return KVT_NOMEM;
    source->ops = ops;
    source->options = *options;
    if (pthread_mutex_init(&source->shared.lock, NULL) != 0) {
        kvt_free(source);
        return KVT_NOMEM;
    }
    rc = kvt_queue_new(&source->queue, ADVISOR_SOURCE_ITEMS_MAX);
    if (rc == KVT_OK)
        rc = ops->open(source);
    if (rc != KVT_OK) {
        advisor_source_close(source);
        return rc;
    }
    *out = source;
    return KVT_OK;
}

void
advisor_source_stop(struct advisor_source *source)
{
    atomic_store(&source->stopping, true);
}

void
advisor_source_close(struct advisor_source *source)
{
    struct advisor_item *item;

    if (source == NULL)
        return;
    atomic_store(&source->stopping, true);
    if (source->queue != NULL) {
        kvt_queue_close(source->queue);
        source->ops->close(source);
        while (advisor_source_poll(source, &item, 1, 0) > 0)
            advisor_item_free(item);
        kvt_queue_free(source->queue);
    }
    (void)pthread_mutex_destroy(&source->shared.lock);
    kvt_free(source);
}

/* What is counted is counted before it can be taken. */
static void
count_in(struct advisor_source *source, size_t size)
{
    atomic_fetch_add(&source->bytes, size);
    atomic_fetch_add(&source->waiting, 1);
}

static void
count_out(struct advisor_source *source, size_t size)
{
    atomic_fetch_sub(&source->bytes, size);
    atomic_fetch_sub(&source->waiting, 1);
}

size_t
advisor_source_poll(struct advisor_source *source, struct advisor_item **items, size_t max,
                    uint64_t wait_ms)
{
    void *taken[256];
    size_t count;

    if (max > sizeof(taken) / sizeof(taken[0]))
        max = sizeof(taken) / sizeof(taken[0]);
    count = kvt_queue_take(source->queue, taken, max, wait_ms);
    for (size_t i = 0; i < count; i++) {
        items[i] = taken[i];
        count_out(source, items[i]->size);
    }
    return count;
}

void
advisor_source_state(struct advisor_source *source, struct advisor_source_state *state)
{
    (void)pthread_mutex_lock(&source->shared.lock);
    *state = source->shared.state;
    (void)pthread_mutex_unlock(&source->shared.lock);
    state->messages = atomic_load(&source->messages);
    state->waiting = atomic_load(&source->waiting);
    state->bytes = atomic_load(&source->bytes);
}

enum kvt_err
advisor_source_ask(struct advisor_source *source, const struct advisor_ask *ask,
                   enum advisor_answer_kind *kind, struct kvt_buffer *answer, struct kvt_error *err)
{
    *kind = ADVISOR_ANSWER_PAGE;
    if (source->ops->ask == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "nobody can be asked");
    return source->ops->ask(source, ask, kind, answer, err);
}

const struct advisor_source_ops *
advisor_source_dialect(const struct advisor_source *source)
{
    return source->ops;
}

bool
advisor_source_push_wait(struct advisor_source *source, struct advisor_item *item)
{
    const size_t size = item->size;

    while (!atomic_load(&source->stopping)) {
        if (atomic_load(&source->bytes) >= ADVISOR_SOURCE_BYTES_MAX) {
            kvt_clock_sleep_ms(ROOM_WAIT_MS);
            continue;
        }
        count_in(source, size);
        if (kvt_queue_put_wait(source->queue, item, 100) == KVT_OK) {
            atomic_fetch_add(&source->messages, 1);
            return true;
        }
        count_out(source, size);
    }
    advisor_item_free(item);
    return false;
}

bool
advisor_source_push(struct advisor_source *source, struct advisor_item *item)
{
    const size_t size = item->size;

    atomic_fetch_add(&source->messages, 1);
    if (atomic_load(&source->bytes) < ADVISOR_SOURCE_BYTES_MAX) {
        count_in(source, size);
        if (kvt_queue_put(source->queue, item) == KVT_OK)
            return true;
        count_out(source, size);
    }
    advisor_item_free(item);
    (void)pthread_mutex_lock(&source->shared.lock);
    source->shared.state.dropped++;
    (void)pthread_mutex_unlock(&source->shared.lock);
    return false;
}

void
advisor_source_set_running(struct advisor_source *source, bool running, const char *detail)
{
    (void)pthread_mutex_lock(&source->shared.lock);
    source->shared.state.running = running;
    (void)snprintf(source->shared.state.detail, sizeof(source->shared.state.detail), "%s", detail);
    (void)pthread_mutex_unlock(&source->shared.lock);
}

void
advisor_source_set_last(struct advisor_source *source, uint64_t last_seq)
{
    (void)pthread_mutex_lock(&source->shared.lock);
    source->shared.state.last_seq = last_seq;
    (void)pthread_mutex_unlock(&source->shared.lock);
}
