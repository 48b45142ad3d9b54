/*
 * What is tested: kvbm/cuda/ against a driver of our own (fake_cuda.c): bytes over both directions
 * on their own streams and threads, within a device and in small pieces, by kernels, batches and
 * single calls, every failing driver call, and a machine without a driver.
 * scripts/gpu-check runs the same code on a real one.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/cuda/cuda_driver.h"
#include "kvbm/cuda/cuda_memory.h"
#include "kvbm/transfer/transfer_manager.h"

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

/* However many processes there are, each gets one of the devices there are. */
static void
processes_share_the_devices(void **unused)
{
    struct kvbm_cuda *cuda;
    struct kvt_error err;

    (void)unused;
    for (int devices = 1; devices < 4; devices++) {
        char text[8];

        (void)snprintf(text, sizeof(text), "%d", devices);
        (void)setenv("KVBM_FAKE_CUDA_DEVICES", text, 1);
        for (uint32_t number = 0; number < 7; number++) {
            assert_int_equal(kvbm_cuda_open_turn(&cuda, KVBM_FAKE_CUDA, number, &err), KVT_OK);
            assert_int_equal(cuda->ordinal, (int)number % devices);
            assert_int_equal(cuda->devices, devices);
            kvbm_cuda_close(cuda);
        }
    }
    (void)unsetenv("KVBM_FAKE_CUDA_DEVICES");
    assert_int_equal(kvbm_cuda_open_turn(&cuda, KVBM_FAKE_CUDA, UINT32_MAX, &err), KVT_OK);
    kvbm_cuda_close(cuda);
    (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuDeviceGetCount", 1);
    assert_int_equal(kvbm_cuda_open_turn(&cuda, KVBM_FAKE_CUDA, 2, &err), KVT_UNSUPPORTED);
    (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
    assert_null(cuda);
    assert_int_equal(kvt_alloc_live(), 0);
}

/* Memory that is not ours is pinned while it is lent: the driver's batches reach it, and no longer
 * when it is given back.  A driver that refuses is an answer. */
static void
memory_of_others_is_pinned(void **unused)
{
    static uint8_t memory[4 * SIZE] __attribute__((aligned(SIZE)));
    struct kvbm_cuda *cuda = open_fake();
    struct kvt_error err;

    (void)unused;
    assert_false(kvbm_cuda_is_pinned(cuda, memory, sizeof(memory)));
    assert_int_equal(kvbm_cuda_pin_host(cuda, memory, sizeof(memory), &err), KVT_OK);
    assert_true(kvbm_cuda_is_pinned(cuda, memory + SIZE, 3 * SIZE));
    assert_int_equal(kvbm_cuda_pin_host(cuda, memory, SIZE, &err), KVT_IO); /* twice */
    assert_non_null(strstr(err.text, "cuMemHostRegister"));
    assert_true(kvbm_cuda_is_pinned(cuda, memory, sizeof(memory)));
    kvbm_cuda_unpin_host(cuda, memory);
    assert_false(kvbm_cuda_is_pinned(cuda, memory, SIZE));
    assert_int_equal(kvbm_cuda_pin_host(cuda, memory, SIZE, &err), KVT_OK);
    kvbm_cuda_unpin_host(cuda, memory);
    (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuMemHostGetDevicePointer_v2", 1);
    assert_int_equal(kvbm_cuda_pin_host(cuda, memory, SIZE, &err), KVT_OK);
    (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
    assert_false(kvbm_cuda_is_pinned(cuda, memory, SIZE)); /* not for kernels */
    kvbm_cuda_unpin_host(cuda, memory);
    cuda->host_unregister = NULL; /* an old one */
    assert_int_equal(kvbm_cuda_pin_host(cuda, memory, SIZE, &err), KVT_UNSUPPORTED);
    assert_false(kvbm_cuda_is_pinned(cuda, memory, SIZE));
    kvbm_cuda_close(cuda);
    assert_int_equal(kvt_alloc_live(), 0);
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
    struct kvt_copy copies[BLOCKS];
    struct both both;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_cuda_open_pinned(&both.pinned, cuda, BLOCKS, SIZE, &err), KVT_OK);
    assert_int_equal(kvbm_cuda_open_device(&both.device, cuda, BLOCKS, SIZE, &err), KVT_OK);
    assert_int_equal(kvbm_transfer_new(&both.transfer, 4, &err), KVT_OK);
    assert_null(kvbm_storage_address(both.device, 0));
    for (uint32_t i = 0; i < BLOCKS; i++) {
        fill(both.pinned, i, (int)(i % 253));
        copies[i] = (struct kvt_copy){i, (i * 7) % BLOCKS, KVT_IO};
    }
    assert_int_equal(
        kvbm_transfer_run(both.transfer, &(struct kvbm_transfer_request){.path = KVT_PATH_H2D,
                                                                         .source = both.pinned,
                                                                         .target = both.device,
                                                                         .copies = copies,
                                                                         .count = BLOCKS}),
        KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        fill(both.pinned, i, 0xFE);
        copies[i] = (struct kvt_copy){(i * 7) % BLOCKS, BLOCKS - 1 - i, KVT_IO};
    }
    assert_int_equal(
        kvbm_transfer_run(both.transfer, &(struct kvbm_transfer_request){.path = KVT_PATH_D2H,
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
    (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuMemcpyHtoDAsync_v2", 1);
    kvbm_storage_write(device, &io, 1);
    assert_int_equal(io.status, KVT_IO);
    (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
    kvbm_storage_write(device, &io, 1);
    assert_int_equal(io.status, KVT_OK);
    /* A device that cannot be waited for gets nothing more: what flies may still land. */
    (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuStreamSynchronize", 1);
    kvbm_storage_write(device, &io, 1);
    assert_int_equal(io.status, KVT_IO);
    (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
    kvbm_storage_write(device, &io, 1);
    assert_int_equal(io.status, KVT_IO);
    kvbm_storage_close(device);
    kvbm_cuda_close(cuda);
}

/* What a driver of our own can be asked besides. */
struct fake {
    void *library;
    void (*fail_at)(long number);
    bool (*failed)(void);
    long (*live)(void);
};

static struct fake
ask_fake(void)
{
    struct fake fake = {.library = dlopen(KVBM_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL)};
    void *functions[3];

    assert_non_null(fake.library);
    functions[0] = dlsym(fake.library, "kvbm_fake_fail_at");
    functions[1] = dlsym(fake.library, "kvbm_fake_failed");
    functions[2] = dlsym(fake.library, "kvbm_fake_live");
    memcpy(&fake.fail_at, &functions[0], sizeof(functions[0]));
    memcpy(&fake.failed, &functions[1], sizeof(functions[1]));
    memcpy(&fake.live, &functions[2], sizeof(functions[2]));
    assert_true(fake.fail_at != NULL && fake.failed != NULL && fake.live != NULL);
    return fake;
}

/* Heads apart on one side and together on the other: every block is many small pieces. */
static const struct kvt_geometry apart = {
    .kind = KVT_LAYOUT_CONTIGUOUS,
    .layers = 4,
    .outer = 2,
    .page_size = 16,
    .inner_dim = 16,
    .dtype_bytes = 2,
    .alignment = 1,
    .tp_size = 1,
    .heads = 4,
    .order = KVT_LAYOUT_NHD,
};

enum { MANY = 24 };

struct trip {
    struct kvbm_cuda *cuda;
    struct kvbm_storage *pinned;
    struct kvbm_storage *first;
    struct kvbm_storage *second;
    struct kvbm_transfer *transfer;
    struct kvbm_layout here;
    struct kvbm_layout there;
    struct kvbm_layout engine; /* of the second: an engine's memory, a layer at a time */
    uint64_t parts[4];
    bool parts_made[4];
};

static void
trip_close(struct trip *trip)
{
    kvbm_transfer_free(trip->transfer);
    kvbm_storage_close(trip->second);
    kvbm_storage_close(trip->first);
    kvbm_storage_close(trip->pinned);
    for (size_t i = 0; i < 4; i++)
        if (trip->parts_made[i])
            assert_int_equal(trip->cuda->memory_free(trip->parts[i]), 0);
    kvbm_cuda_close(trip->cuda);
}

/* Each layer of the second storage in memory of its own, with room between the blocks. */
static enum kvt_err
open_engine(struct trip *trip, struct kvt_error *err)
{
    const uint64_t size = kvbm_layout_allocation(&trip->engine, MANY);

    if (kvbm_cuda_enter(trip->cuda) != KVT_OK)
        return KVT_IO;
    for (size_t i = 0; i < 4; i++) {
        trip->parts_made[i] = trip->cuda->memory_new(&trip->parts[i], size) == 0;
        if (!trip->parts_made[i])
            return KVT_NOMEM;
    }
    return kvbm_cuda_open_layers(&trip->second, trip->cuda,
                                 &(struct kvbm_layout_memory){&trip->engine, trip->parts, MANY},
                                 err);
}

static enum kvt_err
trip_open(struct trip *trip, bool kernels)
{
    struct kvt_geometry geometry = apart;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    memset(trip, 0, sizeof(*trip));
    assert_int_equal(kvbm_layout_make(&trip->here, &geometry, NULL), KVT_OK);
    geometry.order = KVT_LAYOUT_HND;
    assert_int_equal(kvbm_layout_make(&trip->there, &geometry, NULL), KVT_OK);
    geometry.kind = KVT_LAYOUT_LAYERED;
    geometry.alignment = 2048;
    assert_int_equal(kvbm_layout_make(&trip->engine, &geometry, NULL), KVT_OK);
    rc = kvbm_cuda_open(&trip->cuda, KVBM_FAKE_CUDA, 0, &err);
    assert_true(rc == KVT_OK || err.text[0] != '\0'); /* why is said, too */
    if (rc == KVT_OK && kernels)
        (void)kvbm_cuda_load_kernels(trip->cuda, "any image");
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_pinned(&trip->pinned, trip->cuda, 2 * MANY, SIZE, &err);
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_device(&trip->first, trip->cuda, MANY, SIZE, &err);
    if (rc == KVT_OK)
        rc = open_engine(trip, &err);
    if (rc == KVT_OK)
        rc = kvbm_transfer_new(&trip->transfer, 4, &err);
    return rc;
}

static enum kvt_err
hop(struct trip *trip, struct kvbm_storage *source, struct kvbm_storage *target,
    const struct kvbm_layout *from, const struct kvbm_layout *to, uint32_t offset)
{
    struct kvt_copy copies[MANY];

    for (uint32_t i = 0; i < MANY; i++)
        copies[i] = (struct kvt_copy){i, i + offset, KVT_IO};
    return kvbm_transfer_run(trip->transfer, &(struct kvbm_transfer_request){
                                                 .path = kvbm_path_between(source, target),
                                                 .source = source,
                                                 .target = target,
                                                 .copies = copies,
                                                 .count = MANY,
                                                 .source_layout = from,
                                                 .target_layout = to,
                                                 .layers = apart.layers,
                                             });
}

/* In as it is, to another layout within the device, out into the first layout again. */
static enum kvt_err
travel(struct trip *trip)
{
    enum kvt_err rc;

    for (uint32_t i = 0; i < MANY; i++)
        for (size_t k = 0; k < SIZE; k++) {
            uint8_t *bytes = kvbm_storage_address(trip->pinned, i);

            bytes[k] = (uint8_t)(i * 37 + k * 11 + k / 256);
            bytes[(size_t)MANY * SIZE + k] = 0;
        }
    rc = hop(trip, trip->pinned, trip->first, &trip->here, &trip->here, 0);
    if (rc == KVT_OK)
        rc = hop(trip, trip->first, trip->second, &trip->here, &trip->there, 0);
    if (rc == KVT_OK)
        rc = hop(trip, trip->second, trip->pinned, &trip->there, &trip->here, MANY);
    for (uint32_t i = 0; rc == KVT_OK && i < MANY; i++)
        assert_memory_equal(kvbm_storage_address(trip->pinned, i),
                            kvbm_storage_address(trip->pinned, i + MANY), SIZE);
    return rc;
}

static void
small_pieces_arrive_with_and_without_kernels(void **unused)
{
    struct fake fake = ask_fake();

    (void)unused;
    for (unsigned kernels = 0; kernels < 2; kernels++) {
        struct trip trip;

        assert_int_equal(trip_open(&trip, kernels == 1), KVT_OK);
        assert_int_equal(trip.cuda->copy_fragments != NULL, kernels == 1);
        assert_int_equal(travel(&trip), KVT_OK);
        /* A driver that refuses kernels and batches: one call a piece. */
        (void)setenv("KVBM_FAKE_CUDA_FAIL",
                     kernels == 1 ? "cuLaunchKernel" : "cuMemcpyBatchAsync_v2", 1);
        assert_int_equal(travel(&trip), KVT_OK);
        (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
        trip_close(&trip);
        assert_int_equal(fake.live(), 0);
    }
    (void)dlclose(fake.library);
    assert_int_equal(kvt_alloc_live(), 0);
}

/* The first, second, third ... call fails, once: an error or the right bytes, nothing left behind,
 * and nothing in flight into memory that was handed back (the bytes of a second trip are right). */
static void
every_failing_call_is_survived(void **unused)
{
    struct fake fake = ask_fake();
    unsigned failures = 0;
    bool done = false;

    (void)unused;
    for (long number = 0; !done; number++) {
        struct trip trip;
        enum kvt_err rc;

        fake.fail_at(number);
        rc = trip_open(&trip, true);
        if (rc == KVT_OK)
            rc = travel(&trip);
        done = !fake.failed();
        fake.fail_at(-1);
        failures += rc != KVT_OK;
        if (trip.transfer != NULL)
            assert_int_equal(travel(&trip), KVT_OK);
        trip_close(&trip);
        assert_int_equal(fake.live(), 0);
        assert_int_equal(kvt_alloc_live(), 0);
    }
    assert_true(failures > 10);
    (void)dlclose(fake.library);
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
    assert_int_equal(test_sweep_allocations(attempt, NULL), 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_without_a_driver_say_so),
        cmocka_unit_test(the_device_is_introduced),
        cmocka_unit_test(processes_share_the_devices),
        cmocka_unit_test(memory_of_others_is_pinned),
        cmocka_unit_test(bytes_survive_both_directions),
        cmocka_unit_test(every_failing_call_at_opening),
        cmocka_unit_test(failing_copies_are_errors),
        cmocka_unit_test(small_pieces_arrive_with_and_without_kernels),
        cmocka_unit_test(every_failing_call_is_survived),
        cmocka_unit_test(opening_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
