/* What runs on the device; nvcc makes a fatbin of it, which kernel.c embeds.  Nothing is linked. */
#include "kvbm/cuda/copy_kernel.h"

/* Sixteen bytes a thread and step where both sides allow it: that is what keeps the link busy. */
template <typename word>
static __device__ void
copy_as(const kvbm_cuda_fragment &fragment)
{
    word *target = reinterpret_cast<word *>(fragment.target);
    const word *source = reinterpret_cast<const word *>(fragment.source);
    const kvbm_cuda_word count = fragment.size / sizeof(word);
    kvbm_cuda_word at = threadIdx.x;

    /* Four loads in flight a thread: latency over the link is what a thread waits for. */
    for (; at + 3 * blockDim.x < count; at += 4 * blockDim.x) {
        const word a = source[at];
        const word b = source[at + blockDim.x];
        const word c = source[at + 2 * blockDim.x];
        const word d = source[at + 3 * blockDim.x];

        target[at] = a;
        target[at + blockDim.x] = b;
        target[at + 2 * blockDim.x] = c;
        target[at + 3 * blockDim.x] = d;
    }
    for (; at < count; at += blockDim.x)
        target[at] = source[at];
}

extern "C" __global__ void
kvbm_copy_fragments(const kvbm_cuda_fragment *list, unsigned count)
{
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
        const kvbm_cuda_fragment fragment = list[i];
        const kvbm_cuda_word all = fragment.target | fragment.source | fragment.size;

        if (all % 16 == 0)
            copy_as<uint4>(fragment);
        else if (all % 4 == 0)
            copy_as<unsigned>(fragment);
        else
            copy_as<unsigned char>(fragment);
    }
}
