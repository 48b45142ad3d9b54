/*
 * g4/directory/folder_split.h -- a full folder becomes a branch of folders.
 *
 * Why: see g4/directory/tree.h.  Groups of keys that share the folder's next bytes move into a new
 * folder for all the bytes they share.  The split under way is named in the mapped usage: if its
 * process is killed, the next one to take the lock finishes the moves; after a power cut the
 * recovery does.
 * Ownership: descriptors go to the caller.
 * Limits:    a group of fewer than eight keys stays; keys that agree in G4_DEPTH_MAX bytes cannot
 * be told apart: their folder fills up.
 */
#ifndef G4_DIRECTORY_FOLDER_SPLIT_H
#define G4_DIRECTORY_FOLDER_SPLIT_H

#include "g4/directory/folder.h"
#include "g4/directory/tree.h"
#include "kvtier/error.h"

/** Take the tree lock shared with every file in its place; the descriptor, or -1 with errno. */
int g4_folder_split_lock(struct g4_tree *tree);

/** Split the deepest folder along `key`, unless it is no longer at `depth`.  Takes the tree lock.
 */
KVT_NODISCARD enum kvt_err g4_folder_split(struct g4_tree *tree, const char *key, size_t depth,
                                           struct kvt_error *err);

/** Move the files of this folder that belong into one of its branches; the tree is locked
 *  exclusively.  `moved` counts. */
KVT_NODISCARD enum kvt_err g4_folder_split_tidy(struct g4_tree *tree, int fd,
                                                const struct g4_folder *folder, const char *prefix,
                                                size_t depth, size_t *moved, struct kvt_error *err);

#endif /* G4_DIRECTORY_FOLDER_SPLIT_H */
