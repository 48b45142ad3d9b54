#include "g4/object/check.h"

#include <assert.h>
#include <inttypes.h>
#include <isa-l/crc.h>

enum { STEP_MAX = 1 << 30 }; /* isa-l counts in int */

uint32_t
g4_check_crc32c_more(uint32_t crc, const void *bytes, size_t size)
{
    /* isa-l reads only, but says so only in its prose. */
    unsigned char *at = (unsigned char *)(uintptr_t)bytes;

    crc = ~crc;
    while (size > 0) {
        const size_t step = size < STEP_MAX ? size : STEP_MAX;

        crc = crc32_iscsi(at, (int)step, crc);
        at += step;
        size -= step;
    }
    return ~crc;
}

uint32_t
g4_check_crc32c(const void *bytes, size_t size)
{
    return g4_check_crc32c_more(0, bytes, size);
}

/* Polynomials over GF(2) modulo Castagnoli's, the lowest power in the highest bit. */
#define CASTAGNOLI UINT32_C(0x82f63b78)
#define POWER_0    UINT32_C(0x80000000)
#define POWER_8    UINT32_C(0x00800000)

static uint32_t
multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (uint32_t bit = POWER_0; bit != 0; bit >>= 1) {
        if ((a & bit) != 0)
            product ^= b;
        b = (b & 1) != 0 ? b >> 1 ^ CASTAGNOLI : b >> 1;
    }
    return product;
}

uint32_t
g4_check_crc32c_shift(uint64_t size)
{
    uint32_t shift = POWER_0;
    uint32_t square = POWER_8; /* x^(8 * 2^i) */

    for (; size > 0; size >>= 1) {
        if ((size & 1) != 0)
            shift = multiply(shift, square);
        square = multiply(square, square);
    }
    return shift;
}

uint32_t
g4_check_crc32c_join(uint32_t first, uint32_t second, uint32_t shift)
{
    return multiply(first, shift) ^ second;
}

static enum kvt_err
check_length(uint64_t size, uint64_t wanted, struct kvt_error *err)
{
    if (size == wanted)
        return KVT_OK;
    return kvt_error_set(err, KVT_CORRUPT, "length %" PRIu64 ", expected %" PRIu64, size, wanted);
}

static enum kvt_err
check_crc(uint32_t crc, uint32_t wanted, struct kvt_error *err)
{
    if (crc == wanted)
        return KVT_OK;
    return kvt_error_set(err, KVT_CORRUPT, "crc32c %08" PRIx32 ", expected %08" PRIx32, crc,
                         wanted);
}

static bool
fits_crc(const struct g4_meta *stored, const struct g4_meta *expected, uint32_t crc,
         struct kvt_error *err)
{
    if (stored != NULL && stored->present && check_crc(crc, stored->crc32c, err) != KVT_OK)
        return false;
    return expected == NULL || expected->crc32c == 0 ||
           check_crc(crc, expected->crc32c, err) == KVT_OK;
}

/* All but the crc.  `*summed`: that is to be compared, too. */
static enum kvt_err
check_words(const struct g4_meta *stored, const struct g4_meta *expected, size_t size, bool *summed,
            struct kvt_error *err)
{
    const bool known = stored != NULL && stored->present;

    *summed = known || (expected != NULL && expected->crc32c != 0);
    if (stored != NULL && (known || stored->length != 0) &&
        check_length(size, stored->length, err) != KVT_OK)
        return KVT_CORRUPT;
    if (expected != NULL && expected->length != 0 &&
        check_length(size, expected->length, err) != KVT_OK)
        return KVT_CORRUPT;
    if (known && expected != NULL && expected->fingerprint != 0 &&
        stored->fingerprint != expected->fingerprint)
        return kvt_error_set(err, KVT_CORRUPT, "fingerprint %016" PRIx64 ", expected %016" PRIx64,
                             stored->fingerprint, expected->fingerprint);
    return KVT_OK;
}

enum kvt_err
g4_check_body(const struct g4_meta *stored, const struct g4_meta *expected, const void *body,
              size_t size, struct kvt_error *err)
{
    bool summed;
    enum kvt_err rc;

    assert(body != NULL || size == 0);
    rc = check_words(stored, expected, size, &summed, err);
    /* The one expensive look, and only where there is something to compare with. */
    if (rc != KVT_OK || !summed)
        return rc;
    return fits_crc(stored, expected, g4_check_crc32c(body, size), err) ? KVT_OK : KVT_CORRUPT;
}

enum kvt_err
g4_check_answer(const struct g4_request *request, const struct g4_meta *expected,
                struct kvt_error *err)
{
    bool summed;
    enum kvt_err rc;

    if (!request->summed)
        return g4_check_body(&request->meta, expected, request->buffer, request->buffer_size, err);
    rc = check_words(&request->meta, expected, request->buffer_size, &summed, err);
    if (rc != KVT_OK || !summed)
        return rc;
    return fits_crc(&request->meta, expected, request->body_crc32c, err) ? KVT_OK : KVT_CORRUPT;
}

void
g4_check_crc32c_text(uint32_t crc, char text[G4_CHECK_CRC32C_TEXT_MAX])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    /* 32 bits are five digits and two bits: six digits, padded to eight. */
    for (int i = 0; i < 5; i++)
        text[i] = digits[crc >> (26 - 6 * i) & 63];
    text[5] = digits[crc << 4 & 63];
    text[6] = text[7] = '=';
    text[8] = '\0';
}
