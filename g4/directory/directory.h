/*
 * g4/directory/directory.h -- a folder as a store: the embedded default, and the shape of a hot
 * volume.
 *
 * Why: KVTier must run without any S3, with the same promises: O_TMPFILE, fsync, linkat (EEXIST is
 * "already there"), fsync of the folder.  Metadata and ETag live in a header in front of the body.
 *
 * Ownership: options are copied.
 * Threads:   `threads` I/O threads; submit from any.
 * Limits:    no folder holds more than 4,096 entries (fan-out by hash); `bytes_max` of bodies (0 =
 *            none): more is KVT_FULL; a full disk is KVT_FULL too.
 */
#ifndef G4_DIRECTORY_DIRECTORY_H
#define G4_DIRECTORY_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/directory/body.h"
#include "g4/object/g4_store.h"
#include "kvtier/error.h"

struct g4_directory_options {
    const char *path;
    unsigned threads;   /* 0 = 2 */
    unsigned queue_max; /* 0 = 4096 */
    uint64_t bytes_max;
};

KVT_NODISCARD enum kvt_err g4_directory_open(struct g4_store **out,
                                             const struct g4_directory_options *options,
                                             struct kvt_error *err);

/**
 * Open an object's body on the calling thread, to be read in pieces.
 *
 * @param body  the caller's to close when KVT_OK
 * @return as a GET, and KVT_UNSUPPORTED: the store is another one, or the object without pieces
 */
KVT_NODISCARD enum kvt_err g4_directory_body(struct g4_store *store, const char *key,
                                             struct g4_body *body, struct kvt_error *err);

/** The same where nothing has to be waited for, no lock and no disk; KVT_AGAIN: g4_directory_body()
 *  knows more.  What it finds may have been replaced or removed this very moment. */
KVT_NODISCARD enum kvt_err g4_directory_peek(struct g4_store *store, const char *key,
                                             struct g4_body *body);

#define G4_SYNC_KEYS_MAX 64

/**
 * Make objects that were put `unsynced` durable, on the calling thread.
 *
 * @param count    at most G4_SYNC_KEYS_MAX
 * @param refused  `count` of them: the disk failed to write this one.  It says so once: to sync the
 *                 same file again tells nothing, it has to be written anew or to go.
 * @return KVT_OK: a power cut takes none of those that are there; another one: it may
 */
KVT_NODISCARD enum kvt_err g4_directory_sync(struct g4_store *store, const char *const *keys,
                                             size_t count, bool *refused, struct kvt_error *err);

#endif /* G4_DIRECTORY_DIRECTORY_H */
