#include "tests/unit/g4/support/helpers.h"

#include <stdio.h>
#include <string.h>

#include "base/core/random.h"
#include "g4/object/check.h"

static enum kvt_err
put_as(struct g4_store *store, const char *key, const void *body, size_t size,
       enum g4_condition condition, bool plain, char *etag)
{
    struct g4_request request = {
        .verb = G4_PUT, .key = key, .condition = condition, .body = body, .body_size = size};
    enum kvt_err rc;

    if (!plain)
        request.meta = (struct g4_meta){.present = true,
                                        .length = size,
                                        .crc32c = g4_check_crc32c(body, size),
                                        .fingerprint = 0x1122334455667788,
                                        .writer = "tester"};
    if (condition == G4_IF_MATCH)
        (void)snprintf(request.etag, sizeof(request.etag), "%s", etag);
    rc = g4_store_perform(store, &request);
    if (etag != NULL && rc == KVT_OK)
        memcpy(etag, request.etag, sizeof(request.etag));
    return rc;
}

enum kvt_err
put(struct g4_store *store, const char *key, const void *body, size_t size, char *etag)
{
    return put_as(store, key, body, size, G4_ALWAYS, false, etag);
}

enum kvt_err
put_absent(struct g4_store *store, const char *key, const void *body, size_t size, char *etag)
{
    return put_as(store, key, body, size, G4_IF_ABSENT, false, etag);
}

enum kvt_err
put_match(struct g4_store *store, const char *key, const void *body, size_t size, char *etag)
{
    return put_as(store, key, body, size, G4_IF_MATCH, false, etag);
}

enum kvt_err
put_plain(struct g4_store *store, const char *key, const void *body, size_t size)
{
    return put_as(store, key, body, size, G4_ALWAYS, true, NULL);
}

static enum kvt_err
fetch(struct g4_store *store, enum g4_verb verb, const char *key, struct fetched *fetched)
{
    struct g4_request request = {.verb = verb,
                                 .key = key,
                                 .buffer = verb == G4_GET ? fetched->body : NULL,
                                 .buffer_capacity = FETCHED_MAX};

    fetched->status = g4_store_perform(store, &request);
    fetched->meta = request.meta;
    memcpy(fetched->etag, request.etag, sizeof(fetched->etag));
    fetched->modified_ms = request.modified_ms;
    fetched->server_ms = request.server_ms;
    fetched->error = request.error;
    fetched->size = request.buffer_size;
    return fetched->status;
}

enum kvt_err
get(struct g4_store *store, const char *key, struct fetched *fetched)
{
    return fetch(store, G4_GET, key, fetched);
}

enum kvt_err
head(struct g4_store *store, const char *key, struct fetched *fetched)
{
    return fetch(store, G4_HEAD, key, fetched);
}

enum kvt_err
del(struct g4_store *store, const char *key)
{
    struct g4_request request = {.verb = G4_DELETE, .key = key};

    return g4_store_perform(store, &request);
}

enum kvt_err
del_match(struct g4_store *store, const char *key, const char *etag)
{
    struct g4_request request = {.verb = G4_DELETE, .key = key, .condition = G4_IF_MATCH};

    (void)snprintf(request.etag, sizeof(request.etag), "%s", etag);
    return g4_store_perform(store, &request);
}

enum kvt_err
list(struct g4_store *store, const char *prefix, char *token, struct g4_listed *rows, size_t *count)
{
    struct g4_request request = {.verb = G4_LIST, .key = prefix, .listed = rows};
    enum kvt_err rc;

    memcpy(request.token, token, sizeof(request.token));
    rc = g4_store_perform(store, &request);
    memcpy(token, request.token, sizeof(request.token));
    *count = request.listed_count;
    return rc;
}

void
fill(void *body, size_t size, uint64_t seed)
{
    uint8_t *at = body;

    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(i % 8 == 0 ? kvt_random_next(&seed) : seed >> (8 * (i % 8)));
}
