/*
 * g4/libs3/driver.c -- g4-store-libs3.so: libs3, as g4/driver/driver_abi.h wants a driver.
 *
 * libs3 2.0 is under the GNU GPL, version 3, with an exception for OpenSSL, and so is this shared
 * object.  It is built, packaged and loaded by itself; nothing of KVTier is linked with it, nor it
 * with anything of KVTier.
 *
 * What libs3 says of a PUT is not to be believed (an error without body counts as success), nor
 * that a body is whole: whoever calls looks again.  It never checks who a TLS server is.
 */
#include <libs3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>

#include "g4/driver/driver_abi.h"

enum { SPIN_MS = 2, TURN_MS = 100, ROWS_MAX = 1000 };

struct bucket {
    S3BucketContext context;
    char *texts[4]; /* what `context` points to */
};

/* One request on its way. */
struct call {
    S3Status status;
    int over;
    g4_foreign_seen_fn *seen;
    g4_foreign_take_fn *take;
    g4_foreign_row_fn *row;
    void *arg;
    const char *body;
    size_t left;
    int more;
    int stopped;
};

static uint64_t
now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- what libs3 calls ---- */

static void
copy_etag(char out[G4_FOREIGN_ETAG_MAX], const char *etag)
{
    size_t size = etag == NULL ? 0 : strlen(etag);

    if (size >= 2 && etag[0] == '"' && etag[size - 1] == '"') {
        etag++;
        size -= 2;
    }
    if (size >= G4_FOREIGN_ETAG_MAX)
        size = 0;
    if (size > 0)
        memcpy(out, etag, size);
    out[size] = '\0';
}

static S3Status
on_properties(const S3ResponseProperties *properties, void *arg)
{
    struct g4_foreign_meta meta[G4_FOREIGN_META_MAX];
    struct g4_foreign_object object = {.size = (int64_t)properties->contentLength,
                                       .modified_s = properties->lastModified};
    struct call *call = arg;
    size_t count = 0;

    if (call->seen == NULL)
        return S3StatusOK;
    copy_etag(object.etag, properties->eTag);
    for (int i = 0; i < properties->metaDataCount && count < G4_FOREIGN_META_MAX; i++)
        meta[count++] =
            (struct g4_foreign_meta){properties->metaData[i].name, properties->metaData[i].value};
    call->seen(call->arg, &object, meta, count);
    return S3StatusOK;
}

static void
on_complete(S3Status status, const S3ErrorDetails *details, void *arg)
{
    struct call *call = arg;

    (void)details;
    call->status = status;
    call->over = 1;
}

static S3Status
on_bytes(int size, const char *bytes, void *arg)
{
    struct call *call = arg;

    if (call->take(call->arg, bytes, (size_t)size) != 0)
        return S3StatusOK;
    call->stopped = 1;
    return S3StatusAbortedByCallback;
}

static int
on_wanted(int room, char *out, void *arg)
{
    struct call *call = arg;
    const size_t size = call->left < (size_t)room ? call->left : (size_t)room;

    if (size > 0)
        memcpy(out, call->body, size);
    call->body += size;
    call->left -= size;
    return (int)size;
}

static S3Status
on_rows(int truncated, const char *marker, int count, const S3ListBucketContent *rows, int prefixes,
        const char **names, void *arg)
{
    struct call *call = arg;

    (void)marker;
    (void)prefixes;
    (void)names;
    call->more = truncated;
    for (int i = 0; i < count; i++) {
        struct g4_foreign_object object = {.size = (int64_t)rows[i].size,
                                           .modified_s = rows[i].lastModified};

        copy_etag(object.etag, rows[i].eTag);
        call->row(call->arg, rows[i].key, &object);
    }
    return S3StatusOK;
}

/* ---- one request, until its deadline ---- */

/* Sockets beyond what select() knows are left out of the sets: then there is only looking again. */
static void
wait_a_little(S3RequestContext *context, uint64_t left_ms)
{
    uint64_t wait_ms = left_ms < TURN_MS ? left_ms : TURN_MS;
    struct timeval wait;
    fd_set readers;
    fd_set writers;
    fd_set others;
    int last = -1;
    int64_t advised;

    FD_ZERO(&readers);
    FD_ZERO(&writers);
    FD_ZERO(&others);
    if (S3_get_request_context_fdsets(context, &readers, &writers, &others, &last) != S3StatusOK ||
        last < 0)
        wait_ms = SPIN_MS;
    advised = S3_get_request_context_timeout(context);
    if (advised >= 0 && (uint64_t)advised < wait_ms)
        wait_ms = (uint64_t)advised;
    wait = (struct timeval){.tv_sec = 0, .tv_usec = (suseconds_t)(wait_ms * 1000)};
    (void)select(last + 1, &readers, &writers, &others, &wait);
}

static int
result_of(const struct call *call)
{
    if (call->stopped)
        return G4_FOREIGN_STOPPED;
    switch (call->status) {
    case S3StatusOK: return G4_FOREIGN_OK;
    case S3StatusErrorNoSuchKey:
    case S3StatusHttpErrorNotFound: return G4_FOREIGN_NOTFOUND;
    case S3StatusErrorNoSuchBucket: return G4_FOREIGN_NO_BUCKET;
    case S3StatusErrorAccessDenied:
    case S3StatusErrorInvalidAccessKeyId:
    case S3StatusErrorSignatureDoesNotMatch:
    case S3StatusErrorRequestTimeTooSkewed:
    case S3StatusHttpErrorForbidden: return G4_FOREIGN_DENIED;
    case S3StatusOutOfMemory: return G4_FOREIGN_NOMEM;
    case S3StatusMetaDataHeadersTooLong:
    case S3StatusBadMetaData:
    case S3StatusKeyTooLong:
    case S3StatusUriTooLong:
    case S3StatusErrorMetadataTooLarge:
    case S3StatusErrorEntityTooLarge:
    case S3StatusErrorInvalidArgument: return G4_FOREIGN_INVALID;
    case S3StatusInterrupted:
    case S3StatusNameLookupError:
    case S3StatusFailedToConnect:
    case S3StatusConnectionFailed:
    case S3StatusErrorInternalError:
    case S3StatusErrorRequestTimeout:
    case S3StatusErrorSlowDown: return G4_FOREIGN_UNAVAILABLE;
    default: return G4_FOREIGN_UNKNOWN;
    }
}

/* Run what was added to `context`, and give it back.  Destroying it ends what is left. */
static int
run(S3RequestContext *context, struct call *call, uint64_t deadline_ms)
{
    while (!call->over) {
        const uint64_t now = now_ms();
        int left = 0;

        if (now >= deadline_ms || S3_runonce_request_context(context, &left) != S3StatusOK)
            break;
        if (!call->over)
            wait_a_little(context, deadline_ms - now);
    }
    S3_destroy_request_context(context);
    return result_of(call);
}

static int
begin(S3RequestContext **context, struct call *call)
{
    call->status = S3StatusInterrupted;
    return S3_create_request_context(context) == S3StatusOK;
}

/* ---- the driver ---- */

static int
do_head(void *self, uint64_t deadline_ms, const char *key, g4_foreign_seen_fn *seen, void *arg)
{
    const S3ResponseHandler handler = {on_properties, on_complete};
    struct call call = {.seen = seen, .arg = arg};
    struct bucket *bucket = self;
    S3RequestContext *context;

    if (!begin(&context, &call))
        return G4_FOREIGN_NOMEM;
    S3_head_object(&bucket->context, key, context, &handler, &call);
    return run(context, &call, deadline_ms);
}

static int
do_get(void *self, uint64_t deadline_ms, const char *key, uint64_t at, uint64_t count,
       g4_foreign_seen_fn *seen, g4_foreign_take_fn *take, void *arg)
{
    const S3GetObjectHandler handler = {{on_properties, on_complete}, on_bytes};
    struct call call = {.seen = seen, .take = take, .arg = arg};
    struct bucket *bucket = self;
    S3RequestContext *context;

    if (!begin(&context, &call))
        return G4_FOREIGN_NOMEM;
    S3_get_object(&bucket->context, key, NULL, at, count, context, &handler, &call);
    return run(context, &call, deadline_ms);
}

static int
do_put(void *self, uint64_t deadline_ms, const char *key, const struct g4_foreign_meta *meta,
       size_t count, const void *body, size_t size)
{
    const S3PutObjectHandler handler = {{on_properties, on_complete}, on_wanted};
    struct call call = {.body = body, .left = size};
    S3NameValue pairs[G4_FOREIGN_META_MAX];
    S3PutProperties properties = {.expires = -1,
                                  .cannedAcl = S3CannedAclPrivate,
                                  .metaDataCount = (int)count,
                                  .metaData = pairs};
    struct bucket *bucket = self;
    S3RequestContext *context;

    if (count > G4_FOREIGN_META_MAX)
        return G4_FOREIGN_INVALID;
    for (size_t i = 0; i < count; i++)
        pairs[i] = (S3NameValue){meta[i].name, meta[i].value};
    if (!begin(&context, &call))
        return G4_FOREIGN_NOMEM;
    S3_put_object(&bucket->context, key, size, &properties, context, &handler, &call);
    return run(context, &call, deadline_ms);
}

static int
do_remove(void *self, uint64_t deadline_ms, const char *key)
{
    const S3ResponseHandler handler = {on_properties, on_complete};
    struct call call = {.seen = NULL};
    struct bucket *bucket = self;
    S3RequestContext *context;

    if (!begin(&context, &call))
        return G4_FOREIGN_NOMEM;
    S3_delete_object(&bucket->context, key, context, &handler, &call);
    return run(context, &call, deadline_ms);
}

static int
do_list(void *self, uint64_t deadline_ms, const char *prefix, const char *after, unsigned max,
        g4_foreign_row_fn *row, void *arg, int *more)
{
    const S3ListBucketHandler handler = {{on_properties, on_complete}, on_rows};
    struct call call = {.row = row, .arg = arg};
    struct bucket *bucket = self;
    S3RequestContext *context;
    int result;

    *more = 0;
    if (!begin(&context, &call))
        return G4_FOREIGN_NOMEM;
    S3_list_bucket(&bucket->context, prefix, after[0] == '\0' ? NULL : after, NULL,
                   (int)(max < ROWS_MAX ? max : ROWS_MAX), context, &handler, &call);
    result = run(context, &call, deadline_ms);
    *more = call.more;
    return result;
}

static void
do_close(void *self)
{
    struct bucket *bucket = self;

    if (bucket == NULL)
        return;
    for (size_t i = 0; i < sizeof(bucket->texts) / sizeof(bucket->texts[0]); i++) {
        if (bucket->texts[i] != NULL)
            explicit_bzero(bucket->texts[i], strlen(bucket->texts[i]));
        free(bucket->texts[i]);
    }
    free(bucket);
    S3_deinitialize();
}

static int
do_open(void **self, const struct g4_foreign_options *options, char *text, size_t size)
{
    const S3Status status = S3_initialize("kvtier", S3_INIT_ALL, options->host);
    struct bucket *bucket;

    *self = NULL;
    if (status != S3StatusOK) {
        (void)snprintf(text, size, "libs3 does not start: %s", S3_get_status_name(status));
        return G4_FOREIGN_UNKNOWN;
    }
    bucket = calloc(1, sizeof(*bucket));
    if (bucket == NULL) {
        S3_deinitialize();
        (void)snprintf(text, size, "out of memory");
        return G4_FOREIGN_NOMEM;
    }
    bucket->texts[0] = strdup(options->host);
    bucket->texts[1] = strdup(options->bucket);
    bucket->texts[2] = strdup(options->access_key);
    bucket->texts[3] = strdup(options->secret_key);
    if (bucket->texts[0] == NULL || bucket->texts[1] == NULL || bucket->texts[2] == NULL ||
        bucket->texts[3] == NULL) {
        do_close(bucket);
        (void)snprintf(text, size, "out of memory");
        return G4_FOREIGN_NOMEM;
    }
    bucket->context =
        (S3BucketContext){.hostName = bucket->texts[0],
                          .bucketName = bucket->texts[1],
                          .protocol = options->tls ? S3ProtocolHTTPS : S3ProtocolHTTP,
                          .uriStyle = options->path_style ? S3UriStylePath : S3UriStyleVirtualHost,
                          .accessKeyId = bucket->texts[2],
                          .secretAccessKey = bucket->texts[3]};
    *self = bucket;
    return G4_FOREIGN_OK;
}

__attribute__((visibility("default"))) extern const struct g4_foreign_driver g4_foreign_driver;

const struct g4_foreign_driver g4_foreign_driver = {
    .abi = G4_FOREIGN_ABI,
    .size = sizeof(struct g4_foreign_driver),
    .name = "libs3",
    .warning =
        "libs3 signs with version 2 and never checks who a TLS server is; the network between "
        "is trusted with keys and blocks",
    .open = do_open,
    .close = do_close,
    .head = do_head,
    .get = do_get,
    .put = do_put,
    .remove = do_remove,
    .list = do_list,
};
