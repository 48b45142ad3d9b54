#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/http/auth.h"
#include "gateway/http/xml_write.h"
#include "gateway/s3/s3_handlers.h"
#include "gateway/upload/uploads.h"

enum { ROWS_MAX = 1000 };

#define ROOT "ListMultipartUploadsResult"

struct page {
    char prefix[G4_CLIENT_KEY_MAX];
    char delimiter[G4_CLIENT_KEY_MAX];
    char key_marker[G4_CLIENT_KEY_MAX];
    char id_marker[GATEWAY_UPLOAD_ID];
    bool encode;
    size_t max;
    size_t given;
    bool truncated;
    char last_key[G4_CLIENT_KEY_MAX]; /* given last: an upload's, or a common prefix */
    char last_id[GATEWAY_UPLOAD_ID];
    char fold[G4_CLIENT_KEY_MAX];
    struct kvt_buffer folded;
};

static bool
read_text(const struct gateway_request *request, const char *name, char *value, size_t size)
{
    const enum kvt_err rc = gateway_target_query(&request->target, name, value, size);

    return rc == KVT_OK || rc == KVT_NOTFOUND;
}

static enum gateway_s3_error
read_page(const struct gateway_request *request, struct page *page)
{
    static const char *const known[] = {"uploads",       "prefix",     "delimiter",
                                        "max-uploads",   "key-marker", "upload-id-marker",
                                        "encoding-type", "list-type"};
    char text[32];
    uint64_t max = ROWS_MAX;

    if (gateway_s3_strange(request, known, sizeof(known) / sizeof(known[0])))
        return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    if (!read_text(request, "prefix", page->prefix, sizeof(page->prefix)) ||
        !read_text(request, "delimiter", page->delimiter, sizeof(page->delimiter)) ||
        !read_text(request, "key-marker", page->key_marker, sizeof(page->key_marker)) ||
        !read_text(request, "upload-id-marker", page->id_marker, sizeof(page->id_marker)) ||
        !read_text(request, "encoding-type", text, sizeof(text)))
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    page->encode = text[0] != '\0';
    if (page->encode && strcmp(text, "url") != 0)
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    if (!gateway_target_number(&request->target, "max-uploads", &max))
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    page->max = max < ROWS_MAX ? (size_t)max : ROWS_MAX;
    return GATEWAY_S3_ERROR_NONE;
}

static void
element(const struct page *page, struct kvt_buffer *out, const char *name, const char *text)
{
    kvt_buffer_printf(out, "<%s>", name);
    if (page->encode)
        g4_sigv4_encode(out, text, true);
    else
        gateway_xml_write_text(out, text);
    kvt_buffer_printf(out, "</%s>", name);
}

/* Ids begin with the time: within a key, the older is first. */
static int
compare_uploads(const void *left, const void *right)
{
    const struct gateway_upload *a = left;
    const struct gateway_upload *b = right;
    const int order = strcmp(a->key, b->key);

    return order != 0 ? order : strcmp(a->id, b->id);
}

/* All uploads of the bucket's keys with the prefix, in order; room for GATEWAY_UPLOADS_MAX. */
static enum kvt_err
find_uploads(struct gateway_s3 *s3, const struct gateway_client_bucket *bucket, const char *prefix,
             struct gateway_upload *found, size_t *count)
{
    char(*ids)[GATEWAY_UPLOAD_ID] = kvt_calloc(GATEWAY_UPLOADS_MAX, sizeof(*ids));
    size_t all = 0;
    enum kvt_err rc = KVT_NOMEM;

    *count = 0;
    if (ids != NULL)
        rc = gateway_uploads_list(s3->context, ids, &all);
    for (size_t i = 0; rc == KVT_OK && i < all; i++) {
        struct gateway_upload *upload = &found[*count];

        if (gateway_uploads_find(s3->context, ids[i], upload) != KVT_OK)
            continue; /* gone meanwhile */
        if (strcmp(upload->bucket, bucket->id) == 0 &&
            strncmp(upload->key, prefix, strlen(prefix)) == 0)
            (*count)++;
    }
    kvt_free(ids);
    if (rc == KVT_OK)
        qsort(found, *count, sizeof(*found), compare_uploads);
    return rc;
}

static bool
is_behind(const struct page *page, const char *key, const char *id)
{
    const int order = strcmp(key, page->key_marker);

    return page->key_marker[0] == '\0' || order > 0 ||
           (order == 0 && page->id_marker[0] != '\0' && strcmp(id, page->id_marker) > 0);
}

static void
give_row(struct gateway_request *request, const struct page *page, const char *key,
         const struct gateway_upload *upload)
{
    kvt_buffer_printf(&request->answer, "<Upload>");
    element(page, &request->answer, "Key", key);
    gateway_xml_write_element(&request->answer, "UploadId", upload->id);
    gateway_xml_write_owner(&request->answer, "Initiator", request->bucket.owner);
    gateway_xml_write_owner(&request->answer, "Owner", request->bucket.owner);
    kvt_buffer_printf(&request->answer, "<StorageClass>STANDARD</StorageClass>");
    gateway_xml_write_time(&request->answer, "Initiated", upload->created_ms);
    kvt_buffer_printf(&request->answer, "</Upload>");
}

/* False when the answer is full. */
static bool
give_upload(struct gateway_request *request, struct page *page, const struct gateway_upload *upload)
{
    const char *key = upload->key;
    const char *cut =
        page->delimiter[0] == '\0' ? NULL : strstr(key + strlen(page->prefix), page->delimiter);
    char fold[G4_CLIENT_KEY_MAX];

    if (cut == NULL && !is_behind(page, key, upload->id))
        return true;
    if (cut != NULL) {
        (void)snprintf(fold, sizeof(fold), "%.*s",
                       (int)(cut - key + (ptrdiff_t)strlen(page->delimiter)), key);
        if (strcmp(fold, page->fold) == 0 || strcmp(fold, page->key_marker) <= 0)
            return true;
    }
    if (page->given == page->max)
        return false;
    page->given++;
    if (cut == NULL) {
        give_row(request, page, key, upload);
        (void)snprintf(page->last_key, sizeof(page->last_key), "%s", key);
        memcpy(page->last_id, upload->id, sizeof(page->last_id));
        return true;
    }
    kvt_buffer_printf(&page->folded, "<CommonPrefixes>");
    element(page, &page->folded, "Prefix", fold);
    kvt_buffer_printf(&page->folded, "</CommonPrefixes>");
    memcpy(page->fold, fold, sizeof(fold));
    memcpy(page->last_key, fold, sizeof(fold));
    page->last_id[0] = '\0';
    return true;
}

static enum gateway_s3_error
give_page(struct gateway_request *request, struct page *page, const struct gateway_upload *uploads,
          size_t count)
{
    struct kvt_buffer *out = &request->answer;

    gateway_xml_write_begin(out, ROOT);
    element(page, out, "Bucket", request->bucket.name);
    element(page, out, "KeyMarker", page->key_marker);
    element(page, out, "UploadIdMarker", page->id_marker);
    element(page, out, "Prefix", page->prefix);
    if (page->delimiter[0] != '\0')
        element(page, out, "Delimiter", page->delimiter);
    if (page->encode)
        kvt_buffer_printf(out, "<EncodingType>url</EncodingType>");
    for (size_t i = 0; i < count && page->max > 0 && !page->truncated; i++)
        page->truncated = !give_upload(request, page, &uploads[i]);
    kvt_buffer_append(out, page->folded.data, page->folded.size);
    if (page->truncated) {
        element(page, out, "NextKeyMarker", page->last_key);
        element(page, out, "NextUploadIdMarker", page->last_id);
    }
    kvt_buffer_printf(out, "<MaxUploads>%zu</MaxUploads><IsTruncated>%s</IsTruncated>", page->max,
                      page->truncated ? "true" : "false");
    gateway_xml_write_end(out, ROOT);
    return kvt_buffer_ok(&page->folded) ? gateway_request_answer(request, "application/xml")
                                        : GATEWAY_S3_ERROR_SLOW_DOWN;
}

void
gateway_upload_listing_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct gateway_upload *found = kvt_calloc(GATEWAY_UPLOADS_MAX, sizeof(*found));
    struct page *page = kvt_calloc(1, sizeof(*page));
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_SLOW_DOWN;
    size_t count;

    if (page != NULL)
        kvt_buffer_init(&page->folded, 8u << 20);
    if (found != NULL && page != NULL)
        fault = read_page(request, page);
    if (fault == GATEWAY_S3_ERROR_NONE &&
        !gateway_auth_may(request->principal, GATEWAY_LIST, &request->bucket, page->prefix))
        fault = GATEWAY_S3_ERROR_FORBIDDEN;
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_request_fault_of(
            find_uploads(s3, &request->bucket, page->prefix, found, &count));
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = give_page(request, page, found, count);
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
    if (page != NULL)
        kvt_buffer_release(&page->folded);
    kvt_free(page);
    kvt_free(found);
}
