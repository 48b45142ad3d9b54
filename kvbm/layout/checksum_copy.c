/* Copying and summing at once: what is stored is what was summed, and the sum costs no second
 * look. */
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kvbm/layout/checksum.h"

enum { STEP = 4096 }; /* bytes that are summed right after they were copied, out of the cache */

static uint32_t
copy_steps(uint32_t crc, uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t at = 0; at < size; at += STEP) {
        const size_t part = size - at < STEP ? size - at : STEP;

        memcpy(to + at, from + at, part);
        crc = kvbm_crc32c(crc, to + at, part);
    }
    return crc;
}

void
kvbm_crc32c_copy_by_steps(uint32_t *sums, void *to, const void *from, size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sums[i] = copy_steps(0, (uint8_t *)to + i * size, (const uint8_t *)from + i * size, size);
}

#if defined(__x86_64__)

#define WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2"))) static

/* So that sums stay in registers. */
#define UNROLLED _Pragma("GCC unroll 4")

enum { LANES = 4, LANE = 64, ROUND = LANES * LANE };

/* What carries 128 bits over a distance of n bits: x^(n - 33), high, and x^(n + 31), low, mod
 * crc32c's polynomial, both mirrored. */
#define OVER_128  0x493c7d27, 0xf20c0dfe
#define OVER_256  0xba4fc28e, 0x3da6d0cb
#define OVER_384  0xddc0152b, 0x1c291d04
#define OVER_512  0x9e4addf8, 0x740eef02
#define OVER_1024 0xd3b6092, 0x6992cea2
#define OVER_1536 0xab7aff2a, 0xa87ab8a8
#define OVER_2048 0xb9e02b86, 0xdcb17aa4

/* All four quarters of a lane over one distance. */
#define LANE_OVER(...) _mm512_broadcast_i32x4(_mm_set_epi64x(__VA_ARGS__))

/* Carry `lane` over the distance of `powers`, to what lies there. */
WIDE inline __m512i
fold(__m512i lane, __m512i powers, __m512i next)
{
    const __m512i low = _mm512_clmulepi64_epi128(lane, powers, 0x00);
    const __m512i high = _mm512_clmulepi64_epi128(lane, powers, 0x11);

    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* all three, exclusive or */
}

/* Lanes that follow on each other and have the remainder of all before them and of themselves:
 * what that is.  Multiplying is what all this waits for; hence each quarter of the last lane over
 * its own distance at once, and not one after the other. */
WIDE inline uint32_t
remainder_of(const __m512i lanes[LANES])
{
    const __m512i quarters = _mm512_set_epi64(0, 0, OVER_128, OVER_256, OVER_384);
    const __m512i first = fold(lanes[0], LANE_OVER(OVER_1536), lanes[3]);
    const __m512i second = fold(lanes[1], LANE_OVER(OVER_1024), first);
    const __m512i last = fold(lanes[2], LANE_OVER(OVER_512), second);
    const __m512i met = fold(last, quarters, _mm512_maskz_mov_epi64(0xc0, last));
    const __m256i half =
        _mm256_xor_si256(_mm512_castsi512_si256(met), _mm512_extracti64x4_epi64(met, 1));
    const __m128i whole =
        _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(whole));

    return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(whole, 1));
}

/* One round, as it is read: once. */
WIDE inline void
copy_round(__m512i lanes[LANES], __m512i *to, const __m512i *from)
{
    UNROLLED
    for (int i = 0; i < LANES; i++)
        lanes[i] = _mm512_loadu_si512(&from[i]);
    UNROLLED
    for (int i = 0; i < LANES; i++)
        _mm512_storeu_si512(&to[i], lanes[i]);
}

/* `rounds` of them, at least one. */
WIDE inline uint32_t
copy_rounds(void *to, const void *from, size_t rounds)
{
    const __m512i *in = from;
    __m512i *out = to;
    __m512i sums[LANES];

    copy_round(sums, out, in);
    sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1)));
    for (size_t round = 1; round < rounds; round++) {
        __m512i next[LANES];

        in += LANES;
        out += LANES;
        copy_round(next, out, in);
        UNROLLED
        for (int i = 0; i < LANES; i++)
            sums[i] = fold(sums[i], LANE_OVER(OVER_2048), next[i]);
    }
    return ~remainder_of(sums);
}

/* In one function: a call for each piece costs a fiftieth of it. */
WIDE void
copy_wide(uint32_t *sums, uint8_t *to, const uint8_t *from, size_t size, size_t count)
{
    const size_t rest = size % ROUND;

    for (size_t i = 0; i < count; i++, to += size, from += size) {
        sums[i] = copy_rounds(to, from, size / ROUND);
        if (rest > 0)
            sums[i] = copy_steps(sums[i], to + size - rest, from + size - rest, rest);
    }
}

static bool
is_wide(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") &&
           __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
}

#endif

void
kvbm_crc32c_copy(uint32_t *sums, void *to, const void *from, size_t size, size_t count)
{
#if defined(__x86_64__)
    if (size >= ROUND && is_wide()) {
        copy_wide(sums, to, from, size, count);
        return;
    }
#endif
    kvbm_crc32c_copy_by_steps(sums, to, from, size, count);
}
