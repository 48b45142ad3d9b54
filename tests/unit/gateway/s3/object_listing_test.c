/*
 * What is tested: gateway/s3/object_listing.h over a bucket that has what no test can put there in
 * time: page after page of objects that are nobody's, and keys as long as they may be; and that an
 * answer that does not fit, of a listing or of DeleteObjects, is not given in part.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "gateway/s3/key_cursor.h"
#include "gateway/s3/object_listing.h"
#include "gateway/tier/bucket_tier.h"

#include "tests/unit/gateway/support/scene.h"

enum { QUOTES = 150 };

/* A store whose listings are made up; all else is another store's. */
struct forged {
    struct g4_store *inner;
    void (*make)(struct g4_listed *listed, unsigned number, unsigned count);
    unsigned count; /* of keys; 0: the inner store lists */
    unsigned page;
    bool escaped; /* they are of this form, else identity */
    bool strict;  /* it knows none of its tokens any more */
    unsigned asked;
};

static void
list(const struct forged *forged, struct g4_request *request)
{
    const bool first = request->token[0] == '\0' && request->after != NULL;
    unsigned next = (unsigned)strtoul(request->token, NULL, 10);

    for (; request->listed_count < forged->page && next < forged->count; next++) {
        struct g4_listed *listed = &request->listed[request->listed_count];

        *listed = (struct g4_listed){.size = 5, .etag = "e"};
        forged->make(listed, next, forged->count);
        if (!first || strcmp(listed->key, request->after) > 0)
            request->listed_count++;
    }
    request->token[0] = '\0';
    if (next < forged->count)
        (void)snprintf(request->token, sizeof(request->token), "%u", next);
}

static enum kvt_err
forged_submit(void *self, struct g4_request *request)
{
    struct forged *forged = self;

    /* Names of other forms are the inner store's, which has none. */
    if (request->verb != G4_LIST || forged->count == 0 ||
        strncmp(request->key, G4_OBJECT_NAME_HASHED, strlen(G4_OBJECT_NAME_HASHED)) == 0 ||
        (strncmp(request->key, G4_OBJECT_NAME_ESCAPED, strlen(G4_OBJECT_NAME_ESCAPED)) == 0) !=
            forged->escaped)
        return g4_store_submit(forged->inner, request);
    forged->asked++;
    if (forged->strict && request->token[0] != '\0') {
        request->status = KVT_INVALID;
        request->http = 400;
    } else {
        list(forged, request);
    }
    request->done(request, request->arg);
    return KVT_OK;
}

static void
forged_close(void *self)
{
    struct forged *forged = self;

    g4_store_close(forged->inner);
}

static const struct g4_store_driver forged_driver = {
    .name = "forged", .submit = forged_submit, .close = forged_close};

struct fixture {
    struct test_scene scene;
    struct forged forged;
};

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    test_scene_open(&f->scene, 0);
    test_gateway_interpose(&f->scene.gateway, &forged_driver, &f->forged, &f->forged.inner);
    f->scene.s3.batch_max = 1u << 16; /* smaller than listings are */
    f->scene.answer_max = gateway_s3_answer_max(&f->scene.s3);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    test_scene_close(&f->scene);
    kvt_free(f);
    return 0;
}

static unsigned
count_of(const char *text, const char *word)
{
    unsigned count = 0;

    while ((text = strstr(text, word)) != NULL) {
        text += strlen(word);
        count++;
    }
    return count;
}

/* Tombstones of blocks; only the last key has something under it. */
static void
make_tombstone(struct g4_listed *listed, unsigned number, unsigned count)
{
    (void)test_gateway_key(listed->key, number);
    if (number + 1 < count)
        listed->size = 0;
}

static void
make_plain(struct g4_listed *listed, unsigned number, unsigned count)
{
    (void)count;
    (void)snprintf(listed->key, sizeof(listed->key), "%05u.txt", number);
}

/* Keys that no client could have put, but for the last. */
static void
make_strange(struct g4_listed *listed, unsigned number, unsigned count)
{
    (void)snprintf(listed->key, sizeof(listed->key), "%05u%s", number,
                   number + 1 < count ? "" : ".txt");
}

/* Whatever is not shown, each request goes on behind the one before. */
static void
listings_pass_over_what_is_not_shown(void **state)
{
    static const char *const targets[] = {"/kvtier?list-type=2", "/kvtier?max-keys=1000"};
    struct fixture *f = *state;

    f->forged.page = 5;
    f->forged.count = 5 * GATEWAY_KEY_CURSOR_PAGES * 2 + 1;
    for (unsigned i = 0; i < 3; i++) {
        const bool marker = i == 2;
        char next[2 * KVT_KEY_MAX] = "";
        unsigned requests = 0;
        unsigned found = 0;

        f->forged.make = i == 0 ? make_strange : make_tombstone;
        do {
            struct gateway_request *request;
            char raw[4 * KVT_KEY_MAX];
            const char *text;

            (void)snprintf(raw, sizeof(raw), "%s%s%s", targets[marker],
                           next[0] == '\0' ? ""
                           : marker        ? "&marker="
                                           : "&continuation-token=",
                           next);
            request = test_scene_ask(&f->scene, "GET", raw, NULL, 0, NULL, NULL);
            assert_int_equal(request->status, 200);
            text = kvt_buffer_text(&request->answer);
            found += count_of(text, "<Contents>");
            if (!test_scene_element(&text, marker ? "<NextMarker>" : "<NextContinuationToken>",
                                    next, sizeof(next)))
                assert_non_null(strstr(text, "<IsTruncated>false</IsTruncated>"));
            test_scene_done(&f->scene, request);
            assert_true(++requests <= 3);
        } while (next[0] != '\0');
        assert_int_equal(requests, 3);
        assert_int_equal(found, 1);
    }
}

/* A page of ours goes on with the store's page behind it; with a token that the store does not
 * know, behind the last key. */
static void
pages_follow_the_pages_of_the_store(void **state)
{
    struct fixture *f = *state;
    char next[2 * KVT_KEY_MAX] = "";
    char raw[4 * KVT_KEY_MAX];
    unsigned requests = 0;
    unsigned found = 0;

    f->forged.make = make_plain;
    f->forged.page = 100;
    f->forged.count = 1050;
    for (unsigned i = 0; i < 2; i++) {
        f->forged.strict = i == 1;
        do {
            struct gateway_request *request;
            const char *text;

            (void)snprintf(raw, sizeof(raw), "/kvtier?list-type=2&max-keys=100%s%s",
                           next[0] == '\0' ? "" : "&continuation-token=", next);
            request = test_scene_ask(&f->scene, "GET", raw, NULL, 0, NULL, NULL);
            assert_int_equal(request->status, 200);
            text = kvt_buffer_text(&request->answer);
            found += count_of(text, "<Contents>");
            if (!test_scene_element(&text, "<NextContinuationToken>", next, sizeof(next)))
                next[0] = '\0';
            test_scene_done(&f->scene, request);
            requests++;
        } while (next[0] != '\0');
        assert_int_equal(requests, 11);
        assert_int_equal(found, 1050);
        /* Each page of ours was one of the store, and one more where the token was refused. */
        assert_int_equal(f->forged.asked, i == 0 ? 11 : 21);
        requests = found = f->forged.asked = 0;
    }
}

/* Who goes through a whole bucket has each page fetched once, from the third on before it is asked
 * for. */
static void
pages_are_fetched_ahead(void **state)
{
    struct fixture *f = *state;
    char next[2 * KVT_KEY_MAX] = "";
    char raw[4 * KVT_KEY_MAX];
    unsigned found = 0;

    f->forged.make = make_plain;
    f->forged.page = G4_LIST_KEYS_MAX;
    f->forged.count = 4 * G4_LIST_KEYS_MAX + 7;
    for (unsigned i = 0; i < 5; i++) {
        struct gateway_request *request;
        const char *text;
        char first[32];

        (void)snprintf(raw, sizeof(raw), "/kvtier?list-type=2%s%s",
                       next[0] == '\0' ? "" : "&continuation-token=", next);
        request = test_scene_ask(&f->scene, "GET", raw, NULL, 0, NULL, NULL);
        assert_int_equal(request->status, 200);
        text = kvt_buffer_text(&request->answer);
        found += count_of(text, "<Contents>");
        (void)snprintf(first, sizeof(first), "<Contents><Key>%05u.txt</Key>", i * G4_LIST_KEYS_MAX);
        assert_non_null(strstr(text, first));
        assert_int_equal(test_scene_element(&text, "<NextContinuationToken>", next, sizeof(next)),
                         i < 4);
        test_scene_done(&f->scene, request);
        assert_int_equal(f->forged.asked, i == 0 ? 1 : i < 4 ? i + 2 : 5);
    }
    assert_int_equal(found, f->forged.count);
}

static bool
take(struct gateway_listing_prefetch *prefetch, struct g4_listed *room, unsigned page)
{
    struct g4_request request = {.verb = G4_LIST, .key = "", .listed = room};

    (void)snprintf(request.token, sizeof(request.token), "%u", page);
    return gateway_listing_prefetch_take(prefetch, &request) && request.listed_count == 1 &&
           strtoul(room[0].key, NULL, 10) == page;
}

/* A page is given once, and not when it is old or could not be fetched; so many, and no more. */
static void
pages_ahead_are_bounded_in_number_and_time(void **state)
{
    struct fixture *f = *state;
    struct gateway_listing_prefetch *prefetch = f->scene.prefetch;
    struct g4_store *store = gateway_bucket_tier_store(f->scene.gateway.context->tiers.buckets);
    struct g4_listed *room = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*room));
    char token[16];

    assert_non_null(room);
    f->forged.make = make_plain;
    f->forged.page = 1;
    f->forged.count = 1000;
    for (unsigned i = 0; i < GATEWAY_LISTING_PREFETCH_MAX + 1; i++) {
        (void)snprintf(token, sizeof(token), "%u", i);
        gateway_listing_prefetch_fetch(prefetch, store, "", token);
    }
    assert_int_equal(f->forged.asked, GATEWAY_LISTING_PREFETCH_MAX);
    assert_true(take(prefetch, room, 3));
    assert_false(take(prefetch, room, 3));
    assert_false(take(prefetch, room, GATEWAY_LISTING_PREFETCH_MAX));
    gateway_listing_prefetch_fetch(prefetch, store, "", "50");
    test_scene_done(&f->scene,
                    test_scene_ask(&f->scene, "PUT", "/kvtier/new", "new", 3, NULL, NULL));
    assert_false(take(prefetch, room, 50));
    f->forged.strict = true;
    gateway_listing_prefetch_fetch(prefetch, store, "", "100");
    assert_false(take(prefetch, room, 100));
    f->forged.strict = false;
    gateway_listing_prefetch_fetch(prefetch, store, "", "5");
    kvt_clock_sleep_ms(GATEWAY_LISTING_PREFETCH_MS + 10);
    assert_false(take(prefetch, room, 5));
    gateway_listing_prefetch_fetch(prefetch, store, "",
                                   "7"); /* in the room of one that is too old */
    assert_true(take(prefetch, room, 7));
    kvt_free(room);
}

/* The token of another kind of store is none of this one, which goes on behind the key; and what
 * lies outside of the prefix is nobody's business, whatever a store tells. */
static void
tokens_lead_nowhere_else(void **state)
{
    static const struct {
        const char *target;
        unsigned found;
    } cases[] = {
        /* 00004/, forged, t8, nothing; 00004/, s3, t8, nothing */
        {"?list-type=2&continuation-token=30303030342f00666f7267656400743800", 2},
        {"?list-type=2&continuation-token=30303030342f00733300743800", 5},
        {"?list-type=2&prefix=00007", 1},
        {"?list-type=2&prefix=1&continuation-token=30303030340066", 0},
    };
    struct fixture *f = *state;

    f->forged.make = make_plain;
    f->forged.page = f->forged.count = 10;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char raw[200];
        struct gateway_request *request;

        (void)snprintf(raw, sizeof(raw), "/kvtier%s", cases[i].target);
        request = test_scene_ask(&f->scene, "GET", raw, NULL, 0, NULL, NULL);
        assert_int_equal(count_of(kvt_buffer_text(&request->answer), "<Contents>"), cases[i].found);
        test_scene_done(&f->scene, request);
    }
}

/* What is no token of ours is refused, wherever it was cut or grew. */
static void
tokens_are_read_strictly(void **state)
{
    /* A key, the kind of store, here "forged", and the ways of two forms, with a NUL between. */
    static const char *const tokens[] = {"6",
                                         "6g",
                                         "61",
                                         "6100",
                                         "610062",
                                         "6100666f7267656400",
                                         "6100666f72676564007435",
                                         "6100666f7267656400743500",
                                         "6100666f726765640074350000",
                                         "61007333007435007436"};
    static const int statuses[] = {400, 400, 200, 400, 400, 400, 400, 200, 400, 200};
    struct fixture *f = *state;

    f->forged.make = make_plain;
    f->forged.page = f->forged.count = 10;
    for (unsigned i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        char raw[200];
        struct gateway_request *request;

        (void)snprintf(raw, sizeof(raw), "/kvtier?list-type=2&continuation-token=%s", tokens[i]);
        request = test_scene_ask(&f->scene, "GET", raw, NULL, 0, NULL, NULL);
        assert_int_equal(request->status, statuses[i]);
        test_scene_done(&f->scene, request);
    }
}

static void
make_long(struct g4_listed *listed, unsigned number, unsigned count)
{
    char key[5 + QUOTES + 1] = "";
    struct g4_object_name name;

    (void)count;
    (void)snprintf(key, sizeof(key), "%05u", number % 100000);
    memset(key + 5, '"', QUOTES);
    assert_int_equal(g4_object_name_make(&name, "", key), KVT_OK);
    memcpy(listed->key, name.text, sizeof(listed->key));
}

/* The longest answer has room, also where batches are small; one that has none is not cut. */
static void
listings_are_told_in_full(void **state)
{
    struct fixture *f = *state;
    struct gateway_request *request;

    f->forged.make = make_long;
    f->forged.escaped = true;
    f->forged.count = G4_LIST_KEYS_MAX;
    f->forged.page = G4_LIST_KEYS_MAX;
    request = test_scene_ask(&f->scene, "GET", "/kvtier?list-type=2", NULL, 0, NULL, NULL);
    assert_int_equal(request->status, 200);
    assert_int_equal(count_of(kvt_buffer_text(&request->answer), "<Contents>"), G4_LIST_KEYS_MAX);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "</ListBucketResult>"));
    test_scene_done(&f->scene, request);
    f->scene.answer_max = 1u << 20;
    request = test_scene_ask(&f->scene, "GET", "/kvtier?list-type=2", NULL, 0, NULL, NULL);
    assert_int_equal(request->status, 503);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "<Code>SlowDown</Code>"));
    test_scene_done(&f->scene, request);
    f->scene.s3.batch_max = 8u << 20;
    assert_true(gateway_s3_answer_max(&f->scene.s3) > 16u << 20);
}

/* Refused for want of room, asked again: it is done, and said. */
static void
deletes_are_told_in_full(void **state)
{
    struct fixture *f = *state;
    struct gateway_request *request;
    struct kvt_buffer body;

    kvt_buffer_init(&body, 1u << 16);
    kvt_buffer_printf(&body, "<Delete>");
    for (int i = 0; i < 20; i++)
        kvt_buffer_printf(&body, "<Object><Key>k%d</Key></Object>", i);
    kvt_buffer_printf(&body, "</Delete>");
    f->scene.answer_max = 400;
    request = test_scene_ask(&f->scene, "POST", "/kvtier?delete", body.data, body.size, NULL, NULL);
    assert_int_equal(request->status, 503);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "<Code>SlowDown</Code>"));
    test_scene_done(&f->scene, request);
    f->scene.answer_max = 4u << 10;
    request = test_scene_ask(&f->scene, "POST", "/kvtier?delete", body.data, body.size, NULL, NULL);
    assert_int_equal(request->status, 200);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "<Deleted><Key>k19</Key>"));
    test_scene_done(&f->scene, request);
    kvt_buffer_release(&body);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(listings_pass_over_what_is_not_shown),
        TEST(pages_follow_the_pages_of_the_store),
        TEST(pages_are_fetched_ahead),
        TEST(pages_ahead_are_bounded_in_number_and_time),
        TEST(tokens_lead_nowhere_else),
        TEST(tokens_are_read_strictly),
        TEST(listings_are_told_in_full),
        TEST(deletes_are_told_in_full),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
