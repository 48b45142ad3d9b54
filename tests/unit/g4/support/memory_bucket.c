#include "tests/unit/g4/support/memory_bucket.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"

#include "tests/support/seed.h"

#define SHELF_EPOCH_MS UINT64_C(1800000000000)

static uint64_t
unix_ms(const struct shelf *shelf)
{
    return SHELF_EPOCH_MS + shelf->now_ms;
}

/* Where a key is, or would be. */
static size_t
place_of(const struct shelf *shelf, const char *key)
{
    size_t at = 0;

    while (at < shelf->count && strcmp(shelf->objects[at].key, key) < 0)
        at++;
    return at;
}

struct shelf_object *
shelf_find(struct shelf *shelf, const char *key)
{
    const size_t at = place_of(shelf, key);

    return at < shelf->count && strcmp(shelf->objects[at].key, key) == 0 ? &shelf->objects[at]
                                                                         : NULL;
}

size_t
shelf_count(const struct shelf *shelf, const char *prefix)
{
    size_t count = 0;

    for (size_t i = 0; i < shelf->count; i++)
        count += strncmp(shelf->objects[i].key, prefix, strlen(prefix)) == 0;
    return count;
}

static void
take_away(struct shelf *shelf, struct shelf_object *object)
{
    kvt_free(object->body);
    memmove(object, object + 1,
            (size_t)(shelf->objects + shelf->count - (object + 1)) * sizeof(*object));
    shelf->count--;
}

void
shelf_clear(struct shelf *shelf)
{
    while (shelf->count > 0)
        take_away(shelf, &shelf->objects[shelf->count - 1]);
}

static enum kvt_err
put(struct shelf *shelf, struct g4_request *request)
{
    struct shelf_object *object = shelf_find(shelf, request->key);
    uint8_t *body = kvt_calloc(request->body_size + 1, 1);

    if (body == NULL)
        return KVT_NOMEM;
    if (object == NULL) {
        const size_t at = place_of(shelf, request->key);

        assert_true(shelf->count < SHELF_OBJECTS_MAX);
        object = &shelf->objects[at];
        memmove(object + 1, object, (shelf->count - at) * sizeof(*object));
        memset(object, 0, sizeof(*object));
        (void)snprintf(object->key, sizeof(object->key), "%s", request->key);
        shelf->count++;
    }
    kvt_free(object->body);
    object->body = body;
    memcpy(object->body, request->body, request->body_size);
    object->size = request->body_size;
    object->meta = request->meta;
    object->modified_ms = unix_ms(shelf);
    (void)snprintf(object->etag, sizeof(object->etag), "%08x-%zu",
                   g4_check_crc32c(request->body, request->body_size), request->body_size);
    memcpy(request->etag, object->etag, sizeof(object->etag));
    return KVT_OK;
}

static enum kvt_err
get(const struct shelf_object *object, struct g4_request *request)
{
    const bool part = request->range_size > 0;
    size_t size;

    if (object == NULL)
        return KVT_NOTFOUND;
    memcpy(request->etag, object->etag, sizeof(object->etag));
    request->meta = object->meta;
    request->modified_ms = object->modified_ms / 1000 * 1000;
    request->object_size = object->size;
    request->buffer_size = object->size;
    if (request->verb == G4_HEAD)
        return KVT_OK;
    request->buffer_size = 0;
    if (part && request->range_at >= object->size)
        return KVT_RANGE;
    size = object->size - (part ? (size_t)request->range_at : 0);
    if (part && size > request->range_size)
        size = request->range_size;
    if (size > request->buffer_capacity)
        return KVT_RANGE;
    if (request->buffer == NULL)
        request->buffer = kvt_calloc(size + 1, 1);
    if (request->buffer == NULL)
        return KVT_NOMEM;
    memcpy(request->buffer, object->body + (part ? request->range_at : 0), size);
    request->buffer_size = size;
    return KVT_OK;
}

static void
list(const struct shelf *shelf, struct g4_request *request)
{
    const char *after = request->token[0] != '\0' ? request->token : request->after;
    const char *last = NULL;

    request->listed_count = 0;
    for (size_t i = 0; i < shelf->count; i++) {
        const struct shelf_object *object = &shelf->objects[i];
        struct g4_listed *row = &request->listed[request->listed_count];

        if (strncmp(object->key, request->key, strlen(request->key)) != 0 ||
            (after != NULL && strcmp(object->key, after) <= 0))
            continue;
        if (request->listed_count == SHELF_PAGE) {
            (void)snprintf(request->token, sizeof(request->token), "%s", last);
            return;
        }
        memset(row, 0, sizeof(*row));
        memcpy(row->key, object->key, sizeof(row->key));
        memcpy(row->etag, object->etag, sizeof(row->etag));
        row->size = object->size;
        row->modified_ms = object->modified_ms;
        last = object->key;
        request->listed_count++;
    }
    request->token[0] = '\0';
}

static enum kvt_err
serve(struct shelf *shelf, struct g4_request *request)
{
    struct shelf_object *object = request->verb == G4_LIST ? NULL : shelf_find(shelf, request->key);

    request->server_ms = unix_ms(shelf) / 1000 * 1000;
    if (request->condition == G4_IF_ABSENT && object != NULL)
        return KVT_EXISTS;
    if (request->condition == G4_IF_MATCH && object == NULL)
        return KVT_NOTFOUND;
    if (request->condition == G4_IF_MATCH && strcmp(object->etag, request->etag) != 0)
        return KVT_PRECONDITION;
    switch (request->verb) {
    case G4_GET:
    case G4_HEAD: return get(object, request);
    case G4_PUT: return put(shelf, request);
    case G4_LIST: list(shelf, request); return KVT_OK;
    case G4_DELETE:
        if (object == NULL)
            return KVT_NOTFOUND;
        take_away(shelf, object);
        return KVT_OK;
    }
    return KVT_INVALID;
}

/* Its answer is lost, whatever was done. */
static void
lose_answer(struct g4_request *request, bool own_buffer)
{
    if (own_buffer) {
        kvt_free(request->buffer);
        request->buffer = NULL;
    }
    request->buffer_size = 0;
    request->listed_count = 0;
}

static enum kvt_err
submit(void *self, struct g4_request *request)
{
    struct shelf_client *client = self;
    struct shelf *shelf = client->shelf;
    const bool own_buffer = request->buffer == NULL;
    bool hit;

    pthread_mutex_lock(&shelf->lock);
    hit = ++client->calls == client->at;
    pthread_mutex_unlock(&shelf->lock);
    if (hit && client->between != NULL)
        client->between(client->arg, request);
    pthread_mutex_lock(&shelf->lock);
    shelf->now_ms += 1 + client->slow_ms;
    client->dead = client->dead || (hit && client->death == SHELF_DIES_BEFORE);
    request->status = client->dead ? KVT_UNAVAILABLE : serve(shelf, request);
    if (hit && (client->death == SHELF_DIES_AFTER || client->death == SHELF_STUMBLES)) {
        client->dead = client->death == SHELF_DIES_AFTER;
        request->status = KVT_TIMEOUT;
        lose_answer(request, own_buffer);
    }
    pthread_mutex_unlock(&shelf->lock);
    if (request->status != KVT_OK)
        (void)kvt_error_set(&request->error, request->status, "the shelf says %s",
                            kvt_err_text(request->status));
    request->done(request, request->arg);
    return KVT_OK;
}

static void
leave(void *self)
{
    (void)self;
}

struct g4_store *
shelf_open(struct shelf_client *client)
{
    static const struct g4_store_driver driver = {
        .name = "shelf", .submit = submit, .close = leave};
    struct g4_store *store;

    assert_int_equal(g4_store_new(&store, &driver, client), KVT_OK);
    return store;
}

static uint64_t
clock_mono(void *arg)
{
    return 1000 + ((const struct shelf *)arg)->now_ms;
}

static uint64_t
clock_unix(void *arg)
{
    return unix_ms(arg);
}

struct g4_lock_clock
shelf_clock(struct shelf *shelf)
{
    return (struct g4_lock_clock){.mono_ms = clock_mono, .unix_ms = clock_unix, .arg = shelf};
}
