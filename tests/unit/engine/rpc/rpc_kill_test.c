/*
 * What is tested: engine/rpc/rpc.h between processes that are killed, restarted and stopped.  The
 * server's process writes the name of each call it runs into a file, so that what ran is known
 * whatever became of it: nothing ran twice, and nothing was answered that did not run.
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/random.h"

#include "engine/rpc/rpc.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/rpc/rpc_rig.h"

enum {
    ROUNDS = 6,
    CALLS = 200,   /* a round */
    LIFE_MAX = 60, /* ms a server lives in a round */
    THREADS = 2,
    WAIT = 30000,
    SILENCE = 1500,
    SLACK = 8000, /* ms of a busy machine */
    TEXT = 320,
};

static struct rpc_rig rig;

/* ---- the other process ---- */

static void
on_name(void *arg, struct engine_rpc_call *call)
{
    const int *file = arg;
    size_t size;
    const uint8_t *bytes = engine_rpc_call_bytes(call, &size);

    if (size != sizeof(uint32_t) || write(*file, bytes, size) != (ssize_t)size)
        abort();
    kvt_clock_sleep_ms(bytes[0] % 3);
    engine_rpc_answer(call, KVT_OK, bytes, size);
}

/* server ENDPOINT FILE; until it is killed. */
static void
serve(char **argv)
{
    const int file = open(argv[3], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const struct engine_rpc_method method = {RPC_COUNT, "name", on_name, true};
    const struct engine_rpc_server_options options = {.endpoint = argv[2],
                                                      .methods = &method,
                                                      .method_count = 1,
                                                      .arg = (void *)(uintptr_t)&file,
                                                      .threads = THREADS};
    struct engine_rpc_server *server;
    struct kvt_error err;

    if (file < 0 || engine_rpc_server_open(&server, &options, &err) != KVT_OK)
        abort();
    for (;;)
        (void)pause();
}

/* client ENDPOINT; asks for what is never answered. */
static void
ask_in_vain(char **argv)
{
    const struct engine_rpc_client_options options = {.endpoint = argv[2]};
    const struct engine_rpc_request request = {.method = RPC_HOLD, .wait_ms = WAIT};
    struct engine_rpc_client *client;
    struct kvt_error err;

    if (engine_rpc_client_open(&client, &options, &err) != KVT_OK)
        abort();
    for (;;)
        (void)engine_rpc_run(client, &request, NULL, NULL);
}

static void
play_part(int argc, char **argv)
{
    if (argc < 3)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (strcmp(argv[1], "server") == 0 && argc == 4)
        serve(argv);
    else
        ask_in_vain(argv);
}

static pid_t
spawn(const char *part, const char *endpoint, const char *file)
{
    char texts[4][TEXT];
    char *argv[] = {texts[0], texts[1], texts[2], file != NULL ? texts[3] : NULL, NULL};
    pid_t pid;

    (void)snprintf(texts[0], TEXT, "rpc_kill_test");
    (void)snprintf(texts[1], TEXT, "%s", part);
    (void)snprintf(texts[2], TEXT, "%s", endpoint);
    (void)snprintf(texts[3], TEXT, "%s", file != NULL ? file : "");
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

static void
end_process(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* All its threads stand when this returns. */
static void
stop_process(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
}

/* ---- a server that is killed ---- */

struct scene {
    char folder[TEXT / 2];
    char file[TEXT];
    char endpoint[ENGINE_RPC_ENDPOINT_MAX];
    struct engine_rpc_client *client;
    pid_t server;
    uint32_t names;
};

struct asked {
    uint32_t name;
    struct kvt_ticket *ticket;
    enum kvt_err status;
};

static struct asked asked[ROUNDS * CALLS];

static void
begin(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    (void)test_folder_make(scene->folder, sizeof(scene->folder));
    (void)snprintf(scene->file, sizeof(scene->file), "%s/names", scene->folder);
    (void)snprintf(scene->endpoint, sizeof(scene->endpoint), "ipc://%s/rpc", scene->folder);
    scene->server = spawn("server", scene->endpoint, scene->file);
    scene->client = rpc_rig_client(scene->endpoint, SILENCE);
    assert_int_equal(engine_rpc_client_wait(scene->client, WAIT), KVT_OK);
}

static void
end(struct scene *scene)
{
    engine_rpc_client_close(scene->client);
    end_process(scene->server);
    test_folder_remove(scene->folder);
}

static void
start(struct scene *scene)
{
    struct asked *call = &asked[scene->names];
    const struct engine_rpc_request request = {
        .method = RPC_COUNT, .bytes = &call->name, .size = sizeof(call->name), .wait_ms = WAIT};

    call->name = scene->names++;
    call->status = engine_rpc_start(scene->client, &request, &call->ticket);
}

static void
finish(struct asked *call, uint32_t *answered)
{
    struct engine_rpc_reply reply;

    if (call->ticket == NULL) {
        assert_true(call->status == KVT_UNAVAILABLE || call->status == KVT_AGAIN);
        return;
    }
    call->status = kvt_ticket_wait(call->ticket, SLACK);
    assert_true(call->status == KVT_OK || call->status == KVT_UNAVAILABLE);
    engine_rpc_reply(call->ticket, &reply);
    assert_int_equal(reply.answered, call->status == KVT_OK);
    *answered += reply.answered ? 1 : 0;
    kvt_ticket_release(call->ticket);
}

static void
judge(const struct scene *scene)
{
    uint32_t runs[ROUNDS * CALLS] = {0};
    struct kvt_error err;
    size_t size;
    char *names;

    assert_int_equal(kvt_file_read(&names, &size, scene->file, sizeof(runs) * 2, &err), KVT_OK);
    for (size_t at = 0; at + sizeof(uint32_t) <= size; at += sizeof(uint32_t)) {
        uint32_t name;

        memcpy(&name, names + at, sizeof(name));
        assert_true(name < scene->names);
        runs[name]++;
    }
    kvt_free(names);
    for (uint32_t i = 0; i < scene->names; i++)
        assert_in_range(runs[i], asked[i].status == KVT_OK ? 1 : 0, 1);
}

static void
killed_servers_run_nothing_twice(void **state)
{
    uint64_t random = test_seed();
    uint32_t answered = 0;
    struct scene scene;

    (void)state;
    begin(&scene);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint64_t link = engine_rpc_client_link(scene.client);
        const uint32_t first = scene.names;

        for (uint32_t i = 0; i < CALLS; i++)
            start(&scene);
        kvt_clock_sleep_ms(kvt_random_below(&random, LIFE_MAX));
        end_process(scene.server);
        if (kvt_random_below(&random, 2) == 0)
            kvt_clock_sleep_ms(kvt_random_below(&random, 2 * ENGINE_RPC_CUT_MS));
        scene.server = spawn("server", scene.endpoint, scene.file);
        for (uint32_t i = first; i < scene.names; i++)
            finish(&asked[i], &answered);
        assert_int_equal(engine_rpc_client_wait(scene.client, WAIT), KVT_OK);
        assert_int_not_equal(engine_rpc_client_link(scene.client), link);
    }
    assert_true(answered < ROUNDS * CALLS); /* some were killed */
    judge(&scene);
    end(&scene);
}

/* Nobody comes back: calls end soon, whatever their deadline. */
static void
a_dead_server_is_noticed(void **state)
{
    struct scene scene;
    uint32_t answered = 0;
    uint64_t start_ms;

    (void)state;
    begin(&scene);
    stop_process(scene.server); /* so that nothing is answered */
    start(&scene);
    start_ms = kvt_clock_mono_ms();
    end_process(scene.server);
    finish(&asked[0], &answered);
    assert_int_equal(asked[0].status, KVT_UNAVAILABLE);
    assert_in_range(kvt_clock_mono_ms() - start_ms, ENGINE_RPC_CUT_MS / 2, SLACK);
    scene.server = spawn("server", scene.endpoint, scene.file);
    end(&scene);
}

static void
a_stopped_server_is_noticed_and_comes_back(void **state)
{
    struct scene scene;
    uint32_t answered = 0;
    uint64_t link;

    (void)state;
    begin(&scene);
    link = engine_rpc_client_link(scene.client);
    stop_process(scene.server);
    start(&scene);
    finish(&asked[0], &answered);
    assert_int_equal(asked[0].status, KVT_UNAVAILABLE);
    assert_int_equal(kill(scene.server, SIGCONT), 0);
    assert_int_equal(engine_rpc_client_wait(scene.client, WAIT), KVT_OK);
    assert_int_not_equal(engine_rpc_client_link(scene.client), link);
    start(&scene);
    finish(&asked[1], &answered);
    assert_int_equal(asked[1].status, KVT_OK);
    judge(&scene);
    end(&scene);
}

/* ---- a client that is killed ---- */

static void
a_dead_client_leaves_nothing(void **state)
{
    const struct engine_rpc_server_options options = {.endpoint = "tcp://127.0.0.1:0",
                                                      .silence_ms = SILENCE};
    uint64_t link;
    pid_t client;
    bool over;

    (void)state;
    rpc_rig_begin(&rig, &options);
    client = spawn("client", engine_rpc_server_endpoint(rig.server), NULL);
    rpc_rig_wait_held(&rig, 1);
    link = engine_rpc_call_link(rig.held[0]);
    assert_false(engine_rpc_call_is_over(rig.held[0]));
    assert_int_equal(engine_rpc_server_stats(rig.server).links, 1);
    end_process(client);
    rpc_rig_wait_for(&rig.gone, 1);
    assert_int_equal(atomic_load(&rig.gone_link), link);
    over = engine_rpc_call_is_over(rig.held[0]);
    assert_true(over);
    assert_int_equal(engine_rpc_server_stats(rig.server).links, 0);
    assert_int_equal(rpc_rig_release(&rig), 1);
    assert_int_equal(engine_rpc_server_stats(rig.server).under_way, 0);
    assert_int_equal(engine_rpc_server_stats(rig.server).kept_bytes, 0);
    rpc_rig_end(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_servers_run_nothing_twice),
        cmocka_unit_test(a_dead_server_is_noticed),
        cmocka_unit_test(a_stopped_server_is_noticed_and_comes_back),
        cmocka_unit_test(a_dead_client_leaves_nothing),
    };

    play_part(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
