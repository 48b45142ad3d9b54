/*
 * What is tested: gateway/block/backlog.h and fault.h where an acknowledged block cannot come into
 * the bucket.  What is lost is told, once and by all means, and nothing is called lost that is not.
 */
#include <string.h>

#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/quarantine.h"

#include "tests/unit/gateway/support/waiting.h"

enum { SIZE = TEST_WAITING_SIZE, ROOM = 1 << 20 };

/* Another gateway put other bytes first: they win, and ours are told to be lost. */
static void
came_second(void **state)
{
    struct test_waiting w;
    struct g4_request head;
    char key[KVT_KEY_MAX];
    char text[TEST_WAITING_EVENTS];

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(test_waiting_plant(w.gateway.bucket, 1, 99), KVT_OK);
    assert_int_equal(test_waiting_round(&w), 0);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_LOST), 1);
    assert_int_equal(gateway_quarantine_count(w.gateway.context->quarantine), 1);
    assert_int_equal(test_waiting_blocks(&w), 0);
    assert_int_equal(test_gateway_tiers(&w.gateway, 1, NULL), 0);
    assert_string_equal(test_waiting_events(&w, text), "+hot -hot");
    assert_int_equal(test_gateway_store_head(w.gateway.bucket, test_gateway_key(key, 1), &head),
                     KVT_OK);
    assert_string_equal(head.meta.writer, "gw1");
    assert_int_equal(
        test_gateway_store_head(w.gateway.context->tiers.hot, test_gateway_key(key, 1), &head),
        KVT_NOTFOUND);
    test_waiting_close(&w);
}

/* The only copy is damaged, or gone, before its upload. */
static void
damage_is_told(void **state)
{
    struct test_waiting w;

    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        char key[KVT_KEY_MAX];
        char text[TEST_WAITING_EVENTS];
        struct g4_request drop = {.verb = G4_DELETE, .key = test_gateway_key(key, 1)};

        test_waiting_open(&w, ROOM);
        assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
        if (way == 0)
            assert_int_equal(g4_store_perform(w.gateway.context->tiers.hot, &drop), KVT_OK);
        else
            assert_int_equal(test_waiting_plant(w.gateway.context->tiers.hot, 1, 99), KVT_OK);
        if (way < 2)
            assert_int_equal(test_waiting_round(&w), 0);
        else
            assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, NULL), KVT_NOTFOUND);
        assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_LOST), 1);
        assert_int_equal(gateway_quarantine_count(w.gateway.context->quarantine), way > 0);
        assert_int_equal(test_waiting_blocks(&w), 0);
        assert_int_equal(test_gateway_has(&w.gateway, 1), KVT_NOTFOUND);
        assert_string_equal(test_waiting_events(&w, text), "+hot -hot");
        assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK); /* it may come again */
        test_waiting_drain(&w);
        assert_true(test_waiting_arrived(&w, 1, SIZE));
        test_waiting_close(&w);
    }
}

/* Damaged, but an upload whose answer was lost did bring it: nothing is lost. */
static void
damage_after_an_upload_nobody_knows_of(void **state)
{
    struct test_waiting w;

    (void)state;
    for (unsigned way = 0; way < 2; way++) {
        test_waiting_open(&w, ROOM);
        assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
        test_gateway_fault(&w.gateway, G4_PUT, G4_FAULT_LOSE, KVT_IO, 1);
        assert_int_equal(test_waiting_round(&w), 0);
        assert_int_equal(test_waiting_plant(w.gateway.context->tiers.hot, 1, 99), KVT_OK);
        if (way == 0)
            test_waiting_drain(&w);
        else
            assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, NULL), KVT_OK);
        assert_int_equal(test_gateway_tiers(&w.gateway, 1, NULL), GATEWAY_COLD);
        assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_LOST), 0);
        assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_UPLOADED), 1);
        assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, NULL), KVT_OK);
        test_waiting_close(&w);
    }
}

/* A damaged copy is no loss before the bucket was asked. */
static void
damage_while_the_bucket_is_away(void **state)
{
    struct test_waiting w;

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(test_waiting_plant(w.gateway.context->tiers.hot, 1, 99), KVT_OK);
    test_gateway_fault(&w.gateway, G4_GET, G4_FAULT_FAIL, KVT_UNAVAILABLE, 1);
    (void)gateway_bucket_tier_ended(w.gateway.context->tiers.buckets, KVT_UNAVAILABLE);
    assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, NULL), KVT_UNAVAILABLE);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_LOST), 0);
    gateway_bucket_tier_probe(w.gateway.context->tiers.buckets);
    test_gateway_fault(&w.gateway, G4_HEAD, G4_FAULT_FAIL, KVT_IO, 1); /* it stutters */
    assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, NULL), KVT_NOTFOUND);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_LOST), 0);
    assert_int_equal(test_waiting_blocks(&w), 1);
    test_waiting_drain(&w);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_LOST), 1);
    test_waiting_close(&w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(came_second),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(damage_after_an_upload_nobody_knows_of),
        cmocka_unit_test(damage_while_the_bucket_is_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
