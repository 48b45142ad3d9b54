/*
 * kvbm/cuda/copy_kernel.h -- what runs on the device, and the list it is given.
 *
 * Why: copying engines take microseconds a copy, whatever its size.  Many small fragments of
 * blocks (one layer of one block, one head of a layer) are moved faster by one kernel that reads
 * and writes pinned memory directly.
 *
 * Ownership: the image is part of the program.
 * Threads:   no shared state.
 * Limits:    a build without nvcc has no image: copies are made without it.
 */
#ifndef KVBM_CUDA_COPY_KERNEL_H
#define KVBM_CUDA_COPY_KERNEL_H

#ifdef __cplusplus
typedef unsigned long long kvbm_cuda_word;
#else
#include <stdint.h>
typedef uint64_t kvbm_cuda_word;
#endif

/* One fragment, in a list in memory that the device can reach. */
struct kvbm_cuda_fragment {
    kvbm_cuda_word target;
    kvbm_cuda_word source;
    kvbm_cuda_word size;
};

#ifndef __cplusplus
/** The kernels as a fatbin, or NULL. */
const void *kvbm_cuda_kernels(void);
#endif

#endif /* KVBM_CUDA_COPY_KERNEL_H */
