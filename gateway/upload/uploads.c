#include "gateway/upload/uploads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "gateway/http/attributes.h"

enum {
    NAME_SIZE = GATEWAY_UPLOAD_ID + 8,
    NUMBER_DIGITS = 5,
    RECORD_MAX = G4_OBJECT_BUCKET_MAX + G4_CLIENT_KEY_MAX
};

/* Every name begins with an id; only ours come in here, but they come from clients. */
static bool
id_valid(const char *id)
{
    return strlen(id) == GATEWAY_UPLOAD_ID - 1 &&
           strspn(id, "0123456789abcdef") == GATEWAY_UPLOAD_ID - 1;
}

static void
name_of_upload(const char *id, char name[NAME_SIZE])
{
    (void)snprintf(name, NAME_SIZE, "%s/upload", id);
}

static void
name_of_part(const char *id, unsigned number, char name[NAME_SIZE])
{
    (void)snprintf(name, NAME_SIZE, "%s/%05u", id, number % 100000);
}

static enum kvt_err
put(struct gateway_context *context, const char *name, const void *body, size_t size,
    char *attributes)
{
    struct g4_request request = {
        .verb = G4_PUT, .key = name, .body = body, .body_size = size, .attributes = attributes};

    return g4_store_perform(context->uploads.parts, &request);
}

enum kvt_err
gateway_uploads_list(struct gateway_context *context, char (*ids)[GATEWAY_UPLOAD_ID], size_t *count)
{
    struct g4_request request = {.verb = G4_LIST, .key = ""};
    enum kvt_err rc = KVT_NOMEM;

    *count = 0;
    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return rc;
    do {
        rc = g4_store_perform(context->uploads.parts, &request);
        for (size_t i = 0; rc == KVT_OK && i < request.listed_count; i++) {
            const char *key = request.listed[i].key;

            if (strcmp(key + strcspn(key, "/"), "/upload") == 0 && *count < GATEWAY_UPLOADS_MAX)
                (void)snprintf(ids[(*count)++], GATEWAY_UPLOAD_ID, "%.32s", key);
        }
    } while (rc == KVT_OK && request.token[0] != '\0');
    kvt_free(request.listed);
    return rc;
}

enum kvt_err
gateway_uploads_create(struct gateway_context *context, struct gateway_upload *upload)
{
    char(*ids)[GATEWAY_UPLOAD_ID] = kvt_calloc(GATEWAY_UPLOADS_MAX, sizeof(*ids));
    uint64_t random[2];
    char record[RECORD_MAX];
    char name[NAME_SIZE];
    enum kvt_err rc;
    size_t count;

    upload->id[0] = '\0';
    if (ids == NULL)
        return KVT_NOMEM;
    rc = gateway_uploads_list(context, ids, &count);
    kvt_free(ids);
    if (rc != KVT_OK || count == GATEWAY_UPLOADS_MAX)
        return rc != KVT_OK ? rc : KVT_FULL;
    kvt_random_system(random, sizeof(random));
    upload->created_ms = kvt_clock_unix_ms();
    /* The time first: listings show the older one first. */
    (void)snprintf(upload->id, sizeof(upload->id), "%012" PRIx64 "%04x%016" PRIx64,
                   upload->created_ms & UINT64_C(0xffffffffffff), (unsigned)(random[0] & 0xffff),
                   random[1]);
    name_of_upload(upload->id, name);
    (void)snprintf(record, sizeof(record), "%s\n%s", upload->bucket, upload->key);
    return put(context, name, record, strlen(record), upload->attributes);
}

/* Versions before 2.3 kept the name in the store alone, which has no newline: nothing continues
 * those uploads, and they are dropped by age. */
static bool
read_record(char *record, struct gateway_upload *upload)
{
    char *key = strchr(record, '\n');

    if (key == NULL || key - record >= G4_OBJECT_BUCKET_MAX)
        return false;
    *key++ = '\0';
    if (key[0] == '\0' || strlen(key) >= sizeof(upload->key))
        return false;
    memcpy(upload->bucket, record, strlen(record) + 1);
    memcpy(upload->key, key, strlen(key) + 1);
    return true;
}

enum kvt_err
gateway_uploads_find(struct gateway_context *context, const char *id, struct gateway_upload *upload)
{
    char record[RECORD_MAX];
    char name[NAME_SIZE];
    struct g4_request request = {.verb = G4_GET,
                                 .key = name,
                                 .attributes = upload->attributes,
                                 .buffer = record,
                                 .buffer_capacity = sizeof(record) - 1};
    enum kvt_err rc;

    if (!id_valid(id))
        return KVT_NOTFOUND;
    name_of_upload(id, name);
    rc = g4_store_perform(context->uploads.parts, &request);
    if (rc != KVT_OK)
        return rc;
    record[request.buffer_size] = '\0';
    if (!read_record(record, upload))
        return KVT_NOTFOUND;
    upload->created_ms = request.modified_ms;
    (void)snprintf(upload->id, sizeof(upload->id), "%s", id);
    return KVT_OK;
}

enum kvt_err
gateway_uploads_put(struct gateway_context *context, const char *id, unsigned number,
                    const void *body, size_t size, const char *etag,
                    char attributes[G4_ATTRIBUTES_MAX])
{
    char name[NAME_SIZE];

    if (!gateway_attribute_lines_add(attributes, GATEWAY_ATTRIBUTE_ETAG, etag))
        return KVT_RANGE;
    name_of_part(id, number, name);
    return put(context, name, body, size, attributes);
}

enum kvt_err
gateway_uploads_part(struct gateway_context *context, const char *id, struct gateway_part *part)
{
    char attributes[G4_ATTRIBUTES_MAX];
    char name[NAME_SIZE];
    struct g4_request request = {.verb = G4_HEAD, .key = name, .attributes = attributes};
    enum kvt_err rc;

    name_of_part(id, part->number, name);
    rc = g4_store_perform(context->uploads.parts, &request);
    part->size = request.buffer_size;
    part->modified_ms = request.modified_ms;
    part->checksum[0] = '\0';
    if (rc == KVT_OK && part->algorithm != GATEWAY_BODY_CHECKSUM_COUNT &&
        !gateway_attributes_checksum(attributes, part->algorithm, part->checksum,
                                     sizeof(part->checksum)))
        part->checksum[0] = '\0';
    if (rc == KVT_OK && !gateway_attribute_lines_get(attributes, GATEWAY_ATTRIBUTE_ETAG, part->etag,
                                                     sizeof(part->etag)))
        rc = KVT_CORRUPT;
    return rc;
}

enum kvt_err
gateway_uploads_read(struct gateway_context *context, const char *id,
                     const struct gateway_part *part, void *out)
{
    char name[NAME_SIZE];
    struct g4_request request = {
        .verb = G4_GET, .key = name, .buffer = out, .buffer_capacity = (size_t)part->size};
    enum kvt_err rc;

    name_of_part(id, part->number, name);
    rc = g4_store_perform(context->uploads.parts, &request);
    if (rc == KVT_OK && request.buffer_size != part->size)
        rc = KVT_AGAIN; /* it was put anew under our hands */
    return rc == KVT_CORRUPT ? KVT_IO : rc;
}

enum kvt_err
gateway_uploads_numbers(struct gateway_context *context, const char *id, unsigned after,
                        unsigned *numbers, size_t capacity, size_t *count)
{
    char prefix[NAME_SIZE];
    char behind[NAME_SIZE];
    struct g4_request request = {.verb = G4_LIST, .key = prefix, .after = behind};
    enum kvt_err rc;

    *count = 0;
    (void)snprintf(prefix, sizeof(prefix), "%s/", id);
    name_of_part(id, after, behind);
    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return KVT_NOMEM;
    do {
        rc = g4_store_perform(context->uploads.parts, &request);
        for (size_t i = 0; rc == KVT_OK && i < request.listed_count && *count < capacity; i++) {
            const char *digits = request.listed[i].key + GATEWAY_UPLOAD_ID;

            if (strspn(digits, "0123456789") == NUMBER_DIGITS)
                numbers[(*count)++] = (unsigned)strtoul(digits, NULL, 10);
        }
    } while (rc == KVT_OK && request.token[0] != '\0' && *count < capacity);
    kvt_free(request.listed);
    return rc;
}

static enum kvt_err
remove_name(struct gateway_context *context, const char *name)
{
    struct g4_request request = {.verb = G4_DELETE, .key = name};
    const enum kvt_err rc = g4_store_perform(context->uploads.parts, &request);

    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
gateway_uploads_drop(struct gateway_context *context, const char *id)
{
    char name[NAME_SIZE];
    char prefix[NAME_SIZE];
    struct g4_request request = {.verb = G4_LIST, .key = prefix};
    enum kvt_err rc;

    if (!id_valid(id))
        return KVT_OK;
    name_of_upload(id, name);
    rc = remove_name(context, name); /* first: from here on nobody finds its parts */
    (void)snprintf(prefix, sizeof(prefix), "%s/", id);
    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return KVT_NOMEM;
    do {
        request.token[0] = '\0';
        if (rc == KVT_OK)
            rc = g4_store_perform(context->uploads.parts, &request);
        for (size_t i = 0; rc == KVT_OK && i < request.listed_count; i++)
            rc = remove_name(context, request.listed[i].key);
    } while (rc == KVT_OK && request.listed_count == G4_LIST_KEYS_MAX);
    kvt_free(request.listed);
    return rc;
}

void
gateway_uploads_drop_all(struct gateway_context *context, const char *bucket)
{
    char(*ids)[GATEWAY_UPLOAD_ID] = kvt_calloc(GATEWAY_UPLOADS_MAX, sizeof(*ids));
    struct gateway_upload *upload = kvt_calloc(1, sizeof(*upload));
    size_t count = 0;

    if (ids != NULL && upload != NULL && gateway_uploads_list(context, ids, &count) == KVT_OK)
        for (size_t i = 0; i < count; i++)
            if (gateway_uploads_find(context, ids[i], upload) == KVT_OK &&
                strcmp(upload->bucket, bucket) == 0)
                (void)!gateway_uploads_drop(context, ids[i]);
    kvt_free(upload);
    kvt_free(ids);
}

/* Is the upload this name belongs to gone, or too old? */
static bool
is_stale(struct gateway_context *context, const struct g4_listed *listed, uint64_t now_ms)
{
    struct gateway_upload *upload;
    char id[GATEWAY_UPLOAD_ID];
    bool stale = false;
    enum kvt_err rc;

    if (listed->modified_ms + GATEWAY_UPLOADS_AGE_MS > now_ms)
        return false; /* young itself: a part of something that is still being made */
    upload = kvt_calloc(1, sizeof(*upload));
    if (upload == NULL)
        return false;
    (void)snprintf(id, sizeof(id), "%.32s", listed->key);
    rc = gateway_uploads_find(context, id, upload);
    stale = rc == KVT_NOTFOUND || rc == KVT_CORRUPT ||
            (rc == KVT_OK && upload->created_ms + GATEWAY_UPLOADS_AGE_MS <= now_ms);
    kvt_free(upload);
    return stale;
}

void
gateway_uploads_expire(struct gateway_context *context, uint64_t now_ms)
{
    struct g4_request request = {.verb = G4_LIST, .key = ""};
    enum kvt_err rc;

    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return;
    do {
        rc = g4_store_perform(context->uploads.parts, &request);
        for (size_t i = 0; rc == KVT_OK && i < request.listed_count; i++)
            if (is_stale(context, &request.listed[i], now_ms))
                rc = remove_name(context, request.listed[i].key);
    } while (rc == KVT_OK && request.token[0] != '\0' && !atomic_load(&context->stopping));
    kvt_free(request.listed);
}
