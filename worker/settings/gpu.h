/*
 * worker/settings/gpu.h -- is G1 the memory of a GPU?
 *
 * Why: a worker and a rank of an instance are asked it by one setting, and answer in the same
 * words.
 *
 * Ownership: who opens it closes the driver with kvbm_cuda_close().
 * Limits:    one device a process.
 */
#ifndef WORKER_SETTINGS_GPU_H
#define WORKER_SETTINGS_GPU_H

#include "kvbm/cuda/cuda_driver.h"

#include "worker/settings/worker_settings.h"

/**
 * Take a device as the setting `gpu` says, and say in the log which.
 *
 * @param[out] out  NULL: G1 is host memory
 * @param number    of this process among those that share the machine's devices
 * @param part      whose log line it is: "worker"
 * @return KVT_OK; where one is required what kvbm_cuda_open_turn() says
 */
KVT_NODISCARD enum kvt_err worker_gpu_open(struct kvbm_cuda **out, enum worker_settings_gpu wanted,
                                           uint32_t number, const char *part,
                                           struct kvt_error *err);

#endif /* WORKER_SETTINGS_GPU_H */
