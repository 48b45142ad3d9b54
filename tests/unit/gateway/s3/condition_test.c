/*
 * What is tested: conditional writes by requests: what an object's own bookkeeping keeps to itself,
 * and that copies and uploads onto a block's key heed what a PUT of it does.
 */
#include <stdio.h>
#include <string.h>

#include "gateway/http/attributes.h"

#include "tests/unit/gateway/support/scene.h"

enum { TARGET_MAX = KVT_KEY_MAX + 200 };

/* Which PUT wrote an object is kept with it, and nobody's business. */
static void
nonce_is_not_shown(void **state)
{
    struct test_scene *s = *state;
    char attributes[G4_ATTRIBUTES_MAX];
    char nonces[2][64];
    struct g4_request head = {.verb = G4_HEAD, .attributes = attributes};

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/a.md", "x", "If-None-Match", "*"), 200);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/b.md", "x", "If-None-Match", "*"), 200);
    assert_int_equal(
        test_scene_status(s, "PUT", "/kvtier/c.md", "", "x-amz-copy-source", "kvtier/a.md"), 200);
    for (unsigned i = 0; i < 3; i++) {
        struct gateway_request *request;
        char raw[16];

        (void)snprintf(raw, sizeof(raw), "/kvtier/%c.md", 'a' + i);
        head.key = raw + strlen("/kvtier/");
        assert_int_equal(g4_store_perform(s->gateway.bucket, &head), KVT_OK);
        assert_true(gateway_attribute_lines_get(attributes, GATEWAY_ATTRIBUTE_PUT, nonces[i % 2],
                                                sizeof(nonces[0])) ==
                    (i < 2)); /* not of the copy */
        if (i == 1)
            assert_string_not_equal(nonces[0], nonces[1]);
        request = test_scene_ask(s, "GET", raw, NULL, 0, NULL, NULL);
        assert_int_equal(request->status, 200);
        assert_null(strstr(kvt_buffer_text(&request->lines), "kvt-put"));
        for (size_t j = 0; j < request->field_count; j++)
            assert_null(strstr(request->fields[j].name, "kvt-put"));
        test_scene_done(s, request);
    }
}

/* Upload "hello" under the block's key and complete it under this condition; its status. */
static unsigned
upload(struct test_scene *s, const char *key, const char *header, const char *value)
{
    struct gateway_request *request;
    char raw[TARGET_MAX];
    char id[64];
    const char *at;

    (void)snprintf(raw, sizeof(raw), "/kvtier/%s?uploads", key);
    request = test_scene_ask(s, "POST", raw, NULL, 0, NULL, NULL);
    at = kvt_buffer_text(&request->answer);
    assert_true(test_scene_element(&at, "<UploadId>", id, sizeof(id)));
    test_scene_done(s, request);
    (void)snprintf(raw, sizeof(raw), "/kvtier/%s?partNumber=1&uploadId=%s", key, id);
    assert_int_equal(test_scene_status(s, "PUT", raw, "hello", NULL, NULL), 200);
    (void)snprintf(raw, sizeof(raw), "/kvtier/%s?uploadId=%s", key, id);
    return test_scene_status(
        s, "POST", raw,
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
        "<ETag>5d41402abc4b2a76b9719d911017c592</ETag></Part></CompleteMultipartUpload>",
        header, value);
}

static void
uploads_of_blocks(void **state)
{
    struct test_scene *s = *state;
    char key[KVT_KEY_MAX];

    (void)test_gateway_key(key, 1);
    assert_int_equal(upload(s, key, "If-Match", "\"x\""), 404);
    assert_int_equal(upload(s, key, "If-None-Match", "*"), 200);
    assert_int_equal(upload(s, key, "If-None-Match", "*"), 412);
    assert_int_equal(upload(s, key, "If-Match", "\"x\""), 412);
    assert_int_equal(upload(s, key, "If-Match", "*"), 200);
    assert_int_equal(upload(s, key, NULL, NULL), 200);
}

static void
copies_onto_blocks(void **state)
{
    static const char *const fresh[] = {"x-amz-copy-source", "kvtier/src", "If-None-Match", "*",
                                        NULL};
    static const char *const match[] = {"x-amz-copy-source", "kvtier/src", "If-Match", "\"x\"",
                                        NULL};
    static const unsigned expected[] = {404, 200, 412, 412};
    struct test_scene *s = *state;
    char raw[TARGET_MAX];
    char key[KVT_KEY_MAX];

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/src", "hello", NULL, NULL), 200);
    (void)snprintf(raw, sizeof(raw), "/kvtier/%s", test_gateway_key(key, 1));
    for (unsigned i = 0; i < 4; i++) {
        struct gateway_request *request =
            test_scene_ask_all(s, "PUT", raw, NULL, 0, i % 3 == 0 ? match : fresh);

        assert_int_equal(request->status, expected[i]);
        test_scene_done(s, request);
        assert_int_equal(test_scene_status(s, "HEAD", raw, "", NULL, NULL), i == 0 ? 404 : 200);
    }
    assert_int_equal(test_scene_status(s, "PUT", raw, "", "x-amz-copy-source", "kvtier/src"), 200);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_scene_set_up, test_scene_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nonce_is_not_shown),
        TEST(uploads_of_blocks),
        TEST(copies_onto_blocks),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
