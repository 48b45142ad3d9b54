/*
 * What is tested: advisor/transport/bucket_listing.h: the request for a page of a listing, and the
 * page. How: the signature against g4/s3/sigv4.h, which knows the published examples; pages by
 * hand, cut and
 *      changed at random.  A real MinIO is listed by tests/scenario/bucket.py.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "advisor/transport/bucket_listing.h"
#include "base/core/random.h"
#include "g4/s3/sigv4.h"

#include "tests/support/seed.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define DATE  "20130524T000000Z"

static const char PAGE[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>blocks</Name>"
    "<Prefix></Prefix><KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys>"
    "<IsTruncated>true</IsTruncated>"
    "<Contents><Key>team+a/0/1%3Aabc</Key><LastModified>2026-11-22T00:00:00Z</LastModified>"
    "<ETag>&quot;00&quot;</ETag><Size>4294967296</Size><Owner><ID>x</ID><Size>7</Size></Owner>"
    "</Contents><Contents><Key>0/2%3Ad&amp;e</Key><Size>5</Size></Contents>"
    "<NextContinuationToken>a+b/c=</NextContinuationToken></ListBucketResult>";

static const struct advisor_bucket_listing BUCKET = {
    .url = "http://127.0.0.1:9000/blocks", .region = "", .credentials_file = ""};

/* The value of a header of the request, or "". */
static const char *
header(const struct advisor_bucket_listing_request *request, const char *name)
{
    for (size_t i = 0; i < sizeof(request->headers) / sizeof(request->headers[0]); i++)
        if (strncmp(request->headers[i], name, strlen(name)) == 0 &&
            strncmp(request->headers[i] + strlen(name), ": ", 2) == 0)
            return request->headers[i] + strlen(name) + 2;
    return "";
}

static void
requests_are_signed(void **state)
{
    static const struct {
        const char *url;
        const char *region;
        const char *credentials;
        const char *token;
        const char *host;
        const char *path;
        const char *query;
        const char *full;
    } table[] = {
        {"http://127.0.0.1:9000/blocks", "", "access:secret", "", "127.0.0.1:9000", "/blocks",
         "encoding-type=url&list-type=2&max-keys=1000",
         "http://127.0.0.1:9000/blocks?encoding-type=url&list-type=2&max-keys=1000"},
        {"https://s3.example.com:443/my-bucket.x/", "eu-west-1", "AKIA:wJalr+/x=", "a+b/c= %~",
         "s3.example.com", "/my-bucket.x",
         "continuation-token=a%2Bb%2Fc%3D%20%25~&encoding-type=url&list-type=2&max-keys=1000",
         "https://s3.example.com:443/"
         "my-bucket.x?continuation-token=a%2Bb%2Fc%3D%20%25~&encoding-type=url&list-type=2&"
         "max-keys=1000"},
        {"http://minio:80/b", "us-east-1", "access:secret:session/token+1=", "", "minio", "/b",
         "encoding-type=url&list-type=2&max-keys=1000",
         "http://minio:80/b?encoding-type=url&list-type=2&max-keys=1000"},
    };
    static struct advisor_bucket_listing_request request;

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct advisor_bucket_listing bucket = {.url = table[i].url,
                                                      .region = table[i].region};
        struct g4_sigv4_header headers[4] = {
            {"host", table[i].host}, {"x-amz-content-sha256", EMPTY}, {"x-amz-date", DATE}};
        struct g4_sigv4_request reference = {
            .method = "GET",
            .path = table[i].path,
            .query = table[i].query,
            .headers = headers,
            .header_count = 3,
            .payload_hash = EMPTY,
            .date = DATE,
            .region = table[i].region[0] == '\0' ? "us-east-1" : table[i].region,
            .service = "s3",
        };
        struct kvt_buffer wanted;
        char access[64];
        char secret[64];
        char session[64] = "";

        assert_true(sscanf(table[i].credentials, "%63[^:]:%63[^:]:%63s", access, secret, session) >=
                    2);
        if (session[0] != '\0')
            headers[reference.header_count++] =
                (struct g4_sigv4_header){"x-amz-security-token", session};
        kvt_buffer_init(&wanted, 4096);
        assert_int_equal(g4_sigv4_authorization(&reference, access, secret, &wanted), KVT_OK);
        assert_int_equal(advisor_bucket_listing_sign(&bucket, table[i].credentials, DATE,
                                                     table[i].token, &request, NULL),
                         KVT_OK);
        assert_string_equal(request.url, table[i].full);
        assert_string_equal(header(&request, "Authorization"), kvt_buffer_text(&wanted));
        assert_string_equal(header(&request, "x-amz-date"), DATE);
        assert_string_equal(header(&request, "x-amz-content-sha256"), EMPTY);
        assert_string_equal(header(&request, "x-amz-security-token"), session);
        kvt_buffer_release(&wanted);
    }
}

static void
wrong_requests_are_refused(void **state)
{
    static const char *const urls[] = {
        "",          "blocks",         "ftp://h/b",    "http://h",      "http://h/",
        "http:///b", "http://u:p@h/b", "http://h/b/c", "http://h/b%20", "http://h/Blocks"};
    static const char *const credentials[] = {"", "access", ":secret", "access:", "access::token"};
    static struct advisor_bucket_listing_request request;
    struct kvt_error err;
    char name[ADVISOR_BUCKET_LISTING_NAME_MAX];
    char large[ADVISOR_BUCKET_LISTING_SECRET_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        const struct advisor_bucket_listing bucket = {.url = urls[i], .region = ""};

        assert_int_equal(advisor_bucket_listing_check(&bucket, &err), KVT_INVALID);
        assert_int_equal(advisor_bucket_listing_sign(&bucket, "a:b", DATE, "", &request, &err),
                         KVT_INVALID);
        advisor_bucket_listing_name(&bucket, name);
        assert_string_equal(name, "");
    }
    assert_int_equal(advisor_bucket_listing_check(&BUCKET, &err), KVT_OK);
    advisor_bucket_listing_name(&BUCKET, name);
    assert_string_equal(name, "blocks");
    for (size_t i = 0; i < sizeof(credentials) / sizeof(credentials[0]); i++)
        assert_int_equal(
            advisor_bucket_listing_sign(&BUCKET, credentials[i], DATE, "", &request, &err),
            KVT_INVALID);
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    large[1] = ':';
    assert_int_equal(advisor_bucket_listing_sign(&BUCKET, large, DATE, "", &request, &err),
                     KVT_RANGE);
    assert_int_equal(advisor_bucket_listing_sign(&BUCKET, "a:b", DATE, large, &request, &err),
                     KVT_RANGE);
}

/* The next key of a listing, and its size. */
static const char *
next_key(const struct kvt_buffer *keys, size_t *at, uint64_t *size)
{
    const char *key = (const char *)keys->data + *at + sizeof(*size);

    assert_true(*at + sizeof(*size) < keys->size);
    memcpy(size, keys->data + *at, sizeof(*size));
    *size = le64toh(*size);
    *at += sizeof(*size) + strlen(key) + 1;
    return key;
}

static void
pages_are_read(void **state)
{
    char token[ADVISOR_BUCKET_LISTING_KEY_MAX];
    struct kvt_buffer keys;
    uint64_t size;
    size_t at = 0;

    (void)state;
    kvt_buffer_init(&keys, 4096);
    assert_int_equal(advisor_bucket_listing_read(PAGE, sizeof(PAGE) - 1, &keys, token, NULL),
                     KVT_OK);
    assert_string_equal(token, "a+b/c=");
    assert_string_equal(next_key(&keys, &at, &size), "team+a/0/1%3Aabc");
    assert_true(size == 4294967296);
    assert_string_equal(next_key(&keys, &at, &size), "0/2%3Ad&e");
    assert_true(size == 5);
    assert_int_equal(at, keys.size);
    kvt_buffer_release(&keys);
}

static void
what_is_no_page_is_refused(void **state)
{
    static const char *const pages[] = {
        "",
        "no XML",
        "<Error><Code>AccessDenied</Code></Error>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><a><b><c><d><e><f><g><h></h></g></f></e></d></c></b></a>"
        "</ListBucketResult>",
        "<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult>&a;</ListBucketResult>",
    };
    char token[ADVISOR_BUCKET_LISTING_KEY_MAX];
    char changed[sizeof(PAGE)];
    uint64_t random = test_seed();
    struct kvt_buffer keys;
    struct kvt_error err;

    (void)state;
    kvt_buffer_init(&keys, 4096);
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        assert_int_equal(
            advisor_bucket_listing_read(pages[i], strlen(pages[i]), &keys, token, &err),
            KVT_INVALID);
    for (size_t cut = 0; cut + 1 < sizeof(PAGE) - 1; cut++) {
        assert_int_equal(advisor_bucket_listing_read(PAGE, cut, &keys, token, &err), KVT_INVALID);
        assert_string_equal(token, "");
        kvt_buffer_clear(&keys);
    }
    for (int round = 0; round < 3000; round++) {
        memcpy(changed, PAGE, sizeof(PAGE));
        for (int i = 0; i < 3; i++)
            changed[kvt_random_below(&random, sizeof(PAGE) - 1)] =
                (char)kvt_random_below(&random, 256);
        /* Never more than a refusal; a byte of a key or a size may well change. */
        if (advisor_bucket_listing_read(changed, sizeof(PAGE) - 1, &keys, token, &err) != KVT_OK)
            assert_string_equal(token, "");
        kvt_buffer_clear(&keys);
    }
    kvt_buffer_release(&keys);
    kvt_buffer_init(&keys, 40); /* room for one of them */
    assert_int_equal(advisor_bucket_listing_read(PAGE, sizeof(PAGE) - 1, &keys, token, &err),
                     KVT_RANGE);
    kvt_buffer_release(&keys);
}

static bool
read_once(void *arg)
{
    char token[ADVISOR_BUCKET_LISTING_KEY_MAX];
    struct kvt_buffer keys;
    bool ok;

    (void)arg;
    kvt_buffer_init(&keys, 4096);
    ok = advisor_bucket_listing_read(PAGE, sizeof(PAGE) - 1, &keys, token, NULL) == KVT_OK;
    kvt_buffer_release(&keys);
    return ok;
}

static void
memory_is_short(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(read_once, NULL) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_signed), cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(pages_are_read),      cmocka_unit_test(what_is_no_page_is_refused),
        cmocka_unit_test(memory_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
