/*
 * What is tested: gateway/s3.h, where only a part is asked for or meant: ranges, with and without
 * If-Range, and the headers and rows of writes and deletes that must not be passed over.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/s3.h"

#include "tests/unit/gateway/support.h"

static const struct gateway_principal all_rights = {
    .access = "all", .grants = {{.prefix = "", .rights = GATEWAY_RIGHTS_ALL}}, .grant_count = 1};

struct fixture {
    struct test_gateway gateway;
    struct gateway_budget budget;
    struct gateway_s3 s3;
};

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    test_gateway_open(&f->gateway, 1u << 20, 0);
    f->budget.max = 1u << 20;
    f->s3 = (struct gateway_s3){.vault = f->gateway.vault,
                                .budget = &f->budget,
                                .bucket = "kvtier",
                                .region = "eu-1",
                                .batch_max = 1u << 20};
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(atomic_load(&f->budget.used), 0); /* every request gave back what it took */
    test_gateway_close(&f->gateway);
    kvt_free(f);
    return 0;
}

/* `headers`: name, value, ..., NULL. */
static struct gateway_request *
ask_all(struct fixture *f, const char *method, const char *raw, const void *body, size_t size,
        const char *const *headers)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));

    kvt_buffer_init(&request->answer, 4u << 20);
    kvt_buffer_init(&request->body, 8u << 20);
    (void)snprintf(request->method, sizeof(request->method), "%s", method);
    request->raw = kvt_strdup(raw);
    request->status = 200;
    assert_int_equal(gateway_target_parse(request->raw, &request->target, NULL), KVT_OK);
    if (size > 0)
        kvt_buffer_append(&request->body, body, size);
    for (; headers[0] != NULL; headers += 2)
        assert_int_equal(gateway_request_header_add(request, headers[0], headers[1]), KVT_OK);
    request->principal = &all_rights;
    gateway_s3_handle(&f->s3, request);
    return request;
}

static struct gateway_request *
ask(struct fixture *f, const char *method, const char *raw, const void *body, size_t size,
    const char *header, const char *value)
{
    const char *const headers[] = {header, value, NULL};

    return ask_all(f, method, raw, body, size, headers);
}

static const char *
field(const struct gateway_request *request, const char *name)
{
    for (size_t i = 0; i < request->field_count; i++)
        if (strcmp(request->fields[i].name, name) == 0)
            return request->fields[i].value;
    return "";
}

/* Status only. */
static unsigned
status(struct fixture *f, const char *method, const char *raw, const char *body, const char *header,
       const char *value)
{
    struct gateway_request *request = ask(f, method, raw, body, strlen(body), header, value);
    const unsigned result = request->status;

    gateway_request_release(request, &f->budget);
    return result;
}

static void
ranges(void **state)
{
    struct fixture *f = *state;
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

    assert_int_equal(status(f, "PUT", "/kvtier/digits", "0123456789", NULL, NULL), 200);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request *request =
            ask(f, "GET", "/kvtier/digits", NULL, 0, "Range", rows[i].range);

        assert_int_equal(request->status, rows[i].status);
        if (rows[i].body != NULL) {
            assert_int_equal(request->body_size, strlen(rows[i].body));
            assert_memory_equal(request->answer.data + request->body_from, rows[i].body,
                                request->body_size);
        }
        gateway_request_release(request, &f->budget);
    }
}

/* A part of what the client has begun to read, or all of what is there. */
static void
ranges_of_what_is_held(void **state)
{
    struct fixture *f = *state;
    char modified[64];
    char strong[64];
    char weak[80];
    const char *const stand[] = {strong, modified};
    const char *const fall[] = {weak, "\"781e5e245d69b566979b86e28d23f2c8\"", strong + 1, "*",
                                "Sat, 29 Oct 1994 19:43:31 GMT"};
    struct gateway_request *request;

    assert_int_equal(status(f, "PUT", "/kvtier/digits", "0123456789", NULL, NULL), 200);
    request = ask(f, "HEAD", "/kvtier/digits", NULL, 0, NULL, NULL);
    (void)snprintf(strong, sizeof(strong), "%s", field(request, "ETag"));
    (void)snprintf(weak, sizeof(weak), "W/%s", strong);
    (void)snprintf(modified, sizeof(modified), "%s", field(request, "Last-Modified"));
    gateway_request_release(request, &f->budget);
    for (size_t i = 0; i < 2 + sizeof(fall) / sizeof(fall[0]); i++) {
        const char *const headers[] = {"If-Range", i < 2 ? stand[i] : fall[i - 2], "Range",
                                       "bytes=2-3", NULL};
        const char *const outside[] = {"If-Range", headers[1], "Range", "bytes=90-", NULL};

        request = ask_all(f, "GET", "/kvtier/digits", NULL, 0, headers);
        if (request->status != (i < 2 ? 206 : 200))
            fail_msg("If-Range: %s", headers[1]);
        assert_int_equal(request->body_size, i < 2 ? 2 : 10);
        gateway_request_release(request, &f->budget);
        request = ask_all(f, "GET", "/kvtier/digits", NULL, 0, outside);
        assert_int_equal(request->status, i < 2 ? 416 : 200);
        gateway_request_release(request, &f->budget);
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
    struct fixture *f = *state;

    assert_int_equal(status(f, "PUT", "/kvtier/from", "x", "x-amz-tagging-directive", "COPY"), 200);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *const copy[] = {"x-amz-copy-source", "kvtier/from", names[i], "5", NULL};
        struct gateway_request *request = ask_all(f, "PUT", "/kvtier/k", NULL, 0, copy);

        assert_int_equal(request->status, 501);
        gateway_request_release(request, &f->budget);
        assert_int_equal(status(f, "PUT", "/kvtier/k", "x", names[i], "5"), 501);
        assert_int_equal(status(f, "POST", "/kvtier/k?uploads", "", names[i], "5"), 501);
        assert_int_equal(status(f, "GET", "/kvtier/from", "", names[i], "5"), 200);
    }
    assert_int_equal(status(f, "GET", "/kvtier/k", "", NULL, NULL), 404);
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
    struct fixture *f = *state;
    struct gateway_request *request;
    char part[80];

    for (const char *key = "abcd"; *key != '\0'; key++) {
        (void)snprintf(part, sizeof(part), "/kvtier/%c", *key);
        assert_int_equal(status(f, "PUT", part, "x", NULL, NULL), 200);
    }
    request = ask(f, "POST", "/kvtier?delete", text, sizeof(text) - 1, NULL, NULL);
    assert_int_equal(request->status, 200);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(part, sizeof(part), "<Error><Key>%s</Key><Code>NotImplemented</Code>",
                       kept[i]);
        assert_non_null(strstr(kvt_buffer_text(&request->answer), part));
        (void)snprintf(part, sizeof(part), "/kvtier/%s", kept[i]);
        assert_int_equal(status(f, "GET", part, "", NULL, NULL), 200);
    }
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "<Deleted><Key>d</Key></Deleted>"));
    gateway_request_release(request, &f->budget);
    assert_int_equal(status(f, "GET", "/kvtier/d", "", NULL, NULL), 404);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(ranges),
        TEST(ranges_of_what_is_held),
        TEST(writes_that_are_not_offered),
        TEST(deletes_with_conditions),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
