/*
 * gateway/http/body_checksum.h -- the checksums an S3 client may send with a body.
 *
 * Why: clients send CRC32, CRC32C, CRC64NVME, SHA-1 or SHA-256 of the body, in a header or behind
 * the body; each is checked before the body is kept, and given back as it came.
 *
 * Ownership: the caller owns all of it.
 * Threads:   any; pure functions.
 * Limits:    texts of GATEWAY_BODY_CHECKSUM_TEXT - 1 characters of base64.
 */
#ifndef GATEWAY_HTTP_BODY_CHECKSUM_H
#define GATEWAY_HTTP_BODY_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define GATEWAY_BODY_CHECKSUM_TEXT  45 /* base64 of 32 bytes, and NUL */
#define GATEWAY_BODY_CHECKSUM_BYTES 32

/* What a checksum is of, as x-amz-checksum-type says it. */
#define GATEWAY_BODY_CHECKSUM_WHOLE     "FULL_OBJECT" /* all bytes */
#define GATEWAY_BODY_CHECKSUM_COMPOSITE "COMPOSITE"   /* the checksums of an upload's parts */

/* X(NAME, header, bytes, name in XML and x-amz-checksum-algorithm) */
#define GATEWAY_BODY_CHECKSUM_MAP(X)                                                               \
    X(CRC32, "x-amz-checksum-crc32", 4, "CRC32")                                                   \
    X(CRC32C, "x-amz-checksum-crc32c", 4, "CRC32C")                                                \
    X(CRC64NVME, "x-amz-checksum-crc64nvme", 8, "CRC64NVME")                                       \
    X(SHA1, "x-amz-checksum-sha1", 20, "SHA1")                                                     \
    X(SHA256, "x-amz-checksum-sha256", 32, "SHA256")

enum gateway_body_checksum {
#define X(name, header, bytes, word) GATEWAY_BODY_CHECKSUM_##name,
    GATEWAY_BODY_CHECKSUM_MAP(X)
#undef X
        GATEWAY_BODY_CHECKSUM_COUNT
};

/* What came with a body: base64 as the client wrote it; "" for those that did not come. */
struct gateway_body_checksums {
    char text[GATEWAY_BODY_CHECKSUM_COUNT][GATEWAY_BODY_CHECKSUM_TEXT];
};

/** "x-amz-checksum-crc32", in lower case. */
const char *gateway_body_checksum_header(enum gateway_body_checksum checksum);

/** "CRC32", as x-amz-checksum-algorithm and XML name it. */
const char *gateway_body_checksum_word(enum gateway_body_checksum checksum);

/** By header name (any case), GATEWAY_BODY_CHECKSUM_COUNT when it is none. */
enum gateway_body_checksum gateway_body_checksum_of_header(const char *name);

/** By word ("crc32", any case), GATEWAY_BODY_CHECKSUM_COUNT when it is none. */
enum gateway_body_checksum gateway_body_checksum_of_word(const char *word);

/** How many bytes such a checksum has. */
size_t gateway_body_checksum_size(enum gateway_body_checksum checksum);

/** The checksum of these bytes, as it is concatenated: gateway_body_checksum_size() bytes.  false:
 * it
 *  could not be computed (OpenSSL has no memory), `out` is zeros. */
KVT_NODISCARD bool gateway_body_checksum_bytes(enum gateway_body_checksum checksum,
                                               const void *bytes, size_t size,
                                               uint8_t out[GATEWAY_BODY_CHECKSUM_BYTES]);

/** Base64 of the checksum of these bytes.  false: it could not be computed, `text` is "". */
KVT_NODISCARD bool gateway_body_checksum_text(enum gateway_body_checksum checksum,
                                              const void *bytes, size_t size,
                                              char text[GATEWAY_BODY_CHECKSUM_TEXT]);

/** Does `text` have the shape of such a checksum: base64 of just as many bytes? */
bool gateway_body_checksum_valid(enum gateway_body_checksum checksum, const char *text);

/** CRC-64/NVME (reflected 0xad93d23594c93659) of `size` more bytes; begin with 0. */
uint64_t gateway_body_checksum_crc64nvme(uint64_t crc, const void *bytes, size_t size);

#endif /* GATEWAY_HTTP_BODY_CHECKSUM_H */
