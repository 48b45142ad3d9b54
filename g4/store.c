#include "g4/store.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"

struct g4_store {
    const struct g4_store_driver *driver;
    void *self;
};

enum kvt_err
g4_store_new(struct g4_store **out, const struct g4_store_driver *driver, void *self)
{
    assert(driver != NULL && driver->submit != NULL && driver->close != NULL);
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return KVT_NOMEM;
    (*out)->driver = driver;
    (*out)->self = self;
    return KVT_OK;
}

void
g4_store_close(struct g4_store *store)
{
    if (store == NULL)
        return;
    store->driver->close(store->self);
    kvt_free(store);
}

const char *
g4_store_name(const struct g4_store *store)
{
    return store->driver->name;
}

void *
g4_store_self(const struct g4_store *store, const struct g4_store_driver *driver)
{
    return store->driver == driver ? store->self : NULL;
}

static bool
condition_valid(const struct g4_request *request)
{
    switch (request->condition) {
    case G4_ALWAYS: return true;
    case G4_IF_ABSENT: return request->verb == G4_PUT;
    case G4_IF_MATCH:
        return (request->verb == G4_PUT || request->verb == G4_DELETE || request->verb == G4_GET) &&
               request->etag[0] != '\0' &&
               memchr(request->etag, '\0', sizeof(request->etag)) != NULL;
    }
    return false;
}

static bool
attributes_valid(const char *text)
{
    size_t lines = 0;

    if (text == NULL)
        return true;
    if (memchr(text, '\0', G4_ATTRIBUTES_MAX) == NULL)
        return false;
    for (; *text != '\0'; lines++) {
        const size_t name = strcspn(text, ":\n");
        const size_t line = strcspn(text, "\n");

        if (name == 0 || text[name] != ':' || text[name + 1] != ' ' || text[line] != '\n')
            return false;
        for (size_t i = 0; i < line; i++)
            if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
                return false;
        text += line + 1;
    }
    return lines <= G4_ATTRIBUTE_LINES;
}

static bool
request_valid(const struct g4_request *request)
{
    if (request->done == NULL || request->key == NULL || strlen(request->key) >= KVT_KEY_MAX ||
        !condition_valid(request))
        return false;
    if (request->range_size != 0 &&
        (request->verb != G4_GET || request->range_at > (uint64_t)INT64_MAX - request->range_size))
        return false;
    switch (request->verb) {
    case G4_GET:
    case G4_HEAD:
    case G4_DELETE: return request->key[0] != '\0';
    case G4_PUT:
        return request->key[0] != '\0' && (request->body != NULL || !request->body_size) &&
               attributes_valid(request->attributes);
    case G4_LIST:
        return request->listed != NULL &&
               memchr(request->token, '\0', sizeof(request->token)) != NULL;
    }
    return false;
}

enum kvt_err
g4_store_submit(struct g4_store *store, struct g4_request *request)
{
    if (!request_valid(request))
        return KVT_INVALID;
    request->status = KVT_OK;
    request->http = 0;
    request->modified_ms = 0;
    request->server_ms = 0;
    request->buffer_size = 0;
    request->object_size = 0;
    request->store_private = NULL;
    request->listed_count = 0;
    memset(&request->error, 0, sizeof(request->error));
    if (request->condition != G4_IF_MATCH)
        request->etag[0] = '\0';
    if (request->verb != G4_PUT)
        memset(&request->meta, 0, sizeof(request->meta));
    if (request->verb != G4_PUT && request->attributes != NULL)
        request->attributes[0] = '\0';
    return store->driver->submit(store->self, request);
}

/* Somebody waits for one request. */
struct waiter {
    pthread_mutex_t lock; /* guards `done` */
    pthread_cond_t changed;
    bool done;
};

static void
on_done(struct g4_request *request, void *arg)
{
    struct waiter *waiter = arg;

    (void)request;
    pthread_mutex_lock(&waiter->lock);
    waiter->done = true;
    /* Inside the lock: the waiter's frame is gone as soon as it sees `done`. */
    pthread_cond_signal(&waiter->changed);
    pthread_mutex_unlock(&waiter->lock);
}

enum kvt_err
g4_store_perform(struct g4_store *store, struct g4_request *request)
{
    struct waiter waiter = {.done = false};
    enum kvt_err rc;

    (void)pthread_mutex_init(&waiter.lock, NULL);
    (void)pthread_cond_init(&waiter.changed, NULL);
    request->done = on_done;
    request->arg = &waiter;
    rc = g4_store_submit(store, request);
    if (rc == KVT_OK) {
        pthread_mutex_lock(&waiter.lock);
        while (!waiter.done)
            pthread_cond_wait(&waiter.changed, &waiter.lock);
        pthread_mutex_unlock(&waiter.lock);
        rc = request->status;
    } else {
        request->status = rc;
        (void)kvt_error_set(&request->error, rc, "%s store: %s", store->driver->name,
                            kvt_err_text(rc));
    }
    (void)pthread_cond_destroy(&waiter.changed);
    (void)pthread_mutex_destroy(&waiter.lock);
    return rc;
}
