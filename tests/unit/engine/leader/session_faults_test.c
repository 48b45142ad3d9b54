/*
 * What is tested: sessions of instances between which messages are lost, doubled, delayed and
 * overtaken by others; several pullers of one session, more sessions than there may be; leaders
 * that are closed with sessions at others.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "engine/leader/session_internal.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/leader/leader_node.h"
#include "tests/unit/engine/support/rpc_proxy.h"

enum {
    PATIENCE_MS = 30000,
    HOLD_MS = 600,
    LONG_MS = 200000, /* a hold that no test waits for */
    STEPS = 150 / TEST_ALONE_SHARE,
    CLOSINGS = 8 / TEST_ALONE_SHARE,
    MATCHES = 4,
    CHAINS = 6,
};

/* ours asks, theirs has. */
struct pair {
    char folder[200];
    char endpoints[2][256];
    struct node ours, theirs;
};

#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        const uint64_t end_ms_ = kvt_clock_mono_ms() + PATIENCE_MS;                                \
                                                                                                   \
        while (!(condition)) {                                                                     \
            if (kvt_clock_mono_ms() > end_ms_)                                                     \
                fail_msg("line %d: " #condition, __LINE__);                                        \
            kvt_clock_sleep_ms(1);                                                                 \
        }                                                                                          \
    } while (0)

static void
open_node(struct pair *pair, size_t which, uint64_t number, uint64_t hold_ms)
{
    assert_int_equal(node_open(which == 0 ? &pair->ours : &pair->theirs,
                               &(struct node_options){.number = number,
                                                      .endpoint = pair->endpoints[which],
                                                      .hold_ms = hold_ms}),
                     KVT_OK);
}

static void
open_pair(struct pair *pair, uint64_t hold_ms)
{
    (void)test_folder_make(pair->folder, sizeof(pair->folder));
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(pair->endpoints[i], sizeof(pair->endpoints[i]), "ipc://%s/%zu", pair->folder,
                       i);
        open_node(pair, i, i + 1, hold_ms);
    }
}

static void
close_pair(struct pair *pair)
{
    node_close(&pair->ours);
    node_close(&pair->theirs);
    test_folder_remove(pair->folder);
}

static void
join(struct pair *pair, const char *endpoint)
{
    assert_int_equal(engine_leader_add_peer(pair->ours.leader, 2, endpoint, PATIENCE_MS, NULL),
                     KVT_OK);
}

static struct engine_match *
find(struct pair *pair, uint64_t chain, size_t count, enum engine_mode mode, uint64_t wait_ms)
{
    struct kvbm_label labels[NODE_CHAIN];
    struct engine_match *match;

    node_labels(labels, chain, count);
    assert_int_equal(
        engine_leader_find(
            pair->ours.leader,
            &(struct engine_find){
                .labels = labels, .count = count, .mode = mode, .peers = true, .wait_ms = wait_ms},
            &match),
        KVT_OK);
    return match;
}

static struct engine_leader_stats
stats_of(struct node *node)
{
    struct engine_leader_stats stats;

    engine_leader_stats(node->leader, &stats);
    return stats;
}

/* ---- a bad network ---- */

struct going {
    struct engine_match *match;
    uint64_t chain;
    enum engine_mode mode;
};

/* Its time comes, whatever was lost. */
static struct engine_match_view
end_of(const struct going *going)
{
    struct engine_match_view view;

    assert_int_equal(
        engine_match_wait(going->match,
                          ENGINE_STATE_BIT(ENGINE_READY) | ENGINE_STATE_BIT(ENGINE_HOLDING),
                          PATIENCE_MS, &view),
        KVT_OK);
    return view;
}

/* What it has is right; let it go. */
static void
let_go(struct pair *pair, struct going *going)
{
    struct kvt_handle handles[NODE_CHAIN];
    size_t count;

    if (going->match == NULL)
        return;
    count = engine_match_blocks(going->match, handles, NODE_CHAIN);
    assert_true(node_are(&pair->ours, going->chain, handles, count));
    engine_match_release(going->match);
    going->match = NULL;
}

static void
await_both_idle(struct pair *pair)
{
    AWAIT(node_is_idle(&pair->ours, 0));
    AWAIT(node_is_idle(&pair->theirs, 0));
}

/* All of a chain comes, sooner or later. */
static void
comes(struct pair *pair, uint64_t chain)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    struct engine_match_view view;

    do {
        struct going going = {.chain = chain, .mode = ENGINE_FULL};

        assert_true(kvt_clock_mono_ms() < end_ms);
        going.match = find(pair, chain, 4, ENGINE_FULL, PATIENCE_MS);
        view = end_of(&going);
        let_go(pair, &going);
    } while (view.ready < 4);
    await_both_idle(pair);
}

static void
step(struct pair *pair, struct going *going, uint64_t *random)
{
    const uint64_t chain = 1 + kvt_random_below(random, CHAINS);
    const size_t first = kvt_random_below(random, NODE_CHAIN - 2);

    switch (kvt_random_below(random, 8)) {
    case 0: (void)node_make(&pair->theirs, KVT_TIER_G2, chain, first, 2); break;
    case 1: (void)node_make(&pair->theirs, KVT_TIER_G3, chain, first, 2); break;
    case 2:
        (void)kvbm_pool_clear(
            (kvt_random_below(random, 2) == 0 ? &pair->ours : &pair->theirs)->pools[KVT_TIER_G2]);
        break;
    case 3:
        if (going->match != NULL)
            (void)end_of(going);
        let_go(pair, going);
        break;
    case 4:
        if (going->match != NULL) {
            const enum kvt_err rc = engine_match_stage(going->match, ENGINE_FULL, 100);

            assert_true(rc == KVT_OK || rc == KVT_PRECONDITION);
        }
        break;
    default:
        let_go(pair, going);
        going->chain = chain;
        going->mode = (enum engine_mode)kvt_random_below(random, 3);
        going->match = find(pair, chain, 1 + kvt_random_below(random, NODE_CHAIN), going->mode,
                            1 + kvt_random_below(random, 300));
        break;
    }
    kvt_clock_sleep_ms(kvt_random_below(random, 12));
}

static void
on_a_bad_network(void **unused)
{
    const struct rpc_proxy_faults faults = {
        .lost = 60000, .twice = 150000, .late = 300000, .late_ms = 60};
    uint64_t random = test_seed();
    struct going going[MATCHES] = {{NULL}};
    struct rpc_proxy *proxy;
    struct pair pair;

    (void)unused;
    open_pair(&pair, HOLD_MS);
    proxy = rpc_proxy_open(pair.endpoints[1], random, &faults);
    join(&pair, rpc_proxy_endpoint(proxy));
    for (unsigned i = 0; i < STEPS; i++)
        step(&pair, &going[kvt_random_below(&random, MATCHES)], &random);
    for (size_t i = 0; i < MATCHES; i++)
        let_go(&pair, &going[i]);
    await_both_idle(&pair); /* also where the end of a session was not heard */
    assert_true(node_make(&pair.theirs, KVT_TIER_G2, CHAINS + 1, 0, 2));
    assert_true(node_make(&pair.theirs, KVT_TIER_G3, CHAINS + 1, 2, 2));
    comes(&pair, CHAINS + 1);
    node_close(&pair.ours);
    rpc_proxy_close(proxy);
    node_close(&pair.theirs);
    test_folder_remove(pair.folder);
}

/* The network is cut while sessions are in several states, and mended again. */
static void
cut_off_for_a_while(void **unused)
{
    static const struct rpc_proxy_faults none = {0};
    struct going held = {.chain = 1, .mode = ENGINE_HOLD};
    struct going pulled = {.chain = 2, .mode = ENGINE_FULL};
    struct going searched = {.chain = 3, .mode = ENGINE_FULL};
    struct engine_match_view view;
    struct rpc_proxy *proxy;
    struct pair pair;

    (void)unused;
    open_pair(&pair, HOLD_MS);
    proxy = rpc_proxy_open(pair.endpoints[1], test_seed(), &none);
    join(&pair, rpc_proxy_endpoint(proxy));
    for (uint64_t chain = 1; chain <= 3; chain++) {
        assert_true(node_make(&pair.theirs, KVT_TIER_G2, chain, 0, 2));
        assert_true(node_make(&pair.theirs, KVT_TIER_G3, chain, 2, 2));
    }
    held.match = find(&pair, 1, 4, ENGINE_HOLD, PATIENCE_MS);
    AWAIT((engine_match_view(held.match, &view), view.state == ENGINE_HOLDING));
    node_gate(&pair.ours, ENGINE_PULL);
    pulled.match = find(&pair, 2, 4, ENGINE_FULL, PATIENCE_MS);
    AWAIT(node_gated(&pair.ours) > 0);
    rpc_proxy_mute(proxy, true);
    searched.match = find(&pair, 3, 4, ENGINE_FULL, PATIENCE_MS);
    AWAIT(stats_of(&pair.theirs).peer_sessions == 0); /* their holds end by themselves */
    AWAIT(stats_of(&pair.theirs).pins == 0);
    assert_true(stats_of(&pair.theirs).peer_expired >= 2);
    AWAIT((engine_match_view(held.match, &view), view.shortened));
    assert_int_equal(end_of(&searched).found, 0);
    rpc_proxy_mute(proxy, false);
    node_gate(&pair.ours, (enum engine_verb)0);
    view = end_of(&pulled);
    assert_true(view.shortened == (view.ready < view.found));
    let_go(&pair, &held);
    let_go(&pair, &pulled);
    let_go(&pair, &searched);
    comes(&pair, 3); /* as soon as they hear of each other */
    node_close(&pair.ours);
    rpc_proxy_close(proxy);
    node_close(&pair.theirs);
    test_folder_remove(pair.folder);
}

/* ---- questions, as they come from an initiator ---- */

static enum kvt_err
say(struct engine_rpc_client *client, uint32_t method, const uint64_t *words, size_t count)
{
    struct kvt_buffer out;
    enum kvt_err rc;

    kvt_buffer_init(&out, 4096);
    engine_session_words_put(&out, words, count);
    rc = engine_rpc_run(
        client,
        &(struct engine_rpc_request){
            .method = method, .bytes = out.data, .size = out.size, .wait_ms = PATIENCE_MS},
        NULL, NULL);
    kvt_buffer_release(&out);
    return rc;
}

/* For the first block of a chain. */
static enum kvt_err
say_open(struct engine_rpc_client *client, uint64_t session, uint64_t puller, uint64_t chain)
{
    uint64_t words[ENGINE_SESSION_OPEN_WORDS + ENGINE_SESSION_LABEL_WORDS] = {
        ENGINE_SESSION_VERSION, 2, session, puller, ENGINE_FULL, LONG_MS};
    struct kvbm_label label;

    node_labels(&label, chain, 1);
    engine_session_words_of_label(words + ENGINE_SESSION_OPEN_WORDS, &label);
    return say(client, ENGINE_SESSION_OPEN, words,
               ENGINE_SESSION_OPEN_WORDS + ENGINE_SESSION_LABEL_WORDS);
}

static enum kvt_err
say_close(struct engine_rpc_client *client, uint64_t session, uint64_t puller)
{
    return say(client, ENGINE_SESSION_CLOSE, (const uint64_t[]){session, puller}, 2);
}

static struct engine_rpc_client *
connect_to(const char *endpoint)
{
    struct engine_rpc_client *client;

    assert_int_equal(engine_rpc_client_open(
                         &client, &(struct engine_rpc_client_options){.endpoint = endpoint}, NULL),
                     KVT_OK);
    return client;
}

static void
several_pullers_of_one_session(void **unused)
{
    struct engine_rpc_client *clients[2];
    struct pair pair;

    (void)unused;
    open_pair(&pair, LONG_MS);
    assert_true(node_make(&pair.theirs, KVT_TIER_G3, 1, 0, 1));
    for (size_t i = 0; i < 2; i++)
        clients[i] = connect_to(pair.endpoints[1]);
    for (uint64_t puller = 1; puller <= ENGINE_PULLERS_MAX; puller++) {
        assert_int_equal(say_open(clients[puller % 2], 7, puller, 1), KVT_OK);
        assert_int_equal(say_open(clients[puller % 2], 7, puller, 1), KVT_OK);
    }
    assert_int_equal(say_open(clients[0], 7, 99, 1), KVT_FULL);
    assert_int_equal(stats_of(&pair.theirs).peer_sessions, 1);
    assert_int_equal(say_close(clients[0], 7, 2), KVT_OK);
    assert_int_equal(say_close(clients[0], 7, 2), KVT_NOTFOUND);
    assert_int_equal(say_open(clients[0], 7, 99, 1), KVT_OK); /* there is room again */
    assert_int_equal(stats_of(&pair.theirs).peer_sessions, 1);
    engine_rpc_client_close(clients[0]); /* with all of its pullers */
    for (uint64_t puller = 3; puller <= ENGINE_PULLERS_MAX; puller += 2)
        assert_int_equal(say_close(clients[1], 7, puller), KVT_OK);
    assert_int_equal(stats_of(&pair.theirs).peer_sessions, 1); /* the last one is still there */
    AWAIT(stats_of(&pair.theirs).pins == 1);
    assert_int_equal(say_close(clients[1], 7, 1), KVT_OK);
    AWAIT(node_is_idle(&pair.theirs, 0));
    engine_rpc_client_close(clients[1]);
    close_pair(&pair);
}

static void
as_many_sessions_as_may_be(void **unused)
{
    struct engine_rpc_client *client;
    struct pair pair;

    (void)unused;
    open_pair(&pair, LONG_MS);
    client = connect_to(pair.endpoints[1]);
    assert_true(node_make(&pair.theirs, KVT_TIER_G2, 1, 0, 1));
    for (uint64_t session = 1; session <= ENGINE_SESSIONS_MAX; session++)
        assert_int_equal(say_open(client, session, 5, 1), KVT_OK);
    assert_int_equal(say_open(client, ENGINE_SESSIONS_MAX + 1, 5, 1), KVT_FULL);
    assert_int_equal(say_open(client, 1, 5, 1), KVT_OK); /* it is one of these */
    assert_int_equal(stats_of(&pair.theirs).peer_sessions, ENGINE_SESSIONS_MAX);
    assert_int_equal(say_close(client, 17, 5), KVT_OK);
    assert_int_equal(say_open(client, ENGINE_SESSIONS_MAX + 1, 5, 1), KVT_OK);
    assert_int_equal(stats_of(&pair.theirs).peer_expired, 0);
    engine_rpc_client_close(client); /* whose sessions end with it, and not LONG_MS later */
    AWAIT(node_is_idle(&pair.theirs, 0));
    assert_int_equal(stats_of(&pair.theirs).peer_expired, ENGINE_SESSIONS_MAX);
    close_pair(&pair);
}

/* ---- leaders that are closed ---- */

static void
closed_behind_its_last_release(void **unused)
{
    uint64_t random = test_seed();
    struct pair pair;

    (void)unused;
    open_pair(&pair, LONG_MS);
    for (uint64_t chain = 1; chain <= MATCHES; chain++) {
        assert_true(node_make(&pair.theirs, KVT_TIER_G2, chain, 0, 2));
        assert_true(node_make(&pair.theirs, KVT_TIER_G3, chain, 2, 2));
    }
    for (unsigned i = 0; i < CLOSINGS; i++) {
        struct engine_match *matches[MATCHES];

        join(&pair, pair.endpoints[1]);
        for (uint64_t k = 0; k < MATCHES; k++) {
            matches[k] =
                find(&pair, k + 1, 4, (enum engine_mode)kvt_random_below(&random, 3), PATIENCE_MS);
            kvt_clock_sleep_ms(kvt_random_below(&random, 4));
        }
        for (size_t k = 0; k < MATCHES; k++)
            engine_match_release(matches[k]);
        node_close(&pair.ours);
        AWAIT(node_is_idle(&pair.theirs, 0)); /* soon, and not LONG_MS later */
        open_node(&pair, 0, 1, LONG_MS);
    }
    close_pair(&pair);
}

/* Whoever has the blocks is closed: it asks nobody whether he has done. */
static void
closed_with_sessions_of_others(void **unused)
{
    uint64_t random = test_seed();
    struct pair pair;

    (void)unused;
    open_pair(&pair, LONG_MS);
    for (unsigned i = 0; i < CLOSINGS; i++) {
        struct going going[MATCHES];

        assert_true(node_make(&pair.theirs, KVT_TIER_G2, 1, 0, 2));
        assert_true(node_make(&pair.theirs, KVT_TIER_G3, 1, 2, 2));
        join(&pair, pair.endpoints[1]);
        for (size_t k = 0; k < MATCHES; k++) {
            going[k] = (struct going){
                .chain = 1,
                .mode = (enum engine_mode)kvt_random_below(&random, 3),
            };
            going[k].match = find(&pair, 1, 4, going[k].mode, PATIENCE_MS);
            kvt_clock_sleep_ms(kvt_random_below(&random, 4));
        }
        node_close(&pair.theirs);
        for (size_t k = 0; k < MATCHES; k++) {
            (void)end_of(&going[k]);
            let_go(&pair, &going[k]);
        }
        AWAIT(node_is_idle(&pair.ours, 0));
        (void)kvbm_pool_clear(pair.ours.pools[KVT_TIER_G2]);
        engine_leader_remove_peer(pair.ours.leader, 2);
        open_node(&pair, 1, 2, LONG_MS);
    }
    close_pair(&pair);
}

/* Another instance listens where a peer did.  It is not that peer: what it has lies elsewhere. */
static void
another_in_its_place(void **unused)
{
    struct going going = {.chain = 1, .mode = ENGINE_FULL};
    struct engine_match_view view;
    struct pair pair;

    (void)unused;
    open_pair(&pair, LONG_MS);
    join(&pair, pair.endpoints[1]);
    node_close(&pair.theirs);
    open_node(&pair, 1, 3, LONG_MS);
    assert_true(node_make(&pair.theirs, KVT_TIER_G2, 1, 0, 4));
    for (unsigned i = 0; i < 3; i++) {
        going.match = find(&pair, 1, 4, ENGINE_FULL, PATIENCE_MS);
        view = end_of(&going);
        assert_int_equal(view.found, 0);
        assert_false(view.shortened);
        let_go(&pair, &going);
    }
    await_both_idle(&pair);
    engine_leader_remove_peer(pair.ours.leader, 2);
    assert_int_equal(
        engine_leader_add_peer(pair.ours.leader, 3, pair.endpoints[1], PATIENCE_MS, NULL), KVT_OK);
    comes(&pair, 1);
    close_pair(&pair);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_a_bad_network),
        cmocka_unit_test(cut_off_for_a_while),
        cmocka_unit_test(several_pullers_of_one_session),
        cmocka_unit_test(as_many_sessions_as_may_be),
        cmocka_unit_test(closed_behind_its_last_release),
        cmocka_unit_test(closed_with_sessions_of_others),
        cmocka_unit_test(another_in_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) != 0 || kvt_alloc_live() != 0;
}
