#include "g4/object/g4_store.h"

#include <assert.h>
#include <semaphore.h>
#include <string.h>

#include "base/core/alloc.h"

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

bool
g4_attribute_plain(const char *name, size_t name_size, const char *value, size_t value_size)
{
    for (size_t i = 0; i < name_size; i++)
        if (name[i] <= 0x20 || name[i] >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", name[i]) != NULL)
            return false;
    for (size_t i = 0; i < value_size; i++)
        if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
            return false;
    return true;
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
    request->place = 0;
    request->buffer_size = 0;
    request->object_size = 0;
    request->summed = false;
    request->body_crc32c = 0;
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

static void
on_done(struct g4_request *request, void *arg)
{
    (void)request;
    (void)sem_post(arg); /* whose frame is gone as soon as it was waited for, which POSIX allows */
}

enum kvt_err
g4_store_perform(struct g4_store *store, struct g4_request *request)
{
    sem_t done;
    enum kvt_err rc;

    (void)sem_init(&done, 0, 0);
    request->done = on_done;
    request->arg = &done;
    rc = g4_store_submit(store, request);
    if (rc == KVT_OK) {
        while (sem_wait(&done) != 0) /* a signal */
            ;
        rc = request->status;
    } else {
        request->status = rc;
        (void)kvt_error_set(&request->error, rc, "%s store: %s", store->driver->name,
                            kvt_err_text(rc));
    }
    (void)sem_destroy(&done);
    return rc;
}
