#include "gateway/s3/s3_bucket.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/http/auth.h"
#include "gateway/http/xml_read.h"
#include "gateway/http/xml_write.h"
#include "gateway/s3/object_listing.h"
#include "gateway/upload/uploads.h"

/* Where S3 takes a second creation for the first, and names no location. */
#define OLDEST_REGION "us-east-1"

enum gateway_s3_error
gateway_s3_bucket_find(struct gateway_s3 *s3, const char *name,
                       struct gateway_client_bucket *bucket)
{
    const enum kvt_err rc =
        gateway_client_buckets_find(s3->buckets, s3->context, name, false, bucket);

    return rc == KVT_NOTFOUND ? GATEWAY_S3_ERROR_NO_SUCH_BUCKET : gateway_request_fault_of(rc);
}

static void
finish(struct gateway_request *request, const char *root)
{
    enum gateway_s3_error fault;

    gateway_xml_write_end(&request->answer, root);
    fault = gateway_request_answer(request, "application/xml");
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
}

/* ---- ListBuckets ---- */

struct page {
    char prefix[GATEWAY_CLIENT_BUCKET_NAME];
    char after[GATEWAY_CLIENT_BUCKET_NAME];
    size_t max;
    size_t given;
    bool paged;     /* max-buckets was asked for */
    bool truncated; /* there are more */
    char last[GATEWAY_CLIENT_BUCKET_NAME];
};

static bool
read_page(const struct gateway_request *request, struct page *page)
{
    const struct gateway_target *target = &request->target;
    uint64_t max = 0;
    enum kvt_err rc;

    *page = (struct page){.max = GATEWAY_CLIENT_BUCKETS_MAX + 1};
    rc = gateway_target_query(target, "prefix", page->prefix, sizeof(page->prefix));
    if (rc == KVT_OK || rc == KVT_NOTFOUND)
        rc = gateway_target_query(target, "continuation-token", page->after, sizeof(page->after));
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return false;
    if (!gateway_target_has(target, "max-buckets"))
        return true;
    if (!gateway_target_number(target, "max-buckets", &max) || max == 0 || max > 10000)
        return false;
    page->paged = true;
    page->max = max < page->max ? (size_t)max : page->max;
    return true;
}

static void
give_bucket(struct gateway_request *request, struct page *page,
            const struct gateway_client_bucket *bucket)
{
    if (strcmp(bucket->name, page->after) <= 0 || !gateway_auth_sees(request->principal, bucket) ||
        strncmp(bucket->name, page->prefix, strlen(page->prefix)) != 0)
        return;
    if (page->given == page->max) {
        page->truncated = true;
        return;
    }
    page->given++;
    memcpy(page->last, bucket->name, sizeof(page->last));
    kvt_buffer_printf(&request->answer, "<Bucket>");
    gateway_xml_write_element(&request->answer, "Name", bucket->name);
    gateway_xml_write_time(&request->answer, "CreationDate", bucket->created_ms);
    kvt_buffer_printf(&request->answer, "</Bucket>");
}

/* In the order of names: the configured one stands among the others. */
static void
give_buckets(struct gateway_s3 *s3, struct gateway_request *request, struct page *page,
             const struct gateway_client_bucket *rows, size_t count)
{
    struct gateway_client_bucket configured;
    bool given = gateway_s3_bucket_find(s3, s3->bucket, &configured) != GATEWAY_S3_ERROR_NONE;

    gateway_xml_write_begin(&request->answer, "ListAllMyBucketsResult");
    gateway_xml_write_owner(&request->answer, "Owner", request->principal->owner);
    kvt_buffer_printf(&request->answer, "<Buckets>");
    for (size_t i = 0; i < count; i++) {
        if (!given && strcmp(configured.name, rows[i].name) < 0) {
            give_bucket(request, page, &configured);
            given = true;
        }
        give_bucket(request, page, &rows[i]);
    }
    if (!given)
        give_bucket(request, page, &configured);
    kvt_buffer_printf(&request->answer, "</Buckets>");
    if (page->truncated && page->paged)
        gateway_xml_write_element(&request->answer, "ContinuationToken", page->last);
    finish(request, "ListAllMyBucketsResult");
}

void
gateway_s3_bucket_list(struct gateway_s3 *s3, struct gateway_request *request)
{
    static const char *const known[] = {"prefix", "continuation-token", "max-buckets",
                                        "bucket-region"};
    struct gateway_client_bucket *rows = kvt_calloc(GATEWAY_CLIENT_BUCKETS_MAX, sizeof(*rows));
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_NONE;
    struct page page;
    size_t count = 0;

    if (request->principal == NULL)
        fault = GATEWAY_S3_ERROR_FORBIDDEN;
    else if (gateway_s3_strange(request, known, sizeof(known) / sizeof(known[0])))
        fault = GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    else if (rows == NULL)
        fault = GATEWAY_S3_ERROR_SLOW_DOWN;
    else if (!read_page(request, &page))
        fault = GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_request_fault_of(
            gateway_client_buckets_list(s3->buckets, s3->context, page.after, rows, &count));
    if (fault == GATEWAY_S3_ERROR_NONE)
        give_buckets(s3, request, &page, rows, count);
    else
        (void)gateway_request_fail(request, fault);
    kvt_free(rows);
}

/* ---- one bucket ---- */

static bool
on_text(void *arg, bool in_row, const char *name, const char *text)
{
    char *location = arg;

    if (in_row || strcmp(name, "LocationConstraint") != 0)
        return true;
    if (strlen(text) >= GATEWAY_CLIENT_BUCKET_NAME)
        return false;
    memcpy(location, text, strlen(text) + 1);
    return true;
}

static bool
on_row(void *arg)
{
    (void)arg;
    return true;
}

static enum gateway_s3_error
check_location(const struct gateway_s3 *s3, const struct gateway_request *request)
{
    char location[GATEWAY_CLIENT_BUCKET_NAME] = "";
    const struct gateway_xml_read form = {.root = "CreateBucketConfiguration",
                                          .row = "",
                                          .on_text = on_text,
                                          .on_row = on_row,
                                          .arg = location};

    if (request->body.size == 0)
        return GATEWAY_S3_ERROR_NONE;
    if (!gateway_xml_read_parse(&form, request->body.data, request->body.size))
        return GATEWAY_S3_ERROR_XML;
    return location[0] == '\0' || strcmp(location, s3->region) == 0 ? GATEWAY_S3_ERROR_NONE
                                                                    : GATEWAY_S3_ERROR_LOCATION;
}

/* One of that name is there already. */
static enum gateway_s3_error
meet(const struct gateway_s3 *s3, const struct gateway_request *request,
     const struct gateway_client_bucket *bucket)
{
    if (gateway_client_bucket_configured(bucket) ? !gateway_auth_sees(request->principal, bucket)
                                                 : !gateway_auth_owns(request->principal, bucket))
        return GATEWAY_S3_ERROR_BUCKET_TAKEN;
    return strcmp(s3->region, OLDEST_REGION) == 0 ? GATEWAY_S3_ERROR_NONE
                                                  : GATEWAY_S3_ERROR_BUCKET_OWNED;
}

static enum gateway_s3_error
make(struct gateway_s3 *s3, struct gateway_request *request)
{
    const char *name = request->target.bucket;
    enum gateway_s3_error fault;
    enum kvt_err rc;

    if (strcmp(name, s3->bucket) == 0) {
        fault = gateway_s3_bucket_find(s3, name, &request->bucket);
        return fault == GATEWAY_S3_ERROR_NONE ? meet(s3, request, &request->bucket) : fault;
    }
    if (request->target.bucket_long || !gateway_client_bucket_name_valid(name))
        return GATEWAY_S3_ERROR_BUCKET_NAME;
    if (request->principal == NULL ||
        !gateway_client_credentials_match(request->principal->creates, name))
        return GATEWAY_S3_ERROR_FORBIDDEN;
    fault = check_location(s3, request);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    rc = gateway_client_buckets_make(s3->buckets, s3->context, name, request->principal->owner,
                                     &request->bucket);
    if (rc == KVT_EXISTS)
        return meet(s3, request, &request->bucket);
    return rc == KVT_FULL ? GATEWAY_S3_ERROR_BUCKETS_FULL : gateway_request_fault_of(rc);
}

void
gateway_s3_bucket_create(struct gateway_s3 *s3, struct gateway_request *request)
{
    const enum gateway_s3_error fault = make(s3, request);

    if (fault != GATEWAY_S3_ERROR_NONE) {
        (void)gateway_request_fail(request, fault);
        return;
    }
    request->status = 200;
    gateway_request_field(request, "Location", "/%s", request->target.bucket);
}

/* Everybody may know that the configured bucket is there. */
static bool
may_see(struct gateway_request *request)
{
    if (request->principal != NULL && (gateway_client_bucket_configured(&request->bucket) ||
                                       gateway_auth_sees(request->principal, &request->bucket)))
        return true;
    (void)gateway_request_fail(request, GATEWAY_S3_ERROR_FORBIDDEN);
    return false;
}

void
gateway_s3_bucket_head(struct gateway_s3 *s3, struct gateway_request *request)
{
    if (!may_see(request))
        return;
    request->status = 200;
    gateway_request_field(request, "x-amz-bucket-region", "%s", s3->region);
}

void
gateway_s3_bucket_location(struct gateway_s3 *s3, struct gateway_request *request)
{
    if (!may_see(request))
        return;
    gateway_xml_write_begin(&request->answer, "LocationConstraint");
    if (strcmp(s3->region, OLDEST_REGION) != 0)
        gateway_xml_write_text(&request->answer, s3->region);
    finish(request, "LocationConstraint");
}

/* The configured bucket comes and goes in the configuration; but who asks is told the nearer
 * reason. */
static enum gateway_s3_error
keep_configured(struct gateway_s3 *s3, const struct gateway_request *request)
{
    bool empty;
    enum gateway_s3_error fault = gateway_object_listing_empty(s3, &request->bucket, &empty);

    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    return empty ? GATEWAY_S3_ERROR_NOT_IMPLEMENTED : GATEWAY_S3_ERROR_BUCKET_FULL;
}

void
gateway_s3_bucket_remove(struct gateway_s3 *s3, struct gateway_request *request)
{
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_FORBIDDEN;
    enum kvt_err rc;

    if (gateway_client_bucket_configured(&request->bucket)) {
        if (gateway_auth_may(request->principal, GATEWAY_DELETE, NULL, ""))
            fault = keep_configured(s3, request);
    } else if (gateway_auth_owns(request->principal, &request->bucket)) {
        rc = gateway_client_buckets_remove(s3->buckets, s3->context, &request->bucket);
        fault = rc == KVT_BUSY       ? GATEWAY_S3_ERROR_BUCKET_FULL
                : rc == KVT_AGAIN    ? GATEWAY_S3_ERROR_ABORTED
                : rc == KVT_NOTFOUND ? GATEWAY_S3_ERROR_NO_SUCH_BUCKET
                                     : gateway_request_fault_of(rc);
        if (fault == GATEWAY_S3_ERROR_NONE)
            gateway_uploads_drop_all(s3->context, request->bucket.id);
    }
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
    else
        request->status = 204;
}
