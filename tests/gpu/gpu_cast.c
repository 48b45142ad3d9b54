/*
 * Blocks of one rank's device for all others (engine/replica/broadcast.h): by CUDA IPC between
 * processes, on one device or on several, and by NCCL between the devices of this process, where
 * there are two and NCCL is installed; NCCL against copies by way of pinned memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"

#include "engine/replica/nccl.h"
#include "tests/gpu/gpu_ranks.h"

enum { ROUNDS = 4, QUEUE_MAX = 64, JOB_WAIT = 60000 };

/* A job of all blocks, and how it ended. */
struct cast {
    struct engine_item items[GPU_RANK_BLOCKS];
    struct engine_job job;
    struct engine_outcome outcome;
    pthread_mutex_t lock; /* guards `ended` */
    pthread_cond_t told;
    bool ended;
};

/* engine_done_fn */
static void
on_done(void *arg, const struct engine_outcome *outcome)
{
    struct cast *cast = arg;

    (void)pthread_mutex_lock(&cast->lock);
    cast->outcome = *outcome;
    cast->ended = true;
    (void)pthread_cond_signal(&cast->told);
    (void)pthread_mutex_unlock(&cast->lock);
}

/* Bytes a second to all others together; 0: some block did not come. */
static double
run(struct engine_broadcast *broadcast, struct cast *cast)
{
    const double bytes = (double)GPU_RANK_BLOCKS * (double)gpu_rank_layout().block_size *
                         (engine_broadcast_ranks(broadcast) - 1);
    const uint64_t begin = kvt_clock_mono_ns();

    memset(cast, 0, sizeof(*cast));
    for (uint32_t i = 0; i < GPU_RANK_BLOCKS; i++)
        cast->items[i].target = i;
    cast->job = (struct engine_job){.verb = ENGINE_COPY,
                                    .to = KVT_TIER_G1,
                                    .wait_ms = JOB_WAIT,
                                    .items = cast->items,
                                    .count = GPU_RANK_BLOCKS,
                                    .done = on_done,
                                    .arg = cast};
    (void)pthread_mutex_init(&cast->lock, NULL);
    (void)pthread_cond_init(&cast->told, NULL);
    if (engine_broadcast_start(broadcast, &cast->job) == KVT_OK) {
        (void)pthread_mutex_lock(&cast->lock);
        while (!cast->ended)
            (void)pthread_cond_wait(&cast->told, &cast->lock);
        (void)pthread_mutex_unlock(&cast->lock);
    } else {
        cast->outcome.status = KVT_AGAIN;
    }
    (void)pthread_cond_destroy(&cast->told);
    (void)pthread_mutex_destroy(&cast->lock);
    return cast->outcome.status == KVT_OK ? bytes * 1e9 / (double)(kvt_clock_mono_ns() - begin + 1)
                                          : 0;
}

/* Between processes -------------------------------------------------------------------------- */

struct between {
    uint32_t count;
    struct gpu_rank ranks[GPU_RANKS_MAX];
    struct engine_worker *workers[GPU_RANKS_MAX];
    struct engine_broadcast *broadcast;
    uint64_t wrong;
    double best; /* bytes a second */
};

static bool
bring_all(struct between *between)
{
    struct cast cast;

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        double speed;

        for (uint32_t r = 0; r < between->count; r++)
            if (!gpu_rank_fill(&between->ranks[r], r == 0 ? round * 1000 : round * 1000000 + r))
                return false;
        speed = run(between->broadcast, &cast);
        if (speed <= 0) {
            (void)fprintf(stderr, "gpu-check: %s\n", cast.outcome.error.text);
            return false;
        }
        between->best = speed > between->best ? speed : between->best;
        for (uint32_t r = 0; r < between->count; r++)
            between->wrong += gpu_rank_wrong(&between->ranks[r], round * 1000);
    }
    return true;
}

/* Whatever the driver lets others read of a process that is dead, it is no block. */
static bool
is_dead_told(struct between *between)
{
    struct cast cast;

    gpu_rank_kill(&between->ranks[0]);
    (void)run(between->broadcast, &cast);
    for (uint32_t i = 0; i < GPU_RANK_BLOCKS; i++)
        if (cast.items[i].status == KVT_OK)
            return false;
    return cast.outcome.status != KVT_OK;
}

/* Devices need not reach each other: then blocks would go by the fabric, and there is nothing to
 * try. */
static bool
is_refused(const struct engine_broadcast_state *state, uint32_t devices)
{
    return devices > 1 && state->way == ENGINE_BY_FABRIC && state->blocks[ENGINE_BY_IPC] == 0;
}

static bool
try_between(struct between *between, const char *name, uint32_t devices)
{
    struct engine_broadcast_state state;
    struct kvt_error err;
    bool told;
    bool good;

    if (engine_broadcast_ipc(&between->broadcast, between->workers, between->count, 1, &err) !=
        KVT_OK) {
        (void)fprintf(stderr, "gpu-check: %s\n", err.text);
        return false;
    }
    told = bring_all(between);
    engine_broadcast_state(between->broadcast, &state);
    told = told && is_dead_told(between);
    engine_broadcast_close(between->broadcast);
    if (is_refused(&state, devices)) {
        (void)fprintf(stderr, "gpu-check: devices do not reach each other: %s\n", state.why);
        return true;
    }
    good = told && between->wrong == 0 && state.way == ENGINE_BY_IPC &&
           state.blocks[ENGINE_BY_IPC] == (uint64_t)ROUNDS * GPU_RANK_BLOCKS;
    (void)printf(
        "{\"name\":\"gpu-broadcast-ipc\",\"what\":\"blocks of one process for all others, "
        "device to device, and that it was killed is told\",\"gpu\":\"%s\",\"devices\":%" PRIu32
        ",\"ranks\":%" PRIu32 ",\"block_size\":%" PRIu64 ",\"blocks\":%" PRIu64
        ",\"wrong_bytes\":%" PRIu64
        ",\"gb_per_s\":%.3f,\"way\":\"%s\",\"killed_told\":%s,\"holds\":%s}\n",
        name, devices, between->count, gpu_rank_layout().block_size, state.blocks[ENGINE_BY_IPC],
        between->wrong, between->best / 1e9, engine_way_name(state.way), told ? "true" : "false",
        good ? "true" : "false");
    (void)fflush(stdout);
    if (!good)
        (void)fprintf(stderr, "gpu-check: blocks go by %s: %s\n", engine_way_name(state.way),
                      state.why);
    return good;
}

/* Two ranks on one device, or one on each. */
static bool
run_between(const char *name, const char *library, uint32_t devices)
{
    struct between between = {.count = devices < 2 ? 2 : devices};
    uint32_t opened = 0;
    bool good = true;

    while (good && opened < between.count) {
        between.workers[opened] = &between.ranks[opened].head;
        good = gpu_rank_open(&between.ranks[opened], opened % devices, library);
        opened++;
    }
    if (good)
        good = try_between(&between, name, devices);
    else
        (void)fprintf(stderr, "gpu-check: no processes for ranks\n");
    for (uint32_t r = 0; r < opened; r++)
        gpu_rank_close(&between.ranks[r]);
    return good;
}

bool
gpu_cast_ipc(const char *name, const char *library, uint32_t devices)
{
    const bool one = run_between(name, library, 1);

    return devices < 2 ? one : run_between(name, library, devices) && one;
}

/* Within this process ------------------------------------------------------------------------ */

struct within {
    uint32_t count;
    struct kvbm_cuda *cudas[GPU_RANKS_MAX];
    struct gpu_pair pairs[GPU_RANKS_MAX];
    struct kvbm_storage *storages[GPU_RANKS_MAX];
    struct kvbm_storage *bounce;
    struct kvbm_transfer *transfer;
    struct engine_broadcast *nccl;
    struct engine_broadcast *copies; /* by way of pinned memory */
    uint64_t wrong;
};

uint32_t
gpu_cast_devices(const char *library)
{
    struct kvbm_cuda *cuda;
    struct kvt_error err;
    uint32_t count = 0;

    while (count < GPU_RANKS_MAX && kvbm_cuda_open(&cuda, library, (int)count, &err) == KVT_OK) {
        kvbm_cuda_close(cuda);
        count++;
    }
    return count;
}

static enum kvt_err
within_open(struct within *within, const char *library, const char *nccl, struct kvt_error *err)
{
    const struct kvbm_layout layout = gpu_rank_layout();
    enum kvt_err rc = KVT_OK;

    for (uint32_t r = 0; r < within->count && rc == KVT_OK; r++) {
        rc = kvbm_cuda_open(&within->cudas[r], library, (int)r, err);
        if (rc == KVT_OK)
            rc = gpu_pair_open(&within->pairs[r], within->cudas[r], GPU_RANK_BLOCKS,
                               layout.block_size, err);
        within->storages[r] = within->pairs[r].device;
    }
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_pinned(&within->bounce, within->cudas[0], KVT_BOUNCE_MIN,
                                   layout.block_size, err);
    if (rc == KVT_OK)
        rc = kvbm_transfer_open(
            &within->transfer,
            &(struct kvbm_transfer_options){.queue_max = QUEUE_MAX, .bounce = within->bounce}, err);
    if (rc == KVT_OK) {
        const struct engine_broadcast_options options = {within->transfer, within->storages,
                                                         within->count, &layout};

        rc = engine_broadcast_nccl(&within->nccl, &options, nccl, err);
        if (rc == KVT_OK)
            rc = engine_broadcast_memory(&within->copies, &options, err);
    }
    return rc;
}

static void
within_close(struct within *within)
{
    engine_broadcast_close(within->copies);
    engine_broadcast_close(within->nccl);
    kvbm_transfer_free(within->transfer);
    kvbm_storage_close(within->bounce);
    for (uint32_t r = 0; r < within->count; r++) {
        if (within->pairs[r].device != NULL)
            gpu_pair_close(&within->pairs[r]);
        kvbm_cuda_close(within->cudas[r]);
    }
}

/* New content from rank 0 to all; bytes a second. */
static double
bring(struct within *within, struct engine_broadcast *broadcast, uint64_t content)
{
    struct cast cast;
    double speed;

    for (uint32_t r = 0; r < within->count; r++)
        if (!gpu_put(&within->pairs[r], within->storages[r],
                     r == 0 ? content : ~content - r * 1000))
            return 0;
    speed = run(broadcast, &cast);
    if (speed <= 0)
        (void)fprintf(stderr, "gpu-check: %s\n", cast.outcome.error.text);
    for (uint32_t r = 0; r < within->count; r++)
        within->wrong += gpu_wrong_bytes(&within->pairs[r], within->storages[r], content);
    return speed;
}

bool
gpu_cast_nccl(const char *library, const char *nccl, uint32_t devices)
{
    struct within within = {.count = devices};
    struct engine_broadcast_state state = {.why = ""};
    struct gpu_run rates = {.count = 0};
    struct kvt_error err;
    enum kvt_err rc;
    bool good;

    if (devices < 2) {
        (void)fprintf(stderr, "gpu-check: there is one device: NCCL is not tried\n");
        return true;
    }
    rc = within_open(&within, library, nccl, &err);
    if (rc == KVT_OK) {
        for (unsigned i = 0; i < ROUNDS; i++) {
            const double ours = bring(&within, within.nccl, 1000 * (i + 1)) / 1e9;

            gpu_run_add(&rates, ours, bring(&within, within.copies, 500 + 1000 * (i + 1)) / 1e9);
        }
        engine_broadcast_state(within.nccl, &state);
        good =
            gpu_run_print(&rates, &(struct gpu_row){"gpu-broadcast-nccl",
                                                    "blocks of one device for all others, by NCCL",
                                                    "the same through pinned memory", "GB/s", 0, 0,
                                                    false}) &&
            within.wrong == 0 && state.way == ENGINE_BY_NCCL;
        if (!good)
            (void)fprintf(stderr,
                          "gpu-check: NCCL between devices: %" PRIu64 " wrong bytes, by %s: %s\n",
                          within.wrong, engine_way_name(state.way), state.why);
    } else {
        good = rc == KVT_UNSUPPORTED; /* no NCCL is no failure */
        (void)fprintf(stderr, "gpu-check: NCCL is not tried: %s\n", err.text);
    }
    within_close(&within);
    return good;
}
