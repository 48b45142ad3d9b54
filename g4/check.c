#include "g4/check.h"

#include <assert.h>
#include <inttypes.h>
#include <isa-l/crc.h>

enum { STEP_MAX = 1 << 30 }; /* isa-l counts in int */

uint32_t
g4_check_crc32c(const void *bytes, size_t size)
{
    /* isa-l reads only, but says so only in its prose. */
    unsigned char *at = (unsigned char *)(uintptr_t)bytes;
    uint32_t crc = UINT32_MAX;

    while (size > 0) {
        const size_t step = size < STEP_MAX ? size : STEP_MAX;

        crc = crc32_iscsi(at, (int)step, crc);
        at += step;
        size -= step;
    }
    return ~crc;
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

enum kvt_err
g4_check_body(const struct g4_meta *stored, const struct g4_meta *expected, const void *body,
              size_t size, struct kvt_error *err)
{
    const bool known = stored != NULL && stored->present;

    assert(body != NULL || size == 0);
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

    /* The one expensive look, and only where there is something to compare with. */
    if (!known && (expected == NULL || expected->crc32c == 0))
        return KVT_OK;
    return fits_crc(stored, expected, g4_check_crc32c(body, size), err) ? KVT_OK : KVT_CORRUPT;
}
