/*
 * What is tested: gateway/block/put.h where a key is taken, or a row was there before.  What
 * somebody was told is stored stays stored, whatever a later PUT of the key meets.
 */
#include <string.h>

#include "g4/object/check.h"
#include "gateway/block/damage.h"
#include "gateway/block/removal.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"

#include "tests/unit/gateway/support/support.h"

enum { SIZE = 5000, HOT = 1 << 20 };

/* Another gateway's sound block under the key of `number`, with the bytes of `content`. */
static uint32_t
plant(struct test_gateway *g, uint64_t number, uint64_t content)
{
    struct g4_meta meta = {.present = true, .length = SIZE, .fingerprint = 7, .writer = "gw1"};
    uint8_t body[SIZE];
    char key[KVT_KEY_MAX];

    test_gateway_fill(body, SIZE, content);
    meta.crc32c = g4_check_crc32c(body, SIZE);
    assert_int_equal(
        test_gateway_store_put(g->bucket, test_gateway_key(key, number), body, SIZE, &meta),
        KVT_OK);
    return meta.crc32c;
}

/* A read that fails half-way is no verdict: the other gateway's block is not written over. */
static void
unread_object_stays(void **state)
{
    struct g4_request head;
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    uint32_t crc32c;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    crc32c = plant(&g, 1, 99);
    test_gateway_fault(&g, G4_GET, G4_FAULT_LOSE, KVT_IO, 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_AGAIN);
    assert_int_equal(test_gateway_store_head(g.bucket, test_gateway_key(key, 1), &head), KVT_OK);
    assert_int_equal(head.meta.crc32c, crc32c);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_PRECONDITION);
    test_gateway_close(&g);
}

/* Neither is one that there was no memory to read. */
static void
object_waits_for_memory(void **state)
{
    struct gateway_budget budget = {.max = SIZE - 1};
    struct g4_request head;
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    uint32_t crc32c;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    g.options.budget = &budget;
    test_gateway_reopen(&g);
    crc32c = plant(&g, 1, 99);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_AGAIN);
    assert_int_equal(test_gateway_store_head(g.bucket, test_gateway_key(key, 1), &head), KVT_OK);
    assert_int_equal(head.meta.crc32c, crc32c);
    budget.max = SIZE;
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_PRECONDITION);
    assert_int_equal(budget.used, 0);
    test_gateway_close(&g);
}

/* A bucket that is not there (its GETs say so, its HEADs cannot) makes nobody forget anything. */
static void
missing_bucket_forgets_nothing(void **state)
{
    struct test_gateway g;
    enum gateway_state row;

    (void)state;
    test_gateway_open(&g, 0, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_LOSE, KVT_IO, 1);
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_AGAIN);
    test_gateway_fault(&g, G4_GET, G4_FAULT_FAIL, KVT_UNAVAILABLE, 3);
    test_gateway_fault(&g, G4_HEAD, G4_FAULT_FAIL, KVT_NOTFOUND, 3);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_UNAVAILABLE);
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    assert_int_equal(gateway_recover_pending(g.context), 0);
    assert_int_equal(test_gateway_tiers(&g, 2, &row), GATEWAY_COLD);
    assert_int_equal(row, GATEWAY_INTENT);
    test_gateway_fault(&g, G4_GET, G4_FAULT_NONE, KVT_OK, 0);
    test_gateway_fault(&g, G4_HEAD, G4_FAULT_NONE, KVT_OK, 0);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    assert_int_equal(gateway_recover_pending(g.context), 1);
    assert_int_equal(test_gateway_get(&g, 2, SIZE, NULL), KVT_OK);
    test_gateway_close(&g);
}

/* Store block `number` and take its copy in the bucket away as if it had been bad: only the hot one
 * is left. */
static void
store_hot_only(struct test_gateway *g, uint64_t number)
{
    struct g4_request request = {.verb = G4_DELETE};
    char key[KVT_KEY_MAX];
    struct gateway_change change = {.key = test_gateway_key(key, number)};

    assert_int_equal(test_gateway_put(g, number, SIZE), KVT_OK);
    request.key = key;
    assert_int_equal(g4_store_perform(g->bucket, &request), KVT_OK);
    assert_int_equal(gateway_catalog_get(g->context->catalog, key, &change.record), KVT_OK);
    change.record.tiers = GATEWAY_HOT;
    assert_int_equal(gateway_catalog_change(g->context->catalog, &change, 1, GATEWAY_DURABLE),
                     KVT_OK);
}

static void
hot_copy_is_the_first_writer(void **state)
{
    struct test_gateway g;
    unsigned tier;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    store_hot_only(&g, 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE - 1), KVT_PRECONDITION);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK); /* the same bytes: both tiers again */
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    test_gateway_close(&g);
}

/* The bucket refuses, or the PUT is cut short: the acknowledged hot copy is still served. */
static void
hot_copy_survives_a_failed_put(void **state)
{
    struct test_gateway g;
    enum gateway_state row;
    unsigned tier;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    store_hot_only(&g, 1);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_DENIED, 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_DENIED);
    assert_int_equal(test_gateway_tiers(&g, 1, &row), GATEWAY_HOT);
    assert_int_equal(row, GATEWAY_STORED);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);

    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_IO, 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_AGAIN);
    assert_int_equal(test_gateway_put(&g, 1, SIZE - 1), KVT_PRECONDITION);
    test_gateway_reopen(&g);
    assert_int_equal(gateway_recover_pending(g.context), 1);
    assert_int_equal(test_gateway_tiers(&g, 1, &row), GATEWAY_HOT);
    assert_int_equal(row, GATEWAY_STORED);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);
    test_gateway_close(&g);
}

/* A removal under way is not forgotten because a PUT of the key was refused. */
static void
refused_put_leaves_the_removal(void **state)
{
    struct test_gateway g;
    enum gateway_state row;
    char key[KVT_KEY_MAX];
    const char *name = test_gateway_key(key, 1);
    struct g4_request head;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(gateway_removal_mark(g.context, &name, 1), KVT_OK);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_DENIED, 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_DENIED);
    assert_int_not_equal(test_gateway_tiers(&g, 1, &row), 0);
    assert_int_equal(row, GATEWAY_RETIRING);
    assert_int_equal(gateway_recover_pending(g.context), 1);
    assert_int_equal(test_gateway_store_head(g.bucket, name, &head), KVT_NOTFOUND);
    test_gateway_close(&g);
}

/* One call names a key twice, with other bytes: the first is stored and stays, whole. */
static void
key_twice_in_one_call(void **state)
{
    struct gateway_put_item items[3];
    uint8_t bodies[3][SIZE];
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    char other[KVT_KEY_MAX];

    (void)state;
    test_gateway_open(&g, HOT, 0);
    for (unsigned i = 0; i < 3; i++) {
        test_gateway_fill(bodies[i], SIZE, i == 1 ? 2 : i + 1);
        items[i] = (struct gateway_put_item){.key = i == 1 ? test_gateway_key(other, 2)
                                                           : test_gateway_key(key, 1),
                                             .body = bodies[i],
                                             .size = SIZE,
                                             .crc32c = g4_check_crc32c(bodies[i], SIZE)};
    }
    gateway_put_blocks(g.context, items, 3);
    assert_int_equal(items[0].status, KVT_OK);
    assert_int_equal(items[1].status, KVT_OK);
    assert_int_equal(items[2].status, KVT_AGAIN);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    gateway_put_blocks(g.context, &items[2], 1); /* asked again, it learns the truth */
    assert_int_equal(items[2].status, KVT_PRECONDITION);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    test_gateway_close(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unread_object_stays),
        cmocka_unit_test(object_waits_for_memory),
        cmocka_unit_test(missing_bucket_forgets_nothing),
        cmocka_unit_test(hot_copy_is_the_first_writer),
        cmocka_unit_test(hot_copy_survives_a_failed_put),
        cmocka_unit_test(refused_put_leaves_the_removal),
        cmocka_unit_test(key_twice_in_one_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
