#include "g4/object/sha256.h"

#include <openssl/sha.h>
#include <stdint.h>

#include "base/text/hex.h"

void
g4_sha256_hex(const void *bytes, size_t size, char hex[G4_SHA256_HEX_MAX])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];

    (void)SHA256(bytes, size, digest);
    kvt_hex_format(digest, sizeof(digest), hex);
}
