/*
 * g4/directory/directory_volume.h -- the verbs of a directory store, one after the other.
 *
 * Why: the promises of S3 in terms of files: a new object is a nameless file, synced, and linked to
 * its name (that name taken = "already there"); a replacement is renamed over the old one while its
 * key's stripe is locked; a deletion is synced too.  What was acknowledged is there after a power
 * cut, and nothing is ever there in part.
 * Only who says so waits for g4_directory_volume_sync() instead.
 * Ownership: g4_directory_volume_close() frees; requests are borrowed for the call.
 * Threads:   any number of threads and processes.
 * Limits:    `bytes_max` of bodies, 0 = none; counted before they are written, so it is never
 * passed.
 */
#ifndef G4_DIRECTORY_DIRECTORY_VOLUME_H
#define G4_DIRECTORY_DIRECTORY_VOLUME_H

#include <stdint.h>

#include "g4/directory/body.h"
#include "g4/object/g4_store.h"
#include "kvtier/error.h"

struct g4_directory_volume;

KVT_NODISCARD enum kvt_err g4_directory_volume_open(struct g4_directory_volume **out,
                                                    const char *path, uint64_t bytes_max,
                                                    struct kvt_error *err);
void g4_directory_volume_close(struct g4_directory_volume *volume);

/** Open an object's body, to be read in pieces.  As a GET, and KVT_UNSUPPORTED: it was written
 *  without them.  `body` is the caller's to close when KVT_OK. */
KVT_NODISCARD enum kvt_err g4_directory_volume_body(struct g4_directory_volume *volume,
                                                    const char *key, struct g4_body *body,
                                                    struct kvt_error *err);

/** The same where nothing has to be waited for; KVT_AGAIN: ask g4_directory_volume_body(). */
KVT_NODISCARD enum kvt_err g4_directory_volume_peek(struct g4_directory_volume *volume,
                                                    const char *key, struct g4_body *body);

/** As g4_directory_sync(). */
KVT_NODISCARD enum kvt_err g4_directory_volume_sync(struct g4_directory_volume *volume,
                                                    const char *const *keys, size_t count,
                                                    bool *refused, struct kvt_error *err);

/** Do it; the result is in the request. */
void g4_directory_volume_perform(struct g4_directory_volume *volume, struct g4_request *request);

#endif /* G4_DIRECTORY_DIRECTORY_VOLUME_H */
