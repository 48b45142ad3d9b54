/*
 * What is tested: g4/s3/s3_xml.h: pages as S3 servers write them, in any pieces, and what must be
 * refused: other documents, endless ones, entities, too many rows.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "g4/s3/s3_xml.h"

#include "tests/support/seed.h"

#define HEAD                                                                                       \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3/doc/\">"
#define ROW(key)                                                                                   \
    "<Contents><Key>" key "</Key><LastModified>2026-01-31T23:59:59.123Z</LastModified>"            \
    "<ETag>&quot;abc-1&quot;</ETag><Size>42</Size><Owner><ID>Key</ID></Owner></Contents>"

struct page {
    struct g4_request request;
    struct kvt_error err;
};

static int
set_up(void **state)
{
    struct page *page = kvt_calloc(1, sizeof(*page));

    page->request.key = "";
    page->request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*page->request.listed));
    *state = page;
    return 0;
}

static int
tear_down(void **state)
{
    struct page *page = *state;

    kvt_free(page->request.listed);
    kvt_free(page);
    return 0;
}

/* Parse `text` in pieces of `step` bytes. */
static enum kvt_err
parse(struct page *page, const char *text, size_t step)
{
    const size_t size = strlen(text);
    struct g4_s3_xml *listing;
    enum kvt_err rc;

    rc = g4_s3_xml_new(&listing, &page->request);
    for (size_t at = 0; at < size && rc == KVT_OK; at += step)
        rc = g4_s3_xml_feed(listing, text + at, size - at < step ? size - at : step, &page->err);
    if (rc == KVT_OK)
        rc = g4_s3_xml_end(listing, &page->err);
    g4_s3_xml_free(listing);
    return rc;
}

static void
pages_parse_in_any_pieces(void **state)
{
    static const char text[] =
        HEAD "<Name>b</Name><IsTruncated>true</IsTruncated>" ROW("a%2Fb+c%3A%2B")
            ROW("caf%C3%A9") "<NextContinuationToken>tok/en=</NextContinuationToken>"
                             "<EncodingType>url</EncodingType></ListBucketResult>";
    struct page *page = *state;

    for (size_t step = 1; step < sizeof(text); step++) {
        assert_int_equal(parse(page, text, step), KVT_OK);
        assert_int_equal(page->request.listed_count, 2);
        assert_string_equal(page->request.listed[0].key, "a/b c:+");
        assert_string_equal(page->request.listed[1].key, "caf\xc3\xa9");
        assert_string_equal(page->request.listed[0].etag, "abc-1");
        assert_int_equal(page->request.listed[0].size, 42);
        assert_true(page->request.listed[0].modified_ms == UINT64_C(1769903999123));
        assert_string_equal(g4_s3_xml_token(page->request.token), "tok/en=");
        memset(page->request.token, 0, sizeof(page->request.token));
    }
}

static void
keys_are_as_they_stand_without_an_encoding(void **state)
{
    struct page *page = *state;

    assert_int_equal(parse(page, HEAD ROW("a+b%20&amp;&lt;") "</ListBucketResult>", 7), KVT_OK);
    assert_int_equal(page->request.listed_count, 1);
    assert_string_equal(page->request.listed[0].key, "a+b%20&<");
    assert_string_equal(page->request.token, "");
}

/* Keys of others may be longer than any of ours: the page is still a page. */
static void
keys_that_cannot_be_ours_are_left_out(void **state)
{
    struct page *page = *state;
    char text[8192];
    char key[2000];

    memset(key, 'k', sizeof(key));
    key[sizeof(key) - 1] = '\0';
    (void)snprintf(
        text, sizeof(text),
        HEAD "<Contents><Key>%s</Key><Size>1</Size></Contents>" ROW("ours") "</ListBucketResult>",
        key);
    assert_int_equal(parse(page, text, 100), KVT_OK);
    assert_int_equal(page->request.listed_count, 1);
    assert_string_equal(page->request.listed[0].key, "ours");
    key[KVT_KEY_MAX] = '\0';
    (void)snprintf(text, sizeof(text),
                   HEAD "<Contents><Key>%s</Key><Size>1</Size></Contents></ListBucketResult>", key);
    assert_int_equal(parse(page, text, 100), KVT_OK);
    assert_int_equal(page->request.listed_count, 0);
    (void)snprintf(text, sizeof(text),
                   HEAD "<EncodingType>url</EncodingType>" ROW("a%%00b") "</ListBucketResult>");
    assert_int_equal(parse(page, text, 100), KVT_OK);
    assert_int_equal(page->request.listed_count, 0);
}

static void
other_documents_are_refused_with_a_line(void **state)
{
    static const char *const texts[] = {
        "",
        "not xml",
        "<Error><Code>NoSuchBucket</Code></Error>",
        HEAD "\n\n<Contents>",
        HEAD ROW("a"),
        HEAD "</Other>",
        HEAD "<Contents><Size>many</Size></Contents></ListBucketResult>",
        HEAD "<IsTruncated>true</IsTruncated></ListBucketResult>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult></ListBucketResult>",
        HEAD "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>",
        HEAD "</ListBucketResult>more",
        HEAD "<Contents><Size>1</Size></Contents></ListBucketResult>",
        HEAD "<Contents><Key>a</Key></Contents></ListBucketResult>",
        HEAD "<Contents><Key>a</Key><Key>b</Key><Size>1</Size></Contents></ListBucketResult>",
        HEAD "<Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        HEAD "<Contents><Key>a</Key><Size>+1</Size></Contents></ListBucketResult>",
        HEAD "<Contents><Key>a</Key><Size>18446744073709551616</Size></Contents>"
             "</ListBucketResult>",
        HEAD "<Contents><Key>a</Key><Size>9223372036854775807</Size></Contents>"
             "</ListBucketResult>",
        HEAD ROW("a") ROW("a") "</ListBucketResult>",
        HEAD ROW("b") ROW("a") "</ListBucketResult>",
    };
    struct page *page = *state;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        memset(&page->err, 0, sizeof(page->err));
        assert_int_equal(parse(page, texts[i], 3), KVT_IO);
        assert_string_not_equal(page->err.text, "");
    }
    assert_int_equal(parse(page, HEAD "\n\n<a>\n</b>", 100), KVT_IO);
    assert_non_null(strstr(page->err.text, "line 5"));
}

static void
too_many_rows_and_endless_tokens_are_refused(void **state)
{
    struct page *page = *state;
    struct kvt_buffer text;

    kvt_buffer_init(&text, 1 << 20);
    kvt_buffer_printf(&text, HEAD);
    for (int i = 0; i <= G4_LIST_KEYS_MAX; i++)
        kvt_buffer_printf(&text, "<Contents><Key>%04d</Key><Size>1</Size></Contents>", i);
    kvt_buffer_printf(&text, "</ListBucketResult>");
    assert_int_equal(parse(page, kvt_buffer_text(&text), 4096), KVT_IO);
    kvt_buffer_clear(&text);
    kvt_buffer_printf(&text, HEAD "<IsTruncated>true</IsTruncated><NextContinuationToken>");
    for (int i = 0; i < 2 * G4_TOKEN_MAX; i++)
        kvt_buffer_append(&text, "t", 1);
    kvt_buffer_printf(&text, "</NextContinuationToken></ListBucketResult>");
    assert_int_equal(parse(page, kvt_buffer_text(&text), 4096), KVT_IO);
    kvt_buffer_release(&text);
}

/* Another tenant's names, or a listing without an end. */
static void
pages_that_do_not_get_on_are_refused(void **state)
{
    static const char more[] = HEAD
        "<IsTruncated>true</IsTruncated>" ROW("a") "<NextContinuationToken>1"
                                                   "</NextContinuationToken></ListBucketResult>";
    static const char empty[] =
        HEAD "<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>"
             "</ListBucketResult>";
    struct page *page = *state;
    enum kvt_err rc = KVT_OK;
    char text[512];
    int pages = 0;

    page->request.key = "b/";
    assert_int_equal(parse(page, HEAD ROW("b/1") ROW("c") "</ListBucketResult>", 9), KVT_IO);
    page->request.key = "";
    page->request.after = "a";
    assert_int_equal(parse(page, more, 9), KVT_IO);
    page->request.after = NULL;
    assert_int_equal(parse(page, more, 9), KVT_OK);
    assert_int_equal(parse(page, more, 9), KVT_IO); /* the same once more */
    assert_int_equal(parse(page, HEAD ROW("a") "</ListBucketResult>", 9), KVT_IO);
    assert_int_equal(parse(page, HEAD ROW("b") "</ListBucketResult>", 9), KVT_OK);
    assert_string_equal(page->request.token, "");
    for (; rc == KVT_OK && pages < 100000; pages++) {
        (void)snprintf(text, sizeof(text), empty, pages % 2);
        rc = parse(page, text, sizeof(text));
    }
    assert_int_equal(rc, KVT_IO);
    assert_true(pages < 2000);
}

/* expat would keep it whole, and read it from its start with each piece. */
static void
endless_tags_are_refused(void **state)
{
    static const char *const begins[] = {HEAD "<a b=\"", HEAD "<!-- ", HEAD "<a", HEAD "<?a "};
    struct page *page = *state;
    struct kvt_buffer text;

    kvt_buffer_init(&text, 1 << 20);
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        kvt_buffer_clear(&text);
        kvt_buffer_printf(&text, "%s", begins[i]);
        while (text.size < 300000)
            kvt_buffer_append(&text, "aaaaaaaaaa", 10);
        memset(&page->err, 0, sizeof(page->err));
        assert_int_equal(parse(page, kvt_buffer_text(&text), 4096), KVT_IO);
        assert_non_null(strstr(page->err.text, "too long"));
    }
    kvt_buffer_release(&text);
}

static void
error_bodies_give_code_and_message(void **state)
{
    static const char body[] = "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code>"
                               "<Message>Please\nreduce</Message></Error>";
    char code[G4_S3_XML_CODE_MAX];
    char message[G4_S3_XML_MESSAGE_MAX];
    char endless[4096];

    (void)state;
    g4_s3_xml_trouble(body, sizeof(body) - 1, code, message);
    assert_string_equal(code, "SlowDown");
    assert_string_equal(message, "Please reduce");
    g4_s3_xml_trouble("busy", 4, code, message);
    assert_string_equal(code, "");
    memset(endless, 'x', sizeof(endless));
    memcpy(endless, "<Code>", 6);
    g4_s3_xml_trouble(endless, sizeof(endless), code, message);
    assert_int_equal(strlen(code), G4_S3_XML_CODE_MAX - 1);
}

static bool
parse_once(void *arg)
{
    const enum kvt_err rc = parse(arg, HEAD ROW("a") ROW("b") "</ListBucketResult>", 10);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM || rc == KVT_IO);
    return rc == KVT_OK;
}

static void
survives_every_allocation_failure(void **state)
{
    assert_true(test_sweep_allocations(parse_once, *state) >= 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pages_parse_in_any_pieces),
        TEST(keys_are_as_they_stand_without_an_encoding),
        TEST(keys_that_cannot_be_ours_are_left_out),
        TEST(other_documents_are_refused_with_a_line),
        TEST(too_many_rows_and_endless_tokens_are_refused),
        TEST(pages_that_do_not_get_on_are_refused),
        TEST(endless_tags_are_refused),
        TEST(error_bodies_give_code_and_message),
        TEST(survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
