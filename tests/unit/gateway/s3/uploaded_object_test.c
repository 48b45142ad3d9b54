/*
 * What is tested: gateway/s3/multipart.c, gateway/s3/s3_object.h and
 * gateway/s3/object_attributes.h: what is told of the parts of an object that was uploaded in
 * parts, and of one that was not.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

#include "tests/unit/gateway/support/uploading.h"

static const struct gateway_principal tenant = {
    .access = "tenant",
    .grants = {{.prefix = "t/", .rights = GATEWAY_RIGHTS_ALL}},
    .grant_count = 1};

/* The checksums told with a part are the part's, also where it has no bytes. */
static void
parts_without_bytes(void **state)
{
    static const char *const headers[] = {"x-amz-checksum-algorithm", "CRC32", NULL};
    struct test_scene *s = *state;
    const size_t big = 5u << 20;
    struct gateway_request *request;
    uint8_t *body = kvt_calloc(1, big);
    char text[100];
    char id[64];

    s->budget.max = 64u << 20;
    s->gateway.context->body_limits.object_max = 8u << 20;
    test_upload_begin_with(s, headers, id);
    assert_int_equal(test_upload_part(s, id, 1, body, big), 200);
    assert_int_equal(test_upload_part(s, id, 2, "", 0), 200);
    assert_int_equal(test_upload_status(s, id, PART("1", BIG) PART("2", EMPTY), "<ETag>"), 200);
    request = test_scene_ask(s, "GET", "/kvtier/big?partNumber=2", NULL, 0, "x-amz-checksum-mode",
                             "ENABLED");
    assert_int_equal(request->status, 200);
    assert_int_equal(request->body_size, 0);
    assert_string_equal(test_scene_line(request, "x-amz-checksum-crc32", text, sizeof(text)), "");
    assert_string_equal(test_scene_field(request, "x-amz-checksum-crc32"), "AAAAAA==");
    assert_string_equal(test_scene_field(request, "x-amz-checksum-type"), "COMPOSITE");
    test_scene_done(s, request);
    request = test_scene_ask(s, "HEAD", "/kvtier/big?partNumber=2", NULL, 0, "x-amz-checksum-mode",
                             "ENABLED");
    assert_int_equal(request->status, 200);
    assert_string_equal(test_scene_line(request, "x-amz-checksum-crc32", text, sizeof(text)), "");
    assert_string_equal(test_scene_field(request, "x-amz-checksum-crc32"), "");
    test_scene_done(s, request);
    kvt_free(body);
}

static void
parts_are_asked_for(void **state)
{
    static const struct {
        const char *number;
        unsigned status;
        const char *code;
    } rows[] = {
        {"1", 206, ""},
        {"2", 416, "InvalidPartNumber"},
        {"0", 400, "InvalidArgument"},
        {"x", 400, "InvalidArgument"},
        {"", 400, "InvalidArgument"},
        {"10001", 416, "InvalidPartNumber"},
    };
    struct test_scene *s = *state;
    struct gateway_request *request;
    char id[64];

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/plain", "hello", NULL, NULL), 200);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/empty", "", NULL, NULL), 200);
    test_upload_begin(s, id);
    assert_int_equal(test_upload_part(s, id, 1, "hello", 5), 200);
    assert_int_equal(test_upload_status(s, id, PART("1", HELLO), "Result"), 200);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static const char *const keys[] = {"plain", "big"};

        for (size_t j = 0; j < 2; j++) {
            char raw[100];

            (void)snprintf(raw, sizeof(raw), "/kvtier/%s?partNumber=%s", keys[j], rows[i].number);
            request = test_scene_ask(s, "GET", raw, NULL, 0, NULL, NULL);
            if (request->status != rows[i].status ||
                strcmp(gateway_request_code(request->fault), rows[i].code) != 0)
                fail_msg("%s: %u", raw, request->status);
            if (request->status == 206) {
                assert_int_equal(request->body_size, 5);
                assert_string_equal(test_scene_field(request, "x-amz-mp-parts-count"),
                                    j == 0 ? "" : "1");
            }
            test_scene_done(s, request);
        }
    }
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/empty?partNumber=1", "", NULL, NULL),
                     200);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/none?partNumber=1", "", NULL, NULL), 404);
    assert_int_equal(
        test_scene_status(s, "GET", "/kvtier/big?partNumber=1", "", "Range", "bytes=0-1"), 400);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/big?partNumber=1", "x", NULL, NULL), 501);
}

/* Of what has no parts, and in pages. */
static void
attributes_are_told(void **state)
{
    static const char *const second[] = {"x-amz-object-attributes",
                                         "ObjectParts",
                                         "x-amz-max-parts",
                                         "1",
                                         "x-amz-part-number-marker",
                                         "3",
                                         NULL};
    static const char *const first[] = {"x-amz-object-attributes", "ObjectParts", "x-amz-max-parts",
                                        "1", NULL};
    struct test_scene *s = *state;
    const size_t big = 5u << 20;
    struct gateway_request *request;
    uint8_t *body = kvt_calloc(1, big);
    const char *text;
    char id[64];

    s->budget.max = 64u << 20;
    s->gateway.context->body_limits.object_max = 8u << 20;
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/plain", "hello", NULL, NULL), 200);
    request = test_scene_ask(s, "GET", "/kvtier/plain?attributes", NULL, 0,
                             "x-amz-object-attributes", "ObjectParts,ObjectSize,Checksum");
    text = kvt_buffer_text(&request->answer);
    assert_int_equal(request->status, 200);
    assert_true(test_scene_field(request, "Last-Modified")[0] != '\0');
    assert_null(strstr(text, "<ObjectParts>"));
    assert_null(strstr(text, "<Checksum>"));
    assert_null(strstr(text, "<ETag>"));
    assert_non_null(strstr(text, "<ObjectSize>5</ObjectSize>"));
    test_scene_done(s, request);
    test_upload_begin(s, id);
    assert_int_equal(test_upload_part(s, id, 3, body, big), 200);
    assert_int_equal(test_upload_part(s, id, 7, "hello", 5), 200);
    assert_int_equal(test_upload_status(s, id, PART("3", BIG) PART("7", HELLO), "Result"), 200);
    request = test_scene_ask_all(s, "GET", "/kvtier/big?attributes", NULL, 0, first);
    text = kvt_buffer_text(&request->answer);
    assert_non_null(strstr(text, "<Part><PartNumber>3</PartNumber><Size>5242880</Size></Part>"
                                 "<NextPartNumberMarker>3</NextPartNumberMarker>"
                                 "<IsTruncated>true</IsTruncated>"));
    assert_null(strstr(text, "<PartNumber>7<"));
    test_scene_done(s, request);
    request = test_scene_ask_all(s, "GET", "/kvtier/big?attributes", NULL, 0, second);
    text = kvt_buffer_text(&request->answer);
    assert_non_null(strstr(text, "<PartNumberMarker>3</PartNumberMarker><MaxParts>1</MaxParts>"
                                 "<Part><PartNumber>7</PartNumber><Size>5</Size></Part>"));
    assert_non_null(strstr(text, "<IsTruncated>false</IsTruncated>"));
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/big?attributes", "", NULL, NULL), 400);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/big?attributes", "",
                                       "x-amz-object-attributes", "ETag,Color"),
                     400);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/none?attributes", "",
                                       "x-amz-object-attributes", "ETag"),
                     404);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/big?attributes", "", NULL, NULL), 501);
    s->who = &tenant;
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/big?attributes", "",
                                       "x-amz-object-attributes", "ETag"),
                     403);
    s->who = &test_scene_owner;
    kvt_free(body);
}

/* With the checksums of parts, of which only those that are told are read. */
static void
attributes_in_pages(void **state)
{
    static const char *const headers[] = {"x-amz-checksum-algorithm", "CRC32", NULL};
    static const struct {
        const char *max;
        const char *marker;
        unsigned status;
        unsigned parts;
    } rows[] = {
        {"1", "3", 200, 1}, {"9", "3", 200, 1}, {"0", "0", 200, 0},
        {"9", "7", 200, 0}, {"1", "0", 503, 0}, {"9", "0", 503, 0},
    };
    struct test_scene *s = *state;
    const size_t big = 5u << 20;
    uint8_t *body = kvt_calloc(1, big);
    char id[64];

    s->budget.max = 64u << 20;
    s->gateway.context->body_limits.object_max = 8u << 20;
    test_upload_begin_with(s, headers, id);
    assert_int_equal(test_upload_part(s, id, 3, body, big), 200);
    assert_int_equal(test_upload_part(s, id, 7, "hello", 5), 200);
    assert_int_equal(test_upload_status(s, id, PART("3", BIG) PART("7", HELLO), "Result"), 200);
    s->budget.max = 5;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const page[] = {"x-amz-object-attributes",
                                    "ObjectParts",
                                    "x-amz-max-parts",
                                    rows[i].max,
                                    "x-amz-part-number-marker",
                                    rows[i].marker,
                                    NULL};
        struct gateway_request *request =
            test_scene_ask_all(s, "GET", "/kvtier/big?attributes", NULL, 0, page);
        const char *text = kvt_buffer_text(&request->answer);

        if (request->status != rows[i].status)
            fail_msg("row %zu: %u", i, request->status);
        assert_int_equal(strstr(text, "<PartNumber>7</PartNumber><Size>5</Size>"
                                      "<ChecksumCRC32>NhCmhg==</ChecksumCRC32>") != NULL,
                         rows[i].parts == 1);
        test_scene_done(s, request);
    }
    kvt_free(body);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_scene_set_up, test_scene_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(parts_without_bytes),
        TEST(parts_are_asked_for),
        TEST(attributes_are_told),
        TEST(attributes_in_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
