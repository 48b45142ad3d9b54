/*
 * What is tested: the upload of its own by which a purge learns how the bucket lists uploads: it is
 * given up on every way out, and what it tells is what the server does.  Uploads that were noted
 * are given up before their notes go: by a purge, and by the gateway when they are old.
 * How: the four questions to the bucket are answered here (the linker puts ours in their place).
 */
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "g4/s3/bucket.h"
#include "g4/s3/upload_notes.h"
#include "gateway/care/purge_private.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_context.h"
#include "gateway/upload/unfinished_uploads.h"

#include "tests/support/seed.h"

struct server {
    bool begun;          /* and not given up */
    bool by_prefix;      /* it lists by prefix, else by whole key */
    unsigned listings;   /* so far */
    unsigned fail_after; /* listings that are answered */
    bool fail_abort;
    bool versions;     /* it keeps */
    uint64_t begun_ms; /* what it says of when */
    char key[KVT_KEY_MAX];
};

/* Of the bucket, and of a second one where `two`. */
static struct server servers[2];
static bool two;

const struct g4_endpoint *
__wrap_gateway_bucket_tier_endpoint(const struct gateway_bucket_tier *buckets);
const struct g4_endpoint *
__wrap_gateway_bucket_tier_far_endpoint(const struct gateway_bucket_tier *buckets);
enum kvt_err __wrap_g4_bucket_settings(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                                       struct g4_bucket_settings *settings, struct kvt_error *err);
enum kvt_err __wrap_g4_bucket_begin(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                                    struct g4_bucket_upload *upload, struct kvt_error *err);
enum kvt_err __wrap_g4_bucket_uploads_of(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                                         const char *prefix, struct g4_bucket_uploads *page,
                                         struct kvt_error *err);
enum kvt_err __wrap_g4_bucket_abort(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                                    const struct g4_bucket_upload *upload, struct kvt_error *err);

const struct g4_endpoint *
__wrap_gateway_bucket_tier_endpoint(const struct gateway_bucket_tier *buckets)
{
    (void)buckets;
    return (const struct g4_endpoint *)&servers[0]; /* nobody looks into it */
}

const struct g4_endpoint *
__wrap_gateway_bucket_tier_far_endpoint(const struct gateway_bucket_tier *buckets)
{
    (void)buckets;
    return two ? (const struct g4_endpoint *)&servers[1] : NULL;
}

static struct server *
server_of(const struct g4_endpoint *endpoint)
{
    struct server *server = &servers[(const void *)endpoint == &servers[1]];

    assert_ptr_equal(endpoint, server);
    return server;
}

enum kvt_err
__wrap_g4_bucket_settings(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                          struct g4_bucket_settings *settings, struct kvt_error *err)
{
    (void)timeout_ms;
    (void)err;
    settings->versions = server_of(endpoint)->versions ? G4_BUCKET_ON : G4_BUCKET_OFF;
    return KVT_OK;
}

enum kvt_err
__wrap_g4_bucket_begin(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                       struct g4_bucket_upload *upload, struct kvt_error *err)
{
    struct server *server = server_of(endpoint);

    (void)timeout_ms;
    (void)err;
    assert_false(server->begun);
    server->begun = true;
    (void)snprintf(server->key, sizeof(server->key), "%s", upload->key);
    (void)snprintf(upload->id, sizeof(upload->id), "1");
    return KVT_OK;
}

enum kvt_err
__wrap_g4_bucket_uploads_of(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                            const char *prefix, struct g4_bucket_uploads *page,
                            struct kvt_error *err)
{
    struct server *server = server_of(endpoint);

    (void)timeout_ms;
    memset(page, 0, sizeof(*page));
    if (server->listings++ == server->fail_after)
        return kvt_error_set(err, KVT_IO, "no listing");
    if (server->begun && (server->by_prefix ? strncmp(server->key, prefix, strlen(prefix)) == 0
                                            : strcmp(server->key, prefix) == 0)) {
        (void)snprintf(page->rows[0].key, sizeof(page->rows[0].key), "%s", server->key);
        (void)snprintf(page->rows[0].id, sizeof(page->rows[0].id), "1");
        page->rows[0].begun_ms = server->begun_ms;
        page->count = 1;
    }
    return KVT_OK;
}

enum kvt_err
__wrap_g4_bucket_abort(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                       const struct g4_bucket_upload *upload, struct kvt_error *err)
{
    struct server *server = server_of(endpoint);

    (void)timeout_ms;
    assert_string_equal(upload->key, server->key);
    assert_string_equal(upload->id, "1");
    if (server->fail_abort)
        return kvt_error_set(err, KVT_DENIED, "no abort");
    server->begun = false;
    return KVT_OK;
}

static enum kvt_err
look(char *listing, struct kvt_error *err)
{
    struct gateway_context context = {.tiers.buckets = NULL};
    struct gateway_purge_report report = {.rows = 0};
    struct gateway_purge purge = {.context = &context,
                                  .namespace_ = "acme",
                                  .prefix = "acme/",
                                  .listing = GATEWAY_PURGE_NONE,
                                  .report = &report};
    const enum kvt_err rc = gateway_purge_server(&purge, err);

    *listing = purge.listing;
    assert_int_equal(report.bucket_uploads, 0);
    assert_int_equal(report.versions, servers[0].versions || (two && servers[1].versions));
    return rc;
}

static void
begin(bool by_prefix, unsigned fail_after)
{
    memset(servers, 0, sizeof(servers));
    two = false;
    servers[0].by_prefix = by_prefix;
    servers[0].fail_after = fail_after;
}

static void
it_tells_how_uploads_are_listed(void **state)
{
    struct kvt_error err;
    char listing;

    (void)state;
    begin(true, UINT32_MAX);
    assert_int_equal(look(&listing, &err), KVT_OK);
    assert_int_equal(listing, GATEWAY_PURGE_LISTED);
    assert_false(servers[0].begun);
    begin(false, UINT32_MAX);
    assert_int_equal(look(&listing, &err), KVT_OK);
    assert_int_equal(listing, GATEWAY_PURGE_WHOLE);
    assert_false(servers[0].begun);
}

/* What one of two servers does not do, both are not relied on for; and either may keep versions. */
static void
both_buckets_are_asked(void **state)
{
    struct kvt_error err;
    char listing;

    (void)state;
    for (unsigned which = 0; which < 16; which++) {
        begin(which % 2 != 0, UINT32_MAX);
        two = true;
        servers[1].by_prefix = which / 2 % 2 != 0;
        servers[1].fail_after = UINT32_MAX;
        servers[0].versions = which / 4 % 2 != 0;
        servers[1].versions = which / 8 % 2 != 0;
        assert_int_equal(look(&listing, &err), KVT_OK);
        assert_int_equal(listing, which % 4 == 3 ? GATEWAY_PURGE_LISTED : GATEWAY_PURGE_WHOLE);
        assert_true(servers[0].listings > 0 && servers[1].listings > 0);
        assert_false(servers[0].begun || servers[1].begun);
    }
    servers[1].fail_after = servers[1].listings;
    assert_int_equal(look(&listing, &err), KVT_IO);
    assert_false(servers[0].begun || servers[1].begun);
}

/* An upload to a key is found in whichever bucket it was begun. */
static void
uploads_go_from_both_buckets(void **state)
{
    struct gateway_context context = {.tiers.buckets = NULL};

    (void)state;
    for (unsigned at = 0; at < 2; at++) {
        struct gateway_purge_report report = {.rows = 0};
        struct gateway_purge purge = {.context = &context,
                                      .namespace_ = "acme",
                                      .prefix = "acme/",
                                      .act = true,
                                      .listing = GATEWAY_PURGE_WHOLE,
                                      .report = &report};

        begin(false, UINT32_MAX);
        two = true;
        servers[1].fail_after = UINT32_MAX;
        servers[at].begun = true;
        (void)snprintf(servers[at].key, sizeof(servers[at].key), "acme/0/1:a");
        assert_true(gateway_purge_uploads_to(&purge, "acme/0/1:a"));
        assert_false(servers[at].begun);
        assert_int_equal(report.bucket_uploads, 1);
        assert_int_equal(report.removed, 1);
    }
}

static void
it_stays_nowhere_when_a_listing_fails(void **state)
{
    struct kvt_error err;
    char listing;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        begin(false, i);
        assert_int_equal(look(&listing, &err), KVT_IO);
        assert_string_equal(err.text, "no listing");
        assert_false(servers[0].begun);
    }
    begin(false, 0);
    servers[0].fail_abort = true; /* the first reason is the one that is told */
    assert_int_equal(look(&listing, &err), KVT_IO);
    assert_string_equal(err.text, "no listing");
}

static void
on_noted(enum kvt_err status, void *arg)
{
    assert_int_equal(status, KVT_OK);
    (void)sem_post(arg);
}

static void
note(struct g4_upload_notes *notes, const char *key)
{
    struct g4_upload_note_call call;
    sem_t done;

    (void)sem_init(&done, 0, 0);
    assert_int_equal(g4_upload_notes_begin(notes, &call, key, on_noted, &done), KVT_OK);
    (void)sem_wait(&done);
    g4_upload_notes_settle(notes);
    (void)sem_destroy(&done);
}

static size_t
count_of(struct g4_upload_notes *notes)
{
    struct g4_upload_note page[8];
    size_t count;

    assert_int_equal(g4_upload_notes_list(notes, "", page, 8, &count), KVT_OK);
    return count;
}

static struct gateway_purge_report
visit_all(unsigned place, struct g4_upload_notes *notes, bool act)
{
    struct gateway_context context = {.tiers.buckets = NULL};
    struct gateway_purge_report report = {.rows = 0};
    struct gateway_purge purge = {.context = &context,
                                  .namespace_ = "acme",
                                  .prefix = "acme/",
                                  .act = act,
                                  .listing = GATEWAY_PURGE_WHOLE,
                                  .report = &report};
    struct kvt_error err;

    context.uploads.begun[place] = notes;
    assert_int_equal(gateway_purge_bucket_uploads(&purge, &err), KVT_OK);
    return report;
}

static void
find_noted(unsigned place)
{
    struct server *server = &servers[place];
    struct gateway_purge_report report;
    struct g4_upload_notes *notes;
    char folder[256];

    (void)test_folder_make(folder, sizeof(folder));
    begin(false, UINT32_MAX);
    servers[1].fail_after = UINT32_MAX;
    two = place == 1;
    server->begun = true;
    (void)snprintf(server->key, sizeof(server->key), "acme/0/1:big");
    assert_int_equal(g4_upload_notes_open(&notes, folder, NULL), KVT_OK);
    note(notes, server->key);
    note(notes, "other/0/1:big");

    report = visit_all(place, notes, true); /* it may be under way: given up, and said to be */
    assert_false(server->begun);
    assert_int_equal(report.removed, 1);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.bucket_uploads, 2);
    assert_int_equal(count_of(notes), 2);

    g4_upload_notes_close(notes); /* the gateway was killed */
    assert_int_equal(g4_upload_notes_open(&notes, folder, NULL), KVT_OK);
    server->begun = server->fail_abort = true;
    report = visit_all(place, notes, true);
    assert_int_equal(report.failed, 1);
    assert_int_equal(count_of(notes), 2); /* its key is wanted still */
    server->fail_abort = false;
    report = visit_all(place, notes, true);
    assert_false(server->begun);
    assert_int_equal(report.removed, 1);
    assert_int_equal(report.failed, 0);
    assert_int_equal(count_of(notes), 1); /* another tenant's */
    report = visit_all(place, notes, true);
    assert_int_equal(report.bucket_uploads, 0);
    g4_upload_notes_close(notes);
    test_folder_remove(folder);
}

static void
give_up_old(unsigned place)
{
    struct server *server = &servers[place];
    const uint64_t now_ms = kvt_clock_unix_ms();
    const uint64_t later_ms = now_ms + 2 * GATEWAY_UNFINISHED_UPLOADS_AGE_MS;
    struct gateway_context context = {.tiers.buckets = NULL};
    char folder[256];

    gateway_unfinished_uploads_settle(&context, later_ms); /* no notes are kept */
    (void)test_folder_make(folder, sizeof(folder));
    begin(false, UINT32_MAX);
    servers[1].fail_after = UINT32_MAX;
    two = place == 1;
    server->begun = true;
    server->begun_ms = later_ms - 60 * 1000; /* somebody else's, to the same key */
    (void)snprintf(server->key, sizeof(server->key), "acme/0/1:big");
    assert_int_equal(g4_upload_notes_open(&context.uploads.begun[place], folder, NULL), KVT_OK);
    note(context.uploads.begun[place], server->key);
    gateway_unfinished_uploads_settle(&context, now_ms);
    assert_int_equal(server->listings, 0); /* too young to be looked at */
    gateway_unfinished_uploads_settle(&context, later_ms);
    assert_true(server->begun);
    assert_int_equal(count_of(context.uploads.begun[place]), 1);

    server->begun_ms = now_ms;
    server->fail_abort = true;
    gateway_unfinished_uploads_settle(&context, later_ms);
    assert_int_equal(count_of(context.uploads.begun[place]), 1);
    server->fail_abort = false;
    gateway_unfinished_uploads_settle(&context, later_ms);
    assert_false(server->begun);
    assert_int_equal(count_of(context.uploads.begun[place]), 0);

    for (size_t i = 0; i < 3; i++)
        note(context.uploads.begun[place], "acme/0/1:none");
    context.stopping = true;
    gateway_unfinished_uploads_settle(&context, later_ms);
    assert_int_equal(count_of(context.uploads.begun[place]), 3);
    context.stopping = false;
    gateway_unfinished_uploads_settle(&context, later_ms);
    assert_int_equal(count_of(context.uploads.begun[place]), 0);
    g4_upload_notes_close(context.uploads.begun[place]);
    test_folder_remove(folder);
}

static void
an_upload_that_was_noted_is_found_by_its_key(void **state)
{
    (void)state;
    for (unsigned place = 0; place < 2; place++)
        find_noted(place);
}

static void
old_ones_are_given_up_by_the_gateway(void **state)
{
    (void)state;
    for (unsigned place = 0; place < 2; place++)
        give_up_old(place);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_tells_how_uploads_are_listed),
        cmocka_unit_test(both_buckets_are_asked),
        cmocka_unit_test(uploads_go_from_both_buckets),
        cmocka_unit_test(it_stays_nowhere_when_a_listing_fails),
        cmocka_unit_test(an_upload_that_was_noted_is_found_by_its_key),
        cmocka_unit_test(old_ones_are_given_up_by_the_gateway),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
