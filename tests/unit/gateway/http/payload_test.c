/*
 * What is tested: gateway/http/payload.h.  By table: which headers, with which body, give which
 * payload or which refusal.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/http/payload.h"

#include "tests/support/seed.h"

#define UNSIGNED_TRAILER "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
#define ABC_SHA256       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

enum { HEADERS_MAX = 8 };

struct row {
    const char *method;
    const char *headers[HEADERS_MAX]; /* name, value, ... */
    const char *wire;
    enum gateway_s3_error begin;
    enum gateway_s3_error end; /* of taking and checking */
};

static const struct row rows[] = {
    {"PUT", {"Content-Length", "3"}, "abc", GATEWAY_S3_ERROR_NONE, GATEWAY_S3_ERROR_NONE},
    {"PUT", {NULL}, "", GATEWAY_S3_ERROR_NO_LENGTH, GATEWAY_S3_ERROR_NONE},
    {"POST", {NULL}, "", GATEWAY_S3_ERROR_NO_LENGTH, GATEWAY_S3_ERROR_NONE},
    {"GET", {NULL}, "", GATEWAY_S3_ERROR_NONE, GATEWAY_S3_ERROR_NONE},
    {"PUT",
     {"Transfer-Encoding", "chunked"},
     "",
     GATEWAY_S3_ERROR_NO_LENGTH,
     GATEWAY_S3_ERROR_NONE},
    {"PUT", {"Content-Length", "-3"}, "", GATEWAY_S3_ERROR_INVALID_ARGUMENT, GATEWAY_S3_ERROR_NONE},
    {"PUT", {"Content-Length", "3x"}, "", GATEWAY_S3_ERROR_INVALID_ARGUMENT, GATEWAY_S3_ERROR_NONE},
    /* hashes */
    {"PUT",
     {"Content-Length", "3", "x-amz-content-sha256", ABC_SHA256},
     "abc",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_NONE},
    {"PUT",
     {"Content-Length", "3", "x-amz-content-sha256", ABC_SHA256},
     "abd",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_BODY_HASH},
    {"PUT",
     {"Content-Length", "3", "x-amz-content-sha256", "UNSIGNED-PAYLOAD", "Content-MD5",
      "kAFQmDzST7DWlj99KOF/cg=="},
     "abc",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_NONE},
    {"PUT",
     {"Content-Length", "3", "Content-MD5", "kAFQmDzST7DWlj99KOF/cg=="},
     "abd",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_BAD_DIGEST},
    {"PUT",
     {"Content-Length", "3", "Content-MD5", "YWJyYWNhZGFicmE="},
     "abc",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_INVALID_DIGEST},
    {"PUT",
     {"Content-Length", "3", "Content-MD5", ""},
     "abc",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_INVALID_DIGEST},
    /* checksums in front */
    {"PUT",
     {"Content-Length", "3", "x-amz-checksum-crc32", "NSRBwg=="},
     "abc",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_NONE},
    {"PUT",
     {"Content-Length", "3", "x-amz-checksum-crc32", "NSRBwg=="},
     "abd",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_BAD_DIGEST},
    {"PUT",
     {"Content-Length", "3", "x-amz-checksum-sha1", "NSRBwg=="},
     "abc",
     GATEWAY_S3_ERROR_BAD_CHECKSUM,
     GATEWAY_S3_ERROR_NONE},
    /* aws-chunked */
    {"PUT",
     {"Transfer-Encoding", "chunked", "x-amz-content-sha256", UNSIGNED_TRAILER,
      "x-amz-decoded-content-length", "3"},
     "3\r\nabc\r\n0\r\n\r\n",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_NONE},
    {"PUT",
     {"x-amz-trailer", "x-amz-checksum-crc32", "x-amz-content-sha256", UNSIGNED_TRAILER,
      "x-amz-decoded-content-length", "3"},
     "3\r\nabc\r\n0\r\nx-amz-checksum-crc32:NSRBwg==\r\n\r\n",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_NONE},
    {"PUT",
     {"x-amz-trailer", "x-amz-checksum-crc32", "x-amz-content-sha256", UNSIGNED_TRAILER,
      "x-amz-decoded-content-length", "3"},
     "3\r\nabd\r\n0\r\nx-amz-checksum-crc32:NSRBwg==\r\n\r\n",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_BAD_DIGEST},
    {"PUT",
     {"x-amz-trailer", "x-amz-checksum-crc32", "x-amz-content-sha256", UNSIGNED_TRAILER,
      "x-amz-decoded-content-length", "3"},
     "3\r\nabc\r\n0\r\n\r\n",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_TRAILER},
    {"PUT",
     {"x-amz-trailer", "x-amz-checksum-crc33", "x-amz-content-sha256", UNSIGNED_TRAILER,
      "x-amz-decoded-content-length", "3"},
     "",
     GATEWAY_S3_ERROR_TRAILER,
     GATEWAY_S3_ERROR_NONE},
    {"PUT",
     {"x-amz-content-sha256", UNSIGNED_TRAILER, "x-amz-decoded-content-length", "3"},
     "3\r\nabc\r\n0\r\n",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_INCOMPLETE},
    {"PUT",
     {"x-amz-content-sha256", UNSIGNED_TRAILER, "x-amz-decoded-content-length", "3"},
     "abc",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_INCOMPLETE},
    {"PUT",
     {"x-amz-content-sha256", UNSIGNED_TRAILER, "x-amz-decoded-content-length", "3"},
     "xyz\r\n",
     GATEWAY_S3_ERROR_NONE,
     GATEWAY_S3_ERROR_CHUNK},
    {"PUT",
     {"x-amz-content-sha256", UNSIGNED_TRAILER, "Content-Length", "3"},
     "",
     GATEWAY_S3_ERROR_NO_LENGTH,
     GATEWAY_S3_ERROR_NONE},
    {"PUT",
     {"x-amz-content-sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "Content-Length", "3"},
     "",
     GATEWAY_S3_ERROR_NOT_IMPLEMENTED,
     GATEWAY_S3_ERROR_NONE},
    /* Nobody signed the header, so nothing can sign the chunks. */
    {"PUT",
     {"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "x-amz-decoded-content-length",
      "3"},
     "",
     GATEWAY_S3_ERROR_SIGNATURE,
     GATEWAY_S3_ERROR_NONE},
};

static struct gateway_request *
open_row(const struct row *row)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));

    (void)snprintf(request->method, sizeof(request->method), "%s", row->method);
    request->target = (struct gateway_target){.path = "/b/k", .query = ""};
    kvt_buffer_init(&request->body, 100);
    for (size_t i = 0; i < HEADERS_MAX && row->headers[i] != NULL; i += 2)
        assert_int_equal(gateway_request_header_add(request, row->headers[i], row->headers[i + 1]),
                         KVT_OK);
    return request;
}

static void
bodies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request *request = open_row(&rows[i]);
        enum gateway_s3_error fault;
        uint64_t length;

        fault = gateway_payload_begin(request, &length);
        if (fault != rows[i].begin)
            fail_msg("row %zu: begins with %d", i, (int)fault);
        if (fault == GATEWAY_S3_ERROR_NONE) {
            fault = gateway_payload_take(request, rows[i].wire, strlen(rows[i].wire));
            if (fault == GATEWAY_S3_ERROR_NONE)
                fault = gateway_payload_check(request);
            if (fault != rows[i].end)
                fail_msg("row %zu: ends with %d", i, (int)fault);
            if (fault == GATEWAY_S3_ERROR_NONE && request->body.size > 0)
                assert_memory_equal(request->body.data, "abc", 3);
        }
        gateway_request_release(request, NULL);
    }
}

static void
trailing_checksum_is_told(void **state)
{
    static const struct row row = {
        "PUT",
        {"x-amz-content-sha256", UNSIGNED_TRAILER, "x-amz-decoded-content-length", "0"},
        "",
        GATEWAY_S3_ERROR_NONE,
        GATEWAY_S3_ERROR_NONE};
    static const char wire[] = "0\r\nx-amz-checksum-crc64nvme:AAAAAAAAAAA=\r\n\r\n";
    struct gateway_request *request = open_row(&row);
    uint64_t length;

    (void)state;
    assert_int_equal(gateway_payload_begin(request, &length), GATEWAY_S3_ERROR_NONE);
    assert_int_equal(gateway_payload_take(request, wire, strlen(wire)), GATEWAY_S3_ERROR_NONE);
    assert_string_equal(request->checksums.text[GATEWAY_BODY_CHECKSUM_CRC64NVME], "");
    assert_int_equal(gateway_payload_check(request), GATEWAY_S3_ERROR_NONE);
    assert_string_equal(request->checksums.text[GATEWAY_BODY_CHECKSUM_CRC64NVME], "AAAAAAAAAAA=");
    gateway_request_release(request, NULL);
}

/* The checksum of a completed upload is the object's, not that of the XML which completes it. */
static void
completion(void **state)
{
    static const struct row row = {"POST",
                                   {"Content-Length", "3", "x-amz-checksum-crc32", "AAAAAA=="},
                                   "abc",
                                   GATEWAY_S3_ERROR_NONE,
                                   GATEWAY_S3_ERROR_NONE};
    struct gateway_request *request = open_row(&row);
    uint64_t length;

    (void)state;
    request->target.query = "uploadId=1";
    assert_int_equal(gateway_payload_begin(request, &length), GATEWAY_S3_ERROR_NONE);
    assert_int_equal(gateway_payload_take(request, "abc", 3), GATEWAY_S3_ERROR_NONE);
    assert_int_equal(gateway_payload_check(request), GATEWAY_S3_ERROR_NONE);
    assert_string_equal(request->checksums.text[GATEWAY_BODY_CHECKSUM_CRC32], "AAAAAA==");
    gateway_request_release(request, NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies),
        cmocka_unit_test(trailing_checksum_is_told),
        cmocka_unit_test(completion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
