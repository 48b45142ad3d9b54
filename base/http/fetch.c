#include "base/http/fetch.h"

#include <assert.h>
#include <curl/curl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/http/http.h"

enum { TIMEOUT_DEFAULT_MS = 10000, HEADER_MAX = KVT_HTTP_TOKEN_MAX + 32 };

static size_t
on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct kvt_buffer *answer = arg;

    kvt_buffer_append(answer, bytes, size * count);
    return kvt_buffer_ok(answer) ? size * count : 0; /* 0 makes curl stop with WRITE_ERROR */
}

/* What an answer may say before its body: libcurl would keep all of it. */
static size_t
on_header(char *line, size_t size, size_t count, void *arg)
{
    size_t *had = arg;

    (void)line;
    if (size * count > KVT_FETCH_HEADERS_MAX - *had)
        return 0;
    *had += size * count;
    return size * count;
}

static void
init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static long
whole_ms(uint64_t wait_ms)
{
    if (wait_ms == 0)
        wait_ms = TIMEOUT_DEFAULT_MS;
    return wait_ms > INT_MAX ? INT_MAX : (long)wait_ms;
}

/* A proxy must never see what is meant for this machine. */
static bool
is_loopback(const char *url)
{
    static const char *const starts[] = {"://127.", "://localhost", "://[::1]"};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (strcasestr(url, starts[i]) != NULL)
            return true;
    return false;
}

static bool
prepare(CURL *easy, const struct kvt_fetch *fetch, struct curl_slist *headers,
        struct kvt_buffer *answer, size_t *header_bytes, char *problem)
{
    const char *method = fetch->method == NULL ? "GET" : fetch->method;
    bool ok = true;

    problem[0] = '\0';
    ok = ok && curl_easy_setopt(easy, CURLOPT_URL, fetch->url) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    ok =
        ok && curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, problem) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, whole_ms(fetch->timeout_ms)) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_HEADERDATA, header_bytes) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK;
    if (fetch->direct || is_loopback(fetch->url))
        ok = ok && curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK;
    if (strcmp(method, "HEAD") == 0)
        return ok && curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    if (fetch->body != NULL) {
        ok = ok && curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK;
        ok = ok && curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                                    (curl_off_t)fetch->body_size) == CURLE_OK;
        ok = ok && curl_easy_setopt(easy, CURLOPT_POSTFIELDS, fetch->body) == CURLE_OK;
    }
    return ok && curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
}

/* Whoever answered in something that is not HTTP was reached. */
static enum kvt_err
code_of_protocol(CURL *easy)
{
    char *address = NULL;

    (void)curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &address);
    return address == NULL || address[0] == '\0' ? KVT_INVALID : KVT_IO;
}

static enum kvt_err
code_of(CURL *easy, CURLcode result, const struct kvt_buffer *answer)
{
    switch (result) {
    case CURLE_OK: return KVT_OK;
    case CURLE_OPERATION_TIMEDOUT: return KVT_TIMEOUT;
    case CURLE_URL_MALFORMAT: return KVT_INVALID;
    case CURLE_UNSUPPORTED_PROTOCOL: return code_of_protocol(easy);
    case CURLE_OUT_OF_MEMORY: return KVT_NOMEM;
    case CURLE_WRITE_ERROR: return kvt_buffer_ok(answer) ? KVT_IO : KVT_RANGE;
    default: return KVT_UNAVAILABLE;
    }
}

static bool
add_header(struct curl_slist **headers, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*headers, text);

    if (longer == NULL)
        return false;
    *headers = longer;
    return true;
}

static bool
make_headers(struct curl_slist **headers, const struct kvt_fetch *fetch)
{
    char line[HEADER_MAX];
    bool ok;

    /* Without this curl waits a second for "100 Continue" before any body above 1 MiB. */
    ok = add_header(headers, "Expect:");
    if (fetch->body != NULL) {
        (void)snprintf(line, sizeof(line), "Content-Type: %s",
                       fetch->type == NULL ? "application/json" : fetch->type);
        ok = ok && add_header(headers, line);
    }
    if (fetch->token != NULL) {
        (void)snprintf(line, sizeof(line), "Authorization: Bearer %s", fetch->token);
        ok = ok && add_header(headers, line);
        explicit_bzero(line, sizeof(line));
    }
    for (size_t i = 0; fetch->headers != NULL && fetch->headers[i] != NULL; i++)
        ok = ok && add_header(headers, fetch->headers[i]);
    return ok;
}

enum kvt_err
kvt_fetch(const struct kvt_fetch *fetch, unsigned *status, struct kvt_buffer *answer,
          struct kvt_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct curl_slist *headers = NULL;
    char problem[CURL_ERROR_SIZE];
    size_t header_bytes = 0;
    CURLcode result;
    enum kvt_err rc;
    CURL *easy;
    long code = 0;

    *status = 0;
    if (fetch->token != NULL && strlen(fetch->token) >= KVT_HTTP_TOKEN_MAX)
        return kvt_error_set(err, KVT_INVALID, "the token is longer than %d bytes",
                             KVT_HTTP_TOKEN_MAX - 1);
    (void)pthread_once(&once, init_curl);
    easy = curl_easy_init();
    if (easy == NULL || !make_headers(&headers, fetch) ||
        !prepare(easy, fetch, headers, answer, &header_bytes, problem)) {
        rc = kvt_error_set(err, KVT_NOMEM, "%s: out of memory", fetch->url);
        goto done;
    }
    result = curl_easy_perform(easy);
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    *status = (unsigned)code;
    rc = code_of(easy, result, answer);
    if (rc == KVT_RANGE)
        (void)kvt_error_set(err, rc, "%s: the answer is larger than %zu bytes", fetch->url,
                            answer->limit);
    else if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "%s: %s", fetch->url,
                            problem[0] == '\0' ? curl_easy_strerror(result) : problem);

done:
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy); /* NULL is allowed */
    return rc;
}
