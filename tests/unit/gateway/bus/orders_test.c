/*
 * What is tested: gateway/bus/orders.h without a bus: what is refused, what an order does to
 * blocks of several shards, that it may come twice and is then answered with the result kept; pins
 * and warming; and that a deletion whose cause does not hold here changes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "g4/object/check.h"
#include "gateway/admin/gateway_settings.h"
#include "gateway/block/removal.h"
#include "gateway/bus/orders.h"

#include "tests/unit/gateway/support/support.h"

enum { SIZE = 1000, BLOCKS = 4, RANKS = 2 };

static const struct kvt_order plain = {.gateway = "gw0",
                                       .namespace_ = TEST_NAMESPACE,
                                       .epoch = 5,
                                       .id = 1,
                                       .issued_ms = 1000,
                                       .expires_ms = 2000,
                                       .verb = KVT_ORDER_DEMOTE,
                                       .cause = {.kind = KVT_DELETE_JOB, .job = 7}};

static void
refusals(void **state)
{
    struct test_gateway g;
    struct kvt_order order;
    struct kvt_error err;

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    order = plain;
    assert_int_equal(gateway_orders_accept(g.context, &order, 1999, &err), KVT_OK);
    assert_int_equal(gateway_orders_accept(g.context, &order, 1999, &err), KVT_OK); /* twice */
    assert_int_equal(gateway_orders_accept(g.context, &order, 2000, &err), KVT_TIMEOUT);
    (void)snprintf(order.gateway, sizeof(order.gateway), "gw1");
    assert_int_equal(gateway_orders_accept(g.context, &order, 1500, &err), KVT_DENIED);
    order = plain;
    order.verb = KVT_ORDER_NONE;
    assert_int_equal(gateway_orders_accept(g.context, &order, 1500, &err), KVT_INVALID);
    order = plain;
    order.verb = (enum kvt_order_verb)(KVT_ORDER_VERB_LAST + 1);
    assert_int_equal(gateway_orders_accept(g.context, &order, 1500, &err), KVT_INVALID);
    order = plain;
    order.verb = KVT_ORDER_PIN;
    assert_int_equal(gateway_orders_accept(g.context, &order, 1500, &err), KVT_OK);
    order.until_ms = 1501;
    assert_int_equal(gateway_orders_accept(g.context, &order, 1500, &err), KVT_OK);
    assert_int_equal(gateway_orders_accept(g.context, &order, 1501, &err), KVT_TIMEOUT);
    order = plain;
    order.epoch = 0;
    assert_int_equal(gateway_orders_accept(g.context, &order, 1500, &err), KVT_INVALID);
    /* An order that is refused for another reason must not raise the epoch. */
    order = plain;
    order.epoch = 9;
    assert_int_equal(gateway_orders_accept(g.context, &order, 2000, &err), KVT_TIMEOUT);
    assert_int_equal(gateway_orders_accept(g.context, &plain, 1500, &err), KVT_OK);
    order.epoch = 6;
    assert_int_equal(gateway_orders_accept(g.context, &order, 1500, &err), KVT_OK);
    assert_int_equal(gateway_orders_accept(g.context, &plain, 1500, &err), KVT_DENIED);
    test_gateway_reopen(&g); /* the epoch is not forgotten */
    assert_int_equal(gateway_orders_accept(g.context, &plain, 1500, &err), KVT_DENIED);
    test_gateway_close(&g);
}

static struct kvt_block_id
block_of(uint32_t number)
{
    return (struct kvt_block_id){
        .hash = 100 + number, .parent = number == 0 ? 0 : 99 + number, .position = number};
}

static const char *
key_of(char out[KVT_KEY_MAX], uint32_t number, uint32_t rank)
{
    const struct kvt_block_id block = block_of(number);

    assert_int_equal(kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_B, TEST_NAMESPACE, rank, &block),
                     KVT_OK);
    return out;
}

static void
store_all(struct test_gateway *g)
{
    for (uint32_t i = 0; i < BLOCKS * RANKS; i++) {
        char key[KVT_KEY_MAX];
        uint8_t body[SIZE];
        struct gateway_put_item item = {
            .key = key_of(key, i / RANKS, i % RANKS), .body = body, .size = SIZE};

        test_gateway_fill(body, SIZE, i);
        item.crc32c = g4_check_crc32c(body, SIZE);
        gateway_put_blocks(g->context, &item, 1);
        assert_int_equal(item.status, KVT_OK);
    }
}

static unsigned
tiers_of(struct test_gateway *g, uint32_t number, uint32_t rank)
{
    struct gateway_record record;
    char key[KVT_KEY_MAX];

    return gateway_catalog_get(g->context->catalog, key_of(key, number, rank), &record) == KVT_OK
               ? record.tiers
               : 0;
}

static struct kvt_order_result
execute_until(struct test_gateway *g, enum kvt_order_verb verb, uint64_t until_ms,
              struct kvt_order_item *items, uint32_t count)
{
    struct kvt_order order = plain;
    struct kvt_order_result result;

    order.verb = verb;
    order.until_ms = until_ms;
    order.items = items;
    order.item_count = count;
    gateway_orders_execute(g->context, NULL, &order, &result, NULL, NULL);
    assert_int_equal(result.code, KVT_OK);
    assert_int_equal(result.done + result.failed, count);
    return result;
}

static struct kvt_order_result
execute(struct test_gateway *g, enum kvt_order_verb verb, struct kvt_order_item *items,
        uint32_t count)
{
    return execute_until(g, verb, 0, items, count);
}

static void
orders_change_what_they_name(void **state)
{
    struct kvt_order_item items[2] = {{.block = block_of(1), .ranks = 3},
                                      {.block = block_of(2), .ranks = 1}};
    struct kvt_order_result result;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    store_all(&g);
    items[1].block.parent = 0; /* the advisor may not know the parent */
    for (int again = 0; again < 2; again++) {
        result = execute(&g, KVT_ORDER_DEMOTE, items, 2);
        assert_int_equal(result.done, 2);
        assert_int_equal(result.bytes_moved, again == 0 ? 3 * SIZE : 0);
        assert_int_equal(tiers_of(&g, 1, 0), GATEWAY_COLD);
        assert_int_equal(tiers_of(&g, 1, 1), GATEWAY_COLD);
        assert_int_equal(tiers_of(&g, 2, 0), GATEWAY_COLD);
        assert_int_equal(tiers_of(&g, 2, 1), GATEWAY_HOT | GATEWAY_COLD);
        assert_int_equal(tiers_of(&g, 0, 0), GATEWAY_HOT | GATEWAY_COLD);
    }
    result = execute(&g, KVT_ORDER_PROMOTE, items, 2);
    assert_int_equal(result.done, 2);
    assert_int_equal(tiers_of(&g, 1, 1), GATEWAY_HOT | GATEWAY_COLD);
    for (int again = 0; again < 2; again++) {
        result = execute(&g, KVT_ORDER_DELETE, items, 1);
        assert_int_equal(result.done, 1);
        assert_int_equal(tiers_of(&g, 1, 0), 0);
        assert_int_equal(tiers_of(&g, 1, 1), 0);
        assert_int_equal(tiers_of(&g, 2, 0), GATEWAY_HOT | GATEWAY_COLD);
    }
    result = execute(&g, KVT_ORDER_PROMOTE, items, 1); /* it is gone */
    assert_int_equal(result.failed, 1);
    assert_string_not_equal(result.text, "");
    test_gateway_close(&g);
}

/* Another parent is another block, and position 0 has none. */
static void
identity_is_respected(void **state)
{
    struct kvt_order_item items[2] = {{.block = block_of(1), .ranks = 1},
                                      {.block = block_of(0), .ranks = 1}};
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    store_all(&g);
    items[0].block.parent = 0xabcdef;
    (void)execute(&g, KVT_ORDER_DELETE, items, 2);
    assert_int_equal(tiers_of(&g, 1, 0), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(tiers_of(&g, 0, 0), 0);
    assert_int_equal(tiers_of(&g, 0, 1), GATEWAY_HOT | GATEWAY_COLD);
    test_gateway_close(&g);
}

static void
expect_pins(struct test_gateway *g, unsigned blocks)
{
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(g->context->catalog, &stats);
    assert_int_equal(stats.pinned_blocks, blocks);
    assert_int_equal(stats.pinned_bytes, blocks * SIZE);
}

static void
what_is_pinned_stays(void **state)
{
    struct kvt_order_item items[2] = {{.block = block_of(1), .ranks = 3},
                                      {.block = block_of(2), .ranks = 1}};
    struct kvt_order_item one = {.block = block_of(1), .ranks = 1};
    struct kvt_order_result result;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    store_all(&g);
    for (int again = 0; again < 2; again++) {
        result = execute(&g, KVT_ORDER_PIN, &one, 1);
        assert_int_equal(result.done, 1);
        expect_pins(&g, 1);
    }
    for (int again = 0; again < 2; again++) {
        result = execute(&g, KVT_ORDER_DEMOTE, items, 2);
        assert_int_equal(result.done, 1);
        assert_non_null(strstr(result.text, ": pinned"));
        assert_int_equal(tiers_of(&g, 1, 0), GATEWAY_HOT | GATEWAY_COLD);
        assert_int_equal(tiers_of(&g, 1, 1), GATEWAY_COLD); /* the other shard is not */
        assert_int_equal(tiers_of(&g, 2, 0), GATEWAY_COLD);
        test_gateway_reopen(&g); /* and again after a restart */
        expect_pins(&g, 1);
    }
    result = execute(&g, KVT_ORDER_DELETE, items, 2);
    assert_int_equal(result.done, 1);
    assert_non_null(strstr(result.text, ": pinned"));
    assert_int_equal(tiers_of(&g, 1, 0), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(tiers_of(&g, 1, 1), 0);
    assert_int_equal(tiers_of(&g, 2, 0), 0);
    assert_int_equal(gateway_stats_get(&g.stats, GATEWAY_STAT_ITEMS_PINNED), 3);
    for (int again = 0; again < 2; again++) {
        result = execute(&g, KVT_ORDER_UNPIN, items, 2); /* also of what is gone */
        assert_int_equal(result.done, 2);
        expect_pins(&g, 0);
    }
    result = execute(&g, KVT_ORDER_DELETE, items, 2);
    assert_int_equal(result.done, 2);
    assert_int_equal(tiers_of(&g, 1, 0), 0);
    result = execute(&g, KVT_ORDER_PIN, items, 1); /* it is gone */
    assert_int_equal(result.failed, 1);
    assert_non_null(strstr(result.text, kvt_err_text(KVT_NOTFOUND)));
    expect_pins(&g, 0);
    test_gateway_close(&g);
}

static struct kvt_order_result
execute_edge(struct test_gateway *g, enum kvt_order_verb verb, const char *from, const char *to,
             struct kvt_order_item *item)
{
    struct kvt_order order = plain;
    struct kvt_order_result result;

    order.verb = verb;
    order.items = item;
    order.item_count = 1;
    (void)snprintf(order.from, sizeof(order.from), "%s", from);
    (void)snprintf(order.to, sizeof(order.to), "%s", to);
    assert_true(gateway_orders_execute(g->context, NULL, &order, &result, NULL, NULL));
    assert_int_equal(result.code, KVT_OK);
    return result;
}

/* Whatever the verb says: along an edge that leads downwards the copy above goes. */
static void
no_verb_takes_down_what_is_pinned(void **state)
{
    static const enum kvt_order_verb verbs[] = {KVT_ORDER_DEMOTE, KVT_ORDER_PROMOTE,
                                                KVT_ORDER_WARM};
    static const char *const below[] = {"warm@gw0", "cold@kvtier", "cold@attic"};
    struct kvt_order_item items[2] = {{.block = block_of(1), .ranks = 1},
                                      {.block = block_of(2), .ranks = 1}};
    struct kvt_order_result result;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    test_gateway_extend(&g, 1u << 20, 0);
    store_all(&g);
    assert_int_equal(execute(&g, KVT_ORDER_PIN, items, 1).done, 1);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        for (size_t to = 0; to < sizeof(below) / sizeof(below[0]); to++) {
            result = execute_edge(&g, verbs[i], "hot@gw0", below[to], items);
            assert_int_equal(result.failed, 1);
            assert_non_null(strstr(result.text, ": pinned"));
            assert_int_equal(tiers_of(&g, 1, 0), GATEWAY_HOT | GATEWAY_COLD);
        }
        /* What is not pinned goes, and comes back. */
        assert_int_equal(execute_edge(&g, verbs[i], "hot@gw0", "warm@gw0", items + 1).done, 1);
        assert_int_equal(tiers_of(&g, 2, 0), GATEWAY_WARM | GATEWAY_COLD);
        assert_int_equal(execute_edge(&g, KVT_ORDER_PROMOTE, "warm@gw0", "hot@gw0", items + 1).done,
                         1);
    }
    /* Upwards a pin stops nothing. */
    assert_int_equal(execute(&g, KVT_ORDER_UNPIN, items, 1).done, 1);
    assert_int_equal(execute_edge(&g, KVT_ORDER_DEMOTE, "hot@gw0", "warm@gw0", items).done, 1);
    assert_int_equal(execute(&g, KVT_ORDER_PIN, items, 1).done, 1);
    assert_int_equal(execute_edge(&g, KVT_ORDER_PROMOTE, "warm@gw0", "hot@gw0", items).done, 1);
    assert_int_equal(tiers_of(&g, 1, 0), GATEWAY_HOT | GATEWAY_COLD);
    test_gateway_close(&g);
}

static void
pins_end(void **state)
{
    struct kvt_order_item item = {.block = block_of(1), .ranks = 1};
    struct test_gateway g;
    char key[KVT_KEY_MAX];

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    store_all(&g);
    (void)execute_until(&g, KVT_ORDER_PIN, UINT64_MAX, &item, 1);
    assert_int_equal(execute(&g, KVT_ORDER_DEMOTE, &item, 1).failed, 1);
    /* The later order counts, and an end that was is no pin, swept or not. */
    (void)execute_until(&g, KVT_ORDER_PIN, 1, &item, 1);
    expect_pins(&g, 1);
    assert_int_equal(execute(&g, KVT_ORDER_DEMOTE, &item, 1).done, 1);
    assert_int_equal(tiers_of(&g, 1, 0), GATEWAY_COLD);
    assert_int_equal(gateway_catalog_expire_pins(g.context->catalog, 2), KVT_OK);
    expect_pins(&g, 0);
    /* Clients remove what they like, and the pin with it. */
    (void)execute(&g, KVT_ORDER_PIN, &item, 1);
    expect_pins(&g, 1);
    assert_int_equal(gateway_remove(g.context, key_of(key, 1, 0)), KVT_OK);
    expect_pins(&g, 0);
    store_all(&g);
    assert_int_equal(execute(&g, KVT_ORDER_DEMOTE, &item, 1).done, 1);
    assert_int_equal(tiers_of(&g, 1, 0), GATEWAY_COLD);
    test_gateway_close(&g);
}

static void
pins_are_bounded(void **state)
{
    struct kvt_order_item items[2] = {{.block = block_of(1), .ranks = 1},
                                      {.block = block_of(2), .ranks = 1}};
    struct kvt_order_result result;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, (uint64_t)GATEWAY_PIN_SHARE * SIZE, 0);
    store_all(&g);
    for (int again = 0; again < 2; again++) {
        result = execute(&g, KVT_ORDER_PIN, items, 2);
        assert_int_equal(result.done, 1);
        assert_non_null(strstr(result.text, ": over half of the hot capacity"));
        expect_pins(&g, 1);
    }
    (void)execute(&g, KVT_ORDER_UNPIN, items, 1);
    assert_int_equal(execute(&g, KVT_ORDER_PIN, items + 1, 1).done, 1);
    test_gateway_close(&g);
    test_gateway_open(&g, 0, 0); /* without a hot volume */
    store_all(&g);
    assert_int_equal(execute(&g, KVT_ORDER_PIN, items, 1).failed, 1);
    test_gateway_close(&g);
}

static void
warming_takes_the_room_there_is(void **state)
{
    struct kvt_order_item items[2] = {{.block = block_of(1), .ranks = 3},
                                      {.block = block_of(2), .ranks = 1}};
    struct kvt_order_result result;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, (uint64_t)BLOCKS * RANKS * SIZE, 0);
    store_all(&g);
    (void)execute(&g, KVT_ORDER_DEMOTE, items, 2);
    for (int again = 0; again < 2; again++) {
        result = execute(&g, KVT_ORDER_WARM, items, 2);
        assert_int_equal(result.done, 2);
        assert_int_equal(result.bytes_moved, again == 0 ? 3 * SIZE : 0);
        assert_int_equal(tiers_of(&g, 1, 0), GATEWAY_HOT | GATEWAY_COLD);
        assert_int_equal(tiers_of(&g, 1, 1), GATEWAY_HOT | GATEWAY_COLD);
        assert_int_equal(tiers_of(&g, 2, 0), GATEWAY_HOT | GATEWAY_COLD);
    }
    (void)execute(&g, KVT_ORDER_DEMOTE, items + 1, 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK); /* takes its place */
    result = execute(&g, KVT_ORDER_WARM, items, 2);
    assert_int_equal(result.done, 1);
    assert_non_null(strstr(result.text, kvt_err_text(KVT_FULL)));
    assert_int_equal(tiers_of(&g, 2, 0), GATEWAY_COLD);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    for (uint32_t i = 0; i < BLOCKS * RANKS; i++)
        if (i != 2 * RANKS)
            assert_int_equal(tiers_of(&g, i / RANKS, i % RANKS), GATEWAY_HOT | GATEWAY_COLD);
    (void)execute(&g, KVT_ORDER_DELETE, items, 1);
    assert_int_equal(execute(&g, KVT_ORDER_WARM, items, 1).failed, 1);
    test_gateway_close(&g);
}

/* ---- the cause of a deletion ---- */

static struct kvt_order_result
delete_because(struct test_gateway *g, const struct kvt_delete_cause *cause, uint32_t first,
               uint32_t count)
{
    struct kvt_order_item items[BLOCKS];
    struct kvt_order order = plain;
    struct kvt_order_result result;

    for (uint32_t i = 0; i < count; i++)
        items[i] = (struct kvt_order_item){.block = block_of(first + i), .ranks = 3};
    order.verb = KVT_ORDER_DELETE;
    order.cause = *cause;
    order.items = items;
    order.item_count = count;
    assert_true(gateway_orders_execute(g->context, NULL, &order, &result, NULL, NULL));
    assert_int_equal(result.done + result.failed, count);
    return result;
}

static unsigned
held(struct test_gateway *g)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < BLOCKS * RANKS; i++)
        count += tiers_of(g, i / RANKS, i % RANKS) != 0;
    return count;
}

/* An advisor that was told of a full tier signs a good order: the catalog knows better. */
static void
room_is_made_above_the_mark_alone(void **state)
{
    struct kvt_delete_cause cause = {.kind = KVT_DELETE_ROOM,
                                     .policy_version = 2,
                                     .rule = "cap",
                                     .tier = "cold@kvtier",
                                     .stop_ppm = 900000};
    struct kvt_order_result result;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 1u << 20, (uint64_t)2 * BLOCKS * RANKS * SIZE);
    store_all(&g);
    result = delete_because(&g, &cause, 0, BLOCKS); /* half full */
    assert_int_equal(result.code, KVT_OK);
    assert_int_equal(result.failed, BLOCKS);
    assert_non_null(strstr(result.text, ": not above its stop mark"));
    assert_int_equal(held(&g), BLOCKS * RANKS);
    assert_int_equal(gateway_stats_get(&g.stats, GATEWAY_STAT_DELETES_REFUSED_ROOM), BLOCKS);
    assert_int_equal(atomic_load(&g.context->deletes.refused_kind), KVT_DELETE_ROOM);
    assert_true(atomic_load(&g.context->deletes.refused_ms) > 0);
    (void)snprintf(cause.tier, sizeof(cause.tier), "cold@another");
    result = delete_because(&g, &cause, 0, BLOCKS);
    assert_int_equal(result.code, KVT_DENIED);
    (void)snprintf(cause.tier, sizeof(cause.tier), "warm@gw0"); /* none here */
    assert_int_equal(delete_because(&g, &cause, 0, BLOCKS).code, KVT_DENIED);
    assert_int_equal(held(&g), BLOCKS * RANKS);
    /* From 8 of 16 rows to 5: the rest of the order fails. */
    (void)snprintf(cause.tier, sizeof(cause.tier), "cold@kvtier");
    cause.stop_ppm = 5 * 1000000 / 16;
    result = delete_because(&g, &cause, 0, BLOCKS);
    assert_int_equal(result.code, KVT_OK);
    assert_int_equal(result.done, 1);
    assert_int_equal(held(&g), BLOCKS * RANKS - 3);
    result = delete_because(&g, &cause, 0, BLOCKS);
    assert_int_equal(held(&g), BLOCKS * RANKS - 3);
    test_gateway_close(&g);
}

/* Rows that are on their way out make room already, though their bytes still count. */
static void
room_counts_what_leaves_already(void **state)
{
    const struct kvt_delete_cause cause = {.kind = KVT_DELETE_ROOM,
                                           .policy_version = 2,
                                           .rule = "cap",
                                           .tier = "cold@kvtier",
                                           .stop_ppm = 500000};
    const char *names[4];
    char keys[4][KVT_KEY_MAX];
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 1u << 20, (uint64_t)BLOCKS * RANKS * SIZE);
    store_all(&g); /* full: four rows are to go */
    for (uint32_t i = 0; i < 4; i++)
        names[i] = key_of(keys[i], i / RANKS, i % RANKS);
    assert_int_equal(gateway_removal_mark(g.context, names, 4), KVT_OK);
    assert_int_equal(delete_because(&g, &cause, 2, 2).failed, 2);
    assert_int_equal(held(&g), BLOCKS * RANKS); /* tiers of marked rows stay until they went */
    assert_int_equal(delete_because(&g, &cause, 0, 2).done, 2); /* what was marked is finished */
    assert_int_equal(held(&g), BLOCKS * RANKS - 4);
    test_gateway_close(&g);
}

static void
a_tier_without_a_capacity_needs_no_room(void **state)
{
    struct kvt_delete_cause cause = {
        .kind = KVT_DELETE_ROOM, .policy_version = 2, .rule = "cap", .tier = "cold@kvtier"};
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    store_all(&g);
    assert_int_equal(delete_because(&g, &cause, 0, BLOCKS).code, KVT_DENIED);
    assert_int_equal(held(&g), BLOCKS * RANKS);
    cause.capacity = (uint64_t)BLOCKS * RANKS * SIZE; /* of the policy */
    cause.stop_ppm = 500000;
    assert_int_equal(delete_because(&g, &cause, 0, BLOCKS).done, 2);
    assert_int_equal(held(&g), BLOCKS * RANKS / 2);
    test_gateway_close(&g);
}

static void
rules_and_jobs_delete_by_name(void **state)
{
    struct kvt_delete_cause cause = {.kind = KVT_DELETE_QUOTA};
    struct kvt_order_result result;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    store_all(&g);
    result = delete_because(&g, &cause, 0, 1);
    assert_int_equal(result.code, KVT_DENIED);
    assert_non_null(strstr(result.text, "policy version and rule"));
    cause.kind = KVT_DELETE_EXPIRE;
    assert_int_equal(delete_because(&g, &cause, 0, 1).code, KVT_DENIED);
    cause.kind = KVT_DELETE_JOB;
    assert_int_equal(delete_because(&g, &cause, 0, 1).code, KVT_DENIED);
    assert_int_equal(held(&g), BLOCKS * RANKS);
    cause = (struct kvt_delete_cause){.kind = KVT_DELETE_QUOTA, .policy_version = 1, .rule = "r"};
    assert_int_equal(delete_because(&g, &cause, 0, 1).done, 1);
    cause.kind = KVT_DELETE_EXPIRE;
    assert_int_equal(delete_because(&g, &cause, 1, 1).done, 1);
    test_gateway_close(&g);
}

/* Without a cause a share may go in an hour, and a restart gives no other one. */
static void
without_a_cause_a_share_goes(void **state)
{
    const struct kvt_delete_cause none = {.kind = KVT_DELETE_OTHER};
    struct kvt_order_result result;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    g.options.delete_share_ppm = 500000;
    test_gateway_reopen(&g);
    store_all(&g);
    assert_int_equal(delete_because(&g, &none, 0, 1).done, 1);
    test_gateway_reopen(&g);
    result = delete_because(&g, &none, 1, BLOCKS - 1);
    assert_int_equal(result.done, 1);
    assert_non_null(strstr(result.text, ": beyond orders.max_delete_share"));
    assert_int_equal(held(&g), BLOCKS * RANKS / 2);
    test_gateway_reopen(&g);
    assert_int_equal(delete_because(&g, &none, 2, 2).failed, 2);
    assert_int_equal(delete_because(&g, &none, 0, 2).failed, 0); /* they are gone */
    assert_int_equal(held(&g), BLOCKS * RANKS / 2);
    assert_int_equal(gateway_stats_get(&g.stats, GATEWAY_STAT_DELETES_REFUSED_OTHER), 4);
    test_gateway_close(&g);
}

/* What was reported once is the answer for good: a repeat must not delete what came since. */
static void
finished_orders_are_remembered(void **state)
{
    struct kvt_order_result result = {.epoch = 5,
                                      .id = 1,
                                      .verb = KVT_ORDER_DEMOTE,
                                      .code = KVT_FULL,
                                      .done = 3,
                                      .failed = 4,
                                      .bytes_moved = UINT64_C(1) << 40,
                                      .text = "the first failure"};
    struct kvt_order_result known;
    struct kvt_order order = plain;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 0, 0);
    assert_false(gateway_orders_recall(g.context, &order, &known));
    assert_int_equal(gateway_catalog_finished(g.context->catalog, &result), KVT_OK);
    test_gateway_reopen(&g);
    assert_true(gateway_orders_recall(g.context, &order, &known));
    assert_int_equal(known.epoch, 5);
    assert_int_equal(known.id, 1);
    assert_int_equal(known.verb, KVT_ORDER_DEMOTE);
    assert_int_equal(known.code, KVT_FULL);
    assert_int_equal(known.done, 3);
    assert_int_equal(known.failed, 4);
    assert_int_equal(known.bytes_moved, UINT64_C(1) << 40);
    assert_string_equal(known.text, "the first failure");
    order.id = 2;
    assert_false(gateway_orders_recall(g.context, &order, &known));
    order = plain;
    order.epoch = 6;
    assert_false(gateway_orders_recall(g.context, &order, &known));
    order = plain;
    order.verb = KVT_ORDER_DELETE;
    assert_false(gateway_orders_recall(g.context, &order, &known));
    order = plain;
    (void)snprintf(order.gateway, sizeof(order.gateway), "gw1");
    assert_false(gateway_orders_recall(g.context, &order, &known));
    test_gateway_close(&g);
}

static void
the_oldest_results_are_forgotten(void **state)
{
    struct kvt_order_result result = {.epoch = 5, .verb = KVT_ORDER_DEMOTE};
    struct kvt_order_result known;
    struct kvt_order order = plain;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 0, 0);
    for (result.id = 1; result.id <= GATEWAY_CATALOG_ORDERS; result.id++)
        assert_int_equal(gateway_catalog_finished(g.context->catalog, &result), KVT_OK);
    assert_true(gateway_orders_recall(g.context, &order, &known));
    result.epoch = 6; /* a later epoch begins with 1 again */
    result.id = 1;
    assert_int_equal(gateway_catalog_finished(g.context->catalog, &result), KVT_OK);
    assert_int_equal(gateway_catalog_finished(g.context->catalog, &result),
                     KVT_OK); /* not one more */
    assert_false(gateway_orders_recall(g.context, &order, &known));
    order.id = 2;
    assert_true(gateway_orders_recall(g.context, &order, &known));
    order.epoch = 6;
    order.id = 1;
    assert_true(gateway_orders_recall(g.context, &order, &known));
    test_gateway_close(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(orders_change_what_they_name),
        cmocka_unit_test(identity_is_respected),
        cmocka_unit_test(what_is_pinned_stays),
        cmocka_unit_test(no_verb_takes_down_what_is_pinned),
        cmocka_unit_test(pins_end),
        cmocka_unit_test(pins_are_bounded),
        cmocka_unit_test(warming_takes_the_room_there_is),
        cmocka_unit_test(room_is_made_above_the_mark_alone),
        cmocka_unit_test(room_counts_what_leaves_already),
        cmocka_unit_test(a_tier_without_a_capacity_needs_no_room),
        cmocka_unit_test(rules_and_jobs_delete_by_name),
        cmocka_unit_test(without_a_cause_a_share_goes),
        cmocka_unit_test(finished_orders_are_remembered),
        cmocka_unit_test(the_oldest_results_are_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
