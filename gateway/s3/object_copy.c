#include "gateway/s3/object_copy.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/object/check.h"
#include "gateway/http/attributes.h"
#include "gateway/http/auth.h"
#include "gateway/http/xml_write.h"
#include "gateway/s3/opaque.h"
#include "gateway/s3/s3_bucket.h"
#include "gateway/s3/s3_object.h"
#include "gateway/tier/object_key.h"

enum gateway_s3_error
gateway_object_copy_source(struct gateway_s3 *s3, const struct gateway_request *request,
                           struct g4_object_name *name)
{
    const char *text = gateway_request_header(request, "x-amz-copy-source");
    struct gateway_target *target;
    struct gateway_client_bucket bucket;
    char raw[GATEWAY_PATH_MAX * 2];
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_INVALID_ARGUMENT;

    name->text[0] = '\0';
    if (text == NULL || strlen(text) + 2 > sizeof(raw))
        return fault;
    target = kvt_calloc(1, sizeof(*target));
    if (target == NULL)
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    (void)snprintf(raw, sizeof(raw), "%s%s", text[0] == '/' ? "" : "/", text);
    if (gateway_target_parse(raw, target, NULL) == KVT_OK && target->key[0] != '\0')
        fault = gateway_s3_bucket_find(s3, target->bucket, &bucket);
    if (fault == GATEWAY_S3_ERROR_NONE && target->query[0] != '\0' &&
        strcmp(target->query, "versionId=null") != 0)
        fault = GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    if (fault == GATEWAY_S3_ERROR_NONE &&
        !gateway_auth_may(request->principal, GATEWAY_READ, &bucket, target->key))
        fault = GATEWAY_S3_ERROR_FORBIDDEN;
    if (fault == GATEWAY_S3_ERROR_NONE &&
        gateway_client_bucket_key(&bucket, target->key, name) != KVT_OK)
        fault = GATEWAY_S3_ERROR_NO_SUCH_KEY;
    kvt_free(target);
    return fault;
}

/* What the copy is to have beside its bytes. */
static enum gateway_s3_error
choose_attributes(const struct gateway_request *request, const struct gateway_opaque *source,
                  bool onto_itself, char attributes[G4_ATTRIBUTES_MAX])
{
    const char *directive = gateway_request_header(request, "x-amz-metadata-directive");

    if (directive != NULL && strcmp(directive, "REPLACE") == 0)
        return gateway_attributes_take(request, attributes);
    if (directive != NULL && strcmp(directive, "COPY") != 0)
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    if (onto_itself)
        return GATEWAY_S3_ERROR_COPY_SELF;
    memcpy(attributes, source->attributes, G4_ATTRIBUTES_MAX);
    gateway_attribute_lines_strip(attributes);
    return GATEWAY_S3_ERROR_NONE;
}

static enum gateway_s3_error
store(struct gateway_s3 *s3, struct gateway_request *request, const struct gateway_opaque *source,
      struct gateway_put_item *item)
{
    const bool onto_itself = strcmp(source->key, item->key) == 0;
    char attributes[G4_ATTRIBUTES_MAX];
    enum gateway_s3_error fault;

    if (gateway_object_key_is_block(item->key, NULL)) {
        item->fingerprint = source->meta.fingerprint;
        return gateway_s3_object_store_block(s3, request, item);
    }
    fault = choose_attributes(request, source, onto_itself, attributes);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    /* It changes what is said of these bytes: they must not take the place of later ones. */
    return onto_itself ? gateway_s3_object_replace(s3, request, item, attributes, source)
                       : gateway_s3_object_store(s3, request, item, attributes, NULL);
}

enum gateway_s3_error
gateway_object_copy_tell(struct gateway_request *request, const char *root, const char *etag,
                         const struct gateway_body_checksums *checksums)
{
    gateway_xml_write_begin(&request->answer, root);
    gateway_xml_write_time(&request->answer, "LastModified", kvt_clock_unix_ms());
    kvt_buffer_printf(&request->answer, "<ETag>&quot;%s&quot;</ETag>", etag);
    for (unsigned i = 0; checksums != NULL && i < GATEWAY_BODY_CHECKSUM_COUNT; i++)
        gateway_xml_write_checksum(&request->answer, (enum gateway_body_checksum)i,
                                   checksums->text[i]);
    gateway_xml_write_end(&request->answer, root);
    return gateway_request_answer(request, "application/xml");
}

void
gateway_object_copy_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct g4_object_name name;
    struct gateway_opaque source = {.key = name.text};
    struct gateway_put_item item = {.key = request->stored.text};
    struct kvt_buffer body;
    enum gateway_s3_error fault;

    kvt_buffer_init(&body, (size_t)s3->context->body_limits.object_max + 1);
    fault = gateway_object_copy_source(s3, request, &name);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_s3_object_fetch(s3, request, &body, &source);
    if (fault == GATEWAY_S3_ERROR_NONE) {
        item.body = body.data;
        item.size = body.size;
        item.crc32c = g4_check_crc32c(item.body, item.size);
        fault = store(s3, request, &source, &item);
    }
    kvt_buffer_release(&body);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_object_copy_tell(request, "CopyObjectResult", item.etag, NULL);
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
}
