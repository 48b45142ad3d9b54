/*
 * g4/directory/directory_internal.h -- the parts of a directory store: its requests, files that get
 * a name, and walks over its tree.
 *
 * Why: directory.h shows none of them.
 */
#ifndef G4_DIRECTORY_DIRECTORY_INTERNAL_H
#define G4_DIRECTORY_DIRECTORY_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "g4/directory/directory.h"
#include "g4/directory/tree.h"

/* ---- requests ---- */

/*
 * The promises of S3 in terms of files: a new object is a nameless file, synced, and linked to its
 * name (a taken name = "already there"); a replacement is renamed over the old one while the stripe
 * of its key is locked; a deletion is synced too.  What was acknowledged survives a power cut, and
 * an object is never there in part.  Requests marked `unsynced` wait for
 * g4_directory_volume_sync() instead.
 *
 * Ownership: g4_directory_volume_close() frees; requests are borrowed for the call.
 * Threads:   any number of threads and processes.
 * Limits:    `bytes_max` of bodies, 0 = none; counted before they are written, so it is never
 *            passed.
 */

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

/* ---- files without a name ---- */

/*
 * A file is complete before it gets a name: a name must never stand for half an object.  Release
 * it in any case; a file without a name is then gone.  Functions return 0, or -1 with errno.
 */

#define G4_STAGE_NAME_MAX 32

struct g4_stage {
    int fd;
    int tmp;                      /* borrowed: the folder for names on the way */
    char name[G4_STAGE_NAME_MAX]; /* in `tmp`; "" = nameless */
};

/** Write header, attributes (NULL: none; padded to where the body starts) and body. */
int g4_stage_write(struct g4_stage *stage, int tmp, const uint8_t *header, const char *attributes,
                   const void *body, size_t size);

int g4_stage_sync(const struct g4_stage *stage);

/** Give it a name that must be free (EEXIST). */
int g4_stage_link(struct g4_stage *stage, int folder, const char *name);

/** Give it a name in place of the file that has it. */
int g4_stage_rename(struct g4_stage *stage, int folder, const char *name);

void g4_stage_release(struct g4_stage *stage);

/* ---- walks over all keys ---- */

/*
 * LIST answers as S3 does: in UTF-8 byte order, from any key on.  At most G4_LIST_KEYS_MAX keys a
 * page; memory of one folder's names per level.  g4_tree_walk_recover() is called only while the
 * store is opened alone.
 */

/** Fill one page of a G4_LIST request.  The token is the last key of the page before. */
KVT_NODISCARD enum kvt_err g4_tree_walk_list(struct g4_tree *tree, struct g4_request *request);

/** Count bodies, put misplaced files into their folders, remove empty folders and the files that
 *  were on their way when their process ended. */
KVT_NODISCARD enum kvt_err g4_tree_walk_recover(struct g4_tree *tree, struct kvt_error *err);

#endif /* G4_DIRECTORY_DIRECTORY_INTERNAL_H */
