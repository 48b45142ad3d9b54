/*
 * What is tested: router/replica.h where the bus loses, doubles, delays and is cut, and replicas
 * die.
 * How: three replicas on a simulated bus, many seeds.  Requests come, move on and end at any of
 * them; then nothing new happens, the bus stays as bad, and in bounded time all tables are the
 * same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/unit/router/support/replica_bed.h"

enum {
    ROUTERS = 3,
    SEEDS = 200 / TEST_LONG_SHARE,
    REQUESTS = 400,
    LOAD_MS = 4000,
    SETTLE_MS = 60000, /* with half of all messages lost */
    EXPIRY_MS = 180000,
};

/* What became of each request, as those who asked know. */
struct truth {
    bool added;
    enum router_state state;
};

static int
any_up(struct group_bed *bed)
{
    int number;

    do
        number = (int)kvt_random_below(&bed->random, ROUTERS);
    while (!bed->routers[number].up);
    return number;
}

/* A step of a request, told to any replica. */
static void
move_on(struct group_bed *bed, struct truth *truth, uint64_t request)
{
    if (!truth->added) {
        bed_add(bed, any_up(bed), request);
        truth->added = true;
        truth->state = truth->state > ROUTER_ADDED ? truth->state : ROUTER_ADDED;
    } else if (truth->state == ROUTER_ADDED) {
        bed_prefilled(bed, any_up(bed), request);
        truth->state = ROUTER_PREFILLED;
    } else {
        bed_end(bed, any_up(bed), request);
        truth->state = ROUTER_FREED;
    }
    /* A frontend that got no answer asks another replica, or the same again. */
    if (kvt_random_below(&bed->random, 20) == 0 && truth->state != ROUTER_FREED)
        bed_add(bed, any_up(bed), request);
}

static void
cut(struct group_bed *bed)
{
    const int a = (int)kvt_random_below(&bed->random, ROUTERS);
    const int b = (int)kvt_random_below(&bed->random, ROUTERS);

    bed->apart[a][b] = !bed->apart[a][b]; /* one way only, too */
}

static void
mend(struct group_bed *bed)
{
    for (int a = 0; a < ROUTERS; a++)
        for (int b = 0; b < ROUTERS; b++)
            bed->apart[a][b] = false;
}

static void
load(struct group_bed *bed, struct truth *truth, uint64_t requests, uint64_t ms, bool kills)
{
    for (const uint64_t end_ms = bed->now_ms + ms; bed->now_ms < end_ms;
         bed_run(bed, 1 + kvt_random_below(&bed->random, 10))) {
        const int victim = (int)kvt_random_below(&bed->random, ROUTERS);

        for (int i = 0; i < 6; i++) {
            const uint64_t request = kvt_random_below(&bed->random, requests);

            if (truth[request].state != ROUTER_FREED)
                move_on(bed, &truth[request], request);
        }
        if (kvt_random_below(&bed->random, 40) == 0)
            cut(bed);
        if (!kills || kvt_random_below(&bed->random, 60) > 0)
            continue;
        if (!bed->routers[victim].up)
            bed_start(bed, victim);
        else if (bed->routers[(victim + 1) % ROUTERS].up && bed->routers[(victim + 2) % ROUTERS].up)
            bed_kill(bed, victim);
    }
    mend(bed);
    for (int i = 0; i < ROUTERS; i++)
        if (!bed->routers[i].up)
            bed_start(bed, i);
}

static struct group_bed *
bad_bed(uint64_t seed)
{
    struct group_bed *bed = bed_new(seed, ROUTERS, EXPIRY_MS);

    bed->network.loss_percent = (unsigned)kvt_random_below(&bed->random, 51);
    bed->network.twice_percent = (unsigned)kvt_random_below(&bed->random, 31);
    bed->network.delay_ms = kvt_random_below(&bed->random, 120);
    for (int i = 0; i < ROUTERS; i++)
        bed_start(bed, i);
    return bed;
}

static void
check_truth(const struct group_bed *bed, const struct truth *truth, uint64_t requests)
{
    struct router_request expected;
    struct router_request shown;
    uint64_t hashes[BED_HASHES_MAX];
    uint64_t live = 0;

    for (uint64_t i = 0; i < requests; i++) {
        if (!truth[i].added || truth[i].state == ROUTER_FREED)
            continue;
        live++;
        bed_request(&expected, hashes, i);
        assert_int_equal(router_request_table_get(bed->routers[0].slots, expected.id, &shown),
                         KVT_OK);
        assert_int_equal(shown.state, truth[i].state);
        assert_string_equal(shown.worker.name, expected.worker.name);
        assert_int_equal(shown.hash_count, expected.hash_count);
    }
    assert_int_equal(bed_live(bed, 0), live);
}

static uint64_t
run(uint64_t seed, uint64_t requests, uint64_t ms, bool kills)
{
    struct group_bed *bed = bad_bed(seed);
    struct truth *truth = kvt_calloc(requests, sizeof(truth[0]));
    uint64_t settled_ms;

    assert_non_null(truth);
    load(bed, truth, requests, ms, kills);
    settled_ms = bed->now_ms;
    if (!bed_settle(bed, SETTLE_MS))
        fail_msg("seed %" PRIu64 ": not alike in %d ms (loss %u %%, delay %" PRIu64 " ms)", seed,
                 SETTLE_MS, bed->network.loss_percent, bed->network.delay_ms);
    settled_ms = bed->now_ms - settled_ms;
    for (int i = 1; i < ROUTERS; i++)
        bed_check_same_load(bed, 0, i);
    if (!kills)
        check_truth(bed, truth, requests);
    kvt_free(truth);
    bed_free(bed);
    return settled_ms;
}

static void
run_seeds(uint64_t seeds, uint64_t requests, uint64_t ms, bool kills)
{
    uint64_t random = test_seed();
    uint64_t longest_ms = 0;

    for (uint64_t i = 0; i < seeds; i++) {
        const uint64_t settled_ms = run(kvt_random_next(&random), requests, ms, kills);

        longest_ms = settled_ms > longest_ms ? settled_ms : longest_ms;
    }
    print_message("longest until alike: %" PRIu64 " ms\n", longest_ms);
}

static void
replicas_become_alike(void **state)
{
    (void)state;
    run_seeds(SEEDS, REQUESTS, LOAD_MS, false);
}

static void
replicas_that_die_and_come_back_become_alike(void **state)
{
    (void)state;
    run_seeds(SEEDS, REQUESTS, LOAD_MS, true);
}

static void
thousands_of_requests_do_too(void **state)
{
    (void)state;
    run_seeds(1, 20000 / TEST_ALONE_SHARE, 20000, true);
}

/* ---- workers that live anew ---- */

enum { NEWS_MS = 2500 }; /* at most, until a router sees that a worker lives anew */

/* What each router thinks of each worker, and when it thinks again. */
struct lives {
    uint64_t now[BED_WORKERS];
    uint64_t seen[ROUTERS][BED_WORKERS];
    uint64_t see_ms[ROUTERS][BED_WORKERS]; /* 0: nothing is new */
};

/* A request, and the life of its worker that whoever gave it out knew. */
struct given {
    bool added;
    bool ended;
    int worker;
    int router;
    uint64_t life;
};

static void
see(struct group_bed *bed, struct lives *lives, bool all)
{
    for (int i = 0; i < ROUTERS; i++)
        for (int worker = 0; worker < BED_WORKERS; worker++) {
            if (lives->see_ms[i][worker] == 0 || (!all && bed->now_ms < lives->see_ms[i][worker]))
                continue;
            lives->see_ms[i][worker] = 0;
            lives->seen[i][worker] = lives->now[worker];
            bed_left(bed, i, worker);
        }
}

static void
begin_life(struct group_bed *bed, struct lives *lives, int worker)
{
    lives->now[worker]++;
    for (int i = 0; i < ROUTERS; i++)
        if (lives->see_ms[i][worker] == 0)
            lives->see_ms[i][worker] = bed->now_ms + 1 + kvt_random_below(&bed->random, NEWS_MS);
}

static void
give(struct group_bed *bed, const struct lives *lives, struct given *given, uint64_t number)
{
    struct router_request request;
    uint64_t hashes[BED_HASHES_MAX];

    if (given->added) {
        given->ended = true;
        bed_end(bed, any_up(bed), number);
        return;
    }
    bed_request(&request, hashes, number);
    given->added = true;
    given->router = any_up(bed);
    given->worker = request.worker.name[strlen("worker-")] - '0';
    given->life = lives->seen[given->router][given->worker];
    bed_add(bed, given->router, number);
}

/* What was given to a life is over with it, and nothing else is, whoever saw what first. */
static void
lives_are_ended_by_who_gave_to_them(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int i = 0; i < SEEDS; i++) {
        const uint64_t seed = kvt_random_next(&random);
        struct group_bed *bed = bad_bed(seed);
        struct given given[REQUESTS] = {0};
        struct lives lives = {0};
        uint64_t live = 0;

        while (bed->now_ms < LOAD_MS) {
            const uint64_t number = kvt_random_below(&bed->random, REQUESTS);

            if (!given[number].added || kvt_random_below(&bed->random, 8) == 0)
                give(bed, &lives, &given[number], number);
            if (kvt_random_below(&bed->random, 100) == 0)
                begin_life(bed, &lives, (int)kvt_random_below(&bed->random, BED_WORKERS));
            bed_run(bed, 1 + kvt_random_below(&bed->random, 10));
            see(bed, &lives, false);
        }
        see(bed, &lives, true);
        if (!bed_settle(bed, SETTLE_MS))
            fail_msg("seed %" PRIu64 ": not alike in %d ms", seed, SETTLE_MS);
        for (uint64_t number = 0; number < REQUESTS; number++) {
            struct router_request shown;
            char id[ROUTER_REQUEST_ID_MAX];
            bool wanted;

            wanted = given[number].added && !given[number].ended &&
                     given[number].life == lives.now[given[number].worker];
            live += wanted;
            (void)snprintf(id, sizeof(id), "request-%" PRIu64, number);
            if (wanted != (router_request_table_get(bed->routers[0].slots, id, &shown) == KVT_OK &&
                           shown.worker.name[0] != '\0'))
                fail_msg("seed %" PRIu64 ": %s %s", seed, id, wanted ? "was lost" : "is there");
        }
        assert_int_equal(bed_live(bed, 0), live);
        for (int k = 1; k < ROUTERS; k++)
            bed_check_same_load(bed, 0, k);
        bed_free(bed);
    }
}

static bool
pass_no_asks(void *arg, const struct wire_route_sync *message, int from, int to)
{
    (void)arg;
    (void)from;
    (void)to;
    return message->kind != WIRE_ROUTE_SYNC_ASK;
}

/* The tests above can fail: with nobody asking for what is missing, tables stay apart. */
static void
without_questions_they_stay_apart(void **state)
{
    uint64_t random = test_seed();
    int apart = 0;

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct group_bed *bed = bad_bed(kvt_random_next(&random));
        struct truth *truth = kvt_calloc(REQUESTS, sizeof(truth[0]));

        assert_non_null(truth);
        bed->network.loss_percent = 20;
        bed->network.pass = pass_no_asks;
        load(bed, truth, REQUESTS, LOAD_MS, false);
        apart += !bed_settle(bed, SETTLE_MS);
        kvt_free(truth);
        bed_free(bed);
    }
    assert_int_equal(apart, 5);
}

/* Frontends die and say nothing; what they were given expires, everywhere. */
static void
lost_ends_expire(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct group_bed *bed = bad_bed(kvt_random_next(&random));
        struct truth *truth = kvt_calloc(REQUESTS, sizeof(truth[0]));

        assert_non_null(truth);
        load(bed, truth, REQUESTS, 1500, true);
        assert_true(bed_settle(bed, SETTLE_MS));
        assert_true(bed_live(bed, 0) > 0);
        bed_run(bed, EXPIRY_MS - 2000 - bed->now_ms);
        assert_true(bed_live(bed, 0) > 0);
        /* A copy is as old as the original and what its messages took. */
        bed_run(bed, 2000 + SETTLE_MS);
        for (int j = 0; j < ROUTERS; j++) {
            assert_int_equal(bed_live(bed, j), 0);
            assert_int_equal(router_request_table_digest(bed->routers[j].slots), 0);
        }
        kvt_free(truth);
        bed_free(bed);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_become_alike),
        cmocka_unit_test(replicas_that_die_and_come_back_become_alike),
        cmocka_unit_test(thousands_of_requests_do_too),
        cmocka_unit_test(lives_are_ended_by_who_gave_to_them),
        cmocka_unit_test(without_questions_they_stay_apart),
        cmocka_unit_test(lost_ends_expire),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
