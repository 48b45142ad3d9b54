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
        "<Object><Size>1</Size><Key>b</Key></Object>"
        "<Object><Key>c</Key><LastModifiedTime>Sat, 29 Oct 1994 19:43:31 GMT</LastModifiedTime>"
        "</Object><Object><Key>d</Key></Object></Delete>";
    static const char *const kept[] = {"a", "b", "c"};
    struct test_scene *s = *state;
    struct gateway_request *request;
    char part[80];

    for (const char *key = "abcd"; *key != '\0'; key++) {
        (void)snprintf(part, sizeof(part), "/kvtier/%c", *key);
        assert_int_equal(test_scene_status(s, "PUT", part, "x", NULL, NULL), 200);
    }
    request = test_scene_ask(s, "POST", "/kvtier?delete", text, sizeof(text) - 1, NULL, NULL);
    assert_int_equal(request->status, 200);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(part, sizeof(part), "<Error><Key>%s</Key><Code>NotImplemented</Code>",
                       kept[i]);
        assert_non_null(strstr(kvt_buffer_text(&request->answer), part));
        (void)snprintf(part, sizeof(part), "/kvtier/%s", kept[i]);
        assert_int_equal(test_scene_status(s, "GET", part, "", NULL, NULL), 200);
    }
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "<Deleted><Key>d</Key></Deleted>"));
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/d", "", NULL, NULL), 404);
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
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
