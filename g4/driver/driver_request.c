#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/driver/driver_store_internal.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "g4/object/listing.h"
#include "g4/object/receive_buffer.h"

/* What an answer told of an object, and its body as far as it came. */
struct reading {
    struct g4_request *request;
    bool told;
    int64_t size; /* of what the answer brings; < 0 = not told */
    struct g4_foreign_said said;
    struct g4_receive_buffer body;
    enum kvt_err refused; /* why no more was taken */
};

static enum kvt_err
fail_with(struct g4_request *request, enum kvt_err status, const char *what)
{
    request->status = kvt_error_set(&request->error, status, "%.300s: %s", request->key, what);
    return status;
}

static void
on_seen(void *arg, const struct g4_foreign_object *object, const struct g4_foreign_meta *meta,
        size_t count)
{
    struct reading *reading = arg;
    struct g4_request *request = reading->request;

    reading->told = true;
    reading->size = object->size;
    (void)snprintf(request->etag, sizeof(request->etag), "%s", object->etag);
    request->modified_ms = object->modified_s > 0 ? (uint64_t)object->modified_s * 1000 : 0;
    g4_driver_meta_take(request, meta, count, &reading->said);
}

static enum kvt_err
status_of(struct g4_request *request, int result)
{
    switch (result) {
    case G4_FOREIGN_OK: return KVT_OK;
    case G4_FOREIGN_NOTFOUND: return fail_with(request, KVT_NOTFOUND, "not found");
    case G4_FOREIGN_NO_BUCKET: return fail_with(request, KVT_UNAVAILABLE, "there is no bucket");
    case G4_FOREIGN_DENIED: return fail_with(request, KVT_DENIED, "access denied");
    case G4_FOREIGN_UNAVAILABLE:
        if (request->deadline_ms != 0 && kvt_clock_mono_ms() >= request->deadline_ms)
            return fail_with(request, KVT_TIMEOUT, "no answer in time");
        return fail_with(request, KVT_UNAVAILABLE, "nobody there, or too busy");
    case G4_FOREIGN_INVALID: return fail_with(request, KVT_INVALID, "the service refuses this");
    case G4_FOREIGN_NOMEM: return fail_with(request, KVT_NOMEM, "out of memory");
    default: return fail_with(request, KVT_IO, "an answer that the driver does not explain");
    }
}

/* ---- reads ---- */

static uint64_t
end_of(const struct g4_foreign *foreign, struct g4_request *request)
{
    if (request->deadline_ms == 0)
        request->deadline_ms = kvt_clock_mono_ms() + foreign->timeout_ms;
    return request->deadline_ms;
}

/* HEAD for `request`, whose results it fills. */
static enum kvt_err
look(struct g4_foreign *foreign, struct g4_request *request, struct reading *reading)
{
    enum kvt_err rc;

    *reading = (struct reading){.request = request, .size = -1};
    rc = status_of(request, foreign->driver->head(foreign->self, end_of(foreign, request),
                                                  request->key, on_seen, reading));
    if (rc != KVT_OK)
        return rc;
    if (!reading->told || reading->size < 0 || (uint64_t)reading->size > G4_OBJECT_SIZE_MAX)
        return fail_with(request, KVT_IO, "a HEAD without a length that can be true");
    request->object_size = (uint64_t)reading->size;
    if (!request->meta.present)
        request->meta.length = request->object_size;
    if (reading->said.other_key)
        return fail_with(request, KVT_CORRUPT, "an object of another key");
    return KVT_OK;
}

/* However often the driver tells of a size, no more is copied than there is memory for. */
static int
on_bytes(void *arg, const void *bytes, size_t size)
{
    struct reading *reading = arg;
    struct g4_request *request = reading->request;
    enum kvt_err rc;

    if (reading->refused != KVT_OK)
        return 0;
    if (reading->size < 0 || (uint64_t)reading->size < reading->body.size ||
        size > (uint64_t)reading->size - reading->body.size) {
        reading->refused = fail_with(request, KVT_IO, "more bytes than were said");
        return 0;
    }
    rc = g4_receive_buffer_expect(&reading->body, (uint64_t)reading->size);
    if (rc == KVT_OK)
        (void)g4_receive_buffer_append(&reading->body, bytes, size, &rc);
    if (rc != KVT_OK)
        reading->refused = fail_with(
            request, rc, rc == KVT_RANGE ? "larger than the room for it" : "out of memory");
    return rc == KVT_OK;
}

/* One GET: of `count` bytes from `at` on, or of all.  What came is whole, or an error. */
static enum kvt_err
fetch(struct g4_foreign *foreign, struct g4_request *request, uint64_t count,
      struct reading *reading)
{
    int result;

    *reading = (struct reading){.request = request, .size = -1};
    g4_receive_buffer_init(&reading->body, request->buffer, request->buffer_capacity);
    memset(&request->meta, 0, sizeof(request->meta));
    if (request->attributes != NULL)
        request->attributes[0] = '\0';
    result = foreign->driver->get(foreign->self, end_of(foreign, request), request->key,
                                  request->range_at, count, on_seen, on_bytes, reading);
    if (reading->refused != KVT_OK)
        return reading->refused;
    if (status_of(request, result) != KVT_OK)
        return request->status;
    if (!reading->told || reading->size < 0 || reading->body.size != (uint64_t)reading->size)
        return fail_with(request, KVT_IO, "the body was cut short");
    if (count != 0 && reading->body.size != count)
        return fail_with(request, KVT_IO, "other bytes than those asked for");
    request->buffer_size = reading->body.size;
    request->buffer = g4_receive_buffer_take(&reading->body);
    if (request->buffer == NULL)
        return fail_with(request, KVT_NOMEM, "out of memory");
    return reading->said.other_key ? fail_with(request, KVT_CORRUPT, "an object of another key")
                                   : KVT_OK;
}

/* A part, or a version: HEAD says how much there is, and the GET must be of what it saw. */
static enum kvt_err
get_seen(struct g4_foreign *foreign, struct g4_request *request, struct reading *reading)
{
    char wanted[G4_ETAG_MAX];
    uint64_t count = request->range_size;
    uint64_t object_size;
    char seen[G4_ETAG_MAX];

    memcpy(wanted, request->etag, sizeof(wanted));
    if (look(foreign, request, reading) != KVT_OK)
        return request->status;
    if (request->condition == G4_IF_MATCH && strcmp(request->etag, wanted) != 0)
        return fail_with(request, KVT_PRECONDITION, "another version is there");
    object_size = request->object_size;
    memcpy(seen, request->etag, sizeof(seen));
    if (count != 0) {
        if (request->range_at >= object_size)
            return fail_with(request, KVT_RANGE, "it ends before that");
        if (count > object_size - request->range_at)
            count = object_size - request->range_at;
        if (count > request->buffer_capacity)
            return fail_with(request, KVT_RANGE, "larger than the room for it");
    }
    if (fetch(foreign, request, count, reading) != KVT_OK)
        return request->status;
    if (strcmp(request->etag, seen) != 0)
        return fail_with(request, request->condition == G4_IF_MATCH ? KVT_PRECONDITION : KVT_BUSY,
                         "it changed while it was read");
    request->object_size = object_size;
    if (!request->meta.present)
        request->meta.length = object_size;
    return KVT_OK;
}

static void
get(struct g4_foreign *foreign, struct g4_request *request)
{
    const bool own_buffer = request->buffer == NULL;
    struct reading reading = {.size = -1};
    const bool whole = request->range_size == 0;
    struct kvt_error err;

    if (!whole || request->condition == G4_IF_MATCH) {
        request->status = get_seen(foreign, request, &reading);
    } else {
        request->range_at = 0;
        request->status = fetch(foreign, request, 0, &reading);
        if (!request->meta.present && reading.size >= 0)
            request->meta.length = (uint64_t)reading.size;
        request->object_size = request->buffer_size;
    }
    if (request->status == KVT_OK && whole &&
        g4_check_body(&request->meta, NULL, request->buffer, request->buffer_size, &err) != KVT_OK)
        (void)fail_with(request, KVT_CORRUPT, err.text);
    if (request->status == KVT_OK || request->status == KVT_CORRUPT)
        return; /* bad bytes are evidence */
    g4_receive_buffer_release(&reading.body);
    if (own_buffer) {
        kvt_free(request->buffer);
        request->buffer = NULL;
    }
    request->buffer_size = 0;
}

static void
head(struct g4_foreign *foreign, struct g4_request *request)
{
    struct reading reading;

    request->status = look(foreign, request, &reading);
    request->buffer_size = request->object_size;
}

/* ---- writes ---- */

/* Does the object meet the condition?  Nobody else changes it: there is one writer, and here the
 * key's stripe is held. */
static enum kvt_err
meet_condition(struct g4_foreign *foreign, struct g4_request *request)
{
    struct g4_request seen = {
        .verb = G4_HEAD, .key = request->key, .deadline_ms = end_of(foreign, request)};
    struct reading reading;
    const enum kvt_err rc = look(foreign, &seen, &reading);

    if (rc != KVT_OK && rc != KVT_NOTFOUND && rc != KVT_CORRUPT)
        return fail_with(request, rc, "it could not be looked at before");
    if (request->condition == G4_IF_ABSENT && rc != KVT_NOTFOUND)
        return fail_with(request, KVT_EXISTS, "something is there");
    if (request->condition != G4_IF_MATCH)
        return KVT_OK;
    if (rc == KVT_NOTFOUND)
        return fail_with(request, KVT_NOTFOUND, "not found");
    return strcmp(seen.etag, request->etag) == 0
               ? KVT_OK
               : fail_with(request, KVT_PRECONDITION, "another version is there");
}

/* Whatever the driver said: is it there? */
static enum kvt_err
confirm(struct g4_foreign *foreign, struct g4_request *request, const char *nonce, int result)
{
    struct g4_request seen = {
        .verb = G4_HEAD, .key = request->key, .deadline_ms = end_of(foreign, request)};
    struct reading reading;
    const enum kvt_err rc = look(foreign, &seen, &reading);

    if (rc == KVT_OK && strcmp(reading.said.nonce, nonce) == 0 &&
        seen.object_size == request->body_size) {
        memcpy(request->etag, seen.etag, sizeof(request->etag));
        return KVT_OK;
    }
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return fail_with(request, rc, "it could not be looked at afterwards");
    if (result == G4_FOREIGN_OK)
        return fail_with(request, KVT_UNAVAILABLE, "it was not stored, though the driver says so");
    return status_of(request, result);
}

static enum kvt_err
put_locked(struct g4_foreign *foreign, struct g4_request *request)
{
    struct g4_driver_meta_pairs *pairs;
    enum kvt_err rc;
    int result;

    rc = meet_condition(foreign, request);
    if (rc != KVT_OK)
        return rc;
    rc = g4_driver_meta_make(&pairs, request);
    if (rc != KVT_OK)
        return fail_with(request, rc,
                         rc == KVT_NOMEM ? "out of memory" : "more beside it than a driver takes");
    result = foreign->driver->put(foreign->self, end_of(foreign, request), request->key,
                                  pairs->meta, pairs->count, request->body, request->body_size);
    rc = confirm(foreign, request, pairs->nonce, result);
    g4_driver_meta_free(pairs);
    return rc;
}

static enum kvt_err
remove_locked(struct g4_foreign *foreign, struct g4_request *request)
{
    if (request->condition == G4_IF_MATCH && meet_condition(foreign, request) != KVT_OK)
        return request->status;
    return status_of(
        request, foreign->driver->remove(foreign->self, end_of(foreign, request), request->key));
}

static bool
is_lock(const char *key)
{
    const size_t size = strlen(key);
    const size_t tail = strlen(G4_LOCK_SUFFIX);

    return size >= tail && strcmp(key + size - tail, G4_LOCK_SUFFIX) == 0;
}

static void
change(struct g4_foreign *foreign, struct g4_request *request)
{
    pthread_mutex_t *stripe =
        &foreign->stripes[g4_check_crc32c(request->key, strlen(request->key)) % G4_FOREIGN_STRIPES];

    if (request->verb == G4_PUT && is_lock(request->key)) {
        (void)fail_with(request, KVT_UNSUPPORTED, "no locks here: conditions are not the store's");
        return;
    }
    if (request->verb == G4_PUT && request->meta.present &&
        request->meta.length != request->body_size) {
        (void)fail_with(request, KVT_CORRUPT, "the body to put fails its check");
        return;
    }
    (void)pthread_mutex_lock(stripe);
    request->status =
        request->verb == G4_PUT ? put_locked(foreign, request) : remove_locked(foreign, request);
    (void)pthread_mutex_unlock(stripe);
}

/* ---- listings ---- */

struct rows {
    struct g4_request *request;
    size_t seen;
    char last[KVT_KEY_MAX];
};

static void
on_row(void *arg, const char *key, const struct g4_foreign_object *object)
{
    struct rows *rows = arg;
    struct g4_request *request = rows->request;
    struct g4_listed *row = &request->listed[request->listed_count];

    rows->seen++;
    if (strlen(key) >= KVT_KEY_MAX || request->listed_count == G4_LIST_KEYS_MAX)
        return;
    memcpy(rows->last, key, strlen(key) + 1);
    memset(row, 0, sizeof(*row));
    memcpy(row->key, key, strlen(key) + 1);
    row->size = object->size < 0 ? 0 : (uint64_t)object->size;
    row->modified_ms = object->modified_s > 0 ? (uint64_t)object->modified_s * 1000 : 0;
    (void)snprintf(row->etag, sizeof(row->etag), "%s", object->etag);
    request->listed_count++;
}

static void
list(struct g4_foreign *foreign, struct g4_request *request)
{
    const char *after = request->token[0] != '\0' ? request->token
                        : request->after != NULL  ? request->after
                                                  : "";
    struct rows rows = {.request = request};
    int more = 0;

    request->status = status_of(
        request, foreign->driver->list(foreign->self, end_of(foreign, request), request->key, after,
                                       G4_LIST_KEYS_MAX, on_row, &rows, &more));
    if (request->status == KVT_OK && more && rows.last[0] == '\0')
        (void)fail_with(request, KVT_IO, "a page of keys that are too long");
    if (request->status == KVT_OK && g4_listing_check(request, after) != KVT_OK)
        request->status = KVT_IO;
    if (request->status != KVT_OK)
        request->listed_count = 0;
    if (request->status == KVT_OK)
        (void)snprintf(request->token, sizeof(request->token), "%s", more ? rows.last : "");
}

/* The driver's library would put another name into the URL. */
static bool
key_ok(const char *key)
{
    for (; *key != '\0'; key++)
        if ((unsigned char)*key <= 0x20 || *key == 0x7f)
            return false;
    return true;
}

void
g4_driver_request_perform(struct g4_foreign *foreign, struct g4_request *request)
{
    if (request->deadline_ms != 0 && kvt_clock_mono_ms() >= request->deadline_ms) {
        (void)fail_with(request, KVT_TIMEOUT, "waited too long");
        return;
    }
    if (!key_ok(request->key)) {
        (void)fail_with(request, KVT_UNSUPPORTED, "a key with blanks or control bytes");
        return;
    }
    switch (request->verb) {
    case G4_GET: get(foreign, request); break;
    case G4_HEAD: head(foreign, request); break;
    case G4_PUT:
    case G4_DELETE: change(foreign, request); break;
    case G4_LIST: list(foreign, request); break;
    }
}
