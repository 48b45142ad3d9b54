#include "advisor/transport/bucket_listing.h"

#include <endian.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/http/fetch.h"

enum { STATUS_OK = 200, STATUS_FORBIDDEN = 403, STATUS_NOT_FOUND = 404, DEPTH_MAX = 8 };

/* ---- a page ---- */

struct page {
    XML_Parser parser;
    struct kvt_buffer *keys;
    char *next;
    char text[ADVISOR_BUCKET_LISTING_KEY_MAX];
    size_t text_size;
    char key[ADVISOR_BUCKET_LISTING_KEY_MAX];
    uint64_t size;
    int depth;
    bool in_object;
    bool listing; /* it is one */
    bool more;
    enum kvt_err rc;
};

static void XMLCALL
on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct page *page = arg;

    (void)attributes;
    page->text_size = 0;
    if (page->depth == 0)
        page->listing = strcmp(name, "ListBucketResult") == 0;
    if (page->depth == 1 && strcmp(name, "Contents") == 0) {
        page->in_object = true;
        page->key[0] = '\0';
        page->size = 0;
    }
    if (++page->depth > DEPTH_MAX) {
        page->rc = KVT_INVALID;
        (void)XML_StopParser(page->parser, XML_FALSE);
    }
}

static void
add_object(struct page *page)
{
    const uint64_t size = htole64(page->size);

    page->in_object = false;
    if (page->key[0] == '\0')
        return;
    kvt_buffer_append(page->keys, &size, sizeof(size));
    kvt_buffer_append(page->keys, page->key, strlen(page->key) + 1);
    if (!kvt_buffer_ok(page->keys)) {
        page->rc = KVT_RANGE;
        (void)XML_StopParser(page->parser, XML_FALSE);
    }
}

static void XMLCALL
on_end(void *arg, const XML_Char *name)
{
    struct page *page = arg;

    page->depth--;
    page->text[page->text_size] = '\0';
    if (page->depth == 2 && page->in_object) {
        if (strcmp(name, "Key") == 0)
            (void)snprintf(page->key, sizeof(page->key), "%s", page->text);
        else if (strcmp(name, "Size") == 0)
            page->size = strtoull(page->text, NULL, 10);
    } else if (page->depth == 1) {
        if (page->in_object)
            add_object(page);
        else if (strcmp(name, "IsTruncated") == 0)
            page->more = strcmp(page->text, "true") == 0;
        else if (strcmp(name, "NextContinuationToken") == 0)
            (void)snprintf(page->next, ADVISOR_BUCKET_LISTING_KEY_MAX, "%s", page->text);
    }
    page->text_size = 0;
}

/* A key that is longer than any may be is cut, and names no block. */
static void XMLCALL
on_text(void *arg, const XML_Char *text, int size)
{
    struct page *page = arg;
    const size_t room = sizeof(page->text) - 1 - page->text_size;
    const size_t taken = (size_t)size < room ? (size_t)size : room;

    memcpy(page->text + page->text_size, text, taken);
    page->text_size += taken;
}

/* No listing has one, and what it could declare is unbounded. */
static void XMLCALL
on_doctype(void *arg, const XML_Char *name, const XML_Char *system, const XML_Char *public,
           int has_internal)
{
    struct page *page = arg;

    (void)name;
    (void)system;
    (void)public;
    (void)has_internal;
    page->rc = KVT_INVALID;
    (void)XML_StopParser(page->parser, XML_FALSE);
}

enum kvt_err
advisor_bucket_listing_read(const char *xml, size_t size, struct kvt_buffer *keys,
                            char token[ADVISOR_BUCKET_LISTING_KEY_MAX], struct kvt_error *err)
{
    struct page *page = kvt_calloc(1, sizeof(*page));
    enum kvt_err rc = KVT_NOMEM;

    token[0] = '\0';
    if (page != NULL)
        page->parser = XML_ParserCreate(NULL);
    if (page == NULL || page->parser == NULL) {
        (void)kvt_error_set(err, rc, "out of memory");
        goto done;
    }
    page->keys = keys;
    page->next = token;
    XML_SetUserData(page->parser, page);
    XML_SetElementHandler(page->parser, on_start, on_end);
    XML_SetCharacterDataHandler(page->parser, on_text);
    XML_SetStartDoctypeDeclHandler(page->parser, on_doctype);
    rc = XML_Parse(page->parser, xml, (int)size, XML_TRUE) == XML_STATUS_OK ? KVT_OK : KVT_INVALID;
    if (page->rc != KVT_OK)
        rc = page->rc;
    else if (rc == KVT_OK && (!page->listing || (page->more && token[0] == '\0')))
        rc = KVT_INVALID;
    if (rc == KVT_RANGE)
        (void)kvt_error_set(err, rc, "the bucket holds more keys than fit into %zu bytes",
                            keys->limit);
    else if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "the answer is no listing of a bucket");
    if (rc != KVT_OK || !page->more)
        token[0] = '\0';
done:
    if (page != NULL && page->parser != NULL)
        XML_ParserFree(page->parser);
    kvt_free(page);
    return rc;
}

/* ---- all of them ---- */

static enum kvt_err
fetch_page(const struct advisor_bucket_listing *bucket, const char *credentials, const char *token,
           struct kvt_buffer *answer, struct kvt_error *err)
{
    struct advisor_bucket_listing_request *request = kvt_calloc(1, sizeof(*request));
    const char *headers[sizeof(request->headers) / sizeof(request->headers[0]) + 1] = {NULL};
    struct kvt_fetch fetch = {.headers = headers,
                              .timeout_ms = ADVISOR_BUCKET_LISTING_PAGE_WAIT_MS};
    char date[KVT_CLOCK_BASIC_MAX];
    unsigned status = 0;
    enum kvt_err rc;

    if (request == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    kvt_clock_format_basic(kvt_clock_unix_ms(), date);
    rc = advisor_bucket_listing_sign(bucket, credentials, date, token, request, err);
    for (size_t i = 0; request->headers[i][0] != '\0'; i++)
        headers[i] = request->headers[i];
    fetch.url = request->url;
    if (rc == KVT_OK)
        rc = kvt_fetch(&fetch, &status, answer, err);
    if (rc == KVT_OK && status != STATUS_OK)
        rc = kvt_error_set(err,
                           status == STATUS_FORBIDDEN   ? KVT_DENIED
                           : status == STATUS_NOT_FOUND ? KVT_NOTFOUND
                                                        : KVT_UNAVAILABLE,
                           "%s answers %u to a listing", bucket->url, status);
    explicit_bzero(request, sizeof(*request));
    kvt_free(request);
    return rc;
}

static enum kvt_err
list_pages(const struct advisor_bucket_listing *bucket, const char *credentials,
           const _Atomic bool *stopping, struct kvt_buffer *keys, struct kvt_error *err)
{
    char token[ADVISOR_BUCKET_LISTING_KEY_MAX] = "";
    struct kvt_buffer answer;
    enum kvt_err rc;

    kvt_buffer_init(&answer, ADVISOR_BUCKET_LISTING_PAGE_MAX);
    do {
        kvt_buffer_clear(&answer);
        rc = atomic_load(stopping) ? kvt_error_set(err, KVT_CANCELLED, "stopping")
                                   : fetch_page(bucket, credentials, token, &answer, err);
        if (rc == KVT_OK)
            rc = advisor_bucket_listing_read((const char *)answer.data, answer.size, keys, token,
                                             err);
    } while (rc == KVT_OK && token[0] != '\0');
    kvt_buffer_release(&answer);
    return rc;
}

enum kvt_err
advisor_bucket_listing_list(const struct advisor_bucket_listing *bucket,
                            const _Atomic bool *stopping, struct kvt_buffer *keys,
                            struct kvt_error *err)
{
    char *credentials;
    size_t size;
    enum kvt_err rc = kvt_file_read(&credentials, &size, bucket->credentials_file,
                                    ADVISOR_BUCKET_LISTING_SECRET_MAX, err);

    if (rc != KVT_OK)
        return rc;
    credentials[strcspn(credentials, "\r\n")] = '\0';
    rc = list_pages(bucket, credentials, stopping, keys, err);
    explicit_bzero(credentials, size);
    kvt_free(credentials);
    return rc;
}
