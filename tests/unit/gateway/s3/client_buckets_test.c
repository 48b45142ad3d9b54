/*
 * What is tested: gateway/http/client_bucket.h, buckets.h and service.h: names, where keys are in
 * the store, who sees and may do what, removal and writers that are late; then a long random run
 * against a model that is a table of strings.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "gateway/block/removal.h"
#include "gateway/tier/object_key.h"
#include "gateway/upload/uploads.h"

#include "tests/unit/gateway/support/scene.h"

enum { STEPS = 400, NAMES = 5, KEYS = 4, WHO = 3 };

static const struct gateway_principal people[WHO] = {
    {.access = "ann", .owner = "ann", .creates = "*"},
    {.access = "bob", .owner = "bob", .creates = "b-*"},
    {.access = "guest",
     .owner = "guest",
     .grants = {{.bucket = "a-*", .prefix = "open/", .rights = GATEWAY_READ | GATEWAY_LIST}},
     .grant_count = 1},
};

static unsigned
status_of(struct test_scene *s, const struct gateway_principal *who, const char *method,
          const char *raw, const char *body)
{
    s->who = who;
    return test_scene_status(s, method, raw, body, NULL, NULL);
}

static void
expect_code(struct test_scene *s, const struct gateway_principal *who, const char *method,
            const char *raw, const char *code)
{
    struct gateway_request *request;

    s->who = who;
    request = test_scene_ask(s, method, raw, NULL, 0, NULL, NULL);
    if (strcmp(gateway_request_code(request->fault), code) != 0)
        fail_msg("%s %s: %s, not %s", method, raw, gateway_request_code(request->fault), code);
    test_scene_done(s, request);
}

static void
names(void **state)
{
    static const char *const good[] = {
        "abc",       "a-b",
        "a.b",       "1.2.3",
        "1.2.3.4.5", "0a0",
        "a--b",      "012345678901234567890123456789012345678901234567890123456789abc"};
    static const char *const bad[] = {
        "",
        "ab",
        "Abc",
        "a_b",
        "-ab",
        "ab-",
        ".ab",
        "ab.",
        "a..b",
        "a.-b",
        "a-.b",
        "a b",
        "a/b",
        "1.2.3.4",
        "xn--a",
        "sthree-x",
        "x-s3alias",
        "x--ol-s3",
        "a!b",
        "_kvtier",
        "012345678901234567890123456789012345678901234567890123456789abcd"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!gateway_client_bucket_name_valid(good[i]))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (gateway_client_bucket_name_valid(bad[i]))
            fail_msg("%s", bad[i]);
}

static void
places(void **state)
{
    const struct gateway_client_bucket configured = {.name = "kvtier"};
    const struct gateway_client_bucket made = {.name = "made", .id = "0123456789abcdef"};
    struct g4_object_name name;
    char key[G4_CLIENT_KEY_MAX + 1];

    (void)state;
    assert_int_equal(gateway_client_bucket_key(&configured, "a/b.txt", &name), KVT_OK);
    assert_string_equal(name.text, "a/b.txt");
    assert_int_equal(gateway_client_bucket_key(&configured, ".kvtier-object/x/k", &name), KVT_OK);
    assert_string_equal(name.text, ".kvtier-key/configured/.dkvtier-object.sx.sk!");
    assert_int_equal(gateway_client_bucket_key(&configured, "", &name), KVT_INVALID);
    assert_int_equal(gateway_client_bucket_key(&made, ".kvtier-x", &name), KVT_OK);
    assert_string_equal(name.text, ".kvtier-key/0123456789abcdef/.dkvtier-x!");
    assert_int_equal(gateway_client_bucket_key(&made, "", &name), KVT_INVALID);
    assert_int_equal(gateway_client_bucket_key(&made, "a\x01", &name), KVT_OK);
    assert_int_equal(gateway_client_bucket_key(&made, "a\xff", &name), KVT_INVALID);
    assert_int_equal(gateway_client_bucket_key(&made, "a\xed\xa0\x80", &name), KVT_INVALID);
    assert_string_equal(name.text, "");
    /* What reads as a block's key is none there. */
    assert_int_equal(gateway_client_bucket_key(&made, "0/0:11111112", &name), KVT_OK);
    assert_false(gateway_object_key_is_block(name.text, NULL));
    assert_true(gateway_object_key_is_block("0/0:11111112", NULL));
    memset(key, 'k', sizeof(key));
    key[G4_CLIENT_KEY_MAX - 1] = '\0';
    assert_int_equal(gateway_client_bucket_key(&made, key, &name), KVT_OK);
    assert_true(gateway_object_key_is_stored(name.text));
    key[G4_CLIENT_KEY_MAX - 1] = 'k';
    key[G4_CLIENT_KEY_MAX] = '\0';
    assert_int_equal(gateway_client_bucket_key(&made, key, &name), KVT_RANGE);
}

/* From making to removal, by those who may and those who may not. */
static void
life(void **state)
{
    const struct gateway_principal *ann = &people[0];
    const struct gateway_principal *bob = &people[1];
    const struct gateway_principal *guest = &people[2];
    struct test_scene *s = *state;

    expect_code(s, ann, "GET", "/a-one/k", "NoSuchBucket");
    expect_code(s, ann, "PUT", "/a-one/k", "NoSuchBucket");
    expect_code(s, ann, "GET", "/a-one?list-type=2", "NoSuchBucket");
    expect_code(s, ann, "DELETE", "/a-one", "NoSuchBucket");
    expect_code(s, ann, "PUT", "/A_one", "InvalidBucketName");
    expect_code(s, bob, "PUT", "/a-one", "AccessDenied");
    expect_code(s, ann, "PUT", "/a-one", "");
    expect_code(s, ann, "PUT", "/a-one", "BucketAlreadyOwnedByYou");
    expect_code(s, bob, "PUT", "/b-one", "");
    expect_code(s, ann, "PUT", "/b-one", "BucketAlreadyExists");
    expect_code(s, ann, "PUT", "/kvtier", "BucketAlreadyExists");
    s->s3.region = "us-east-1";
    expect_code(s, ann, "PUT", "/a-one", "");
    expect_code(s, &test_scene_owner, "PUT", "/kvtier", "");
    s->s3.region = "eu-1";
    assert_int_equal(status_of(s, ann, "PUT", "/a-two",
                               "<CreateBucketConfiguration><LocationConstraint>eu-2"
                               "</LocationConstraint></CreateBucketConfiguration>"),
                     400);
    assert_int_equal(status_of(s, ann, "PUT", "/a-two", "<Create"), 400);
    assert_int_equal(status_of(s, ann, "PUT", "/a-two",
                               "<CreateBucketConfiguration><LocationConstraint>eu-1"
                               "</LocationConstraint></CreateBucketConfiguration>"),
                     200);

    assert_int_equal(status_of(s, ann, "PUT", "/a-one/open/k", "hello"), 200);
    assert_int_equal(status_of(s, ann, "PUT", "/a-one/0/0:11111112", "no block"), 200);
    assert_int_equal(status_of(s, ann, "PUT", "/a-one/0/0:11111112", "not at all"), 200);
    assert_int_equal(status_of(s, guest, "GET", "/a-one/open/k", ""), 200);
    assert_int_equal(status_of(s, guest, "HEAD", "/a-one", ""), 200);
    assert_int_equal(status_of(s, guest, "GET", "/a-one?prefix=open/", ""), 200);
    expect_code(s, guest, "GET", "/a-one?list-type=2", "AccessDenied");
    expect_code(s, guest, "GET", "/a-one/0/0:11111112", "AccessDenied");
    expect_code(s, guest, "PUT", "/a-one/open/k", "AccessDenied");
    expect_code(s, guest, "DELETE", "/a-one", "AccessDenied");
    expect_code(s, guest, "HEAD", "/b-one", "AccessDenied");
    expect_code(s, bob, "GET", "/a-one/open/k", "AccessDenied");
    expect_code(s, bob, "GET", "/a-one/no/such", "AccessDenied");
    expect_code(s, bob, "GET", "/a-one?location", "AccessDenied");
    expect_code(s, bob, "GET", "/a-one?acl", "AccessDenied");
    expect_code(s, bob, "GET", "/a-one?uploads", "AccessDenied");
    /* Not even by the gateway's own: rights in the configured bucket are none elsewhere. */
    expect_code(s, &test_scene_owner, "GET", "/a-one/open/k", "AccessDenied");
    expect_code(s, &test_scene_owner, "GET", "/kvtier/.kvtier-bucket/a-one", "NoSuchKey");
    /* Its names are out of reach, however a store would read the path. */
    expect_code(s, &test_scene_owner, "PUT", "/kvtier/.kvtier-bucket/a-one", "");
    expect_code(s, &test_scene_owner, "PUT", "/kvtier//.kvtier-bucket/a-one", "");
    expect_code(s, &test_scene_owner, "DELETE", "/kvtier/x/../.kvtier-bucket/a-one", "");
    expect_code(s, ann, "HEAD", "/a-one", "");
    expect_code(s, ann, "GET", "//a-one/open/k", "InvalidURI");
    expect_code(s, ann, "GET", "/a-one/%ff", "InvalidURI");

    expect_code(s, ann, "DELETE", "/a-one", "BucketNotEmpty");
    assert_int_equal(status_of(s, ann, "DELETE", "/a-one/open/k?versionId=null", ""), 204);
    assert_int_equal(status_of(s, ann, "DELETE", "/a-one/0/0:11111112", ""), 204);
    assert_int_equal(status_of(s, ann, "POST", "/a-one/big?uploads", ""), 200);
    expect_code(s, bob, "DELETE", "/a-one", "AccessDenied");
    expect_code(s, ann, "DELETE", "/a-one", "");
    expect_code(s, ann, "DELETE", "/a-one", "NoSuchBucket");
    expect_code(s, ann, "HEAD", "/a-one", "NoSuchBucket");
    s->who = ann;
    for (unsigned i = 0; i < 8; i++) { /* with two that are there: at most eight */
        char raw[32];

        (void)snprintf(raw, sizeof(raw), "/many-%u", i);
        expect_code(s, ann, "PUT", raw, i < 6 ? "" : "TooManyBuckets");
    }
}

static void
expect_text(struct test_scene *s, const struct gateway_principal *who, const char *raw,
            const char *want, const char *never)
{
    struct gateway_request *request;
    const char *text;

    s->who = who;
    request = test_scene_ask(s, "GET", raw, NULL, 0, NULL, NULL);
    text = kvt_buffer_text(&request->answer);
    if (request->status != 200 || strstr(text, want) == NULL ||
        (never != NULL && strstr(text, never) != NULL))
        fail_msg("%s: %u %s", raw, request->status, text);
    test_scene_done(s, request);
}

/* Each answer is of its bucket, and nothing of the others' shows. */
static void
answers_are_apart(void **state)
{
    const char *const from[] = {"x-amz-copy-source", "/a-one/k", NULL};
    const struct gateway_principal *ann = &people[0];
    const struct gateway_principal *bob = &people[1];
    struct test_scene *s = *state;
    struct gateway_request *request;

    expect_code(s, ann, "PUT", "/a-one", "");
    expect_code(s, bob, "PUT", "/b-one", "");
    assert_int_equal(status_of(s, ann, "PUT", "/a-one/k", "of ann"), 200);
    assert_int_equal(status_of(s, bob, "PUT", "/b-one/dir/k", "of bob"), 200);
    assert_int_equal(status_of(s, &test_scene_owner, "PUT", "/kvtier/main", "m"), 200);
    expect_text(s, ann, "/", "<Name>a-one</Name>", "b-one");
    expect_text(s, bob, "/", "<Owner><ID>bob</ID>", "a-one");
    expect_text(s, &test_scene_owner, "/", "<Name>kvtier</Name>", "one");
    expect_text(s, &people[2], "/", "<Name>a-one</Name>", "kvtier");
    expect_text(s, ann, "/?prefix=b-", "<Buckets></Buckets>", "one");
    expect_text(s, ann, "/a-one", "<Key>k</Key>", ".kvtier-");
    expect_text(s, ann, "/a-one?versions", "<Key>k</Key><VersionId>null</VersionId>", "main");
    expect_text(s, bob, "/b-one?delimiter=/", "<Prefix>dir/</Prefix>", "<Contents>");
    expect_text(s, &test_scene_owner, "/kvtier", "<Key>main</Key>", ".kvtier-");
    expect_text(s, &test_scene_owner, "/kvtier?delimiter=/", "<Key>main</Key>", ".kvtier-");
    expect_text(s, ann, "/a-one?acl", "<Owner><ID>ann</ID>", "bob");
    expect_text(s, ann, "/a-one/k?acl", "FULL_CONTROL", "bob");
    s->who = ann;
    assert_int_equal(test_scene_status(s, "PUT", "/a-one?acl", "", "x-amz-acl", "private"), 200);
    assert_int_equal(test_scene_status(s, "PUT", "/a-one?acl", "", "x-amz-acl", "public-read"),
                     501);
    assert_int_equal(test_scene_status(s, "PUT", "/a-one?acl", "", "x-amz-acl", "public"), 400);
    assert_int_equal(test_scene_status(s, "PUT", "/a-one/k?acl", "", "x-amz-acl", "private"), 200);
    assert_int_equal(test_scene_status(s, "PUT", "/a-one/x?acl", "", "x-amz-acl", "private"), 404);
    assert_int_equal(test_scene_status(s, "PUT", "/a-one/x", "", "x-amz-acl", "public"), 400);
    assert_int_equal(test_scene_status(s, "PUT", "/a-one/x", "", "x-amz-storage-class", "COLD"),
                     400);
    assert_int_equal(
        test_scene_status(s, "PUT", "/a-one/x", "", "x-amz-server-side-encryption", "AES256"), 501);
    assert_int_equal(
        test_scene_status(s, "PUT", "/a-one", "", "x-amz-bucket-object-lock-enabled", "true"), 501);
    assert_int_equal(
        test_scene_status(s, "PUT", "/a-one", "", "x-amz-bucket-object-lock-enabled", "false"),
        409); /* it is there; the header asks for nothing */
    expect_code(s, ann, "GET", "/a-one/none?acl", "NoSuchKey");
    expect_code(s, ann, "GET", "/a-one/k?versionId=5", "NoSuchVersion");

    assert_int_equal(status_of(s, ann, "POST", "/a-one/big?uploads", ""), 200);
    expect_text(s, ann, "/a-one?uploads", "<Key>big</Key>", NULL);
    expect_text(s, &test_scene_owner, "/kvtier?uploads", "<IsTruncated>false", "big");
    expect_text(s, bob, "/b-one?uploads", "<IsTruncated>false", "big");

    s->who = bob;
    request = test_scene_ask_all(s, "PUT", "/b-one/copy", NULL, 0, from);
    assert_int_equal(request->status, 403);
    test_scene_done(s, request);
    expect_code(s, ann, "PUT", "/a-two", "");
    s->who = ann;
    request = test_scene_ask_all(s, "PUT", "/a-two/k", NULL, 0, from);
    assert_int_equal(request->status, 200);
    test_scene_done(s, request);
    expect_text(s, ann, "/a-two/k", "of ann", NULL);
    s->who = ann;
    assert_int_equal(
        test_scene_status(s, "GET", "/a-two/k", "", "x-amz-expected-bucket-owner", "bob"), 403);
    assert_int_equal(
        test_scene_status(s, "GET", "/a-two/k", "", "x-amz-expected-bucket-owner", "ann"), 200);
}

/* One gateway remembers the bucket that another one removed, and was made anew: what is put there
 * is refused, and does not come to light in the new one. */
static void
late_writers_write_nothing(void **state)
{
    const struct gateway_principal *ann = &people[0];
    struct test_scene *s = *state;
    struct gateway_client_buckets *other;
    struct gateway_client_bucket bucket;

    assert_int_equal(gateway_client_buckets_new(&other, "kvtier", "kvtier", 0, 8), KVT_OK);
    expect_code(s, ann, "PUT", "/a-one", "");
    assert_int_equal(
        gateway_client_buckets_find(other, s->gateway.context, "a-one", false, &bucket), KVT_OK);
    assert_string_equal(bucket.owner, "ann");
    assert_int_equal(gateway_client_buckets_remove(other, s->gateway.context, &bucket), KVT_OK);
    assert_int_equal(status_of(s, ann, "PUT", "/a-one/late", "late"), 404);
    assert_int_equal(
        gateway_client_buckets_make(other, s->gateway.context, "a-one", "bob", &bucket), KVT_OK);
    assert_int_equal(gateway_client_buckets_remove(other, s->gateway.context, &bucket), KVT_OK);
    assert_int_equal(
        gateway_client_buckets_make(other, s->gateway.context, "a-one", "bob", &bucket), KVT_OK);
    expect_text(s, &people[1], "/a-one", "<IsTruncated>false", "late");
    gateway_client_buckets_free(other);
}

/* ---- against a model ---- */

struct model {
    int owner[NAMES];             /* -1: there is no such bucket */
    char bodies[NAMES][KEYS][16]; /* "": no such object */
};

static void
step(struct test_scene *s, struct model *model, uint64_t *random)
{
    const size_t name = (size_t)kvt_random_below(random, NAMES);
    const size_t key = (size_t)kvt_random_below(random, KEYS);
    const int who = (int)kvt_random_below(random, 2);
    const int owner = model->owner[name];
    bool empty = true;
    char body[16];
    char raw[64];

    for (size_t i = 0; i < KEYS; i++)
        empty = empty && model->bodies[name][i][0] == '\0';
    (void)snprintf(raw, sizeof(raw), "/b-%zu", name);
    switch (kvt_random_below(random, 6)) {
    case 0:
        expect_code(s, &people[who], "PUT", raw,
                    owner < 0      ? ""
                    : owner == who ? "BucketAlreadyOwnedByYou"
                                   : "BucketAlreadyExists");
        if (owner < 0)
            model->owner[name] = who;
        return;
    case 1:
        expect_code(s, &people[who], "DELETE", raw,
                    owner < 0      ? "NoSuchBucket"
                    : owner != who ? "AccessDenied"
                    : empty        ? ""
                                   : "BucketNotEmpty");
        if (owner == who && empty)
            model->owner[name] = -1;
        return;
    default: break;
    }
    (void)snprintf(raw, sizeof(raw), "/b-%zu/%s", name,
                   (const char *[]){"k", "0/0:11111112", ".kvtier-x", "d/k"}[key]);
    if (owner != who) {
        expect_code(s, &people[who], "GET", raw, owner < 0 ? "NoSuchBucket" : "AccessDenied");
        return;
    }
    switch (kvt_random_below(random, 3)) {
    case 0:
        (void)snprintf(body, sizeof(body), "%" PRIu64, kvt_random_below(random, 1000000));
        assert_int_equal(status_of(s, &people[who], "PUT", raw, body), 200);
        memcpy(model->bodies[name][key], body, sizeof(body));
        break;
    case 1:
        assert_int_equal(status_of(s, &people[who], "DELETE", raw, ""), 204);
        model->bodies[name][key][0] = '\0';
        break;
    default:
        if (model->bodies[name][key][0] == '\0')
            expect_code(s, &people[who], "GET", raw, "NoSuchKey");
        else
            expect_text(s, &people[who], raw, model->bodies[name][key], NULL);
        break;
    }
}

/* Now and then a gateway that remembers nothing goes on. */
static void
as_the_model(void **state)
{
    struct test_scene *s = *state;
    struct gateway_client_buckets *fresh = NULL;
    uint64_t random = test_seed();
    struct model model = {.owner = {-1, -1, -1, -1, -1}};

    for (unsigned i = 0; i < STEPS; i++) {
        if (i % 50 == 0) {
            gateway_client_buckets_free(fresh);
            assert_int_equal(gateway_client_buckets_new(&fresh, "kvtier", "kvtier", 0, 8), KVT_OK);
            s->s3.buckets = fresh;
        }
        step(s, &model, &random);
    }
    s->s3.buckets = s->buckets;
    gateway_client_buckets_free(fresh);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(places),
        cmocka_unit_test_setup_teardown(life, test_scene_set_up, test_scene_tear_down),
        cmocka_unit_test_setup_teardown(answers_are_apart, test_scene_set_up, test_scene_tear_down),
        cmocka_unit_test_setup_teardown(late_writers_write_nothing, test_scene_set_up,
                                        test_scene_tear_down),
        cmocka_unit_test_setup_teardown(as_the_model, test_scene_set_up, test_scene_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
