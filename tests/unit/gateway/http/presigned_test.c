/*
 * What is tested: gateway/http/presigned.h through gateway/http/auth.h.  The URL AWS published as
 * its example; what is changed in it; its time; arguments that are incomplete or of another scheme;
 * headers that were added to it; and what handlers see of it.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/http/auth.h"
#include "gateway/http/payload.h"
#include "gateway/http/presigned.h"

#include "tests/support/seed.h"

#define START_MS UINT64_C(1369353600000) /* 2013-05-24T00:00:00Z */
#define DAY_MS   UINT64_C(86400000)

/* AWS S3 API reference, "Authenticating requests: using query parameters". */
#define HEAD                                                                                       \
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2F"         \
    "us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&"
#define SIGNED "X-Amz-SignedHeaders=host"
#define SIGNATURE                                                                                  \
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
#define URL "/test.txt?" HEAD "X-Amz-Expires=86400&" SIGNED SIGNATURE

static struct gateway_auth *
open_auth(void)
{
    struct gateway_client_credentials *table;
    struct gateway_auth *auth;

    assert_int_equal(
        gateway_client_credentials_parse(
            &table, "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL),
        KVT_OK);
    assert_int_equal(gateway_auth_new(&auth, table, NULL), KVT_OK);
    return auth;
}

static struct gateway_request *
open_request(const char *method, const char *raw)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));

    (void)snprintf(request->method, sizeof(request->method), "%s", method);
    request->raw = kvt_strdup(raw);
    assert_int_equal(gateway_target_parse(request->raw, &request->target, NULL), KVT_OK);
    assert_int_equal(gateway_request_header_add(request, "Host", "examplebucket.s3.amazonaws.com"),
                     KVT_OK);
    return request;
}

struct row {
    const char *method;
    const char *raw;
    uint64_t now_ms;
    enum gateway_s3_error fault;
};

static void
urls(void **state)
{
    static const struct row rows[] = {
        {"GET", URL, START_MS, GATEWAY_S3_ERROR_NONE},
        {"GET", URL, START_MS + DAY_MS, GATEWAY_S3_ERROR_NONE},
        {"GET", URL, START_MS + DAY_MS + 1, GATEWAY_S3_ERROR_EXPIRED},
        {"GET", URL, START_MS - GATEWAY_AUTH_SKEW_MS, GATEWAY_S3_ERROR_NONE},
        {"GET", URL, START_MS - GATEWAY_AUTH_SKEW_MS - 1, GATEWAY_S3_ERROR_SKEWED},
        {"PUT", URL, START_MS, GATEWAY_S3_ERROR_SIGNATURE},
        {"GET", "/test2.txt?" HEAD "X-Amz-Expires=86400&" SIGNED SIGNATURE, START_MS,
         GATEWAY_S3_ERROR_SIGNATURE},
        {"GET", "/test.txt?" HEAD "X-Amz-Expires=86401&" SIGNED SIGNATURE, START_MS,
         GATEWAY_S3_ERROR_SIGNATURE},
        {"GET", URL "&acl", START_MS, GATEWAY_S3_ERROR_SIGNATURE},
        {"GET", "/test.txt?" HEAD "X-Amz-Expires=604801&" SIGNED SIGNATURE, START_MS,
         GATEWAY_S3_ERROR_PRESIGNED},
        {"GET", "/test.txt?" HEAD "X-Amz-Expires=0&" SIGNED SIGNATURE, START_MS,
         GATEWAY_S3_ERROR_SIGNATURE},
        {"GET", "/test.txt?" HEAD "X-Amz-Expires=-1&" SIGNED SIGNATURE, START_MS,
         GATEWAY_S3_ERROR_PRESIGNED},
        {"GET", "/test.txt?" HEAD SIGNED SIGNATURE, START_MS, GATEWAY_S3_ERROR_PRESIGNED},
        {"GET", "/test.txt?" HEAD "X-Amz-Expires=86400&" SIGNED, START_MS,
         GATEWAY_S3_ERROR_PRESIGNED},
        {"GET", URL "&X-Amz-Security-Token=abc", START_MS, GATEWAY_S3_ERROR_TOKEN},
        {"GET", "/test.txt?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1&Signature=x", START_MS,
         GATEWAY_S3_ERROR_SIGV2},
        {"GET", "/test.txt", START_MS, GATEWAY_S3_ERROR_ACCESS_DENIED},
    };
    struct gateway_auth *auth = open_auth();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request *request = open_request(rows[i].method, rows[i].raw);

        if (gateway_auth_check(auth, request, rows[i].now_ms) != rows[i].fault)
            fail_msg("row %zu", i);
        assert_int_equal(request->principal != NULL, rows[i].fault == GATEWAY_S3_ERROR_NONE);
        gateway_request_release(request, NULL);
    }
    gateway_auth_free(auth);
}

/* Its time is over as soon as it begins; who made it is told that, and no other reason. */
static void
good_for_no_time(void **state)
{
    static const char query[] = HEAD "X-Amz-Expires=0&" SIGNED;
    const struct g4_sigv4_header host = {"host", "examplebucket.s3.amazonaws.com"};
    const struct g4_sigv4_request to_sign = {.method = "GET",
                                             .path = "/test.txt",
                                             .query = query,
                                             .headers = &host,
                                             .header_count = 1,
                                             .payload_hash = G4_SIGV4_UNSIGNED,
                                             .date = "20130524T000000Z",
                                             .region = "us-east-1",
                                             .service = "s3"};
    struct gateway_auth *auth = open_auth();
    char signature[G4_SIGV4_SIGNATURE_MAX];
    struct gateway_request *request;
    char raw[512];

    (void)state;
    assert_int_equal(g4_sigv4_sign(&to_sign, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", signature),
                     KVT_OK);
    (void)snprintf(raw, sizeof(raw), "/test.txt?%s&X-Amz-Signature=%s", query, signature);
    request = open_request("GET", raw);
    assert_int_equal(gateway_auth_check(auth, request, START_MS - 1), GATEWAY_S3_ERROR_EXPIRED);
    assert_null(request->principal);
    gateway_request_release(request, NULL);
    gateway_auth_free(auth);
}

/* A URL permits what was signed: an order in an added header would widen it. */
static void
added_headers(void **state)
{
    struct gateway_auth *auth = open_auth();
    struct gateway_request *request = open_request("GET", URL);

    (void)state;
    assert_int_equal(gateway_request_header_add(request, "x-amz-copy-source", "b/k"), KVT_OK);
    assert_int_equal(gateway_auth_check(auth, request, START_MS), GATEWAY_S3_ERROR_UNSIGNED);
    assert_null(request->principal);
    gateway_request_release(request, NULL);
    request = open_request("GET", URL);
    assert_int_equal(gateway_request_header_add(request, "X-Amz-Content-Sha256", G4_SIGV4_UNSIGNED),
                     KVT_OK);
    assert_int_equal(gateway_request_header_add(request, "Range", "bytes=0-0"), KVT_OK);
    assert_int_equal(gateway_auth_check(auth, request, START_MS), GATEWAY_S3_ERROR_NONE);
    gateway_request_release(request, NULL);
    gateway_auth_free(auth);
}

/* A handler sees the query without the signature, and that the body's hash is not known. */
static void
what_is_left(void **state)
{
    struct gateway_auth *auth = open_auth();
    struct gateway_request *request = open_request("GET", URL);
    uint64_t length;

    (void)state;
    assert_int_equal(gateway_auth_check(auth, request, START_MS), GATEWAY_S3_ERROR_NONE);
    assert_string_equal(request->target.query, "");
    assert_string_equal(gateway_request_header(request, "x-amz-content-sha256"),
                        "UNSIGNED-PAYLOAD");
    assert_int_equal(gateway_payload_begin(request, &length), GATEWAY_S3_ERROR_NONE);
    assert_int_equal(length, 0);
    gateway_request_release(request, NULL);
    gateway_auth_free(auth);

    request = open_request("PUT", "/b/k?partNumber=1&X-Amz-Date=d&x-amz-meta-a=b%20c&uploadId=u&"
                                  "X-Amz-Signature=s");
    assert_int_equal(gateway_presigned_strip(request), GATEWAY_S3_ERROR_NONE);
    assert_string_equal(request->target.query, "partNumber=1&uploadId=u");
    assert_string_equal(gateway_request_header(request, "X-Amz-Meta-A"), "b c");
    assert_null(gateway_request_header(request, "X-Amz-Date"));
    gateway_request_release(request, NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls),
        cmocka_unit_test(good_for_no_time),
        cmocka_unit_test(added_headers),
        cmocka_unit_test(what_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
