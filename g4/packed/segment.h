/*
 * g4/packed/segment.h -- many blocks in one object: writing one, reading its index, checking its
 * bytes.
 *
 * Why: a bucket of small objects costs a request and a row for each; a segment holds thousands and
 * gives each back by one ranged read.  It is readable alone, from its end: what a manifest says of
 * it (g4/packed/manifest.h) can be checked, and told anew when all manifests are lost.
 *
 * Format (docs/formats.md): header, bodies one behind another, index sorted by block, trailer.
 *
 * Ownership: a builder owns its bytes until it is cleared or freed; an opened segment owns its
 *            index and nothing of what it was read from.
 * Threads:   none; one owner.
 * Limits:    G4_SEGMENT_BYTES_MAX and G4_SEGMENT_BLOCKS_MAX; a block has at least one byte.
 */
#ifndef G4_PACKED_SEGMENT_H
#define G4_PACKED_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define G4_SEGMENT_BYTES_MAX    (UINT64_C(256) << 20)
#define G4_SEGMENT_BLOCKS_MAX   16384
#define G4_SEGMENT_HEADER_SIZE  32
#define G4_SEGMENT_ENTRY_SIZE   88
#define G4_SEGMENT_ENTRY_FREE   40 /* of a row: 8 bytes that index and manifest use apart */
#define G4_SEGMENT_ETAG         32 /* bytes of an ETag; an object with a longer one is not packed */
#define G4_SEGMENT_TRAILER_SIZE 64
#define G4_SEGMENT_TAIL         65536 /* read first: trailer, and index of up to 744 blocks */

/* Below it lies what belongs to the packing of a namespace; no block's key begins like that. */
#define G4_SEGMENT_FOLDER "/.kvt/"

/* A segment's name is never used twice: the epoch is that of the lock under which it was written,
 * the nonce is random. */
struct g4_segment_name {
    uint64_t epoch;
    uint64_t nonce;
};

/* One block, and where its bytes lie in its segment.  Its object's ETag and time come along: what
 * clients are told of a block does not change because it is packed. */
struct g4_segment_entry {
    uint64_t hash;   /* as it stands in the key */
    uint64_t parent; /* the fragment in the key; 0 at position 0 */
    uint32_t rank;
    uint32_t position;
    uint64_t fingerprint;
    uint64_t modified_ms; /* Unix */
    uint32_t crc32c;
    uint32_t offset;
    uint32_t length;
    char etag[G4_SEGMENT_ETAG]; /* padded with NULs, and not ended by one when it fills it */
};

/** "<namespace>/.kvt/segment/<epoch>-<nonce>", and back (KVT_INVALID: not a segment of it).
 *  A namespace is needed: in the mode without, KVBM must find every block by itself. */
KVT_NODISCARD enum kvt_err g4_segment_key(char out[KVT_KEY_MAX], const char *namespace_,
                                          const struct g4_segment_name *name);
KVT_NODISCARD enum kvt_err g4_segment_key_parse(const char *key, const char *namespace_,
                                                struct g4_segment_name *name);

/** By epoch, then nonce: below 0, 0 or above 0. */
int g4_segment_name_compare(const struct g4_segment_name *a, const struct g4_segment_name *b);

/** The block of a key; everything else is zero. */
struct g4_segment_entry g4_segment_entry_of(const struct kvt_key *key);

/** By block alone (hash, parent, rank, position): below 0, 0 or above 0. */
int g4_segment_entry_compare(const struct g4_segment_entry *a, const struct g4_segment_entry *b);

/** The same block with the same ETag and the same bytes, as far as length and sums tell? */
bool g4_segment_entry_same(const struct g4_segment_entry *a, const struct g4_segment_entry *b);

/** The object key of a block.  KVT_OK, KVT_INVALID or KVT_RANGE. */
KVT_NODISCARD enum kvt_err g4_segment_entry_key(char out[KVT_KEY_MAX], const char *namespace_,
                                                const struct g4_segment_entry *entry);

/** A row of index or manifest, but for the 8 bytes at G4_SEGMENT_ENTRY_FREE: the caller's. */
void g4_segment_entry_put(uint8_t row[G4_SEGMENT_ENTRY_SIZE], const struct g4_segment_entry *entry);

/** False when no block can be so; `entry` is then zero. */
KVT_NODISCARD bool g4_segment_entry_get(const uint8_t row[G4_SEGMENT_ENTRY_SIZE],
                                        struct g4_segment_entry *entry);

/** What a body of this block must be. */
struct g4_meta g4_segment_entry_meta(const struct g4_segment_entry *entry);

/** Take over the ETag of an object.  False, and `entry` has none: it is too long. */
KVT_NODISCARD bool g4_segment_entry_set_etag(struct g4_segment_entry *entry, const char *etag);

/** The ETag as text. */
void g4_segment_entry_etag(const struct g4_segment_entry *entry, char out[G4_ETAG_MAX]);

/* ---- writing ---- */

struct g4_segment_builder;

/** `bytes_max` of the whole segment, `blocks_max` blocks; more is KVT_FULL of _add. */
KVT_NODISCARD enum kvt_err g4_segment_builder_new(struct g4_segment_builder **out, size_t bytes_max,
                                                  size_t blocks_max);
void g4_segment_builder_free(struct g4_segment_builder *builder);

/** Begin again, with the memory there is. */
void g4_segment_builder_clear(struct g4_segment_builder *builder);

size_t g4_segment_builder_count(const struct g4_segment_builder *builder);

/**
 * Append a copy of a body.
 *
 * @param block  which one, with crc and fingerprint; the offset is set here, and a length of 0
 * @return KVT_OK; KVT_FULL: finish first; KVT_CORRUPT: not the bytes that `block` speaks of;
 *         KVT_RANGE: no segment of this size can hold it; KVT_INVALID: no bytes; KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err g4_segment_builder_add(struct g4_segment_builder *builder,
                                                  const struct g4_segment_entry *block,
                                                  const void *body, size_t size,
                                                  struct kvt_error *err);

/**
 * Write header, index and trailer around what was added.  Nothing can be added until it is cleared.
 *
 * @param[out] bytes    the segment; the builder's, as `entries` (sorted), until cleared or freed
 * @return KVT_OK, KVT_INVALID (no blocks, or one twice) or KVT_NOMEM; then `bytes` is NULL
 */
KVT_NODISCARD enum kvt_err g4_segment_builder_finish(struct g4_segment_builder *builder,
                                                     const struct g4_segment_name *name,
                                                     const void **bytes, size_t *size,
                                                     const struct g4_segment_entry **entries);

/* ---- reading ---- */

struct g4_segment {
    struct g4_segment_name name;
    uint64_t size;                    /* of the object */
    uint64_t bodies_end;              /* where the index begins */
    struct g4_segment_entry *entries; /* sorted */
    size_t count;
};

/**
 * Read the index from an object's last bytes.
 *
 * @param tail       the last `tail_size` bytes of the object
 * @param size       of the whole object
 * @param[out] need  with KVT_AGAIN: how many last bytes it takes
 * @return KVT_OK, KVT_AGAIN, KVT_CORRUPT (with the reason) or KVT_NOMEM; `segment` is zero unless
 *         it is OK
 */
KVT_NODISCARD enum kvt_err g4_segment_open(struct g4_segment *segment, const void *tail,
                                           size_t tail_size, uint64_t size, size_t *need,
                                           struct kvt_error *err);
void g4_segment_release(struct g4_segment *segment);

/** Are these all the bytes of an opened segment: its header, and every body?  KVT_OK or CORRUPT. */
KVT_NODISCARD enum kvt_err g4_segment_check(const struct g4_segment *segment, const void *bytes,
                                            size_t size, struct kvt_error *err);

#endif /* G4_PACKED_SEGMENT_H */
