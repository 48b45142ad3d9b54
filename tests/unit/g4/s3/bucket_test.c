/*
 * What is tested: the parsers of g4/s3/bucket.h.
 * How: answers as servers give them, cut at every byte, and rubbish.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/s3/bucket.h"

#include "tests/support/seed.h"

static const char rules_text[] =
    "<?xml version=\"1.0\"?><LifecycleConfiguration "
    "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
    "<Rule><ID>a</ID><Status>Enabled</Status><Filter><Prefix>0/</Prefix></Filter>"
    "<Expiration><Days>30</Days></Expiration>"
    "<AbortIncompleteMultipartUpload><DaysAfterInitiation>3</DaysAfterInitiation>"
    "</AbortIncompleteMultipartUpload></Rule>"
    "<Rule><ID>b</ID><Status>Disabled</Status><Filter><And><Prefix>t/</Prefix><Tag><Key>k</Key>"
    "<Value>v</Value></Tag></And></Filter><Transition><Days>1</Days></Transition></Rule>"
    "<Rule><Status>Enabled</Status><Prefix></Prefix><NoncurrentVersionExpiration>"
    "<NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"
    "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>"
    "</LifecycleConfiguration>";

static void
rules_are_read(void **state)
{
    static struct g4_bucket_settings settings;

    (void)state;
    memset(&settings, 0, sizeof(settings));
    g4_bucket_parse_rules(rules_text, sizeof(rules_text) - 1, &settings);
    assert_int_equal(settings.lifecycle, G4_BUCKET_ON);
    assert_int_equal(settings.rule_count, 3);
    assert_string_equal(settings.rules[0].name, "a");
    assert_string_equal(settings.rules[0].prefix, "0/");
    assert_true(settings.rules[0].enabled && settings.rules[0].expires);
    assert_int_equal(settings.rules[0].days, 30);
    assert_int_equal(settings.rules[0].abort_days, 3);
    assert_false(settings.rules[1].enabled);
    assert_true(settings.rules[1].narrowed && settings.rules[1].moves);
    assert_false(settings.rules[1].expires); /* the days are the move's */
    assert_true(settings.rules[2].old_versions);
    assert_false(settings.rules[2].expires); /* delete markers are no objects */
    assert_string_equal(settings.rules[2].prefix, "");
}

static void
more_rules_than_fit_are_said(void **state)
{
    static struct g4_bucket_settings settings;
    static char text[(G4_BUCKET_RULES_MAX + 1) * 16 + 1];

    (void)state;
    memset(&settings, 0, sizeof(settings));
    for (size_t i = 0; i <= G4_BUCKET_RULES_MAX; i++)
        memcpy(text + 16 * i, "<Rule>   </Rule>", 16);
    g4_bucket_parse_rules(text, sizeof(text) - 1, &settings);
    assert_int_equal(settings.rule_count, G4_BUCKET_RULES_MAX);
    assert_true(settings.more_rules);
}

static void
versions_and_locks_are_read(void **state)
{
    static struct g4_bucket_settings settings;
    static const char lock[] =
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>"
        "<DefaultRetention><Mode>GOVERNANCE</Mode><Years>1</Years></DefaultRetention></Rule>"
        "</ObjectLockConfiguration>";
    static const char on[] = "<V><Status>Enabled</Status></V>";
    static const char suspended[] = "<V><Status>Suspended</Status></V>";

    (void)state;
    memset(&settings, 0, sizeof(settings));
    g4_bucket_parse_versions("<V/>", 4, &settings);
    assert_int_equal(settings.versions, G4_BUCKET_OFF);
    g4_bucket_parse_versions(on, sizeof(on) - 1, &settings);
    assert_int_equal(settings.versions, G4_BUCKET_ON);
    g4_bucket_parse_versions(suspended, sizeof(suspended) - 1, &settings);
    assert_int_equal(settings.versions, G4_BUCKET_SUSPENDED);
    g4_bucket_parse_locks(lock, sizeof(lock) - 1, &settings);
    assert_int_equal(settings.locks, G4_BUCKET_ON);
    assert_int_equal(settings.lock_days, 365);
    g4_bucket_parse_locks("", 0, &settings);
    assert_int_equal(settings.locks, G4_BUCKET_OFF);
}

static const char uploads_text[] =
    "<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
    "<NextKeyMarker>b%2Fc+d</NextKeyMarker><NextUploadIdMarker>u2</NextUploadIdMarker>"
    "<Upload><Key>a</Key><UploadId>u1</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated>"
    "</Upload><Upload><Key>b%2Fc+d</Key><UploadId>u2</UploadId><Initiated>soon</Initiated></Upload>"
    "<Upload><Key>no id</Key></Upload></ListMultipartUploadsResult>";

static void
uploads_are_read_page_by_page(void **state)
{
    static struct g4_bucket_uploads page;
    static const char last[] = "<ListMultipartUploadsResult/>";
    static const char raw[] = "<Upload><Key>a+b%2F</Key><UploadId>u</UploadId></Upload>"
                              "<Upload><Key>a&amp;b</Key><UploadId>u</UploadId></Upload>";

    (void)state;
    g4_bucket_parse_uploads(uploads_text, sizeof(uploads_text) - 1, &page);
    assert_int_equal(page.count, 2);
    assert_string_equal(page.rows[0].key, "a");
    assert_string_equal(page.rows[0].id, "u1");
    assert_true(page.rows[0].begun_ms == UINT64_C(1767225600000));
    assert_string_equal(page.rows[1].key, "b/c d");
    assert_int_equal(page.rows[1].begun_ms, 0);
    assert_string_equal(page.key_marker, "b/c d");
    assert_string_equal(page.id_marker, "u2");
    g4_bucket_parse_uploads(raw, sizeof(raw) - 1, &page);
    assert_int_equal(page.count, 1);
    assert_string_equal(page.rows[0].key, "a+b%2F");
    g4_bucket_parse_uploads(last, sizeof(last) - 1, &page);
    assert_int_equal(page.count, 0);
    assert_string_equal(page.key_marker, "");
}

/* Bounds are the sanitizer's to judge: the copy has no byte behind it. */
static void
damaged_answers_do_no_harm(void **state)
{
    static struct g4_bucket_settings settings;
    static struct g4_bucket_uploads page;
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 400; round++) {
        const bool rules = kvt_random_below(&random, 2) == 0;
        const char *text = rules ? rules_text : uploads_text;
        const size_t whole = rules ? sizeof(rules_text) - 1 : sizeof(uploads_text) - 1;
        const size_t size = (size_t)kvt_random_below(&random, whole + 1);
        char *copy = kvt_calloc(1, size == 0 ? 1 : size);

        assert_non_null(copy);
        memcpy(copy, text, size);
        for (uint64_t i = kvt_random_below(&random, 4); size > 0 && i > 0; i--)
            copy[kvt_random_below(&random, size)] = (char)kvt_random_below(&random, 256);
        memset(&settings, 0, sizeof(settings));
        g4_bucket_parse_rules(copy, size, &settings);
        g4_bucket_parse_versions(copy, size, &settings);
        g4_bucket_parse_locks(copy, size, &settings);
        g4_bucket_parse_uploads(copy, size, &page);
        assert_true(settings.rule_count <= 3 && page.count <= 3);
        kvt_free(copy);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_read),
        cmocka_unit_test(more_rules_than_fit_are_said),
        cmocka_unit_test(versions_and_locks_are_read),
        cmocka_unit_test(uploads_are_read_page_by_page),
        cmocka_unit_test(damaged_answers_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
