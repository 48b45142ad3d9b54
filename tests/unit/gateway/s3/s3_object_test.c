/*
 * What is tested: gateway/s3/s3_dispatch.h, where only a part is asked for or meant: ranges, with
 * and without If-Range, and the headers and rows of writes and deletes that must not be passed
 * over.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/gateway/support/scene.h"

static void
ranges(void **state)
{
    struct test_scene *s = *state;
    static const struct {
        const char *range;
        unsigned status;
        const char *body;
    } rows[] = {
        {"bytes=0-3", 206, "0123"},
        {"bytes=6-", 206, "6789"},
        {"bytes=-2", 206, "89"},
        {"bytes=8-99", 206, "89"},
        {"bytes=-99", 206, "0123456789"},
        {"bytes=9-9", 206, "9"},
        {"bytes=10-", 416, NULL},
        {"bytes=10-11", 416, NULL},
        {"bytes=-0", 416, NULL},
        {"bytes=5-4", 200, NULL},
        {"bytes=a-b", 200, NULL},
        {"lines=0-1", 200, NULL},
        {"bytes=0-1,3-4", 200, NULL},
        {"bytes=", 200, NULL},
        {"", 200, NULL},
    };

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/digits", "0123456789", NULL, NULL), 200);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request *request =
            test_scene_ask(s, "GET", "/kvtier/digits", NULL, 0, "Range", rows[i].range);

        assert_int_equal(request->status, rows[i].status);
        if (rows[i].body != NULL) {
            assert_int_equal(request->body_size, strlen(rows[i].body));
            assert_memory_equal(request->answer.data + request->body_from, rows[i].body,
                                request->body_size);
        }
        test_scene_done(s, request);
    }
}

/* A part of what the client has begun to read, or all of what is there. */
static void
ranges_of_what_is_held(void **state)
{
    struct test_scene *s = *state;
    char modified[64];
    char strong[64];
    char weak[80];
    const char *const stand[] = {strong, modified};
    const char *const fall[] = {weak, "\"781e5e245d69b566979b86e28d23f2c8\"", strong + 1, "*",
                                "Sat, 29 Oct 1994 19:43:31 GMT"};
    struct gateway_request *request;

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/digits", "0123456789", NULL, NULL), 200);
    request = test_scene_ask(s, "HEAD", "/kvtier/digits", NULL, 0, NULL, NULL);
    (void)snprintf(strong, sizeof(strong), "%s", test_scene_field(request, "ETag"));
    (void)snprintf(weak, sizeof(weak), "W/%s", strong);
    (void)snprintf(modified, sizeof(modified), "%s", test_scene_field(request, "Last-Modified"));
    test_scene_done(s, request);
    for (size_t i = 0; i < 2 + sizeof(fall) / sizeof(fall[0]); i++) {
        const char *const headers[] = {"If-Range", i < 2 ? stand[i] : fall[i - 2], "Range",
                                       "bytes=2-3", NULL};
        const char *const outside[] = {"If-Range", headers[1], "Range", "bytes=90-", NULL};

        request = test_scene_ask_all(s, "GET", "/kvtier/digits", NULL, 0, headers);
        if (request->status != (i < 2 ? 206 : 200))
            fail_msg("If-Range: %s", headers[1]);
        assert_int_equal(request->body_size, i < 2 ? 2 : 10);
        test_scene_done(s, request);
        request = test_scene_ask_all(s, "GET", "/kvtier/digits", NULL, 0, outside);
        assert_int_equal(request->status, i < 2 ? 416 : 200);
        test_scene_done(s, request);
    }
}

/* Headers that would make it another write are not dropped on the way to a plain one. */
static void
writes_that_are_not_offered(void **state)
{
    static const char *const names[] = {
        "x-amz-write-offset-bytes",
        "x-amz-server-side-encryption-customer-algorithm",
        "X-Amz-Server-Side-Encryption-Customer-Key",
        "x-amz-object-lock-mode",
        "x-amz-object-lock-legal-hold",
        "X-Amz-Tagging",
    };
    struct test_scene *s = *state;

    assert_int_equal(
        test_scene_status(s, "PUT", "/kvtier/from", "x", "x-amz-tagging-directive", "COPY"), 200);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *const copy[] = {"x-amz-copy-source", "kvtier/from", names[i], "5", NULL};
        struct gateway_request *request = test_scene_ask_all(s, "PUT", "/kvtier/k", NULL, 0, copy);

        assert_int_equal(request->status, 501);
        test_scene_done(s, request);
        assert_int_equal(test_scene_status(s, "PUT", "/kvtier/k", "x", names[i], "5"), 501);
        assert_int_equal(test_scene_status(s, "POST", "/kvtier/k?uploads", "", names[i], "5"), 501);
        assert_int_equal(test_scene_status(s, "GET", "/kvtier/from", "", names[i], "5"), 200);
    }
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/k", "", NULL, NULL), 404);
}

/* Of this object only, or not at all: a row of the key alone is another matter. */
static void
deletes_with_conditions(void **state)
{
    static const char text[] =
        "<Delete><Object><Key>a</Key><ETag>\"x\"</ETag></Object>"
        "<Object><Size>2</Size><Key>b</Key></Object>"
        "<Object><Key>c</Key><LastModifiedTime>Sat, 29 Oct 1994 19:43:31 GMT</LastModifiedTime>"
        "</Object><Object><Key>d</Key></Object>"
        "<Object><Key>e</Key><Size>1</Size><ETag>9dd4e461268c8034f5c8564e155c67a6</ETag></Object>"
        "<Object><Key>f</Key><Size>1</Size></Object><Object><Key>g</Key><Size>x</Size></Object>"
        "</Delete>";
    static const struct {
        const char *row;
        const char *raw;
        unsigned status; /* of a GET afterwards */
    } rows[] = {{"<Error><Key>a</Key><Code>PreconditionFailed</Code>", "/kvtier/a", 200},
                {"<Error><Key>b</Key><Code>PreconditionFailed</Code>", "/kvtier/b", 200},
                {"<Error><Key>c</Key><Code>PreconditionFailed</Code>", "/kvtier/c", 200},
                {"<Deleted><Key>d</Key></Deleted>", "/kvtier/d", 404},
                {"<Deleted><Key>e</Key></Deleted>", "/kvtier/e", 404},
                {"<Error><Key>f</Key><Code>NoSuchKey</Code>", "/kvtier/f", 404},
                {"<Error><Key>g</Key><Code>InvalidArgument</Code>", "/kvtier/g", 200}};
    struct test_scene *s = *state;
    struct gateway_request *request;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].raw, "/kvtier/f") != 0)
            assert_int_equal(test_scene_status(s, "PUT", rows[i].raw, "x", NULL, NULL), 200);
    request = test_scene_ask(s, "POST", "/kvtier?delete", text, sizeof(text) - 1, NULL, NULL);
    assert_int_equal(request->status, 200);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_non_null(strstr(kvt_buffer_text(&request->answer), rows[i].row));
        assert_int_equal(test_scene_status(s, "GET", rows[i].raw, "", NULL, NULL), rows[i].status);
    }
    test_scene_done(s, request);
}

/* The same of one DELETE: today's object goes, and no other. */
static void
a_delete_with_conditions(void **state)
{
    static const char *const refused[][2] = {
        {"If-Match", "\"x\""},
        {"x-amz-if-match-size", "2"},
        {"x-amz-if-match-last-modified-time", "Sat, 29 Oct 1994 19:43:31 GMT"}};
    static const char *const invalid[][2] = {{"x-amz-if-match-size", "-1"},
                                             {"x-amz-if-match-size", ""},
                                             {"x-amz-if-match-last-modified-time", "yesterday"}};
    static const char *const unoffered[] = {"If-None-Match", "If-Modified-Since",
                                            "If-Unmodified-Since"};
    struct test_scene *s = *state;
    struct gateway_request *request;
    char modified[64];

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/k", "x", NULL, NULL), 200);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            test_scene_status(s, "DELETE", "/kvtier/k", "", refused[i][0], refused[i][1]), 412);
        assert_int_equal(
            test_scene_status(s, "DELETE", "/kvtier/none", "", refused[i][0], refused[i][1]), 404);
        assert_int_equal(
            test_scene_status(s, "DELETE", "/kvtier/k", "", invalid[i][0], invalid[i][1]), 400);
        assert_int_equal(test_scene_status(s, "DELETE", "/kvtier/k", "", unoffered[i], "*"), 501);
    }
    assert_int_equal(test_scene_status(s, "DELETE", "/kvtier/k?uploadId=1", "",
                                       "x-amz-if-match-initiated-time", "x"),
                     501);
    request = test_scene_ask(s, "GET", "/kvtier/k", NULL, 0, NULL, NULL);
    assert_int_equal(request->status, 200);
    (void)snprintf(modified, sizeof(modified), "%s", test_scene_field(request, "Last-Modified"));
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "DELETE", "/kvtier/k", "",
                                       "x-amz-if-match-last-modified-time", modified),
                     204);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/k", "", NULL, NULL), 404);
}

/* Which of many keys it was that an error is about. */
static void
an_error_names_its_key(void **state)
{
    struct test_scene *s = *state;
    struct gateway_request *request = test_scene_ask(s, "GET", "/kvtier/a%3Cb", "", 0, NULL, NULL);

    assert_int_equal(request->status, 404);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "<Key>a&lt;b</Key>"));
    test_scene_done(s, request);
}

/* A refusal of the store is told as one, and so is a key that only the gateway may write. */
static void
what_the_store_refuses(void **state)
{
    struct test_scene *s = *state;
    struct gateway_request *request;

    test_gateway_fault(&s->gateway, G4_PUT, G4_FAULT_FAIL, KVT_DENIED, 1);
    request = test_scene_ask(s, "PUT", "/kvtier/k", "x", 1, NULL, NULL);
    assert_int_equal(request->status, 403);
    assert_non_null(
        strstr(kvt_buffer_text(&request->answer), "The bucket behind this gateway refuses that."));
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/k", "", NULL, NULL), 404);
}

/* No rules for browsers are offered, and docs/api.md says what is answered. */
static void
there_is_no_cors(void **state)
{
    struct test_scene *s = *state;

    assert_int_equal(test_scene_status(s, "OPTIONS", "/kvtier/k", "", NULL, NULL), 405);
    assert_int_equal(test_scene_status(s, "OPTIONS", "/kvtier", "", NULL, NULL), 501);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier?cors", "", NULL, NULL), 404);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier?cors", "", NULL, NULL), 501);
    s->who = NULL;
    assert_int_equal(test_scene_status(s, "OPTIONS", "/kvtier/k", "", NULL, NULL), 403);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_scene_set_up, test_scene_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(ranges),
        TEST(ranges_of_what_is_held),
        TEST(writes_that_are_not_offered),
        TEST(deletes_with_conditions),
        TEST(a_delete_with_conditions),
        TEST(an_error_names_its_key),
        TEST(what_the_store_refuses),
        TEST(there_is_no_cors),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
