/*
 * What is tested: g4/s3/sigv4.h, by the four worked examples of the AWS S3 API reference
 * ("Authenticating Requests: Using the Authorization Header"), whose access key and secret are
 * published there, and by the spellings of one request that must all sign alike.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/sha256.h"
#include "g4/s3/sigv4.h"

#include "tests/support/seed.h"

static const char access_key[] = "AKIAIOSFODNN7EXAMPLE";
static const char secret_key[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
static const char empty_hash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static struct g4_sigv4_request
request_of(const char *method, const char *path, const char *query, const char *hash)
{
    return (struct g4_sigv4_request){.method = method,
                                     .path = path,
                                     .query = query,
                                     .payload_hash = hash,
                                     .date = "20130524T000000Z",
                                     .region = "us-east-1",
                                     .service = "s3"};
}

static void
assert_signature(struct g4_sigv4_request request, const struct g4_sigv4_header *headers,
                 size_t count, const char *expected)
{
    char signature[G4_SIGV4_SIGNATURE_MAX];

    request.headers = headers;
    request.header_count = count;
    assert_int_equal(g4_sigv4_sign(&request, secret_key, signature), KVT_OK);
    assert_string_equal(signature, expected);
}

static void
signs_get_object_with_a_range(void **state)
{
    const struct g4_sigv4_header headers[] = {{"Host", "examplebucket.s3.amazonaws.com"},
                                              {"Range", "bytes=0-9"},
                                              {"x-amz-content-sha256", empty_hash},
                                              {"x-amz-date", "20130524T000000Z"}};

    (void)state;
    assert_signature(request_of("GET", "/test.txt", "", empty_hash), headers, 4,
                     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void
signs_put_object(void **state)
{
    char hash[G4_SIGV4_SIGNATURE_MAX];
    const struct g4_sigv4_header headers[] = {{"x-amz-date", "20130524T000000Z"},
                                              {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                                              {"x-amz-content-sha256", hash},
                                              {"Host", "examplebucket.s3.amazonaws.com"},
                                              {"Date", "Fri, 24 May 2013 00:00:00 GMT"}};

    (void)state;
    g4_sha256_hex("Welcome to Amazon S3.", 21, hash);
    assert_string_equal(hash, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
    assert_signature(request_of("PUT", "/test$file.text", "", hash), headers, 5,
                     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static const struct g4_sigv4_header plain[] = {{"host", "examplebucket.s3.amazonaws.com"},
                                               {"x-amz-content-sha256", empty_hash},
                                               {"x-amz-date", "20130524T000000Z"}};

static void
signs_get_bucket_lifecycle(void **state)
{
    (void)state;
    assert_signature(request_of("GET", "/", "lifecycle", empty_hash), plain, 3,
                     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

static void
signs_list_objects_in_every_spelling(void **state)
{
    static const char *const queries[] = {"max-keys=2&prefix=J", "prefix=J&max-keys=2",
                                          "&prefix=%4a&&max-keys=%32&"};

    (void)state;
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
        assert_signature(request_of("GET", "/", queries[i], empty_hash), plain, 3,
                         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

/* Spaces, case and order of the headers do not matter; anything else does. */
static void
headers_are_canonical(void **state)
{
    const struct g4_sigv4_header one[] = {{"HOST", "h"}, {"X-A", "  a   b  "}, {"x-a", "c"}};
    const struct g4_sigv4_header two[] = {{"x-a", "a b,c"}, {"host", "h"}};
    const struct g4_sigv4_header three[] = {{"x-a", "a b,d"}, {"host", "h"}};
    struct g4_sigv4_request request = request_of("GET", "/k", "", G4_SIGV4_UNSIGNED);
    char signatures[3][G4_SIGV4_SIGNATURE_MAX];

    (void)state;
    request.headers = one;
    request.header_count = 3;
    assert_int_equal(g4_sigv4_sign(&request, secret_key, signatures[0]), KVT_OK);
    request.headers = two;
    request.header_count = 2;
    assert_int_equal(g4_sigv4_sign(&request, secret_key, signatures[1]), KVT_OK);
    request.headers = three;
    assert_int_equal(g4_sigv4_sign(&request, secret_key, signatures[2]), KVT_OK);
    assert_string_equal(signatures[0], signatures[1]);
    assert_string_not_equal(signatures[0], signatures[2]);
}

static void
encode_keeps_only_the_unreserved(void **state)
{
    struct kvt_buffer out;

    (void)state;
    kvt_buffer_init(&out, 256);
    g4_sigv4_encode(&out, "a/Z~0-_.:=+@% \xc3\xa9", true);
    assert_string_equal(kvt_buffer_text(&out), "a/Z~0-_.%3A%3D%2B%40%25%20%C3%A9");
    kvt_buffer_clear(&out);
    g4_sigv4_encode(&out, "a/b", false);
    assert_string_equal(kvt_buffer_text(&out), "a%2Fb");
    kvt_buffer_release(&out);
}

static void
what_was_signed_parses_back(void **state)
{
    struct g4_sigv4_request request = request_of("GET", "/test.txt", "", empty_hash);
    struct g4_sigv4_claim claim;
    struct kvt_buffer out;
    struct kvt_error err;

    (void)state;
    request.headers = plain;
    request.header_count = 3;
    kvt_buffer_init(&out, 4096);
    assert_int_equal(g4_sigv4_authorization(&request, access_key, secret_key, &out), KVT_OK);
    assert_int_equal(g4_sigv4_parse(kvt_buffer_text(&out), &claim, &err), KVT_OK);
    assert_string_equal(claim.access_key, access_key);
    assert_string_equal(claim.date, "20130524");
    assert_string_equal(claim.region, "us-east-1");
    assert_string_equal(claim.service, "s3");
    assert_string_equal(claim.signed_headers, "host;x-amz-content-sha256;x-amz-date");
    assert_int_equal(strlen(claim.signature), 64);
    kvt_buffer_release(&out);
}

#define SIGNATURE "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"

static void
parse_takes_any_order_and_spacing(void **state)
{
    struct g4_sigv4_claim claim;

    (void)state;
    assert_int_equal(
        g4_sigv4_parse("AWS4-HMAC-SHA256 Signature=" SIGNATURE
                       ",SignedHeaders=host,  Credential=a/b/20130524/r/s3/aws4_request",
                       &claim, NULL),
        KVT_OK);
    assert_string_equal(claim.access_key, "a/b");
    assert_string_equal(claim.region, "r");
}

static void
parse_refuses_other_schemes_and_malformed_fields(void **state)
{
    static const char *const texts[] = {
        "",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 ",
        "AWS key:signature",
        "AWS4-HMAC-SHA256 Credential=k/20130524/r/s3/aws4_request, SignedHeaders=host",
        "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=" SIGNATURE,
        "AWS4-HMAC-SHA256 Credential=k/20130524/r/s3/aws4_request, Signature=" SIGNATURE,
        "AWS4-HMAC-SHA256 "
        "Credential=k/2013/r/s3/aws4_request,SignedHeaders=host,Signature=" SIGNATURE,
        "AWS4-HMAC-SHA256 "
        "Credential=k/20130524/r/s3/aws5_request,SignedHeaders=host,Signature=" SIGNATURE,
        "AWS4-HMAC-SHA256 "
        "Credential=/20130524/r/s3/aws4_request,SignedHeaders=host,Signature=" SIGNATURE,
        "AWS4-HMAC-SHA256 "
        "Credential=k/20130524//s3/aws4_request,SignedHeaders=host,Signature=" SIGNATURE,
        "AWS4-HMAC-SHA256 Credential=k/20130524/r/s3/aws4_request,SignedHeaders=host,Signature=abc",
        "AWS4-HMAC-SHA256 "
        "Credential=k/20130524/r/s3/aws4_request,SignedHeaders=,Signature=" SIGNATURE,
        "AWS4-HMAC-SHA256 Surprise=1,Credential=k/20130524/r/s3/aws4_request",
    };
    struct g4_sigv4_claim claim;
    struct kvt_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(g4_sigv4_parse(texts[i], &claim, &err), KVT_INVALID);
        assert_string_equal(claim.signature, "");
        assert_string_not_equal(err.text, "");
    }
}

static void
sign_refuses_unfit_requests(void **state)
{
    struct g4_sigv4_request request = request_of("GET", "/k", "", empty_hash);
    char signature[G4_SIGV4_SIGNATURE_MAX];
    char query[20000];
    char pairs[400];

    (void)state;
    assert_int_equal(g4_sigv4_sign(&request, secret_key, signature), KVT_INVALID);
    request.headers = plain;
    request.header_count = 3;
    request.path = "k";
    assert_int_equal(g4_sigv4_sign(&request, secret_key, signature), KVT_INVALID);
    request.path = "/k";
    request.date = "2013";
    assert_int_equal(g4_sigv4_sign(&request, secret_key, signature), KVT_INVALID);
    request.date = "20130524T000000Z";
    memset(query, 'q', sizeof(query) - 1);
    query[sizeof(query) - 1] = '\0';
    request.query = query;
    assert_int_equal(g4_sigv4_sign(&request, secret_key, signature), KVT_RANGE);
    for (size_t i = 0; i + 1 < sizeof(pairs); i++)
        pairs[i] = "a&"[i % 2];
    pairs[sizeof(pairs) - 1] = '\0';
    request.query = pairs;
    assert_int_equal(g4_sigv4_sign(&request, secret_key, signature), KVT_RANGE);
}

static bool
sign_once(void *arg)
{
    struct g4_sigv4_request request = request_of("GET", "/test.txt", "a=b", empty_hash);
    struct kvt_buffer out;
    enum kvt_err rc;

    (void)arg;
    request.headers = plain;
    request.header_count = 3;
    kvt_buffer_init(&out, 4096);
    rc = g4_sigv4_authorization(&request, access_key, secret_key, &out);
    kvt_buffer_release(&out);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    return rc == KVT_OK;
}

static void
survives_every_allocation_failure(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(sign_once, NULL) >= 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_get_object_with_a_range),
        cmocka_unit_test(signs_put_object),
        cmocka_unit_test(signs_get_bucket_lifecycle),
        cmocka_unit_test(signs_list_objects_in_every_spelling),
        cmocka_unit_test(headers_are_canonical),
        cmocka_unit_test(encode_keeps_only_the_unreserved),
        cmocka_unit_test(what_was_signed_parses_back),
        cmocka_unit_test(parse_takes_any_order_and_spacing),
        cmocka_unit_test(parse_refuses_other_schemes_and_malformed_fields),
        cmocka_unit_test(sign_refuses_unfit_requests),
        cmocka_unit_test(survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
