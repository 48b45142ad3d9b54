/* One device's memory in two processes: this one fills it, another one takes blocks from it to
 * memory of its own, device to device, and leaves others there. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/clock.h"

#include "tests/gpu/gpu_check.h"
#include "worker/replay/block_content.h"

enum { BLOCKS = 64, MOVES = 8 };

static const size_t SIZE = (size_t)1 << 20;

static const uint64_t FIRST = 1000;  /* what the blocks have, ... */
static const uint64_t SECOND = 2000; /* ... and what the other process leaves */

bool
gpu_put(struct gpu_pair *pair, struct kvbm_storage *device, uint64_t content)
{
    bool good = true;

    for (uint32_t i = 0; i < pair->blocks && good; i++) {
        struct kvbm_storage_io io = {.host = kvbm_storage_address(pair->pinned, i), .block = i};

        worker_content_fill(content + i, io.host, pair->size);
        kvbm_storage_write(device, &io, 1);
        good = io.status == KVT_OK;
    }
    return good;
}

uint64_t
gpu_wrong_bytes(struct gpu_pair *pair, struct kvbm_storage *device, uint64_t content)
{
    uint64_t wrong = 0;
    size_t first;

    for (uint32_t i = 0; i < pair->blocks; i++) {
        struct kvbm_storage_io io = {.host = kvbm_storage_address(pair->pinned, i), .block = i};

        worker_content_fill(~content, io.host, pair->size);
        kvbm_storage_read(device, &io, 1);
        wrong += io.status == KVT_OK
                     ? worker_content_check(content + i, io.host, pair->size, &first)
                     : pair->size;
    }
    return wrong;
}

/* Bytes a second from their memory to ours; 0: it failed. */
static double
move_all(struct gpu_pair *pair, struct kvbm_storage *theirs)
{
    struct kvbm_storage_move moves[BLOCKS];
    uint64_t begin;
    bool good = true;

    for (uint32_t i = 0; i < BLOCKS; i++)
        moves[i] = (struct kvbm_storage_move){.source = i, .target = i, .size = SIZE};
    begin = kvt_clock_mono_ns();
    for (unsigned n = 0; n < MOVES && good; n++) {
        good = kvbm_storage_move(pair->device, theirs, moves, BLOCKS);
        for (uint32_t i = 0; i < BLOCKS; i++)
            good = good && moves[i].status == KVT_OK;
    }
    return good ? (double)MOVES * BLOCKS * (double)SIZE * 1e9 /
                      (double)(kvt_clock_mono_ns() - begin + 1)
                : 0;
}

bool
gpu_share_other(struct kvbm_cuda *cuda)
{
    struct kvbm_cuda_shared shared;
    struct kvbm_storage *theirs = NULL;
    struct gpu_pair pair;
    struct kvt_error err = {.text = "no description came"};
    uint64_t wrong;
    double speed;
    bool good = false;

    if (gpu_pair_open(&pair, cuda, BLOCKS, SIZE, &err) != KVT_OK)
        goto out;
    if (read(STDIN_FILENO, &shared, sizeof(shared)) != (ssize_t)sizeof(shared) ||
        kvbm_cuda_open_beside(&theirs, pair.device, &shared, &err) != KVT_OK)
        goto out;
    speed = move_all(&pair, theirs);
    wrong = gpu_wrong_bytes(&pair, pair.device, FIRST);
    good = speed > 0 && wrong == 0 && gpu_put(&pair, theirs, SECOND);
    (void)printf("{\"name\":\"gpu-ipc\",\"what\":\"blocks of another process, device to device\","
                 "\"gpu\":\"%s\",\"block_size\":%zu,\"blocks\":%d,\"wrong_bytes\":%" PRIu64
                 ",\"gb_per_s\":%.3f,\"holds\":%s}\n",
                 cuda->name, SIZE, BLOCKS, wrong, speed / 1e9, good ? "true" : "false");
    (void)fflush(stdout);

out:
    if (theirs == NULL)
        (void)fprintf(stderr, "gpu-check: the other process: %s\n", err.text);
    kvbm_storage_close(theirs);
    gpu_pair_close(&pair);
    return good;
}

/* A process of its own, with a driver of its own. */
static bool
run_other(const struct kvbm_cuda_shared *shared, const char *library)
{
    int status = -1;
    int ends[2];
    pid_t child;

    if (pipe(ends) != 0)
        return false;
    child = fork();
    if (child == 0) {
        (void)dup2(ends[0], STDIN_FILENO);
        (void)close(ends[1]);
        (void)execl("/proc/self/exe", "gpu_check", "--other", "--library", library, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[0]);
    if (child > 0) {
        const bool told = write(ends[1], shared, sizeof(*shared)) == (ssize_t)sizeof(*shared);

        (void)close(ends[1]);
        return waitpid(child, &status, 0) == child && told && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0;
    }
    (void)close(ends[1]);
    return false;
}

bool
gpu_share(struct kvbm_cuda *cuda, const char *library)
{
    struct kvbm_cuda_shared shared;
    struct gpu_pair pair;
    struct kvt_error err;
    bool good = false;

    if (gpu_pair_open(&pair, cuda, BLOCKS, SIZE, &err) != KVT_OK ||
        kvbm_cuda_share(pair.device, &shared, &err) != KVT_OK) {
        (void)fprintf(stderr, "gpu-check: %s\n", err.text);
        goto out;
    }
    good = gpu_put(&pair, pair.device, FIRST) && run_other(&shared, library) &&
           gpu_wrong_bytes(&pair, pair.device, SECOND) == 0;
    if (!good)
        (void)fprintf(stderr, "gpu-check: two processes do not see the same memory\n");

out:
    gpu_pair_close(&pair);
    return good;
}
