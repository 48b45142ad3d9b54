#include <string.h>

#include "gateway/http/auth.h"
#include "gateway/http/xml_write.h"
#include "gateway/s3/opaque.h"
#include "gateway/s3/s3_handlers.h"
#include "gateway/s3/s3_object.h"

#define XSI "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\""

struct row {
    const char *argument;
    const char *root;    /* of the answer; NULL: `fault` */
    const char *content; /* of the root; NULL: the ACL */
    enum gateway_s3_error fault;
};

static const struct row of_buckets[] = {
    {"acl", "AccessControlPolicy", NULL, GATEWAY_S3_ERROR_NONE},
    {"versioning", "VersioningConfiguration", "", GATEWAY_S3_ERROR_NONE},
    {"policy", NULL, NULL, GATEWAY_S3_ERROR_NO_POLICY},
    {"tagging", NULL, NULL, GATEWAY_S3_ERROR_NO_TAGS},
    {"cors", NULL, NULL, GATEWAY_S3_ERROR_NO_CORS},
    {"lifecycle", NULL, NULL, GATEWAY_S3_ERROR_NO_LIFECYCLE},
    {"encryption", NULL, NULL, GATEWAY_S3_ERROR_NO_ENCRYPTION},
    {"object-lock", NULL, NULL, GATEWAY_S3_ERROR_NO_LOCK},
    {"website", NULL, NULL, GATEWAY_S3_ERROR_NO_WEBSITE},
    {"replication", NULL, NULL, GATEWAY_S3_ERROR_NO_REPLICATION},
    {"publicAccessBlock", NULL, NULL, GATEWAY_S3_ERROR_NO_ACCESS_BLOCK},
    {"logging", "BucketLoggingStatus", "", GATEWAY_S3_ERROR_NONE},
    {"notification", "NotificationConfiguration", "", GATEWAY_S3_ERROR_NONE},
    {"accelerate", "AccelerateConfiguration", "", GATEWAY_S3_ERROR_NONE},
    {"requestPayment", "RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>",
     GATEWAY_S3_ERROR_NONE},
};

static const struct row of_objects[] = {
    {"acl", "AccessControlPolicy", NULL, GATEWAY_S3_ERROR_NONE},
    {"tagging", "Tagging", "<TagSet/>", GATEWAY_S3_ERROR_NONE},
    {"retention", NULL, NULL, GATEWAY_S3_ERROR_NO_OBJECT_LOCK},
    {"legal-hold", NULL, NULL, GATEWAY_S3_ERROR_NO_OBJECT_LOCK},
};

/* Whose it is may do all; rights of others are not written here. */
static void
give_acl(struct kvt_buffer *out, const char *owner)
{
    gateway_xml_write_owner(out, "Owner", owner);
    kvt_buffer_printf(out,
                      "<AccessControlList><Grant><Grantee " XSI " xsi:type=\"CanonicalUser\">");
    gateway_xml_write_element(out, "ID", owner);
    gateway_xml_write_element(out, "DisplayName", owner);
    kvt_buffer_printf(out, "</Grantee><Permission>FULL_CONTROL</Permission></Grant>"
                           "</AccessControlList>");
}

static enum gateway_s3_error
give(struct gateway_s3 *s3, struct gateway_request *request, const struct row *row, bool of_object)
{
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_FORBIDDEN;
    struct gateway_opaque object;

    if (of_object) {
        if (gateway_auth_may(request->principal, GATEWAY_READ, &request->bucket,
                             request->target.key))
            fault = gateway_s3_object_there(s3, request, &object);
    } else if (gateway_auth_may(request->principal, GATEWAY_LIST, &request->bucket, "")) {
        fault = GATEWAY_S3_ERROR_NONE;
    }
    if (fault != GATEWAY_S3_ERROR_NONE || row->fault != GATEWAY_S3_ERROR_NONE)
        return fault != GATEWAY_S3_ERROR_NONE ? fault : row->fault;
    gateway_xml_write_begin(&request->answer, row->root);
    if (row->content == NULL)
        give_acl(&request->answer, request->bucket.owner);
    else
        kvt_buffer_printf(&request->answer, "%s", row->content);
    gateway_xml_write_end(&request->answer, row->root);
    return gateway_request_answer(request, "application/xml");
}

bool
gateway_subresource_canned(const char *name)
{
    static const char *const canned[] = {
        "private",           "public-read",   "public-read-write",         "authenticated-read",
        "bucket-owner-read", "aws-exec-read", "bucket-owner-full-control", "log-delivery-write"};
    bool found = name == NULL;

    for (size_t i = 0; i < sizeof(canned) / sizeof(canned[0]) && !found; i++)
        found = strcmp(name, canned[i]) == 0;
    return found;
}

/* What is so already may be set: private. */
static enum gateway_s3_error
set_acl(struct gateway_s3 *s3, struct gateway_request *request, bool of_object)
{
    const char *canned = gateway_request_header(request, "x-amz-acl");
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_NONE;
    struct gateway_opaque object;

    if (!gateway_auth_may(request->principal, GATEWAY_WRITE, &request->bucket,
                          of_object ? request->target.key : ""))
        return GATEWAY_S3_ERROR_FORBIDDEN;
    if (!gateway_subresource_canned(canned))
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    if (canned == NULL || strcmp(canned, "private") != 0 || request->body.size > 0)
        return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    if (of_object)
        fault = gateway_s3_object_there(s3, request, &object);
    if (fault == GATEWAY_S3_ERROR_NONE)
        request->status = 200;
    return fault;
}

bool
gateway_subresource_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    const bool of_object = request->target.key[0] != '\0';
    const struct row *rows = of_object ? of_objects : of_buckets;
    const size_t count = of_object ? sizeof(of_objects) / sizeof(of_objects[0])
                                   : sizeof(of_buckets) / sizeof(of_buckets[0]);
    const bool get = gateway_request_is(request, "GET");
    enum gateway_s3_error fault;

    for (size_t i = 0; i < count; i++) {
        if (!gateway_target_has(&request->target, rows[i].argument) ||
            gateway_s3_strange(request, &rows[i].argument, 1))
            continue;
        if (get)
            fault = give(s3, request, &rows[i], of_object);
        else if (gateway_request_is(request, "PUT") && strcmp(rows[i].argument, "acl") == 0)
            fault = set_acl(s3, request, of_object);
        else
            fault = GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
        if (fault != GATEWAY_S3_ERROR_NONE)
            (void)gateway_request_fail(request, fault);
        return true;
    }
    return false;
}
