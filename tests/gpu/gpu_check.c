/*
 * gpu_check -- does the GPU part of the block manager work here, and how fast is it?
 *
 * usage: gpu_check [--quick] [--library FILE] [--nccl FILE]
 *
 * Prints one JSON object a line.  Exit 0: every byte was right and everything was measured; 1: not;
 * 77: there is no GPU to check.
 */
#include "tests/gpu/gpu_check.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/clock.h"

#include "engine/replica/nccl.h"
#include "tests/gpu/gpu_ranks.h"
#include "worker/replay/block_content.h"

enum { EXIT_SKIP = 77, ROUNDS = 8, QUEUE_MAX = 64 };

static const size_t MIB = (size_t)1 << 20;

enum kvt_err
gpu_pair_open(struct gpu_pair *pair, struct kvbm_cuda *cuda, uint32_t blocks, size_t size,
              struct kvt_error *err)
{
    enum kvt_err rc;

    memset(pair, 0, sizeof(*pair));
    pair->blocks = blocks;
    pair->size = size;
    rc = kvbm_cuda_open_pinned(&pair->pinned, cuda, blocks, size, err);
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_device(&pair->device, cuda, blocks, size, err);
    if (rc == KVT_OK)
        rc = kvbm_transfer_new(&pair->transfer, QUEUE_MAX, err);
    if (rc != KVT_OK)
        gpu_pair_close(pair);
    return rc;
}

void
gpu_pair_close(struct gpu_pair *pair)
{
    kvbm_transfer_free(pair->transfer);
    kvbm_storage_close(pair->device);
    kvbm_storage_close(pair->pinned);
    memset(pair, 0, sizeof(*pair));
}

/* One direction's share of the blocks, run beside the other's. */
struct half {
    struct gpu_pair *pair;
    uint32_t from; /* blocks [from, to) of both sides are this half's */
    uint32_t to;
    uint64_t salt;
    uint64_t wrong;
    uint64_t failed;
};

static bool
copy_all(struct half *half, enum kvt_path path, uint32_t turn, struct kvt_copy *copies)
{
    struct gpu_pair *pair = half->pair;
    const uint32_t count = half->to - half->from;
    const bool in = path == KVT_PATH_H2D;

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t host = half->from + (in ? i : (i + 1) % count);
        const uint32_t device = half->from + (i + turn) % count;

        copies[i] =
            in ? (struct kvt_copy){host, device, KVT_IO} : (struct kvt_copy){device, host, KVT_IO};
    }
    return kvbm_transfer_run(pair->transfer, &(struct kvbm_transfer_request){
                                                 .path = path,
                                                 .source = in ? pair->pinned : pair->device,
                                                 .target = in ? pair->device : pair->pinned,
                                                 .copies = copies,
                                                 .count = count,
                                             }) == KVT_OK;
}

/* Down to other block numbers, wipe, back to other block numbers again, compare every byte. */
static void *
run_half(void *arg)
{
    static _Thread_local struct kvt_copy copies[KVT_COPIES_MAX];
    struct half *half = arg;
    struct gpu_pair *pair = half->pair;
    const uint32_t count = half->to - half->from;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint64_t salt = half->salt + round * 1000003u;

        for (uint32_t i = 0; i < count; i++)
            worker_content_fill(salt + i, kvbm_storage_address(pair->pinned, half->from + i),
                                pair->size);
        if (!copy_all(half, KVT_PATH_H2D, round * 7, copies))
            half->failed++;
        for (uint32_t i = 0; i < count; i++)
            memset(kvbm_storage_address(pair->pinned, half->from + i), 0xA5, pair->size);
        if (!copy_all(half, KVT_PATH_D2H, round * 7, copies))
            half->failed++;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t at = half->from + (i + 1) % count;
            size_t first;

            half->wrong += worker_content_check(salt + i, kvbm_storage_address(pair->pinned, at),
                                                pair->size, &first);
        }
    }
    return NULL;
}

static bool
check_bytes(struct kvbm_cuda *cuda, uint32_t blocks, size_t size)
{
    struct gpu_pair pair;
    struct half halves[2];
    pthread_t threads[2];
    struct kvt_error err;
    uint64_t wrong = 0;
    uint64_t failed = 0;

    if (gpu_pair_open(&pair, cuda, blocks, size, &err) != KVT_OK) {
        (void)fprintf(stderr, "gpu-check: %s\n", err.text);
        return false;
    }
    for (unsigned i = 0; i < 2; i++) {
        halves[i] =
            (struct half){&pair, i * blocks / 2, (i + 1) * blocks / 2, (i + 1) * 1000u, 0, 0};
        if (pthread_create(&threads[i], NULL, run_half, &halves[i]) != 0)
            return false;
    }
    for (unsigned i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        wrong += halves[i].wrong;
        failed += halves[i].failed;
    }
    (void)printf("{\"name\":\"gpu-bytes\",\"what\":\"every byte over H2D and D2H, both at once\","
                 "\"gpu\":\"%s\",\"block_size\":%zu,\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64
                 ",\"wrong_bytes\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"holds\":%s}\n",
                 cuda->name, size, (uint64_t)blocks * ROUNDS, (uint64_t)blocks * size * ROUNDS * 2,
                 wrong, failed, wrong == 0 && failed == 0 ? "true" : "false");
    (void)fflush(stdout);
    gpu_pair_close(&pair);
    return wrong == 0 && failed == 0;
}

/* What this process is to do. */
struct wish {
    const char *library;
    const char *nccl;
    const char *rank; /* of a broadcast: that process */
    bool quick;
    bool other; /* the second process of gpu_share() */
};

static bool
read_wish(struct wish *wish, int argc, char **argv)
{
    *wish = (struct wish){.library = KVBM_CUDA_LIBRARY, .nccl = ENGINE_NCCL_LIBRARY};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            wish->quick = true;
        else if (strcmp(argv[i], "--other") == 0)
            wish->other = true;
        else if (strcmp(argv[i], "--library") == 0 && i + 1 < argc)
            wish->library = argv[++i];
        else if (strcmp(argv[i], "--nccl") == 0 && i + 1 < argc)
            wish->nccl = argv[++i];
        else if (strcmp(argv[i], "--rank") == 0 && i + 1 < argc)
            wish->rank = argv[++i];
        else
            return false;
    }
    return true;
}

static bool
check_all(struct kvbm_cuda *cuda, const struct wish *wish)
{
    const uint32_t devices = gpu_cast_devices(wish->library);
    const bool quick = wish->quick;
    bool good = true;

    good = check_bytes(cuda, quick ? 500 : 2000, 4096) && good;
    good = check_bytes(cuda, quick ? 125 : 1000, 64 << 10) && good;
    good = check_bytes(cuda, quick ? 8 : 512, 2 * MIB) && good;
    good = gpu_speed(cuda, quick ? 64 * MIB : 1024 * MIB, quick ? 3 : 9, cuda->name) && good;
    good = gpu_fragments(cuda, quick ? 3 : 9, quick) && good;
    good = gpu_pin(cuda, quick ? 3 : 9) && good;
    good = gpu_overlap(cuda, quick ? 64 * MIB : 1024 * MIB, quick ? 3 : 9, quick) && good;
    good = gpu_share(cuda, wish->library) && good;
    good = gpu_cast_ipc(cuda->name, wish->library, devices) && good;
    return gpu_cast_nccl(wish->library, wish->nccl, devices) && good;
}

int
main(int argc, char **argv)
{
    struct kvbm_cuda *cuda;
    struct kvt_error err;
    struct wish wish;
    uint32_t number;
    bool good;

    if (!read_wish(&wish, argc, argv)) {
        (void)fprintf(stderr, "usage: gpu_check [--quick] [--library FILE] [--nccl FILE]\n");
        return 2;
    }
    number = wish.rank != NULL ? (uint32_t)strtoul(wish.rank, NULL, 10) : 0;
    if (kvbm_cuda_open_turn(&cuda, wish.library, number, &err) != KVT_OK) {
        (void)fprintf(stderr, "gpu-check: skipped, there is no GPU to check: %s\n", err.text);
        return EXIT_SKIP;
    }
    if (wish.other)
        good = gpu_share_other(cuda);
    else if (wish.rank != NULL)
        good = gpu_rank_main(cuda);
    else
        good = check_all(cuda, &wish);
    kvbm_cuda_close(cuda);
    return good ? 0 : 1;
}
