/*
 * What is tested: gateway/http/target.h by a table of targets, and its arguments.
 */
#include <string.h>

#include "gateway/http/target.h"

#include "tests/support/seed.h"

struct row {
    const char *raw;
    enum kvt_err rc;
    const char *bucket;
    const char *key;
    const char *query;
};

static void
targets(void **state)
{
    static const struct row rows[] = {
        {"/", KVT_OK, "", "", ""},
        {"/b", KVT_OK, "b", "", ""},
        {"/b/", KVT_OK, "b", "", ""},
        {"/b?list-type=2", KVT_OK, "b", "", "list-type=2"},
        {"/b/k", KVT_OK, "b", "k", ""},
        {"/b/a/0/3:x:y", KVT_OK, "b", "a/0/3:x:y", ""},
        {"/b/a%2F0%2f3%3Ax", KVT_OK, "b", "a/0/3:x", ""},
        {"/b/a+b%20c", KVT_OK, "b", "a+b c", ""},
        {"/b//k", KVT_OK, "b", "/k", ""},
        {"/b/../k", KVT_OK, "b", "../k", ""},
        {"http://h:9480/b/k?x", KVT_OK, "b", "k", "x"},
        {"HTTPS://h/b/k", KVT_OK, "b", "k", ""},
        {"http://h", KVT_OK, "", "", ""},
        {"*", KVT_INVALID, "", "", ""},
        {"", KVT_INVALID, "", "", ""},
        {"b/k", KVT_INVALID, "", "", ""},
        {"/b/%", KVT_INVALID, "", "", ""},
        {"/b/%2", KVT_INVALID, "", "", ""},
        {"/b/%zz", KVT_INVALID, "", "", ""},
        {"/b/%00", KVT_INVALID, "", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_target target;
        struct kvt_error err;

        assert_int_equal(gateway_target_parse(rows[i].raw, &target, &err), rows[i].rc);
        if (rows[i].rc != KVT_OK)
            continue;
        assert_string_equal(target.bucket, rows[i].bucket);
        assert_string_equal(target.key, rows[i].key);
        assert_string_equal(target.query, rows[i].query);
    }
}

/* The target stands, so that its signature can be checked; the bucket is nobody's. */
static void
long_buckets_are_cut(void **state)
{
    char raw[] = "/0123456789012345678901234567890123456789012345678901234567890123/k";
    struct gateway_target target;

    (void)state;
    assert_int_equal(gateway_target_parse(raw, &target, NULL), KVT_OK);
    assert_true(target.bucket_long);
    assert_int_equal(strlen(target.bucket), sizeof(target.bucket) - 1);
    assert_string_equal(target.key, "k");
    memmove(raw + 1, raw + 2, strlen(raw + 2) + 1);
    assert_int_equal(gateway_target_parse(raw, &target, NULL), KVT_OK);
    assert_false(target.bucket_long);
    assert_string_equal(target.key, "k");
}

static void
long_paths_are_refused(void **state)
{
    char raw[GATEWAY_PATH_MAX + 10];
    struct gateway_target target;

    (void)state;
    memset(raw, 'k', sizeof(raw));
    memcpy(raw, "/b/", 3);
    raw[GATEWAY_PATH_MAX - 1] = '\0';
    assert_int_equal(gateway_target_parse(raw, &target, NULL), KVT_OK);
    raw[GATEWAY_PATH_MAX - 1] = 'k';
    raw[GATEWAY_PATH_MAX] = '\0';
    assert_int_equal(gateway_target_parse(raw, &target, NULL), KVT_RANGE);
}

static void
arguments(void **state)
{
    static const char *const known[] = {"prefix", "empty"};
    struct gateway_target target;
    char value[8];

    (void)state;
    assert_int_equal(
        gateway_target_parse("/b?&prefix=a%2Fb+c&empty&&other=1&bad=%4", &target, NULL), KVT_OK);
    assert_int_equal(gateway_target_query(&target, "prefix", value, sizeof(value)), KVT_OK);
    assert_string_equal(value, "a/b c");
    assert_int_equal(gateway_target_query(&target, "empty", value, sizeof(value)), KVT_OK);
    assert_string_equal(value, "");
    assert_int_equal(gateway_target_query(&target, "pre", value, sizeof(value)), KVT_NOTFOUND);
    assert_int_equal(gateway_target_query(&target, "prefix", value, 5), KVT_RANGE);
    assert_int_equal(gateway_target_query(&target, "bad", value, sizeof(value)), KVT_INVALID);
    assert_true(gateway_target_unknown(&target, known, 2, value, sizeof(value)));
    assert_string_equal(value, "other");
    assert_int_equal(gateway_target_parse("/b?empty&prefix=x", &target, NULL), KVT_OK);
    assert_false(gateway_target_unknown(&target, known, 2, value, sizeof(value)));
}

struct host_row {
    const char *host;
    const char *bucket;
    const char *key;
};

static void
hosts(void **state)
{
    static const struct host_row rows[] = {
        {"s3.local", "b", "k"},
        {"s3.local:9480", "b", "k"},
        {"mine.s3.local:9480", "mine", "b/k"},
        {"mine.S3.Local", "mine", "b/k"},
        {"a.b.other", "a.b", "b/k"},
        {"mines3.local", "b", "k"},
        {".s3.local", "b", "k"},
        {"", "b", "k"},
        {"0123456789012345678901234567890123456789012345678901234567890123.other", "b", "k"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_target target;

        assert_int_equal(gateway_target_parse("/b/k?x=y", &target, NULL), KVT_OK);
        gateway_target_host(&target, rows[i].host, "");
        assert_string_equal(target.bucket, "b");
        gateway_target_host(&target, rows[i].host, ",s3.local,other");
        assert_string_equal(target.bucket, rows[i].bucket);
        assert_string_equal(target.key, rows[i].key);
        assert_string_equal(target.path, "/b/k"); /* what is signed */
    }
}

/* A digest of 64 digits is no bucket's name, and the beginning of many a key. */
static void
a_long_key_of_a_host(void **state)
{
    static const char raw[] = "/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef/k";
    struct gateway_target target;

    (void)state;
    assert_int_equal(gateway_target_parse(raw, &target, NULL), KVT_OK);
    assert_true(target.bucket_long);
    gateway_target_host(&target, "mine.s3.local", "s3.local");
    assert_false(target.bucket_long);
    assert_string_equal(target.bucket, "mine");
    assert_string_equal(target.key, raw + 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),
        cmocka_unit_test(a_long_key_of_a_host),
        cmocka_unit_test(targets),
        cmocka_unit_test(long_buckets_are_cut),
        cmocka_unit_test(long_paths_are_refused),
        cmocka_unit_test(arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
