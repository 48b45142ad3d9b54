/*
 * g4/object/little_endian.h -- little-endian numbers of one to eight bytes, wherever they stand.
 *
 * Why: object files, batches, segments and manifests are read and written at any alignment, on any
 * machine.
 * Limits:    eight bytes.
 */
#ifndef G4_OBJECT_LITTLE_ENDIAN_H
#define G4_OBJECT_LITTLE_ENDIAN_H

#include <stddef.h>
#include <stdint.h>

static inline void
g4_little_endian_put(uint8_t *at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t
g4_little_endian_get(const uint8_t *at, size_t size)
{
    uint64_t value = 0;

    for (size_t i = size; i > 0; i--)
        value = value << 8 | at[i - 1];
    return value;
}

#endif /* G4_OBJECT_LITTLE_ENDIAN_H */
