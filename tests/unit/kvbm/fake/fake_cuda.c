/*
 * A CUDA driver without a GPU: the functions of kvbm/cuda/cuda_driver.h over host memory.
 *
 * It is stricter than a real one where that finds mistakes: device addresses are not host addresses
 * (using one as a pointer crashes), a copy happens only when its stream is waited for, and every
 * call needs the context to be current on its thread, batches and kernels reach only memory that
 * was pinned, and a kernel's list is read when it runs.  A wait that fails leaves everything in
 * flight.  Device memory can be shared with other processes, and with those only.
 * KVBM_FAKE_CUDA_DEVICES is how many devices there are (1).  KVBM_FAKE_CUDA_FAIL names a function
 * that fails; kvbm_fake_fail_at() lets one call fail
 * by its number; kvbm_fake_live() counts what was not given back.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, BAD_CONTEXT = 201, BAD_VALUE = 1 };
enum { PENDING_MAX = 4096, PINNED_MAX = 64 };

#define TAG UINT64_C(0x8000000000000000) /* no user-space address has this bit */

struct CUctx_st {
    int unused;
};

struct fragment {
    uint64_t target;
    uint64_t source;
    uint64_t size;
};

struct copy {
    void *target;
    const void *source;
    size_t size;
    const struct fragment *list; /* a kernel's, instead */
    unsigned count;
    unsigned busy_ns; /* of a kernel that computes, instead */
};

struct CUmod_st {
    int unused;
};

struct CUfunc_st {
    int unused;
};

struct CUstream_st {
    struct copy pending[PENDING_MAX];
    size_t count;
};

/* In front of device memory: what another process needs to have it, too. */
struct front {
    int file;
    size_t size; /* with the front */
};

enum { FRONT_BYTES = 4096 };

struct handle {
    pid_t owner;
    int file;
    size_t size;
    char rest[64 - sizeof(pid_t) - sizeof(int) - sizeof(size_t)];
};

static struct CUctx_st the_context;
static _Thread_local struct CUctx_st *current;

static struct CUmod_st the_module;
static struct CUfunc_st the_function;
static struct CUfunc_st the_computing_function;
static _Atomic long calls_left = -1; /* until one fails; below 0: none does */
static _Atomic long live;

static struct {
    uintptr_t start;
    size_t size;
} pinned[PINNED_MAX];

void
kvbm_fake_fail_at(long number)
{
    atomic_store(&calls_left, number);
}

/* True when the call that was to fail has. */
bool
kvbm_fake_failed(void)
{
    return atomic_load(&calls_left) < 0;
}

long
kvbm_fake_live(void)
{
    return atomic_load(&live);
}

static bool
told_to_fail(const char *function)
{
    const char *name = getenv("KVBM_FAKE_CUDA_FAIL");

    if (atomic_load(&calls_left) >= 0 && atomic_fetch_sub(&calls_left, 1) == 0)
        return true;
    return name != NULL && strcmp(name, function) == 0;
}

static bool
is_pinned(uint64_t address, size_t size)
{
    for (size_t i = 0; i < PINNED_MAX; i++)
        if (pinned[i].size > 0 && address >= pinned[i].start &&
            address + size <= pinned[i].start + pinned[i].size)
            return true;
    return false;
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

/* They differ in nothing. */
static int
devices(void)
{
    const char *text = getenv("KVBM_FAKE_CUDA_DEVICES");

    return text == NULL ? 1 : (int)strtol(text, NULL, 10);
}

int
cuDeviceGetCount(int *count)
{
    *count = told_to_fail("cuDeviceGetCount") ? 0 : devices();
    return OK;
}

int
cuDeviceGet(int *device, int ordinal)
{
    *device = 7;
    return ordinal >= 0 && ordinal < devices() ? OK : BAD_VALUE;
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
    atomic_fetch_add(&live, 1);
    return OK;
}

int
cuDevicePrimaryCtxRelease_v2(int device)
{
    atomic_fetch_sub(&live, 1);
    return device == 7 ? OK : BAD_VALUE;
}

int
cuCtxSetCurrent(struct CUctx_st *context)
{
    if (told_to_fail("cuCtxSetCurrent"))
        return BAD_CONTEXT;
    current = context;
    return OK;
}

int
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = (size_t)1 << 30;
    return current == NULL ? BAD_CONTEXT : OK;
}

static int
map(uint64_t *address, int file, size_t size)
{
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (memory == MAP_FAILED)
        return OUT_OF_MEMORY;
    *address = (uint64_t)(uintptr_t)(memory + FRONT_BYTES) ^ TAG;
    atomic_fetch_add(&live, 1);
    return OK;
}

static struct front *
front_of(uint64_t address)
{
    return (struct front *)((uintptr_t)(address ^ TAG) - FRONT_BYTES);
}

int
cuMemAlloc_v2(uint64_t *address, size_t size)
{
    int file;
    int result;

    if (current == NULL)
        return BAD_CONTEXT;
    file = told_to_fail("cuMemAlloc_v2") ? -1 : memfd_create("device", MFD_CLOEXEC);
    if (file < 0)
        return OUT_OF_MEMORY;
    size += FRONT_BYTES;
    result = ftruncate(file, (off_t)size) == 0 ? map(address, file, size) : OUT_OF_MEMORY;
    if (result != OK)
        (void)close(file);
    else
        *front_of(*address) = (struct front){file, size};
    return result;
}

int
cuMemFree_v2(uint64_t address)
{
    const struct front front = *front_of(address);

    if (current == NULL)
        return BAD_CONTEXT;
    atomic_fetch_sub(&live, 1);
    (void)munmap(front_of(address), front.size);
    (void)close(front.file);
    return OK;
}

int
cuIpcGetMemHandle(struct handle *handle, uint64_t address)
{
    const struct front *front = front_of(address);

    if (current == NULL || told_to_fail("cuIpcGetMemHandle"))
        return BAD_CONTEXT;
    *handle = (struct handle){.owner = getpid(), .file = front->file, .size = front->size};
    return OK;
}

/* A process cannot open what is its own. */
int
cuIpcOpenMemHandle_v2(uint64_t *address, struct handle handle, unsigned flags)
{
    char path[64];
    int result;
    int file;

    if (current == NULL || flags != 1 || handle.owner == getpid() ||
        told_to_fail("cuIpcOpenMemHandle_v2"))
        return BAD_CONTEXT;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)handle.owner, handle.file);
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return BAD_VALUE;
    result = map(address, file, handle.size);
    (void)close(file);
    return result;
}

int
cuIpcCloseMemHandle(uint64_t address)
{
    if (current == NULL)
        return BAD_CONTEXT;
    atomic_fetch_sub(&live, 1);
    (void)munmap(front_of(address), front_of(address)->size);
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
    for (size_t i = 0; i < PINNED_MAX; i++)
        if (pinned[i].size == 0) {
            pinned[i].start = (uintptr_t)*memory;
            pinned[i].size = size;
            break;
        }
    atomic_fetch_add(&live, 1);
    return OK;
}

int
cuMemFreeHost(void *memory)
{
    for (size_t i = 0; i < PINNED_MAX; i++)
        if (pinned[i].start == (uintptr_t)memory)
            pinned[i].size = 0;
    atomic_fetch_sub(&live, 1);
    free(memory); /* tidy-allow: raw-heap, a driver */
    return current == NULL ? BAD_CONTEXT : OK;
}

/* Memory of somebody else: not twice, and given back by its first byte. */
int
cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    size_t free_at = PINNED_MAX;

    if (current == NULL || flags != 3 || size == 0 || told_to_fail("cuMemHostRegister_v2"))
        return BAD_CONTEXT;
    for (size_t i = PINNED_MAX; i-- > 0;)
        if (pinned[i].size == 0)
            free_at = i;
        else if ((uintptr_t)memory < pinned[i].start + pinned[i].size &&
                 pinned[i].start < (uintptr_t)memory + size)
            return BAD_VALUE;
    if (free_at == PINNED_MAX)
        return OUT_OF_MEMORY;
    pinned[free_at].start = (uintptr_t)memory;
    pinned[free_at].size = size;
    atomic_fetch_add(&live, 1);
    return OK;
}

int
cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags)
{
    *address = (uint64_t)(uintptr_t)memory;
    return current == NULL || flags != 0 || !is_pinned(*address, 1) ||
                   told_to_fail("cuMemHostGetDevicePointer_v2")
               ? BAD_VALUE
               : OK;
}

int
cuMemHostUnregister(void *memory)
{
    if (current == NULL)
        return BAD_CONTEXT;
    for (size_t i = 0; i < PINNED_MAX; i++)
        if (pinned[i].size > 0 && pinned[i].start == (uintptr_t)memory) {
            pinned[i].size = 0;
            atomic_fetch_sub(&live, 1);
            return OK;
        }
    return BAD_VALUE;
}

static int
put_on(struct CUstream_st *stream, void *target, const void *source, size_t size)
{
    if (current == NULL || stream->count == PENDING_MAX)
        return BAD_CONTEXT;
    stream->pending[stream->count++] =
        (struct copy){.target = target, .source = source, .size = size};
    return OK;
}

/* A host address or a device's, as a pointer. */
static void *
pointer(uint64_t address)
{
    return (void *)(uintptr_t)(address & ~TAG);
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
    if ((source & TAG) == 0 || told_to_fail("cuMemcpyDtoHAsync_v2"))
        return BAD_VALUE;
    return put_on(stream, target, (const void *)(uintptr_t)(source ^ TAG), size);
}

int
cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t size, struct CUstream_st *stream)
{
    if ((source & TAG) == 0 || (target & TAG) == 0 || told_to_fail("cuMemcpyDtoDAsync_v2"))
        return BAD_VALUE;
    return put_on(stream, pointer(target), pointer(source), size);
}

/* Half of the batch may be on the stream when it fails. */
int
cuMemcpyBatchAsync_v2(uint64_t *targets, uint64_t *sources, size_t *sizes, size_t count,
                      const int *attributes, size_t *starts, size_t attribute_count,
                      struct CUstream_st *stream)
{
    const bool fails = told_to_fail("cuMemcpyBatchAsync_v2");

    if (attribute_count != 1 || starts[0] != 0 || attributes[0] != 1)
        return BAD_VALUE;
    for (size_t i = 0; i < (fails ? count / 2 : count); i++) {
        int rc;

        if (((targets[i] & TAG) == 0 && !is_pinned(targets[i], sizes[i])) ||
            ((sources[i] & TAG) == 0 && !is_pinned(sources[i], sizes[i])))
            return BAD_VALUE;
        rc = put_on(stream, pointer(targets[i]), pointer(sources[i]), sizes[i]);
        if (rc != OK)
            return rc;
    }
    return fails ? BAD_VALUE : OK;
}

int
cuModuleLoadData(struct CUmod_st **module, const void *image)
{
    if (current == NULL || image == NULL || told_to_fail("cuModuleLoadData"))
        return BAD_VALUE;
    *module = &the_module;
    atomic_fetch_add(&live, 1);
    return OK;
}

int
cuModuleUnload(struct CUmod_st *module)
{
    atomic_fetch_sub(&live, 1);
    return module == &the_module ? OK : BAD_VALUE;
}

int
cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
    const bool computes = strcmp(name, "gpu_compute") == 0;

    if (module != &the_module || (!computes && strcmp(name, "kvbm_copy_fragments") != 0) ||
        told_to_fail("cuModuleGetFunction"))
        return BAD_VALUE;
    *function = computes ? &the_computing_function : &the_function;
    return OK;
}

int
cuLaunchKernel(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
               struct CUstream_st *stream, void **arguments, void **extra)
{
    if (current == NULL || grid_x == 0 || block_x == 0 ||
        grid_y * grid_z * block_y * block_z != 1 || shared_bytes != 0 || extra != NULL ||
        stream->count == PENDING_MAX || told_to_fail("cuLaunchKernel"))
        return BAD_VALUE;
    if (function == &the_computing_function) {
        stream->pending[stream->count++] =
            (struct copy){.busy_ns = *(const unsigned *)arguments[1]}; /* a nanosecond a round */
        return OK;
    }
    if (function != &the_function)
        return BAD_VALUE;
    stream->pending[stream->count++] = (struct copy){
        .list = *(const struct fragment **)arguments[0], .count = *(const unsigned *)arguments[1]};
    return OK;
}

int
cuStreamCreate(struct CUstream_st **stream, unsigned flags)
{
    if (current == NULL || flags != 1 || told_to_fail("cuStreamCreate"))
        return BAD_CONTEXT;
    *stream = calloc(1, sizeof(**stream)); /* tidy-allow: raw-heap, a driver */
    atomic_fetch_add(&live, 1);
    return *stream == NULL ? OUT_OF_MEMORY : OK;
}

int
cuStreamDestroy_v2(struct CUstream_st *stream)
{
    free(stream); /* tidy-allow: raw-heap, a driver */
    atomic_fetch_sub(&live, 1);
    return current == NULL ? BAD_CONTEXT : OK;
}

static bool
run_kernel(const struct copy *kernel)
{
    for (unsigned i = 0; i < kernel->count; i++) {
        const struct fragment *at = &kernel->list[i];

        if (((at->target & TAG) == 0 && !is_pinned(at->target, at->size)) ||
            ((at->source & TAG) == 0 && !is_pinned(at->source, at->size)))
            return false;
        memcpy(pointer(at->target), pointer(at->source), at->size);
    }
    return true;
}

int
cuStreamSynchronize(struct CUstream_st *stream)
{
    bool good = true;

    if (current == NULL)
        return BAD_CONTEXT;
    if (told_to_fail("cuStreamSynchronize"))
        return 700;
    for (size_t i = 0; i < stream->count; i++) {
        const struct copy *at = &stream->pending[i];

        if (at->busy_ns > 0)
            (void)nanosleep(
                &(struct timespec){at->busy_ns / 1000000000u, at->busy_ns % 1000000000u}, NULL);
        else if (at->list != NULL)
            good = run_kernel(at) && good;
        else
            memcpy(at->target, at->source, at->size);
    }
    stream->count = 0;
    return good ? OK : 700;
}

int
cuGetErrorName(int error, const char **name)
{
    *name = error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_FAKE";
    return OK;
}
