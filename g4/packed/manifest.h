/*
 * g4/packed/manifest.h -- which block of a packed namespace lies in which segment.
 *
 * Why: segments never change, so all that moves when blocks are packed, moved or deleted is this
 * map.  It never changes either: each change is the next number, created with If-None-Match, and
 * the one who creates it has decided.  A manifest is complete: it needs none before it.
 *
 * A block is *pending* at first: its segment is written, but the object with its own key still
 * counts and is what readers get.  It is *packed* once that object was seen after the manifest
 * which made it pending: from then on it is read from the segment (compaction.h says why).
 *
 * Format (docs/formats.md): header, rows of segments by name, rows of blocks by block.
 *
 * Ownership: a manifest owns its rows.  One that is all zero is the empty one, number 0, which no
 *            bucket has.
 * Threads:   none; one owner.  Any number may read one that nobody changes.
 * Limits:    G4_MANIFEST_BLOCKS_MAX and G4_MANIFEST_SEGMENTS_MAX; merging more is KVT_FULL.
 */
#ifndef G4_PACKED_MANIFEST_H
#define G4_PACKED_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/packed/segment.h"
#include "kvtier/error.h"

#define G4_MANIFEST_BLOCKS_MAX   (1u << 20)
#define G4_MANIFEST_SEGMENTS_MAX 65536u
#define G4_MANIFEST_HEADER_SIZE  64
#define G4_MANIFEST_SEGMENT_SIZE 32
#define G4_MANIFEST_BYTES_MAX                                                                      \
    ((size_t)G4_MANIFEST_HEADER_SIZE +                                                             \
     (size_t)G4_MANIFEST_SEGMENTS_MAX * G4_MANIFEST_SEGMENT_SIZE +                                 \
     (size_t)G4_MANIFEST_BLOCKS_MAX * G4_SEGMENT_ENTRY_SIZE)

enum g4_manifest_state { G4_MANIFEST_PENDING, G4_MANIFEST_PACKED };

struct g4_manifest_block {
    struct g4_segment_entry entry;
    uint32_t segment; /* which row of `segments` */
    enum g4_manifest_state state;
};

struct g4_manifest_segment {
    struct g4_segment_name name;
    uint64_t size;   /* of the object */
    uint32_t blocks; /* in it, dead ones too */
    /* What the manifest still needs of it; counted, not stored. */
    uint32_t live_blocks;
    uint32_t pending; /* of these */
    uint64_t live_bytes;
};

struct g4_manifest {
    uint64_t number;
    uint64_t epoch; /* of the lock of whoever changed it last under a lock */
    uint64_t nonce; /* random: tells the own writing from another's of the same number */
    uint64_t time_ms;
    struct g4_manifest_segment *segments;
    size_t segment_count;
    struct g4_manifest_block *blocks;
    size_t block_count;
};

/** "<namespace>/.kvt/manifest/<number>", and back (KVT_INVALID: not a manifest of it). */
KVT_NODISCARD enum kvt_err g4_manifest_key(char out[KVT_KEY_MAX], const char *namespace_,
                                           uint64_t number);
KVT_NODISCARD enum kvt_err g4_manifest_key_parse(const char *key, const char *namespace_,
                                                 uint64_t *number);

/** Is it a manifest of whatever namespace, by its key alone? */
bool g4_manifest_key_like(const char *key);

void g4_manifest_release(struct g4_manifest *manifest);

/** NULL: not in it.  What is asked for is the block of `entry`, and nothing else of it. */
const struct g4_manifest_block *g4_manifest_find(const struct g4_manifest *manifest,
                                                 const struct g4_segment_entry *entry);

/** Append all of it to an empty buffer.  KVT_OK or KVT_NOMEM (also: the buffer's limit). */
KVT_NODISCARD enum kvt_err g4_manifest_encode(const struct g4_manifest *manifest,
                                              const char *namespace_, struct kvt_buffer *out);

/**
 * @param number  what its key says
 * @return KVT_OK, KVT_CORRUPT with the reason, or KVT_NOMEM; `manifest` is zero unless it is OK
 */
KVT_NODISCARD enum kvt_err g4_manifest_decode(struct g4_manifest *manifest, const void *bytes,
                                              size_t size, const char *namespace_, uint64_t number,
                                              struct kvt_error *err);

/* What becomes of one block: it is as `block` says, or it is gone. */
struct g4_manifest_change {
    struct g4_manifest_block block; /* .segment: row of the base, or behind those, of `added` */
    bool drop;
};

/** For qsort(): by block. */
int g4_manifest_change_compare(const void *a, const void *b);

/**
 * The next manifest: `base` with changes.  Segments that no block needs any more are left out.
 *
 * @param changes  sorted, each block once; dropping what is not there changes nothing
 * @param added    segments that the base does not know; name, size and blocks
 * @param[out] out  number one more than the base's, its epoch, no nonce, no time
 * @return KVT_OK, KVT_FULL (more than the limits), KVT_NOMEM; KVT_INVALID: not sorted, a row of no
 *         segment, more blocks than one has, or one segment twice; `out` is zero unless it is OK
 */
KVT_NODISCARD enum kvt_err g4_manifest_merge(struct g4_manifest *out,
                                             const struct g4_manifest *base,
                                             const struct g4_manifest_change *changes, size_t count,
                                             const struct g4_manifest_segment *added,
                                             size_t added_count);

#endif /* G4_PACKED_MANIFEST_H */
