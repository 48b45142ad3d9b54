/*
 * wire/record_crc.h -- the checksum of recordings: CRC-32C (Castagnoli).
 *
 * Why: writer and reader are files of their own.
 * Ownership: plain values.
 * Threads:   any.
 * Limits:    WIRE_RECORD_BODY_MAX bytes.
 */
#ifndef WIRE_RECORD_CRC_H
#define WIRE_RECORD_CRC_H

#include <isa-l/crc.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_RECORD_HEADER 8 /* length, checksum */

static inline uint32_t
wire_record_crc(const uint8_t *bytes, size_t size)
{
    /* isa-l reads only, but says so only in its prose. */
    return ~crc32_iscsi((unsigned char *)(uintptr_t)bytes, (int)size, UINT32_MAX);
}

#endif /* WIRE_RECORD_CRC_H */
