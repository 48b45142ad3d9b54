#include "tests/gpu/gpu_ranks.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/clock.h"

#include "engine/replica/broadcast_internal.h"

enum { STEP = ENGINE_BROADCAST_STEP };

enum verb { FILL, WRONG, SHARE, HAVE, LEAVE, PULL };

/* What a rank is asked; messages are structs, since both sides are one program. */
struct order {
    enum verb verb;
    uint64_t content;
    struct kvbm_cuda_shared shared;
    uint32_t count;
    uint32_t sources[STEP], targets[STEP];
};

struct answer {
    enum kvt_err status;
    uint64_t wrong;
    struct kvbm_cuda_shared shared;
    enum kvt_err statuses[STEP];
    struct kvt_error error;
};

/* What a rank says of its G1: which process has it, too. */
struct said {
    pid_t process;
    struct kvbm_cuda_shared shared;
};

static bool
put_all(int socket, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t more = send(socket, (const char *)bytes + done, size - done, MSG_NOSIGNAL);

        if (more <= 0)
            return false;
        done += (size_t)more;
    }
    return true;
}

static bool
get_all(int socket, void *bytes, size_t size)
{
    return recv(socket, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

struct kvbm_layout
gpu_rank_layout(void)
{
    const struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_CONTIGUOUS,
        .layers = 4,
        .outer = 2,
        .page_size = 16,
        .heads = 8,
        .inner_dim = 4096,
        .dtype_bytes = 2,
        .alignment = KVBM_STORAGE_ALIGN,
        .tp_size = 1,
    };
    struct kvbm_layout layout;

    if (kvbm_layout_shape(&layout, &geometry, NULL) != KVT_OK)
        memset(&layout, 0, sizeof(layout)); /* and no storage has blocks of no bytes */
    return layout;
}

/* In the rank's process ---------------------------------------------------------------------- */

struct own {
    struct gpu_pair pair;
    struct kvbm_cuda_shared shared; /* what the driver said: it need not say the same twice */
    struct kvbm_storage *theirs;    /* rank 0's, or NULL */
};

static void
pull(struct own *own, const struct order *order, struct answer *answer)
{
    struct kvbm_storage_move moves[STEP];
    const uint32_t blocks = own->pair.blocks;
    bool fits = own->theirs != NULL && order->count <= STEP;

    for (uint32_t i = 0; fits && i < order->count; i++) {
        fits = order->sources[i] < blocks && order->targets[i] < blocks;
        moves[i] = (struct kvbm_storage_move){.source = order->sources[i],
                                              .target = order->targets[i],
                                              .size = own->pair.size,
                                              .status = KVT_IO};
    }
    if (!fits || !kvbm_storage_move(own->pair.device, own->theirs, moves, order->count)) {
        answer->status = own->theirs == NULL ? KVT_UNAVAILABLE : KVT_INVALID;
        return;
    }
    for (uint32_t i = 0; i < order->count; i++)
        answer->statuses[i] = moves[i].status;
}

static void
obey(struct own *own, const struct order *order, struct answer *answer)
{
    switch (order->verb) {
    case FILL:
        answer->status = gpu_put(&own->pair, own->pair.device, order->content) ? KVT_OK : KVT_IO;
        break;
    case WRONG:
        answer->wrong = gpu_wrong_bytes(&own->pair, own->pair.device, order->content);
        break;
    case SHARE: memcpy(&answer->shared, &own->shared, sizeof(own->shared)); break;
    case HAVE:
        answer->status = own->theirs != NULL
                             ? KVT_EXISTS
                             : kvbm_cuda_open_beside(&own->theirs, own->pair.device, &order->shared,
                                                     &answer->error);
        break;
    case LEAVE:
        kvbm_storage_close(own->theirs);
        own->theirs = NULL;
        break;
    case PULL: pull(own, order, answer); break;
    }
}

bool
gpu_rank_main(struct kvbm_cuda *cuda)
{
    struct own own = {.theirs = NULL};
    struct answer answer;
    struct order order;
    struct kvt_error err;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (gpu_pair_open(&own.pair, cuda, GPU_RANK_BLOCKS, gpu_rank_layout().block_size, &err) !=
            KVT_OK ||
        kvbm_cuda_share(own.pair.device, &own.shared, &err) != KVT_OK) {
        (void)fprintf(stderr, "gpu-check: a rank: %s\n", err.text);
        gpu_pair_close(&own.pair);
        return false;
    }
    while (get_all(STDIN_FILENO, &order, sizeof(order))) {
        memset(&answer, 0, sizeof(answer));
        obey(&own, &order, &answer);
        if (!put_all(STDIN_FILENO, &answer, sizeof(answer)))
            break;
    }
    kvbm_storage_close(own.theirs);
    gpu_pair_close(&own.pair);
    return true;
}

/* As others see it --------------------------------------------------------------------------- */

/* KVT_UNAVAILABLE: it is gone. */
static enum kvt_err
ask(struct gpu_rank *rank, const struct order *order, struct answer *answer, struct kvt_error *err)
{
    memset(answer, 0, sizeof(*answer));
    if (rank->process == 0 || !put_all(rank->socket, order, sizeof(*order)) ||
        !get_all(rank->socket, answer, sizeof(*answer)))
        return kvt_error_set(err, KVT_UNAVAILABLE, "its process does not answer");
    if (answer->status != KVT_OK && err != NULL)
        *err = answer->error;
    return answer->status;
}

static enum kvt_err
rank_share(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
           struct kvt_error *err)
{
    struct gpu_rank *rank = (struct gpu_rank *)worker;
    const struct order order = {.verb = SHARE};
    struct answer answer;
    struct said said;
    const enum kvt_err rc = ask(rank, &order, &answer, err);

    (void)wait_ms;
    if (rc != KVT_OK)
        return rc;
    memset(&said, 0, sizeof(said));
    said.process = rank->process;
    memcpy(&said.shared, &answer.shared, sizeof(said.shared));
    kvt_buffer_append(out, &said, sizeof(said));
    return kvt_buffer_ok(out) ? KVT_OK : KVT_NOMEM;
}

static enum kvt_err
rank_connect(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes, size_t size,
             uint64_t wait_ms, struct kvt_error *err)
{
    struct order order = {.verb = HAVE};
    struct answer answer;
    struct said said;

    (void)wait_ms;
    if (peer != ENGINE_PEER_G1 || size != sizeof(said))
        return kvt_error_set(err, KVT_UNSUPPORTED, "there is no fabric here");
    memcpy(&said, bytes, sizeof(said));
    order.shared = said.shared;
    return ask((struct gpu_rank *)worker, &order, &answer, err);
}

static void
rank_disconnect(struct engine_worker *worker, uint64_t peer)
{
    const struct order order = {.verb = LEAVE};
    struct answer answer;

    if (peer == ENGINE_PEER_G1)
        (void)ask((struct gpu_rank *)worker, &order, &answer, NULL);
}

static enum kvt_err
rank_describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
              struct kvt_error *err)
{
    (void)worker;
    (void)out;
    (void)wait_ms;
    return kvt_error_set(err, KVT_UNSUPPORTED, "there is no fabric here");
}

static void *
run_job(void *arg)
{
    struct gpu_rank *rank = arg;
    struct engine_job *job = rank->job;
    struct order order = {.verb = PULL, .count = (uint32_t)job->count};
    struct answer answer;
    enum kvt_err rc;

    for (size_t i = 0; i < job->count; i++) {
        order.sources[i] = job->items[i].source;
        order.targets[i] = job->items[i].target;
    }
    rc = ask(rank, &order, &answer, NULL);
    for (size_t i = 0; i < job->count; i++)
        job->items[i].status = rc == KVT_OK ? answer.statuses[i] : rc;
    engine_job_finish(&rank->head, job, NULL);
    return NULL;
}

static void
end_thread(struct gpu_rank *rank)
{
    if (rank->has_thread)
        (void)pthread_join(rank->thread, NULL);
    rank->has_thread = false;
}

static enum kvt_err
rank_start(struct engine_worker *worker, struct engine_job *job)
{
    struct gpu_rank *rank = (struct gpu_rank *)worker;

    if (job->verb != ENGINE_PULL || job->peer != ENGINE_PEER_G1 || job->layers != 0 ||
        job->count > STEP)
        return KVT_UNSUPPORTED;
    end_thread(rank);
    rank->job = job;
    rank->has_thread = pthread_create(&rank->thread, NULL, run_job, rank) == 0;
    return rank->has_thread ? KVT_OK : KVT_NOMEM;
}

static void
rank_cancel(struct engine_worker *worker, struct engine_job *job)
{
    (void)worker;
    (void)job; /* it ends soon */
}

static void
rank_close(struct engine_worker *worker)
{
    gpu_rank_close((struct gpu_rank *)worker);
}

static const struct engine_worker_ops rank_ops = {
    .kind = "rank",
    .start = rank_start,
    .cancel = rank_cancel,
    .describe = rank_describe,
    .connect = rank_connect,
    .disconnect = rank_disconnect,
    .share = rank_share,
    .close = rank_close,
};

/* Its life ----------------------------------------------------------------------------------- */

static _Noreturn void
become(int socket, uint32_t device, const char *library)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", (unsigned)device);
    (void)dup2(socket, STDIN_FILENO);
    (void)execl("/proc/self/exe", "gpu_check", "--rank", text, "--library", library, (char *)NULL);
    _exit(127);
}

bool
gpu_rank_open(struct gpu_rank *rank, uint32_t device, const char *library)
{
    const struct timeval wait = {.tv_sec = GPU_RANK_WAIT_S};
    int ends[2];

    *rank = (struct gpu_rank){
        .head = {.ops = &rank_ops,
                 .layout = gpu_rank_layout(),
                 .ranks = 1,
                 .blocks = {[KVT_TIER_G1] = GPU_RANK_BLOCKS, [KVT_TIER_G2] = 1}},
        .socket = -1,
    };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    rank->process = fork();
    if (rank->process == 0)
        become(ends[0], device, library);
    (void)close(ends[0]);
    rank->socket = ends[1];
    if (rank->process < 0)
        rank->process = 0;
    return rank->process > 0 &&
           setsockopt(rank->socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0;
}

void
gpu_rank_kill(struct gpu_rank *rank)
{
    if (rank->process == 0)
        return;
    (void)kill(rank->process, SIGKILL);
    (void)waitpid(rank->process, NULL, 0);
    rank->process = 0;
}

void
gpu_rank_close(struct gpu_rank *rank)
{
    const uint64_t end = kvt_clock_mono_ms() + GPU_RANK_END_MS;

    end_thread(rank);
    if (rank->socket >= 0)
        (void)close(rank->socket); /* and so it ends */
    rank->socket = -1;
    while (rank->process != 0 && waitpid(rank->process, NULL, WNOHANG) == 0 &&
           kvt_clock_mono_ms() < end)
        kvt_clock_sleep_ms(1);
    if (rank->process != 0 && kvt_clock_mono_ms() >= end)
        gpu_rank_kill(rank);
    rank->process = 0;
}

bool
gpu_rank_fill(struct gpu_rank *rank, uint64_t content)
{
    const struct order order = {.verb = FILL, .content = content};
    struct answer answer;

    end_thread(rank);
    return ask(rank, &order, &answer, NULL) == KVT_OK;
}

uint64_t
gpu_rank_wrong(struct gpu_rank *rank, uint64_t content)
{
    const struct order order = {.verb = WRONG, .content = content};
    struct answer answer;

    end_thread(rank);
    return ask(rank, &order, &answer, NULL) == KVT_OK
               ? answer.wrong
               : GPU_RANK_BLOCKS * rank->head.layout.block_size;
}
