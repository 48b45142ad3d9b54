/*
 * What is tested: device memory that two processes have in common (kvbm/cuda/cuda_memory.h),
 * against a driver of our own (fake_cuda.c) that shares it as a real one does: with others, not
 * with oneself. scripts/gpu-check does it on a real one.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "kvbm/cuda/cuda_memory.h"

#include "tests/support/seed.h"

enum { BLOCKS = 5, SIZE = 8192 };

static struct kvbm_cuda *
open_fake(void)
{
    struct kvbm_cuda *cuda;

    assert_int_equal(kvbm_cuda_open(&cuda, KVBM_FAKE_CUDA, 0, NULL), KVT_OK);
    return cuda;
}

static bool
fill(struct kvbm_storage *device, uint32_t block, int value)
{
    static uint8_t bytes[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
    struct kvbm_storage_io io = {.host = bytes, .block = block};

    memset(bytes, value, sizeof(bytes));
    kvbm_storage_write(device, &io, 1);
    return io.status == KVT_OK;
}

static bool
is(struct kvbm_storage *device, uint32_t block, int value)
{
    static uint8_t bytes[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
    struct kvbm_storage_io io = {.host = bytes, .block = block};

    memset(bytes, ~value, sizeof(bytes));
    kvbm_storage_read(device, &io, 1);
    return io.status == KVT_OK && bytes[0] == value && memcmp(bytes, bytes + 1, SIZE - 1) == 0;
}

/* ---- the other process ---- */

#define NEED(right)                                                                                \
    do {                                                                                           \
        if (!(right)) {                                                                            \
            (void)fprintf(stderr, "other process, line %d: %s\n", __LINE__, #right);               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void
every_failing_call(const struct kvbm_storage *ours, const struct kvbm_cuda_shared *shared)
{
    void *library = dlopen(KVBM_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    void (*fail_at)(long number);
    bool (*failed)(void);
    long (*live)(void);
    struct kvbm_storage *storage;
    void *found[3] = {dlsym(library, "kvbm_fake_fail_at"), dlsym(library, "kvbm_fake_failed"),
                      dlsym(library, "kvbm_fake_live")};
    long before;
    long at = 0;

    memcpy(&fail_at, &found[0], sizeof(found[0]));
    memcpy(&failed, &found[1], sizeof(found[1]));
    memcpy(&live, &found[2], sizeof(found[2]));
    before = live();
    for (bool more = true; more; at++) {
        enum kvt_err rc;

        fail_at(at);
        rc = kvbm_cuda_open_beside(&storage, ours, shared, NULL);
        more = failed();
        fail_at(-1);
        NEED(rc == KVT_OK ? storage != NULL : storage == NULL && more);
        kvbm_storage_close(storage);
        NEED(live() == before);
    }
    NEED(at > 4); /* the context, the memory, three streams */
    (void)dlclose(library);
}

static void
be_the_other(const struct kvbm_cuda_shared *shared)
{
    struct kvbm_cuda_shared wrong = *shared;
    struct kvbm_cuda *cuda;
    struct kvbm_storage *theirs;
    struct kvbm_storage *ours;
    struct kvbm_storage_move moves[2] = {{.source = 3, .target = 0, .size = SIZE},
                                         {.source = 4, .target = 1, .size = SIZE}};

    NEED(kvbm_cuda_open(&cuda, KVBM_FAKE_CUDA, 0, NULL) == KVT_OK);
    wrong.block_size = 100;
    NEED(kvbm_cuda_open_device(&ours, cuda, 2, SIZE, NULL) == KVT_OK);
    NEED(kvbm_cuda_open_beside(&theirs, ours, &wrong, NULL) == KVT_INVALID && theirs == NULL);
    every_failing_call(ours, shared);
    NEED(kvbm_cuda_open_beside(&theirs, ours, shared, NULL) == KVT_OK);
    NEED(theirs->block_count == BLOCKS && theirs->block_size == SIZE);
    for (uint32_t i = 0; i < BLOCKS; i++)
        NEED(is(theirs, i, (int)i + 1));
    /* From G1 to G1, and nowhere else. */
    NEED(kvbm_storage_move(ours, theirs, moves, 2) && moves[0].status == KVT_OK);
    NEED(is(ours, 0, 4) && is(ours, 1, 5));
    NEED(fill(theirs, 2, 99));
    NEED(kvbm_cuda_share(theirs, &wrong, NULL) == KVT_UNSUPPORTED); /* it is not ours */
    kvbm_storage_close(ours);
    kvbm_storage_close(theirs);
    kvbm_cuda_close(cuda);
    _exit(0);
}

/* ---- this one ---- */

static void
two_processes_have_one_memory(void **state)
{
    struct kvbm_cuda *cuda = open_fake();
    struct kvbm_cuda_shared shared;
    struct kvbm_storage *device;
    struct kvbm_storage *again;
    pid_t child;
    int status;

    (void)state;
    assert_int_equal(kvbm_cuda_open_device(&device, cuda, BLOCKS, SIZE, NULL), KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_true(fill(device, i, (int)i + 1));
    assert_int_equal(kvbm_cuda_share(device, &shared, NULL), KVT_OK);
    assert_int_equal(kvbm_cuda_open_beside(&again, device, &shared, NULL), KVT_IO);
    assert_null(again);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_the_other(&shared);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_true(is(device, i, i == 2 ? 99 : (int)i + 1)); /* it is still here */
    kvbm_storage_close(device);
    kvbm_cuda_close(cuda);
}

static void
what_cannot_be_shared(void **state)
{
    struct kvbm_cuda *cuda = open_fake();
    struct kvbm_cuda_shared shared;
    struct kvbm_storage *storage;
    struct kvbm_storage *again;
    struct kvt_error err;

    (void)state;
    assert_int_equal(kvbm_storage_open_memory(&storage, KVBM_STORAGE_DEVICE, 1, SIZE, NULL),
                     KVT_OK);
    assert_int_equal(kvbm_cuda_share(storage, &shared, &err), KVT_UNSUPPORTED);
    kvbm_storage_close(storage);
    assert_int_equal(kvbm_cuda_open_device(&storage, cuda, 1, SIZE, NULL), KVT_OK);
    (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuIpcGetMemHandle", 1);
    assert_int_equal(kvbm_cuda_share(storage, &shared, &err), KVT_IO);
    assert_non_null(strstr(err.text, "cuIpcGetMemHandle"));
    (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
    cuda->ipc_export = NULL;
    cuda->ipc_open = NULL; /* a driver without */
    assert_int_equal(kvbm_cuda_share(storage, &shared, &err), KVT_UNSUPPORTED);
    assert_int_equal(kvbm_cuda_open_beside(&again, storage, &shared, &err), KVT_UNSUPPORTED);
    assert_null(again);
    kvbm_storage_close(storage);
    kvbm_cuda_close(cuda);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes_have_one_memory),
        cmocka_unit_test(what_cannot_be_shared),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed != 0 || kvt_alloc_live() != 0;
}
