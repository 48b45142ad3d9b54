/*
 * kvbm/cuda/cuda_driver.h -- the CUDA driver, found at run time.
 *
 * Why: one program must run with and without a GPU, and must not be linked to NVIDIA's libraries.
 * The driver's library is opened by name and its functions are looked up; their prototypes are
 * declared here by hand from the driver API's documentation (the `_v2` names are the ones behind
 * the plain names since CUDA 3.2 and 4.0).
 *
 * Ownership: a driver holds the device's primary context; close it after every storage on it.
 * Threads:   any; calls that need the context make it current on the calling thread first.
 * Limits:    one device a driver.
 */
#ifndef KVBM_CUDA_CUDA_DRIVER_H
#define KVBM_CUDA_CUDA_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVBM_CUDA_LIBRARY    "libcuda.so.1"
#define KVBM_CUDA_NAME_MAX   96
#define KVBM_CUDA_RANGES_MAX 64 /* pinned storages on one driver */

/* The driver's own types: CUresult and CUdevice are int, CUdeviceptr is 64 bits, the rest opaque.
 */
struct CUctx_st;
struct CUstream_st;
struct CUmod_st;
struct CUfunc_st;

/* CUmemcpyAttributes: in what order sources are read, hints, flags. */
struct kvbm_cuda_copy_attributes {
    int source_order; /* 1: as the stream does */
    int source_place[2];
    int target_place[2];
    unsigned flags;
};

#define KVBM_CUDA_IPC_BYTES 64

/* CUipcMemHandle: device memory, as another process of this machine may be told of it. */
struct kvbm_cuda_ipc {
    char bytes[KVBM_CUDA_IPC_BYTES];
};

/* Host memory the device can reach. */
struct kvbm_cuda_range {
    uintptr_t start;
    size_t size;
};

#define KVBM_CUDA_FUNCTIONS(X)                                                                     \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(driver_version, "cuDriverGetVersion", (int *version))                                        \
    X(device_count, "cuDeviceGetCount", (int *count))                                              \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                       \
    X(device_name, "cuDeviceGetName", (char *name, int size, int device))                          \
    X(context_retain, "cuDevicePrimaryCtxRetain", (struct CUctx_st * *context, int device))        \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
    X(context_set, "cuCtxSetCurrent", (struct CUctx_st * context))                                 \
    X(memory_info, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                 \
    X(memory_new, "cuMemAlloc_v2", (uint64_t * address, size_t size))                              \
    X(memory_free, "cuMemFree_v2", (uint64_t address))                                             \
    X(host_new, "cuMemHostAlloc", (void **memory, size_t size, unsigned flags))                    \
    X(host_free, "cuMemFreeHost", (void *memory))                                                  \
    X(copy_in, "cuMemcpyHtoDAsync_v2",                                                             \
      (uint64_t target, const void *source, size_t size, struct CUstream_st *stream))              \
    X(copy_out, "cuMemcpyDtoHAsync_v2",                                                            \
      (void *target, uint64_t source, size_t size, struct CUstream_st *stream))                    \
    X(copy_within, "cuMemcpyDtoDAsync_v2",                                                         \
      (uint64_t target, uint64_t source, size_t size, struct CUstream_st * stream))                \
    X(stream_new, "cuStreamCreate", (struct CUstream_st * *stream, unsigned flags))                \
    X(stream_free, "cuStreamDestroy_v2", (struct CUstream_st * stream))                            \
    X(stream_wait, "cuStreamSynchronize", (struct CUstream_st * stream))                           \
    X(error_name, "cuGetErrorName", (int error, const char **name))

/* What only newer drivers have, or only kernels need: NULL where it is not to be had.  Batches came
 * with 12.8; 13.0 has them without `failed`, under another name. */
#define KVBM_CUDA_OPTIONAL(X)                                                                      \
    X(copy_batch, "cuMemcpyBatchAsync",                                                            \
      (uint64_t * targets, uint64_t * sources, size_t * sizes, size_t count,                       \
       struct kvbm_cuda_copy_attributes * attributes, size_t * starts, size_t attribute_count,     \
       size_t * failed, struct CUstream_st * stream))                                              \
    X(copy_batch_v2, "cuMemcpyBatchAsync_v2",                                                      \
      (uint64_t * targets, uint64_t * sources, size_t * sizes, size_t count,                       \
       struct kvbm_cuda_copy_attributes * attributes, size_t * starts, size_t attribute_count,     \
       struct CUstream_st * stream))                                                               \
    X(host_register, "cuMemHostRegister_v2", (void *memory, size_t size, unsigned flags))          \
    X(host_pointer, "cuMemHostGetDevicePointer_v2",                                                \
      (uint64_t * address, void *memory, unsigned flags))                                          \
    X(host_unregister, "cuMemHostUnregister", (void *memory))                                      \
    X(ipc_export, "cuIpcGetMemHandle", (struct kvbm_cuda_ipc * handle, uint64_t address))          \
    X(ipc_open, "cuIpcOpenMemHandle_v2",                                                           \
      (uint64_t * address, struct kvbm_cuda_ipc handle, unsigned flags))                           \
    X(ipc_close, "cuIpcCloseMemHandle", (uint64_t address))                                        \
    X(module_load, "cuModuleLoadData", (struct CUmod_st * *module, const void *image))             \
    X(module_unload, "cuModuleUnload", (struct CUmod_st * module))                                 \
    X(module_function, "cuModuleGetFunction",                                                      \
      (struct CUfunc_st * *function, struct CUmod_st * module, const char *name))                  \
    X(launch, "cuLaunchKernel",                                                                    \
      (struct CUfunc_st * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,             \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       struct CUstream_st *stream, void **arguments, void **extra))

#define KVBM_CUDA_STREAM_NON_BLOCKING 1u /* CU_STREAM_NON_BLOCKING */
#define KVBM_CUDA_IPC_LAZY_PEER       1u /* CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS */
/* CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE: pinned for every context */
#define KVBM_CUDA_HOST_PORTABLE       1u
#define KVBM_CUDA_HOST_MAPPED         2u /* CU_MEMHOSTREGISTER_DEVICEMAP: kernels reach it, too */

struct kvbm_cuda {
    void *library;
    int device;
    struct CUctx_st *context;
    int ordinal; /* of the device, among so many that the driver shows */
    int devices;
    int version; /* of the driver: 13000 is 13.0 */
    char name[KVBM_CUDA_NAME_MAX];
    struct CUmod_st *module; /* our kernels, or NULL */
    struct CUfunc_st *copy_fragments;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        bool made;
        struct kvbm_cuda_range ranges[KVBM_CUDA_RANGES_MAX];
        size_t count;
    } pinned;
    /* NOLINTBEGIN(bugprone-macro-parentheses): these are declarations */
#define X(id, symbol, arguments) int(*id) arguments;
    KVBM_CUDA_FUNCTIONS(X)
    KVBM_CUDA_OPTIONAL(X)
#undef X
    /* NOLINTEND(bugprone-macro-parentheses) */
};

/**
 * Open the driver and take device `ordinal`.
 *
 * @param library  KVBM_CUDA_LIBRARY, or another file with the same functions
 * @param[out] out  NULL on failure
 * @return KVT_OK, KVT_UNSUPPORTED (no driver, no device, or one too old: `err` says which), KVT_IO,
 * KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err kvbm_cuda_open(struct kvbm_cuda **out, const char *library, int ordinal,
                                          struct kvt_error *err);

/** The same with the device of number `number` modulo how many there are: processes that count
 *  themselves share them evenly. */
KVT_NODISCARD enum kvt_err kvbm_cuda_open_turn(struct kvbm_cuda **out, const char *library,
                                               uint32_t number, struct kvt_error *err);

/** NULL is allowed. */
void kvbm_cuda_close(struct kvbm_cuda *cuda);

/** Fill `err` from a driver result: `what` and the result's own name. */
enum kvt_err kvbm_cuda_error(const struct kvbm_cuda *cuda, int result, const char *what,
                             struct kvt_error *err);

/** Make the context current on this thread.  KVT_OK or KVT_IO. */
KVT_NODISCARD enum kvt_err kvbm_cuda_enter(const struct kvbm_cuda *cuda);

/** Load our kernels from `image` (a fatbin).  False: this driver does not take them, and copies are
 *  made without.  kvbm_cuda_open() does it when the build had a compiler for them. */
bool kvbm_cuda_load_kernels(struct kvbm_cuda *cuda, const void *image);

/** Remember that a device can reach this host memory, and forget it. */
void kvbm_cuda_pin(struct kvbm_cuda *cuda, const void *memory, size_t size);
void kvbm_cuda_unpin(struct kvbm_cuda *cuda, const void *memory);
bool kvbm_cuda_is_pinned(struct kvbm_cuda *cuda, const void *memory, size_t size);

#endif /* KVBM_CUDA_CUDA_DRIVER_H */
