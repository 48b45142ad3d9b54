/*
 * What offloading costs those who compute: a kernel that keeps every processor of the device busy,
 * alone and while blocks leave the device as fast as they can.
 *
 * The kernel is text that the driver compiles, so that this is measured without nvcc, too.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"

#include "tests/gpu/gpu_check.h"

enum {
    BLOCK_THREADS = 256,
    GRID = 2048, /* more than any device holds at once */
    ROUNDS_MAX = 1 << 28,
    BATCH = 64,
};

/* Four chains of multiplications and additions a thread, `rounds` long, and one store. */
static const char kernel[] = ".version 4.0\n"
                             ".target sm_50\n"
                             ".address_size 64\n"
                             ".visible .entry gpu_compute(\n"
                             "    .param .u64 gpu_compute_out,\n"
                             "    .param .u32 gpu_compute_rounds)\n"
                             "{\n"
                             "    .reg .pred %p<3>;\n"
                             "    .reg .b32 %r<9>;\n"
                             "    .reg .f32 %f<8>;\n"
                             "    .reg .b64 %d<5>;\n"
                             "    ld.param.u64 %d1, [gpu_compute_out];\n"
                             "    ld.param.u32 %r1, [gpu_compute_rounds];\n"
                             "    cvta.to.global.u64 %d2, %d1;\n"
                             "    mov.u32 %r2, %ctaid.x;\n"
                             "    mov.u32 %r3, %ntid.x;\n"
                             "    mov.u32 %r4, %tid.x;\n"
                             "    mad.lo.s32 %r5, %r2, %r3, %r4;\n"
                             "    cvt.rn.f32.u32 %f1, %r5;\n"
                             "    add.s32 %r6, %r5, 1;\n"
                             "    cvt.rn.f32.u32 %f2, %r6;\n"
                             "    add.s32 %r7, %r5, 2;\n"
                             "    cvt.rn.f32.u32 %f3, %r7;\n"
                             "    add.s32 %r8, %r5, 3;\n"
                             "    cvt.rn.f32.u32 %f4, %r8;\n"
                             "LOOP:\n"
                             "    fma.rn.f32 %f1, %f1, 0f3F7FBE77, 0f3F000000;\n"
                             "    fma.rn.f32 %f2, %f2, 0f3F7FBE77, 0f3F000000;\n"
                             "    fma.rn.f32 %f3, %f3, 0f3F7FBE77, 0f3F000000;\n"
                             "    fma.rn.f32 %f4, %f4, 0f3F7FBE77, 0f3F000000;\n"
                             "    add.s32 %r1, %r1, -1;\n"
                             "    setp.ne.s32 %p1, %r1, 0;\n"
                             "    @%p1 bra LOOP;\n"
                             "    add.f32 %f5, %f1, %f2;\n"
                             "    add.f32 %f6, %f5, %f3;\n"
                             "    add.f32 %f7, %f6, %f4;\n"
                             "    mul.wide.u32 %d3, %r5, 4;\n"
                             "    add.s64 %d4, %d2, %d3;\n"
                             "    st.global.f32 [%d4], %f7;\n"
                             "    ret;\n"
                             "}\n";

struct overlap {
    struct kvbm_cuda *cuda;
    struct gpu_pair pair;
    struct CUmod_st *module;
    struct CUfunc_st *function;
    struct CUstream_st *stream;
    uint64_t out; /* on the device */
    uint32_t rounds;
};

/* The kernel once; 0 when it failed. */
static uint64_t
compute_ns(struct overlap *overlap)
{
    void *arguments[] = {&overlap->out, &overlap->rounds};
    const struct kvbm_cuda *cuda = overlap->cuda;
    const uint64_t start = kvt_clock_mono_ns();

    if (kvbm_cuda_enter(cuda) != KVT_OK ||
        cuda->launch(overlap->function, GRID, 1, 1, BLOCK_THREADS, 1, 1, 0, overlap->stream,
                     arguments, NULL) != 0 ||
        cuda->stream_wait(overlap->stream) != 0)
        return 0;
    return kvt_clock_mono_ns() - start;
}

/* Blocks that leave the device, over and over. */
struct leaving {
    struct overlap *overlap;
    pthread_t thread;
    _Atomic bool enough;
    _Atomic bool failed;
    _Atomic uint64_t bytes;
};

static void *
leave(void *arg)
{
    struct leaving *leaving = arg;
    struct gpu_pair *pair = &leaving->overlap->pair;
    const uint32_t count = pair->blocks < BATCH ? pair->blocks : BATCH;

    while (!atomic_load(&leaving->enough)) {
        if (!gpu_move_blocks(pair, KVT_PATH_D2H, 0, pair->blocks / count * count)) {
            atomic_store(&leaving->failed, true);
            break;
        }
        atomic_fetch_add(&leaving->bytes, (uint64_t)(pair->blocks / count * count) * pair->size);
    }
    return NULL;
}

/* The kernel while blocks leave, from well after the first to well before the last of them; and how
 * fast they did, GB/s.  0 on failure. */
static uint64_t
compute_beside(struct overlap *overlap, double *rate)
{
    struct leaving leaving = {.overlap = overlap};
    const uint64_t start = kvt_clock_mono_ns();
    uint64_t ns = 0;

    *rate = 0;
    if (pthread_create(&leaving.thread, NULL, leave, &leaving) != 0)
        return 0;
    while (atomic_load(&leaving.bytes) == 0 && !atomic_load(&leaving.failed))
        kvt_clock_sleep_ms(1);
    if (!atomic_load(&leaving.failed))
        ns = compute_ns(overlap);
    atomic_store(&leaving.enough, true);
    (void)pthread_join(leaving.thread, NULL);
    if (atomic_load(&leaving.failed))
        return 0;
    *rate = (double)atomic_load(&leaving.bytes) / (double)(kvt_clock_mono_ns() - start);
    return ns;
}

/* So long that a launch is nothing beside it.  The faster of two: the first ever is compiled. */
static bool
calibrate(struct overlap *overlap, uint64_t wanted_ns)
{
    for (overlap->rounds = 1 << 12; overlap->rounds < ROUNDS_MAX; overlap->rounds *= 2) {
        const uint64_t once = compute_ns(overlap);
        const uint64_t again = compute_ns(overlap);

        if (once == 0 || again == 0)
            return false;
        if ((once < again ? once : again) >= wanted_ns)
            break;
    }
    return true;
}

static bool
measure(struct overlap *overlap, unsigned runs)
{
    struct gpu_run slowdown = {.count = 0};
    struct gpu_run rates = {.count = 0};
    bool good;

    for (unsigned i = 0; i < runs; i++) {
        const uint64_t start = kvt_clock_mono_ns();
        const bool moved = gpu_move_blocks(&overlap->pair, KVT_PATH_D2H, 0, overlap->pair.blocks);
        const double alone = (double)overlap->pair.blocks * (double)overlap->pair.size /
                             (double)(kvt_clock_mono_ns() - start);
        const uint64_t anchor = compute_ns(overlap);
        double rate;
        const uint64_t ours = compute_beside(overlap, &rate);

        gpu_run_add(&slowdown, (double)ours / 1e6, (double)anchor / 1e6);
        gpu_run_add(&rates, rate, moved ? alone : 0);
    }
    good = gpu_run_print(&slowdown,
                         &(struct gpu_row){"gpu-overlap",
                                           "a compute kernel while blocks leave at full rate",
                                           "the same kernel alone", "ms", 1.05, 0, true});
    return gpu_run_print(&rates,
                         &(struct gpu_row){
                             "gpu-overlap-rate", "blocks from the device while the kernel computes",
                             "the same blocks while nothing does", "GB/s", 0, 0, false}) &&
           good;
}

static bool
overlap_open(struct overlap *overlap, struct kvbm_cuda *cuda, size_t total)
{
    const size_t size = (size_t)2 << 20;
    struct kvt_error err;

    memset(overlap, 0, sizeof(*overlap));
    overlap->cuda = cuda;
    if (gpu_pair_open(&overlap->pair, cuda, (uint32_t)(total / size), size, &err) != KVT_OK) {
        (void)fprintf(stderr, "gpu-check: %s\n", err.text);
        return false;
    }
    return kvbm_cuda_enter(cuda) == KVT_OK && cuda->module_load(&overlap->module, kernel) == 0 &&
           cuda->module_function(&overlap->function, overlap->module, "gpu_compute") == 0 &&
           cuda->memory_new(&overlap->out, (size_t)GRID * BLOCK_THREADS * sizeof(float)) == 0 &&
           cuda->stream_new(&overlap->stream, KVBM_CUDA_STREAM_NON_BLOCKING) == 0;
}

static void
overlap_close(struct overlap *overlap)
{
    const struct kvbm_cuda *cuda = overlap->cuda;

    gpu_pair_close(&overlap->pair);
    if (kvbm_cuda_enter(cuda) != KVT_OK)
        return;
    if (overlap->stream != NULL)
        (void)cuda->stream_free(overlap->stream);
    if (overlap->out != 0)
        (void)cuda->memory_free(overlap->out);
    if (overlap->module != NULL)
        (void)cuda->module_unload(overlap->module);
}

bool
gpu_overlap(struct kvbm_cuda *cuda, size_t total, unsigned runs, bool quick)
{
    const uint64_t wanted_ns = quick ? 2000000 : 200000000;
    struct overlap overlap;
    bool good;

    if (cuda->module_load == NULL || cuda->module_unload == NULL || cuda->module_function == NULL ||
        cuda->launch == NULL) {
        (void)fprintf(stderr, "gpu-check: this driver launches no kernels\n");
        return false;
    }
    good = overlap_open(&overlap, cuda, total) && calibrate(&overlap, wanted_ns) &&
           measure(&overlap, runs);
    if (!good)
        (void)fprintf(stderr, "gpu-check: a kernel beside copies was not measured\n");
    overlap_close(&overlap);
    return good;
}
