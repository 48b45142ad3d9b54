#include "g4/directory/directory.h"

#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/queue.h"
#include "g4/directory/directory_internal.h"

enum { THREADS_DEFAULT = 2, THREADS_MAX = 64, QUEUE_DEFAULT = 4096, WAIT_MS = 1000 };

struct directory {
    struct g4_directory_volume *volume;
    struct kvt_queue *queue; /* of struct g4_request */
    pthread_t threads[THREADS_MAX];
    unsigned thread_count; /* that run */
};

static void
serve(struct directory *directory, struct g4_request *request)
{
    if (request->deadline_ms != 0 && kvt_clock_mono_ms() >= request->deadline_ms)
        request->status =
            kvt_error_set(&request->error, KVT_TIMEOUT, "%s: waited too long", request->key);
    else
        g4_directory_volume_perform(directory->volume, request);
    request->done(request, request->arg);
}

static void *
run(void *arg)
{
    struct directory *directory = arg;
    void *item;

    for (;;) {
        if (kvt_queue_take(directory->queue, &item, 1, WAIT_MS) > 0)
            serve(directory, item);
        else if (kvt_queue_closed(directory->queue))
            return NULL;
    }
}

static enum kvt_err
directory_submit(void *self, struct g4_request *request)
{
    struct directory *directory = self;

    return kvt_queue_put(directory->queue, request);
}

static void
directory_close(void *self)
{
    struct directory *directory = self;

    if (directory->queue != NULL)
        kvt_queue_close(directory->queue);
    for (unsigned i = 0; i < directory->thread_count; i++)
        (void)pthread_join(directory->threads[i], NULL);
    kvt_queue_free(directory->queue);
    g4_directory_volume_close(directory->volume);
    kvt_free(directory);
}

static const struct g4_store_driver directory_driver = {
    .name = "directory", .submit = directory_submit, .close = directory_close};

static enum kvt_err
start_threads(struct directory *directory, unsigned count, struct kvt_error *err)
{
    while (directory->thread_count < count) {
        const int sys =
            pthread_create(&directory->threads[directory->thread_count], NULL, run, directory);

        if (sys != 0)
            return kvt_error_sys(err, sys, "start a thread of the directory store");
        directory->thread_count++;
    }
    return KVT_OK;
}

enum kvt_err
g4_directory_open(struct g4_store **out, const struct g4_directory_options *options,
                  struct kvt_error *err)
{
    const unsigned threads = options->threads == 0 ? THREADS_DEFAULT : options->threads;
    struct directory *directory;
    enum kvt_err rc;

    *out = NULL;
    if (threads > THREADS_MAX)
        return kvt_error_set(err, KVT_INVALID, "directory store: %u threads, at most %d", threads,
                             THREADS_MAX);
    directory = kvt_calloc(1, sizeof(*directory));
    if (directory == NULL)
        return kvt_error_set(err, KVT_NOMEM, "directory store %s", options->path);
    rc = kvt_queue_new(&directory->queue,
                       options->queue_max == 0 ? QUEUE_DEFAULT : options->queue_max);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "directory store %s", options->path);
        goto fail;
    }
    rc = g4_directory_volume_open(&directory->volume, options->path, options->bytes_max, err);
    if (rc == KVT_OK)
        rc = start_threads(directory, threads, err);
    if (rc != KVT_OK)
        goto fail;
    rc = g4_store_new(out, &directory_driver, directory);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "directory store %s", options->path);
        goto fail;
    }
    return KVT_OK;

fail:
    directory_close(directory);
    return rc;
}

enum kvt_err
g4_directory_body(struct g4_store *store, const char *key, struct g4_body *body,
                  struct kvt_error *err)
{
    struct directory *directory = g4_store_self(store, &directory_driver);

    body->fd = -1;
    if (directory == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "a %s store", g4_store_name(store));
    return g4_directory_volume_body(directory->volume, key, body, err);
}

enum kvt_err
g4_directory_peek(struct g4_store *store, const char *key, struct g4_body *body)
{
    struct directory *directory = g4_store_self(store, &directory_driver);

    body->fd = -1;
    return directory == NULL ? KVT_AGAIN : g4_directory_volume_peek(directory->volume, key, body);
}

enum kvt_err
g4_directory_sync(struct g4_store *store, const char *const *keys, size_t count, bool *refused,
                  struct kvt_error *err)
{
    struct directory *directory = g4_store_self(store, &directory_driver);

    memset(refused, 0, count * sizeof(*refused));
    if (directory == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "a %s store", g4_store_name(store));
    return g4_directory_volume_sync(directory->volume, keys, count, refused, err);
}
