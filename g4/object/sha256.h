/*
 * g4/object/sha256.h -- SHA-256 in hex: file names and signatures are made of it.
 *
 * Why: `directory` and `s3` both need it and must not include each other.
 */
#ifndef G4_OBJECT_SHA256_H
#define G4_OBJECT_SHA256_H

#include <stddef.h>

#define G4_SHA256_HEX_MAX 65

void g4_sha256_hex(const void *bytes, size_t size, char hex[G4_SHA256_HEX_MAX]);

#endif /* G4_OBJECT_SHA256_H */
