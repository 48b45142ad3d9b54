/*
 * A CUDA driver without a GPU: the functions of kvbm/cuda/driver.h over host memory.
 *
 * It is stricter than a real one where that finds mistakes: device addresses are not host addresses
 * (using one as a pointer crashes), a copy happens only when its stream is waited for, and every
 * call needs the context to be current on its thread.  KVBM_FAKE_CUDA_FAIL names a function that
 * fails.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, BAD_CONTEXT = 201, BAD_VALUE = 1 };
enum { PENDING_MAX = 4096 };

#define TAG UINT64_C(0x8000000000000000) /* no user-space address has this bit */

struct CUctx_st {
    int unused;
};

struct copy {
    void *target;
    const void *source;
    size_t size;
};

struct CUstream_st {
    struct copy pending[PENDING_MAX];
    size_t count;
};

static struct CUctx_st the_context;
static _Thread_local struct CUctx_st *current;

static bool
told_to_fail(const char *function)
{
    const char *name = getenv("KVBM_FAKE_CUDA_FAIL");

    return name != NULL && strcmp(name, function) == 0;
}

int
cuInit(unsigned flags)
{
    return flags != 0 || told_to_fail("cuInit") ? NO_DEVICE : OK;
}

int
cuDriverGetVersion(int *version)
{
    *version = 12345;
    return OK;
}

int
cuDeviceGetCount(int *count)
{
    *count = told_to_fail("cuDeviceGetCount") ? 0 : 1;
    return OK;
}

int
cuDeviceGet(int *device, int ordinal)
{
    *device = 7;
    return ordinal == 0 ? OK : BAD_VALUE;
}

int
cuDeviceGetName(char *name, int size, int device)
{
    if (device != 7 || size < 10)
        return BAD_VALUE;
    memcpy(name, "Fake GPU", 9);
    return OK;
}

int
cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
    if (device != 7 || told_to_fail("cuDevicePrimaryCtxRetain"))
        return BAD_VALUE;
    *context = &the_context;
    return OK;
}

int
cuDevicePrimaryCtxRelease_v2(int device)
{
    return device == 7 ? OK : BAD_VALUE;
}

int
cuCtxSetCurrent(struct CUctx_st *context)
{
    current = context;
    return OK;
}

int
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = (size_t)1 << 30;
    return current == NULL ? BAD_CONTEXT : OK;
}

int
cuMemAlloc_v2(uint64_t *address, size_t size)
{
    void *memory;

    if (current == NULL)
        return BAD_CONTEXT;
    memory =
        told_to_fail("cuMemAlloc_v2") ? NULL : malloc(size); /* tidy-allow: raw-heap, a driver */
    if (memory == NULL)
        return OUT_OF_MEMORY;
    *address = (uint64_t)(uintptr_t)memory ^ TAG;
    return OK;
}

int
cuMemFree_v2(uint64_t address)
{
    if (current == NULL)
        return BAD_CONTEXT;
    free((void *)(uintptr_t)(address ^ TAG)); /* tidy-allow: raw-heap, a driver */
    return OK;
}

int
cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    if (current == NULL || flags != 1)
        return BAD_CONTEXT;
    if (told_to_fail("cuMemHostAlloc") ||
        posix_memalign(memory, 4096, size) != 0) /* tidy-allow: raw-heap, a driver */
        return OUT_OF_MEMORY;
    return OK;
}

int
cuMemFreeHost(void *memory)
{
    free(memory); /* tidy-allow: raw-heap, a driver */
    return current == NULL ? BAD_CONTEXT : OK;
}

static int
put_on(struct CUstream_st *stream, void *target, const void *source, size_t size)
{
    if (current == NULL || stream->count == PENDING_MAX)
        return BAD_CONTEXT;
    stream->pending[stream->count++] = (struct copy){target, source, size};
    return OK;
}

int
cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t size, struct CUstream_st *stream)
{
    if ((target & TAG) == 0 || told_to_fail("cuMemcpyHtoDAsync_v2"))
        return BAD_VALUE;
    return put_on(stream, (void *)(uintptr_t)(target ^ TAG), source, size);
}

int
cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t size, struct CUstream_st *stream)
{
    if ((source & TAG) == 0)
        return BAD_VALUE;
    return put_on(stream, target, (const void *)(uintptr_t)(source ^ TAG), size);
}

int
cuStreamCreate(struct CUstream_st **stream, unsigned flags)
{
    if (current == NULL || flags != 1 || told_to_fail("cuStreamCreate"))
        return BAD_CONTEXT;
    *stream = calloc(1, sizeof(**stream)); /* tidy-allow: raw-heap, a driver */
    return *stream == NULL ? OUT_OF_MEMORY : OK;
}

int
cuStreamDestroy_v2(struct CUstream_st *stream)
{
    free(stream); /* tidy-allow: raw-heap, a driver */
    return current == NULL ? BAD_CONTEXT : OK;
}

int
cuStreamSynchronize(struct CUstream_st *stream)
{
    if (current == NULL)
        return BAD_CONTEXT;
    for (size_t i = 0; i < stream->count; i++)
        memcpy(stream->pending[i].target, stream->pending[i].source, stream->pending[i].size);
    stream->count = 0;
    return told_to_fail("cuStreamSynchronize") ? 700 : OK;
}

int
cuGetErrorName(int error, const char **name)
{
    *name = error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_FAKE";
    return OK;
}
