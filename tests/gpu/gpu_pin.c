/* Host memory that others share and the driver did not make, as G2 of a rank is: pinned, every byte
 * of blocks and of small pieces, and how fast, against memory that the driver made. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/core/clock.h"

#include "tests/gpu/gpu_check.h"
#include "worker/replay/block_content.h"

enum { BYTES = 64 << 20, PIECE = 4096, PIECES_MAX = BYTES / PIECE };

struct pin {
    struct gpu_pair pair;
    uint8_t *shared; /* BYTES */
    uint32_t count;  /* of pieces */
    size_t piece;
    struct kvbm_storage_io ios[PIECES_MAX];
};

/* All pieces between the device and that memory; bytes a second, 0: some failed. */
static double
move(struct pin *pin, uint8_t *memory, bool in)
{
    const size_t each = pin->pair.size / pin->piece;
    uint64_t begin;
    bool good = true;

    for (uint32_t i = 0; i < pin->count; i++)
        pin->ios[i] = (struct kvbm_storage_io){.host = memory + i * pin->piece,
                                               .block = (uint32_t)(i / each),
                                               .offset = i % each * pin->piece,
                                               .size = pin->piece};
    begin = kvt_clock_mono_ns();
    if (in)
        kvbm_storage_write(pin->pair.device, pin->ios, pin->count);
    else
        kvbm_storage_read(pin->pair.device, pin->ios, pin->count);
    begin = kvt_clock_mono_ns() - begin;
    for (uint32_t i = 0; i < pin->count; i++)
        good = good && pin->ios[i].status == KVT_OK;
    return good ? (double)BYTES * 1e9 / (double)(begin + 1) : 0;
}

/* In and out again, over wiped memory. */
static bool
right(struct pin *pin)
{
    size_t first;

    worker_content_fill(pin->piece, pin->shared, BYTES);
    if (move(pin, pin->shared, true) <= 0)
        return false;
    memset(pin->shared, 0x5A, BYTES);
    return move(pin, pin->shared, false) > 0 &&
           worker_content_check(pin->piece, pin->shared, BYTES, &first) == 0;
}

static bool
measure(struct pin *pin, size_t piece, unsigned runs)
{
    uint8_t *made = kvbm_storage_address(pin->pair.pinned, 0);
    struct gpu_run in = {.count = 0};
    struct gpu_run out = {.count = 0};
    char name[64];
    bool good;

    pin->piece = piece;
    pin->count = (uint32_t)(BYTES / piece);
    if (!right(pin)) {
        (void)fprintf(stderr, "gpu-check: wrong bytes in pieces of %zu KiB of shared memory\n",
                      piece >> 10);
        return false;
    }
    for (unsigned i = 0; i < runs; i++) {
        const double to = move(pin, pin->shared, true) / 1e9;
        double from;

        gpu_run_add(&in, to, move(pin, made, true) / 1e9);
        from = move(pin, pin->shared, false) / 1e9;
        gpu_run_add(&out, from, move(pin, made, false) / 1e9);
    }
    (void)snprintf(name, sizeof(name), "gpu-shared-h2d-%zuKiB", piece >> 10);
    good = gpu_run_print(&in, &(struct gpu_row){name, "from pinned memory that others share",
                                                "from memory that the driver made", "GB/s", 0.9, 0,
                                                false});
    (void)snprintf(name, sizeof(name), "gpu-shared-d2h-%zuKiB", piece >> 10);
    return gpu_run_print(&out, &(struct gpu_row){name, "to pinned memory that others share",
                                                 "to memory that the driver made", "GB/s", 0.9, 0,
                                                 false}) &&
           good;
}

bool
gpu_pin(struct kvbm_cuda *cuda, unsigned runs)
{
    static struct pin pin;
    const size_t block = (size_t)1 << 20;
    const int file = memfd_create("gpu-check", MFD_CLOEXEC);
    struct kvt_error err = {.text = "no shared memory"};
    void *shared = MAP_FAILED;
    bool good = false;

    if (file >= 0 && ftruncate(file, BYTES) == 0)
        shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0)
        (void)close(file);
    if (shared == MAP_FAILED ||
        gpu_pair_open(&pin.pair, cuda, (uint32_t)(BYTES / block), block, &err) != KVT_OK)
        goto out;
    pin.shared = shared;
    if (kvbm_cuda_pin_host(cuda, shared, BYTES, &err) != KVT_OK)
        goto out;
    if (!kvbm_cuda_is_pinned(cuda, shared, BYTES))
        (void)fprintf(stderr, "gpu-check: the device has another address for shared memory: no "
                              "kernels or batches for it\n");
    good = measure(&pin, block, runs) && measure(&pin, PIECE, runs);
    kvbm_cuda_unpin_host(cuda, shared);
    err.text[0] = '\0';

out:
    if (err.text[0] != '\0')
        (void)fprintf(stderr, "gpu-check: %s\n", err.text);
    gpu_pair_close(&pin.pair);
    if (shared != MAP_FAILED)
        (void)munmap(shared, BYTES);
    return good;
}
