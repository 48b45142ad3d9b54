/*
 * g4/object/pieces.h -- the crc of a body as the crcs of its pieces.
 *
 * Why: a body that has to be checked as a whole has to be in memory as a whole before its first
 * byte may be given out.  Pieces are checked one by one, while they are in the processor's cache,
 * and together they have the whole body's crc: they cannot say anything else than it does.
 *
 * Limits:    G4_PIECES_MAX pieces, all of one size but the last.
 */
#ifndef G4_OBJECT_PIECES_H
#define G4_OBJECT_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define G4_PIECES_MAX       64
#define G4_PIECES_SHIFT_MIN 17 /* 128 KiB: half a megabyte of cache holds what is worked on */
#define G4_PIECES_SHIFT_MAX 40

struct g4_pieces {
    uint32_t shift; /* log2 of a piece's bytes; 0: the body was not taken to pieces */
    uint32_t crc32c[G4_PIECES_MAX];
};

/** Take a body to pieces; its crc32c. */
uint32_t g4_pieces_describe(struct g4_pieces *pieces, const void *body, size_t size);

/* The same while the body comes, and is in the processor's cache. */
struct g4_pieces_feed {
    struct g4_pieces pieces;
    uint64_t size; /* to come in all */
    uint64_t done;
};

void g4_pieces_begin(struct g4_pieces_feed *feed, uint64_t size);

/** The next bytes; of a feed that was not begun, nothing. */
void g4_pieces_take(struct g4_pieces_feed *feed, const void *bytes, size_t size);

/** True: all of a body of `size` bytes came, no more, and this is its crc32c. */
bool g4_pieces_end(const struct g4_pieces_feed *feed, uint64_t size, uint32_t *crc32c);

/** Do these pieces make a body of that size and crc? */
bool g4_pieces_fit(const struct g4_pieces *pieces, uint64_t size, uint32_t crc32c);

/** Bytes of a piece, of all but the last. */
size_t g4_pieces_size(const struct g4_pieces *pieces);

/** Bytes of piece `number` of a body of `size` bytes; 0 behind its end. */
size_t g4_pieces_length(const struct g4_pieces *pieces, uint64_t size, uint64_t number);

#endif /* G4_OBJECT_PIECES_H */
