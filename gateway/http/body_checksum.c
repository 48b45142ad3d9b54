#include "gateway/http/body_checksum.h"

#include <assert.h>
#include <isa-l/crc.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "g4/object/check.h"

struct checksum_row {
    const char *header;
    const char *word;
    size_t bytes;
};

static const struct checksum_row checksum_rows[GATEWAY_BODY_CHECKSUM_COUNT] = {
#define X(name, header, bytes, word) [GATEWAY_BODY_CHECKSUM_##name] = {header, word, bytes},
    GATEWAY_BODY_CHECKSUM_MAP(X)
#undef X
};

const char *
gateway_body_checksum_header(enum gateway_body_checksum checksum)
{
    return checksum_rows[checksum].header;
}

const char *
gateway_body_checksum_word(enum gateway_body_checksum checksum)
{
    return checksum_rows[checksum].word;
}

enum gateway_body_checksum
gateway_body_checksum_of_header(const char *name)
{
    int at = 0;

    while (at < GATEWAY_BODY_CHECKSUM_COUNT && strcasecmp(checksum_rows[at].header, name) != 0)
        at++;
    return (enum gateway_body_checksum)at;
}

enum gateway_body_checksum
gateway_body_checksum_of_word(const char *word)
{
    int at = 0;

    while (at < GATEWAY_BODY_CHECKSUM_COUNT && strcasecmp(checksum_rows[at].word, word) != 0)
        at++;
    return (enum gateway_body_checksum)at;
}

/* ---- CRC-64/NVME ---- */

/* Four bits at a time: the shift register after each value of its low four bits. */
static uint64_t
crc64_slow(uint64_t crc, const uint8_t *bytes, size_t size)
{
    static const uint64_t nibbles[16] = {
        UINT64_C(0x0000000000000000), UINT64_C(0x78e0ff3b88be6f81), UINT64_C(0xf1c1fe77117cdf02),
        UINT64_C(0x8921014c99c2b083), UINT64_C(0xd75adabd7a6e2d6f), UINT64_C(0xafba2586f2d042ee),
        UINT64_C(0x269b24ca6b12f26d), UINT64_C(0x5e7bdbf1e3ac9dec), UINT64_C(0x9a6c9329ac4bc9b5),
        UINT64_C(0xe28c6c1224f5a634), UINT64_C(0x6bad6d5ebd3716b7), UINT64_C(0x134d926535897936),
        UINT64_C(0x4d364994d625e4da), UINT64_C(0x35d6b6af5e9b8b5b), UINT64_C(0xbcf7b7e3c7593bd8),
        UINT64_C(0xc41748d84fe75459)};

    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__)

enum { LANES = 4, LANE_BYTES = 16 };

/* Carry `fold` over the distance whose powers of x (mod P, reflected) are in `powers`. */
__attribute__((target("pclmul,sse4.1"))) static __m128i
fold_over(__m128i fold, __m128i powers, const uint8_t *next)
{
    const __m128i low = _mm_clmulepi64_si128(fold, powers, 0x00);
    const __m128i high = _mm_clmulepi64_si128(fold, powers, 0x11);

    return _mm_xor_si128(_mm_xor_si128(low, high), _mm_loadu_si128((const __m128i *)next));
}

/* Folds whole lanes into 16 bytes that have the same remainder; `*used` says how many it took. */
__attribute__((target("pclmul,sse4.1"))) static uint64_t
crc64_fold(uint64_t crc, const uint8_t *bytes, size_t size, size_t *used)
{
    /* x^(distance + 63) and x^(distance - 1), for 512 bits and for 128. */
    const __m128i far = _mm_set_epi64x(0x62242240ace5045a, 0x0c32cdb31e18a84a);
    const __m128i near = _mm_set_epi64x(0x21e9761e252621ac, (int64_t)0xeadc41fd2ba3d420);
    const uint8_t *const end = bytes + size;
    const uint8_t *at = bytes;
    __m128i lanes[LANES];
    uint8_t rest[LANE_BYTES];

    assert(size >= LANES * LANE_BYTES);
    for (int i = 0; i < LANES; i++, at += LANE_BYTES)
        lanes[i] = _mm_loadu_si128((const __m128i *)at);
    lanes[0] = _mm_xor_si128(lanes[0], _mm_set_epi64x(0, (int64_t)crc));
    for (; end - at >= LANES * LANE_BYTES; at += LANES * LANE_BYTES)
        for (int i = 0; i < LANES; i++)
            lanes[i] = fold_over(lanes[i], far, at + i * LANE_BYTES);
    for (int i = 1; i < LANES; i++) {
        _mm_storeu_si128((__m128i *)rest, lanes[i]);
        lanes[0] = fold_over(lanes[0], near, rest);
    }
    for (; end - at >= LANE_BYTES; at += LANE_BYTES)
        lanes[0] = fold_over(lanes[0], near, at);
    _mm_storeu_si128((__m128i *)rest, lanes[0]);
    *used = (size_t)(at - bytes);
    return crc64_slow(0, rest, sizeof(rest));
}

#endif

uint64_t
gateway_body_checksum_crc64nvme(uint64_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    size_t used = 0;

    crc = ~crc;
#if defined(__x86_64__)
    if (size >= LANES * LANE_BYTES && __builtin_cpu_supports("pclmul") &&
        __builtin_cpu_supports("sse4.1"))
        crc = crc64_fold(crc, at, size, &used);
#endif
    return ~crc64_slow(crc, at + used, size - used);
}

/* ---- any of them ---- */

static void
big_endian(uint64_t value, size_t size, uint8_t *out)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
}

size_t
gateway_body_checksum_size(enum gateway_body_checksum checksum)
{
    return checksum_rows[checksum].bytes;
}

bool
gateway_body_checksum_bytes(enum gateway_body_checksum checksum, const void *bytes, size_t size,
                            uint8_t out[GATEWAY_BODY_CHECKSUM_BYTES])
{
    const size_t width = checksum_rows[checksum].bytes;
    const EVP_MD *hash = checksum == GATEWAY_BODY_CHECKSUM_SHA1 ? EVP_sha1() : EVP_sha256();

    switch (checksum) {
    case GATEWAY_BODY_CHECKSUM_CRC32:
        big_endian(crc32_gzip_refl(0, bytes, size), width, out);
        return true;
    case GATEWAY_BODY_CHECKSUM_CRC32C:
        big_endian(g4_check_crc32c(bytes, size), width, out);
        return true;
    case GATEWAY_BODY_CHECKSUM_CRC64NVME:
        big_endian(gateway_body_checksum_crc64nvme(0, bytes, size), width, out);
        return true;
    case GATEWAY_BODY_CHECKSUM_SHA1:
    case GATEWAY_BODY_CHECKSUM_SHA256:
        memset(out, 0, width);
        return EVP_Digest(bytes, size, out, NULL, hash, NULL) == 1;
    case GATEWAY_BODY_CHECKSUM_COUNT: break;
    }
    assert(false);
    return false;
}

bool
gateway_body_checksum_text(enum gateway_body_checksum checksum, const void *bytes, size_t size,
                           char text[GATEWAY_BODY_CHECKSUM_TEXT])
{
    uint8_t digest[GATEWAY_BODY_CHECKSUM_BYTES];

    text[0] = '\0';
    if (!gateway_body_checksum_bytes(checksum, size == 0 ? "" : bytes, size, digest))
        return false;
    (void)EVP_EncodeBlock((unsigned char *)text, digest, (int)checksum_rows[checksum].bytes);
    return true;
}

bool
gateway_body_checksum_valid(enum gateway_body_checksum checksum, const char *text)
{
    const size_t bytes = checksum_rows[checksum].bytes;
    uint8_t decoded[GATEWAY_BODY_CHECKSUM_BYTES + 4];
    unsigned char again[GATEWAY_BODY_CHECKSUM_TEXT + 4];

    /* There and back again: so that padding and left-over bits are right, too. */
    if (strlen(text) != (bytes + 2) / 3 * 4 ||
        EVP_DecodeBlock(decoded, (const unsigned char *)text, (int)strlen(text)) < 0)
        return false;
    (void)EVP_EncodeBlock(again, decoded, (int)bytes);
    return strcmp((const char *)again, text) == 0;
}
