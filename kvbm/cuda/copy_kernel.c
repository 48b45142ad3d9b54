#include "kvbm/cuda/copy_kernel.h"

#include <stddef.h>

#ifdef KVBM_CUDA_FATBIN
/* The file as it is, where the driver can read it. */
__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        ".local kvbm_cuda_fatbin\n"
        "kvbm_cuda_fatbin:\n"
        ".incbin \"" KVBM_CUDA_FATBIN "\"\n"
        ".popsection\n");

extern const unsigned char kvbm_cuda_fatbin[];

const void *
kvbm_cuda_kernels(void)
{
    return kvbm_cuda_fatbin;
}
#else
const void *
kvbm_cuda_kernels(void)
{
    return NULL;
}
#endif
