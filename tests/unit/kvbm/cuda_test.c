/*
 * What is tested: kvbm/cuda/ against a driver of our own (fake_cuda.c): bytes over both directions
 * on their own streams and threads, every failing driver call, and a machine without a driver.
 * scripts/gpu-check runs the same code on a real one.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kvbm/cuda/driver.h"
#include "kvbm/cuda/memory.h"
#include "kvbm/transfer.h"

#include "tests/support/seed.h"

enum { BLOCKS = 300, SIZE = 4096 };

static struct kvbm_cuda *
open_fake(void)
{
    struct kvbm_cuda *cuda;
    struct kvt_error err;

    assert_int_equal(kvbm_cuda_open(&cuda, KVBM_FAKE_CUDA, 0, &err), KVT_OK);
    return cuda;
}

static void
machines_without_a_driver_say_so(void **unused)
{
    struct kvbm_cuda *cuda;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_cuda_open(&cuda, "libkvtier-no-such-driver.so.1", 0, &err),
                     KVT_UNSUPPORTED);
    assert_null(cuda);
    assert_non_null(strstr(err.text, "no driver"));
    assert_int_equal(kvbm_cuda_open(&cuda, "libpthread.so.0", 0, &err), KVT_UNSUPPORTED);
    assert_non_null(strstr(err.text, "has no cuInit"));
    assert_int_equal(kvbm_cuda_open(&cuda, KVBM_FAKE_CUDA, 1, &err), KVT_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no device 1"));
    kvbm_cuda_close(NULL);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
the_device_is_introduced(void **unused)
{
    struct kvbm_cuda *cuda = open_fake();

    (void)unused;
    assert_string_equal(cuda->name, "Fake GPU");
    assert_int_equal(cuda->version, 12345);
    kvbm_cuda_close(cuda);
}

struct both {
    struct kvbm_storage *pinned;
    struct kvbm_storage *device;
    struct kvbm_transfer *transfer;
};

static void
fill(struct kvbm_storage *pinned, uint32_t block, int value)
{
    memset(kvbm_storage_address(pinned, block), value, SIZE);
}

/* Down to a block of another number and back to a third one. */
static void
bytes_survive_both_directions(void **unused)
{
    struct kvbm_cuda *cuda = open_fake();
    struct kvbm_copy copies[BLOCKS];
    struct both both;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_cuda_open_pinned(&both.pinned, cuda, BLOCKS, SIZE, &err), KVT_OK);
    assert_int_equal(kvbm_cuda_open_device(&both.device, cuda, BLOCKS, SIZE, &err), KVT_OK);
    assert_int_equal(kvbm_transfer_new(&both.transfer, 4, &err), KVT_OK);
    assert_null(kvbm_storage_address(both.device, 0));
    for (uint32_t i = 0; i < BLOCKS; i++) {
        fill(both.pinned, i, (int)(i % 253));
        copies[i] = (struct kvbm_copy){i, (i * 7) % BLOCKS, KVT_IO};
    }
    assert_int_equal(
        kvbm_transfer_run(both.transfer, &(struct kvbm_transfer_request){.path = KVBM_PATH_H2D,
                                                                         .source = both.pinned,
                                                                         .target = both.device,
                                                                         .copies = copies,
                                                                         .count = BLOCKS}),
        KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        fill(both.pinned, i, 0xFE);
        copies[i] = (struct kvbm_copy){(i * 7) % BLOCKS, BLOCKS - 1 - i, KVT_IO};
    }
    assert_int_equal(
        kvbm_transfer_run(both.transfer, &(struct kvbm_transfer_request){.path = KVBM_PATH_D2H,
                                                                         .source = both.device,
                                                                         .target = both.pinned,
                                                                         .copies = copies,
                                                                         .count = BLOCKS}),
        KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        const uint8_t *bytes = kvbm_storage_address(both.pinned, BLOCKS - 1 - i);

        assert_int_equal(bytes[0], i % 253);
        assert_memory_equal(bytes, bytes + 1, SIZE - 1);
    }
    kvbm_transfer_free(both.transfer);
    kvbm_storage_close(both.device);
    kvbm_storage_close(both.pinned);
    kvbm_cuda_close(cuda);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
every_failing_call_at_opening(void **unused)
{
    static const char *const driver_calls[] = {"cuInit", "cuDeviceGetCount",
                                               "cuDevicePrimaryCtxRetain"};
    static const char *const memory_calls[] = {"cuMemAlloc_v2", "cuStreamCreate"};
    struct kvbm_storage *storage;
    struct kvbm_cuda *cuda;
    struct kvt_error err;

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        (void)setenv("KVBM_FAKE_CUDA_FAIL", driver_calls[i], 1);
        assert_int_not_equal(kvbm_cuda_open(&cuda, KVBM_FAKE_CUDA, 0, &err), KVT_OK);
        assert_null(cuda);
    }
    (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
    cuda = open_fake();
    for (size_t i = 0; i < 2; i++) {
        (void)setenv("KVBM_FAKE_CUDA_FAIL", memory_calls[i], 1);
        assert_int_equal(kvbm_cuda_open_device(&storage, cuda, BLOCKS, SIZE, &err), KVT_NOMEM);
        assert_null(storage);
    }
    (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuMemHostAlloc", 1);
    assert_int_equal(kvbm_cuda_open_pinned(&storage, cuda, BLOCKS, SIZE, &err), KVT_NOMEM);
    assert_null(storage);
    (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
    kvbm_cuda_close(cuda);
    assert_int_equal(kvt_alloc_live(), 0);
}

/* Copies are asynchronous: one that fails on the way spoils the batch, one refused only itself. */
static void
failing_copies_are_errors(void **unused)
{
    struct kvbm_cuda *cuda = open_fake();
    static uint8_t host[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
    struct kvbm_storage_io io = {.host = host};
    struct kvbm_storage *device;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_cuda_open_device(&device, cuda, 1, SIZE, &err), KVT_OK);
    (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuStreamSynchronize", 1);
    kvbm_storage_write(device, &io, 1);
    assert_int_equal(io.status, KVT_IO);
    (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuMemcpyHtoDAsync_v2", 1);
    kvbm_storage_write(device, &io, 1);
    assert_int_equal(io.status, KVT_IO);
    (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
    kvbm_storage_write(device, &io, 1);
    assert_int_equal(io.status, KVT_OK);
    kvbm_storage_close(device);
    kvbm_cuda_close(cuda);
}

static bool
attempt(void *unused)
{
    struct kvbm_storage *device = NULL;
    struct kvbm_storage *pinned = NULL;
    struct kvbm_cuda *cuda;
    struct kvt_error err;
    enum kvt_err rc = kvbm_cuda_open(&cuda, KVBM_FAKE_CUDA, 0, &err);

    (void)unused;
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_device(&device, cuda, BLOCKS, SIZE, &err);
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_pinned(&pinned, cuda, BLOCKS, SIZE, &err);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    kvbm_storage_close(pinned);
    kvbm_storage_close(device);
    kvbm_cuda_close(cuda);
    return rc == KVT_OK;
}

static void
opening_survives_every_allocation_failure(void **unused)
{
    (void)unused;
    assert_int_equal(test_sweep_allocations(attempt, NULL), 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_without_a_driver_say_so),
        cmocka_unit_test(the_device_is_introduced),
        cmocka_unit_test(bytes_survive_both_directions),
        cmocka_unit_test(every_failing_call_at_opening),
        cmocka_unit_test(failing_copies_are_errors),
        cmocka_unit_test(opening_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
