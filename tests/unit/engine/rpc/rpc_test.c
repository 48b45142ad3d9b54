/*
 * What is tested: engine/rpc/rpc.h, from its header alone, without faults: every way to ask and to
 * answer; every limit is an answer; deadlines, cancelling, links; what is not a message harms
 * nobody; no allocation that fails leaks.
 */
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "engine/rpc/rpc.h"
#include "engine/rpc/rpc_wire.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/rpc/rpc_rig.h"

enum { WAIT = 30000, PATIENT = 20000, THREADS = 4, ROUNDS = 300, FLIGHT = 64, LARGE = 1 << 20 };

/* One in BSS: it is large. */
static struct rpc_rig rig;

struct scene {
    struct engine_rpc_client *client;
};

static void
begin_with(struct scene *scene, const struct engine_rpc_server_options *options)
{
    rpc_rig_begin(&rig, options);
    scene->client = rpc_rig_client(engine_rpc_server_endpoint(rig.server), PATIENT);
}

static void
begin(struct scene *scene)
{
    begin_with(scene, NULL);
}

static void
end(struct scene *scene)
{
    engine_rpc_client_close(scene->client);
    rpc_rig_end(&rig);
}

static enum kvt_err
ask_word(struct engine_rpc_client *client, uint32_t method, uint32_t word, uint64_t wait_ms,
         bool *answered)
{
    const struct engine_rpc_request request = {
        .method = method, .bytes = &word, .size = sizeof(word), .wait_ms = wait_ms};
    struct kvt_buffer answer;
    enum kvt_err rc;

    kvt_buffer_init(&answer, ENGINE_RPC_PAYLOAD_MAX);
    rc = engine_rpc_run(client, &request, &answer, answered);
    if (rc == KVT_OK) {
        assert_int_equal(answer.size, sizeof(word));
        assert_memory_equal(answer.data, &word, sizeof(word));
    }
    kvt_buffer_release(&answer);
    return rc;
}

static struct kvt_ticket *
start_word(struct engine_rpc_client *client, uint32_t method, const uint32_t *word)
{
    const struct engine_rpc_request request = {
        .method = method, .bytes = word, .size = sizeof(*word), .wait_ms = WAIT};
    struct kvt_ticket *ticket;

    assert_int_equal(engine_rpc_start(client, &request, &ticket), KVT_OK);
    return ticket;
}

static void
run_at(const char *endpoint)
{
    struct engine_rpc_server_options options = {.endpoint = endpoint};
    struct scene scene;
    bool answered;

    begin_with(&scene, &options);
    for (uint32_t method = RPC_COUNT; method <= RPC_LATER; method++)
        for (uint32_t i = 0; i < ROUNDS; i++)
            assert_int_equal(ask_word(scene.client, method, i, WAIT, &answered), KVT_OK);
    assert_true(answered);
    assert_int_equal(ask_word(scene.client, RPC_SLOW, 1, WAIT, NULL), KVT_OK);
    assert_int_equal(atomic_load(&rig.run), 2 * ROUNDS + 1);
    assert_int_equal(engine_rpc_server_stats(rig.server).calls, 2 * ROUNDS + 1);
    end(&scene);
}

static void
calls_are_answered_over_tcp(void **state)
{
    (void)state;
    run_at("tcp://127.0.0.1:0");
}

static void
calls_are_answered_over_ipc(void **state)
{
    char folder[256];
    char endpoint[ENGINE_RPC_ENDPOINT_MAX];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%.200s/rpc", folder);
    run_at(endpoint);
    test_folder_remove(folder);
}

/* A handler's status is the call's, and it is told from the server's own. */
static void
statuses_come_back(void **state)
{
    struct scene scene;
    bool answered;

    (void)state;
    begin(&scene);
    for (uint32_t status = KVT_AGAIN; status < KVT_ERR_COUNT; status++) {
        assert_int_equal(ask_word(scene.client, RPC_STATUS, status, WAIT, &answered), status);
        assert_true(answered);
    }
    assert_int_equal(ask_word(scene.client, RPC_NONE, 0, WAIT, &answered), KVT_UNSUPPORTED);
    assert_false(answered);
    end(&scene);
}

static void
payloads_of_any_size(void **state)
{
    static const size_t sizes[] = {0, 1, 255, 256, 65535, 65536, LARGE, ENGINE_RPC_PAYLOAD_MAX};
    uint8_t *bytes = kvt_calloc(1, ENGINE_RPC_PAYLOAD_MAX + 1);
    struct engine_rpc_request request = {.method = RPC_ECHO, .bytes = bytes, .wait_ms = WAIT};
    uint64_t random = test_seed();
    struct kvt_buffer answer;
    struct kvt_ticket *ticket;
    struct scene scene;

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < ENGINE_RPC_PAYLOAD_MAX; i++)
        bytes[i] = (uint8_t)kvt_random_next(&random);
    begin(&scene);
    kvt_buffer_init(&answer, ENGINE_RPC_PAYLOAD_MAX);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        request.size = sizes[i];
        kvt_buffer_clear(&answer);
        assert_int_equal(engine_rpc_run(scene.client, &request, &answer, NULL), KVT_OK);
        assert_int_equal(answer.size, sizes[i]);
        if (sizes[i] > 0)
            assert_memory_equal(answer.data, bytes, sizes[i]);
    }
    kvt_buffer_release(&answer);
    kvt_buffer_init(&answer, 10); /* too small for what comes */
    request.size = 11;
    assert_int_equal(engine_rpc_run(scene.client, &request, &answer, NULL), KVT_RANGE);
    kvt_buffer_release(&answer);
    request.size = ENGINE_RPC_PAYLOAD_MAX + 1;
    assert_int_equal(engine_rpc_start(scene.client, &request, &ticket), KVT_RANGE);
    assert_null(ticket);
    end(&scene);
    kvt_free(bytes);
}

static void
wrong_questions_are_refused(void **state)
{
    struct engine_rpc_request request = {.method = RPC_ECHO, .wait_ms = WAIT};
    struct kvt_ticket *ticket;
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(engine_rpc_start(scene.client, &request, NULL), KVT_INVALID); /* who asks? */
    request.size = 1;
    assert_int_equal(engine_rpc_start(scene.client, &request, &ticket), KVT_INVALID);
    request.size = 0;
    request.wait_ms = 0;
    assert_int_equal(engine_rpc_run(scene.client, &request, NULL, NULL), KVT_INVALID);
    request.wait_ms = WAIT;
    request.method = ENGINE_RPC_METHODS_MAX;
    assert_int_equal(engine_rpc_run(scene.client, &request, NULL, NULL), KVT_INVALID);
    end(&scene);
}

struct listener {
    struct engine_rpc_client *client;
    _Atomic uint32_t report;
    _Atomic uint32_t wrong;
    uint32_t left; /* further calls to make from within; the client's thread's */
};

static void
on_done(void *arg, const struct engine_rpc_reply *reply)
{
    struct listener *listener = arg;
    const struct engine_rpc_request request = {.method = RPC_LATER,
                                               .bytes = "name",
                                               .size = 4,
                                               .wait_ms = WAIT,
                                               .done = on_done,
                                               .arg = listener};

    if (reply->status != KVT_OK || !reply->answered || reply->size != 4 ||
        memcmp(reply->bytes, "name", 4) != 0)
        (void)atomic_fetch_add(&listener->wrong, 1);
    if (listener->left > 0) {
        listener->left--;
        if (engine_rpc_start(listener->client, &request, NULL) != KVT_OK)
            (void)atomic_fetch_add(&listener->wrong, 1);
    }
    (void)atomic_fetch_add(&listener->report, 1);
}

/* Without a ticket, from within `done` too. */
static void
done_is_called_once(void **state)
{
    struct listener listener = {.left = ROUNDS};
    struct engine_rpc_request request = {.method = RPC_COUNT,
                                         .bytes = "name",
                                         .size = 4,
                                         .wait_ms = WAIT,
                                         .done = on_done,
                                         .arg = &listener};
    struct kvt_ticket *ticket;
    struct engine_rpc_reply reply;
    struct scene scene;

    (void)state;
    begin(&scene);
    listener.client = scene.client;
    for (size_t i = 0; i < FLIGHT; i++)
        assert_int_equal(engine_rpc_start(scene.client, &request, NULL), KVT_OK);
    rpc_rig_wait_for(&listener.report, FLIGHT + ROUNDS);
    assert_int_equal(engine_rpc_start(scene.client, &request, &ticket), KVT_OK);
    assert_int_equal(kvt_ticket_wait(ticket, WAIT), KVT_OK);
    engine_rpc_reply(ticket, &reply);
    assert_int_equal(reply.size, 4);
    kvt_ticket_release(ticket);
    assert_int_equal(atomic_load(&listener.report), FLIGHT + ROUNDS + 1);
    assert_int_equal(atomic_load(&listener.wrong), 0);
    end(&scene);
}

struct asker {
    struct engine_rpc_client *client;
    uint32_t first; /* of its names */
    pthread_t thread;
    uint64_t random;
    uint32_t wrong;
};

static void *
ask_in_turn(void *arg)
{
    struct asker *asker = arg;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        const uint32_t name = asker->first + i;
        const uint32_t method = (uint32_t)kvt_random_below(&asker->random, 2) + RPC_COUNT;

        if (kvt_random_below(&asker->random, 2) == 0) {
            asker->wrong += ask_word(asker->client, method, name, WAIT, NULL) != KVT_OK ? 1 : 0;
        } else {
            struct kvt_ticket *ticket = start_word(asker->client, method, &name);

            asker->wrong += kvt_ticket_wait(ticket, WAIT) != KVT_OK ? 1 : 0;
            kvt_ticket_release(ticket);
        }
    }
    return NULL;
}

/* Whoever drives the socket, everybody hears what is his, soon. */
static void
many_threads_share_a_client(void **state)
{
    struct asker askers[THREADS];
    struct scene scene;

    (void)state;
    begin(&scene);
    for (uint32_t i = 0; i < THREADS; i++) {
        askers[i] =
            (struct asker){.client = scene.client, .first = i * ROUNDS, .random = test_seed() + i};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask_in_turn, &askers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        (void)pthread_join(askers[i].thread, NULL);
        assert_int_equal(askers[i].wrong, 0);
    }
    for (uint32_t i = 0; i < THREADS * ROUNDS; i++)
        assert_int_equal(atomic_load(&rig.runs[i]), 1);
    /* An answer that lies there unseen is found by asking again, and only then. */
    assert_true(engine_rpc_client_stats(scene.client).asked < THREADS * ROUNDS / 10);
    end(&scene);
}

static void
full_is_an_answer(void **state)
{
    const struct engine_rpc_server_options few = {.endpoint = "tcp://127.0.0.1:0", .calls = 2};
    struct kvt_ticket *tickets[2];
    const uint32_t name = 7;
    struct scene scene;
    bool answered;

    (void)state;
    begin_with(&scene, &few);
    for (size_t i = 0; i < 2; i++)
        tickets[i] = start_word(scene.client, RPC_HOLD, &name);
    rpc_rig_wait_held(&rig, 2);
    assert_int_equal(ask_word(scene.client, RPC_COUNT, name, WAIT, &answered), KVT_AGAIN);
    assert_false(answered);
    assert_int_equal(rpc_rig_release(&rig), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(kvt_ticket_wait(tickets[i], WAIT), KVT_OK);
        kvt_ticket_release(tickets[i]);
    }
    assert_int_equal(ask_word(scene.client, RPC_COUNT, name, WAIT, &answered), KVT_OK);
    end(&scene);
}

static void
clients_have_limits(void **state)
{
    static struct kvt_ticket *tickets[ENGINE_RPC_CALLS_MAX];
    const uint32_t name = 7;
    const struct engine_rpc_request request = {
        .method = RPC_HOLD, .bytes = &name, .size = sizeof(name), .wait_ms = WAIT};
    struct kvt_ticket *ticket;
    struct scene scene;

    (void)state;
    begin(&scene);
    for (size_t i = 0; i < ENGINE_RPC_CALLS_MAX; i++)
        tickets[i] = start_word(scene.client, RPC_HOLD, &name);
    assert_int_equal(engine_rpc_start(scene.client, &request, &ticket), KVT_AGAIN);
    assert_null(ticket);
    rpc_rig_wait_held(&rig, ENGINE_RPC_CALLS_MAX);
    assert_int_equal(rpc_rig_release(&rig), ENGINE_RPC_CALLS_MAX);
    for (size_t i = 0; i < ENGINE_RPC_CALLS_MAX; i++) {
        assert_int_equal(kvt_ticket_wait(tickets[i], WAIT), KVT_OK);
        kvt_ticket_release(tickets[i]);
    }
    assert_int_equal(engine_rpc_client_stats(scene.client).waiting, 0);
    end(&scene);
}

static bool
is_over(struct rpc_rig *of)
{
    bool over;

    (void)pthread_mutex_lock(&of->lock);
    over = engine_rpc_call_is_over(of->held[0]);
    (void)pthread_mutex_unlock(&of->lock);
    return over;
}

static void
wait_over(void)
{
    for (int i = 0; i < WAIT && !is_over(&rig); i++)
        kvt_clock_sleep_ms(1);
    assert_true(is_over(&rig));
}

static void
deadlines_are_kept(void **state)
{
    const uint64_t start_ms = kvt_clock_mono_ms();
    struct scene scene;
    bool answered;

    (void)state;
    begin(&scene);
    assert_int_equal(ask_word(scene.client, RPC_HOLD, 1, 100, &answered), KVT_TIMEOUT);
    assert_false(answered);
    assert_true(kvt_clock_mono_ms() - start_ms >= 100);
    rpc_rig_wait_held(&rig, 1);
    wait_over(); /* the server knows by itself */
    (void)rpc_rig_release(&rig);
    /* The late answer harms nobody. */
    for (uint32_t i = 0; i < ROUNDS; i++)
        assert_int_equal(ask_word(scene.client, RPC_COUNT, i, WAIT, &answered), KVT_OK);
    end(&scene);
}

static void
calls_can_be_taken_back(void **state)
{
    struct listener listener = {0};
    const struct engine_rpc_request request = {
        .method = RPC_HOLD, .wait_ms = WAIT, .done = on_done, .arg = &listener};
    struct kvt_ticket *ticket;
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(engine_rpc_start(scene.client, &request, &ticket), KVT_OK);
    rpc_rig_wait_held(&rig, 1);
    assert_false(is_over(&rig));
    assert_int_equal(kvt_ticket_cancel(ticket), KVT_OK);
    assert_int_equal(kvt_ticket_wait(ticket, 0), KVT_CANCELLED);
    assert_int_equal(kvt_ticket_cancel(ticket), KVT_BUSY);
    kvt_ticket_release(ticket);
    assert_int_equal(atomic_load(&listener.report), 1);
    assert_int_equal(atomic_load(&listener.wrong), 1); /* it was not told of an answer */
    wait_over();
    (void)rpc_rig_release(&rig);
    assert_int_equal(engine_rpc_client_stats(scene.client).waiting, 0);
    end(&scene);
}

/* Whoever cancels while the answer comes: one of the two, and never both. */
static void
cancel_races_the_answer(void **state)
{
    struct scene scene;
    uint32_t cancelled = 0;

    (void)state;
    begin(&scene);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct kvt_ticket *ticket = start_word(scene.client, RPC_LATER, &i);
        enum kvt_err rc;
        enum kvt_err ended;

        for (volatile uint32_t spin = 0; spin < i * 100; spin++)
            continue;
        rc = kvt_ticket_cancel(ticket);
        ended = kvt_ticket_wait(ticket, WAIT);
        assert_int_equal(ended, rc == KVT_OK ? KVT_CANCELLED : KVT_OK);
        cancelled += rc == KVT_OK ? 1 : 0;
        kvt_ticket_release(ticket);
    }
    assert_true(cancelled > 0);
    end(&scene);
}

struct links {
    _Atomic uint32_t changes;
    _Atomic uint64_t link;
};

static void
on_changed(void *arg, uint64_t link)
{
    struct links *links = arg;

    atomic_store(&links->link, link);
    (void)atomic_fetch_add(&links->changes, 1);
}

/* A server that is closed and opened again: calls of the old one end, a new link is told of. */
static void
another_server_is_another_link(void **state)
{
    struct links links = {0};
    struct engine_rpc_client_options options = {
        .silence_ms = PATIENT, .changed = on_changed, .arg = &links};
    struct engine_rpc_server_options again = {0};
    char endpoint[ENGINE_RPC_ENDPOINT_MAX];
    struct engine_rpc_client *client;
    struct kvt_error err;
    uint64_t first;

    (void)state;
    rpc_rig_begin(&rig, NULL);
    (void)snprintf(endpoint, sizeof(endpoint), "%s", engine_rpc_server_endpoint(rig.server));
    options.endpoint = endpoint;
    assert_int_equal(engine_rpc_client_open(&client, &options, &err), KVT_OK);
    assert_int_equal(engine_rpc_client_wait(client, WAIT), KVT_OK);
    first = engine_rpc_client_link(client);
    assert_int_not_equal(first, 0);
    rpc_rig_wait_for(&links.changes, 1);
    assert_int_equal(atomic_load(&links.link), first);
    rpc_rig_end(&rig);
    rpc_rig_wait_for(&links.changes, 2); /* it said farewell, or the connection was cut */
    assert_int_equal(atomic_load(&links.link), 0);
    assert_int_equal(atomic_load(&rig.gone), 1);
    assert_int_equal(atomic_load(&rig.gone_link), first);
    again.endpoint = endpoint;
    rpc_rig_begin(&rig, &again);
    assert_int_equal(engine_rpc_client_wait(client, WAIT), KVT_OK);
    assert_int_equal(ask_word(client, RPC_COUNT, 1, WAIT, NULL), KVT_OK);
    rpc_rig_wait_for(&links.changes, 3);
    assert_int_equal(atomic_load(&links.link), engine_rpc_client_link(client));
    assert_int_not_equal(atomic_load(&links.link), first);
    engine_rpc_client_close(client);
    rpc_rig_wait_for(&rig.gone, 1);
    rpc_rig_end(&rig);
}

/* A client may be opened before its server; nobody there is an answer in time. */
static void
a_server_may_come_late_or_never(void **state)
{
    const uint64_t silence_ms = 300;
    struct engine_rpc_client *client = rpc_rig_client("ipc:///nowhere/at/all", silence_ms);
    const uint64_t start_ms = kvt_clock_mono_ms();
    const struct engine_rpc_request request = {.method = RPC_ECHO, .wait_ms = WAIT};
    uint64_t took_ms;
    struct kvt_ticket *ticket;

    (void)state;
    assert_int_equal(ask_word(client, RPC_COUNT, 1, WAIT, NULL), KVT_UNAVAILABLE);
    took_ms = kvt_clock_mono_ms() - start_ms;
    assert_in_range(took_ms, silence_ms / 2, WAIT / 2);
    assert_int_equal(engine_rpc_start(client, &request, &ticket), KVT_UNAVAILABLE);
    assert_int_equal(engine_rpc_client_wait(client, 10), KVT_UNAVAILABLE);
    engine_rpc_client_close(client);
}

static void
closing_ends_what_goes_on(void **state)
{
    struct listener listener = {0};
    const struct engine_rpc_request request = {
        .method = RPC_HOLD, .wait_ms = WAIT, .done = on_done, .arg = &listener};
    struct kvt_ticket *ticket;
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(engine_rpc_start(scene.client, &request, &ticket), KVT_OK);
    assert_int_equal(engine_rpc_start(scene.client, &request, NULL), KVT_OK);
    rpc_rig_wait_held(&rig, 2);
    engine_rpc_client_close(scene.client);
    assert_int_equal(atomic_load(&listener.report), 2);
    assert_int_equal(kvt_ticket_wait(ticket, 0), KVT_CANCELLED);
    kvt_ticket_release(ticket);
    rpc_rig_wait_for(&rig.gone, 1); /* it said farewell */
    assert_true(is_over(&rig));
    (void)rpc_rig_release(&rig);
    rpc_rig_end(&rig);
}

struct insisting {
    struct engine_rpc_client *client;
    uint32_t report;
    uint32_t begun;
};

static void
call_again(void *arg, const struct engine_rpc_reply *reply)
{
    struct insisting *who = arg;
    const struct engine_rpc_request request = {
        .method = RPC_HOLD, .wait_ms = WAIT, .done = call_again, .arg = who};

    (void)reply;
    who->report++;
    if (engine_rpc_start(who->client, &request, NULL) == KVT_OK)
        who->begun++;
}

/* Who calls again whenever a call has ended hears of each that was begun, or begins none. */
static void
closing_ends_what_begins_meanwhile(void **state)
{
    struct insisting who = {.begun = 1};
    struct scene scene;

    (void)state;
    begin(&scene);
    who.client = scene.client;
    assert_int_equal(
        engine_rpc_start(scene.client,
                         &(struct engine_rpc_request){
                             .method = RPC_HOLD, .wait_ms = WAIT, .done = call_again, .arg = &who},
                         NULL),
        KVT_OK);
    rpc_rig_wait_held(&rig, 1);
    engine_rpc_client_close(scene.client);
    assert_int_equal(who.report, who.begun);
    (void)rpc_rig_release(&rig);
    rpc_rig_end(&rig);
}

static void
servers_are_checked(void **state)
{
    const struct engine_rpc_method wrong[] = {
        {.number = ENGINE_RPC_METHODS_MAX, .run = (engine_rpc_handler_fn *)(uintptr_t)1},
        {.number = 1},
        {.number = 1, .run = (engine_rpc_handler_fn *)(uintptr_t)1, .slow = true},
    };
    struct engine_rpc_server_options options = {.endpoint = "tcp://127.0.0.1:0", .method_count = 1};
    struct engine_rpc_server *server;
    struct engine_rpc_client *client;
    struct kvt_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        options.methods = &wrong[i];
        assert_int_equal(engine_rpc_server_open(&server, &options, &err), KVT_INVALID);
        assert_null(server);
    }
    options.method_count = 0;
    options.endpoint = "udp://127.0.0.1:1";
    assert_int_equal(engine_rpc_server_open(&server, &options, &err), KVT_INVALID);
    assert_int_equal(
        engine_rpc_client_open(&client, &(struct engine_rpc_client_options){.endpoint = "nonsense"},
                               &err),
        KVT_INVALID);
    assert_null(client);
}

/* Whoever comes second does not take the first one's clients from him, nor his socket's file. */
static void
taken_addresses_are_busy(void **state)
{
    char folder[256];
    char path[ENGINE_RPC_ENDPOINT_MAX];
    const char *const endpoints[] = {"tcp://127.0.0.1:0", path};
    struct scene scene;

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "ipc://%.200s/rpc", folder);
    for (size_t i = 0; i < 2; i++) {
        struct engine_rpc_server_options options = {.endpoint = endpoints[i]};
        struct engine_rpc_server *server;

        begin_with(&scene, &options);
        options.endpoint = engine_rpc_server_endpoint(rig.server);
        assert_int_equal(engine_rpc_server_open(&server, &options, NULL), KVT_BUSY);
        assert_int_equal(ask_word(scene.client, RPC_ECHO, 1, WAIT, NULL), KVT_OK);
        end(&scene);
    }
    test_folder_remove(folder);
}

/* ---- what is not a message ---- */

static void
send_frames(void *socket, size_t frames, const void *bytes, size_t size)
{
    for (size_t i = 0; i < frames; i++)
        assert_true(zmq_send(socket, bytes, size, i + 1 < frames ? ZMQ_SNDMORE : 0) >= 0);
}

static void
nonsense_is_dropped(void **state)
{
    uint64_t random = test_seed();
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    const int zero = 0;
    uint64_t sent = 3;
    struct scene scene;
    uint8_t bytes[64];
    uint8_t *large;

    (void)state;
    begin(&scene);
    (void)zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof(zero));
    assert_int_equal(zmq_connect(socket, engine_rpc_server_endpoint(rig.server)), 0);
    send_frames(socket, 1, "", 0);
    send_frames(socket, 2, "\x97\x01\x0a", 3);
    send_frames(socket, 5, "x", 1);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const size_t size = kvt_random_below(&random, sizeof(bytes));

        for (size_t at = 0; at < size; at++)
            bytes[at] = (uint8_t)kvt_random_next(&random);
        if (size > 0 && bytes[0] == 0x97)
            continue;
        send_frames(socket, 1, bytes, size);
        sent++;
    }
    for (int i = 0; i < WAIT && engine_rpc_server_stats(rig.server).malformed < sent; i++)
        kvt_clock_sleep_ms(1);
    assert_int_equal(engine_rpc_server_stats(rig.server).malformed, sent);
    large = kvt_calloc(1, ENGINE_RPC_WIRE_MAX + 1);
    assert_non_null(large);
    send_frames(socket, 1, large, ENGINE_RPC_WIRE_MAX + 1); /* ends this connection alone */
    kvt_free(large);
    assert_int_equal(ask_word(scene.client, RPC_COUNT, 1, WAIT, NULL), KVT_OK);
    (void)zmq_close(socket);
    (void)zmq_ctx_term(context);
    end(&scene);
}

/* ---- memory ---- */

static bool
try_life(void *arg)
{
    const struct engine_rpc_server_options options = {.endpoint = "tcp://127.0.0.1:0"};
    struct engine_rpc_client_options to = {.silence_ms = PATIENT};
    struct engine_rpc_server *server = NULL;
    struct engine_rpc_client *client = NULL;
    struct kvt_error err;
    enum kvt_err rc = engine_rpc_server_open(&server, &options, &err);

    (void)arg;
    if (rc == KVT_OK) {
        to.endpoint = engine_rpc_server_endpoint(server);
        rc = engine_rpc_client_open(&client, &to, &err);
    }
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    engine_rpc_client_close(client);
    engine_rpc_server_close(server);
    return rc == KVT_OK;
}

static void
opening_survives_every_allocation_failure(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(try_life, NULL) > 3);
}

static bool
try_call(void *arg)
{
    struct scene *scene = arg;
    const uint32_t name = 1;
    const struct engine_rpc_request request = {
        .method = RPC_ECHO, .bytes = &name, .size = sizeof(name), .wait_ms = WAIT};
    enum kvt_err rc = engine_rpc_run(scene->client, &request, NULL, NULL);
    struct kvt_ticket *ticket;

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    if (rc != KVT_OK)
        return false;
    rc = engine_rpc_start(scene->client, &request, &ticket);
    if (rc == KVT_OK) {
        rc = kvt_ticket_wait(ticket, WAIT);
        kvt_ticket_release(ticket);
    }
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    return rc == KVT_OK;
}

/* A server's answer that is kept is memory that lives on: two calls first take what is kept. */
static void
calls_survive_every_allocation_failure(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_true(try_call(&scene));
    assert_true(try_call(&scene));
    for (size_t n = 0; n < 8; n++) {
        kvt_alloc_fail_after(n);
        (void)try_call(&scene);
        kvt_alloc_fail_after(SIZE_MAX);
        assert_true(try_call(&scene));
    }
    assert_int_equal(engine_rpc_client_stats(scene.client).waiting, 0);
    assert_int_equal(engine_rpc_server_stats(rig.server).under_way, 0);
    end(&scene);
    assert_int_equal(kvt_alloc_live(), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_answered_over_tcp),
        cmocka_unit_test(calls_are_answered_over_ipc),
        cmocka_unit_test(statuses_come_back),
        cmocka_unit_test(payloads_of_any_size),
        cmocka_unit_test(wrong_questions_are_refused),
        cmocka_unit_test(done_is_called_once),
        cmocka_unit_test(many_threads_share_a_client),
        cmocka_unit_test(full_is_an_answer),
        cmocka_unit_test(clients_have_limits),
        cmocka_unit_test(deadlines_are_kept),
        cmocka_unit_test(calls_can_be_taken_back),
        cmocka_unit_test(cancel_races_the_answer),
        cmocka_unit_test(another_server_is_another_link),
        cmocka_unit_test(a_server_may_come_late_or_never),
        cmocka_unit_test(closing_ends_what_goes_on),
        cmocka_unit_test(closing_ends_what_begins_meanwhile),
        cmocka_unit_test(servers_are_checked),
        cmocka_unit_test(taken_addresses_are_busy),
        cmocka_unit_test(nonsense_is_dropped),
        cmocka_unit_test(opening_survives_every_allocation_failure),
        cmocka_unit_test(calls_survive_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
