/*
 * What is tested: gateway/block/put.h and recover.h for objects that are no blocks: whose object
 * it is that a condition met, and what the catalog says of one whose PUT nobody saw the end of.
 */
#include <stdio.h>
#include <string.h>

#include "g4/object/check.h"
#include "gateway/http/attributes.h"
#include "gateway/move/recover.h"

#include "tests/unit/gateway/support/support.h"

#define KEY "locks/a-b.md"

/* PUT `text`, with `shown` as the ETag for clients; `etag` in for G4_IF_MATCH, and out. */
static enum kvt_err
put(struct test_gateway *g, const char *text, const char *shown, enum g4_condition condition,
    char etag[G4_ETAG_MAX])
{
    char attributes[G4_ATTRIBUTES_MAX] = "";
    struct gateway_put_item item = {.key = KEY,
                                    .body = text,
                                    .size = strlen(text),
                                    .crc32c = g4_check_crc32c(text, strlen(text)),
                                    .attributes = attributes,
                                    .shown = shown};
    enum kvt_err rc;

    assert_true(gateway_attribute_lines_add(attributes, GATEWAY_ATTRIBUTE_ETAG, shown));
    memcpy(item.etag, etag, G4_ETAG_MAX);
    rc = gateway_put_opaque(g->context, &item, condition);
    memcpy(etag, item.etag, G4_ETAG_MAX);
    return rc;
}

static struct gateway_record
row(struct test_gateway *g)
{
    struct gateway_record record;

    assert_int_equal(gateway_catalog_get(g->context->catalog, KEY, &record), KVT_OK);
    return record;
}

/* The store did it, was asked again, and found what it had done. */
static void
own_object_is_recognised(void **state)
{
    char etag[G4_ETAG_MAX] = "";
    struct g4_request head;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 0, 0);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_LOSE, KVT_EXISTS, 1);
    assert_int_equal(put(&g, "one", "e1", G4_IF_ABSENT, etag), KVT_OK);
    assert_int_equal(test_gateway_store_head(g.bucket, KEY, &head), KVT_OK);
    assert_string_equal(etag, head.etag);
    assert_int_equal(row(&g).state, GATEWAY_STORED);
    assert_string_equal(row(&g).etag, head.etag);

    test_gateway_fault(&g, G4_PUT, G4_FAULT_LOSE, KVT_PRECONDITION, 1);
    assert_int_equal(put(&g, "three", "e2", G4_IF_MATCH, etag), KVT_OK);
    assert_string_not_equal(etag, head.etag);
    assert_int_equal(row(&g).length, 5);
    assert_string_equal(row(&g).etag, etag);
    test_gateway_close(&g);
}

/* Another writer may put the same bytes: that is not our success. */
static void
equal_content_is_anothers(void **state)
{
    char etag[G4_ETAG_MAX] = "";
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 0, 0);
    assert_int_equal(put(&g, "same", "e", G4_IF_ABSENT, etag), KVT_OK);
    assert_int_equal(put(&g, "same", "e", G4_IF_ABSENT, etag), KVT_EXISTS);
    assert_int_equal(put(&g, "same", "e", G4_ALWAYS, etag), KVT_OK);
    assert_int_equal(put(&g, "same", "e", G4_IF_ABSENT, etag), KVT_EXISTS);
    (void)snprintf(etag, sizeof(etag), "another");
    assert_int_equal(put(&g, "same", "e", G4_IF_MATCH, etag), KVT_PRECONDITION);
    assert_int_equal(row(&g).state, GATEWAY_STORED);
    test_gateway_close(&g);
}

/* As long as nobody can say whose it is, nothing is said: the intent finds out. */
static void
unknown_is_settled_later(void **state)
{
    char etag[G4_ETAG_MAX] = "";
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 0, 0);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_LOSE, KVT_EXISTS, 1);
    test_gateway_fault(&g, G4_HEAD, G4_FAULT_FAIL, KVT_IO, 1);
    assert_int_equal(put(&g, "one", "e1", G4_IF_ABSENT, etag), KVT_IO);
    assert_int_equal(row(&g).state, GATEWAY_INTENT);
    test_gateway_fault(&g, G4_HEAD, G4_FAULT_FAIL, KVT_DENIED, 1);
    assert_int_equal(put(&g, "one", "e1", G4_IF_ABSENT, etag), KVT_AGAIN);
    assert_int_equal(row(&g).state, GATEWAY_INTENT);
    assert_int_equal(gateway_recover_pending(g.context), 1);
    assert_int_equal(row(&g).state, GATEWAY_STORED);
    assert_string_equal(row(&g).shown, "e1");
    test_gateway_close(&g);
}

/* The PUT failed and what was there stays, with its own ETag for clients. */
static void
settled_object_keeps_its_etag(void **state)
{
    static const struct g4_meta none = {.present = false};
    char etag[G4_ETAG_MAX] = "";
    char first[G4_ETAG_MAX];
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 0, 0);
    assert_int_equal(put(&g, "old", "e-old", G4_ALWAYS, etag), KVT_OK);
    memcpy(first, etag, sizeof(first));
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_IO, 1);
    assert_int_equal(put(&g, "newer", "e-new", G4_ALWAYS, etag), KVT_IO);
    assert_string_equal(row(&g).shown, "e-new");
    assert_int_equal(gateway_recover_pending(g.context), 1);
    assert_int_equal(row(&g).state, GATEWAY_STORED);
    assert_int_equal(row(&g).length, 3);
    assert_string_equal(row(&g).etag, first);
    assert_string_equal(row(&g).shown, "e-old");

    /* One that somebody wrote past us has none but the store's. */
    assert_int_equal(test_gateway_store_put(g.bucket, KEY, "past us", 7, &none), KVT_OK);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_IO, 1);
    assert_int_equal(put(&g, "newer", "e-new", G4_ALWAYS, etag), KVT_IO);
    assert_int_equal(gateway_recover_pending(g.context), 1);
    assert_int_equal(row(&g).length, 7);
    assert_string_equal(row(&g).shown, "");
    test_gateway_close(&g);
}

/* Attributes that leave no room for the nonce: nothing is written. */
static void
nonce_needs_room(void **state)
{
    char attributes[G4_ATTRIBUTES_MAX] = "";
    struct gateway_put_item item = {.key = KEY, .body = "x", .size = 1, .attributes = attributes};
    struct g4_request head;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 0, 0);
    item.crc32c = g4_check_crc32c("x", 1);
    for (unsigned i = 0; i < G4_ATTRIBUTE_LINES; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "x-amz-meta-n%u", i);
        assert_true(gateway_attribute_lines_add(attributes, name, "v"));
    }
    assert_int_equal(gateway_put_opaque(g.context, &item, G4_IF_ABSENT), KVT_INVALID);
    assert_int_equal(test_gateway_store_head(g.bucket, KEY, &head), KVT_NOTFOUND);
    assert_int_equal(gateway_put_opaque(g.context, &item, G4_ALWAYS), KVT_OK);
    test_gateway_close(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_object_is_recognised), cmocka_unit_test(equal_content_is_anothers),
        cmocka_unit_test(unknown_is_settled_later), cmocka_unit_test(settled_object_keeps_its_etag),
        cmocka_unit_test(nonce_needs_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
