/*
 * bench/rpc.c -- what a call to another process costs.
 *
 *   bench_rpc ipc|tcp run|start|worker|bare BYTES CALLS PAIRS
 *   bench_rpc local CALLS PAIRS
 *
 * Ours: a call of BYTES that is answered with as many, by engine_rpc_run(), or by
 * engine_rpc_start() and a wait for its ticket; or `worker`: a job that does nothing, of as many
 * items as make about BYTES, given to a worker of another process and waited for.  Anchor: as many
 * bytes to and fro between a bare DEALER here and a bare ROUTER there, both sides blocking in
 * zmq_recv(), everything else ZeroMQ's defaults.  All servers are threads of one other process.
 * `bare` measures the anchor against itself: how far two equal things are apart here.  `local` is
 * the job, given to a worker of this process.
 *
 * Prints "pair <ours> <anchor>" lines, microseconds a call, the median of CALLS; both sides take
 * turns of TURN calls.  Every answer is checked.
 */
#include "engine/rpc/rpc.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/text/parse.h"

#include "engine/rank/rank_client.h"
#include "engine/rank/worker.h"

enum { ECHO = 1, TURN = 50, WARM = 200, WAIT = 10000 /* ms */, TEXT = 192, BYTES_MAX = 1 << 20 };

enum { ITEM_BYTES = 8 }; /* of a job on its way */

enum { OURS, BARE, WORKER, ENDPOINTS };

struct bench {
    const char *transport;
    uint64_t bytes;
    uint64_t calls;
    struct engine_rpc_client *client;
    struct engine_worker *worker;
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

/* ---- a worker that has nothing to do ---- */

static enum kvt_err
start_nothing(struct engine_worker *worker, struct engine_job *job)
{
    const struct engine_outcome outcome = {.status = KVT_OK, .ranks = worker->ranks};

    for (size_t i = 0; i < job->count; i++)
        job->items[i].status = KVT_OK;
    engine_job_finish(worker, job, &outcome);
    return KVT_OK;
}

static const struct engine_worker_ops nothing_ops = {.kind = "nothing", .start = start_nothing};

/* Of blocks that nobody looks at. */
static struct engine_worker
make_nothing(void)
{
    const struct kvt_geometry geometry = {.kind = KVT_LAYOUT_CONTIGUOUS,
                                          .layers = 1,
                                          .outer = 1,
                                          .page_size = 1,
                                          .inner_dim = 4096,
                                          .dtype_bytes = 1,
                                          .alignment = 4096,
                                          .tp_size = 1};
    struct engine_worker worker = {
        .ops = &nothing_ops, .ranks = 1, .blocks = {[KVT_TIER_G1] = 1, [KVT_TIER_G2] = 1}};
    struct kvt_error err;

    need(kvbm_layout_make(&worker.layout, &geometry, &err) == KVT_OK, "no layout");
    return worker;
}

static void
run_job(struct engine_worker *worker, size_t items)
{
    static struct engine_item item[ENGINE_ITEMS_MAX];
    struct engine_job job = {.verb = ENGINE_COPY,
                             .from = KVT_TIER_G1,
                             .to = KVT_TIER_G2,
                             .wait_ms = WAIT,
                             .items = item,
                             .count = items};

    need(engine_worker_run(worker, &job, NULL) == KVT_OK, "a job failed");
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
serve(char endpoints[ENDPOINTS][TEXT], int out)
{
    static struct engine_worker worker;
    const struct engine_rpc_method method = {ECHO, "echo", on_echo, false};
    const struct engine_rpc_server_options options = {
        .endpoint = endpoints[OURS], .methods = &method, .method_count = 1};
    void *socket = zmq_socket(zmq_ctx_new(), ZMQ_ROUTER);
    size_t size = TEXT;
    struct engine_rpc_server *server;
    struct engine_rank_server *serving;
    struct kvt_error err;
    zmq_msg_t part;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    need(engine_rpc_server_open(&server, &options, &err) == KVT_OK, err.text);
    need(zmq_bind(socket, endpoints[BARE]) == 0 &&
             zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoints[BARE], &size) == 0,
         "bind");
    (void)snprintf(endpoints[OURS], TEXT, "%s", engine_rpc_server_endpoint(server));
    worker = make_nothing();
    need(engine_rank_server_open(&serving, &worker, endpoints[WORKER], &err) == KVT_OK, err.text);
    need(write(out, endpoints, (size_t)ENDPOINTS * TEXT) == (ssize_t)ENDPOINTS * TEXT, "write");
    (void)zmq_msg_init(&part);
    for (;;) {
        need(zmq_msg_recv(&part, socket, 0) >= 0, "zmq_msg_recv");
        need(zmq_msg_send(&part, socket, zmq_msg_more(&part) ? ZMQ_SNDMORE : 0) >= 0,
             "zmq_msg_send");
    }
}

/* A worker does not say where it is served. */
static unsigned
free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    need(fd >= 0 && bind(fd, (const struct sockaddr *)&at, size) == 0 &&
             getsockname(fd, (struct sockaddr *)&at, &size) == 0,
         "no port");
    (void)close(fd);
    return ntohs(at.sin_port);
}

static void
start_server(struct bench *bench, char where[ENDPOINTS][TEXT])
{
    char folder[] = "/tmp/bench_rpc.XXXXXX";
    char endpoints[ENDPOINTS][TEXT] = {"tcp://127.0.0.1:*", "tcp://127.0.0.1:*"};
    int pipes[2];
    pid_t child;

    if (strcmp(bench->transport, "ipc") == 0) {
        need(mkdtemp(folder) != NULL, "mkdtemp");
        (void)snprintf(endpoints[OURS], TEXT, "ipc://%s/ours", folder);
        (void)snprintf(endpoints[BARE], TEXT, "ipc://%s/bare", folder);
        (void)snprintf(endpoints[WORKER], TEXT, "ipc://%s/worker", folder);
    } else {
        (void)snprintf(endpoints[WORKER], TEXT, "tcp://127.0.0.1:%u", free_port());
    }
    need(pipe(pipes) == 0, "pipe");
    child = fork();
    need(child >= 0, "fork");
    if (child == 0)
        serve(endpoints, pipes[1]);
    need(read(pipes[0], where, (size_t)ENDPOINTS * TEXT) == (ssize_t)ENDPOINTS * TEXT,
         "the server did not start");
}

static void
end_server(const struct bench *bench, char where[ENDPOINTS][TEXT])
{
    char *slash = strrchr(where[0], '/');

    if (strcmp(bench->transport, "ipc") != 0)
        return;
    for (size_t i = 0; i < ENDPOINTS; i++)
        (void)unlink(where[i] + strlen("ipc://"));
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
call_worker(struct bench *bench)
{
    const size_t items = bench->bytes / ITEM_BYTES;

    run_job(bench->worker, items < ENGINE_ITEMS_MAX ? items : ENGINE_ITEMS_MAX);
    memcpy(bench->answer, bench->question, bench->bytes); /* its outcome was checked */
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

typedef void call_fn(struct bench *bench);

static call_fn *
find_way(const char *way)
{
    if (strcmp(way, "run") == 0)
        return call_run;
    if (strcmp(way, "start") == 0)
        return call_start;
    return strcmp(way, "worker") == 0 ? call_worker : call_bare;
}

static void
remote(struct bench *bench, const char *way, uint64_t pairs)
{
    call_fn *call = find_way(way);
    char where[ENDPOINTS][TEXT];
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
    need(engine_rank_client_open(
             &bench->worker,
             &(struct engine_rank_client_options){.endpoint = where[WORKER], .wait_ms = WAIT},
             &err) == KVT_OK,
         err.text);
    for (uint64_t i = 0; i < pairs; i++)
        measure(bench, call);
    engine_worker_close(bench->worker);
    engine_rpc_client_close(bench->client);
    (void)zmq_close(bench->socket);
    (void)zmq_ctx_term(context);
    end_server(bench, where);
    kvt_free(bench->question);
    kvt_free(bench->answer);
}

static void
local(uint64_t calls, uint64_t pairs)
{
    struct engine_worker worker = make_nothing();
    uint64_t *times = kvt_calloc(calls, sizeof(*times));

    need(times != NULL, "out of memory");
    for (uint64_t pair = 0; pair < pairs; pair++) {
        for (uint64_t i = 0; i < calls; i++) {
            const uint64_t start_ns = kvt_clock_mono_ns();

            run_job(&worker, 1);
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
         "ipc|tcp run|start|worker|bare BYTES CALLS PAIRS");
    remote(&bench, argv[2], pairs);
    return 0;
}
