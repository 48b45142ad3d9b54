/*
 * g4/object/kind.h -- what an object of a bucket is, by its key and by what travels beside it.
 *
 * Why: the gateway, the CLI and a check of the bucket must agree on what is a block, what is a
 * sign left by the protocol, and what is somebody else's: only then may one of them clean up.
 *
 * Limits:    keys of KVT_KEY_MAX bytes; longer ones are opaque.
 */
#ifndef G4_OBJECT_KIND_H
#define G4_OBJECT_KIND_H

#include <stdbool.h>

#include "g4/object/g4_store.h"
#include "kvtier/key.h"

#define G4_KIND_META_SUFFIX ".meta"
#define G4_LOCK_SUFFIX      ".lock" /* of the objects of g4/lock/lock.h */

/* Below these are clients' objects (g4/object/object_name.h); all else that begins with ".kvtier-"
 * is of KVTier. */
#define G4_OBJECT_NAME_ESCAPED ".kvtier-key/"
#define G4_OBJECT_NAME_HASHED  ".kvtier-long/"

/* Writer of the empty object that takes the place of a bad block. */
#define G4_KIND_TOMBSTONE_WRITER "tombstone"

/* Fingerprint of a tombstone that speaks for a second bucket, too: the block was removed, wherever
 * it still lies (g4/pair/bucket_pair.h). */
#define G4_KIND_REMOVED 1

enum g4_kind {
    G4_KIND_BLOCK,
    G4_KIND_TOMBSTONE, /* a block's key; only a HEAD or GET can tell it from a block */
    G4_KIND_LOCK,
    G4_KIND_META, /* KVBM's commit record of a block */
    G4_KIND_OWN,  /* of KVTier itself */
    G4_KIND_OPAQUE,
};

#define G4_KIND_COUNT 6

/** "block", "tombstone", "lock", "meta", "own", "opaque". */
const char *g4_kind_name(enum g4_kind kind);

/** By the key alone: never G4_KIND_TOMBSTONE.  `parsed` (NULL allowed) is set for a block. */
enum g4_kind g4_kind_of_key(const char *key, struct kvt_key *parsed);

/** By a HEAD or GET that ended OK or CORRUPT. */
enum g4_kind g4_kind_of_object(const struct g4_request *seen);

/** Is it a tombstone that says that its block was removed? */
bool g4_kind_is_removed(const struct g4_request *seen);

/** The key of shard 0 of the block that the commit record `key` speaks of; false when `key` is
 *  no commit record. */
bool g4_kind_meta_block(const char *key, char block[KVT_KEY_MAX]);

/** Does what HEAD shows look like a whole block?  NULL, or what is wrong. */
const char *g4_kind_judge_block(const struct g4_request *seen);

#endif /* G4_OBJECT_KIND_H */
