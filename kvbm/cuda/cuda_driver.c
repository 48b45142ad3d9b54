#include "kvbm/cuda/cuda_driver.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/cuda/copy_kernel.h"

enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 };

static bool
look_up(struct kvbm_cuda *cuda, const char **missing)
{
    /* dlsym() gives an object pointer; copying its bytes is how POSIX means it to be used. */
#define X(id, symbol, arguments)                                                                   \
    {                                                                                              \
        void *function = dlsym(cuda->library, symbol);                                             \
                                                                                                   \
        *missing = symbol;                                                                         \
        if (function != NULL)                                                                      \
            memcpy(&cuda->id, &function, sizeof(cuda->id));                                        \
    }                                                                                              \
    if (cuda->id == NULL)                                                                          \
        return false;
    KVBM_CUDA_FUNCTIONS(X)
#undef X
#define X(id, symbol, arguments)                                                                   \
    {                                                                                              \
        void *function = dlsym(cuda->library, symbol);                                             \
                                                                                                   \
        if (function != NULL)                                                                      \
            memcpy(&cuda->id, &function, sizeof(cuda->id));                                        \
    }
    KVBM_CUDA_OPTIONAL(X)
#undef X
    *missing = "";
    return true;
}

bool
kvbm_cuda_load_kernels(struct kvbm_cuda *cuda, const void *image)
{
    if (cuda->module_load == NULL || cuda->module_unload == NULL || cuda->module_function == NULL ||
        cuda->launch == NULL || image == NULL || cuda->module != NULL)
        return false;
    if (cuda->module_load(&cuda->module, image) != CUDA_SUCCESS) {
        cuda->module = NULL;
        return false;
    }
    if (cuda->module_function(&cuda->copy_fragments, cuda->module, "kvbm_copy_fragments") ==
        CUDA_SUCCESS)
        return true;
    (void)cuda->module_unload(cuda->module);
    cuda->module = NULL;
    cuda->copy_fragments = NULL;
    return false;
}

void
kvbm_cuda_pin(struct kvbm_cuda *cuda, const void *memory, size_t size)
{
    (void)pthread_mutex_lock(&cuda->pinned.lock);
    /* One too many is copied to and from without our kernels. */
    if (cuda->pinned.count < KVBM_CUDA_RANGES_MAX)
        cuda->pinned.ranges[cuda->pinned.count++] =
            (struct kvbm_cuda_range){(uintptr_t)memory, size};
    (void)pthread_mutex_unlock(&cuda->pinned.lock);
}

void
kvbm_cuda_unpin(struct kvbm_cuda *cuda, const void *memory)
{
    (void)pthread_mutex_lock(&cuda->pinned.lock);
    for (size_t i = 0; i < cuda->pinned.count; i++)
        if (cuda->pinned.ranges[i].start == (uintptr_t)memory) {
            cuda->pinned.ranges[i] = cuda->pinned.ranges[--cuda->pinned.count];
            break;
        }
    (void)pthread_mutex_unlock(&cuda->pinned.lock);
}

bool
kvbm_cuda_is_pinned(struct kvbm_cuda *cuda, const void *memory, size_t size)
{
    const uintptr_t at = (uintptr_t)memory;
    bool found = false;

    (void)pthread_mutex_lock(&cuda->pinned.lock);
    for (size_t i = 0; i < cuda->pinned.count && !found; i++) {
        const struct kvbm_cuda_range *range = &cuda->pinned.ranges[i];

        found = at >= range->start && at - range->start <= range->size &&
                size <= range->size - (at - range->start);
    }
    (void)pthread_mutex_unlock(&cuda->pinned.lock);
    return found;
}

enum kvt_err
kvbm_cuda_error(const struct kvbm_cuda *cuda, int result, const char *what, struct kvt_error *err)
{
    const char *name = NULL;

    if (cuda->error_name == NULL || cuda->error_name(result, &name) != CUDA_SUCCESS || name == NULL)
        name = "unknown error";
    return kvt_error_set(err, result == CUDA_ERROR_OUT_OF_MEMORY ? KVT_NOMEM : KVT_IO,
                         "cuda: %s: %s (%d)", what, name, result);
}

enum kvt_err
kvbm_cuda_enter(const struct kvbm_cuda *cuda)
{
    return cuda->context_set(cuda->context) == CUDA_SUCCESS ? KVT_OK : KVT_IO;
}

static enum kvt_err
take_device(struct kvbm_cuda *cuda, int ordinal, bool wraps, struct kvt_error *err)
{
    int count = 0;
    int rc;

    rc = cuda->init(0);
    if (rc != CUDA_SUCCESS) {
        (void)kvbm_cuda_error(cuda, rc, "cuInit", err);
        return KVT_UNSUPPORTED;
    }
    rc = cuda->device_count(&count);
    if (wraps && rc == CUDA_SUCCESS && count > 0)
        ordinal %= count;
    if (rc != CUDA_SUCCESS || ordinal < 0 || ordinal >= count)
        return kvt_error_set(err, KVT_UNSUPPORTED, "cuda: no device %d (%d found)", ordinal, count);
    cuda->ordinal = ordinal;
    cuda->devices = count;
    rc = cuda->device_get(&cuda->device, ordinal);
    if (rc != CUDA_SUCCESS)
        return kvbm_cuda_error(cuda, rc, "cuDeviceGet", err);
    if (cuda->device_name(cuda->name, (int)sizeof(cuda->name), cuda->device) != CUDA_SUCCESS)
        cuda->name[0] = '\0';
    if (cuda->driver_version(&cuda->version) != CUDA_SUCCESS)
        cuda->version = 0;
    rc = cuda->context_retain(&cuda->context, cuda->device);
    if (rc != CUDA_SUCCESS) {
        cuda->context = NULL;
        return kvbm_cuda_error(cuda, rc, "cuDevicePrimaryCtxRetain", err);
    }
    return kvbm_cuda_enter(cuda) == KVT_OK
               ? KVT_OK
               : kvt_error_set(err, KVT_IO, "cuda: the context is lost");
}

static enum kvt_err
open_driver(struct kvbm_cuda **out, const char *library, int ordinal, bool wraps,
            struct kvt_error *err)
{
    struct kvbm_cuda *cuda;
    const char *missing;
    enum kvt_err rc;

    assert(out != NULL && library != NULL);
    *out = NULL;
    cuda = kvt_calloc(1, sizeof(*cuda));
    if (cuda == NULL)
        return kvt_error_set(err, KVT_NOMEM, "cuda driver");
    if (pthread_mutex_init(&cuda->pinned.lock, NULL) != 0) {
        kvt_free(cuda);
        return kvt_error_set(err, KVT_NOMEM, "cuda driver");
    }
    cuda->pinned.made = true;
    cuda->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (cuda->library == NULL) {
        rc = kvt_error_set(err, KVT_UNSUPPORTED, "cuda: no driver: %s", library);
        goto fail;
    }
    if (!look_up(cuda, &missing)) {
        rc = kvt_error_set(err, KVT_UNSUPPORTED, "cuda: %s has no %s", library, missing);
        goto fail;
    }
    rc = take_device(cuda, ordinal, wraps, err);
    if (rc != KVT_OK)
        goto fail;
    (void)kvbm_cuda_load_kernels(cuda, kvbm_cuda_kernels());
    *out = cuda;
    return KVT_OK;

fail:
    kvbm_cuda_close(cuda);
    return rc;
}

enum kvt_err
kvbm_cuda_open(struct kvbm_cuda **out, const char *library, int ordinal, struct kvt_error *err)
{
    return open_driver(out, library, ordinal, false, err);
}

enum kvt_err
kvbm_cuda_open_turn(struct kvbm_cuda **out, const char *library, uint32_t number,
                    struct kvt_error *err)
{
    return open_driver(out, library, (int)(number % INT_MAX), true, err);
}

void
kvbm_cuda_close(struct kvbm_cuda *cuda)
{
    if (cuda == NULL)
        return;
    if (cuda->module != NULL && kvbm_cuda_enter(cuda) == KVT_OK)
        (void)cuda->module_unload(cuda->module);
    if (cuda->context != NULL)
        (void)cuda->context_release(cuda->device);
    if (cuda->library != NULL)
        (void)dlclose(cuda->library);
    if (cuda->pinned.made)
        (void)pthread_mutex_destroy(&cuda->pinned.lock);
    kvt_free(cuda);
}
