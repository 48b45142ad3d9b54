#include "g4/s3/bucket.h"

#include <stdio.h>
#include <string.h>

#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/text/parse.h"
#include "g4/s3/s3_answer.h"
#include "g4/s3/s3_xml.h"

enum { QUERY_MAX = 8192, NUMBER_MAX = 16, WORD_MAX = 32, TIME_MAX = 64 };

/* ---- the question ---- */

static size_t
on_body(char *bytes, size_t unit, size_t count, void *arg)
{
    struct kvt_buffer *answer = arg;

    kvt_buffer_append(answer, bytes, unit * count);
    return kvt_buffer_ok(answer) ? unit * count : 0;
}

static enum kvt_err
transfer(CURL *easy, const struct g4_endpoint *endpoint, const struct g4_endpoint_call *call,
         uint64_t timeout_ms, struct kvt_buffer *answer, long *http, struct kvt_error *err)
{
    struct g4_endpoint_signed prepared;
    bool again;
    CURLcode code;
    enum kvt_err rc = g4_endpoint_prepare(endpoint, easy, call, timeout_ms, &prepared, err);

    if (rc != KVT_OK)
        return rc;
    if (curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer) != CURLE_OK ||
        (strcmp(call->method, "GET") != 0 &&
         curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method) != CURLE_OK)) {
        curl_slist_free_all(prepared.headers);
        return kvt_error_set(err, KVT_NOMEM, "libcurl does not take an option");
    }
    code = curl_easy_perform(easy);
    curl_slist_free_all(prepared.headers);
    if (code != CURLE_OK)
        return kvt_error_set(err, g4_endpoint_failure(code, &again), "%s",
                             curl_easy_strerror(code));
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, http);
    return KVT_OK;
}

/* Ask once.  An answer that is an error is KVT_OK with its status in `http`. */
static enum kvt_err
ask(const struct g4_endpoint *endpoint, const struct g4_endpoint_call *call, uint64_t timeout_ms,
    struct kvt_buffer *answer, long *http, struct kvt_error *err)
{
    CURL *easy = curl_easy_init();
    enum kvt_err rc;

    *http = 0;
    if (easy == NULL)
        return kvt_error_set(err, KVT_NOMEM, "libcurl does not start");
    rc = transfer(easy, endpoint, call, timeout_ms, answer, http, err);
    curl_easy_cleanup(easy);
    return rc;
}

static enum kvt_err
refused(long http, const struct kvt_buffer *answer, const char *what, struct kvt_error *err)
{
    struct g4_request request = {.key = what, .http = (int)http};
    struct g4_s3_answer meaning;
    const enum kvt_err rc =
        g4_s3_answer_status(&request, (const char *)answer->data, answer->size, &meaning);

    if (err != NULL)
        *err = request.error;
    return rc;
}

/* ---- settings ---- */

/* The part of `*body` from `open` to `close`, and `*body` behind it; false when there is none. */
static bool
take_row(const char **body, size_t *size, const char *open, const char *close, const char **row,
         size_t *row_size)
{
    const char *from = memmem(*body, *size, open, strlen(open));
    const char *to;

    if (from == NULL)
        return false;
    to = memmem(from, *size - (size_t)(from - *body), close, strlen(close));
    if (to == NULL)
        return false;
    *row = from;
    *row_size = (size_t)(to - from);
    *size -= (size_t)(to - *body) + strlen(close);
    *body = to + strlen(close);
    return true;
}

static bool
has(const char *body, size_t size, const char *text)
{
    return size > 0 && memmem(body, size, text, strlen(text)) != NULL;
}

static uint64_t
number_of(const char *body, size_t size, const char *open)
{
    char text[NUMBER_MAX];
    uint64_t number = 0;

    if (!g4_s3_xml_element(body, size, open, text, sizeof(text)) ||
        kvt_parse_u64(text, &number) != KVT_OK)
        return 0;
    return number;
}

void
g4_bucket_parse_versions(const char *body, size_t size, struct g4_bucket_settings *settings)
{
    char word[WORD_MAX];

    settings->versions = G4_BUCKET_OFF;
    if (!g4_s3_xml_element(body, size, "<Status>", word, sizeof(word)))
        return;
    if (strcmp(word, "Enabled") == 0)
        settings->versions = G4_BUCKET_ON;
    else if (strcmp(word, "Suspended") == 0)
        settings->versions = G4_BUCKET_SUSPENDED;
}

void
g4_bucket_parse_locks(const char *body, size_t size, struct g4_bucket_settings *settings)
{
    settings->locks = G4_BUCKET_OFF;
    if (!has(body, size, "<ObjectLockEnabled>Enabled<"))
        return;
    settings->locks = G4_BUCKET_ON;
    settings->lock_days = number_of(body, size, "<Days>") + 365 * number_of(body, size, "<Years>");
}

static void
parse_rule(const char *body, size_t size, struct g4_bucket_rule *rule)
{
    const char *left = body;
    size_t left_size = size;
    const char *part;
    size_t part_size;

    *rule = (struct g4_bucket_rule){.enabled = has(body, size, "<Status>Enabled<")};
    (void)g4_s3_xml_element(body, size, "<ID>", rule->name, sizeof(rule->name));
    (void)g4_s3_xml_element(body, size, "<Prefix>", rule->prefix, sizeof(rule->prefix));
    rule->narrowed = has(body, size, "<Tag>") || has(body, size, "<ObjectSizeGreaterThan>") ||
                     has(body, size, "<ObjectSizeLessThan>");
    rule->moves = has(body, size, "<Transition>");
    rule->old_versions = has(body, size, "<NoncurrentVersionExpiration>");
    if (take_row(&left, &left_size, "<Expiration>", "</Expiration>", &part, &part_size)) {
        rule->days = number_of(part, part_size, "<Days>");
        rule->expires = rule->days > 0 || has(part, part_size, "<Date>");
    }
    rule->abort_days = number_of(body, size, "<DaysAfterInitiation>");
}

void
g4_bucket_parse_rules(const char *body, size_t size, struct g4_bucket_settings *settings)
{
    const char *row;
    size_t row_size;

    settings->lifecycle = G4_BUCKET_OFF;
    while (take_row(&body, &size, "<Rule>", "</Rule>", &row, &row_size)) {
        settings->lifecycle = G4_BUCKET_ON;
        settings->more_rules = settings->rule_count == G4_BUCKET_RULES_MAX;
        if (settings->more_rules)
            return;
        parse_rule(row, row_size, &settings->rules[settings->rule_count++]);
    }
}

struct question {
    const char *query;
    void (*parse)(const char *body, size_t size, struct g4_bucket_settings *settings);
};

enum kvt_err
g4_bucket_settings(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                   struct g4_bucket_settings *settings, struct kvt_error *err)
{
    static const struct question questions[] = {{"versioning=", g4_bucket_parse_versions},
                                                {"object-lock=", g4_bucket_parse_locks},
                                                {"lifecycle=", g4_bucket_parse_rules}};
    enum kvt_err rc = KVT_OK;

    memset(settings, 0, sizeof(*settings));
    for (size_t i = 0; rc == KVT_OK && i < sizeof(questions) / sizeof(questions[0]); i++) {
        struct kvt_buffer answer;
        long http;

        kvt_buffer_init(&answer, G4_BUCKET_ANSWER_MAX);
        rc = ask(endpoint,
                 &(struct g4_endpoint_call){
                     .method = "GET", .path = "/", .query = questions[i].query, .in_bucket = true},
                 timeout_ms, &answer, &http, err);
        if (rc == KVT_OK && http == 200)
            questions[i].parse(kvt_buffer_text(&answer), answer.size, settings);
        else if (rc == KVT_OK && http == 404 &&
                 !has((const char *)answer.data, answer.size, "NoSuchBucket"))
            questions[i].parse("", 0, settings); /* there is none: it is off */
        kvt_buffer_release(&answer);
    }
    return rc;
}

/* ---- uploads ---- */

/* A key as it came: encoded where the server says so, which not all do that are asked to.  What has
 * an XML entity in it is left out: it would be another key. */
static bool
take_key(const char *body, size_t size, const char *open, bool encoded, char key[KVT_KEY_MAX])
{
    char text[3 * KVT_KEY_MAX];
    size_t text_size;

    if (!g4_s3_xml_element(body, size, open, text, sizeof(text)))
        return false;
    if (encoded)
        return g4_s3_xml_key(text, key);
    text_size = strlen(text);
    if (text_size == 0 || text_size >= KVT_KEY_MAX || strchr(text, '&') != NULL)
        return false;
    memcpy(key, text, text_size + 1);
    return true;
}

void
g4_bucket_parse_uploads(const char *body, size_t size, struct g4_bucket_uploads *page)
{
    const char *left = body;
    size_t left_size = size;
    const bool encoded = has(body, size, "<EncodingType>url<");
    char time[TIME_MAX];
    const char *row;
    size_t row_size;

    page->count = 0;
    while (page->count < G4_BUCKET_UPLOADS_MAX &&
           take_row(&left, &left_size, "<Upload>", "</Upload>", &row, &row_size)) {
        struct g4_bucket_upload *upload = &page->rows[page->count];

        *upload = (struct g4_bucket_upload){.begun_ms = 0};
        if (!take_key(row, row_size, "<Key>", encoded, upload->key) ||
            !g4_s3_xml_element(row, row_size, "<UploadId>", upload->id, sizeof(upload->id)))
            continue; /* not one of ours */
        if (g4_s3_xml_element(row, row_size, "<Initiated>", time, sizeof(time)) &&
            !kvt_clock_parse(time, &upload->begun_ms))
            upload->begun_ms = 0;
        page->count++;
    }
    if (!has(body, size, "<IsTruncated>true<") ||
        !take_key(body, size, "<NextKeyMarker>", encoded, page->key_marker) ||
        !g4_s3_xml_element(body, size, "<NextUploadIdMarker>", page->id_marker,
                           sizeof(page->id_marker)))
        page->key_marker[0] = page->id_marker[0] = '\0';
}

enum kvt_err
g4_bucket_uploads(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                  struct g4_bucket_uploads *page, struct kvt_error *err)
{
    return g4_bucket_uploads_of(endpoint, timeout_ms, "", page, err);
}

enum kvt_err
g4_bucket_begin(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                struct g4_bucket_upload *upload, struct kvt_error *err)
{
    char path[KVT_KEY_MAX + 1];
    struct kvt_buffer answer;
    long http = 0;
    enum kvt_err rc;

    (void)snprintf(path, sizeof(path), "/%s", upload->key);
    upload->id[0] = '\0';
    kvt_buffer_init(&answer, G4_BUCKET_ANSWER_MAX);
    rc = ask(endpoint,
             &(struct g4_endpoint_call){
                 .method = "POST", .path = path, .query = "uploads=", .in_bucket = true},
             timeout_ms, &answer, &http, err);
    if (rc == KVT_OK && (http < 200 || http > 299))
        rc = refused(http, &answer, upload->key, err);
    else if (rc == KVT_OK && !g4_s3_xml_element(kvt_buffer_text(&answer), answer.size, "<UploadId>",
                                                upload->id, sizeof(upload->id)))
        rc = kvt_error_set(err, KVT_IO, "%.80s: the answer names no upload", upload->key);
    kvt_buffer_release(&answer);
    return rc;
}

/* Pages that do not end would be asked for ever. */
static enum kvt_err
check_markers(struct g4_bucket_uploads *page, const char *key_marker, struct kvt_error *err)
{
    const int order = strcmp(page->key_marker, key_marker);

    if (page->key_marker[0] == '\0')
        return KVT_OK;
    page->stands = order == 0 ? page->stands + 1 : 0;
    if (order >= 0 && page->stands < G4_BUCKET_STANDS_MAX)
        return KVT_OK;
    page->count = 0;
    return kvt_error_set(err, KVT_IO, "uploads: the store goes on at %.80s after %.80s",
                         page->key_marker, key_marker);
}

enum kvt_err
g4_bucket_uploads_of(const struct g4_endpoint *endpoint, uint64_t timeout_ms, const char *prefix,
                     struct g4_bucket_uploads *page, struct kvt_error *err)
{
    char key_marker[KVT_KEY_MAX];
    struct kvt_buffer answer;
    struct kvt_buffer query;
    long http = 0;
    enum kvt_err rc;

    memcpy(key_marker, page->key_marker, sizeof(key_marker));
    kvt_buffer_init(&answer, G4_BUCKET_ANSWER_MAX);
    kvt_buffer_init(&query, QUERY_MAX);
    kvt_buffer_printf(&query, "encoding-type=url");
    if (page->key_marker[0] != '\0') {
        kvt_buffer_printf(&query, "&key-marker=");
        g4_sigv4_encode(&query, page->key_marker, false);
    }
    kvt_buffer_printf(&query, "&max-uploads=%d", G4_BUCKET_UPLOADS_MAX);
    if (prefix[0] != '\0') {
        kvt_buffer_printf(&query, "&prefix=");
        g4_sigv4_encode(&query, prefix, false);
    }
    if (page->key_marker[0] != '\0') {
        kvt_buffer_printf(&query, "&upload-id-marker=");
        g4_sigv4_encode(&query, page->id_marker, false);
    }
    kvt_buffer_printf(&query, "&uploads=");
    page->count = 0;
    if (!kvt_buffer_ok(&query))
        rc = kvt_error_set(err, KVT_RANGE, "a marker is too long");
    else
        rc = ask(
            endpoint,
            &(struct g4_endpoint_call){
                .method = "GET", .path = "/", .query = kvt_buffer_text(&query), .in_bucket = true},
            timeout_ms, &answer, &http, err);
    if (rc == KVT_OK && http != 200)
        rc = refused(http, &answer, "uploads", err);
    else if (rc == KVT_OK) {
        g4_bucket_parse_uploads(kvt_buffer_text(&answer), answer.size, page);
        rc = check_markers(page, key_marker, err);
    }
    kvt_buffer_release(&query);
    kvt_buffer_release(&answer);
    return rc;
}

enum kvt_err
g4_bucket_abort(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                const struct g4_bucket_upload *upload, struct kvt_error *err)
{
    char path[KVT_KEY_MAX + 1];
    struct kvt_buffer answer;
    struct kvt_buffer query;
    long http = 0;
    enum kvt_err rc;

    (void)snprintf(path, sizeof(path), "/%s", upload->key);
    kvt_buffer_init(&answer, G4_BUCKET_ANSWER_MAX);
    kvt_buffer_init(&query, QUERY_MAX);
    kvt_buffer_printf(&query, "uploadId=");
    g4_sigv4_encode(&query, upload->id, false);
    rc = kvt_buffer_ok(&query) ? ask(endpoint,
                                     &(struct g4_endpoint_call){.method = "DELETE",
                                                                .path = path,
                                                                .query = kvt_buffer_text(&query),
                                                                .in_bucket = true},
                                     timeout_ms, &answer, &http, err)
                               : kvt_error_set(err, KVT_RANGE, "the id is too long");
    if (rc == KVT_OK && http != 404 && (http < 200 || http > 299))
        rc = refused(http, &answer, upload->key, err);
    kvt_buffer_release(&query);
    kvt_buffer_release(&answer);
    return rc;
}
