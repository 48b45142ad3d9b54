/*
 * What is tested: advisor/order/planner.h: watermarks, promotion, and an order's way to its result.
 * How: an engine without network is given events and reports; a model of a gateway obeys, or not.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "advisor/selection/planner_tables.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"

#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum { SIZE = 1000, BLOCKS = 3000 };

/* A gateway with blocks in hot and cold, and one more order in hand at most. */
struct gateway {
    struct test_rig rig;
    char folder[256];
    uint64_t now_ms;
    bool by_hand; /* reports are given to the planner with `now_ms`, not to the engine, which has
                     a clock of its own */
    uint64_t event_seq;
    uint64_t stream_seq;
    uint64_t report_seq;
    uint64_t capacity[2]; /* hot, cold */
    bool held[2][BLOCKS];
    struct kvt_event *events;
    struct kvt_order order;
};

static void
begin(struct gateway *gateway, enum advisor_mode mode)
{
    const struct test_rig_options options = {
        .path = test_folder_make(gateway->folder, sizeof(gateway->folder)),
        .mode = mode,
        .promote_after = 2,
    };

    test_rig_open(&gateway->rig, &options);
    gateway->now_ms = kvt_clock_unix_ms();
    gateway->event_seq = 1;
    gateway->capacity[0] = (uint64_t)BLOCKS * SIZE;
    gateway->events = kvt_calloc(BLOCKS, sizeof(*gateway->events));
    assert_non_null(gateway->events);
}

static struct gateway *
gateway_new(enum advisor_mode mode)
{
    struct gateway *gateway = kvt_calloc(1, sizeof(*gateway));

    assert_non_null(gateway);
    begin(gateway, mode);
    return gateway;
}

static void
gateway_free(struct gateway *gateway)
{
    test_rig_close(&gateway->rig);
    test_folder_remove(gateway->folder);
    kvt_free(gateway->events);
    kvt_free(gateway);
}

/* Blocks [from, to) are stored in (or removed from) a tier, in one batch. */
static void
publish(struct gateway *gateway, uint16_t tier, size_t from, size_t to, bool store)
{
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = gateway->event_seq,
                                    .time_ms = gateway->now_ms,
                                    .worker = "gateway:gw0",
                                    .namespace_ = "ns",
                                    .location_count = 2,
                                    .events = gateway->events,
                                    .event_count = (uint32_t)(to - from)};

    batch.locations[0] = (struct kvt_location){.tier = KVT_TIER_G4, .name = "hot@gw0"};
    batch.locations[1] = (struct kvt_location){.tier = KVT_TIER_G4, .name = "cold@b"};
    for (size_t i = from; i < to; i++) {
        gateway->held[tier][i] = store;
        gateway->events[i - from] =
            (struct kvt_event){.type = store ? KVT_EVENT_STORE : KVT_EVENT_REMOVE,
                               .sequence_hash = i + 1,
                               .parent = i % 10 == 0 ? 0 : i,
                               .position = (uint32_t)(i % 10),
                               .block_size = SIZE,
                               .location = tier,
                               .ranks = 1};
    }
    gateway->event_seq += to - from;
    test_rig_batch(&gateway->rig, ++gateway->stream_seq, &batch);
    test_rig_run(&gateway->rig);
}

static uint64_t
used(const struct gateway *gateway, int tier)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < BLOCKS; i++)
        bytes += gateway->held[tier][i] ? SIZE : 0;
    return bytes;
}

static void
report(struct gateway *gateway, struct kvt_report *more)
{
    struct kvt_report none = {.healthy = true};
    struct kvt_report *report = more == NULL ? &none : more;

    (void)snprintf(report->gateway, sizeof(report->gateway), "gw0");
    (void)snprintf(report->namespace_, sizeof(report->namespace_), "ns");
    report->incarnation = 1;
    report->seq = ++gateway->report_seq;
    report->time_ms = gateway->now_ms;
    report->tier_count = 2;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(report->tiers[i].name, KVT_NAME_MAX, i == 0 ? "hot@gw0" : "cold@b");
        report->tiers[i].used_bytes = used(gateway, i);
        report->tiers[i].capacity_bytes = gateway->capacity[i];
    }
    if (gateway->by_hand)
        assert_true(advisor_planner_report(gateway->rig.planner, report, gateway->now_ms));
    else
        test_rig_report(&gateway->rig, gateway->report_seq, report);
    test_rig_run(&gateway->rig);
}

/* Plan and take what leaves; false: nothing does. */
static bool
plan(struct gateway *gateway)
{
    struct kvt_order order;

    advisor_planner_tick(gateway->rig.planner, gateway->now_ms);
    test_rig_run(&gateway->rig); /* durable first */
    if (!advisor_planner_next(gateway->rig.planner, &order, gateway->now_ms))
        return false;
    gateway->order = order;
    return true;
}

static void
answer_with(struct gateway *gateway, enum kvt_err code, uint32_t failed)
{
    struct kvt_order_result result = {.epoch = gateway->order.epoch,
                                      .id = gateway->order.id,
                                      .verb = gateway->order.verb,
                                      .code = code,
                                      .done =
                                          code == KVT_OK ? gateway->order.item_count - failed : 0,
                                      .failed = failed,
                                      .text = "as told"};
    struct kvt_report with = {.healthy = true, .results = &result, .result_count = 1};

    report(gateway, &with);
}

static void
answer(struct gateway *gateway, enum kvt_err code)
{
    answer_with(gateway, code, 0);
}

/* Do what the order says, but for what is pinned, and report it. */
static void
obey_but(struct gateway *gateway, const bool *pinned)
{
    /* Copied: the items are the planner's until its next call. */
    struct kvt_order_item *items = kvt_calloc(gateway->order.item_count, sizeof(*items));
    const uint32_t count = gateway->order.item_count;
    uint32_t failed = 0;

    assert_non_null(items);
    memcpy(items, gateway->order.items, count * sizeof(*items));
    for (uint32_t i = 0; i < count; i++) {
        const size_t block = items[i].block.hash - 1;

        if (pinned != NULL && pinned[block]) {
            failed++;
            continue;
        }
        if (gateway->order.verb == KVT_ORDER_PROMOTE) {
            publish(gateway, 0, block, block + 1, true);
            continue;
        }
        if (gateway->held[0][block])
            publish(gateway, 0, block, block + 1, false);
        if (gateway->order.verb == KVT_ORDER_DELETE && gateway->held[1][block])
            publish(gateway, 1, block, block + 1, false);
    }
    kvt_free(items);
    answer_with(gateway, KVT_OK, failed);
}

static void
obey(struct gateway *gateway)
{
    obey_but(gateway, NULL);
}

struct states {
    uint32_t count[ADVISOR_ORDER_OBSERVED + 1];
};

static enum kvt_err
count_state(void *arg, const void *data)
{
    const struct advisor_order_row *row = data;
    struct states *states = arg;

    states->count[row->state]++;
    return KVT_OK;
}

static struct states
states_of(struct gateway *gateway)
{
    struct states states = {{0}};
    struct advisor_txn txn;

    assert_int_equal(advisor_store_read(gateway->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_walk(&txn, ADVISOR_ROW_ORDER, count_state, &states), KVT_OK);
    advisor_store_end(&txn);
    return states;
}

/* ---- the tests ---- */

static void
hot_is_drained_from_start_to_stop(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    int orders = 0;

    (void)state;
    publish(gateway, 0, 0, 2000, true);
    publish(gateway, 1, 0, 2000, true);
    report(gateway, NULL);
    assert_false(plan(gateway)); /* 67 %: below the start */
    gateway->now_ms += 1000;
    publish(gateway, 0, 2000, 2600, true);
    report(gateway, NULL);
    while (plan(gateway)) {
        const uint64_t left = used(gateway, 0) - (uint64_t)2100 * SIZE;

        assert_int_equal(gateway->order.verb, KVT_ORDER_DEMOTE);
        assert_true(gateway->order.item_count <= KVT_ORDER_ITEMS_MAX);
        assert_int_equal(gateway->order.item_count, left / SIZE); /* and no block more */
        /* The oldest go, and of a chain its end: each item's child has gone or goes with it. */
        for (uint32_t i = 0; i < gateway->order.item_count; i++)
            assert_true(gateway->order.items[i].block.hash <= 2000);
        assert_false(plan(gateway)); /* one set at a time */
        gateway->now_ms += 1000;
        obey(gateway);
        orders++;
    }
    assert_int_equal(orders, 1);
    assert_int_equal(used(gateway, 0), (uint64_t)2100 * SIZE);
    for (size_t i = 0; i < BLOCKS; i++) /* no chain has a hole */
        if (gateway->held[0][i] && i % 10 != 0)
            assert_true(gateway->held[0][i - 1]);
    assert_int_equal(states_of(gateway).count[ADVISOR_ORDER_DONE], 1);
    gateway_free(gateway);
}

static void
cold_is_capped_by_deleting(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    int orders = 0;

    (void)state;
    gateway->capacity[0] = 0;
    publish(gateway, 1, 0, 3000, true);
    gateway->capacity[1] = 0; /* no cap: nothing is deleted */
    report(gateway, NULL);
    assert_false(plan(gateway));
    gateway->capacity[1] = (uint64_t)1500 * SIZE;
    report(gateway, NULL);
    while (plan(gateway)) {
        assert_int_equal(gateway->order.verb, KVT_ORDER_DELETE);
        assert_int_equal(gateway->order.cause.kind, KVT_DELETE_ROOM);
        assert_true(gateway->order.cause.policy_version > 0);
        assert_string_not_equal(gateway->order.cause.rule, "");
        assert_string_equal(gateway->order.cause.tier, "cold@b");
        assert_int_equal(gateway->order.cause.stop_ppm, 900000);
        assert_int_equal(gateway->order.cause.capacity, 0); /* of a report, which proves nothing */
        gateway->now_ms += 1000;
        obey(gateway);
        orders++;
    }
    assert_int_equal(orders, 2); /* 1024 in one, the rest in the next */
    assert_int_equal(used(gateway, 1), (uint64_t)1350 * SIZE);
    gateway_free(gateway);
}

static void
second_cold_hit_promotes(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    struct kvt_report_access access = {.hash = 6, .count = 1, .bytes = SIZE, .tier_index = 1};
    struct kvt_report with = {.healthy = true, .accesses = &access, .access_count = 1};
    struct advisor_finder_block *block = kvt_calloc(1, sizeof(*block));

    (void)state;
    assert_non_null(block);
    publish(gateway, 1, 0, 100, true);
    report(gateway, &with);
    assert_false(plan(gateway));
    report(gateway, &with);
    assert_true(plan(gateway));
    assert_int_equal(gateway->order.verb, KVT_ORDER_PROMOTE);
    assert_int_equal(gateway->order.item_count, 1);
    assert_int_equal(gateway->order.items[0].block.hash, 6);
    assert_int_equal(gateway->order.items[0].block.parent, 5);
    assert_int_equal(gateway->order.items[0].block.position, 5);
    obey(gateway);
    assert_int_equal(advisor_finder_block(&gateway->rig.finder, "ns", 6, block), KVT_OK);
    assert_int_equal(block->place_count, 2);
    assert_int_equal(block->hits, 2);
    assert_int_equal(block->cold_hits, 2);
    assert_int_equal(block->last_access_ms, gateway->now_ms);
    /* It is hot now: another cold read (by whoever) starts counting anew. */
    report(gateway, &with);
    assert_false(plan(gateway));
    /* A repeated report is not a read. */
    gateway->report_seq -= 1;
    with.seq = 0;
    report(gateway, &with);
    assert_int_equal(advisor_finder_block(&gateway->rig.finder, "ns", 6, block), KVT_OK);
    assert_int_equal(block->hits, 3);
    kvt_free(block);
    gateway_free(gateway);
}

/* A copy in another gateway's hot volume serves nobody who reads here. */
static void
another_gateways_hot_copy_does_not_count(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    struct kvt_report_access access = {.hash = 6, .count = 2, .bytes = SIZE, .tier_index = 1};
    struct kvt_report with = {.healthy = true, .accesses = &access, .access_count = 1};
    struct kvt_event event = {.type = KVT_EVENT_STORE,
                              .sequence_hash = 6,
                              .parent = 5,
                              .position = 5,
                              .block_size = SIZE,
                              .ranks = 1};
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = 1,
                                    .time_ms = gateway->now_ms,
                                    .worker = "gateway:gw1",
                                    .namespace_ = "ns",
                                    .location_count = 1,
                                    .events = &event,
                                    .event_count = 1};

    (void)state;
    batch.locations[0] = (struct kvt_location){.tier = KVT_TIER_G4, .name = "hot@gw1"};
    publish(gateway, 1, 0, 100, true);
    test_rig_batch(&gateway->rig, ++gateway->stream_seq, &batch);
    test_rig_run(&gateway->rig);
    report(gateway, &with);
    assert_true(plan(gateway));
    assert_int_equal(gateway->order.verb, KVT_ORDER_PROMOTE);
    assert_string_equal(gateway->order.gateway, "gw0");
    assert_int_equal(gateway->order.items[0].block.hash, 6);
    gateway_free(gateway);
}

/* Two threads of a gateway report: the one with the result is overtaken. */
static void
an_overtaken_report_brings_its_results(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);

    (void)state;
    publish(gateway, 0, 0, 2900, true);
    report(gateway, NULL);
    assert_true(plan(gateway));
    report(gateway, NULL);
    gateway->report_seq -= 2;
    answer(gateway, KVT_OK);
    assert_int_equal(states_of(gateway).count[ADVISOR_ORDER_DONE], 1);
    assert_int_equal(states_of(gateway).count[ADVISOR_ORDER_PENDING], 0);
    gateway_free(gateway);
}

/* The clock stepped back over a restart: the former life is believed once the other is silent. */
static void
a_lower_life_reports(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    struct advisor_planner *planner = gateway->rig.planner;
    struct kvt_report high = {.incarnation = 9, .seq = 50, .healthy = true, .gateway = "gw0"};
    struct kvt_report low = {.incarnation = 8, .seq = 1, .healthy = true, .gateway = "gw0"};
    const uint64_t now_ms = gateway->now_ms;

    (void)state;
    assert_true(advisor_planner_report(planner, &high, now_ms));
    assert_false(advisor_planner_report(planner, &low, now_ms + 4999));
    /* Without keys nobody can tell a clock that stepped back from a report that comes again. */
    assert_false(advisor_planner_report(planner, &low, now_ms + 5000));
    planner->options.can_enforce = false;
    assert_true(advisor_planner_report(planner, &low, now_ms + 5000));
    assert_false(advisor_planner_report(planner, &low, now_ms + 5001)); /* said twice */
    low.seq = 2;
    assert_true(advisor_planner_report(planner, &low, now_ms + 5002));
    gateway_free(gateway);
}

static void
observing_publishes_nothing(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_OBSERVE);
    struct states states;

    (void)state;
    publish(gateway, 0, 0, 2900, true);
    report(gateway, NULL);
    for (int i = 0; i < 5; i++) {
        assert_false(plan(gateway));
        gateway->now_ms += 1000;
        report(gateway, NULL);
    }
    states = states_of(gateway);
    assert_int_equal(states.count[ADVISOR_ORDER_OBSERVED], 1); /* said once, not every second */
    assert_int_equal(states.count[ADVISOR_ORDER_PENDING], 0);
    assert_int_equal(advisor_planner_set_mode(gateway->rig.planner, ADVISOR_MODE_OFF), KVT_OK);
    gateway->now_ms += 120000;
    report(gateway, NULL);
    assert_false(plan(gateway));
    assert_int_equal(states_of(gateway).count[ADVISOR_ORDER_OBSERVED], 1);
    gateway_free(gateway);
}

static void
failed_and_expired_are_planned_anew(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    uint64_t first;
    struct states states;

    (void)state;
    publish(gateway, 0, 0, 2900, true);
    report(gateway, NULL);
    assert_true(plan(gateway));
    first = gateway->order.items[0].block.hash;
    answer(gateway, KVT_IO);
    gateway->now_ms = kvt_clock_unix_ms() + 10000; /* its items have settled */
    report(gateway, NULL);
    advisor_planner_tick(gateway->rig.planner, gateway->now_ms);
    test_rig_run(&gateway->rig);
    states = states_of(gateway);
    assert_int_equal(states.count[ADVISOR_ORDER_FAILED], 1);
    assert_int_equal(states.count[ADVISOR_ORDER_PENDING], 1);
    assert_true(advisor_planner_next(gateway->rig.planner, &gateway->order, gateway->now_ms));
    /* No result: void after its expiry, and the same blocks are chosen again. */
    gateway->now_ms += 63000;
    report(gateway, NULL);
    advisor_planner_tick(gateway->rig.planner, gateway->now_ms);
    test_rig_run(&gateway->rig);
    gateway->now_ms += 10000;
    report(gateway, NULL);
    advisor_planner_tick(gateway->rig.planner, gateway->now_ms);
    test_rig_run(&gateway->rig);
    states = states_of(gateway);
    assert_int_equal(states.count[ADVISOR_ORDER_EXPIRED], 1);
    assert_true(first > 0);
    gateway_free(gateway);
}

/* Let what was ordered settle, and see whether something is ordered then. */
static bool
plan_after(struct gateway *gateway, uint64_t ms)
{
    gateway->now_ms += ms;
    report(gateway, NULL);
    return plan(gateway);
}

static struct advisor_tier_view
hot_view(struct gateway *gateway)
{
    struct advisor_tier_view views[ADVISOR_TIERS_MAX];
    const size_t count = advisor_planner_tiers(gateway->rig.planner, views, ADVISOR_TIERS_MAX);

    for (size_t i = 0; i < count; i++)
        if (strcmp(views[i].tier.name, "hot@gw0") == 0)
            return views[i];
    fail();
    return views[0];
}

/* Blocks [0, PINNED) are stored and pinned, and the oldest there are. */
enum { PINNED = 500 };

static bool *
pin_oldest(struct gateway *gateway)
{
    bool *pinned = kvt_calloc(BLOCKS, sizeof(*pinned));

    assert_non_null(pinned);
    memset(pinned, 1, PINNED * sizeof(*pinned));
    gateway->by_hand = true;
    publish(gateway, 0, 0, PINNED, true);
    gateway->now_ms += 1000;
    return pinned;
}

static void
refused_blocks_make_place_for_others(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    bool *pinned = pin_oldest(gateway);

    (void)state;
    publish(gateway, 0, PINNED, 2600, true);
    report(gateway, NULL);
    assert_true(plan(gateway)); /* 500 above the stop: those that are pinned */
    assert_int_equal(gateway->order.item_count, PINNED);
    assert_string_equal(hot_view(gateway).gateway, gateway->order.gateway);
    obey_but(gateway, pinned);
    while (used(gateway, 0) > (uint64_t)2100 * SIZE) {
        assert_true(plan_after(gateway, 1000));
        for (uint32_t i = 0; i < gateway->order.item_count; i++)
            assert_false(pinned[gateway->order.items[i].block.hash - 1]);
        obey_but(gateway, pinned);
    }
    assert_false(plan_after(gateway, 4000));
    assert_int_equal(hot_view(gateway).refused_blocks, PINNED);
    assert_false(hot_view(gateway).stuck);
    kvt_free(pinned);
    gateway_free(gateway);
}

/* For hours: each is offered again after a pause that grows; an unpin ends all pauses. */
static void
a_tier_of_refused_blocks_is_stuck(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    bool *pinned = pin_oldest(gateway);
    struct kvt_order_result unpinned = {.epoch = 99, .id = 1, .verb = KVT_ORDER_UNPIN, .done = 1};
    struct kvt_report with = {.healthy = true, .results = &unpinned, .result_count = 1};
    uint32_t offers[PINNED] = {0};
    int steps_stuck = 0;
    int steps = 0;

    (void)state;
    gateway->capacity[0] = (uint64_t)PINNED * SIZE;
    for (uint64_t ms = 0; ms < 7200000; ms += 5000, steps++) {
        if (plan_after(gateway, 5000)) {
            for (uint32_t i = 0; i < gateway->order.item_count; i++)
                offers[gateway->order.items[i].block.hash - 1]++;
            obey_but(gateway, pinned);
        }
        steps_stuck += hot_view(gateway).stuck && hot_view(gateway).draining ? 1 : 0;
    }
    for (size_t i = 0; i < PINNED; i++)
        assert_in_range(offers[i], 8, 12); /* after 10 s, 20 s ... 1280 s, and 1800 s each */
    assert_true(steps_stuck > steps * 8 / 10);
    report(gateway, &with);
    while (plan_after(gateway, 5000))
        obey(gateway);
    assert_int_equal(used(gateway, 0), (uint64_t)PINNED * SIZE * 7 / 10);
    assert_false(hot_view(gateway).stuck);
    kvt_free(pinned);
    gateway_free(gateway);
}

static void
nothing_is_planned_on_old_news(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    struct kvt_report sick = {.healthy = false};

    (void)state;
    gateway->now_ms -= 100000; /* the engine has its own clock, which must stay ahead */
    publish(gateway, 0, 0, 2900, true);
    report(gateway, NULL);
    gateway->now_ms += 60000; /* no report since */
    assert_false(plan(gateway));
    report(gateway, &sick); /* the bucket is away: its copies cannot be checked */
    assert_false(plan(gateway));
    report(gateway, NULL);
    assert_true(plan(gateway));
    gateway_free(gateway);
}

static void
unsent_orders_are_sent_again(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    uint64_t id;

    (void)state;
    publish(gateway, 0, 0, 2900, true);
    report(gateway, NULL);
    assert_true(plan(gateway));
    id = gateway->order.id;
    assert_false(advisor_planner_next(gateway->rig.planner, &gateway->order, gateway->now_ms));
    advisor_planner_unsent(gateway->rig.planner, id, gateway->now_ms);
    assert_false(advisor_planner_next(gateway->rig.planner, &gateway->order, gateway->now_ms));
    assert_true(
        advisor_planner_next(gateway->rig.planner, &gateway->order, gateway->now_ms + 2000));
    assert_int_equal(gateway->order.id, id);
    gateway_free(gateway);
}

/* A restart keeps what was pending, raises the epoch, and knows the order of blocks. */
static void
restart_forgets_nothing(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    const struct test_rig_options options = {
        .path = gateway->folder, .mode = ADVISOR_MODE_ENFORCE, .promote_after = 2};
    uint64_t epoch;
    struct states states;

    (void)state;
    publish(gateway, 0, 0, 1000, true);
    gateway->now_ms += 1000;
    publish(gateway, 0, 1000, 2900, true);
    report(gateway, NULL);
    assert_true(plan(gateway));
    epoch = gateway->order.epoch;
    test_rig_close(&gateway->rig);
    test_rig_open(&gateway->rig, &options);
    states = states_of(gateway);
    assert_int_equal(states.count[ADVISOR_ORDER_PENDING], 1);
    answer(gateway, KVT_OK); /* of the order before the restart */
    states = states_of(gateway);
    assert_int_equal(states.count[ADVISOR_ORDER_DONE], 1);
    assert_true(plan(gateway));
    assert_true(gateway->order.epoch > epoch);
    for (uint32_t i = 0; i < gateway->order.item_count; i++)
        assert_true(gateway->order.items[i].block.hash <= 1000); /* still the oldest */
    gateway_free(gateway);
}

/* ---- an ordering that learns: how many uses there were ---- */

static uint64_t learned; /* by the one tier of the test */

static void
learner_touch(void *state, const struct kvt_ordering_use *use)
{
    policy_lru.touch(state, use);
    learned += (use->flags & KVT_ORDERING_RESTORED) == 0;
}

static size_t
learner_save(const void *state, void *bytes, size_t room)
{
    (void)state;
    if (room >= sizeof(learned))
        memcpy(bytes, &learned, sizeof(learned));
    return sizeof(learned);
}

static enum kvt_err
learner_load(void *state, const void *bytes, size_t size)
{
    (void)state;
    if (size != sizeof(learned))
        return KVT_CORRUPT;
    memcpy(&learned, bytes, size);
    return KVT_OK;
}

static void
what_was_learned_survives_a_restart(void **state)
{
    static const char policy[] = "version: 1\ntiers:\n  hot: {level: G3}\n"; /* names none */
    struct kvt_ordering learner = policy_lru;
    char file[512];
    struct gateway *gateway = gateway_new(ADVISOR_MODE_OFF);
    const struct test_rig_options options = {
        .path = gateway->folder, .mode = ADVISOR_MODE_OFF, .ordering = &learner, .policy = file};
    struct kvt_error err;
    uint64_t before;

    (void)state;
    (void)snprintf(file, sizeof(file), "%s/policy.yaml", gateway->folder);
    assert_int_equal(kvt_file_write(file, policy, strlen(policy), 0644, &err), KVT_OK);
    learner.name = "learner";
    learner.touch = learner_touch;
    learner.save = learner_save;
    learner.load = learner_load;
    learned = 0;
    test_rig_close(&gateway->rig);
    test_rig_open(&gateway->rig, &options);
    publish(gateway, 0, 0, 1000, true);
    before = learned;
    assert_int_equal(before, 1000);
    for (int i = 0; i < 2; i++) { /* the first look starts the clock */
        advisor_planner_tick(gateway->rig.planner, gateway->now_ms);
        gateway->now_ms += 60000;
    }
    publish(gateway, 0, 1000, 1001, true); /* a round with a transaction */
    learned = 7;
    test_rig_close(&gateway->rig);
    test_rig_open(&gateway->rig, &options);
    assert_int_equal(learned, before); /* a transaction is written before RAM follows it */
    gateway_free(gateway);
}

static void
what_is_due_leaves_although_there_is_room(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_ENFORCE);
    const struct test_rig_options options = {.path = gateway->folder,
                                             .mode = ADVISOR_MODE_ENFORCE,
                                             .ordering = &policy_idle,
                                             .idle_ticks = 50};

    (void)state;
    test_rig_close(&gateway->rig);
    test_rig_open(&gateway->rig, &options);
    publish(gateway, 0, 0, 100, true);
    gateway->now_ms += 4000;
    publish(gateway, 0, 100, 200, true);
    report(gateway, NULL);
    assert_false(plan(gateway));
    gateway->now_ms += 2000;
    report(gateway, NULL);
    assert_true(plan(gateway));
    assert_int_equal(gateway->order.verb, KVT_ORDER_DEMOTE);
    assert_int_equal(gateway->order.item_count, 100);
    for (uint32_t i = 0; i < gateway->order.item_count; i++)
        assert_true(gateway->order.items[i].block.hash <= 100);
    gateway_free(gateway);
}

/* Reading the order of many blocks takes a while: a start that is stopped does not wait for it. */
static void
reading_can_be_cancelled(void **state)
{
    struct gateway *gateway = gateway_new(ADVISOR_MODE_OFF);
    _Atomic bool cancel = true;
    struct advisor_txn txn;

    (void)state;
    publish(gateway, 0, 0, 1000, true);
    assert_int_equal(advisor_store_read(gateway->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_planner_load_blocks(gateway->rig.planner, &txn, &cancel),
                     KVT_CANCELLED);
    atomic_store(&cancel, false);
    assert_int_equal(advisor_planner_load_blocks(gateway->rig.planner, &txn, &cancel), KVT_OK);
    advisor_store_end(&txn);
    gateway_free(gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hot_is_drained_from_start_to_stop),
        cmocka_unit_test(cold_is_capped_by_deleting),
        cmocka_unit_test(second_cold_hit_promotes),
        cmocka_unit_test(another_gateways_hot_copy_does_not_count),
        cmocka_unit_test(an_overtaken_report_brings_its_results),
        cmocka_unit_test(a_lower_life_reports),
        cmocka_unit_test(observing_publishes_nothing),
        cmocka_unit_test(failed_and_expired_are_planned_anew),
        cmocka_unit_test(refused_blocks_make_place_for_others),
        cmocka_unit_test(a_tier_of_refused_blocks_is_stuck),
        cmocka_unit_test(nothing_is_planned_on_old_news),
        cmocka_unit_test(unsent_orders_are_sent_again),
        cmocka_unit_test(restart_forgets_nothing),
        cmocka_unit_test(what_was_learned_survives_a_restart),
        cmocka_unit_test(what_is_due_leaves_although_there_is_room),
        cmocka_unit_test(reading_can_be_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
