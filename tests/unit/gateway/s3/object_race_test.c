/*
 * What is tested: gateway/s3/s3_object.h and copy.h while somebody else writes: between what a
 * request looks at and what it then reads or writes, the bucket gets another object.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

#include "tests/unit/gateway/support/scene.h"

#define FIRST "\"8b04d5e3775d298e78455efc5ca404d5\"" /* of "first" */
#define LATER "\"c18788c2f274c779da72d9854ea4bfbf\"" /* of "later" */

/* A bucket in which somebody puts "later" just before the next call of a verb. */
struct rival {
    struct g4_store *inner;
    const char *key; /* NULL: not again */
    enum g4_verb before;
    unsigned growing; /* puts that are still to come, each larger than the one before */
};

struct fixture {
    struct test_scene scene;
    struct rival rival;
};

static enum kvt_err
rival_submit(void *self, struct g4_request *request)
{
    struct rival *rival = self;

    if (rival->key != NULL && request->verb == rival->before) {
        char attributes[G4_ATTRIBUTES_MAX] =
            "x-amz-meta-kvt-etag: c18788c2f274c779da72d9854ea4bfbf\n";
        struct g4_request put = {.verb = G4_PUT,
                                 .key = rival->key,
                                 .body = "later",
                                 .body_size = 5,
                                 .attributes = attributes};

        if (rival->growing > 0) { /* larger than what was looked at just now */
            static const char larger[64] = "a body that grows";

            put.body = larger;
            put.body_size = sizeof(larger) - rival->growing--;
        }
        if (rival->growing == 0)
            rival->key = NULL;
        assert_int_equal(g4_store_perform(rival->inner, &put), KVT_OK);
    }
    return g4_store_submit(rival->inner, request);
}

static void
rival_close(void *self)
{
    struct rival *rival = self;

    g4_store_close(rival->inner);
}

static const struct g4_store_driver rival_driver = {
    .name = "rival", .submit = rival_submit, .close = rival_close};

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    test_scene_open(&f->scene, 0);
    test_gateway_interpose(&f->scene.gateway, &rival_driver, &f->rival, &f->rival.inner);
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

/* Status, and as much of the body as fits; `headers`: name, value, ..., NULL. */
static unsigned
ask(struct fixture *f, const char *method, const char *raw, const char *body,
    const char *const *headers, char answer[32])
{
    static const char *const none[] = {NULL};
    struct gateway_request *request = test_scene_ask_all(&f->scene, method, raw, body, strlen(body),
                                                         headers == NULL ? none : headers);
    const unsigned status = request->status;

    if (answer != NULL)
        (void)snprintf(
            answer, 32, "%.*s", (int)request->body_size,
            request->body_size == 0 ? "" : (const char *)request->answer.data + request->body_from);
    test_scene_done(&f->scene, request);
    return status;
}

/* Put "first"; then somebody puts "later" before the next `before`. */
static void
arm(struct fixture *f, enum g4_verb before)
{
    f->rival.key = NULL;
    assert_int_equal(ask(f, "PUT", "/kvtier/k.md", "first", NULL, NULL), 200);
    f->rival.before = before;
    f->rival.key = "k.md";
}

static void
reads_are_of_what_was_asked_for(void **state)
{
    static const struct {
        const char *headers[5];
        unsigned status;
        const char *body; /* NULL: an error's */
    } rows[] = {
        {{"If-Match", FIRST}, 412, NULL},
        {{"If-Match", "\"no\", " FIRST, "Range", "bytes=0-1"}, 412, NULL},
        {{"If-None-Match", LATER}, 304, ""},
        {{"If-None-Match", "\"no\""}, 200, "later"},
        {{"If-Range", FIRST, "Range", "bytes=0-1"}, 200, "later"},
        {{"Range", "bytes=0-1"}, 206, "la"},
        {{NULL}, 200, "later"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[32];

        arm(f, G4_GET);
        if (ask(f, "GET", "/kvtier/k.md", "", rows[i].headers, body) != rows[i].status)
            fail_msg("row %zu", i);
        assert_null(f->rival.key); /* it happened */
        if (rows[i].body != NULL)
            assert_string_equal(body, rows[i].body);
    }
}

static void
copies_are_of_what_was_asked_for(void **state)
{
    static const char *const only_first[] = {"x-amz-copy-source", "kvtier/k.md",
                                             "x-amz-copy-source-if-match", FIRST, NULL};
    static const char *const any[] = {"x-amz-copy-source", "kvtier/k.md", NULL};
    struct fixture *f = *state;
    char body[32];

    arm(f, G4_GET);
    assert_int_equal(ask(f, "PUT", "/kvtier/copy", "", only_first, NULL), 412);
    assert_null(f->rival.key);
    assert_int_equal(ask(f, "GET", "/kvtier/copy", "", NULL, NULL), 404);
    arm(f, G4_GET);
    assert_int_equal(ask(f, "PUT", "/kvtier/copy", "", any, NULL), 200);
    assert_int_equal(ask(f, "GET", "/kvtier/copy", "", NULL, body), 200);
    assert_string_equal(body, "later");
}

/* Metadata that is changed by a copy onto itself must not bring the older bytes back. */
static void
a_copy_onto_itself_keeps_what_is_later(void **state)
{
    static const char *const replace[] = {"x-amz-copy-source", "kvtier/k.md",
                                          "x-amz-metadata-directive", "REPLACE", NULL};
    static const char *const only_later[] = {"x-amz-copy-source",
                                             "kvtier/k.md",
                                             "x-amz-metadata-directive",
                                             "REPLACE",
                                             "If-Match",
                                             LATER,
                                             NULL};
    struct fixture *f = *state;
    char body[32];

    arm(f, G4_PUT);
    assert_int_equal(ask(f, "PUT", "/kvtier/k.md", "", replace, NULL), 503);
    assert_null(f->rival.key);
    assert_int_equal(ask(f, "GET", "/kvtier/k.md", "", NULL, body), 200);
    assert_string_equal(body, "later");
    assert_int_equal(ask(f, "PUT", "/kvtier/k.md", "", replace, NULL), 200); /* the next try */
    assert_int_equal(ask(f, "PUT", "/kvtier/k.md", "", only_later, NULL), 200);
    assert_int_equal(ask(f, "PUT", "/kvtier/k.md", "first", NULL, NULL), 200);
    assert_int_equal(ask(f, "PUT", "/kvtier/k.md", "", only_later, NULL), 412);
}

/* Somebody replaces it by a larger one each time between the look and the read: it is looked at
 * again, and never a reason to send the client away. */
static void
a_read_outlasts_growth(void **state)
{
    struct fixture *f = *state;

    arm(f, G4_GET);
    f->rival.growing = 20;
    assert_int_equal(ask(f, "GET", "/kvtier/k.md", "", NULL, NULL), 200);
    assert_int_equal(f->rival.growing, 0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(reads_are_of_what_was_asked_for),
        TEST(copies_are_of_what_was_asked_for),
        TEST(a_copy_onto_itself_keeps_what_is_later),
        TEST(a_read_outlasts_growth),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
