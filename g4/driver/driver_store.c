#include "g4/driver/driver_store.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/thread/queue.h"
#include "g4/driver/driver_store_internal.h"

enum {
    THREADS_DEFAULT = 8,
    THREADS_MAX = 64,
    QUEUE_DEFAULT = 4096,
    TIMEOUT_DEFAULT_MS = 30000,
    WAIT_MS = 1000,
    HOST_MAX = 256,
    WHY_MAX = 128,
};

struct store {
    struct g4_foreign foreign;
    unsigned stripe_count; /* that were made */
    void *library;
    struct kvt_queue *queue; /* of struct g4_request */
    pthread_t threads[THREADS_MAX];
    unsigned thread_count; /* that run */
};

static void *
run(void *arg)
{
    struct store *store = arg;
    void *item;

    for (;;) {
        if (kvt_queue_take(store->queue, &item, 1, WAIT_MS) > 0) {
            struct g4_request *request = item;

            g4_driver_request_perform(&store->foreign, request);
            request->done(request, request->arg);
        } else if (kvt_queue_closed(store->queue)) {
            return NULL;
        }
    }
}

static enum kvt_err
foreign_submit(void *self, struct g4_request *request)
{
    struct store *store = self;

    /* What it waits for a thread counts. */
    if (request->deadline_ms == 0)
        request->deadline_ms = kvt_clock_mono_ms() + store->foreign.timeout_ms;
    return kvt_queue_put(store->queue, request);
}

static void
foreign_close(void *self)
{
    struct store *store = self;

    if (store->queue != NULL)
        kvt_queue_close(store->queue);
    for (unsigned i = 0; i < store->thread_count; i++)
        (void)pthread_join(store->threads[i], NULL);
    kvt_queue_free(store->queue);
    if (store->foreign.self != NULL)
        store->foreign.driver->close(store->foreign.self);
    for (unsigned i = 0; i < store->stripe_count; i++)
        (void)pthread_mutex_destroy(&store->foreign.stripes[i]);
    if (store->library != NULL)
        (void)dlclose(store->library);
    kvt_free(store);
}

static const struct g4_store_driver foreign_driver = {
    .name = "foreign", .submit = foreign_submit, .close = foreign_close};

/* ---- the driver ---- */

static enum kvt_err
load(struct store *store, const char *path, struct kvt_error *err)
{
    const struct g4_foreign_driver *driver;

    if (access(path, F_OK) != 0)
        return kvt_error_set(err, KVT_NOTFOUND, "store driver %s is not there", path);
    /* It stays: libraries below it were not made to be unloaded. */
    store->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (store->library == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "store driver: %.300s", dlerror());
    driver = dlsym(store->library, G4_FOREIGN_SYMBOL);
    if (driver == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "%s is no store driver: it has no %s", path,
                             G4_FOREIGN_SYMBOL);
    if (driver->abi != G4_FOREIGN_ABI || driver->size != sizeof(*driver))
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "store driver %s is for version %u of its interface, this is %u: take "
                             "the package of this release",
                             path, driver->abi, (unsigned)G4_FOREIGN_ABI);
    if (driver->open == NULL || driver->close == NULL || driver->head == NULL ||
        driver->get == NULL || driver->put == NULL || driver->remove == NULL ||
        driver->list == NULL || driver->name == NULL || driver->warning == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "store driver %s lacks a part", path);
    store->foreign.driver = driver;
    return KVT_OK;
}

/* Does the host name this machine, whatever a name server says? */
static bool
is_loopback(const char *host)
{
    const size_t size = strcspn(host, ":");

    return (size == strlen("localhost") && strncmp(host, "localhost", size) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == size);
}

static enum kvt_err
open_driver(struct store *store, const struct g4_driver_store_options *options,
            struct kvt_error *err)
{
    const bool tls = strncmp(options->endpoint, "https://", 8) == 0;
    struct g4_foreign_options asked = {.tls = tls,
                                       .path_style = options->path_style,
                                       .bucket = options->bucket,
                                       .access_key = options->access_key,
                                       .secret_key = options->secret_key};
    char why[WHY_MAX] = "";
    char host[HOST_MAX];
    int size;

    if (!tls && strncmp(options->endpoint, "http://", 7) != 0)
        return kvt_error_set(err, KVT_INVALID, "endpoint \"%s\": expected http(s)://host[:port]",
                             options->endpoint);
    size = snprintf(host, sizeof(host), "%s", options->endpoint + (tls ? 8 : 7));
    if (size > 0 && size < (int)sizeof(host) && host[size - 1] == '/')
        host[--size] = '\0';
    if (size <= 0 || size >= (int)sizeof(host) || strpbrk(host, "/?#@ ") != NULL)
        return kvt_error_set(err, KVT_INVALID, "endpoint \"%s\": expected http(s)://host[:port]",
                             options->endpoint);
    if (!options->trusted && !is_loopback(host))
        return kvt_error_set(err, KVT_INVALID,
                             "%s is another machine, %s; say that the network is trusted",
                             options->endpoint,
                             tls ? "and drivers do not check who answers over TLS: anybody between "
                                   "can pretend to be it"
                                 : "over plain HTTP: anybody between can read and change keys and "
                                   "blocks");
    asked.host = host;
    if (store->foreign.driver->open(&store->foreign.self, &asked, why, sizeof(why)) ==
        G4_FOREIGN_OK)
        return KVT_OK;
    return kvt_error_set(err, KVT_UNAVAILABLE, "store driver %s: %.100s",
                         store->foreign.driver->name, why);
}

/* ---- the one writer ---- */

static enum kvt_err
claim_bucket(struct store *store, const struct g4_driver_store_options *options,
             struct kvt_error *err)
{
    struct g4_request seen = {.verb = G4_HEAD, .key = G4_FOREIGN_WRITER_KEY};
    struct g4_request mark = {.verb = G4_PUT,
                              .key = G4_FOREIGN_WRITER_KEY,
                              .condition = G4_IF_ABSENT,
                              .body = "",
                              .meta = {.present = true}};

    memcpy(mark.meta.writer, options->writer, strlen(options->writer) + 1);
    g4_driver_request_perform(&store->foreign, &mark);
    if (mark.status == KVT_OK)
        return KVT_OK;
    if (mark.status != KVT_EXISTS)
        return kvt_error_set(err, mark.status, "%.300s", mark.error.text);
    g4_driver_request_perform(&store->foreign, &seen);
    if (seen.status != KVT_OK)
        return kvt_error_set(err, seen.status, "%.300s", seen.error.text);
    if (strcmp(seen.meta.writer, options->writer) == 0)
        return KVT_OK;
    return kvt_error_set(err, KVT_BUSY,
                         "bucket %s is written by %s, and can have one writer: remove %s when "
                         "that one is gone for good",
                         options->bucket, seen.meta.present ? seen.meta.writer : "another",
                         G4_FOREIGN_WRITER_KEY);
}

static enum kvt_err
start(struct store *store, const struct g4_driver_store_options *options, struct kvt_error *err)
{
    const unsigned threads = options->threads == 0 ? THREADS_DEFAULT : options->threads;
    enum kvt_err rc;

    rc = kvt_queue_new(&store->queue, options->queue_max == 0 ? QUEUE_DEFAULT : options->queue_max);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "store %s", options->endpoint);
    for (; store->stripe_count < G4_FOREIGN_STRIPES; store->stripe_count++)
        if (pthread_mutex_init(&store->foreign.stripes[store->stripe_count], NULL) != 0)
            return kvt_error_set(err, KVT_NOMEM, "store %s", options->endpoint);
    rc = load(store, options->path, err);
    if (rc == KVT_OK)
        rc = open_driver(store, options, err);
    if (rc == KVT_OK)
        rc = claim_bucket(store, options, err);
    for (; rc == KVT_OK && store->thread_count < threads; store->thread_count++) {
        const int sys = pthread_create(&store->threads[store->thread_count], NULL, run, store);

        if (sys != 0)
            return kvt_error_sys(err, sys, "start a thread of a loaded store");
    }
    return rc;
}

enum kvt_err
g4_driver_store_open(struct g4_store **out, const struct g4_driver_store_options *options,
                     struct kvt_error *err)
{
    const size_t name = strlen(options->writer);
    struct store *store;
    enum kvt_err rc;

    *out = NULL;
    if (options->threads > THREADS_MAX)
        return kvt_error_set(err, KVT_INVALID, "at most %d threads", THREADS_MAX);
    if (name == 0 || name >= KVT_NAME_MAX)
        return kvt_error_set(err, KVT_INVALID, "the writer's name has 1 to %d bytes",
                             KVT_NAME_MAX - 1);
    store = kvt_calloc(1, sizeof(*store));
    if (store == NULL)
        return kvt_error_set(err, KVT_NOMEM, "store %s", options->endpoint);
    store->foreign.timeout_ms = options->timeout_ms == 0 ? TIMEOUT_DEFAULT_MS : options->timeout_ms;
    rc = start(store, options, err);
    if (rc == KVT_OK) {
        rc = g4_store_new(out, &foreign_driver, store);
        if (rc != KVT_OK)
            (void)kvt_error_set(err, rc, "store %s", options->endpoint);
    }
    if (rc != KVT_OK) {
        foreign_close(store);
        return rc;
    }
    kvt_log_warn("g4.foreign", "loaded", "%s: %s", store->foreign.driver->name,
                 store->foreign.driver->warning);
    return KVT_OK;
}
