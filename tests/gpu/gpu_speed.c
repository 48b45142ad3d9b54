/*
 * How fast blocks move, against the floor: one plain copy of the same bytes in one piece, from the
 * same pinned memory, in the same run.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/clock.h"

#include "tests/gpu/gpu_check.h"

enum { BATCH = 64 };

struct speed {
    struct kvbm_cuda *cuda;
    struct gpu_pair pair;
    uint64_t plain_device; /* one piece of device memory for the floor */
    void *plain_host;
    struct CUstream_st *stream;
    size_t total;
};

static int
by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median(const double *values, unsigned count)
{
    double sorted[GPU_RUNS_MAX];

    memcpy(sorted, values, count * sizeof(*values));
    qsort(sorted, count, sizeof(*sorted), by_value);
    return sorted[count / 2];
}

static double
gigabytes_a_second(uint64_t bytes, uint64_t ns)
{
    return ns == 0 ? 0 : (double)bytes / (double)ns;
}

/* One big copy, GB/s; 0 when it failed. */
static double
plain(struct speed *speed, bool in)
{
    const struct kvbm_cuda *cuda = speed->cuda;
    const uint64_t start = kvt_clock_mono_ns();
    int rc;

    if (kvbm_cuda_enter(cuda) != KVT_OK)
        return 0;
    rc = in ? cuda->copy_in(speed->plain_device, speed->plain_host, speed->total, speed->stream)
            : cuda->copy_out(speed->plain_host, speed->plain_device, speed->total, speed->stream);
    if (rc != 0 || cuda->stream_wait(speed->stream) != 0)
        return 0;
    return gigabytes_a_second(speed->total, kvt_clock_mono_ns() - start);
}

bool
gpu_move_blocks(struct gpu_pair *pair, enum kvt_path path, uint32_t first, uint32_t count)
{
    struct kvt_copy *copies = calloc(count, sizeof(*copies)); /* tidy-allow: raw-heap, a probe */
    struct kvt_ticket *tickets[2] = {NULL, NULL};
    const bool in = path == KVT_PATH_H2D;
    bool good = copies != NULL;
    uint32_t at = 0;

    for (uint32_t i = 0; good && i < count; i++)
        copies[i] = (struct kvt_copy){first + i, first + i, KVT_IO};
    /* Two in flight: the next batch is queued while one copies. */
    for (unsigned turn = 0; good && (at < count || tickets[turn % 2] != NULL); turn++) {
        struct kvt_ticket **ticket = &tickets[turn % 2];

        if (*ticket != NULL) {
            good = kvt_ticket_wait(*ticket, 60000) == KVT_OK;
            kvt_ticket_release(*ticket);
            *ticket = NULL;
        }
        if (good && at < count) {
            const uint32_t batch = count - at < BATCH ? count - at : BATCH;

            good = kvbm_transfer_start(pair->transfer,
                                       &(struct kvbm_transfer_request){
                                           .path = path,
                                           .source = in ? pair->pinned : pair->device,
                                           .target = in ? pair->device : pair->pinned,
                                           .copies = copies + at,
                                           .count = batch,
                                       },
                                       ticket) == KVT_OK;
            at += batch;
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        if (tickets[i] != NULL && kvt_ticket_wait(tickets[i], 60000) != KVT_OK)
            good = false;
        kvt_ticket_release(tickets[i]);
    }
    free(copies); /* tidy-allow: raw-heap, a probe */
    return good;
}

struct direction {
    struct gpu_pair *pair;
    enum kvt_path path;
    uint32_t first;
    uint32_t count;
    bool good;
};

static void *
run_direction(void *arg)
{
    struct direction *direction = arg;

    direction->good =
        gpu_move_blocks(direction->pair, direction->path, direction->first, direction->count);
    return NULL;
}

static double
one_way(struct speed *speed, enum kvt_path path)
{
    const uint64_t start = kvt_clock_mono_ns();

    if (!gpu_move_blocks(&speed->pair, path, 0, speed->pair.blocks))
        return 0;
    return gigabytes_a_second(speed->total, kvt_clock_mono_ns() - start);
}

/* Half of the blocks in while the other half goes out. */
static double
both_ways(struct speed *speed)
{
    const uint32_t half = speed->pair.blocks / 2;
    struct direction in = {&speed->pair, KVT_PATH_H2D, 0, half, false};
    struct direction out = {&speed->pair, KVT_PATH_D2H, half, half, false};
    const uint64_t start = kvt_clock_mono_ns();
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_direction, &out) != 0)
        return 0;
    (void)run_direction(&in);
    (void)pthread_join(thread, NULL);
    if (!in.good || !out.good)
        return 0;
    return gigabytes_a_second(2 * (uint64_t)half * speed->pair.size, kvt_clock_mono_ns() - start);
}

void
gpu_run_add(struct gpu_run *run, double ours, double anchor)
{
    run->ours[run->count] = ours;
    run->anchor[run->count] = anchor;
    run->ratio[run->count] = anchor > 0 ? ours / anchor : 0;
    run->count++;
}

static void
print_goal(const char *name, double goal, bool at_most)
{
    if (goal > 0)
        (void)printf(",\"%s\":\"%s %.2f\"", name, at_most ? "<=" : ">=", goal);
    else
        (void)printf(",\"%s\":null", name);
}

bool
gpu_run_print(const struct gpu_run *run, const struct gpu_row *row)
{
    const double ratio = median(run->ratio, run->count);
    double low = run->ratio[0];
    double high = run->ratio[0];
    bool measured = true;
    bool holds;

    for (unsigned i = 0; i < run->count; i++) {
        low = run->ratio[i] < low ? run->ratio[i] : low;
        high = run->ratio[i] > high ? run->ratio[i] : high;
        measured = measured && run->ours[i] > 0 && run->anchor[i] > 0;
    }
    holds = measured && (row->at_most ? ratio <= row->goal : ratio >= row->goal);
    (void)printf("{\"name\":\"%s\",\"what\":\"%s\",\"ours\":%.3f,\"anchor\":%.3f,\"anchor_name\":"
                 "\"%s\",\"unit\":\"%s\",\"ratio\":%.4f,\"runs\":%u,\"ratio_min\":%.4f,"
                 "\"ratio_max\":%.4f",
                 row->name, row->what, median(run->ours, run->count),
                 median(run->anchor, run->count), row->anchor_name, row->unit, ratio, run->count,
                 low, high);
    print_goal("goal", row->goal, row->at_most);
    print_goal("stretch", row->stretch, row->at_most);
    (void)printf(",\"holds\":%s}\n", row->goal <= 0 ? "null" : holds ? "true" : "false");
    (void)fflush(stdout);
    return measured;
}

static bool
measure(struct speed *speed, unsigned runs, const char *size_name, bool goals)
{
    struct gpu_run in = {.count = 0};
    struct gpu_run out = {.count = 0};
    struct gpu_run both = {.count = 0};
    char name[64];
    bool good = true;

    /* Once unmeasured: first touches of pinned pages and of the link's clock. */
    (void)one_way(speed, KVT_PATH_H2D);
    (void)one_way(speed, KVT_PATH_D2H);
    (void)plain(speed, true);
    for (unsigned i = 0; i < runs; i++) {
        const double down = one_way(speed, KVT_PATH_H2D);
        double up;

        gpu_run_add(&in, down, plain(speed, true));
        up = one_way(speed, KVT_PATH_D2H);
        gpu_run_add(&out, up, plain(speed, false));
        gpu_run_add(&both, both_ways(speed), down + up);
    }
    (void)snprintf(name, sizeof(name), "gpu-h2d-%s", size_name);
    good = gpu_run_print(&in, &(struct gpu_row){name, "blocks from pinned memory to the device",
                                                "one pinned copy", "GB/s", goals ? 0.95 : 0,
                                                goals ? 0.98 : 0, false}) &&
           good;
    (void)snprintf(name, sizeof(name), "gpu-d2h-%s", size_name);
    good = gpu_run_print(&out, &(struct gpu_row){name, "blocks from the device to pinned memory",
                                                 "one pinned copy", "GB/s", goals ? 0.95 : 0,
                                                 goals ? 0.98 : 0, false}) &&
           good;
    (void)snprintf(name, sizeof(name), "gpu-both-%s", size_name);
    return gpu_run_print(&both, &(struct gpu_row){name, "blocks both ways at once",
                                                  "the two ways one after the other, added", "GB/s",
                                                  goals ? 0.8 : 0, goals ? 0.83 : 0, false}) &&
           good;
}

static bool
speed_open(struct speed *speed, struct kvbm_cuda *cuda, size_t total)
{
    memset(speed, 0, sizeof(*speed));
    speed->cuda = cuda;
    speed->total = total;
    return kvbm_cuda_enter(cuda) == KVT_OK && cuda->memory_new(&speed->plain_device, total) == 0 &&
           cuda->host_new(&speed->plain_host, total, KVBM_CUDA_HOST_PORTABLE) == 0 &&
           cuda->stream_new(&speed->stream, KVBM_CUDA_STREAM_NON_BLOCKING) == 0;
}

static void
speed_close(struct speed *speed)
{
    if (kvbm_cuda_enter(speed->cuda) != KVT_OK)
        return;
    if (speed->stream != NULL)
        (void)speed->cuda->stream_free(speed->stream);
    if (speed->plain_host != NULL)
        (void)speed->cuda->host_free(speed->plain_host);
    if (speed->plain_device != 0)
        (void)speed->cuda->memory_free(speed->plain_device);
}

bool
gpu_speed(struct kvbm_cuda *cuda, size_t total, unsigned runs, const char *name)
{
    static const struct {
        const char *name;
        size_t size;
        bool goals;
    } sizes[] = {{"2MiB", (size_t)2 << 20, true},
                 {"256KiB", (size_t)256 << 10, false},
                 {"64KiB", (size_t)64 << 10, false}};
    struct speed speed;
    struct kvt_error err;
    bool good = speed_open(&speed, cuda, total);

    if (!good)
        (void)fprintf(stderr, "gpu-check: %s has no room for the floor's %zu bytes\n", name, total);
    for (size_t i = 0; good && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        good = gpu_pair_open(&speed.pair, cuda, (uint32_t)(total / sizes[i].size), sizes[i].size,
                             &err) == KVT_OK;
        if (!good) {
            (void)fprintf(stderr, "gpu-check: %s\n", err.text);
            break;
        }
        good = measure(&speed, runs, sizes[i].name, sizes[i].goals);
        gpu_pair_close(&speed.pair);
    }
    speed_close(&speed);
    return good;
}
