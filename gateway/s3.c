#include "gateway/s3.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/auth.h"
#include "gateway/batch.h"
#include "gateway/copy.h"
#include "gateway/deletes.h"
#include "gateway/listing.h"
#include "gateway/multipart.h"
#include "gateway/object.h"
#include "gateway/xml.h"

#define BATCH_PATH "/_kvtier/v1/"

/* ANSWER_MIN: 1000 keys of a listing, each byte of them escaped. */
enum { STRANGE_MAX = 24, ANSWER_MIN = 8 << 20 };

static bool
is_batch(const struct gateway_request *request)
{
    return strncmp(request->target.path, BATCH_PATH, strlen(BATCH_PATH)) == 0;
}

/* ---- the bucket, and the batch API ---- */

static void
finish(struct gateway_request *request, const char *root)
{
    enum gateway_fault fault;

    gateway_xml_end(&request->answer, root);
    fault = gateway_request_answer(request, "application/xml");
    if (fault != GATEWAY_FAULT_NONE)
        (void)gateway_request_fail(request, fault);
}

static void
list_buckets(struct gateway_s3 *s3, struct gateway_request *request)
{
    gateway_xml_begin(&request->answer, "ListAllMyBucketsResult");
    kvt_buffer_printf(&request->answer, "<Owner>" GATEWAY_XML_OWNER "</Owner><Buckets><Bucket>");
    gateway_xml_element(&request->answer, "Name", s3->bucket);
    kvt_buffer_printf(&request->answer,
                      "<CreationDate>1970-01-01T00:00:00.000Z</CreationDate></Bucket></Buckets>");
    finish(request, "ListAllMyBucketsResult");
}

bool
gateway_s3_strange(const struct gateway_request *request, const char *const *known, size_t count)
{
    static const char *const signing[] = {
        "X-Amz-Algorithm",      "X-Amz-Credential",     "X-Amz-Date",
        "X-Amz-Expires",        "X-Amz-Signature",      "X-Amz-SignedHeaders",
        "X-Amz-Security-Token", "X-Amz-Content-Sha256", "x-id"};
    const size_t more = sizeof(signing) / sizeof(signing[0]);
    const char *all[STRANGE_MAX];
    char name[64];

    assert(count + more <= STRANGE_MAX);
    for (size_t i = 0; i < count + more; i++)
        all[i] = i < count ? known[i] : signing[i - count];
    return gateway_target_unknown(&request->target, all, count + more, name, sizeof(name));
}

static bool
may(struct gateway_request *request, enum gateway_right right)
{
    if (gateway_auth_may(request->principal, right, request->target.key))
        return true;
    (void)gateway_request_fail(request, GATEWAY_FAULT_FORBIDDEN);
    return false;
}

static void
answer_location(struct gateway_s3 *s3, struct gateway_request *request)
{
    gateway_xml_begin(&request->answer, "LocationConstraint");
    if (strcmp(s3->region, "us-east-1") != 0)
        gateway_xml_text(&request->answer, s3->region);
    finish(request, "LocationConstraint");
}

/* The one bucket is there: us-east-1 takes a second creation for the first. */
static void
create_bucket(struct gateway_s3 *s3, struct gateway_request *request)
{
    if (strcmp(s3->region, "us-east-1") != 0) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_BUCKET_OWNED);
        return;
    }
    request->status = 200;
    gateway_request_field(request, "Location", "/%s", s3->bucket);
}

/* Buckets come and go in the configuration; but a client that asks is told the nearer reason. */
static void
delete_bucket(struct gateway_s3 *s3, struct gateway_request *request)
{
    bool empty;
    enum gateway_fault fault = gateway_listing_empty(s3, &empty);

    if (fault == GATEWAY_FAULT_NONE)
        fault = empty ? GATEWAY_FAULT_NOT_IMPLEMENTED : GATEWAY_FAULT_BUCKET_FULL;
    (void)gateway_request_fail(request, fault);
}

static void
handle_bucket(struct gateway_s3 *s3, struct gateway_request *request)
{
    static const char *const location[] = {"location"};
    static const char *const deletes[] = {"delete"};
    const bool plain = !gateway_s3_strange(request, NULL, 0);

    if (gateway_request_is(request, "HEAD") && plain) {
        request->status = 200;
        gateway_request_field(request, "x-amz-bucket-region", "%s", s3->region);
    } else if (gateway_request_is(request, "PUT") && plain) {
        create_bucket(s3, request);
    } else if (gateway_request_is(request, "DELETE") && plain) {
        delete_bucket(s3, request);
    } else if (gateway_request_is(request, "POST") &&
               gateway_target_has(&request->target, "delete") &&
               !gateway_s3_strange(request, deletes, 1)) {
        gateway_deletes_answer(s3, request);
    } else if (gateway_request_is(request, "GET") &&
               gateway_target_has(&request->target, "location") &&
               !gateway_s3_strange(request, location, 1)) {
        answer_location(s3, request);
    } else if (gateway_request_is(request, "GET") &&
               gateway_target_has(&request->target, "uploads")) {
        gateway_multipart_uploads(s3, request);
    } else if (gateway_request_is(request, "GET")) {
        gateway_listing_answer(s3, request);
    } else {
        (void)gateway_request_fail(request, GATEWAY_FAULT_NOT_IMPLEMENTED);
    }
}

/* Headers with which what is written would be another thing than what is written here. */
static bool
wants_more(const struct gateway_request *request)
{
    static const char *const starts[] = {
        "x-amz-write-offset-bytes", "x-amz-server-side-encryption-customer-", "x-amz-object-lock-"};

    for (size_t i = 0; i < request->header_count; i++)
        for (size_t j = 0; j < sizeof(starts) / sizeof(starts[0]); j++)
            if (strncasecmp(request->headers[i].name, starts[j], strlen(starts[j])) == 0)
                return true;
    return gateway_request_header(request, "x-amz-tagging") != NULL;
}

/* PUT k?acl is not a PUT of k: whatever is not known is not done at all. */
static void
handle_object(struct gateway_s3 *s3, struct gateway_request *request)
{
    const bool get = gateway_request_is(request, "GET") || gateway_request_is(request, "HEAD");
    const bool put = gateway_request_is(request, "PUT");
    const bool drop = gateway_request_is(request, "DELETE");

    if ((put || gateway_request_is(request, "POST")) && wants_more(request))
        (void)gateway_request_fail(request, GATEWAY_FAULT_NOT_IMPLEMENTED);
    else if (gateway_target_has(&request->target, "uploadId") ||
             gateway_target_has(&request->target, "uploads"))
        gateway_multipart_answer(s3, request);
    else if (gateway_s3_strange(request, gateway_object_overrides, get ? 6 : 0))
        (void)gateway_request_fail(request, GATEWAY_FAULT_NOT_IMPLEMENTED);
    else if (get && may(request, GATEWAY_READ))
        gateway_object_read(s3, request);
    else if (put && may(request, GATEWAY_WRITE) &&
             gateway_request_header(request, "x-amz-copy-source") != NULL)
        gateway_copy_answer(s3, request);
    else if (put && request->fault == GATEWAY_FAULT_NONE)
        gateway_object_write(s3, request);
    else if (drop && may(request, GATEWAY_DELETE))
        gateway_object_delete(s3, request);
    else if (!get && !put && !drop)
        (void)gateway_request_fail(request, GATEWAY_FAULT_METHOD);
}

/* Rights to everything are the rule; else each key is asked for, and one refusal refuses all. */
static bool
may_batch(const struct gateway_request *request, enum gateway_batch_verb verb)
{
    const enum gateway_right right = verb == GATEWAY_BATCH_PUT ? GATEWAY_WRITE : GATEWAY_READ;
    struct gateway_batch batch;
    struct kvt_error err;
    bool may = true;

    if (gateway_auth_may(request->principal, right, ""))
        return true;
    if (gateway_batch_parse(&batch, verb, request->body.data, request->body.size, &err) != KVT_OK)
        return request->principal != NULL; /* running it says what is wrong */
    for (size_t i = 0; may && i < batch.count; i++)
        may = gateway_auth_may(request->principal, right,
                               verb == GATEWAY_BATCH_PUT ? batch.puts[i].key : batch.items[i].key);
    gateway_batch_release(&batch);
    return may;
}

static void
handle_batch(struct gateway_s3 *s3, struct gateway_request *request)
{
    static const char *const verbs[] = {
        [GATEWAY_BATCH_HAS] = "has", [GATEWAY_BATCH_GET] = "get", [GATEWAY_BATCH_PUT] = "put"};
    const char *rest = request->target.path + strlen(BATCH_PATH);
    const size_t size = strcspn(rest, "/");
    struct kvt_error err = {.code = KVT_OK};
    uint64_t taken = 0;
    size_t verb = 0;
    enum kvt_err rc;

    while (verb < 3 && (strlen(verbs[verb]) != size || memcmp(verbs[verb], rest, size) != 0))
        verb++;
    if (verb == 3 || rest[size] != '/') {
        (void)gateway_request_fail(request, GATEWAY_FAULT_NOT_IMPLEMENTED);
        return;
    }
    if (strcmp(rest + size + 1, s3->bucket) != 0) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_NO_SUCH_BUCKET);
        return;
    }
    if (!gateway_request_is(request, "POST")) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_METHOD);
        return;
    }
    if (!may_batch(request, (enum gateway_batch_verb)verb)) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_FORBIDDEN);
        return;
    }
    rc = gateway_batch_run(s3->vault, (enum gateway_batch_verb)verb, request->body.data,
                           request->body.size, s3->budget, &taken, &request->answer, &err);
    request->taken += taken;
    if (rc != KVT_OK) {
        gateway_stats_add(s3->vault->stats, GATEWAY_STAT_HTTP_BAD, 1);
        (void)gateway_request_fail(request, rc == KVT_NOMEM ? GATEWAY_FAULT_SLOW_DOWN
                                                            : GATEWAY_FAULT_INVALID_REQUEST);
        gateway_request_field(request, "x-kvtier-error", "%s", err.text);
        return;
    }
    request->status = 200;
    request->content_type = "application/octet-stream";
    request->body_size = request->answer.size;
}

size_t
gateway_s3_answer_max(const struct gateway_s3 *s3)
{
    const size_t batch = 2 * (size_t)s3->batch_max + (1u << 20);

    return batch > ANSWER_MIN ? batch : ANSWER_MIN;
}

enum gateway_fault
gateway_s3_admit(const struct gateway_s3 *s3, const struct gateway_request *request,
                 uint64_t length)
{
    (void)request;
    return length > s3->batch_max ? GATEWAY_FAULT_TOO_LARGE : GATEWAY_FAULT_NONE;
}

void
gateway_s3_handle(struct gateway_s3 *s3, struct gateway_request *request)
{
    if (is_batch(request))
        handle_batch(s3, request);
    else if (request->target.bucket[0] == '\0' && gateway_request_is(request, "GET"))
        list_buckets(s3, request);
    else if (request->target.bucket[0] == '\0')
        (void)gateway_request_fail(request, GATEWAY_FAULT_METHOD);
    else if (strcmp(request->target.bucket, s3->bucket) != 0)
        (void)gateway_request_fail(request, gateway_request_is(request, "PUT") &&
                                                    request->target.key[0] == '\0'
                                                ? GATEWAY_FAULT_NOT_IMPLEMENTED
                                                : GATEWAY_FAULT_NO_SUCH_BUCKET);
    else if (request->target.key[0] == '\0')
        handle_bucket(s3, request);
    else
        handle_object(s3, request);
    if (request->fault == GATEWAY_FAULT_SLOW_DOWN)
        gateway_stats_add(s3->vault->stats, GATEWAY_STAT_SLOW_DOWN, 1);
}
