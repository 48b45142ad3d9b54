/*
 * g4/object/check.h -- is this body the block it claims to be?
 *
 * Why: a truncated, flipped or foreign object must be a miss, never data.  One function decides,
 * and gateway, client, CLI and tests all call it.
 *
 */
#ifndef G4_OBJECT_CHECK_H
#define G4_OBJECT_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

/** CRC-32C (Castagnoli, RFC 3720 appendix B.4) of `size` bytes. */
uint32_t g4_check_crc32c(const void *bytes, size_t size);

/** The crc of some bytes and `size` more behind them; that of none is 0. */
uint32_t g4_check_crc32c_more(uint32_t crc, const void *bytes, size_t size);

/** How the crc of some bytes changes the crc of what comes in front of them, for `size` bytes
 *  behind; takes microseconds, and is the same for all pieces of one size. */
uint32_t g4_check_crc32c_shift(uint64_t size);

/** The crc of two texts behind each other; `shift` is the second's size's. */
uint32_t g4_check_crc32c_join(uint32_t first, uint32_t second, uint32_t shift);

#define G4_CHECK_CRC32C_TEXT_MAX 9

/** The crc as x-amz-checksum-crc32c has it: base64 of its bytes, most significant first. */
void g4_check_crc32c_text(uint32_t crc, char text[G4_CHECK_CRC32C_TEXT_MAX]);

/**
 * @param expected  what the key is supposed to hold; zero members are not compared
 * @return KVT_OK or KVT_CORRUPT with the reason in `err` ("length 512, expected 1024")
 */
KVT_NODISCARD enum kvt_err g4_check_body(const struct g4_meta *stored,
                                         const struct g4_meta *expected, const void *body,
                                         size_t size, struct kvt_error *err);

/** The same of the body a GET has brought; it is not read again where its crc came with it. */
KVT_NODISCARD enum kvt_err g4_check_answer(const struct g4_request *request,
                                           const struct g4_meta *expected, struct kvt_error *err);

#endif /* G4_OBJECT_CHECK_H */
