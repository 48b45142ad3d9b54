#include "worker/object/bucket_volume.h"

#include <assert.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "kvtier/key.h"

enum { MD5_BYTES = 16, MD5_TEXT = 2 * MD5_BYTES + 1 };

struct bucket {
    struct kvbm_volume head;
    struct g4_store *store;
    enum kvt_key_revision revision;
    char namespace_[KVT_NAMESPACE_MAX];
    uint32_t rank;
    uint64_t fingerprint;
};

struct flight {
    char key[KVT_KEY_MAX];
    bool wanted; /* it has a key */
    struct g4_request request;
};

/* What one call has in the air. */
struct flock {
    struct bucket *bucket;
    struct flight flights[KVT_VOLUME_SLICE];

    struct {
        pthread_mutex_t lock; /* guards this struct; a leaf */
        pthread_cond_t landed;
        size_t in_air;
    } shared;
};

static struct bucket *
bucket_of(struct kvbm_volume *volume)
{
    return (struct bucket *)volume;
}

static struct flock *
flock_new(struct bucket *bucket)
{
    struct flock *flock = kvt_calloc(1, sizeof(*flock));

    if (flock == NULL)
        return NULL;
    flock->bucket = bucket;
    (void)pthread_mutex_init(&flock->shared.lock, NULL);
    (void)pthread_cond_init(&flock->shared.landed, NULL);
    return flock;
}

static void
flock_free(struct flock *flock)
{
    (void)pthread_cond_destroy(&flock->shared.landed);
    (void)pthread_mutex_destroy(&flock->shared.lock);
    kvt_free(flock);
}

static void
on_done(struct g4_request *request, void *arg)
{
    struct flock *flock = arg;

    (void)request;
    (void)pthread_mutex_lock(&flock->shared.lock);
    if (--flock->shared.in_air == 0)
        (void)pthread_cond_signal(&flock->shared.landed);
    (void)pthread_mutex_unlock(&flock->shared.lock);
}

/* Send what is wanted, and wait for all. */
static void
fly(struct flock *flock, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct g4_request *request = &flock->flights[i].request;
        enum kvt_err rc;

        if (!flock->flights[i].wanted)
            continue;
        request->done = on_done;
        request->arg = flock;
        (void)pthread_mutex_lock(&flock->shared.lock);
        flock->shared.in_air++;
        (void)pthread_mutex_unlock(&flock->shared.lock);
        rc = g4_store_submit(flock->bucket->store, request);
        if (rc != KVT_OK) {
            request->status = rc;
            on_done(request, flock);
        }
    }
    (void)pthread_mutex_lock(&flock->shared.lock);
    while (flock->shared.in_air > 0)
        (void)pthread_cond_wait(&flock->shared.landed, &flock->shared.lock);
    (void)pthread_mutex_unlock(&flock->shared.lock);
}

static void
md5_text(const void *bytes, size_t size, char text[MD5_TEXT])
{
    uint8_t sum[MD5_BYTES] = {0};

    text[0] = '\0';
    if (EVP_Digest(bytes, size, sum, NULL, EVP_md5(), NULL) != 1)
        return; /* matches no ETag */
    for (size_t i = 0; i < MD5_BYTES; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", sum[i]);
}

/* Is it an MD5 at all? */
static bool
is_md5(const char *etag)
{
    return strlen(etag) == MD5_TEXT - 1 && strspn(etag, "0123456789abcdef") == MD5_TEXT - 1;
}

/* What the store brought into `bytes`: the block, or why it is none. */
static enum kvt_err
judge(const struct bucket *bucket, const struct g4_request *request, const void *bytes)
{
    const size_t size = bucket->head.block_size;
    const struct g4_meta expected = {
        .present = true, .length = size, .fingerprint = bucket->fingerprint};
    char md5[MD5_TEXT];

    if (request->status == KVT_RANGE)
        return KVT_CORRUPT; /* longer than a block */
    if (request->status != KVT_OK)
        return request->status;
    if (request->buffer_size != size)
        return KVT_CORRUPT;
    if (request->meta.present)
        return g4_check_answer(request, &expected, NULL);
    if (!is_md5(request->etag))
        return KVT_UNSUPPORTED;
    md5_text(bytes, size, md5);
    return strcmp(md5, request->etag) == 0 ? KVT_OK : KVT_CORRUPT;
}

/* Begin a request for the block's object; one that has no key is not wanted. */
static struct g4_request *
prepare(struct flock *flock, size_t at, enum g4_verb verb, const struct kvt_block_id *id)
{
    const struct bucket *bucket = flock->bucket;
    struct flight *flight = &flock->flights[at];

    assert(at < KVT_VOLUME_SLICE);
    memset(&flight->request, 0, sizeof(flight->request));
    flight->wanted = kvt_key_format(flight->key, sizeof(flight->key), bucket->revision,
                                    bucket->namespace_, bucket->rank, id) == KVT_OK;
    flight->request.verb = verb;
    flight->request.key = flight->key;
    return &flight->request;
}

static void
set_all(struct kvt_volume_item *items, size_t count, enum kvt_err status)
{
    for (size_t i = 0; i < count; i++)
        items[i].status = status;
}

static void
get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct bucket *bucket = bucket_of(volume);
    struct flock *flock = flock_new(bucket);

    set_all(items, count, flock == NULL ? KVT_NOMEM : KVT_INVALID);
    if (flock == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        struct g4_request *request = prepare(flock, i, G4_GET, &items[i].id);

        request->buffer = items[i].bytes;
        request->buffer_capacity = items[i].size;
        request->sum = true;
    }
    fly(flock, count);
    for (size_t i = 0; i < count; i++)
        if (flock->flights[i].wanted)
            items[i].status = judge(bucket, &flock->flights[i].request, items[i].bytes);
    flock_free(flock);
}

static void
prepare_put(const struct bucket *bucket, struct g4_request *request,
            const struct kvt_volume_item *item)
{
    request->verb = G4_PUT;
    request->body = item->bytes;
    request->body_size = item->size;
    request->meta = (struct g4_meta){
        .present = true,
        .length = item->size,
        .crc32c = g4_check_crc32c(item->bytes, item->size),
        .fingerprint = bucket->fingerprint,
        .writer = "kvbm",
    };
}

/* Something is there: ours, byte for byte as far as anybody says?  Else ours takes its place. */
static enum kvt_err
settle(struct bucket *bucket, struct flight *flight, const struct kvt_volume_item *item)
{
    struct g4_request head = {.verb = G4_HEAD, .key = flight->key};
    char md5[MD5_TEXT];
    enum kvt_err rc = g4_store_perform(bucket->store, &head);

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_AGAIN : rc; /* it went meanwhile */
    md5_text(item->bytes, item->size, md5);
    if (head.buffer_size == item->size &&
        (is_md5(head.etag) ? strcmp(head.etag, md5) == 0 : head.meta.present) &&
        (!head.meta.present || (head.meta.crc32c == g4_check_crc32c(item->bytes, item->size) &&
                                head.meta.fingerprint == bucket->fingerprint)))
        return KVT_EXISTS;
    memset(&flight->request, 0, sizeof(flight->request));
    flight->request.key = flight->key;
    flight->request.condition = G4_IF_MATCH;
    (void)snprintf(flight->request.etag, sizeof(flight->request.etag), "%s", head.etag);
    prepare_put(bucket, &flight->request, item);
    rc = g4_store_perform(bucket->store, &flight->request);
    return rc == KVT_PRECONDITION || rc == KVT_NOTFOUND ? KVT_AGAIN : rc; /* somebody was faster */
}

static void
put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct bucket *bucket = bucket_of(volume);
    struct flock *flock = flock_new(bucket);

    set_all(items, count, flock == NULL ? KVT_NOMEM : KVT_INVALID);
    if (flock == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        struct g4_request *request = prepare(flock, i, G4_PUT, &items[i].id);

        request->condition = G4_IF_ABSENT;
        prepare_put(bucket, request, &items[i]);
    }
    fly(flock, count);
    for (size_t i = 0; i < count; i++) {
        struct flight *flight = &flock->flights[i];

        if (!flight->wanted)
            continue;
        items[i].status = flight->request.status;
        if (items[i].status == KVT_EXISTS)
            items[i].status = settle(bucket, flight, &items[i]);
    }
    flock_free(flock);
}

/* Ask for one slice; `any`: something of it is there. */
static enum kvt_err
ask_slice(struct flock *flock, const struct kvt_block_id *ids, size_t count, uint64_t end_ms,
          bool *present, bool *any)
{
    *any = false;
    for (size_t i = 0; i < count; i++)
        prepare(flock, i, G4_HEAD, &ids[i])->deadline_ms = end_ms;
    fly(flock, count);
    for (size_t i = 0; i < count; i++) {
        const struct g4_request *request = &flock->flights[i].request;

        if (!flock->flights[i].wanted)
            continue;
        if (request->status != KVT_OK && request->status != KVT_NOTFOUND)
            return request->status;
        present[i] =
            request->status == KVT_OK && request->buffer_size == flock->bucket->head.block_size;
        *any |= present[i];
    }
    return KVT_OK;
}

enum kvt_err
worker_bucket_has(struct kvbm_volume *volume, const struct kvt_block_id *ids, size_t count,
                  uint64_t end_ms, bool *present)
{
    struct flock *flock = flock_new(bucket_of(volume));
    enum kvt_err rc = flock == NULL ? KVT_NOMEM : KVT_OK;
    bool any = true;

    memset(present, 0, count * sizeof(*present));
    for (size_t at = 0; rc == KVT_OK && any && at < count; at += KVT_VOLUME_SLICE) {
        const size_t left = count - at;

        rc = ask_slice(flock, ids + at, left < KVT_VOLUME_SLICE ? left : KVT_VOLUME_SLICE, end_ms,
                       present + at, &any);
    }
    if (rc != KVT_OK)
        memset(present, 0, count * sizeof(*present));
    if (flock != NULL)
        flock_free(flock);
    return rc;
}

static void
close_bucket(struct kvbm_volume *volume)
{
    kvt_free(bucket_of(volume));
}

static const struct kvbm_volume_driver driver = {
    .kind = "bucket", .get = get, .put = put, .close = close_bucket};

enum kvt_err
worker_bucket_volume(struct kvbm_volume **out, const struct worker_bucket_options *options,
                     struct kvt_error *err)
{
    struct bucket *bucket;

    *out = NULL;
    if (strlen(options->namespace_) >= KVT_NAMESPACE_MAX)
        return kvt_error_set(err, KVT_RANGE, "bucket: namespace too long");
    bucket = kvt_calloc(1, sizeof(*bucket));
    if (bucket == NULL)
        return kvt_error_set(err, KVT_NOMEM, "bucket: out of memory");
    bucket->head = (struct kvbm_volume){.driver = &driver, .block_size = options->block_size};
    bucket->store = options->store;
    bucket->revision = options->revision;
    bucket->rank = options->rank;
    bucket->fingerprint = options->fingerprint;
    (void)snprintf(bucket->namespace_, sizeof(bucket->namespace_), "%s", options->namespace_);
    *out = &bucket->head;
    return KVT_OK;
}
