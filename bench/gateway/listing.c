#include "bench/gateway/listing.h"

#include <stdbool.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/s3/sigv4.h"

enum { TOKEN_MAX = 2048, QUERY_MAX = 8192 };

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* The text of the first <name> at or behind `*at`; `*at` moves behind it. */
static bool
element(const char **at, const char *open, const char *close, const char **text, size_t *size)
{
    const char *begin = strstr(*at, open);
    const char *end = begin == NULL ? NULL : strstr(begin, close);

    if (end == NULL)
        return false;
    *text = begin + strlen(open);
    *size = (size_t)(end - *text);
    *at = end + strlen(close);
    return true;
}

static void
count_keys(const char *page, struct listing_result *result)
{
    const char *text;
    size_t size;

    while (element(&page, "<Key>", "</Key>", &text, &size)) {
        for (size_t i = 0; i < size; i++)
            result->sum = (result->sum ^ (uint8_t)text[i]) * FNV_PRIME;
        result->sum = (result->sum ^ '\n') * FNV_PRIME;
        result->keys++;
    }
}

static enum kvt_err
ask_page(struct connection *connection, const struct target *target, const char *prefix,
         const char *token, uint8_t *page)
{
    struct kvt_buffer query;
    struct kvt_buffer head;
    size_t size = 0;
    enum kvt_err rc;

    kvt_buffer_init(&query, QUERY_MAX);
    kvt_buffer_init(&head, 2 * QUERY_MAX);
    if (token[0] != '\0') {
        kvt_buffer_printf(&query, "continuation-token=");
        g4_sigv4_encode(&query, token, false);
        kvt_buffer_printf(&query, "&");
    }
    kvt_buffer_printf(&query, "list-type=2&prefix=");
    g4_sigv4_encode(&query, prefix, false);
    rc = connection_head(target, "GET", "", kvt_buffer_text(&query), 0, &head);
    if (rc == KVT_OK)
        rc = connection_send(connection, head.data, head.size, NULL, 0);
    else
        (void)kvt_error_set(&connection->error, rc, "cannot make a request");
    if (rc == KVT_OK)
        rc = connection_answer(connection, false, page, LISTING_PAGE_MAX, &size);
    page[size] = '\0';
    kvt_buffer_release(&query);
    kvt_buffer_release(&head);
    return rc;
}

static enum kvt_err
read_pages(struct connection *connection, const struct target *target, const char *prefix,
           uint8_t *page, struct listing_result *result)
{
    char token[TOKEN_MAX] = "";

    for (;;) {
        const enum kvt_err rc = ask_page(connection, target, prefix, token, page);
        const char *at = (const char *)page;
        const char *text;
        size_t size;

        if (rc != KVT_OK)
            return rc;
        count_keys(at, result);
        if (strstr(at, "<IsTruncated>true") == NULL)
            return KVT_OK;
        if (!element(&at, "<NextContinuationToken>", "</NextContinuationToken>", &text, &size) ||
            size >= sizeof(token))
            return kvt_error_set(&connection->error, KVT_INVALID, "a page without its token");
        memcpy(token, text, size);
        token[size] = '\0';
    }
}

enum kvt_err
listing_run(const struct target *target, const char *prefix, struct listing_result *result,
            struct kvt_error *err)
{
    struct connection connection = {.fd = -1};
    uint8_t *page = kvt_calloc(1, LISTING_PAGE_MAX + 1);
    const uint64_t begin = kvt_clock_mono_ns();
    enum kvt_err rc;

    *result = (struct listing_result){.sum = FNV_START};
    if (page == NULL)
        return kvt_error_set(err, KVT_NOMEM, "no memory for a page");
    rc = connection_open(&connection, target->port);
    if (rc == KVT_OK)
        rc = read_pages(&connection, target, prefix, page, result);
    if (rc != KVT_OK)
        *err = connection.error;
    result->keys_per_s = (double)result->keys * 1e9 / (double)(kvt_clock_mono_ns() - begin + 1);
    connection_close(&connection);
    kvt_free(page);
    return rc;
}
