#include <assert.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "wire/nats/object_private.h"

/* A chunk is published when it is full, and the server's word is waited for: so no more than one is
 * ever held, and the server is never asked faster than it writes. */

enum {
    PUBLISH_WAIT_MS = 10000,
    HEADROOM = 1024, /* of a message for its subject and headers */
    NUID_SIZE = 22,
};

struct wire_object_put {
    struct wire_bus *bus;
    struct wire_object_info object;
    char bucket[WIRE_OBJECT_BUCKET_MAX];
    char former[WIRE_OBJECT_NUID_MAX]; /* where the chunks of the one that is replaced are; or "" */
    uint64_t size_max;
    uint64_t version;
    bool any_version;
    bool failed;
    bool finished; /* it is there, or may be: its chunks stay */
    EVP_MD_CTX *hash;
    size_t chunk_max;
    size_t chunk_size;
    uint8_t chunk[WIRE_OBJECT_CHUNK_BYTES];
};

static void
make_nuid(char nuid[WIRE_OBJECT_NUID_MAX])
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint8_t bytes[NUID_SIZE];

    kvt_random_system(bytes, sizeof(bytes));
    for (size_t i = 0; i < NUID_SIZE; i++)
        nuid[i] = digits[bytes[i] % (sizeof(digits) - 1)];
    nuid[NUID_SIZE] = '\0';
}

/* Who is replaced: the one the caller knows, or whoever is there. */
static enum kvt_err
look_at_former(struct wire_object_put *put, const char *name, struct kvt_error *err)
{
    struct wire_object_info former;
    enum kvt_err rc = wire_object_info(put->bus, put->bucket, name, &former, err);

    if (rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT || rc == KVT_NOMEM)
        return rc;
    if (!put->any_version && former.version != put->version)
        return kvt_error_set(err, KVT_PRECONDITION,
                             "object %s of bucket %s was changed by somebody else", name,
                             put->bucket);
    if (rc == KVT_OK)
        memcpy(put->former, former.nuid, sizeof(put->former));
    return KVT_OK;
}

enum kvt_err
wire_object_put_open(struct wire_object_put **out, struct wire_bus *bus,
                     const struct wire_object_put_options *options, struct kvt_error *err)
{
    struct wire_object_put *put = kvt_calloc(1, sizeof(*put));
    int64_t message_max;
    enum kvt_err rc = KVT_NOMEM;

    assert(wire_object_bucket_valid(options->bucket));
    assert(options->name[0] != '\0' && strlen(options->name) < WIRE_OBJECT_NAME_MAX);
    *out = NULL;
    if (put == NULL)
        return kvt_error_set(err, KVT_NOMEM, "object %s: out of memory", options->name);
    put->bus = bus;
    put->size_max = options->size_max;
    put->version = options->version;
    put->any_version = options->any_version;
    (void)snprintf(put->bucket, sizeof(put->bucket), "%s", options->bucket);
    (void)snprintf(put->object.name, sizeof(put->object.name), "%s", options->name);
    make_nuid(put->object.nuid);
    message_max = natsConnection_GetMaxPayload(bus->nc) - HEADROOM;
    put->chunk_max = message_max > 0 && message_max < (int64_t)sizeof(put->chunk)
                         ? (size_t)message_max
                         : sizeof(put->chunk);
    put->finished = true; /* nothing to take back yet */
    put->hash = EVP_MD_CTX_new();
    if (put->hash == NULL || EVP_DigestInit_ex(put->hash, EVP_sha256(), NULL) != 1) {
        (void)kvt_error_set(err, rc, "object %s: out of memory", options->name);
        goto fail;
    }
    rc = look_at_former(put, options->name, err);
    if (rc != KVT_OK)
        goto fail;
    *out = put;
    return KVT_OK;

fail:
    wire_object_put_free(put);
    return rc;
}

enum kvt_err
wire_object_put_header(struct wire_object_put *put, const char *key, const char *value)
{
    struct wire_object_header *header = &put->object.headers[put->object.header_count];

    if (put->object.header_count == WIRE_OBJECT_HEADERS_MAX)
        return KVT_FULL;
    if (strlen(key) >= sizeof(header->key) || strlen(value) >= sizeof(header->value))
        return KVT_RANGE;
    (void)snprintf(header->key, sizeof(header->key), "%s", key);
    (void)snprintf(header->value, sizeof(header->value), "%s", value);
    put->object.header_count++;
    return KVT_OK;
}

static enum kvt_err
publish_chunk(struct wire_object_put *put, struct kvt_error *err)
{
    char subject[WIRE_OBJECT_SUBJECT_MAX];
    enum kvt_err rc;

    if (put->chunk_size == 0)
        return KVT_OK;
    wire_object_chunks_subject(subject, put->bucket, put->object.nuid);
    put->finished = false;
    rc = wire_bus_publish_acked(put->bus, subject, NULL, put->chunk, put->chunk_size,
                                PUBLISH_WAIT_MS, NULL);
    if (rc != KVT_OK) {
        put->failed = true;
        return kvt_error_set(err, rc, "object %s of bucket %s, chunk %" PRIu64 ": %s",
                             put->object.name, put->bucket, put->object.chunks, kvt_err_text(rc));
    }
    put->chunk_size = 0;
    put->object.chunks++;
    return KVT_OK;
}

enum kvt_err
wire_object_put_write(struct wire_object_put *put, const void *bytes, size_t size,
                      struct kvt_error *err)
{
    const uint8_t *at = bytes;
    enum kvt_err rc = KVT_OK;

    assert(!put->failed);
    if (size > put->size_max - put->object.size) {
        put->failed = true;
        return kvt_error_set(err, KVT_RANGE, "object %s of bucket %s: more than %" PRIu64 " bytes",
                             put->object.name, put->bucket, put->size_max);
    }
    if (EVP_DigestUpdate(put->hash, bytes, size) != 1) {
        put->failed = true;
        return kvt_error_set(err, KVT_NOMEM, "object %s: out of memory", put->object.name);
    }
    put->object.size += size;
    while (size > 0 && rc == KVT_OK) {
        const size_t room = put->chunk_max - put->chunk_size;
        const size_t part = size < room ? size : room;

        memcpy(put->chunk + put->chunk_size, at, part);
        put->chunk_size += part;
        at += part;
        size -= part;
        if (put->chunk_size == put->chunk_max)
            rc = publish_chunk(put, err);
    }
    return rc;
}

enum kvt_err
wire_object_put_finish(struct wire_object_put *put, struct wire_object_info *info,
                       struct kvt_error *err)
{
    const uint64_t *version = put->any_version ? NULL : &put->version;
    unsigned char hash[EVP_MAX_MD_SIZE];
    enum kvt_err rc;

    assert(!put->failed);
    memset(info, 0, sizeof(*info));
    rc = publish_chunk(put, err);
    if (rc != KVT_OK)
        return rc;
    put->failed = true; /* whatever comes, it is over */
    if (EVP_DigestFinal_ex(put->hash, hash, NULL) != 1)
        return kvt_error_set(err, KVT_NOMEM, "object %s: out of memory", put->object.name);
    wire_object_digest(put->object.digest, hash);
    rc = wire_object_meta_publish(put->bus, put->bucket, &put->object, false, version, err);
    /* Without an answer nobody knows whether somebody reads those chunks now. */
    put->finished = rc != KVT_PRECONDITION && rc != KVT_FULL;
    if (rc != KVT_OK)
        return rc;
    *info = put->object;
    if (put->former[0] != '\0')
        (void)wire_object_purge_chunks(put->bus, put->bucket, put->former);
    return KVT_OK;
}

void
wire_object_put_free(struct wire_object_put *put)
{
    if (put == NULL)
        return;
    if (!put->finished)
        (void)wire_object_purge_chunks(put->bus, put->bucket, put->object.nuid);
    EVP_MD_CTX_free(put->hash);
    kvt_free(put);
}
