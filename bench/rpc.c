/*
 * bench/rpc.c -- what a call to another process costs.
 *
 *   bench_rpc ipc|tcp run|start|bare BYTES CALLS PAIRS
 *   bench_rpc local CALLS PAIRS
 *
 * Ours: a call of BYTES that is answered with as many, by engine_rpc_run(), or by
 * engine_rpc_start() and a wait for its ticket.  Anchor: as many bytes to and fro between a bare
 * DEALER here and a bare ROUTER there, both sides blocking in zmq_recv(), everything else
 * ZeroMQ's defaults.  Both servers are threads of one other process.  `bare` measures the anchor
 * against itself: how far two equal things are apart here.  `local` is a job that does nothing,
 * given to a worker of this process.
 *
 * Prints "pair <ours> <anchor>" lines, microseconds a call, the median of CALLS; both sides take
 * turns of TURN calls.  Every answer is checked.
 */
#include "engine/rpc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/parse.h"

#include "engine/worker.h"

enum { ECHO = 1, TURN = 50, WARM = 200, WAIT = 10000 /* ms */, TEXT = 192, BYTES_MAX = 1 << 20 };

struct bench {
    const char *transport;
    uint64_t bytes;
    uint64_t calls;
    struct engine_rpc_client *client;
    void *socket;
    uint8_t *question;
    uint8_t *answer;
};

static void
need(bool right, const char *what)
{
    if (right)
        return;
    (void)fprintf(stderr, "bench_rpc: %s\n", what);
    exit(1);
}

/* ---- the other process ---- */

static void
on_echo(void *arg, struct engine_rpc_call *call)
{
    size_t size;
    const uint8_t *bytes = engine_rpc_call_bytes(call, &size);

    (void)arg;
    engine_rpc_answer(call, KVT_OK, bytes, size);
}

/* Say where we listen, then echo without end. */
static void
serve(const char *ours, const char *bare, int out)
{
    const struct engine_rpc_method method = {ECHO, "echo", on_echo, false};
    const struct engine_rpc_server_options options = {
        .endpoint = ours, .methods = &method, .method_count = 1};
    void *socket = zmq_socket(zmq_ctx_new(), ZMQ_ROUTER);
    char where[2][TEXT] = {{0}};
    size_t size = sizeof(where[1]);
    struct engine_rpc_server *server;
    struct kvt_error err;
    zmq_msg_t part;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    need(engine_rpc_server_open(&server, &options, &err) == KVT_OK, err.text);
    need(zmq_bind(socket, bare) == 0 &&
             zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, where[1], &size) == 0,
         "bind");
    (void)snprintf(where[0], sizeof(where[0]), "%s", engine_rpc_server_endpoint(server));
    need(write(out, where, sizeof(where)) == (ssize_t)sizeof(where), "write");
    (void)zmq_msg_init(&part);
    for (;;) {
        need(zmq_msg_recv(&part, socket, 0) >= 0, "zmq_msg_recv");
        need(zmq_msg_send(&part, socket, zmq_msg_more(&part) ? ZMQ_SNDMORE : 0) >= 0,
             "zmq_msg_send");
    }
}

static void
start_server(struct bench *bench, char where[2][TEXT])
{
    char folder[] = "/tmp/bench_rpc.XXXXXX";
    char endpoints[2][TEXT] = {"tcp://127.0.0.1:*", "tcp://127.0.0.1:*"};
    int pipes[2];
    pid_t child;

    if (strcmp(bench->transport, "ipc") == 0) {
        need(mkdtemp(folder) != NULL, "mkdtemp");
        (void)snprintf(endpoints[0], TEXT, "ipc://%s/ours", folder);
        (void)snprintf(endpoints[1], TEXT, "ipc://%s/bare", folder);
    }
    need(pipe(pipes) == 0, "pipe");
    child = fork();
    need(child >= 0, "fork");
    if (child == 0)
        serve(endpoints[0], endpoints[1], pipes[1]);
    need(read(pipes[0], where, (size_t)2 * TEXT) == (ssize_t)2 * TEXT, "the server did not start");
}

static void
end_server(const struct bench *bench, char where[2][TEXT])
{
    char *slash = strrchr(where[0], '/');

    if (strcmp(bench->transport, "ipc") != 0)
        return;
    (void)unlink(where[0] + strlen("ipc://"));
    (void)unlink(where[1] + strlen("ipc://"));
    *slash = '\0';
    (void)rmdir(where[0] + strlen("ipc://"));
}

/* ---- calls ---- */

static void
call_run(struct bench *bench)
{
    const struct engine_rpc_request request = {
        .method = ECHO, .bytes = bench->question, .size = bench->bytes, .wait_ms = WAIT};
    struct kvt_buffer answer = {.data = bench->answer, .capacity = BYTES_MAX, .limit = BYTES_MAX};

    need(engine_rpc_run(bench->client, &request, &answer, NULL) == KVT_OK &&
             answer.size == bench->bytes,
         "a call failed");
}

static void
call_start(struct bench *bench)
{
    const struct engine_rpc_request request = {
        .method = ECHO, .bytes = bench->question, .size = bench->bytes, .wait_ms = WAIT};
    struct engine_rpc_reply reply;
    struct kvt_ticket *ticket;

    need(engine_rpc_start(bench->client, &request, &ticket) == KVT_OK &&
             kvt_ticket_wait(ticket, WAIT) == KVT_OK,
         "a call failed");
    engine_rpc_reply(ticket, &reply);
    need(reply.size == bench->bytes, "a short answer");
    memcpy(bench->answer, reply.bytes, reply.size);
    kvt_ticket_release(ticket);
}

static void
call_bare(struct bench *bench)
{
    need(zmq_send(bench->socket, bench->question, bench->bytes, 0) == (int)bench->bytes &&
             zmq_recv(bench->socket, bench->answer, bench->bytes, 0) == (int)bench->bytes,
         "a bare round trip failed");
}

static int
compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static double
median_us(uint64_t *times, size_t count)
{
    qsort(times, count, sizeof(*times), compare);
    return (double)times[count / 2] / 1e3;
}

static void
take_turn(struct bench *bench, void (*call)(struct bench *bench), uint64_t *times, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t start_ns = kvt_clock_mono_ns();

        memset(bench->question, (int)i, 8);
        call(bench);
        times[i] = kvt_clock_mono_ns() - start_ns;
        need(memcmp(bench->question, bench->answer, bench->bytes) == 0, "a wrong answer");
    }
}

static void
measure(struct bench *bench, void (*call)(struct bench *bench))
{
    uint64_t *ours = kvt_calloc(bench->calls + WARM, sizeof(*ours));
    uint64_t *bare = kvt_calloc(bench->calls + WARM, sizeof(*bare));

    need(ours != NULL && bare != NULL, "out of memory");
    take_turn(bench, call, ours, WARM);
    take_turn(bench, call_bare, bare, WARM);
    for (size_t done = 0; done < bench->calls; done += TURN) {
        const size_t count = bench->calls - done < TURN ? bench->calls - done : TURN;

        take_turn(bench, call, ours + done, count);
        take_turn(bench, call_bare, bare + done, count);
    }
    (void)printf("pair %.3f %.3f\n", median_us(ours, bench->calls), median_us(bare, bench->calls));
    kvt_free(ours);
    kvt_free(bare);
}

static void
remote(struct bench *bench, const char *way, uint64_t pairs)
{
    void (*call)(struct bench * bench) = strcmp(way, "run") == 0     ? call_run
                                         : strcmp(way, "start") == 0 ? call_start
                                                                     : call_bare;
    char where[2][TEXT];
    struct engine_rpc_client_options options = {.endpoint = where[0]};
    struct kvt_error err;
    void *context;

    start_server(bench, where);
    context = zmq_ctx_new();
    bench->socket = zmq_socket(context, ZMQ_DEALER);
    bench->question = kvt_calloc(1, BYTES_MAX);
    bench->answer = kvt_calloc(1, BYTES_MAX);
    need(bench->question != NULL && bench->answer != NULL &&
             zmq_connect(bench->socket, where[1]) == 0,
         "no connection");
    need(engine_rpc_client_open(&bench->client, &options, &err) == KVT_OK, err.text);
    need(engine_rpc_client_wait(bench->client, WAIT) == KVT_OK, "no link");
    for (uint64_t i = 0; i < pairs; i++)
        measure(bench, call);
    engine_rpc_client_close(bench->client);
    (void)zmq_close(bench->socket);
    (void)zmq_ctx_term(context);
    end_server(bench, where);
    kvt_free(bench->question);
    kvt_free(bench->answer);
}

/* ---- a worker of this process that has nothing to do ---- */

static enum kvt_err
start_nothing(struct engine_worker *worker, struct engine_job *job)
{
    const struct engine_outcome outcome = {.status = KVT_OK, .ranks = worker->ranks};

    for (size_t i = 0; i < job->count; i++)
        job->items[i].status = KVT_OK;
    engine_job_finish(worker, job, &outcome);
    return KVT_OK;
}

static void
local(uint64_t calls, uint64_t pairs)
{
    static const struct engine_worker_ops ops = {.kind = "nothing", .start = start_nothing};
    struct engine_worker worker = {
        .ops = &ops, .ranks = 1, .blocks = {[KVT_TIER_G1] = 1, [KVT_TIER_G2] = 1}};
    uint64_t *times = kvt_calloc(calls, sizeof(*times));

    need(times != NULL, "out of memory");
    for (uint64_t pair = 0; pair < pairs; pair++) {
        for (uint64_t i = 0; i < calls; i++) {
            struct engine_item item = {.source = 0, .target = 0};
            struct engine_job job = {.verb = ENGINE_COPY,
                                     .from = KVT_TIER_G1,
                                     .to = KVT_TIER_G2,
                                     .wait_ms = WAIT,
                                     .items = &item,
                                     .count = 1};
            const uint64_t start_ns = kvt_clock_mono_ns();

            need(engine_worker_run(&worker, &job, NULL) == KVT_OK, "a job failed");
            times[i] = kvt_clock_mono_ns() - start_ns;
        }
        (void)printf("pair %.3f 1\n", median_us(times, calls));
    }
    kvt_free(times);
}

int
main(int argc, char **argv)
{
    struct bench bench = {.transport = argc > 1 ? argv[1] : ""};
    uint64_t pairs = 0;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && strcmp(argv[1], "local") == 0) {
        need(kvt_parse_u64(argv[2], &bench.calls) == KVT_OK &&
                 kvt_parse_u64(argv[3], &pairs) == KVT_OK && bench.calls > 0,
             "local CALLS PAIRS");
        local(bench.calls, pairs);
        return 0;
    }
    need(argc == 6 && kvt_parse_u64(argv[3], &bench.bytes) == KVT_OK &&
             kvt_parse_u64(argv[4], &bench.calls) == KVT_OK &&
             kvt_parse_u64(argv[5], &pairs) == KVT_OK && bench.bytes >= 8 &&
             bench.bytes <= BYTES_MAX && bench.calls > 0,
         "ipc|tcp run|start|bare BYTES CALLS PAIRS");
    remote(&bench, argv[2], pairs);
    return 0;
}
