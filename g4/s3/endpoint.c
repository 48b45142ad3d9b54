#include "g4/s3/endpoint.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/s3/credentials.h"

enum { CONNECT_MS = 2000, LINE_MAX_SIZE = 8192 };

/* A server that says that the clock is wrong is believed from here on.  One that only says "403",
 * as to a HEAD, is believed near the 15 minutes that S3 allows. */
enum { SKEW_TOLD_MS = 10 * 1000, SKEW_GUESSED_MS = 4 * 60 * 1000 };

/* libcurl reads once between two polls: a small buffer costs a poll for every 64 KiB.  It sends as
 * long as the socket takes: there a larger one only misses the cache. */
enum { RECEIVE_BUFFER = 256 * 1024, SEND_BUFFER = 64 * 1024 };

struct g4_endpoint {
    char *base; /* scheme://host, with the bucket in the host if it belongs there */
    char *host; /* the Host header */
    char *bucket;
    char *region;
    char *ca_file;
    struct g4_credentials *credentials;
    atomic_int_fast64_t skew_ms; /* of the server's clock against ours */
    bool path_style;
    const struct g4_placement *placement;
};

void
g4_endpoint_free(struct g4_endpoint *endpoint)
{
    if (endpoint == NULL)
        return;
    kvt_free(endpoint->base);
    kvt_free(endpoint->host);
    kvt_free(endpoint->bucket);
    kvt_free(endpoint->region);
    kvt_free(endpoint->ca_file);
    g4_credentials_close(endpoint->credentials);
    kvt_free(endpoint);
}

/* Names that go into URLs, host names and header lines as they are. */
static bool
text_safe(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

static bool
bucket_safe(const char *bucket)
{
    const size_t size = strlen(bucket);

    return size >= 3 && size <= 63 && bucket[0] != '.' &&
           strspn(bucket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
               size;
}

static const char *
or_else(const char *text, const char *otherwise)
{
    return text == NULL || text[0] == '\0' ? otherwise : text;
}

/* Split the URL: where its host begins and ends. */
static enum kvt_err
find_host(const char *url, size_t *start, size_t *size, struct kvt_error *err)
{
    *start = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    *size = strcspn(url + *start, "/?#");
    if (*start == 0 || *size == 0 || !text_safe(url) || strchr(url + *start, '@') != NULL)
        return kvt_error_set(err, KVT_INVALID, "endpoint \"%s\": expected http(s)://host[:port]",
                             url);
    if (strcmp(url + *start + *size, "") != 0 && strcmp(url + *start + *size, "/") != 0)
        return kvt_error_set(err, KVT_INVALID, "endpoint \"%s\": a path is not supported", url);
    return KVT_OK;
}

static char *
join(const char *a, size_t a_size, const char *b, const char *c, size_t c_size)
{
    const size_t size = a_size + strlen(b) + c_size + 2;
    char *text = kvt_calloc(size, 1);

    if (text != NULL)
        (void)snprintf(text, size, "%.*s%s%s%.*s", (int)a_size, a, b, b[0] == '\0' ? "" : ".",
                       (int)c_size, c);
    return text;
}

static enum kvt_err
check_options(const struct g4_endpoint_options *options, struct kvt_error *err)
{
    if (!bucket_safe(options->bucket))
        return kvt_error_set(err, KVT_INVALID,
                             "bucket \"%s\" is not a bucket name: 3 to 63 of a-z 0-9 . -",
                             options->bucket);
    if (!text_safe(or_else(options->region, "")))
        return kvt_error_set(err, KVT_INVALID, "the region holds spaces or control characters");
    if (or_else(options->access_key, "")[0] == '\0' && !options->find_credentials)
        return kvt_error_set(err, KVT_INVALID, "access key and secret key are needed");
    return KVT_OK;
}

enum kvt_err
g4_endpoint_new(struct g4_endpoint **out, const struct g4_endpoint_options *options,
                struct kvt_error *err)
{
    struct g4_endpoint *endpoint;
    const char *prefix = options->path_style ? "" : options->bucket;
    enum kvt_err rc;
    size_t start;
    size_t size;

    *out = NULL;
    rc = check_options(options, err);
    if (rc == KVT_OK)
        rc = find_host(options->url, &start, &size, err);
    if (rc != KVT_OK)
        return rc;
    endpoint = kvt_calloc(1, sizeof(*endpoint));
    if (endpoint == NULL)
        return kvt_error_set(err, KVT_NOMEM, "endpoint %s", options->url);
    endpoint->path_style = options->path_style;
    endpoint->placement = options->placement;
    endpoint->base = join(options->url, start, prefix, options->url + start, size);
    endpoint->host = join("", 0, prefix, options->url + start, size);
    endpoint->bucket = kvt_strdup(options->bucket);
    endpoint->region = kvt_strdup(or_else(options->region, "us-east-1"));
    endpoint->ca_file = kvt_strdup(or_else(options->ca_file, ""));
    if (endpoint->base == NULL || endpoint->host == NULL || endpoint->bucket == NULL ||
        endpoint->region == NULL || endpoint->ca_file == NULL)
        rc = kvt_error_set(err, KVT_NOMEM, "endpoint %s", options->url);
    if (rc == KVT_OK)
        rc = g4_credentials_open(
            &endpoint->credentials,
            &(struct g4_credentials_options){.access_key = options->access_key,
                                             .secret_key = options->secret_key,
                                             .session_token = options->session_token,
                                             .region = options->region},
            err);
    if (rc != KVT_OK) {
        g4_endpoint_free(endpoint);
        return rc;
    }
    *out = endpoint;
    return KVT_OK;
}

const char *
g4_endpoint_bucket(const struct g4_endpoint *endpoint)
{
    return endpoint->bucket;
}

const char *
g4_endpoint_region(const struct g4_endpoint *endpoint)
{
    return endpoint->region;
}

const struct g4_placement *
g4_endpoint_placement(const struct g4_endpoint *endpoint)
{
    return endpoint->placement;
}

/* The path as it is signed: with the bucket in front when it is not in the host. */
static void
append_path(const struct g4_endpoint *endpoint, const struct g4_endpoint_call *call,
            struct kvt_buffer *out)
{
    if (call->in_bucket && endpoint->path_style)
        kvt_buffer_printf(out, "/%s", endpoint->bucket);
    kvt_buffer_printf(out, "%s", call->path);
}

static enum kvt_err
set_url(const struct g4_endpoint *endpoint, CURL *easy, const char *path, const char *query)
{
    struct kvt_buffer url;
    enum kvt_err rc = KVT_NOMEM;

    kvt_buffer_init(&url, G4_ENDPOINT_URL_MAX);
    kvt_buffer_printf(&url, "%s", endpoint->base);
    g4_sigv4_encode(&url, path, true);
    if (query[0] != '\0')
        kvt_buffer_printf(&url, "?%s", query);
    (void)kvt_buffer_text(&url);
    if (kvt_buffer_ok(&url) &&
        curl_easy_setopt(easy, CURLOPT_URL, kvt_buffer_text(&url)) == CURLE_OK)
        rc = KVT_OK;
    kvt_buffer_release(&url);
    return rc;
}

static bool
add_line(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);

    if (longer == NULL)
        return false;
    *list = longer;
    return true;
}

/* The header lines of a signed request, and its Authorization. */
static enum kvt_err
make_headers(const struct g4_keys *keys, const struct g4_sigv4_request *request,
             struct curl_slist **list)
{
    struct kvt_buffer line;
    enum kvt_err rc = KVT_OK;

    kvt_buffer_init(&line, LINE_MAX_SIZE);
    for (size_t i = 0; i < request->header_count && rc == KVT_OK; i++) {
        kvt_buffer_clear(&line);
        /* libcurl's word for a header without a value is a semicolon. */
        kvt_buffer_printf(&line, request->headers[i].value[0] == '\0' ? "%s;%s" : "%s: %s",
                          request->headers[i].name, request->headers[i].value);
        if (!kvt_buffer_ok(&line) || !add_line(list, kvt_buffer_text(&line)))
            rc = KVT_NOMEM;
    }
    kvt_buffer_clear(&line);
    kvt_buffer_printf(&line, "Authorization: ");
    if (rc == KVT_OK)
        rc = g4_sigv4_authorization(request, keys->access_key, keys->secret_key, &line);
    if (rc == KVT_OK && !add_line(list, kvt_buffer_text(&line)))
        rc = KVT_NOMEM;
    /* A server that does not answer "100 Continue" would cost a second each PUT. */
    if (rc == KVT_OK && !add_line(list, "Expect:"))
        rc = KVT_NOMEM;
    kvt_buffer_release(&line);
    return rc;
}

bool
g4_endpoint_count_header(struct g4_endpoint_signed *prepared, size_t size)
{
    if (size > G4_ENDPOINT_ANSWER_HEADERS_MAX - prepared->answer_headers)
        return false;
    prepared->answer_headers += size;
    return true;
}

static size_t
on_header(char *line, size_t unit, size_t count, void *arg)
{
    (void)line;
    return g4_endpoint_count_header(arg, unit * count) ? unit * count : 0;
}

static enum kvt_err
set_options(const struct g4_endpoint *endpoint, CURL *easy, uint64_t timeout_ms)
{
    bool ok = true;

    ok &= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms > 0 ? (long)timeout_ms : 1L) ==
          CURLE_OK;
    /* A wish: a handle whose last host could not be resolved keeps its buffer, and libcurl refuses
     * another size for it. */
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER);
    ok &= curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)SEND_BUFFER) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK;
    if (endpoint->ca_file[0] != '\0')
        ok &= curl_easy_setopt(easy, CURLOPT_CAINFO, endpoint->ca_file) == CURLE_OK;
    return ok ? KVT_OK : KVT_NOMEM;
}

/* What every request carries, then the caller's. */
static size_t
collect(const struct g4_endpoint *endpoint, const struct g4_endpoint_call *call,
        const struct g4_keys *keys, const char *date, struct g4_sigv4_header *all)
{
    size_t count = 0;

    assert(call->header_count <= G4_ENDPOINT_HEADERS_MAX);
    all[count++] = (struct g4_sigv4_header){"Host", endpoint->host};
    all[count++] = (struct g4_sigv4_header){"x-amz-content-sha256", G4_SIGV4_UNSIGNED};
    all[count++] = (struct g4_sigv4_header){"x-amz-date", date};
    if (keys->session_token[0] != '\0')
        all[count++] = (struct g4_sigv4_header){"x-amz-security-token", keys->session_token};
    for (size_t i = 0; i < call->header_count; i++)
        all[count++] = call->headers[i];
    return count;
}

enum kvt_err
g4_endpoint_prepare(const struct g4_endpoint *endpoint, CURL *easy,
                    const struct g4_endpoint_call *call, uint64_t timeout_ms,
                    struct g4_endpoint_signed *prepared, struct kvt_error *err)
{
    struct g4_sigv4_header all[G4_ENDPOINT_HEADERS_MAX + 4];
    char date[KVT_CLOCK_BASIC_MAX];
    struct kvt_buffer path;
    struct g4_keys keys;
    enum kvt_err rc;

    *prepared = (struct g4_endpoint_signed){.moment_ms = kvt_clock_unix_ms() +
                                                         (uint64_t)atomic_load(&endpoint->skew_ms)};
    rc = g4_credentials_take(endpoint->credentials, &keys, &prepared->keys, err);
    if (rc != KVT_OK)
        return rc;
    kvt_clock_format_basic(prepared->moment_ms, date);
    kvt_buffer_init(&path, G4_ENDPOINT_URL_MAX);
    append_path(endpoint, call, &path);
    (void)kvt_buffer_text(&path);
    rc = kvt_buffer_ok(&path) ? KVT_OK : KVT_NOMEM;
    if (rc == KVT_OK)
        rc = set_url(endpoint, easy, kvt_buffer_text(&path), call->query);
    if (rc == KVT_OK)
        rc = set_options(endpoint, easy, timeout_ms);
    if (rc == KVT_OK) {
        const size_t count = collect(endpoint, call, &keys, date, all);

        rc = make_headers(&keys,
                          &(struct g4_sigv4_request){.method = call->method,
                                                     .path = kvt_buffer_text(&path),
                                                     .query = call->query,
                                                     .headers = all,
                                                     .header_count = count,
                                                     .payload_hash = G4_SIGV4_UNSIGNED,
                                                     .date = date,
                                                     .region = endpoint->region,
                                                     .service = "s3"},
                          &prepared->headers);
    }
    if (rc == KVT_OK &&
        (curl_easy_setopt(easy, CURLOPT_HTTPHEADER, prepared->headers) != CURLE_OK ||
         curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK ||
         curl_easy_setopt(easy, CURLOPT_HEADERDATA, prepared) != CURLE_OK))
        rc = KVT_NOMEM;
    explicit_bzero(&keys, sizeof(keys));
    kvt_buffer_release(&path);
    if (rc == KVT_OK)
        return KVT_OK;
    curl_slist_free_all(prepared->headers);
    prepared->headers = NULL;
    return kvt_error_set(err, rc, "request to %s could not be made: %s", endpoint->base,
                         kvt_err_text(rc));
}

uint64_t
g4_endpoint_keys(const struct g4_endpoint *endpoint)
{
    return g4_credentials_generation(endpoint->credentials);
}

/* The Date of an answer, Unix; 0 where there is none. */
static uint64_t
date_of(CURL *easy)
{
    struct curl_header *header;
    time_t seconds;

    if (curl_easy_header(easy, "Date", 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return 0;
    seconds = curl_getdate(header->value, NULL);
    return seconds < 0 ? 0 : (uint64_t)seconds * 1000;
}

bool
g4_endpoint_refused(struct g4_endpoint *endpoint, CURL *easy,
                    const struct g4_endpoint_signed *prepared, int http,
                    enum g4_s3_answer_cause cause)
{
    const uint64_t date_ms = date_of(easy);
    const int64_t off_ms = (int64_t)(date_ms - prepared->moment_ms);
    const int64_t far_ms = cause == G4_S3_ANSWER_CLOCK ? SKEW_TOLD_MS : SKEW_GUESSED_MS;

    if (cause == G4_S3_ANSWER_KEYS)
        return g4_credentials_reject(endpoint->credentials, prepared->keys);
    if (date_ms == 0 || (off_ms < far_ms && off_ms > -far_ms) ||
        (cause != G4_S3_ANSWER_CLOCK && http != 403 && http != 401))
        return false;
    /* From our clock as it is: requests that were refused together must not add up. */
    atomic_store(&endpoint->skew_ms, (int64_t)(date_ms - kvt_clock_unix_ms()));
    return true;
}

enum kvt_err
g4_endpoint_failure(CURLcode code, bool *again)
{
    *again = true;
    switch (code) {
    case CURLE_OK: *again = false; return KVT_OK;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT: return KVT_UNAVAILABLE;
    case CURLE_OPERATION_TIMEDOUT: return KVT_TIMEOUT;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR: return KVT_IO;
    case CURLE_OUT_OF_MEMORY: *again = false; return KVT_NOMEM;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: *again = false; return KVT_DENIED;
    default: *again = false; return KVT_IO;
    }
}
