/*
 * g4/directory/object_file.h -- an object as a file: a header of its own in front of the body.
 *
 * Why: the metadata must be exactly as durable as the bytes it speaks of, and a file that was cut,
 * flipped, or put there by somebody else must be recognised.
 *
 * Format, little-endian, in the first G4_OBJECT_FILE_HEADER_SIZE bytes; the body starts at
 * G4_OBJECT_FILE_BODY_AT and ends with the file:
 *   0 "KVTOBJ\r\n"   8 version u32   12 crc32c u32 of bytes 16..1023   16 body length u64
 *   24 body crc32c u32   28 flags u32 (1: metadata present)   32 fingerprint u64
 *   40 modified u64, Unix ms   48 writer, 64 bytes   112 etag, 80 bytes   192 key, 512 bytes
 *   704 attributes' length u32   708 their crc32c u32
 *   712 log2 of the size of the body's pieces u32, 0: none   716 crc32c u32 of each, zeros
 *   1024 attributes, zeros
 *
 * Limits:    as g4/object/g4_store.h.
 */
#ifndef G4_DIRECTORY_OBJECT_FILE_H
#define G4_DIRECTORY_OBJECT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "g4/object/pieces.h"
#include "kvtier/error.h"

#define G4_OBJECT_FILE_HEADER_SIZE 1024
#define G4_OBJECT_FILE_BODY_AT     4096

struct g4_object_file {
    char key[KVT_KEY_MAX];
    char etag[G4_ETAG_MAX];
    struct g4_meta meta; /* `length` is always the body's */
    uint32_t body_crc32c;
    uint64_t modified_ms;
    uint32_t attributes_size; /* of the text behind the header */
    uint32_t attributes_crc32c;
    struct g4_pieces pieces; /* as the header says: g4_pieces_fit() before they are used */
};

void g4_object_file_encode(const struct g4_object_file *object,
                           uint8_t header[G4_OBJECT_FILE_HEADER_SIZE]);

/**
 * Read and check the header of an open file.  Also when it is KVT_CORRUPT, `object` has an etag
 * (made from the file's number, size and time), so that a repair can be conditional, and the length
 * that the file has room for.
 *
 * @param key  what the object must be called, or NULL
 */
KVT_NODISCARD enum kvt_err
g4_object_file_read(int fd, const char *key, struct g4_object_file *object, struct kvt_error *err);

/** The same, waiting for no disk: KVT_AGAIN, the header is not in memory. */
KVT_NODISCARD enum kvt_err g4_object_file_read_at_once(int fd, const char *key,
                                                       struct g4_object_file *object,
                                                       struct kvt_error *err);

/** Read the attributes of an open object file; KVT_CORRUPT when they fail their crc. */
KVT_NODISCARD enum kvt_err g4_object_file_attributes(int fd, const struct g4_object_file *object,
                                                     char text[G4_ATTRIBUTES_MAX],
                                                     struct kvt_error *err);

/** Bytes of body in a file of `file_size`. */
uint64_t g4_object_file_body_size(uint64_t file_size);

#endif /* G4_DIRECTORY_OBJECT_FILE_H */
