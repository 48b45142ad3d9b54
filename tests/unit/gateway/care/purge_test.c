/*
 * What is tested: gateway/care/purge.h: everything under a namespace goes from every place,
 * nothing else does, what cannot be removed is told, and what was cut short is gone on with.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/care/purge.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/quarantine.h"
#include "gateway/upload/uploads.h"

#include "tests/unit/gateway/support/support.h"

enum { BLOCKS = 40, SIZE = 3000 };

static int
set_up(void **state)
{
    struct test_gateway *g = kvt_calloc(1, sizeof(*g));

    test_gateway_open(g, 1u << 20, 0);
    for (uint64_t i = 1; i <= BLOCKS; i++)
        assert_int_equal(test_gateway_put(g, i, SIZE), KVT_OK);
    *state = g;
    return 0;
}

static int
tear_down(void **state)
{
    struct test_gateway *g = *state;

    test_gateway_close(g);
    kvt_free(g);
    return 0;
}

/* A whole pass; the sums of its steps. */
static struct gateway_purge_report
pass(struct test_gateway *g, const char *namespace_, bool act)
{
    struct gateway_purge_report sum = {.rows = 0};
    char cursor[GATEWAY_PURGE_CURSOR_MAX] = "";

    do {
        struct gateway_purge_report report;
        struct kvt_error err;

        assert_int_equal(gateway_purge_step(g->context, namespace_, act, cursor, &report, &err),
                         KVT_OK);
#define X(name) sum.name += report.name;
        GATEWAY_PURGE_COUNTS(X)
#undef X
        sum.removed += report.removed;
        sum.failed += report.failed;
    } while (cursor[0] != '\0');
    return sum;
}

static uint64_t
found(const struct gateway_purge_report *report)
{
    uint64_t sum = 0;

#define X(name) sum += report->name;
    GATEWAY_PURGE_COUNTS(X)
#undef X
    return sum;
}

static void
only_names_that_can_be_meant(void **state)
{
    static const char *const good[] = {"a", "acme", "acme/llama", "acme/llama-3.1/x", "0x", "a/1b"};
    static const char *const bad[] = {"",
                                      "/",
                                      "a/",
                                      "/a",
                                      "a//b",
                                      "0",
                                      "31",
                                      "a/0",
                                      "a/12/b",
                                      ".kvtier-object",
                                      ".kvtier-selftest",
                                      "a/.kvt",
                                      ".kvt"};
    char longest[KVT_NAMESPACE_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(gateway_purge_namespace_ok(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(gateway_purge_namespace_ok(bad[i]));
    memset(longest, 'a', KVT_NAMESPACE_MAX);
    longest[KVT_NAMESPACE_MAX] = '\0';
    assert_false(gateway_purge_namespace_ok(longest));
    longest[KVT_NAMESPACE_MAX - 1] = '\0';
    assert_true(gateway_purge_namespace_ok(longest));
}

static void
what_nobody_was_told_of_goes_too(void **state)
{
    static const char *const strange[] = {"tenant/model/0/5:11Fu2GZ", "tenant/model/x.lock",
                                          "tenant/notes", "tenant/model/0/5:1.meta"};
    static const char *const others[] = {"tenant2/model/0/0:11Fu2GZ", "tenan/x", "0/0:11Fu2GZ"};
    struct gateway_upload upload = {.key = "tenant/model/big"};
    struct test_gateway *g = *state;
    struct gateway_purge_report report;
    struct g4_request head;

    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
        assert_int_equal(
            test_gateway_store_put(g->bucket, strange[i], "{}", 2, &(struct g4_meta){.length = 2}),
            KVT_OK);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(
            test_gateway_store_put(g->bucket, others[i], "{}", 2, &(struct g4_meta){.length = 2}),
            KVT_OK);
    assert_int_equal(test_gateway_store_put(g->context->tiers.hot, "tenant/model/0/5:11Fu2GZ",
                                            "left", 4, &(struct g4_meta){.length = 4}),
                     KVT_OK);
    assert_int_equal(gateway_uploads_create(g->context, &upload), KVT_OK);
    assert_int_equal(
        gateway_quarantine_add(g->context->quarantine,
                               &(struct gateway_quarantine_item){.key = "tenant/model/0/5:11Fu2GZ",
                                                                 .tier = "cold",
                                                                 .reason = "bad",
                                                                 .body = "bad",
                                                                 .size = 3}),
        KVT_OK);
    report = pass(g, "tenant", false);
    assert_int_equal(report.rows, BLOCKS);
    assert_int_equal(report.hot_files, BLOCKS + 1);
    assert_int_equal(report.objects, BLOCKS + 3);
    assert_int_equal(report.locks, 1);
    assert_int_equal(report.uploads, 1);
    assert_int_equal(report.quarantined, 1);
    assert_int_equal(report.removed, 0);
    assert_int_equal(test_gateway_has(g, 1), KVT_OK); /* it was only a look */

    report = pass(g, "tenant", true);
    assert_int_equal(report.failed, 0);
    report = pass(g, "tenant", true);
    assert_int_equal(found(&report), 0);
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
        assert_int_equal(test_gateway_store_head(g->bucket, strange[i], &head), KVT_NOTFOUND);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(test_gateway_store_head(g->bucket, others[i], &head), KVT_OK);
}

static void
a_model_is_only_its_own(void **state)
{
    struct test_gateway *g = *state;
    struct gateway_purge_report report = pass(g, "tenant/mod", true);

    assert_int_equal(found(&report), 0);
    assert_int_equal(test_gateway_has(g, 1), KVT_OK);
    report = pass(g, "tenant/model", true);
    assert_int_equal(report.rows, BLOCKS);
    assert_int_equal(test_gateway_has(g, 1), KVT_NOTFOUND);
}

static void
pins_do_not_keep(void **state)
{
    struct test_gateway *g = *state;
    char key[KVT_KEY_MAX];
    struct gateway_purge_report report;

    assert_int_equal(gateway_catalog_pin(g->context->catalog, test_gateway_key(key, 1), 0), KVT_OK);
    report = pass(g, "tenant", true);
    report = pass(g, "tenant", true);
    assert_int_equal(found(&report), 0);
}

/* What a bucket does not give up stays told of, and goes when it does. */
static void
a_failure_is_told_and_mended(void **state)
{
    struct test_gateway *g = *state;
    struct gateway_purge_report report;

    test_gateway_fault(g, G4_DELETE, G4_FAULT_FAIL, KVT_DENIED, BLOCKS * 4);
    report = pass(g, "tenant", true);
    assert_true(report.failed > 0);
    test_gateway_fault(g, G4_DELETE, G4_FAULT_FAIL, KVT_DENIED, 0);
    test_gateway_reopen(g); /* as after a crash */
    gateway_bucket_tier_probe(g->context->tiers.buckets);
    report = pass(g, "tenant", true);
    assert_int_equal(report.failed, 0);
    report = pass(g, "tenant", true);
    assert_int_equal(found(&report), 0);
}

static void
a_wrong_cursor_is_refused(void **state)
{
    static const char *const wrong[] = {":l", "0", "1x", "-w", "2\nkey"};
    struct test_gateway *g = *state;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct gateway_purge_report report;
        char cursor[GATEWAY_PURGE_CURSOR_MAX] = "";
        struct kvt_error err;

        (void)snprintf(cursor, sizeof(cursor), "%s", wrong[i]);
        assert_int_equal(gateway_purge_step(g->context, "tenant", true, cursor, &report, &err),
                         KVT_INVALID);
    }
    assert_int_equal(test_gateway_has(g, 1), KVT_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_names_that_can_be_meant),
        cmocka_unit_test_setup_teardown(what_nobody_was_told_of_goes_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_model_is_only_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pins_do_not_keep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failure_is_told_and_mended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_cursor_is_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
