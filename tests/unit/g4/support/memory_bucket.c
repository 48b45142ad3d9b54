#include "tests/unit/g4/support/memory_bucket.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"

#include "tests/support/seed.h"

#define MEMORY_BUCKET_EPOCH_MS UINT64_C(1800000000000)

static uint64_t
unix_ms(const struct memory_bucket *bucket)
{
    return MEMORY_BUCKET_EPOCH_MS + bucket->now_ms;
}

/* Where a key is, or would be. */
static size_t
place_of(const struct memory_bucket *bucket, const char *key)
{
    size_t at = 0;

    while (at < bucket->count && strcmp(bucket->objects[at].key, key) < 0)
        at++;
    return at;
}

struct memory_bucket_object *
memory_bucket_find(struct memory_bucket *bucket, const char *key)
{
    const size_t at = place_of(bucket, key);

    return at < bucket->count && strcmp(bucket->objects[at].key, key) == 0 ? &bucket->objects[at]
                                                                           : NULL;
}

size_t
memory_bucket_count(const struct memory_bucket *bucket, const char *prefix)
{
    size_t count = 0;

    for (size_t i = 0; i < bucket->count; i++)
        count += strncmp(bucket->objects[i].key, prefix, strlen(prefix)) == 0;
    return count;
}

static void
take_away(struct memory_bucket *bucket, struct memory_bucket_object *object)
{
    kvt_free(object->body);
    memmove(object, object + 1,
            (size_t)(bucket->objects + bucket->count - (object + 1)) * sizeof(*object));
    bucket->count--;
}

void
memory_bucket_clear(struct memory_bucket *bucket)
{
    while (bucket->count > 0)
        take_away(bucket, &bucket->objects[bucket->count - 1]);
}

static enum kvt_err
put(struct memory_bucket *bucket, struct g4_request *request)
{
    struct memory_bucket_object *object = memory_bucket_find(bucket, request->key);
    uint8_t *body = kvt_calloc(request->body_size + 1, 1);

    if (body == NULL)
        return KVT_NOMEM;
    if (object == NULL) {
        const size_t at = place_of(bucket, request->key);

        assert_true(bucket->count < MEMORY_BUCKET_OBJECTS_MAX);
        object = &bucket->objects[at];
        memmove(object + 1, object, (bucket->count - at) * sizeof(*object));
        memset(object, 0, sizeof(*object));
        (void)snprintf(object->key, sizeof(object->key), "%s", request->key);
        bucket->count++;
    }
    kvt_free(object->body);
    object->body = body;
    memcpy(object->body, request->body, request->body_size);
    object->size = request->body_size;
    object->meta = request->meta;
    object->modified_ms = unix_ms(bucket);
    (void)snprintf(object->etag, sizeof(object->etag), "%08x-%zu",
                   g4_check_crc32c(request->body, request->body_size), request->body_size);
    memcpy(request->etag, object->etag, sizeof(object->etag));
    return KVT_OK;
}

static enum kvt_err
get(const struct memory_bucket_object *object, struct g4_request *request)
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
list(const struct memory_bucket *bucket, struct g4_request *request)
{
    const char *after = request->token[0] != '\0' ? request->token : request->after;
    const char *last = NULL;

    request->listed_count = 0;
    for (size_t i = 0; i < bucket->count; i++) {
        const struct memory_bucket_object *object = &bucket->objects[i];
        struct g4_listed *row = &request->listed[request->listed_count];

        if (strncmp(object->key, request->key, strlen(request->key)) != 0 ||
            (after != NULL && strcmp(object->key, after) <= 0))
            continue;
        if (request->listed_count == MEMORY_BUCKET_PAGE) {
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
serve(struct memory_bucket *bucket, struct g4_request *request)
{
    struct memory_bucket_object *object =
        request->verb == G4_LIST ? NULL : memory_bucket_find(bucket, request->key);

    request->server_ms = unix_ms(bucket) / 1000 * 1000;
    if (request->condition == G4_IF_ABSENT && object != NULL)
        return KVT_EXISTS;
    if (request->condition == G4_IF_MATCH && object == NULL)
        return KVT_NOTFOUND;
    if (request->condition == G4_IF_MATCH && strcmp(object->etag, request->etag) != 0)
        return KVT_PRECONDITION;
    switch (request->verb) {
    case G4_GET:
    case G4_HEAD: return get(object, request);
    case G4_PUT: return put(bucket, request);
    case G4_LIST: list(bucket, request); return KVT_OK;
    case G4_DELETE:
        if (object == NULL)
            return KVT_NOTFOUND;
        take_away(bucket, object);
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
    struct memory_bucket_client *client = self;
    struct memory_bucket *bucket = client->memory;
    const bool own_buffer = request->buffer == NULL;
    bool hit;

    pthread_mutex_lock(&bucket->lock);
    hit = ++client->calls == client->at;
    pthread_mutex_unlock(&bucket->lock);
    if (hit && client->between != NULL)
        client->between(client->arg, request);
    pthread_mutex_lock(&bucket->lock);
    bucket->now_ms += 1 + client->slow_ms;
    client->dead = client->dead || (hit && client->death == MEMORY_BUCKET_DIES_BEFORE);
    request->status = client->dead ? KVT_UNAVAILABLE : serve(bucket, request);
    if (hit &&
        (client->death == MEMORY_BUCKET_DIES_AFTER || client->death == MEMORY_BUCKET_STUMBLES)) {
        client->dead = client->death == MEMORY_BUCKET_DIES_AFTER;
        request->status = KVT_TIMEOUT;
        lose_answer(request, own_buffer);
    }
    pthread_mutex_unlock(&bucket->lock);
    if (request->status != KVT_OK)
        (void)kvt_error_set(&request->error, request->status, "the bucket says %s",
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
memory_bucket_open(struct memory_bucket_client *client)
{
    static const struct g4_store_driver driver = {
        .name = "bucket", .submit = submit, .close = leave};
    struct g4_store *store;

    assert_int_equal(g4_store_new(&store, &driver, client), KVT_OK);
    return store;
}

static uint64_t
clock_mono(void *arg)
{
    return 1000 + ((const struct memory_bucket *)arg)->now_ms;
}

static uint64_t
clock_unix(void *arg)
{
    return unix_ms(arg);
}

struct g4_lock_clock
memory_bucket_clock(struct memory_bucket *bucket)
{
    return (struct g4_lock_clock){.mono_ms = clock_mono, .unix_ms = clock_unix, .arg = bucket};
}
