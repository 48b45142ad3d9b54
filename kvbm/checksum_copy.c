/* Copying and summing at once: what is stored is what was summed, and the sum costs no second
 * look. */
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kvbm/checksum.h"

enum { STEP = 4096 }; /* bytes that are summed right after they were copied, out of the cache */

uint32_t
kvbm_crc32c_copy_by_steps(uint32_t crc, void *to, const void *from, size_t size)
{
    for (size_t at = 0; at < size; at += STEP) {
        const size_t part = size - at < STEP ? size - at : STEP;

        memcpy((uint8_t *)to + at, (const uint8_t *)from + at, part);
        crc = kvbm_crc32c(crc, (uint8_t *)to + at, part);
    }
    return crc;
}

#if defined(__x86_64__)

#define WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2"))) static

/* So that sums stay in registers. */
#define UNROLLED _Pragma("GCC unroll 4")

enum { LANES = 4, LANE = 64, ROUND = LANES * LANE };

/* Powers of a distance of n bits are x^(n + 32), low, and x^(n - 32) mod crc32c's polynomial, both
 * mirrored.  Carry `lane` over that distance, to what lies there. */
WIDE inline __m512i
fold(__m512i lane, __m512i powers, __m512i next)
{
    const __m512i low = _mm512_clmulepi64_epi128(lane, powers, 0x00);
    const __m512i high = _mm512_clmulepi64_epi128(lane, powers, 0x11);

    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* all three, exclusive or */
}

/* 64 bytes that have the remainder of everything before and of themselves: what that is. */
WIDE uint32_t
remainder_of(__m512i lane)
{
    const __m128i powers = _mm_set_epi64x(0x14cd00bd6, 0xf20c0dfe); /* 128 bits */
    __m128i parts[LANES] = {_mm512_extracti32x4_epi32(lane, 0), _mm512_extracti32x4_epi32(lane, 1),
                            _mm512_extracti32x4_epi32(lane, 2), _mm512_extracti32x4_epi32(lane, 3)};
    uint64_t crc;

    UNROLLED
    for (int i = 1; i < LANES; i++) {
        const __m128i low = _mm_clmulepi64_si128(parts[i - 1], powers, 0x00);
        const __m128i high = _mm_clmulepi64_si128(parts[i - 1], powers, 0x11);

        parts[i] = _mm_xor_si128(parts[i], _mm_xor_si128(low, high));
    }
    crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(parts[LANES - 1]));
    return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(parts[LANES - 1], 1));
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
WIDE uint32_t
copy_rounds(uint32_t crc, void *to, const void *from, size_t rounds)
{
    /* From one round to the next, 2,048 bits, and from one lane to the next, 512. */
    const __m512i far = _mm512_broadcast_i32x4(_mm_set_epi64x(0xb9e02b86, 0xdcb17aa4));
    const __m512i near = _mm512_broadcast_i32x4(_mm_set_epi64x(0x9e4addf8, 0x740eef02));
    const __m512i *in = from;
    __m512i *out = to;
    __m512i sums[LANES];

    copy_round(sums, out, in);
    sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    for (size_t round = 1; round < rounds; round++) {
        __m512i next[LANES];

        in += LANES;
        out += LANES;
        copy_round(next, out, in);
        UNROLLED
        for (int i = 0; i < LANES; i++)
            sums[i] = fold(sums[i], far, next[i]);
    }
    UNROLLED
    for (int i = 1; i < LANES; i++)
        sums[i] = fold(sums[i - 1], near, sums[i]);
    return ~remainder_of(sums[LANES - 1]);
}

#endif

uint32_t
kvbm_crc32c_copy(uint32_t crc, void *to, const void *from, size_t size)
{
    size_t done = 0;

#if defined(__x86_64__)
    if (size >= ROUND && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul") &&
        __builtin_cpu_supports("sse4.2")) {
        done = size - size % ROUND;
        crc = copy_rounds(crc, to, from, size / ROUND);
    }
#endif
    return kvbm_crc32c_copy_by_steps(crc, (uint8_t *)to + done, (const uint8_t *)from + done,
                                     size - done);
}
