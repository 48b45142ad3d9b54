/*
 * What is tested: conditional writes by requests: what an object's own bookkeeping keeps to itself,
 * and that copies and uploads onto a block's key heed what a PUT of it does.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/attributes.h"
#include "gateway/s3.h"

#include "tests/unit/gateway/support.h"

enum { TARGET_MAX = KVT_KEY_MAX + 200 };

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

    test_gateway_close(&f->gateway);
    kvt_free(f);
    return 0;
}

/* `headers`: name, value, ..., NULL. */
static struct gateway_request *
ask(struct fixture *f, const char *method, const char *raw, const char *body,
    const char *const *headers)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));

    kvt_buffer_init(&request->answer, gateway_s3_answer_max(&f->s3));
    kvt_buffer_init(&request->body, 1u << 16);
    kvt_buffer_append(&request->body, body, strlen(body));
    (void)snprintf(request->method, sizeof(request->method), "%s", method);
    request->raw = kvt_strdup(raw);
    request->status = 200;
    assert_int_equal(gateway_target_parse(request->raw, &request->target, NULL), KVT_OK);
    for (; headers[0] != NULL; headers += 2)
        assert_int_equal(gateway_request_header_add(request, headers[0], headers[1]), KVT_OK);
    request->principal = &all_rights;
    gateway_s3_handle(&f->s3, request);
    return request;
}

/* Status only. */
static unsigned
status(struct fixture *f, const char *method, const char *raw, const char *body, const char *header,
       const char *value)
{
    const char *const headers[] = {header, value, NULL};
    struct gateway_request *request = ask(f, method, raw, body, headers);
    const unsigned result = request->status;

    gateway_request_release(request, &f->budget);
    return result;
}

/* Which PUT wrote an object is kept with it, and nobody's business. */
static void
nonce_is_not_shown(void **state)
{
    static const char *const none[] = {NULL};
    struct fixture *f = *state;
    char attributes[G4_ATTRIBUTES_MAX];
    char nonces[2][64];
    struct g4_request head = {.verb = G4_HEAD, .attributes = attributes};

    assert_int_equal(status(f, "PUT", "/kvtier/a", "x", "If-None-Match", "*"), 200);
    assert_int_equal(status(f, "PUT", "/kvtier/b", "x", "If-None-Match", "*"), 200);
    assert_int_equal(status(f, "PUT", "/kvtier/c", "", "x-amz-copy-source", "kvtier/a"), 200);
    for (unsigned i = 0; i < 3; i++) {
        struct gateway_request *request;
        char raw[16];

        (void)snprintf(raw, sizeof(raw), "/kvtier/%c", 'a' + i);
        head.key = raw + strlen("/kvtier/");
        assert_int_equal(g4_store_perform(f->gateway.bucket, &head), KVT_OK);
        assert_true(gateway_attributes_get(attributes, GATEWAY_ATTRIBUTE_PUT, nonces[i % 2],
                                           sizeof(nonces[0])) == (i < 2)); /* not of the copy */
        if (i == 1)
            assert_string_not_equal(nonces[0], nonces[1]);
        request = ask(f, "GET", raw, "", none);
        assert_int_equal(request->status, 200);
        assert_null(strstr(kvt_buffer_text(&request->lines), "kvt-put"));
        for (size_t j = 0; j < request->field_count; j++)
            assert_null(strstr(request->fields[j].name, "kvt-put"));
        gateway_request_release(request, &f->budget);
    }
}

/* Upload "hello" under the block's key and complete it under this condition; its status. */
static unsigned
upload(struct fixture *f, const char *key, const char *header, const char *value)
{
    static const char *const none[] = {NULL};
    struct gateway_request *request;
    char raw[TARGET_MAX];
    const char *at;
    char id[64];

    (void)snprintf(raw, sizeof(raw), "/kvtier/%s?uploads", key);
    request = ask(f, "POST", raw, "", none);
    at = strstr(kvt_buffer_text(&request->answer), "<UploadId>");
    assert_non_null(at);
    at += strlen("<UploadId>");
    (void)snprintf(id, sizeof(id), "%.*s", (int)strcspn(at, "<"), at);
    gateway_request_release(request, &f->budget);
    (void)snprintf(raw, sizeof(raw), "/kvtier/%s?partNumber=1&uploadId=%s", key, id);
    assert_int_equal(status(f, "PUT", raw, "hello", NULL, NULL), 200);
    (void)snprintf(raw, sizeof(raw), "/kvtier/%s?uploadId=%s", key, id);
    return status(f, "POST", raw,
                  "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
                  "<ETag>5d41402abc4b2a76b9719d911017c592</ETag></Part></CompleteMultipartUpload>",
                  header, value);
}

static void
uploads_of_blocks(void **state)
{
    struct fixture *f = *state;
    char key[KVT_KEY_MAX];

    (void)test_gateway_key(key, 1);
    assert_int_equal(upload(f, key, "If-Match", "\"x\""), 404);
    assert_int_equal(upload(f, key, "If-None-Match", "*"), 200);
    assert_int_equal(upload(f, key, "If-None-Match", "*"), 412);
    assert_int_equal(upload(f, key, "If-Match", "\"x\""), 412);
    assert_int_equal(upload(f, key, "If-Match", "*"), 200);
    assert_int_equal(upload(f, key, NULL, NULL), 200);
}

static void
copies_onto_blocks(void **state)
{
    static const char *const fresh[] = {"x-amz-copy-source", "kvtier/src", "If-None-Match", "*",
                                        NULL};
    static const char *const match[] = {"x-amz-copy-source", "kvtier/src", "If-Match", "\"x\"",
                                        NULL};
    static const unsigned expected[] = {404, 200, 412, 412};
    struct fixture *f = *state;
    char raw[TARGET_MAX];
    char key[KVT_KEY_MAX];

    assert_int_equal(status(f, "PUT", "/kvtier/src", "hello", NULL, NULL), 200);
    (void)snprintf(raw, sizeof(raw), "/kvtier/%s", test_gateway_key(key, 1));
    for (unsigned i = 0; i < 4; i++) {
        struct gateway_request *request = ask(f, "PUT", raw, "", i % 3 == 0 ? match : fresh);

        assert_int_equal(request->status, expected[i]);
        gateway_request_release(request, &f->budget);
        assert_int_equal(status(f, "HEAD", raw, "", NULL, NULL), i == 0 ? 404 : 200);
    }
    assert_int_equal(status(f, "PUT", raw, "", "x-amz-copy-source", "kvtier/src"), 200);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nonce_is_not_shown),
        TEST(uploads_of_blocks),
        TEST(copies_onto_blocks),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
