/*
 * What is tested: router/peers.h.
 * How: numbers that come in any order, twice and late, against a set; lives and room by hand.
 */
#include <string.h>

#include "base/core/random.h"

#include "router/peers.h"
#include "tests/support/seed.h"

enum { GONE_MS = 100, NUMBERS = 5000 };

/* Behind this none is ever farther ahead than the window: each is remembered. */
static void
numbers_are_known_in_any_order(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 20; round++) {
        struct router_peer peer = {.router = 1};
        bool there[NUMBERS + 2] = {false};
        uint64_t complete = 0;
        uint64_t last = 0;

        while (complete < NUMBERS) {
            const uint64_t spread = 1 + kvt_random_below(&random, ROUTER_PEERS_AHEAD);
            uint64_t seq = complete > 20 ? complete - 20 : 0;

            seq += kvt_random_below(&random, complete - seq + spread + 1);
            if (kvt_random_below(&random, 3) == 0)
                seq = complete + 1;
            if (seq > NUMBERS)
                continue;
            if (kvt_random_below(&random, 50) == 0) {
                router_peer_cover(&peer, seq, 1);
                for (uint64_t i = 0; i <= seq; i++)
                    there[i] = true;
            } else {
                router_peer_step(&peer, seq, 1);
                there[seq] = true;
            }
            last = seq > last ? seq : last;
            while (there[complete + 1])
                complete++;
            last = complete > last ? complete : last;
            assert_int_equal(peer.complete, complete);
            assert_int_equal(peer.last, last);
            assert_int_equal(router_peer_lacks(&peer), complete < last);
            assert_int_equal(peer.missing_ms != 0, complete < last);
        }
    }
}

/* What came too far ahead counts as missing, and what covers it does not forget what came. */
static void
what_is_too_far_ahead_is_missing(void **state)
{
    struct router_peer peer = {.router = 1};

    (void)state;
    router_peer_step(&peer, 1 + ROUTER_PEERS_AHEAD, 1);
    router_peer_step(&peer, 5, 1);
    assert_int_equal(peer.complete, 0);
    router_peer_cover(&peer, 4, 1);
    assert_int_equal(peer.complete, 5);
    router_peer_cover(&peer, ROUTER_PEERS_AHEAD, 1);
    assert_int_equal(peer.complete, ROUTER_PEERS_AHEAD);
    assert_true(router_peer_lacks(&peer)); /* it did come, and was not remembered */
    router_peer_cover(&peer, 1000000, 1);
    assert_int_equal(peer.complete, 1000000);
    assert_false(router_peer_lacks(&peer));
    router_peer_step(&peer, 1000002, 1);
    router_peer_step(&peer, 7, 1);
    router_peer_step(&peer, 1000001, 1);
    assert_int_equal(peer.complete, 1000002);
}

static void
a_new_life_begins_anew(void **state)
{
    struct router_peers peers = {.gone_ms = GONE_MS};
    struct router_peer *peer = router_peers_reach(&peers, 7, 10, true, 1000);

    (void)state;
    router_peer_step(peer, 1, 1000);
    assert_ptr_equal(router_peers_reach(&peers, 7, 10, true, 1001), peer);
    assert_int_equal(peer->complete, 1);
    assert_ptr_equal(router_peers_reach(&peers, 7, 11, true, 1002), peer);
    assert_int_equal(peer->complete, 0);
    /* What is late from the old one is not of this one; nor is what others say of it. */
    assert_null(router_peers_reach(&peers, 7, 10, true, 1003));
    assert_null(router_peers_reach(&peers, 7, 10, false, 1003 + 2 * GONE_MS));
    /* But where the new one is silent, the old one is who lives. */
    assert_ptr_equal(router_peers_reach(&peers, 7, 10, true, 1003 + 2 * GONE_MS), peer);
    assert_int_equal(peer->incarnation, 10);
}

static void
the_longest_silent_peer_makes_room(void **state)
{
    struct router_peers peers = {.gone_ms = GONE_MS};

    (void)state;
    for (uint64_t i = 0; i < ROUTER_PEERS_MAX; i++)
        (void)router_peers_reach(&peers, i, 1, true, 1000 + (i * 7) % ROUTER_PEERS_MAX);
    (void)router_peers_reach(&peers, 0, 1, true, 2000);
    (void)router_peers_reach(&peers, 99, 1, true, 2001);
    assert_int_equal(peers.count, ROUTER_PEERS_MAX);
    assert_non_null(router_peers_find(&peers, 0));
    assert_non_null(router_peers_find(&peers, 99));
    for (uint64_t i = 1; i < ROUTER_PEERS_MAX; i++)
        if (router_peers_find(&peers, i) == NULL)
            assert_int_equal((i * 7) % ROUTER_PEERS_MAX, 1);
}

static void
peers_are_there_while_they_are_heard(void **state)
{
    struct router_peers peers = {.gone_ms = GONE_MS};
    struct router_peer *told = router_peers_reach(&peers, 1, 1, false, 1000);
    struct router_peer *heard = router_peers_reach(&peers, 2, 1, true, 1000);

    (void)state;
    assert_false(router_peers_there(&peers, told, 1000));
    assert_true(router_peers_there(&peers, heard, 1000 + GONE_MS - 1));
    assert_false(router_peers_there(&peers, heard, 1000 + GONE_MS));
    (void)router_peers_reach(&peers, 2, 1, false, 1000 + GONE_MS);
    assert_false(router_peers_there(&peers, heard, 1000 + GONE_MS));
    (void)router_peers_reach(&peers, 2, 1, true, 1000 + GONE_MS);
    assert_true(router_peers_there(&peers, heard, 1000 + GONE_MS));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_known_in_any_order),
        cmocka_unit_test(what_is_too_far_ahead_is_missing),
        cmocka_unit_test(a_new_life_begins_anew),
        cmocka_unit_test(the_longest_silent_peer_makes_room),
        cmocka_unit_test(peers_are_there_while_they_are_heard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
