#include "worker/settings/gpu.h"

#include "base/core/log.h"

enum kvt_err
worker_gpu_open(struct kvbm_cuda **out, enum worker_settings_gpu wanted, uint32_t number,
                const char *part, struct kvt_error *err)
{
    struct kvt_error why;
    enum kvt_err rc;

    *out = NULL;
    if (wanted == WORKER_GPU_OFF)
        return KVT_OK;
    rc = kvbm_cuda_open_turn(out, KVBM_CUDA_LIBRARY, number, &why);
    if (rc == KVT_OK) {
        kvt_log_info(part, "gpu", "G1 is on %s (device %d of %d), driver %d", (*out)->name,
                     (*out)->ordinal, (*out)->devices, (*out)->version);
        return KVT_OK;
    }
    if (wanted == WORKER_GPU_REQUIRE)
        return kvt_error_set(err, rc, "%s", why.text);
    kvt_log_info(part, "no_gpu", "%s: G1 is host memory", why.text);
    return KVT_OK;
}
