/*
 * What is tested: gateway/http/auth.h.  A request signed by the client's own signer passes;
 * changed in any signed part it does not; times, unknown keys, bodies and credential files by
 * table.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "g4/object/sha256.h"
#include "gateway/http/auth.h"
#include "gateway/http/payload.h"

#include "tests/support/seed.h"

#define NOW_MS UINT64_C(1369353600000) /* 2013-05-24T00:00:00Z */
#define DATE   "20130524T000000Z"
#define ACCESS "access"
#define SECRET "secret"

struct signing {
    const char *method;
    const char *raw;
    const char *access;
    const char *secret;
    const char *date;
    const char *hash;
    const char *http_date; /* sent as Date, in the place of x-amz-date; NULL: not */
};

static const struct signing plain = {"GET", "/b/a/0/3%3Ax?prefix=y", ACCESS, SECRET,
                                     DATE,  G4_SIGV4_UNSIGNED,       NULL};

static struct gateway_request *
signed_request(const struct signing *signing)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));
    struct g4_sigv4_header headers[3] = {
        {"Host", "h:9480"}, {"X-Amz-Content-Sha256", signing->hash}, {"x-amz-date", signing->date}};
    struct g4_sigv4_request to_sign = {.method = signing->method,
                                       .headers = headers,
                                       .header_count = 3,
                                       .payload_hash = signing->hash,
                                       .date = signing->date,
                                       .region = "us-east-1",
                                       .service = "s3"};
    struct kvt_buffer authorization;

    if (signing->http_date != NULL)
        headers[2] = (struct g4_sigv4_header){"Date", signing->http_date};
    (void)snprintf(request->method, sizeof(request->method), "%s", signing->method);
    request->raw = kvt_strdup(signing->raw);
    assert_int_equal(gateway_target_parse(request->raw, &request->target, NULL), KVT_OK);
    to_sign.path = request->target.path;
    to_sign.query = request->target.query;
    kvt_buffer_init(&authorization, 4096);
    assert_int_equal(
        g4_sigv4_authorization(&to_sign, signing->access, signing->secret, &authorization), KVT_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gateway_request_header_add(request, headers[i].name, headers[i].value),
                         KVT_OK);
    assert_int_equal(
        gateway_request_header_add(request, "Authorization", kvt_buffer_text(&authorization)),
        KVT_OK);
    kvt_buffer_release(&authorization);
    return request;
}

static struct gateway_auth *
one_pair(void)
{
    struct gateway_client_credentials *table;
    struct gateway_auth *auth;

    assert_int_equal(
        gateway_client_credentials_parse(&table, "# who\n\nother:zz\r\n" ACCESS ":" SECRET, NULL),
        KVT_OK);
    assert_int_equal(gateway_client_credentials_count(table), 2);
    assert_int_equal(gateway_auth_new(&auth, table, NULL), KVT_OK);
    return auth;
}

static void
signatures(void **state)
{
    struct gateway_auth *auth = one_pair();
    struct signing other;
    struct gateway_request *request = signed_request(&plain);

    (void)state;
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_NONE);
    memcpy(request->method, "PUT", 4);
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_SIGNATURE);
    gateway_request_release(request, NULL);

    request = signed_request(&plain);
    request->target.path[strlen(request->target.path) - 1] ^= 1;
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_SIGNATURE);
    gateway_request_release(request, NULL);

    request = signed_request(&plain);
    request->target.query = "prefix=z";
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_SIGNATURE);
    gateway_request_release(request, NULL);

    request = signed_request(&plain);
    request->headers[0].value = "elsewhere";
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_SIGNATURE);
    gateway_request_release(request, NULL);

    other = plain;
    other.secret = "guess";
    request = signed_request(&other);
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_SIGNATURE);
    gateway_request_release(request, NULL);

    other = plain;
    other.access = "nobody";
    request = signed_request(&other);
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_UNKNOWN_KEY_ID);
    gateway_request_release(request, NULL);
    gateway_auth_free(auth);
}

static void
unsigned_requests(void **state)
{
    struct gateway_auth *auth = one_pair();
    struct gateway_request *request = signed_request(&plain);

    (void)state;
    request->header_count = 3; /* without Authorization */
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_ACCESS_DENIED);
    gateway_request_release(request, NULL);
    request = signed_request(&plain);
    request->headers[3].value = "AWS access:signature";
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_SIGV2);
    gateway_request_release(request, NULL);
    request = signed_request(&plain);
    request->headers[1].name = "x-other"; /* no hash of the body */
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_NO_HASH);
    gateway_request_release(request, NULL);
    request = signed_request(&plain);
    request->headers[2].name = "x-other"; /* no date */
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_ACCESS_DENIED);
    gateway_request_release(request, NULL);
    gateway_auth_free(auth);
}

/* What was added on the way is not obeyed, be it in another case or for the second time. */
static void
headers_nobody_signed(void **state)
{
    static const struct {
        const char *name;
        enum gateway_s3_error fault;
    } rows[] = {
        {"x-amz-copy-source", GATEWAY_S3_ERROR_UNSIGNED},
        {"X-AMZ-Meta-A", GATEWAY_S3_ERROR_UNSIGNED},
        {"x-amz-date", GATEWAY_S3_ERROR_UNSIGNED},
        {"x-amz-content-sha256", GATEWAY_S3_ERROR_NONE},
        {"x-amzn-trace-id", GATEWAY_S3_ERROR_NONE},
        {"content-type", GATEWAY_S3_ERROR_NONE},
    };
    struct gateway_auth *auth = one_pair();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request *request = signed_request(&plain);

        assert_int_equal(gateway_request_header_add(request, rows[i].name, "b/k"), KVT_OK);
        if (gateway_auth_check(auth, request, NOW_MS) != rows[i].fault)
            fail_msg("%s", rows[i].name);
        assert_int_equal(request->principal != NULL, rows[i].fault == GATEWAY_S3_ERROR_NONE);
        gateway_request_release(request, NULL);
    }
    gateway_auth_free(auth);
}

static void
clocks(void **state)
{
    struct gateway_auth *auth = one_pair();
    struct gateway_request *request = signed_request(&plain);

    (void)state;
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS + GATEWAY_AUTH_SKEW_MS),
                     GATEWAY_S3_ERROR_NONE);
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS + GATEWAY_AUTH_SKEW_MS + 1),
                     GATEWAY_S3_ERROR_SKEWED);
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS - GATEWAY_AUTH_SKEW_MS - 1),
                     GATEWAY_S3_ERROR_SKEWED);
    gateway_request_release(request, NULL);
    gateway_auth_free(auth);
}

/* A client may send the time it signed as HTTP's Date; in another form it is none. */
static void
dates_of_http(void **state)
{
    static const struct {
        const char *date;
        enum gateway_s3_error fault;
    } rows[] = {
        {"Fri, 24 May 2013 00:00:00 GMT", GATEWAY_S3_ERROR_NONE},
        {"Fri, 24 May 2013 00:00:01 GMT", GATEWAY_S3_ERROR_SIGNATURE},
        {"Fri, 24 May 2013 00:00:00 -0000", GATEWAY_S3_ERROR_NONE},
        {"Fri, 24 May 2013 00:00:01 -0000", GATEWAY_S3_ERROR_SIGNATURE},
        {"Fri, 24 May 2013 00:00:00 -0100", GATEWAY_S3_ERROR_ACCESS_DENIED},
        {"Fri, 24 May 2013 00:00:00 and more -0000", GATEWAY_S3_ERROR_ACCESS_DENIED},
        {" -0000", GATEWAY_S3_ERROR_ACCESS_DENIED},
        {DATE, GATEWAY_S3_ERROR_NONE},
        {"soon", GATEWAY_S3_ERROR_ACCESS_DENIED},
        {"", GATEWAY_S3_ERROR_ACCESS_DENIED},
    };
    struct gateway_auth *auth = one_pair();
    struct signing signing = plain;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request *request;

        signing.http_date = rows[i].date;
        request = signed_request(&signing);
        if (gateway_auth_check(auth, request, NOW_MS) != rows[i].fault)
            fail_msg("%s", rows[i].date);
        gateway_request_release(request, NULL);
    }
    gateway_auth_free(auth);
}

static void
bodies(void **state)
{
    struct signing signing = plain;
    char hash[G4_SIGV4_SIGNATURE_MAX];
    struct gateway_request *request;

    (void)state;
    g4_sha256_hex("abc", 3, hash);
    signing.hash = hash;
    request = signed_request(&signing);
    kvt_buffer_init(&request->body, 100);
    assert_int_equal(gateway_payload_check(request), GATEWAY_S3_ERROR_BODY_HASH);
    kvt_buffer_append(&request->body, "abc", 3);
    assert_int_equal(gateway_payload_check(request), GATEWAY_S3_ERROR_NONE);
    assert_int_equal(gateway_request_header_add(request, "Content-MD5", "kAFQmDzST7DWlj99KOF/cg=="),
                     KVT_OK);
    assert_int_equal(gateway_payload_check(request), GATEWAY_S3_ERROR_NONE);
    request->headers[request->header_count - 1].value = "kAFQmDzST7DWlj99KOF/cQ==";
    assert_int_equal(gateway_payload_check(request), GATEWAY_S3_ERROR_BAD_DIGEST);
    gateway_request_release(request, NULL);
}

static void
credential_files(void **state)
{
    struct gateway_client_credentials *table;
    struct kvt_error err;

    (void)state;
    assert_int_equal(gateway_client_credentials_parse(&table, "", &err), KVT_INVALID);
    assert_null(table);
    assert_int_equal(gateway_client_credentials_parse(&table, "# only talk\n", &err), KVT_INVALID);
    assert_int_equal(gateway_client_credentials_parse(&table, "a:b\nnocolon\n", &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "line 2"));
    assert_int_equal(gateway_client_credentials_parse(&table, ":b\n", &err), KVT_INVALID);
    assert_int_equal(gateway_client_credentials_parse(&table, "a:\n", &err), KVT_INVALID);
    assert_int_equal(gateway_client_credentials_parse(&table, "a:b\na:c\n", &err), KVT_INVALID);
    assert_int_equal(gateway_client_credentials_parse(&table, "a:b:c\n", &err), KVT_OK);
    assert_string_equal(gateway_client_credentials_find(table, "a")->secret, "b:c");
    assert_null(gateway_client_credentials_find(table, "b"));
    gateway_client_credentials_drop(table);
}

static enum kvt_err
load_yaml(struct gateway_client_credentials **table, const char *text, struct kvt_error *err)
{
    char folder[256];
    char path[300];
    enum kvt_err rc;

    *err = (struct kvt_error){.code = KVT_OK};
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/who.yaml", folder);
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, err), KVT_OK);
    rc = gateway_client_credentials_load(table, path, err);
    test_folder_remove(folder);
    return rc;
}

#define TENANT "credentials:\n- access: a\n  secret: s:1\n  grants:\n"

static void
credentials_with_rights(void **state)
{
    static const char *const wrong[] = {
        "",
        "credentials: []\n",
        "credentials:\n- access: a\n  secret: s\n",
        "credentials:\n- access: a\n  secret: s\n  grants: []\n",
        "credentials:\n- access: ''\n  secret: s\n  grants:\n  - {prefix: '', rights: read}\n",
        "credentials:\n- access: a\n  grants:\n  - {prefix: '', rights: read}\n",
        TENANT "  - {prefix: t/}\n",
        TENANT "  - {rights: [read]}\n",
        TENANT "  - {prefix: t/, rights: []}\n",
        TENANT "  - {prefix: t/, rights: [read, own]}\n",
        TENANT "  - {prefix: t/, rights: read, more: 1}\n",
        TENANT "  - {prefix: t/, rights: read, bucket: 'a*b'}\n",
        TENANT "  - {prefix: t/, rights: read}\n  creates: 'a*b'\n",
        TENANT "  - {prefix: t/, rights: read}\n  owner: \"a\\nb\"\n",
        TENANT "  - {prefix: t/, rights: read}\n- access: a\n  secret: t\n  grants:\n"
               "  - {prefix: t/, rights: read}\n",
    };
    const struct gateway_principal *tenant;
    struct gateway_client_credentials *table;
    struct kvt_error err;

    (void)state;
    assert_int_equal(load_yaml(&table,
                               TENANT "  - {prefix: t/, rights: [read, write, delete, list]}\n"
                                      "  - {prefix: '', rights: list}\n- access: b\n  secret: s2\n"
                                      "  owner: team\n  creates: team-*\n"
                                      "  grants:\n  - {prefix: '', rights: read}\n"
                                      "  - {bucket: x, prefix: '', rights: read}\n",
                               &err),
                     KVT_OK);
    assert_int_equal(gateway_client_credentials_count(table), 2);
    tenant = gateway_client_credentials_find(table, "a");
    assert_string_equal(tenant->secret, "s:1");
    assert_true(gateway_auth_may(tenant, GATEWAY_DELETE, NULL, "t/k"));
    assert_false(gateway_auth_may(tenant, GATEWAY_READ, NULL, "u/k"));
    assert_true(gateway_auth_may(tenant, GATEWAY_LIST, NULL, ""));
    assert_false(
        gateway_auth_may(gateway_client_credentials_find(table, "b"), GATEWAY_WRITE, NULL, "t/k"));
    assert_string_equal(tenant->owner, "a");
    assert_string_equal(tenant->creates, "");
    assert_string_equal(gateway_client_credentials_find(table, "b")->owner, "team");
    assert_string_equal(gateway_client_credentials_find(table, "b")->creates, "team-*");
    assert_string_equal(gateway_client_credentials_find(table, "b")->grants[1].bucket, "x");
    gateway_client_credentials_drop(table);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (load_yaml(&table, wrong[i], &err) != KVT_INVALID)
            fail_msg("row %zu", i);
        assert_null(table);
        assert_true(err.text[0] != '\0');
    }
}

static void
reload(void **state)
{
    struct gateway_auth *auth = one_pair();
    struct gateway_request *request = signed_request(&plain);
    struct gateway_client_credentials *table;

    (void)state;
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_NONE);
    assert_int_equal(gateway_client_credentials_parse(&table, "else:where", NULL), KVT_OK);
    gateway_auth_replace(auth, table);
    /* The request that began before keeps who it was. */
    assert_string_equal(request->principal->access, ACCESS);
    gateway_request_release(request, NULL);
    request = signed_request(&plain);
    assert_int_equal(gateway_auth_check(auth, request, NOW_MS), GATEWAY_S3_ERROR_UNKNOWN_KEY_ID);
    assert_null(request->principal);
    gateway_request_release(request, NULL);
    gateway_auth_free(auth);
}

/* Whose a bucket is, and of which buckets a grant is. */
static void
rights_in_buckets(void **state)
{
    const struct gateway_principal who = {.owner = "team",
                                          .grants = {{"t/", GATEWAY_RIGHTS_ALL, ""},
                                                     {"", GATEWAY_READ, "shared-*"},
                                                     {"", GATEWAY_LIST, "kvtier*"}},
                                          .grant_count = 3};
    const struct gateway_client_bucket configured = {.name = "kvtier", .owner = "team"};
    const struct gateway_client_bucket own = {.name = "mine", .owner = "team", .id = "1"};
    const struct gateway_client_bucket shared = {.name = "shared-x", .owner = "other", .id = "2"};
    const struct gateway_client_bucket foreign = {.name = "shared", .owner = "teams", .id = "3"};
    const struct gateway_client_bucket namesake = {.name = "kvtier-2", .owner = "teams", .id = "4"};

    (void)state;
    assert_true(gateway_auth_may(&who, GATEWAY_WRITE, &configured, "t/k"));
    assert_false(gateway_auth_may(&who, GATEWAY_LIST, &configured, "u/"));
    assert_true(gateway_auth_may(&who, GATEWAY_LIST, &namesake, "u/"));
    assert_false(gateway_auth_may(&who, GATEWAY_WRITE, &configured, "u/k"));
    assert_false(gateway_auth_owns(&who, &configured));
    assert_true(gateway_auth_may(&who, GATEWAY_DELETE, &own, "u/k"));
    assert_true(gateway_auth_may(&who, GATEWAY_READ, &shared, "u/k"));
    assert_false(gateway_auth_may(&who, GATEWAY_WRITE, &shared, "t/k"));
    assert_false(gateway_auth_may(&who, GATEWAY_READ, &foreign, "t/k"));
    assert_true(gateway_auth_sees(&who, &configured));
    assert_true(gateway_auth_sees(&who, &own));
    assert_true(gateway_auth_sees(&who, &shared));
    assert_false(gateway_auth_sees(&who, &foreign));
    assert_false(gateway_auth_sees(NULL, &own));
    assert_false(gateway_auth_may(NULL, GATEWAY_READ, &own, "k"));
    assert_true(gateway_client_credentials_match("*", "a"));
    assert_true(gateway_client_credentials_match("a*", "a"));
    assert_true(gateway_client_credentials_match("a", "a"));
    assert_false(gateway_client_credentials_match("a", "ab"));
    assert_false(gateway_client_credentials_match("", "a"));
}

static void
rights(void **state)
{
    const struct gateway_principal tenant = {
        .grants = {{"tenant/", GATEWAY_RIGHTS_ALL}, {"shared/", GATEWAY_READ | GATEWAY_LIST}},
        .grant_count = 2};

    (void)state;
    assert_true(gateway_auth_may(&tenant, GATEWAY_DELETE, NULL, "tenant/a"));
    assert_false(gateway_auth_may(&tenant, GATEWAY_READ, NULL, "tenant2/a"));
    assert_false(gateway_auth_may(&tenant, GATEWAY_READ, NULL, "tenant"));
    assert_true(gateway_auth_may(&tenant, GATEWAY_READ, NULL, "shared/a"));
    assert_false(gateway_auth_may(&tenant, GATEWAY_WRITE, NULL, "shared/a"));
    assert_false(gateway_auth_may(&tenant, GATEWAY_LIST, NULL, ""));
    assert_true(gateway_auth_may(&tenant, GATEWAY_LIST, NULL, "shared/x"));
    assert_false(gateway_auth_may(NULL, GATEWAY_READ, NULL, "tenant/a"));
}

struct permit {
    const char *method;
    const char *raw;
    bool permitted;
};

static void
permits(void **state)
{
    static const struct gateway_principal tenant = {
        .grants = {{"t/", GATEWAY_RIGHTS_ALL}, {"shared/", GATEWAY_READ | GATEWAY_LIST}},
        .grant_count = 2};
    static const struct permit rows[] = {
        {"GET", "/", true},
        {"GET", "/b?location=", true},
        {"HEAD", "/b", true},
        {"GET", "/b?list-type=2", false},
        {"GET", "/b?list-type=2&prefix=t", false},
        {"GET", "/b?list-type=2&prefix=t%2F", true},
        {"GET", "/b?prefix=shared/x", true},
        {"GET", "/b?prefix=shared/%zz", false},
        {"GET", "/b?uploads&prefix=other/", false},
        {"PUT", "/b", true},
        {"PUT", "/b?acl", false},
        {"DELETE", "/other/u/k", true},
        {"DELETE", "/b", false},
        {"GET", "/b/t/k", true},
        {"PUT", "/b/t/k", true},
        {"DELETE", "/b/t/k", true},
        {"HEAD", "/b/u/k", false},
        {"GET", "/b/shared/k", true},
        {"PUT", "/b/shared/k", false},
        {"DELETE", "/b/shared/k", false},
        {"GET", "/b/shared/k?uploadId=1", false},
        {"POST", "/_kvtier/v1/get/b", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request request = {.principal = &tenant};

        (void)snprintf(request.method, sizeof(request.method), "%s", rows[i].method);
        assert_int_equal(gateway_target_parse(rows[i].raw, &request.target, NULL), KVT_OK);
        if (gateway_auth_permits(&request, "b") != rows[i].permitted)
            fail_msg("%s %s", rows[i].method, rows[i].raw);
        request.principal = NULL;
        if (request.target.key[0] != '\0')
            assert_false(gateway_auth_permits(&request, "b"));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signatures),
        cmocka_unit_test(unsigned_requests),
        cmocka_unit_test(headers_nobody_signed),
        cmocka_unit_test(clocks),
        cmocka_unit_test(dates_of_http),
        cmocka_unit_test(bodies),
        cmocka_unit_test(credential_files),
        cmocka_unit_test(reload),
        cmocka_unit_test(rights),
        cmocka_unit_test(rights_in_buckets),
        cmocka_unit_test(permits),
        cmocka_unit_test(credentials_with_rights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
