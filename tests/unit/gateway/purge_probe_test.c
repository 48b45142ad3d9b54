/*
 * What is tested: the upload of its own by which a purge learns how the bucket lists uploads: it is
 * given up on every way out, and what it tells is what the server does.
 * How: the four questions to the bucket are answered here (the linker puts ours in their place).
 */
#include <stdio.h>
#include <string.h>

#include "g4/bucket.h"
#include "gateway/cold.h"
#include "gateway/purge_private.h"
#include "gateway/vault.h"

#include "tests/support/seed.h"

static struct {
    bool begun;          /* and not given up */
    bool by_prefix;      /* it lists by prefix, else by whole key */
    unsigned listings;   /* so far */
    unsigned fail_after; /* listings that are answered */
    bool fail_abort;
    char key[KVT_KEY_MAX];
} server;

const struct g4_endpoint *__wrap_gateway_cold_endpoint(const struct gateway_cold *cold);
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
__wrap_gateway_cold_endpoint(const struct gateway_cold *cold)
{
    static const uint64_t somewhere; /* nobody looks into it */

    (void)cold;
    return (const struct g4_endpoint *)&somewhere;
}

enum kvt_err
__wrap_g4_bucket_settings(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                          struct g4_bucket_settings *settings, struct kvt_error *err)
{
    (void)endpoint;
    (void)timeout_ms;
    (void)err;
    settings->versions = G4_BUCKET_OFF;
    return KVT_OK;
}

enum kvt_err
__wrap_g4_bucket_begin(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                       struct g4_bucket_upload *upload, struct kvt_error *err)
{
    (void)endpoint;
    (void)timeout_ms;
    (void)err;
    assert_false(server.begun);
    server.begun = true;
    (void)snprintf(server.key, sizeof(server.key), "%s", upload->key);
    (void)snprintf(upload->id, sizeof(upload->id), "1");
    return KVT_OK;
}

enum kvt_err
__wrap_g4_bucket_uploads_of(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                            const char *prefix, struct g4_bucket_uploads *page,
                            struct kvt_error *err)
{
    (void)endpoint;
    (void)timeout_ms;
    memset(page, 0, sizeof(*page));
    if (server.listings++ == server.fail_after)
        return kvt_error_set(err, KVT_IO, "no listing");
    if (server.begun && (server.by_prefix ? strncmp(server.key, prefix, strlen(prefix)) == 0
                                          : strcmp(server.key, prefix) == 0)) {
        (void)snprintf(page->rows[0].key, sizeof(page->rows[0].key), "%s", server.key);
        (void)snprintf(page->rows[0].id, sizeof(page->rows[0].id), "1");
        page->count = 1;
    }
    return KVT_OK;
}

enum kvt_err
__wrap_g4_bucket_abort(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                       const struct g4_bucket_upload *upload, struct kvt_error *err)
{
    (void)endpoint;
    (void)timeout_ms;
    assert_string_equal(upload->key, server.key);
    assert_string_equal(upload->id, "1");
    if (server.fail_abort)
        return kvt_error_set(err, KVT_DENIED, "no abort");
    server.begun = false;
    return KVT_OK;
}

static enum kvt_err
look(char *listing, struct kvt_error *err)
{
    struct gateway_vault vault = {.cold = NULL};
    struct gateway_purge_report report = {.rows = 0};
    struct gateway_purge purge = {.vault = &vault,
                                  .namespace_ = "acme",
                                  .prefix = "acme/",
                                  .listing = GATEWAY_PURGE_NONE,
                                  .report = &report};
    const enum kvt_err rc = gateway_purge_server(&purge, err);

    *listing = purge.listing;
    assert_int_equal(report.bucket_uploads, 0);
    return rc;
}

static void
begin(bool by_prefix, unsigned fail_after)
{
    memset(&server, 0, sizeof(server));
    server.by_prefix = by_prefix;
    server.fail_after = fail_after;
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
    assert_false(server.begun);
    begin(false, UINT32_MAX);
    assert_int_equal(look(&listing, &err), KVT_OK);
    assert_int_equal(listing, GATEWAY_PURGE_WHOLE);
    assert_false(server.begun);
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
        assert_false(server.begun);
    }
    begin(false, 0);
    server.fail_abort = true; /* the first reason is the one that is told */
    assert_int_equal(look(&listing, &err), KVT_IO);
    assert_string_equal(err.text, "no listing");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_tells_how_uploads_are_listed),
        cmocka_unit_test(it_stays_nowhere_when_a_listing_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
