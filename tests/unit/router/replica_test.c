/*
 * What is tested: router/replica.h by hand, on the simulated bus of replica_bed.h: who asks for
 * what, and when nobody does.  replica_storm_test.c does it at random.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/random.h"

#include "tests/unit/router/support/replica_bed.h"

enum { EXPIRY_MS = 3600000 };

/* Messages seen, and which of them are lost. */
struct watch {
    uint64_t seen[WIRE_ROUTE_SYNC_ROWS + 1];
    uint64_t pages;    /* of tables */
    uint64_t restarts; /* a table asked for from its beginning */
    uint64_t lose;     /* this page, counted from 1 */
    int deaf;          /* nobody's steps reach this one; -1 */
    bool secret;       /* nobody hears who is joining */
};

/* Each message goes to all: it is counted where it comes to router 1. */
static bool
pass(void *arg, const struct wire_route_sync *message, int from, int to)
{
    struct watch *watch = arg;
    const bool table = message->what == WIRE_ROUTE_SYNC_TABLE;

    if (message->kind == WIRE_ROUTE_SYNC_STEPS && to == watch->deaf && from != to)
        return false;
    if (message->kind == WIRE_ROUTE_SYNC_HEARTBEAT && message->joining && watch->secret)
        return false;
    if (to != 1)
        return true;
    watch->seen[message->kind]++;
    watch->restarts += message->kind == WIRE_ROUTE_SYNC_ASK && table && message->from == 0;
    if (message->kind != WIRE_ROUTE_SYNC_ROWS || !table)
        return true;
    watch->pages++;
    return watch->pages != watch->lose;
}

static struct group_bed *
calm_bed(struct watch *watch, int count)
{
    struct group_bed *bed = bed_new(test_seed(), count, EXPIRY_MS);

    *watch = (struct watch){.deaf = -1};
    bed->network.delay_ms = 5;
    bed->network.pass = pass;
    bed->network.arg = watch;
    return bed;
}

static void
steps_are_heard_at_once(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 3);
    struct router_request shown;

    (void)state;
    for (int i = 0; i < 3; i++)
        bed_start(bed, i);
    bed_run(bed, BED_JOIN_MS + 200);
    bed_add(bed, 0, 1);
    bed_add(bed, 1, 2);
    bed_run(bed, 6);
    bed_check_same_load(bed, 0, 1);
    bed_check_same_load(bed, 0, 2);
    assert_int_equal(bed_live(bed, 2), 2);
    bed_prefilled(bed, 2, 1); /* whoever is asked */
    bed_end(bed, 2, 2);
    bed_run(bed, 6);
    assert_int_equal(bed_live(bed, 0), 1);
    assert_int_equal(router_request_table_get(bed->routers[0].slots, "request-1", &shown), KVT_OK);
    assert_int_equal(shown.state, ROUTER_PREFILLED);
    assert_true(bed_settle(bed, 1000));
    bed_free(bed);
}

/* However much is under way, nothing of it is missing; digests that could never be compared are
 * looked into rarely. */
static void
messages_under_way_are_not_missing(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 3);
    uint64_t gaps = 0;
    uint64_t tables = 0;
    uint64_t next = 0;

    (void)state;
    bed->network.delay_ms = 20;
    for (int i = 0; i < 3; i++)
        bed_start(bed, i);
    bed_run(bed, 2 * BED_JOIN_MS);
    while (next < 10000) {
        bed_add(bed, (int)(next % 3), next);
        if (next >= 300)
            bed_end(bed, (int)(next % 2), next - 300);
        next++;
        bed_run(bed, 1);
    }
    assert_true(bed_settle(bed, 1000));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bed_live(bed, i), 300);
        gaps += bed_stats(bed, i).gaps;
        tables += bed_stats(bed, i).tables;
    }
    assert_int_equal(gaps, 0);
    /* In a hundred beats: two of each peer, and what was taken at the start. */
    assert_true(tables <= 3 * 2 * 2 + 3);
    bed_free(bed);
}

static void
a_hole_is_asked_for_alone(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 2);

    (void)state;
    bed_start(bed, 0);
    bed_start(bed, 1);
    bed_run(bed, 2 * BED_JOIN_MS);
    watch = (struct watch){.deaf = 1};
    bed_add(bed, 0, 1);
    bed_add(bed, 0, 2);
    bed_end(bed, 0, 1);
    bed_run(bed, 10);
    watch.deaf = -1;
    bed_add(bed, 0, 3);
    bed_run(bed, 2 * BED_BEAT_MS);
    assert_true(bed_settle(bed, BED_BEAT_MS));
    bed_check_same_load(bed, 0, 1);
    assert_int_equal(watch.seen[WIRE_ROUTE_SYNC_ASK], 1);
    assert_int_equal(watch.seen[WIRE_ROUTE_SYNC_ROWS], 1);
    assert_int_equal(watch.pages, 0);
    assert_int_equal(bed_stats(bed, 1).gaps, 1);

    /* The last message may be the one that was lost: a heartbeat tells. */
    watch.deaf = 1;
    bed_end(bed, 0, 3);
    bed_run(bed, 10);
    watch.deaf = -1;
    bed_run(bed, 3 * BED_BEAT_MS);
    assert_int_equal(bed_live(bed, 1), 1);

    /* More than is remembered: its table. */
    watch.deaf = 1;
    for (uint64_t i = 0; i < ROUTER_STEPS_KEPT + 1; i++)
        bed_add(bed, 0, 1000 + i);
    bed_run(bed, 10);
    watch.deaf = -1;
    bed_run(bed, 10 * BED_BEAT_MS);
    assert_int_equal(bed_live(bed, 1), ROUTER_STEPS_KEPT + 2);
    assert_true(watch.pages > 1);
    assert_true(bed_settle(bed, 1000));
    bed_free(bed);
}

/* Whoever joins gets tombstones too: what ended does not begin there. */
static void
a_joining_replica_gets_it_all(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 3);
    struct router_request late;
    uint64_t hashes[BED_HASHES_MAX];
    bool changed;

    (void)state;
    bed_start(bed, 0);
    bed_start(bed, 1);
    bed_run(bed, 2 * BED_JOIN_MS);
    for (uint64_t i = 0; i < 3000; i++)
        bed_add(bed, (int)(i % 2), i);
    bed_end(bed, 0, 5);
    bed_run(bed, 200);
    bed_start(bed, 2);
    assert_false(bed_stats(bed, 2).ready);
    bed_run(bed, 400); /* long before it would give up */
    assert_true(bed_stats(bed, 2).ready);
    assert_int_equal(bed_stats(bed, 2).tables, 1);
    bed_check_same_load(bed, 0, 2);
    assert_true(bed_settle(bed, 500));
    bed_request(&late, hashes, 5);
    assert_int_equal(router_request_table_merge(bed->routers[2].slots, &late, 0, &changed), KVT_OK);
    assert_false(changed);
    /* Only one of the two was asked. */
    assert_true(bed_stats(bed, 0).pages == 0 || bed_stats(bed, 1).pages == 0 ||
                bed_stats(bed, 0).pages + bed_stats(bed, 1).pages < 30);
    bed_free(bed);
}

/* Whoever has nobody's table yet gives none away, though it is heard first. */
static void
half_a_table_is_not_passed_on(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 3);

    (void)state;
    bed->network.delay_ms = 20;
    bed_start(bed, 0);
    bed_run(bed, 2 * BED_JOIN_MS);
    for (uint64_t i = 0; i < 5000; i++)
        bed_add(bed, 0, i);
    bed_run(bed, 50);
    bed->apart[0][2] = true;
    watch.secret = true;
    bed_start(bed, 1);
    bed_start(bed, 2);
    bed_add(bed, 1, 5000);
    while (!bed_stats(bed, 2).ready)
        bed_run(bed, 1);
    assert_int_equal(bed_live(bed, 2), 5001);
    bed_free(bed);
}

static void
who_is_joining_gives_no_table(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 1);
    const struct wire_route_sync question = {
        .kind = WIRE_ROUTE_SYNC_ASK, .router = 555, .to = 100, .to_incarnation = 1, .ask = 1};
    struct kvt_buffer bytes;

    (void)state;
    kvt_buffer_init(&bytes, ROUTER_MESSAGE_MAX);
    assert_int_equal(wire_route_sync_encode(&question, NULL, &bytes), KVT_OK);
    bed_start(bed, 0);
    bed_run(bed, BED_TICK_MS);
    router_replica_take(bed->routers[0].replica, bytes.data, bytes.size, 0);
    assert_int_equal(bed_stats(bed, 0).pages, 0);
    bed_run(bed, 2 * BED_JOIN_MS);
    router_replica_take(bed->routers[0].replica, bytes.data, bytes.size, 0);
    assert_int_equal(bed_stats(bed, 0).pages, 1);
    kvt_buffer_release(&bytes);
    bed_free(bed);
}

static void
a_lost_page_is_asked_for_from_where_it_was(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 2);
    uint64_t whole = 0;

    (void)state;
    bed_start(bed, 0);
    bed_run(bed, 2 * BED_JOIN_MS);
    for (uint64_t i = 0; i < 5000; i++)
        bed_add(bed, 0, i);
    for (int life = 0; life < 2; life++) {
        watch = (struct watch){.deaf = -1};
        watch.lose = life == 0 ? 0 : whole / 2;
        bed_start(bed, 1);
        bed_run(bed, 3 * BED_JOIN_MS);
        assert_true(bed_stats(bed, 1).ready);
        assert_int_equal(bed_live(bed, 1), 5000);
        assert_int_equal(watch.restarts, 1);
        if (life == 0)
            whole = watch.pages;
        else
            assert_int_equal(watch.pages, whole + 1);
        assert_true(whole > 4);
        bed_kill(bed, 1);
    }
    bed_free(bed);
}

static void
alone_it_is_ready_in_time(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 2);

    (void)state;
    bed_start(bed, 0);
    bed_run(bed, BED_JOIN_MS - BED_TICK_MS);
    assert_false(bed_stats(bed, 0).ready);
    bed_run(bed, 3 * BED_TICK_MS);
    assert_true(bed_stats(bed, 0).ready);
    assert_true(bed_stats(bed, 0).converged);
    bed_free(bed);
}

/* What a replica told one peer before it died comes from that peer. */
static void
the_dead_are_heard_through_others(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 3);

    (void)state;
    for (int i = 0; i < 3; i++)
        bed_start(bed, i);
    bed_run(bed, 2 * BED_JOIN_MS);
    bed->apart[0][2] = true;
    bed_add(bed, 0, 1);
    bed_run(bed, 20);
    bed_kill(bed, 0);
    bed->apart[0][2] = false;
    assert_int_equal(bed_live(bed, 1), 1);
    assert_int_equal(bed_live(bed, 2), 0);
    bed_run(bed, BED_GONE_MS + 10 * BED_BEAT_MS);
    assert_int_equal(bed_live(bed, 2), 1);
    assert_true(bed_settle(bed, 1000));
    bed_free(bed);
}

/* Tables that differ although all was heard: what one of them never told. */
static void
what_nobody_told_is_found(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 2);
    struct router_request request;
    uint64_t hashes[BED_HASHES_MAX];

    (void)state;
    bed_start(bed, 0);
    bed_start(bed, 1);
    bed_run(bed, 2 * BED_JOIN_MS);
    bed_request(&request, hashes, 1);
    assert_int_equal(router_request_table_merge(bed->routers[0].slots, &request, 0, NULL), KVT_OK);
    bed_run(bed, 10 * BED_BEAT_MS);
    assert_int_equal(bed_live(bed, 1), 1);
    assert_true(bed_settle(bed, 1000));
    bed_free(bed);
}

/* A table that is full can never be the same: it is asked for ever more rarely. */
static void
what_cannot_be_mended_makes_no_storm(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 2);
    const struct router_request_table_options small = {
        .expiry_ms = EXPIRY_MS, .requests_max = 1, .blocks_max = 1000};
    const uint64_t minutes = 10;

    (void)state;
    bed_start(bed, 0);
    bed_start(bed, 1);
    router_replica_free(bed->routers[1].replica);
    router_request_table_free(bed->routers[1].slots);
    assert_int_equal(router_request_table_new(&bed->routers[1].slots, &small), KVT_OK);
    {
        struct router_replica_options options = {.router = 101,
                                                 .incarnation = 1,
                                                 .beat_ms = BED_BEAT_MS,
                                                 .join_ms = BED_JOIN_MS,
                                                 .gone_ms = BED_GONE_MS};

        bed_adopt(bed, 1, &options);
    }
    bed_run(bed, 2 * BED_JOIN_MS);
    bed_add(bed, 0, 1);
    bed_add(bed, 0, 2);
    bed_run(bed, minutes * 60000);
    assert_int_equal(bed_live(bed, 1), 1);
    assert_false(bed_stats(bed, 1).converged);
    /* Both look, each at most every 64 beats, when it has tried often enough. */
    assert_true(watch.seen[WIRE_ROUTE_SYNC_ASK] < 2 * (minutes * 60000 / (64 * BED_BEAT_MS) + 12));
    bed_free(bed);
}

/* Two of one number: the later one sees it, keeps silent, and begins when the other is gone. */
static void
twins_are_told_apart(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 3);
    struct router_replica_options options = {.router = 100,
                                             .incarnation = 1000,
                                             .beat_ms = BED_BEAT_MS,
                                             .join_ms = BED_JOIN_MS,
                                             .gone_ms = BED_GONE_MS};

    (void)state;
    bed_start(bed, 0);
    bed_start(bed, 1);
    bed_run(bed, 2 * BED_JOIN_MS);
    bed_start(bed, 2);
    router_replica_free(bed->routers[2].replica);
    bed_adopt(bed, 2, &options);
    bed_run(bed, BED_JOIN_MS);
    assert_true(bed_stats(bed, 2).twin);
    assert_false(bed_stats(bed, 2).ready);
    assert_true(bed_stats(bed, 0).twin);
    bed_add(bed, 2, 7); /* nobody hears of it */
    bed_add(bed, 0, 8);
    bed_run(bed, 2 * BED_GONE_MS);
    assert_false(bed_stats(bed, 0).twin);
    assert_true(bed_stats(bed, 0).converged);
    assert_true(bed_stats(bed, 1).converged);
    assert_int_equal(bed_live(bed, 1), 1);
    assert_true(bed_stats(bed, 2).twin);
    assert_int_equal(bed_live(bed, 2), 1);
    bed_kill(bed, 0);
    bed_run(bed, 2 * BED_GONE_MS + BED_JOIN_MS);
    assert_false(bed_stats(bed, 2).twin);
    assert_true(bed_stats(bed, 2).ready);
    assert_true(bed_settle(bed, 2000));
    assert_int_equal(bed_live(bed, 1), 2);
    assert_int_equal(bed_live(bed, 2), 2);
    bed_free(bed);
}

/* ---- workers that live anew ---- */

/* The next request, behind `number`, that goes to worker 0. */
static uint64_t
next_of_first(uint64_t number)
{
    struct router_request request;
    uint64_t hashes[BED_HASHES_MAX];

    do
        bed_request(&request, hashes, ++number);
    while (strcmp(request.worker.name, "worker-0") != 0);
    return number;
}

static struct group_bed *
bed_of_two(struct watch *watch)
{
    struct group_bed *bed = calm_bed(watch, 3);

    for (int i = 0; i < 2; i++)
        bed_start(bed, i);
    bed_run(bed, 2 * BED_JOIN_MS);
    return bed;
}

/* Who sees the end late takes nothing back that another gave to the next life. */
static void
who_gave_to_a_worker_ends_it(void **state)
{
    struct watch watch;
    struct group_bed *bed = bed_of_two(&watch);
    const uint64_t first = next_of_first(0);
    const uint64_t second = next_of_first(first);

    (void)state;
    bed_add(bed, 0, first);
    bed_run(bed, 10);
    bed_left(bed, 1, 0); /* not ours: it is the other's to say */
    bed_run(bed, 3 * BED_GONE_MS);
    assert_int_equal(bed_live(bed, 1), 1);
    bed_left(bed, 0, 0);
    assert_int_equal(bed_live(bed, 0), 0);
    bed_add(bed, 0, second);
    bed_run(bed, 10);
    assert_int_equal(bed_live(bed, 1), 1);
    bed_left(bed, 1, 0);
    bed_run(bed, 3 * BED_GONE_MS);
    assert_int_equal(bed_live(bed, 0), 1);
    assert_int_equal(bed_live(bed, 1), 1);
    assert_true(bed_settle(bed, 1000));
    bed_free(bed);
}

static void
what_a_router_gave_that_died_ends_with_its_worker(void **state)
{
    struct watch watch;
    struct group_bed *bed = bed_of_two(&watch);
    const uint64_t first = next_of_first(0);
    const uint64_t second = next_of_first(first);

    (void)state;
    bed_add(bed, 0, first);
    bed_run(bed, 10);
    bed_left(bed, 1, 0);
    bed_run(bed, 10);
    bed_add(bed, 0, second); /* behind the end */
    bed_run(bed, 10);
    bed_kill(bed, 0);
    bed_run(bed, 2 * BED_GONE_MS - 100);
    assert_int_equal(bed_live(bed, 1), 2);
    bed_run(bed, 200);
    assert_int_equal(bed_live(bed, 1), 1);
    bed_free(bed);
}

static void
what_a_router_gave_in_an_earlier_life_of_its_own_does_too(void **state)
{
    struct watch watch;
    struct group_bed *bed = bed_of_two(&watch);
    struct router_replica_options options = {.router = 100,
                                             .incarnation = 1800000000000, /* behind what it gave */
                                             .beat_ms = BED_BEAT_MS,
                                             .join_ms = BED_JOIN_MS,
                                             .gone_ms = BED_GONE_MS};

    (void)state;
    bed_add(bed, 0, next_of_first(0));
    bed_run(bed, 10);
    router_replica_free(bed->routers[0].replica);
    bed_adopt(bed, 0, &options);
    bed_run(bed, BED_JOIN_MS);
    bed_left(bed, 1, 0);
    bed_run(bed, 2 * BED_GONE_MS + 100);
    assert_true(bed_stats(bed, 1).peers == 1);
    assert_int_equal(bed_live(bed, 1), 0);
    bed_free(bed);
}

/* A worker may leave before the others can be heard: the time to hear them begins later. */
static void
who_is_not_heard_yet_is_waited_for_all_the_same(void **state)
{
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 3);

    (void)state;
    bed_start(bed, 0);
    bed->routers[0].up = false; /* nobody hears it, and it does not tick */
    bed_left(bed, 0, 0);
    bed_run(bed, 2 * BED_JOIN_MS);
    bed->routers[0].up = true;
    bed_run(bed, BED_JOIN_MS - BED_TICK_MS);
    assert_false(bed_stats(bed, 0).ready);
    bed_run(bed, 3 * BED_TICK_MS);
    assert_true(bed_stats(bed, 0).ready);
    bed_free(bed);
}

/* More workers end than are remembered: the first is settled before its time. */
static void
many_ends_are_settled(void **state)
{
    struct watch watch;
    struct group_bed *bed = bed_of_two(&watch);

    (void)state;
    bed_add(bed, 0, next_of_first(0));
    bed_run(bed, 10);
    bed_kill(bed, 0);
    bed_run(bed, BED_GONE_MS + 100);
    for (int i = 0; i < 1024; i++)
        bed_left(bed, 1, 0);
    assert_int_equal(bed_live(bed, 1), 1);
    bed_left(bed, 1, 0);
    assert_int_equal(bed_live(bed, 1), 0);
    bed_run(bed, 3 * BED_GONE_MS);
    bed_free(bed);
}

static void
noise_and_later_formats_are_counted(void **state)
{
    static const uint8_t later[] = {0x94, 0x02, 0x01, 0x07, 0x01};
    static const uint8_t noise[] = {0xc1, 0x00};
    struct watch watch;
    struct group_bed *bed = calm_bed(&watch, 1);
    struct router_replica_stats stats;

    (void)state;
    bed_start(bed, 0);
    bed_run(bed, 100);
    router_replica_take(bed->routers[0].replica, later, sizeof(later), 0);
    router_replica_take(bed->routers[0].replica, noise, sizeof(noise), 0);
    router_replica_take(bed->routers[0].replica, noise, 0, 0);
    stats = bed_stats(bed, 0);
    assert_int_equal(stats.unsupported, 1);
    assert_int_equal(stats.malformed, 2);
    assert_int_equal(stats.peers, 0);
    assert_int_equal(stats.received, 0);
    bed_free(bed);
}

static void
drop_it(void *arg, const void *bytes, size_t size)
{
    (void)arg;
    (void)bytes;
    (void)size;
}

static bool
live(void *arg)
{
    const struct router_replica_options options = {.router = 1,
                                                   .incarnation = 1,
                                                   .beat_ms = 10,
                                                   .join_ms = 10,
                                                   .gone_ms = 10,
                                                   .send = drop_it};
    struct router_replica *replica;

    if (router_replica_new(&replica, arg, &options) != KVT_OK) {
        assert_null(replica);
        return false;
    }
    /* Without memory for a message it is not sent. */
    router_replica_tick(replica, 1);
    router_replica_tell(replica, "request-1", ROUTER_ADDED);
    const bool sent = router_replica_stats(replica).sent == 2;
    router_replica_free(replica);
    return sent;
}

static void
every_allocation_may_fail(void **state)
{
    const struct router_request_table_options options = {
        .expiry_ms = EXPIRY_MS, .requests_max = 10, .blocks_max = 1000};
    struct router_request_table *slots;
    struct router_request request;
    uint64_t hashes[BED_HASHES_MAX];

    (void)state;
    assert_int_equal(router_request_table_new(&slots, &options), KVT_OK);
    bed_request(&request, hashes, 1);
    assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    assert_true(test_sweep_allocations(live, slots) >= 3);
    router_request_table_free(slots);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_heard_at_once),
        cmocka_unit_test(messages_under_way_are_not_missing),
        cmocka_unit_test(a_hole_is_asked_for_alone),
        cmocka_unit_test(a_joining_replica_gets_it_all),
        cmocka_unit_test(half_a_table_is_not_passed_on),
        cmocka_unit_test(who_is_joining_gives_no_table),
        cmocka_unit_test(a_lost_page_is_asked_for_from_where_it_was),
        cmocka_unit_test(alone_it_is_ready_in_time),
        cmocka_unit_test(the_dead_are_heard_through_others),
        cmocka_unit_test(what_nobody_told_is_found),
        cmocka_unit_test(what_cannot_be_mended_makes_no_storm),
        cmocka_unit_test(twins_are_told_apart),
        cmocka_unit_test(who_gave_to_a_worker_ends_it),
        cmocka_unit_test(what_a_router_gave_that_died_ends_with_its_worker),
        cmocka_unit_test(what_a_router_gave_in_an_earlier_life_of_its_own_does_too),
        cmocka_unit_test(who_is_not_heard_yet_is_waited_for_all_the_same),
        cmocka_unit_test(many_ends_are_settled),
        cmocka_unit_test(noise_and_later_formats_are_counted),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
