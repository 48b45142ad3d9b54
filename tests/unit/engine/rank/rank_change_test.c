/*
 * What is tested: engine/rank/rank_client.h, when one of the two sides is another one than before.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"

#include "engine/rank/rank_client.h"
#include "engine/rank/rank_messages.h"
#include "engine/rpc/rpc.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/fake_worker.h"
#include "tests/unit/engine/support/rank_bed.h"
#include "tests/unit/engine/support/rpc_proxy.h"

#define PEER 7
#define WAIT 10000

struct door {
    char folder[200];
    char endpoint[ENGINE_RPC_ENDPOINT_MAX];
    struct engine_worker *fake;
    struct engine_rank_server *serve;
    struct engine_worker *remote;
    _Atomic unsigned restarts;
};

static void
note_restart(void *arg)
{
    atomic_fetch_add(&((struct door *)arg)->restarts, 1);
}

/* What a fake does when it is connected. */
enum connecting { AT_ONCE, LATE, NEVER };

static const struct engine_worker_ops *usual;
static struct engine_worker_ops watched; /* the same, but for these two */
static _Atomic enum connecting connecting;
static _Atomic uint64_t longest_ms; /* it was given */
static _Atomic unsigned late;
static _Atomic unsigned left;

static enum kvt_err
connect_fake(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes, size_t size,
             uint64_t wait_ms, struct kvt_error *err)
{
    const enum connecting how = atomic_load(&connecting);
    enum kvt_err rc;

    atomic_store(&longest_ms, wait_ms);
    if (how == NEVER)
        return kvt_error_set(err, KVT_TIMEOUT, "nobody answers");
    kvt_clock_sleep_ms(how == LATE ? wait_ms + 200 : 0);
    rc = usual->connect(worker, peer, bytes, size, wait_ms, err);
    atomic_fetch_add(&late, how == LATE ? 1 : 0);
    return rc;
}

static void
disconnect_fake(struct engine_worker *worker, uint64_t peer)
{
    usual->disconnect(worker, peer);
    atomic_fetch_add(&left, 1);
}

static void
watch(struct engine_worker *fake)
{
    if (usual == NULL) {
        usual = fake->ops;
        watched = *usual;
        watched.connect = connect_fake;
        watched.disconnect = disconnect_fake;
    }
    fake->ops = &watched;
}

static void
serve(struct door *door, uint32_t rank)
{
    const struct fake_options options = {
        .layout = rank_bed_layout(2, rank),
        .blocks = {[KVT_TIER_G1] = SUITE_BLOCKS, [KVT_TIER_G2] = SUITE_BLOCKS},
        .ending = FAKE_AT_ONCE,
        .seed = test_seed(),
    };

    door->fake = fake_worker_open(&options);
    assert_non_null(door->fake);
    watch(door->fake);
    fake_worker_write(door->fake, KVT_TIER_G1, 0, 3, 0, 0);
    assert_int_equal(engine_rank_server_open(&door->serve, door->fake, door->endpoint, NULL),
                     KVT_OK);
}

static void
serve_no_more(struct door *door)
{
    engine_rank_server_close(door->serve);
    engine_worker_close(door->fake);
}

static void
lead(struct door *door)
{
    const struct engine_rank_client_options options = {
        .endpoint = door->endpoint, .wait_ms = WAIT, .restarted = note_restart, .arg = door};

    assert_int_equal(engine_rank_client_open(&door->remote, &options, NULL), KVT_OK);
}

static void
door_open(struct door *door, uint32_t rank)
{
    memset(door, 0, sizeof(*door));
    (void)test_folder_make(door->folder, sizeof(door->folder));
    (void)snprintf(door->endpoint, sizeof(door->endpoint), "ipc://%.180s/worker", door->folder);
    serve(door, rank);
    lead(door);
}

static void
door_close(struct door *door)
{
    engine_worker_close(door->remote);
    serve_no_more(door);
    test_folder_remove(door->folder);
}

static enum kvt_err
copy(struct engine_worker *worker)
{
    struct engine_item item = {suite_label(3), 0, 1, KVT_ERR_COUNT};
    struct engine_job job = {.verb = ENGINE_COPY,
                             .from = KVT_TIER_G1,
                             .to = KVT_TIER_G2,
                             .wait_ms = WAIT,
                             .items = &item,
                             .count = 1};

    return engine_worker_run(worker, &job, NULL);
}

/* Another rank has other bytes under the same names. */
static void
another_rank_is_no_replacement(void **state)
{
    static const uint32_t ranks[] = {0, 1};
    struct door door;

    (void)state;
    door_open(&door, 1);
    for (unsigned i = 0; i < 2; i++) {
        const unsigned before = atomic_load(&door.restarts);
        enum kvt_err rc = KVT_UNAVAILABLE;

        serve_no_more(&door);
        serve(&door, ranks[i]);
        for (unsigned k = 0; k < WAIT && atomic_load(&door.restarts) == before; k++)
            kvt_clock_sleep_ms(1);
        /* What comes right behind restarted() may still be refused. */
        for (unsigned k = 0; k < 100 && rc != KVT_OK; k++) {
            rc = copy(door.remote);
            kvt_clock_sleep_ms(1);
        }
        assert_int_equal(rc, ranks[i] == 1 ? KVT_OK : KVT_UNAVAILABLE);
        assert_int_equal(fake_worker_jobs(door.fake, ENGINE_COPY), ranks[i] == 1 ? 1 : 0);
    }
    door_close(&door);
}

/* Whoever leads next is not in the way of what the one before was connected to. */
static void
a_new_leader_finds_nobody_connected(void **state)
{
    struct engine_worker *before;
    struct kvt_buffer metadata;
    struct kvt_error err;
    struct door peer;
    struct door door;

    (void)state;
    door_open(&door, 1);
    door_open(&peer, 1);
    for (unsigned i = 0; i < 3; i++) {
        kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
        assert_int_equal(engine_worker_describe(peer.fake, &metadata, WAIT, NULL), KVT_OK);
        if (engine_worker_connect(door.remote, PEER, metadata.data, metadata.size, WAIT, &err) !=
            KVT_OK)
            fail_msg("%s", err.text);
        kvt_buffer_release(&metadata);
        serve_no_more(&peer); /* the peer is another process, too */
        serve(&peer, 1);
        before = door.remote;
        kvt_clock_sleep_ms(2); /* clients rise by the millisecond */
        lead(&door);
        engine_worker_close(before);
    }
    door_close(&peer);
    door_close(&door);
}

/* A server that is closed waits for its handlers only so long. */
static void
nobody_waits_longer_than_closing_does(void **state)
{
    struct door door;

    (void)state;
    door_open(&door, 1);
    atomic_store(&connecting, NEVER);
    assert_int_equal(engine_worker_connect(door.remote, PEER, (const uint8_t *)"x", 1,
                                           10 * ENGINE_RPC_CLOSE_MS, NULL),
                     KVT_TIMEOUT);
    assert_in_range(atomic_load(&longest_ms), 1, ENGINE_RPC_CLOSE_MS / 2);
    atomic_store(&connecting, AT_ONCE);
    door_close(&door);
}

static void
wait_for(const _Atomic unsigned *counter, unsigned count)
{
    for (unsigned i = 0; i < WAIT && atomic_load(counter) < count; i++)
        kvt_clock_sleep_ms(1);
    assert_int_equal(atomic_load(counter), count);
}

/* A leader whose worker was too slow believes that it is not connected: so be it; but what was
 * connected before stays. */
static void
late_connects_are_undone(void **state)
{
    struct kvt_buffer metadata;
    struct door peer;
    struct door door;

    (void)state;
    door_open(&door, 1);
    door_open(&peer, 1);
    kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
    assert_int_equal(engine_worker_describe(peer.fake, &metadata, WAIT, NULL), KVT_OK);
    atomic_store(&left, 0);
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&connecting, LATE);
        assert_int_equal(
            engine_worker_connect(door.remote, PEER, metadata.data, metadata.size, 100, NULL),
            KVT_TIMEOUT);
        wait_for(&late, i + 1);
        wait_for(&left, 1);
        kvt_clock_sleep_ms(20); /* to leave once more, if it would */
        assert_int_equal(atomic_load(&left), 1);
        atomic_store(&connecting, AT_ONCE);
        assert_int_equal(
            engine_worker_connect(door.remote, PEER, metadata.data, metadata.size, WAIT, NULL),
            KVT_OK);
    }
    kvt_buffer_release(&metadata);
    door_close(&peer);
    door_close(&door);
}

/* The network was away when it was said: the place is free before the next is taken. */
static void
a_parting_that_nobody_heard_is_said_again(void **state)
{
    const struct rpc_proxy_faults none = {0};
    struct kvt_buffer metadata[2];
    struct engine_worker *remote;
    struct rpc_proxy *proxy;
    struct door door;
    struct door peer;
    enum kvt_err rc = KVT_UNAVAILABLE;

    (void)state;
    door_open(&door, 1);
    proxy = rpc_proxy_open(door.endpoint, 1, &none);
    assert_non_null(proxy);
    kvt_clock_sleep_ms(2); /* clients rise by the millisecond */
    assert_int_equal(
        engine_rank_client_open(&remote,
                                &(struct engine_rank_client_options){
                                    .endpoint = rpc_proxy_endpoint(proxy), .wait_ms = WAIT},
                                NULL),
        KVT_OK);
    door_open(&peer, 1);
    for (unsigned i = 0; i < 2; i++) { /* two lives of it */
        kvt_buffer_init(&metadata[i], ENGINE_METADATA_MAX);
        assert_int_equal(engine_worker_describe(peer.fake, &metadata[i], WAIT, NULL), KVT_OK);
        serve_no_more(&peer);
        serve(&peer, 1);
    }
    door_close(&peer);
    assert_int_equal(
        engine_worker_connect(remote, PEER, metadata[0].data, metadata[0].size, WAIT, NULL),
        KVT_OK);
    atomic_store(&left, 0);
    rpc_proxy_mute(proxy, true);
    engine_worker_disconnect(remote, PEER);
    assert_int_equal(atomic_load(&left), 0);
    rpc_proxy_mute(proxy, false);
    for (unsigned i = 0; i < WAIT && rc == KVT_UNAVAILABLE; i++) { /* until there is a link again */
        rc = engine_worker_connect(remote, PEER, metadata[1].data, metadata[1].size, WAIT, NULL);
        kvt_clock_sleep_ms(1);
    }
    assert_int_not_equal(rc, KVT_EXISTS);
    assert_int_equal(atomic_load(&left), 1);
    for (unsigned i = 0; i < 2; i++)
        kvt_buffer_release(&metadata[i]);
    engine_worker_close(remote);
    rpc_proxy_close(proxy);
    door_close(&door);
}

/* A server that connects at once and parts only when it is told to. */
struct blunt {
    _Atomic enum kvt_err parting; /* its answer */
    _Atomic unsigned parted;      /* how often that was KVT_OK */
};

static void
answer_about(void *arg, struct engine_rpc_call *call)
{
    const struct engine_rank_message_about about = {
        .life = 1, .layout = rank_bed_layout(2, 1), .ranks = 1, .blocks = {[KVT_TIER_G2] = 4}};
    struct kvt_buffer bytes;

    (void)arg;
    kvt_buffer_init(&bytes, ENGINE_RANK_MESSAGE_MAX);
    engine_rank_message_write_about(&bytes, &about);
    engine_rpc_answer(call, KVT_OK, bytes.data, bytes.size);
    kvt_buffer_release(&bytes);
}

static void
answer_connect(void *arg, struct engine_rpc_call *call)
{
    (void)arg;
    engine_rpc_answer(call, KVT_OK, NULL, 0);
}

static void
answer_disconnect(void *arg, struct engine_rpc_call *call)
{
    struct blunt *blunt = arg;
    const enum kvt_err rc = atomic_load(&blunt->parting);

    atomic_fetch_add(&blunt->parted, rc == KVT_OK ? 1 : 0);
    engine_rpc_answer(call, rc, NULL, 0);
}

/* A peer that is wanted again is there to stay, though nobody heard that it was not. */
static void
who_is_connected_again_is_not_parted_from(void **state)
{
    static const struct engine_rpc_method methods[] = {
        {ENGINE_RANK_MESSAGE_ABOUT, "about", answer_about, false},
        {ENGINE_RANK_MESSAGE_CONNECT, "connect", answer_connect, false},
        {ENGINE_RANK_MESSAGE_DISCONNECT, "disconnect", answer_disconnect, false},
    };
    struct blunt blunt = {.parting = KVT_UNAVAILABLE};
    char folder[200];
    char endpoint[ENGINE_RPC_ENDPOINT_MAX];
    struct engine_rpc_server *server;
    struct engine_worker *remote;
    const uint8_t byte = 'x';

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%.180s/worker", folder);
    assert_int_equal(
        engine_rpc_server_open(&server,
                               &(struct engine_rpc_server_options){
                                   .endpoint = endpoint,
                                   .methods = methods,
                                   .method_count = sizeof(methods) / sizeof(methods[0]),
                                   .arg = &blunt,
                               },
                               NULL),
        KVT_OK);
    assert_int_equal(
        engine_rank_client_open(
            &remote, &(struct engine_rank_client_options){.endpoint = endpoint, .wait_ms = WAIT},
            NULL),
        KVT_OK);
    for (uint64_t peer = PEER; peer < PEER + 2; peer++) {
        assert_int_equal(engine_worker_connect(remote, peer, &byte, 1, WAIT, NULL), KVT_OK);
        engine_worker_disconnect(remote, peer);
    }
    assert_int_equal(engine_worker_connect(remote, PEER, &byte, 1, WAIT, NULL), KVT_OK);
    atomic_store(&blunt.parting, KVT_OK);
    assert_int_equal(engine_worker_connect(remote, PEER + 2, &byte, 1, WAIT, NULL), KVT_OK);
    assert_int_equal(atomic_load(&blunt.parted), 1); /* the other one */
    engine_worker_close(remote);
    engine_rpc_server_close(server);
    test_folder_remove(folder);
}

/* A server that comes late, and does not say who it is. */
struct mute {
    const char *endpoint;
    struct engine_rpc_server *server;
    struct engine_rpc_call *_Atomic call;
};

enum { MUTE_FOR = 1500, PATIENCE = 2000 };

static void
say_nothing(void *arg, struct engine_rpc_call *call)
{
    atomic_store(&((struct mute *)arg)->call, call);
}

static void *
come_late(void *arg)
{
    static const struct engine_rpc_method method = {ENGINE_RANK_MESSAGE_ABOUT, "about", say_nothing,
                                                    false};
    struct mute *mute = arg;

    kvt_clock_sleep_ms(MUTE_FOR);
    assert_int_equal(engine_rpc_server_open(&mute->server,
                                            &(struct engine_rpc_server_options){
                                                .endpoint = mute->endpoint,
                                                .methods = &method,
                                                .method_count = 1,
                                                .arg = mute,
                                            },
                                            NULL),
                     KVT_OK);
    return NULL;
}

/* What it waited for the server does not come on top of what it waits for the answer. */
static void
opening_waits_once(void **state)
{
    const uint64_t since = kvt_clock_mono_ms();
    char folder[200];
    char endpoint[ENGINE_RPC_ENDPOINT_MAX];
    struct mute mute = {.endpoint = endpoint};
    struct engine_worker *remote;
    pthread_t thread;
    enum kvt_err rc;

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%.180s/worker", folder);
    assert_int_equal(pthread_create(&thread, NULL, come_late, &mute), 0);
    rc = engine_rank_client_open(
        &remote, &(struct engine_rank_client_options){.endpoint = endpoint, .wait_ms = PATIENCE},
        NULL);
    assert_true(rc == KVT_TIMEOUT || rc == KVT_UNAVAILABLE);
    assert_true(kvt_clock_mono_ms() - since < PATIENCE + MUTE_FOR);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (unsigned i = 0; i < WAIT && rc == KVT_TIMEOUT && atomic_load(&mute.call) == NULL; i++)
        kvt_clock_sleep_ms(1); /* it was asked, so it will hear that */
    if (atomic_load(&mute.call) != NULL)
        engine_rpc_answer(atomic_load(&mute.call), KVT_UNAVAILABLE, NULL, 0);
    engine_rpc_server_close(mute.server);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_rank_is_no_replacement),
        cmocka_unit_test(a_new_leader_finds_nobody_connected),
        cmocka_unit_test(nobody_waits_longer_than_closing_does),
        cmocka_unit_test(late_connects_are_undone),
        cmocka_unit_test(opening_waits_once),
        cmocka_unit_test(a_parting_that_nobody_heard_is_said_again),
        cmocka_unit_test(who_is_connected_again_is_not_parted_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
