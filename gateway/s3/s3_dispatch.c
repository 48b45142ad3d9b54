#include "gateway/s3/s3_dispatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "g4/lock/selftest.h"
#include "gateway/block/removal.h"
#include "gateway/http/auth.h"
#include "gateway/s3/batch_request.h"
#include "gateway/s3/listing_prefetch.h"
#include "gateway/s3/object_copy.h"
#include "gateway/s3/object_listing.h"
#include "gateway/s3/s3_bucket.h"
#include "gateway/s3/s3_handlers.h"
#include "gateway/s3/s3_object.h"
#include "gateway/tier/object_key.h"

#define BATCH_PATH "/_kvtier/v1/"

static bool
is_batch(const struct gateway_request *request)
{
    return strncmp(request->target.path, BATCH_PATH, strlen(BATCH_PATH)) == 0;
}

/* ---- the bucket ---- */

static void
handle_bucket(struct gateway_s3 *s3, struct gateway_request *request)
{
    static const char *const location[] = {"location"};
    static const char *const deletes[] = {"delete"};
    const bool plain = !gateway_s3_strange(request, NULL, 0);

    if (gateway_request_is(request, "HEAD") && plain)
        gateway_s3_bucket_head(s3, request);
    else if (gateway_request_is(request, "DELETE") && plain)
        gateway_s3_bucket_remove(s3, request);
    else if (gateway_request_is(request, "POST") &&
             gateway_target_has(&request->target, "delete") &&
             !gateway_s3_strange(request, deletes, 1))
        gateway_deletes_answer(s3, request);
    else if (gateway_request_is(request, "GET") &&
             gateway_target_has(&request->target, "location") &&
             !gateway_s3_strange(request, location, 1))
        gateway_s3_bucket_location(s3, request);
    else if (gateway_request_is(request, "GET") && gateway_target_has(&request->target, "uploads"))
        gateway_upload_listing_answer(s3, request);
    else if (gateway_subresource_answer(s3, request))
        return;
    else if (gateway_request_is(request, "GET"))
        gateway_object_listing_answer(s3, request);
    else
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_NOT_IMPLEMENTED);
}

/* ---- objects ---- */

/* Who declines what is not offered wishes for nothing: rclone says so of each bucket it makes. */
static bool
is_declined(const struct g4_sigv4_header *header)
{
    return strcasecmp(header->name, "x-amz-bucket-object-lock-enabled") == 0 &&
           strcasecmp(header->value, "false") == 0;
}

/* Headers with which what is written would be another thing than what is written here. */
static enum gateway_s3_error
check_wishes(const struct gateway_request *request)
{
    static const char *const starts[] = {"x-amz-write-offset-bytes",
                                         "x-amz-server-side-encryption",
                                         "x-amz-object-lock-",
                                         "x-amz-bucket-object-lock-",
                                         "x-amz-grant-",
                                         "x-amz-website-"};
    const char *class = gateway_request_header(request, "x-amz-storage-class");

    for (size_t i = 0; i < request->header_count; i++)
        for (size_t j = 0; j < sizeof(starts) / sizeof(starts[0]); j++)
            if (strncasecmp(request->headers[i].name, starts[j], strlen(starts[j])) == 0 &&
                !is_declined(&request->headers[i]))
                return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    if (gateway_request_header(request, "x-amz-tagging") != NULL)
        return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    if (!gateway_subresource_canned(gateway_request_header(request, "x-amz-acl")))
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    return class == NULL || strcmp(class, "STANDARD") == 0 ? GATEWAY_S3_ERROR_NONE
                                                           : GATEWAY_S3_ERROR_STORAGE_CLASS;
}

static enum gateway_right
right_of(const struct gateway_request *request)
{
    if (gateway_target_has(&request->target, "uploadId") ||
        gateway_target_has(&request->target, "uploads"))
        return GATEWAY_WRITE; /* whoever writes an upload may look at it and abort it */
    if (gateway_request_is(request, "GET") || gateway_request_is(request, "HEAD"))
        return GATEWAY_READ;
    return gateway_request_is(request, "DELETE") ? GATEWAY_DELETE : GATEWAY_WRITE;
}

/* Where the object is, or would be. */
static enum gateway_s3_error
place(struct gateway_request *request)
{
    const bool get = gateway_request_is(request, "GET") || gateway_request_is(request, "HEAD");

    /* The self-test is of a store.  Whoever runs it against a gateway must learn that it is one. */
    if (gateway_client_bucket_configured(&request->bucket) &&
        strncmp(request->target.key, G4_SELFTEST_FOLDER "/", strlen(G4_SELFTEST_FOLDER "/")) == 0)
        return GATEWAY_S3_ERROR_SELFTEST;
    switch (gateway_client_bucket_key(&request->bucket, request->target.key, &request->stored)) {
    case KVT_OK: return GATEWAY_S3_ERROR_NONE;
    case KVT_RANGE: return get ? GATEWAY_S3_ERROR_NO_SUCH_KEY : GATEWAY_S3_ERROR_KEY_TOO_LONG;
    default: return GATEWAY_S3_ERROR_INVALID_URI; /* no UTF-8 */
    }
}

/* Without versions there is one, whose name is "null". */
static bool
names_version(const struct gateway_request *request)
{
    char id[8];
    const enum kvt_err rc = gateway_target_query(&request->target, "versionId", id, sizeof(id));

    return rc != KVT_NOTFOUND && (rc != KVT_OK || (id[0] != '\0' && strcmp(id, "null") != 0));
}

/* What was written into a bucket that somebody removed meanwhile is not written. */
static void
settle(struct gateway_s3 *s3, struct gateway_request *request)
{
    const enum kvt_err rc =
        gateway_client_buckets_settle(s3->buckets, s3->context, &request->bucket);

    if (rc == KVT_OK)
        return;
    if (rc == KVT_NOTFOUND)
        (void)!gateway_remove(s3->context, request->stored.text);
    (void)gateway_request_fail(request, rc == KVT_NOTFOUND ? GATEWAY_S3_ERROR_NO_SUCH_BUCKET
                                        : rc == KVT_AGAIN  ? GATEWAY_S3_ERROR_ABORTED
                                                           : gateway_request_fault_of(rc));
}

/* PUT k?acl is not a PUT of k: whatever is not known is not done at all. */
static void
answer_object(struct gateway_s3 *s3, struct gateway_request *request)
{
    const bool get = gateway_request_is(request, "GET") || gateway_request_is(request, "HEAD");
    const bool upload = gateway_target_has(&request->target, "uploadId") ||
                        gateway_target_has(&request->target, "uploads");

    if (upload && gateway_request_header(request, "x-amz-if-match-initiated-time") != NULL)
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_NOT_IMPLEMENTED);
    else if (upload)
        gateway_multipart_answer(s3, request);
    else if (gateway_s3_object_attributes_is(request))
        gateway_s3_object_attributes_answer(s3, request);
    else if (!gateway_s3_strange(request, gateway_s3_object_arguments,
                                 get ? GATEWAY_S3_OBJECT_ARGUMENTS : 1)) {
        if (get)
            gateway_s3_object_read(s3, request);
        else if (gateway_request_is(request, "DELETE"))
            gateway_s3_object_delete(s3, request);
        else if (!gateway_request_is(request, "PUT"))
            (void)gateway_request_fail(request, GATEWAY_S3_ERROR_METHOD);
        else if (gateway_request_header(request, "x-amz-copy-source") != NULL)
            gateway_object_copy_answer(s3, request);
        else
            gateway_s3_object_write(s3, request);
    } else if (!gateway_subresource_answer(s3, request)) {
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_NOT_IMPLEMENTED);
    }
    if (request->fault == GATEWAY_S3_ERROR_NONE && !get && !gateway_request_is(request, "DELETE"))
        settle(s3, request);
}

static void
handle_object(struct gateway_s3 *s3, struct gateway_request *request)
{
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_NONE;

    if (!gateway_auth_may(request->principal, right_of(request), &request->bucket,
                          request->target.key))
        fault = GATEWAY_S3_ERROR_FORBIDDEN;
    else if (gateway_request_is(request, "PUT") || gateway_request_is(request, "POST"))
        fault = check_wishes(request);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = place(request);
    if (fault == GATEWAY_S3_ERROR_NONE && names_version(request))
        fault = GATEWAY_S3_ERROR_NO_SUCH_VERSION;
    if (fault == GATEWAY_S3_ERROR_NONE)
        answer_object(s3, request);
    else
        (void)gateway_request_fail(request, fault);
}

/* Rights to everything are the rule; else each key is asked for, and one refusal refuses all. */
static bool
may_batch(const struct gateway_request *request, enum gateway_batch_request_verb verb)
{
    const enum gateway_right right =
        verb == GATEWAY_BATCH_REQUEST_PUT ? GATEWAY_WRITE : GATEWAY_READ;
    struct gateway_batch_request batch;
    struct kvt_error err;
    bool may = true;

    if (gateway_auth_may(request->principal, right, NULL, ""))
        return true;
    if (gateway_batch_request_parse(&batch, verb, request->body.data, request->body.size, &err) !=
        KVT_OK)
        return request->principal != NULL; /* running it says what is wrong */
    for (size_t i = 0; may && i < batch.count; i++)
        may = gateway_auth_may(request->principal, right, NULL,
                               verb == GATEWAY_BATCH_REQUEST_PUT ? batch.puts[i].key
                                                                 : batch.items[i].key);
    gateway_batch_request_release(&batch);
    return may;
}

static void
handle_batch(struct gateway_s3 *s3, struct gateway_request *request)
{
    static const char *const verbs[] = {[GATEWAY_BATCH_REQUEST_HAS] = "has",
                                        [GATEWAY_BATCH_REQUEST_GET] = "get",
                                        [GATEWAY_BATCH_REQUEST_PUT] = "put"};
    const char *rest = request->target.path + strlen(BATCH_PATH);
    const size_t size = strcspn(rest, "/");
    struct kvt_error err = {.code = KVT_OK};
    uint64_t fingerprint;
    uint64_t taken = 0;
    size_t verb = 0;
    enum kvt_err rc;

    while (verb < 3 && (strlen(verbs[verb]) != size || memcmp(verbs[verb], rest, size) != 0))
        verb++;
    if (verb == 3 || rest[size] != '/') {
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_NOT_IMPLEMENTED);
        return;
    }
    if (strcmp(rest + size + 1, s3->bucket) != 0) {
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_NO_SUCH_BUCKET);
        return;
    }
    if (!gateway_request_is(request, "POST")) {
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_METHOD);
        return;
    }
    if (!may_batch(request, (enum gateway_batch_request_verb)verb)) {
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_FORBIDDEN);
        return;
    }
    if (!gateway_request_hex(request, "x-kvtier-fingerprint", &fingerprint)) {
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_INVALID_ARGUMENT);
        return;
    }
    rc = gateway_batch_request_run(s3->context, (enum gateway_batch_request_verb)verb,
                                   request->body.data, request->body.size, fingerprint, s3->budget,
                                   &taken, &request->answer, &err);
    request->taken += taken;
    if (rc != KVT_OK) {
        gateway_stats_add(s3->context->stats, GATEWAY_STAT_HTTP_BAD, 1);
        (void)gateway_request_fail(request, rc == KVT_NOMEM ? GATEWAY_S3_ERROR_SLOW_DOWN
                                                            : GATEWAY_S3_ERROR_INVALID_REQUEST);
        gateway_request_field(request, "x-kvtier-error", "%s", err.text);
        return;
    }
    request->status = 200;
    request->content_type = "application/octet-stream";
    request->body_size = request->answer.size;
}

/* Who says whose the bucket is means no other. */
static bool
expects_another(const struct gateway_request *request)
{
    const char *owner = gateway_request_header(request, "x-amz-expected-bucket-owner");

    return owner != NULL && strcmp(owner, request->bucket.owner) != 0;
}

static void
handle_known(struct gateway_s3 *s3, struct gateway_request *request)
{
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_NO_SUCH_BUCKET;

    if (!request->target.bucket_long)
        fault = gateway_s3_bucket_find(s3, request->target.bucket, &request->bucket);
    if (fault == GATEWAY_S3_ERROR_NONE && expects_another(request))
        fault = GATEWAY_S3_ERROR_FORBIDDEN;
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
    else if (request->target.key[0] == '\0')
        handle_bucket(s3, request);
    else
        handle_object(s3, request);
}

static bool
is_creation(const struct gateway_request *request)
{
    return request->target.key[0] == '\0' && gateway_request_is(request, "PUT") &&
           !gateway_s3_strange(request, NULL, 0);
}

static void
handle(struct gateway_s3 *s3, struct gateway_request *request)
{
    enum gateway_s3_error fault;

    if (is_batch(request)) {
        handle_batch(s3, request);
    } else if (request->target.bucket[0] == '\0') {
        if (request->target.key[0] != '\0') /* "//bucket/key" is in no bucket */
            (void)gateway_request_fail(request, GATEWAY_S3_ERROR_INVALID_URI);
        else if (gateway_request_is(request, "GET"))
            gateway_s3_bucket_list(s3, request);
        else
            (void)gateway_request_fail(request, GATEWAY_S3_ERROR_METHOD);
    } else if (!is_creation(request)) {
        handle_known(s3, request);
    } else {
        fault = check_wishes(request);
        if (fault == GATEWAY_S3_ERROR_NONE)
            gateway_s3_bucket_create(s3, request);
        else
            (void)gateway_request_fail(request, fault);
    }
    if (request->fault == GATEWAY_S3_ERROR_SLOW_DOWN)
        gateway_stats_add(s3->context->stats, GATEWAY_STAT_SLOW_DOWN, 1);
}

void
gateway_s3_dispatch(struct gateway_s3 *s3, struct gateway_request *request)
{
    handle(s3, request);
    /* Before anybody is told that it is done. */
    if (s3->prefetch != NULL && !gateway_request_is(request, "GET") &&
        !gateway_request_is(request, "HEAD"))
        gateway_listing_prefetch_change(s3->prefetch);
}

bool
gateway_s3_dispatch_at_once(struct gateway_s3 *s3, struct gateway_request *request)
{
    const struct gateway_target *target = &request->target;

    return gateway_request_is(request, "GET") && target->query[0] == '\0' &&
           target->key[0] != '\0' && !target->bucket_long &&
           strcmp(target->bucket, s3->bucket) == 0 && !is_batch(request) &&
           gateway_s3_bucket_find(s3, target->bucket, &request->bucket) == GATEWAY_S3_ERROR_NONE &&
           !expects_another(request) &&
           gateway_auth_may(request->principal, GATEWAY_READ, &request->bucket, target->key) &&
           place(request) == GATEWAY_S3_ERROR_NONE && gateway_s3_object_read_at_once(s3, request);
}
