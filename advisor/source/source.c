#include "advisor/source/source.h"

#include <stdio.h>
#include <string.h>

#include "advisor/source/source_private.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

enum { ROOM_WAIT_MS = 100 };

const struct advisor_source_options advisor_source_unset = {
    .stream = "",
    .durable = "",
    .subject = "",
    .endpoints = "",
    .replay = "",
    .topic = "",
    .dump_url = "",
    .discovery = "",
    .listen = "",
    .bucket_url = "",
    .bucket_region = "",
    .bucket_credentials_file = "",
    .snapshot_bucket = "",
};

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
    rc = advisor_inbox_new(&source->inbox, ADVISOR_SOURCE_ITEMS_MAX, ADVISOR_SOURCE_BYTES_MAX);
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
    if (source == NULL)
        return;
    atomic_store(&source->stopping, true);
    if (source->inbox != NULL) {
        advisor_inbox_close(source->inbox);
        source->ops->close(source);
        advisor_inbox_free(source->inbox);
    }
    (void)pthread_mutex_destroy(&source->shared.lock);
    kvt_free(source);
}

size_t
advisor_source_poll(struct advisor_source *source, struct advisor_inbox_item **items, size_t max,
                    uint64_t wait_ms)
{
    return advisor_inbox_take(source->inbox, items, max, wait_ms);
}

void
advisor_source_state(struct advisor_source *source, struct advisor_source_state *state)
{
    (void)pthread_mutex_lock(&source->shared.lock);
    *state = source->shared.state;
    (void)pthread_mutex_unlock(&source->shared.lock);
    state->messages = atomic_load(&source->messages);
    advisor_inbox_waiting(source->inbox, &state->waiting, &state->bytes);
}

void
advisor_source_applied(struct advisor_source *source, uint64_t seq, uint64_t created_ms)
{
    (void)pthread_mutex_lock(&source->shared.lock);
    source->shared.applied_seq = seq;
    source->shared.applied_of_ms = created_ms;
    (void)pthread_mutex_unlock(&source->shared.lock);
}

uint64_t
advisor_source_applied_seq(struct advisor_source *source, uint64_t created_ms)
{
    uint64_t seq;

    (void)pthread_mutex_lock(&source->shared.lock);
    seq = source->shared.applied_of_ms == created_ms ? source->shared.applied_seq : 0;
    (void)pthread_mutex_unlock(&source->shared.lock);
    return seq;
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

/* True: it is in.  False: try again; a full inbox was waited for, memory is now. */
static bool
came_in(struct advisor_source *source, enum kvt_err rc)
{
    if (rc == KVT_NOMEM)
        kvt_clock_sleep_ms(ROOM_WAIT_MS);
    if (rc == KVT_OK)
        atomic_fetch_add_explicit(&source->messages, 1, memory_order_relaxed);
    return rc == KVT_OK;
}

bool
advisor_source_push_wait(struct advisor_source *source, struct advisor_inbox_item *item)
{
    while (!atomic_load(&source->stopping))
        if (came_in(source, advisor_inbox_put(source->inbox, item, ROOM_WAIT_MS)))
            return true;
    advisor_inbox_item_free(item);
    return false;
}

bool
advisor_source_copy_wait(struct advisor_source *source, const struct advisor_inbox_item *like,
                         const char *subject, const void *bytes, size_t size)
{
    while (!atomic_load(&source->stopping))
        if (came_in(source,
                    advisor_inbox_copy(source->inbox, like, subject, bytes, size, ROOM_WAIT_MS)))
            return true;
    return false;
}

void
advisor_source_count_dropped(struct advisor_source *source)
{
    (void)pthread_mutex_lock(&source->shared.lock);
    source->shared.state.dropped++;
    (void)pthread_mutex_unlock(&source->shared.lock);
}

bool
advisor_source_copy(struct advisor_source *source, const struct advisor_inbox_item *like,
                    const char *subject, const void *bytes, size_t size)
{
    atomic_fetch_add_explicit(&source->messages, 1, memory_order_relaxed);
    if (advisor_inbox_copy(source->inbox, like, subject, bytes, size, 0) == KVT_OK)
        return true;
    advisor_source_count_dropped(source);
    return false;
}

enum kvt_err
advisor_source_start(struct advisor_source *source, void *(*run)(void *arg), void *arg)
{
    source->threaded = pthread_create(&source->thread, NULL, run, arg) == 0;
    return source->threaded ? KVT_OK : KVT_NOMEM;
}

void
advisor_source_join(struct advisor_source *source)
{
    if (source->threaded)
        (void)pthread_join(source->thread, NULL);
    source->threaded = false;
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

/* ---- kinds ---- */

/* What `kind` in sources.file may say. */
static const struct advisor_source_ops *const kinds[] = {
    &advisor_source_jetstream,        &advisor_source_core,       &advisor_source_dynamo_nats,
    &advisor_source_dynamo_jetstream, &advisor_source_dynamo_zmq, &advisor_source_engine_zmq,
    &advisor_source_kvbm_nats,        &advisor_source_kvbm_zmq,   &advisor_source_minio_nats,
};

const struct advisor_source_ops *
advisor_source_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

size_t
advisor_source_kind_names(const char **names, size_t capacity)
{
    size_t count = 0;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && count < capacity; i++)
        names[count++] = kinds[i]->name;
    return count;
}
