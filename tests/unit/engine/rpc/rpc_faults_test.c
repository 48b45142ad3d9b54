/*
 * What is tested: the promises of engine/rpc/rpc.h when messages are lost, doubled, delayed and
 * reordered, and when links break under them.  The model is a count for each call: it ended once,
 * by its deadline; it ran at most once, and exactly once where a handler's answer was heard.
 * KVT_SEED repeats the faults' draws; threads run as they run.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "engine/rpc/rpc.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/rpc/rpc_rig.h"
#include "tests/unit/engine/support/rpc_proxy.h"

enum {
    CLIENTS = 3,
    CALLS = 64,  /* of each client */
    FLIGHT = 32, /* at once, of each client */
    WAIT = 10000,
    SHORT_WAIT = 60,
    SLACK = 5000, /* ms a busy machine may take to notice a deadline */
    PATIENT = 30000,
    BRITTLE = 300, /* a silence that such a network often has */
    MUTE = 1200,
};

static const struct rpc_proxy_faults bad = {100000, 100000, 200000, 30};
static const struct rpc_proxy_faults none = {0};

static struct rpc_rig rig;

struct asked {
    uint32_t name;
    uint64_t deadline_ms;
    _Atomic uint64_t ended_ms;
    struct kvt_ticket *ticket;
    _Atomic uint32_t told;
    _Atomic bool answered;
    _Atomic int status;
};

struct asker {
    struct engine_rpc_client *client;
    struct asked calls[CALLS];
    uint32_t first;
    uint64_t random;
    bool taking_back;
    uint32_t refused; /* calls that did not begin */
    uint32_t unknown; /* that did or did not */
    uint32_t well;
    pthread_t thread;
};

static struct asker askers[CLIENTS];

static void
on_done(void *arg, const struct engine_rpc_reply *reply)
{
    struct asked *asked = arg;

    atomic_store(&asked->status, reply->status);
    atomic_store(&asked->answered, reply->answered);
    atomic_store(&asked->ended_ms, kvt_clock_mono_ms());
    if (reply->answered && (reply->size != sizeof(asked->name) ||
                            memcmp(reply->bytes, &asked->name, reply->size) != 0))
        atomic_store(&asked->status, KVT_CORRUPT);
    (void)atomic_fetch_add(&asked->told, 1);
}

static void
start(struct asker *asker, struct asked *asked)
{
    static const uint32_t methods[] = {RPC_COUNT, RPC_LATER, RPC_SLOW};
    const uint64_t wait_ms = kvt_random_below(&asker->random, 8) == 0 ? SHORT_WAIT : WAIT;
    const struct engine_rpc_request request = {.method =
                                                   methods[kvt_random_below(&asker->random, 3)],
                                               .bytes = &asked->name,
                                               .size = sizeof(asked->name),
                                               .wait_ms = wait_ms,
                                               .done = on_done,
                                               .arg = asked};

    asked->deadline_ms = kvt_clock_mono_ms() + wait_ms;
    if (kvt_random_below(&asker->random, 8) == 0) {
        bool answered;

        atomic_store(&asked->status, (int)engine_rpc_run(asker->client, &request, NULL, &answered));
        atomic_store(&asked->answered, answered);
        asker->unknown += atomic_load(&asked->status) == KVT_UNAVAILABLE ? 1 : 0;
        asker->well += answered ? 1 : 0;
        atomic_store(&asked->ended_ms, kvt_clock_mono_ms());
        (void)atomic_fetch_add(&asked->told, 1);
    } else if (engine_rpc_start(asker->client, &request, &asked->ticket) != KVT_OK) {
        atomic_store(&asked->status, KVT_UNAVAILABLE);
        (void)atomic_fetch_add(&asked->told, 1);
        asker->refused++;
        kvt_clock_sleep_ms(5);
    }
}

static void
end(struct asker *asker, struct asked *asked)
{
    if (asked->ticket != NULL) {
        if (asker->taking_back && kvt_random_below(&asker->random, 8) == 0)
            (void)kvt_ticket_cancel(asked->ticket);
        if (kvt_ticket_wait(asked->ticket, WAIT + SLACK) == KVT_OK)
            asker->well++;
        kvt_ticket_release(asked->ticket); /* asserts that it has ended */
    }
}

static void *
ask(void *arg)
{
    struct asker *asker = arg;

    for (uint32_t i = 0; i < CALLS + FLIGHT; i++) {
        if (i >= FLIGHT)
            end(asker, &asker->calls[i - FLIGHT]);
        if (i < CALLS) {
            asker->calls[i].name = asker->first + i;
            start(asker, &asker->calls[i]);
        }
    }
    return NULL;
}

static void
judge(const struct asker *asker, uint32_t *answered)
{
    uint32_t well = 0;
    const struct engine_rpc_client_stats stats = engine_rpc_client_stats(asker->client);

    for (uint32_t i = 0; i < CALLS; i++) {
        const struct asked *asked = &asker->calls[i];
        const uint32_t runs = atomic_load(&rig.runs[asked->name]);

        assert_int_equal(atomic_load(&asked->told), 1);
        assert_true(atomic_load(&asked->ended_ms) <= asked->deadline_ms + SLACK);
        assert_in_range(runs, atomic_load(&asked->answered) ? 1 : 0, 1);
        if (atomic_load(&asked->answered))
            assert_int_equal(atomic_load(&asked->status), KVT_OK);
        else
            assert_int_not_equal(atomic_load(&asked->status), KVT_OK);
        well += atomic_load(&asked->answered) ? 1 : 0;
    }
    *answered += well;
    assert_int_equal(asker->well, well); /* tickets and callbacks say the same */
    assert_int_equal(stats.waiting, 0);
    assert_in_range(stats.calls + asker->refused, CALLS - asker->unknown, CALLS);
    assert_int_equal(stats.answered + stats.failed, stats.calls);
}

static uint32_t
run(struct rpc_proxy *proxy, uint64_t silence_ms, bool taking_back, uint64_t mute_ms)
{
    uint32_t answered = 0;

    memset(askers, 0, sizeof(askers));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct asker *asker = &askers[i];

        asker->client = rpc_rig_client(rpc_proxy_endpoint(proxy), silence_ms);
        assert_int_equal(engine_rpc_client_wait(asker->client, PATIENT), KVT_OK);
        asker->first = i * CALLS;
        asker->random = test_seed() + i;
        asker->taking_back = taking_back;
        assert_int_equal(pthread_create(&asker->thread, NULL, ask, asker), 0);
    }
    if (mute_ms > 0) {
        kvt_clock_sleep_ms(BRITTLE);
        rpc_proxy_mute(proxy, true);
        kvt_clock_sleep_ms(mute_ms);
        rpc_proxy_mute(proxy, false);
    }
    for (uint32_t i = 0; i < CLIENTS; i++)
        (void)pthread_join(askers[i].thread, NULL);
    for (uint32_t i = 0; i < CLIENTS; i++)
        judge(&askers[i], &answered);
    return answered;
}

static void
finish(struct rpc_proxy *proxy)
{
    for (uint32_t i = 0; i < CLIENTS; i++)
        engine_rpc_client_close(askers[i].client);
    rpc_rig_end(&rig);
    rpc_proxy_close(proxy);
    assert_int_equal(kvt_alloc_live(), 0);
}

/* What has time enough is answered, whatever the network does. */
static void
all_is_answered_over_a_bad_network(void **state)
{
    struct engine_rpc_server_stats stats;
    struct rpc_proxy *proxy;
    uint32_t patient = 0;

    (void)state;
    rpc_rig_begin(&rig, NULL);
    proxy = rpc_proxy_open(engine_rpc_server_endpoint(rig.server), test_seed(), &bad);
    (void)run(proxy, PATIENT, false, 0);
    for (uint32_t i = 0; i < CLIENTS; i++)
        for (uint32_t at = 0; at < CALLS; at++) {
            const int status = atomic_load(&askers[i].calls[at].status);

            assert_true(status == KVT_OK || status == KVT_TIMEOUT);
            patient += status == KVT_OK ? 1 : 0;
        }
    assert_true(patient > CLIENTS * CALLS / 2);
    stats = engine_rpc_server_stats(rig.server);
    assert_true(stats.repeated + stats.stale > 0); /* the faults did happen */
    assert_int_equal(stats.malformed, 0);
    finish(proxy);
}

static void
calls_are_taken_back_over_a_bad_network(void **state)
{
    struct rpc_proxy *proxy;

    (void)state;
    rpc_rig_begin(&rig, NULL);
    proxy = rpc_proxy_open(engine_rpc_server_endpoint(rig.server), test_seed() + 1, &bad);
    assert_true(run(proxy, PATIENT, true, 0) > 0);
    finish(proxy);
}

/* Silences end links, and calls with them; what was sent by one is never run by another. */
static void
links_break(void **state)
{
    const struct engine_rpc_server_options options = {.endpoint = "tcp://127.0.0.1:0",
                                                      .silence_ms = 2 * BRITTLE};
    struct rpc_proxy *proxy;
    uint64_t links = 0;

    (void)state;
    rpc_rig_begin(&rig, &options);
    proxy = rpc_proxy_open(engine_rpc_server_endpoint(rig.server), test_seed() + 2, &bad);
    (void)run(proxy, BRITTLE, true, MUTE);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(engine_rpc_client_wait(askers[i].client, PATIENT), KVT_OK);
        links += engine_rpc_client_stats(askers[i].client).links;
    }
    assert_true(links >= (uint64_t)2 * CLIENTS);
    assert_true(atomic_load(&rig.gone) > 0);
    finish(proxy);
}

/* A server that falls silent is noticed in time, by calls that had all the time. */
static void
silence_is_noticed(void **state)
{
    struct rpc_proxy *proxy;
    struct asked asked = {.name = 1};
    const struct engine_rpc_request request = {.method = RPC_HOLD,
                                               .bytes = &asked.name,
                                               .size = sizeof(asked.name),
                                               .wait_ms = PATIENT,
                                               .done = on_done,
                                               .arg = &asked};
    struct engine_rpc_client *client;
    uint64_t start_ms;

    (void)state;
    rpc_rig_begin(&rig, NULL);
    proxy = rpc_proxy_open(engine_rpc_server_endpoint(rig.server), test_seed(), &none);
    client = rpc_rig_client(rpc_proxy_endpoint(proxy), 2 * BRITTLE);
    assert_int_equal(engine_rpc_client_wait(client, PATIENT), KVT_OK);
    assert_int_equal(engine_rpc_start(client, &request, NULL), KVT_OK);
    rpc_rig_wait_held(&rig, 1);
    start_ms = kvt_clock_mono_ms();
    rpc_proxy_mute(proxy, true);
    rpc_rig_wait_for(&asked.told, 1);
    assert_in_range(kvt_clock_mono_ms() - start_ms, BRITTLE / 2, SLACK);
    assert_int_equal(atomic_load(&asked.status), KVT_UNAVAILABLE);
    assert_int_equal(engine_rpc_start(client, &request, NULL), KVT_UNAVAILABLE);
    rpc_proxy_mute(proxy, false);
    assert_int_equal(engine_rpc_client_wait(client, PATIENT), KVT_OK);
    (void)rpc_rig_release(&rig); /* an answer for a link that is over */
    assert_int_equal(
        engine_rpc_run(client, &(struct engine_rpc_request){.method = RPC_ECHO, .wait_ms = PATIENT},
                       NULL, NULL),
        KVT_OK);
    assert_int_equal(atomic_load(&asked.told), 1);
    engine_rpc_client_close(client);
    rpc_rig_end(&rig);
    rpc_proxy_close(proxy);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_answered_over_a_bad_network),
        cmocka_unit_test(calls_are_taken_back_over_a_bad_network),
        cmocka_unit_test(links_break),
        cmocka_unit_test(silence_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
