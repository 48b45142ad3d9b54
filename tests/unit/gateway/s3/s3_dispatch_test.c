/*
 * What is tested: gateway/s3/s3_dispatch.h and listing.h: what requests mean, without HTTP:
 * status, fields and bytes of objects, conditions, subresources, listings page by page against a
 * model.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/block/removal.h"
#include "gateway/http/attributes.h"

#include "tests/unit/gateway/support/scene.h"

enum { SIZE = 1000, LISTED = 40 };

static const struct gateway_principal tenant = {
    .access = "tenant",
    .grants = {{.prefix = "t/", .rights = GATEWAY_RIGHTS_ALL}},
    .grant_count = 1};

static void
objects(void **state)
{
    struct test_scene *s = *state;
    struct gateway_request *request;
    char key[KVT_KEY_MAX];
    char raw[KVT_KEY_MAX + 16];
    char etag[100];
    uint8_t body[SIZE];

    (void)snprintf(raw, sizeof(raw), "/kvtier/%s", test_gateway_key(key, 1));
    test_gateway_fill(body, SIZE, 1);
    request = test_scene_ask(s, "PUT", raw, body, SIZE, "If-Match", "\"x\"");
    assert_int_equal(request->status, 404);
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "GET", raw, "", NULL, NULL),
                     404); /* refused is not stored */
    request = test_scene_ask(s, "PUT", raw, body, SIZE, NULL, NULL);
    assert_int_equal(request->status, 200);
    (void)snprintf(etag, sizeof(etag), "%s", test_scene_field(request, "ETag"));
    assert_true(etag[0] == '"');
    test_scene_done(s, request);

    request = test_scene_ask(s, "GET", raw, NULL, 0, NULL, NULL);
    assert_int_equal(request->status, 200);
    assert_int_equal(request->body_size, SIZE);
    assert_memory_equal(request->answer.data, body, SIZE);
    assert_string_equal(test_scene_field(request, "ETag"), etag);
    assert_string_equal(test_scene_field(request, "x-amz-meta-kvt-length"), "1000");
    test_scene_done(s, request);

    request = test_scene_ask(s, "HEAD", raw, NULL, 0, NULL, NULL);
    assert_int_equal(request->status, 200);
    assert_true(request->head_only);
    assert_int_equal(request->length, SIZE);
    test_scene_done(s, request);

    assert_int_equal(test_scene_status(s, "PUT", raw, "other", NULL, NULL), 412);
    assert_int_equal(test_scene_status(s, "GET", raw, "", "If-Match", etag), 200);
    assert_int_equal(test_scene_status(s, "GET", raw, "", "If-Match", "\"x\""), 412);
    assert_int_equal(test_scene_status(s, "GET", raw, "", "If-None-Match", etag), 304);
    assert_int_equal(test_scene_status(s, "GET", raw, "", "If-None-Match", "\"x\", \"y\""), 200);
    assert_int_equal(test_scene_status(s, "DELETE", raw, "", "If-Match", "\"x\""), 412);
    assert_int_equal(test_scene_status(s, "DELETE", raw, "", "x-amz-if-match-size", "999"), 412);
    assert_int_equal(test_scene_status(s, "GET", raw, "", NULL, NULL), 200);
    assert_int_equal(test_scene_status(s, "POST", raw, "", NULL, NULL), 405);
    assert_int_equal(test_scene_status(s, "DELETE", raw, "", "If-Match", etag), 204);
    assert_int_equal(test_scene_status(s, "GET", raw, "", NULL, NULL), 404);
    assert_int_equal(test_scene_status(s, "DELETE", raw, "", "If-Match", etag), 404);
    assert_int_equal(test_scene_status(s, "DELETE", raw, "", NULL, NULL), 204);
}

static void
what_is_not_offered(void **state)
{
    struct test_scene *s = *state;
    struct gateway_request *request;

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/k?acl", "", NULL, NULL), 501);
    assert_int_equal(
        test_scene_status(s, "PUT", "/kvtier/k?partNumber=1&uploadId=2", "x", NULL, NULL), 404);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/k", "", NULL, NULL),
                     404); /* nothing was written */
    assert_int_equal(test_scene_status(s, "GET", "/kvtier?policy", "", NULL, NULL), 404);
    assert_int_equal(test_scene_status(s, "DELETE", "/kvtier", "", NULL, NULL), 501);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/full", "x", NULL, NULL), 200);
    assert_int_equal(test_scene_status(s, "DELETE", "/kvtier", "", NULL, NULL), 409);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier?acl", "", NULL, NULL), 501);
    assert_int_equal(test_scene_status(s, "HEAD", "/another", "", NULL, NULL), 404);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier", "", NULL, NULL), 409);
    assert_int_equal(test_scene_status(s, "GET", "/other/k", "", NULL, NULL), 404);
    assert_int_equal(test_scene_status(s, "GET", "/_kvtier/v1/nope/kvtier", "", NULL, NULL), 501);
    assert_int_equal(test_scene_status(s, "POST", "/_kvtier/v1/has/other", "", NULL, NULL), 404);
    assert_int_equal(test_scene_status(s, "GET", "/_kvtier/v1/has/kvtier", "", NULL, NULL), 405);
    assert_int_equal(test_scene_status(s, "POST", "/_kvtier/v1/has/kvtier", "xx", NULL, NULL), 400);
    assert_int_equal(test_scene_status(s, "HEAD", "/kvtier", "", NULL, NULL), 200);
    request = test_scene_ask(s, "GET", "/kvtier/?location=", NULL, 0, NULL, NULL);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), ">eu-1<"));
    test_scene_done(s, request);
    request = test_scene_ask(s, "GET", "/kvtier/x", NULL, 0, NULL, NULL);
    assert_int_equal(gateway_s3_admit(&s->s3, s->s3.batch_max), GATEWAY_S3_ERROR_NONE);
    assert_int_equal(gateway_s3_admit(&s->s3, s->s3.batch_max + 1), GATEWAY_S3_ERROR_TOO_LARGE);
    test_scene_done(s, request);
}

/* Opaque objects are what was put last, with all that came beside it. */
static void
opaque_objects(void **state)
{
    static const char *const headers[] = {"Content-Type",
                                          "text/plain",
                                          "X-Amz-Meta-Color",
                                          "red",
                                          "Content-Encoding",
                                          "aws-chunked,gzip",
                                          "x-amz-meta-empty",
                                          "",
                                          NULL};
    struct test_scene *s = *state;
    struct gateway_request *request;
    char text[200];

    request = test_scene_ask_all(s, "PUT", "/kvtier/note", "hello", 5, headers);
    assert_int_equal(request->status, 200);
    assert_string_equal(test_scene_field(request, "ETag"), "\"5d41402abc4b2a76b9719d911017c592\"");
    test_scene_done(s, request);
    for (int i = 0; i < 2; i++) {
        request = test_scene_ask(s, i == 0 ? "GET" : "HEAD", "/kvtier/note", NULL, 0, NULL, NULL);
        assert_int_equal(request->status, 200);
        assert_string_equal(test_scene_field(request, "ETag"),
                            "\"5d41402abc4b2a76b9719d911017c592\"");
        assert_string_equal(test_scene_line(request, "content-type", text, sizeof(text)),
                            "text/plain");
        assert_string_equal(test_scene_line(request, "content-encoding", text, sizeof(text)),
                            "gzip");
        assert_string_equal(test_scene_line(request, "x-amz-meta-color", text, sizeof(text)),
                            "red");
        assert_string_equal(test_scene_line(request, "x-amz-meta-kvt-etag", text, sizeof(text)),
                            "");
        assert_string_equal(test_scene_field(request, "x-amz-meta-kvt-length"), "");
        assert_int_equal(i == 0 ? request->body_size : request->length, 5);
        test_scene_done(s, request);
    }
    request =
        test_scene_ask(s, "GET", "/kvtier/note?response-content-type=a%2Fb", NULL, 0, NULL, NULL);
    assert_string_equal(test_scene_line(request, "content-type", text, sizeof(text)), "a/b");
    test_scene_done(s, request);

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/note", "other!", NULL, NULL), 200);
    request = test_scene_ask(s, "GET", "/kvtier/note", NULL, 0, NULL, NULL);
    assert_int_equal(request->body_size, 6);
    assert_string_equal(test_scene_line(request, "x-amz-meta-color", text, sizeof(text)), "");
    test_scene_done(s, request);
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    request = kvt_calloc(1, sizeof(*request));
    for (int i = 0; i < 11; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "x-amz-meta-n%d", i);
        assert_int_equal(gateway_request_header_add(request, name, text), KVT_OK);
    }
    {
        char attributes[G4_ATTRIBUTES_MAX];

        assert_int_equal(gateway_attributes_take(request, attributes), GATEWAY_S3_ERROR_META_LARGE);
    }
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/k", "x", "x-amz-meta-n", "a\x04"), 400);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/k", "x", "x-amz-meta-\x04", "a"), 400);
    request = test_scene_ask(s, "PUT", "/kvtier/k", "x", 1, "x-amz-meta-n", "a\x7f");
    assert_int_equal(request->fault, GATEWAY_S3_ERROR_INVALID_ARGUMENT);
    test_scene_done(s, request);
}

/* aws-chunked is how a body came: whatever else it is encoded with is kept with the object. */
static void
encodings(void **state)
{
    static const struct {
        const char *came;
        const char *stays; /* "": as if there had been none */
    } rows[] = {
        {"aws-chunked", ""},
        {"gzip, aws-chunked", "gzip"},
        {"aws-chunked,gzip", "gzip"},
        {" AWS-Chunked , gzip,br ", "gzip,br"},
        {"deflate, gzip", "deflate, gzip"},
        {"gzip, aws-chunked, br", "gzip, br"},
        {"aws-chunkedx", "aws-chunkedx"},
        {"", ""},
    };
    struct test_scene *s = *state;
    char text[300];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request *request;

        assert_int_equal(
            test_scene_status(s, "PUT", "/kvtier/e", "x", "Content-Encoding", rows[i].came), 200);
        request = test_scene_ask(s, "HEAD", "/kvtier/e", NULL, 0, NULL, NULL);
        assert_string_equal(test_scene_line(request, "content-encoding", text, sizeof(text)),
                            rows[i].stays);
        test_scene_done(s, request);
    }
    memset(text, 'x', sizeof(text)); /* none is kept in part */
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/e", "x", "Content-Encoding", text), 400);
}

static void
conditions(void **state)
{
    static const char md5[] = "\"5d41402abc4b2a76b9719d911017c592\"";
    struct test_scene *s = *state;
    struct gateway_request *request;
    char modified[64];

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "hello", "If-Match", md5), 404);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "hello", "If-None-Match", "*"), 200);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "other", "If-None-Match", "*"), 412);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "other", "If-Match", "\"no\""), 412);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "other", "If-None-Match", md5), 412);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "other", "If-Match", md5), 200);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "hello", "If-Match", "*"), 200);
    request = test_scene_ask(s, "GET", "/kvtier/c", NULL, 0, "If-None-Match", md5);
    assert_int_equal(request->status, 304);
    assert_string_equal(test_scene_field(request, "ETag"), md5);
    (void)snprintf(modified, sizeof(modified), "%s", test_scene_field(request, "Last-Modified"));
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/c", "", "If-Modified-Since", modified),
                     304);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/c", "", "If-Unmodified-Since", modified),
                     200);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/c", "", "If-Modified-Since",
                                       "Sat, 29 Oct 1994 19:43:31 GMT"),
                     200);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/c", "", "If-Unmodified-Since",
                                       "Sat, 29 Oct 1994 19:43:31 GMT"),
                     412);
    {
        /* If-None-Match beats If-Modified-Since, If-Match beats If-Unmodified-Since. */
        const char *const headers[] = {"If-None-Match", "\"no\"", "If-Modified-Since", modified,
                                       NULL};
        const char *const others[] = {"If-Match", md5, "If-Unmodified-Since",
                                      "Sat, 29 Oct 1994 19:43:31 GMT", NULL};

        request = test_scene_ask_all(s, "GET", "/kvtier/c", NULL, 0, headers);
        assert_int_equal(request->status, 200);
        test_scene_done(s, request);
        request = test_scene_ask_all(s, "GET", "/kvtier/c", NULL, 0, others);
        assert_int_equal(request->status, 200);
        test_scene_done(s, request);
    }
}

static void
copies(void **state)
{
    static const char *const replace[] = {"x-amz-copy-source",
                                          "kvtier/a%20b",
                                          "x-amz-metadata-directive",
                                          "REPLACE",
                                          "x-amz-meta-new",
                                          "1",
                                          NULL};
    struct test_scene *s = *state;
    struct gateway_request *request;
    char text[100];

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/a%20b", "hello", "x-amz-meta-old", "1"),
                     200);
    request = test_scene_ask(s, "PUT", "/kvtier/c", NULL, 0, "x-amz-copy-source", "/kvtier/a%20b");
    assert_int_equal(request->status, 200);
    assert_non_null(strstr(kvt_buffer_text(&request->answer),
                           "<ETag>&quot;5d41402abc4b2a76b9719d911017c592&quot;</ETag>"));
    test_scene_done(s, request);
    request = test_scene_ask(s, "GET", "/kvtier/c", NULL, 0, NULL, NULL);
    assert_int_equal(request->body_size, 5);
    assert_string_equal(test_scene_line(request, "x-amz-meta-old", text, sizeof(text)), "1");
    test_scene_done(s, request);

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "", "x-amz-copy-source", "/kvtier/c"),
                     400);
    assert_int_equal(
        test_scene_status(s, "PUT", "/kvtier/c", "", "x-amz-copy-source", "/kvtier/no"), 404);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "", "x-amz-copy-source", "/other/c"),
                     404);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/c", "", "x-amz-copy-source", "nothing"),
                     400);
    request = test_scene_ask_all(s, "PUT", "/kvtier/a%20b", NULL, 0, replace);
    assert_int_equal(request->status, 200);
    test_scene_done(s, request);
    request = test_scene_ask(s, "HEAD", "/kvtier/a%20b", NULL, 0, NULL, NULL);
    assert_string_equal(test_scene_line(request, "x-amz-meta-new", text, sizeof(text)), "1");
    assert_string_equal(test_scene_line(request, "x-amz-meta-old", text, sizeof(text)), "");
    assert_int_equal(request->length, 5);
    test_scene_done(s, request);
    {
        const char *const headers[] = {"x-amz-copy-source", "kvtier/c",
                                       "x-amz-copy-source-if-none-match",
                                       "5d41402abc4b2a76b9719d911017c592", NULL};

        request = test_scene_ask_all(s, "PUT", "/kvtier/d", NULL, 0, headers);
        assert_int_equal(request->status, 412);
        test_scene_done(s, request);
    }
}

static void
many_are_deleted_at_once(void **state)
{
    struct test_scene *s = *state;
    struct gateway_request *request;
    struct kvt_buffer body;
    const char *text;

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/a%26b", "x", NULL, NULL), 200);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/t/1", "x", NULL, NULL), 200);
    text = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key>a&amp;b</Key>"
           "</Object><Object><Key>none</Key></Object></Delete>";
    request = test_scene_ask(s, "POST", "/kvtier?delete", text, strlen(text), NULL, NULL);
    assert_int_equal(request->status, 200);
    text = kvt_buffer_text(&request->answer);
    assert_non_null(strstr(text, "<Deleted><Key>a&amp;b</Key></Deleted>"));
    assert_non_null(strstr(text, "<Deleted><Key>none</Key></Deleted>"));
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/a%26b", "", NULL, NULL), 404);

    s->who = &tenant; /* quiet: only what failed is told */
    text = "<Delete><Quiet>true</Quiet><Object><Key>t/1</Key></Object>"
           "<Object><Key>u/1</Key></Object></Delete>";
    request = test_scene_ask(s, "POST", "/kvtier?delete", text, strlen(text), NULL, NULL);
    text = kvt_buffer_text(&request->answer);
    assert_null(strstr(text, "<Deleted>"));
    assert_non_null(strstr(text, "<Error><Key>u/1</Key><Code>AccessDenied</Code>"));
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/t/1", "", NULL, NULL), 404);

    assert_int_equal(
        test_scene_status(s, "POST", "/kvtier?delete", "<Delete></Delete>", NULL, NULL), 400);
    assert_int_equal(test_scene_status(s, "POST", "/kvtier?delete", "<Delete><Object>", NULL, NULL),
                     400);
    assert_int_equal(test_scene_status(s, "POST", "/kvtier?delete", "", NULL, NULL), 400);
    kvt_buffer_init(&body, 1u << 20);
    kvt_buffer_printf(&body, "<Delete>");
    for (int i = 0; i < 1001; i++)
        kvt_buffer_printf(&body, "<Object><Key>k%d</Key></Object>", i);
    kvt_buffer_printf(&body, "</Delete>");
    assert_int_equal(
        test_scene_status(s, "POST", "/kvtier?delete", kvt_buffer_text(&body), NULL, NULL), 400);
    kvt_buffer_release(&body);
}

/* Each may have waited for as long as anybody does: all of a thousand, a few at once, would take
 * minutes. */
static void
many_do_not_wait_group_by_group(void **state)
{
    enum { KEYS = GATEWAY_REMOVAL_TOGETHER + 5 };
    struct test_scene *s = *state;
    struct gateway_request *request;
    struct kvt_buffer text;
    unsigned refused = 0;
    const char *at;
    char code[32];
    char url[32];

    kvt_buffer_init(&text, 1u << 16);
    kvt_buffer_printf(&text, "<Delete>");
    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(url, sizeof(url), "/kvtier/k%u", i);
        assert_int_equal(test_scene_status(s, "PUT", url, "x", NULL, NULL), 200);
        kvt_buffer_printf(&text, "<Object><Key>k%u</Key></Object>", i);
    }
    kvt_buffer_printf(&text, "</Delete>");
    test_gateway_fault(&s->gateway, G4_DELETE, G4_FAULT_FAIL, KVT_AGAIN, 1);
    request =
        test_scene_ask(s, "POST", "/kvtier?delete", (const char *)text.data, text.size, NULL, NULL);
    for (at = kvt_buffer_text(&request->answer);
         test_scene_element(&at, "<Code>", code, sizeof(code)); refused++)
        assert_string_equal(code, "SlowDown");
    test_scene_done(s, request);
    assert_int_equal(refused, 1 + KEYS - GATEWAY_REMOVAL_TOGETHER);
    assert_int_equal(test_scene_status(s, "GET", url, "", NULL, NULL), 200); /* not tried */
    request =
        test_scene_ask(s, "POST", "/kvtier?delete", (const char *)text.data, text.size, NULL, NULL);
    assert_null(strstr(kvt_buffer_text(&request->answer), "<Error>"));
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "GET", url, "", NULL, NULL), 404);
    kvt_buffer_release(&text);
}

/* What a tenant may not touch is refused whether it is there or not. */
static void
rights_are_kept(void **state)
{
    struct test_scene *s = *state;

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/secret", "x", NULL, NULL), 200);
    s->who = &tenant;
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/t/a", "x", NULL, NULL), 200);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/t/a", "", NULL, NULL), 200);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/secret", "", NULL, NULL), 403);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/nothing", "", NULL, NULL), 403);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/x", "x", NULL, NULL), 403);
    assert_int_equal(test_scene_status(s, "DELETE", "/kvtier/secret", "", NULL, NULL), 403);
    assert_int_equal(
        test_scene_status(s, "PUT", "/kvtier/t/c", "", "x-amz-copy-source", "/kvtier/secret"), 403);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier?list-type=2", "", NULL, NULL), 403);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier?list-type=2&prefix=t%2F", "", NULL, NULL),
                     200);
    {
        /* A batch of one key: its count, its length, itself. */
        static const char own[] = "\1\0\0\0\3\0t/a";
        static const char other[] = "\1\0\0\0\6\0secret";
        struct gateway_request *request =
            test_scene_ask(s, "POST", "/_kvtier/v1/has/kvtier", own, sizeof(own) - 1, NULL, NULL);

        assert_int_equal(request->status, 200);
        test_scene_done(s, request);
        request = test_scene_ask(s, "POST", "/_kvtier/v1/get/kvtier", other, sizeof(other) - 1,
                                 NULL, NULL);
        assert_int_equal(request->status, 403);
        test_scene_done(s, request);
    }
    s->who = NULL;
    assert_int_equal(test_scene_status(s, "POST", "/_kvtier/v1/has/kvtier", "xx", NULL, NULL), 403);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/t/a", "", NULL, NULL), 403);
}

static void
memory_is_asked_for_first(void **state)
{
    struct test_scene *s = *state;

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/digits", "0123456789", NULL, NULL), 200);
    s->budget.max = 9;
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/digits", "", NULL, NULL), 503);
    s->budget.max = 10;
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/digits", "", NULL, NULL), 200);
}

static void
listings(void **state)
{
    struct test_scene *s = *state;
    char token[2048] = "";
    char raw[4096];
    char text[2048];
    char last[64] = "";
    const char *at;
    unsigned found = 0;
    unsigned pages = 0;

    for (unsigned i = 0; i < LISTED; i++) {
        (void)snprintf(raw, sizeof(raw), "/kvtier/d%u/f%%26%02u", i % 4, i);
        assert_int_equal(test_scene_status(s, "PUT", raw, "x", NULL, NULL), 200);
    }
    do {
        struct gateway_request *request;

        (void)snprintf(raw, sizeof(raw), "/kvtier?list-type=2&max-keys=7&encoding-type=url%s%s",
                       token[0] == '\0' ? "" : "&continuation-token=", token);
        request = test_scene_ask(s, "GET", raw, NULL, 0, NULL, NULL);
        assert_int_equal(request->status, 200);
        for (at = kvt_buffer_text(&request->answer);
             test_scene_element(&at, "<Contents><Key>", text, sizeof(text)); found++) {
            assert_true(strcmp(text, last) > 0);
            assert_non_null(strstr(text, "/f%26"));
            (void)snprintf(last, sizeof(last), "%.60s", text);
        }
        at = kvt_buffer_text(&request->answer);
        (void)test_scene_element(&at, "<NextContinuationToken>", token, sizeof(token));
        test_scene_done(s, request);
        assert_true(++pages < 20);
    } while (token[0] != '\0');
    assert_int_equal(found, LISTED);
    assert_int_equal(pages, (LISTED + 6) / 7);
}

static void
listings_fold(void **state)
{
    struct test_scene *s = *state;
    static const char *const targets[] = {"/kvtier?list-type=2&delimiter=%2F&max-keys=2",
                                          "/kvtier?delimiter=/&max-keys=2"};

    for (unsigned i = 0; i < 9; i++) {
        char raw[64];

        (void)snprintf(raw, sizeof(raw), "/kvtier/d%u/f%u", i % 3, i);
        assert_int_equal(test_scene_status(s, "PUT", raw, "x", NULL, NULL), 200);
    }
    for (size_t version = 0; version < 2; version++) {
        char raw[4096];
        char next[2048] = "";
        unsigned folds = 0;

        for (unsigned pages = 0; pages < 3; pages++) {
            struct gateway_request *request;
            char text[2048];
            const char *at;

            (void)snprintf(raw, sizeof(raw), "%s%s%s", targets[version],
                           next[0] == '\0' ? ""
                           : version == 0  ? "&continuation-token="
                                           : "&marker=",
                           next);
            request = test_scene_ask(s, "GET", raw, NULL, 0, NULL, NULL);
            at = kvt_buffer_text(&request->answer);
            assert_null(strstr(at, "<Contents>"));
            while (test_scene_element(&at, "<CommonPrefixes><Prefix>", text, sizeof(text))) {
                char expected[8];

                (void)snprintf(expected, sizeof(expected), "d%u/", folds++);
                assert_string_equal(text, expected);
            }
            at = kvt_buffer_text(&request->answer);
            (void)test_scene_element(&at, version == 0 ? "<NextContinuationToken>" : "<NextMarker>",
                                     next, sizeof(next));
            test_scene_done(s, request);
            if (next[0] == '\0')
                break;
        }
        assert_int_equal(folds, 3);
    }
    assert_int_equal(
        test_scene_status(s, "GET", "/kvtier?list-type=2&continuation-token=zz", "", NULL, NULL),
        400);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier?list-type=2&max-keys=-1", "", NULL, NULL),
                     400);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier?list-type=2&max-keys=0", "", NULL, NULL),
                     200);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_scene_set_up, test_scene_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(objects),
        TEST(what_is_not_offered),
        TEST(opaque_objects),
        TEST(encodings),
        TEST(conditions),
        TEST(copies),
        TEST(many_are_deleted_at_once),
        TEST(many_do_not_wait_group_by_group),
        TEST(rights_are_kept),
        TEST(memory_is_asked_for_first),
        TEST(listings),
        TEST(listings_fold),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
