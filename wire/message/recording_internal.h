/*
 * wire/message/recording_internal.h -- the checksum of recordings: CRC-32C (Castagnoli).
 *
 * Why: writer and reader are files of their own.
 * Limits:    WIRE_RECORDING_BODY_MAX bytes.
 */
#ifndef WIRE_MESSAGE_RECORDING_INTERNAL_H
#define WIRE_MESSAGE_RECORDING_INTERNAL_H

#include <isa-l/crc.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_RECORDING_HEADER 8 /* length, checksum */

static inline uint32_t
wire_recording_crc(const uint8_t *bytes, size_t size)
{
    /* isa-l reads only, but says so only in its prose. */
    return ~crc32_iscsi((unsigned char *)(uintptr_t)bytes, (int)size, UINT32_MAX);
}

#endif /* WIRE_MESSAGE_RECORDING_INTERNAL_H */
